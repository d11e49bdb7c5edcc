"""`map_runs`: many prompts, several concurrently, each in a separate session. See also `job.py`, which runs them."""

from __future__ import annotations

import warnings
from collections.abc import AsyncIterable, AsyncIterator, Generator, Iterable
from pathlib import Path
from typing import Any, Generic, Never, Self

import anyio
from anyio.lowlevel import checkpoint

from claude_agent_py._base.checks import check_count
from claude_agent_py._base.errors import OptionsError
from claude_agent_py.messages import Prompt, check_prompt
from claude_agent_py.options import ClientOptions, options_or_defaults, refuse_options
from claude_agent_py.pool.job import Job
from claude_agent_py.pool.outcome import MapProgress, Output, Progress, RunOutcome, check_progress
from claude_agent_py.pool.pool import Pool
from claude_agent_py.retrying import RetryPolicy
from claude_agent_py.runs import Until, check_run_arguments


def map_runs(
    prompts: Iterable[Prompt],
    options: ClientOptions[Output] | None = None,
    *,
    concurrency: int = 8,
    ordered: bool = True,
    retry: RetryPolicy | None = None,
    journal: str | Path | None = None,
    progress: Progress = None,
    pool: Pool | None = None,
    memory: int | str | None = None,
    until: Until = "idle",
    timeout: float | None = None,
    **misplaced: Never,
) -> MapRuns[Output]:
    """Run many prompts, each in a separate session. Iterate over the outcomes, or await their list.

        async with map_runs(prompts, options, journal="runs.jsonl") as runs:
            async for outcome in runs:
                print(outcome.index, outcome.text if outcome.ok else outcome.error)

    Errors that end a run are values (`RunOutcome.error`); any other error, such as an `OptionsError`, is raised and
    stops all runs. The runs start with the first iteration or await.

    Args:
        prompts: Prompts as for `run`. All are read before the first run starts.
        options: The options of the sessions.
        concurrency: How many prompts run concurrently.
        ordered: Yield the outcomes in the order of the prompts, or, if False, as they arrive.
        retry: When to run a prompt again; None means `RetryPolicy()`. A waiting prompt keeps its slot.
        journal: A file that records every outcome. Another call with the same prompts reads the answers from it
            and runs only the remaining prompts, failed ones included.
        progress: None shows a bar in a terminal if `rich` is installed, True always, False never. A
            function `(MapProgress) -> None` is called in the event loop instead.
        pool: The pool to use; None creates one with `concurrency` processes and half as many spares.
        memory: The memory limit of that pool, as in `Pool`.
        until: As in `run`.
        timeout: Seconds for each attempt, not counting the wait for a process; None means `Timeouts.run`.
        **misplaced: Options belong in `options`; here they are a TypeError.

    Raises:
        OptionsError: An argument or a prompt is invalid.
    """
    refuse_options("map_runs", misplaced)
    checked_options = options_or_defaults(options)
    check_count(concurrency, "concurrency", 1)
    check_run_arguments(until, timeout)
    check_progress(progress)
    if pool is not None and memory is not None:
        raise OptionsError("must be None with a pool, which has its own limit", option="memory")
    job = Job(
        prompts=[_check_listed_prompt(prompt) for prompt in _check_iterable(prompts)],
        options=checked_options,
        concurrency=concurrency,
        retry=retry or RetryPolicy(),
        until=until,
        timeout=timeout,
        journal=journal,
        show=progress,
        pool=pool,
        memory=memory,
    )
    return MapRuns(job, ordered=ordered)


def _check_iterable(prompts: object) -> Iterable[object]:
    if isinstance(prompts, str | bytes | dict) or not isinstance(prompts, Iterable):
        raise OptionsError(f"must be a list of prompts, not {type(prompts).__name__}", option="prompts")
    return prompts


def _check_listed_prompt(prompt: Any) -> Prompt:
    if isinstance(prompt, AsyncIterable):
        raise OptionsError("must not contain an async iterable, because it cannot be repeated", option="prompts")
    check_prompt(prompt)
    return prompt  # type: ignore[no-any-return]


class MapRuns(Generic[Output]):
    """The runs of `map_runs`.

    * `async for outcome in runs` yields the outcomes. Leaving the loop early loses nothing: iterate again to continue.
    * `await runs` returns the list of all outcomes, in the order of the prompts. Cancelling it stops the runs.
    * `async with runs` stops the remaining runs on exit.

    Only one worker may iterate at a time.
    """

    def __init__(self, job: Job, *, ordered: bool) -> None:
        self._job = job
        self._ordered = ordered

    def __repr__(self) -> str:
        now = self._job.progress
        return f"<MapRuns {now.done} of {now.total} done, {now.failed} failed>"

    @property
    def progress(self) -> MapProgress:
        """The progress of the runs."""
        return self._job.progress

    def __aiter__(self) -> AsyncIterator[RunOutcome[Output]]:
        return self

    async def __anext__(self) -> RunOutcome[Output]:
        return await self._job.next(ordered=self._ordered)

    def __await__(self) -> Generator[object, None, list[RunOutcome[Output]]]:
        return self._all().__await__()

    async def _all(self) -> list[RunOutcome[Output]]:
        try:
            return await self._job.all()
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._job.stop()
            raise

    async def __aenter__(self) -> Self:
        await checkpoint()
        return self

    async def __aexit__(self, *exc: object) -> None:
        with anyio.CancelScope(shield=True):
            await self._job.stop()

    def __del__(self) -> None:
        self._job.stop_soon()
        if not self._job.was_begun:
            warnings.warn(
                "map_runs(...) was never awaited, so its prompts were not sent: await it, or iterate over it",
                RuntimeWarning,
                stacklevel=2,  # the line that dropped it
                source=self,
            )
