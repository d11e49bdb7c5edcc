"""`RunOutcome` and `MapProgress`: the outcome of one prompt of `map_runs`, and the progress of all with its display."""

import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias

from typing_extensions import TypeVar

from claude_agent_py._base.display import one_line
from claude_agent_py._base.errors import OptionsError, RunFailed
from claude_agent_py.messages import Prompt
from claude_agent_py.runs import RunResult

Output = TypeVar("Output", default=Any)


@dataclass(frozen=True, kw_only=True)
class RunOutcome(Generic[Output]):
    """The outcome of one prompt: an answer or an error."""

    index: int
    """The place of the prompt in the list, from 0."""
    prompt: Prompt
    error: RunFailed | None = None
    """The error of the last attempt; None if there is an answer."""
    result: RunResult[Output] | None = None
    """The result of the last attempt, including messages; None without one, or if the outcome comes from a journal."""
    text: str = ""
    """The answer."""
    output: Output = None  # type: ignore[assignment]
    """The structured output."""
    session_id: str = ""
    """The session of the last attempt, for `resume`."""
    cost_usd: float = 0.0
    """The cost of all attempts in US dollars, as estimated by the CLI."""
    attempts: int = 1
    """How many times the prompt ran."""
    from_journal: bool = False
    """Whether the answer was read from the journal."""

    @property
    def ok(self) -> bool:
        """Whether there is an answer."""
        return self.error is None

    def __repr__(self) -> str:
        error = self.error
        what = repr(self.text[:60]) if error is None else f"{type(error).__name__}: {one_line(str(error))}"
        return f"<RunOutcome {self.index} {what}>"


@dataclass(frozen=True, kw_only=True)
class MapProgress:
    """The progress of `map_runs`."""

    total: int
    """How many prompts there are."""
    done: int
    """How many prompts have an outcome, including outcomes from a journal."""
    failed: int
    """How many outcomes are errors."""
    running: int
    """How many prompts are running, waiting for a process, or waiting for a retry."""
    cost_usd: float
    """The cost so far in US dollars, without outcomes from the journal."""


def build_outcome(index: int, prompt: Prompt, ended: RunResult | RunFailed, failures: list[RunFailed]) -> RunOutcome:
    """Return the outcome of a prompt from its result or final error, and the errors of all failed attempts."""
    results = [failure.result for failure in failures]
    if isinstance(ended, RunFailed):
        fields: dict[str, Any] = {"error": ended, "result": ended.result}
    else:
        fields = {"result": ended, "text": ended.text, "output": ended.output}
        results.append(ended)
    return RunOutcome(
        index=index,
        prompt=prompt,
        session_id="" if fields["result"] is None else fields["result"].session_id,
        cost_usd=sum(result.cost_usd for result in results if result is not None),
        attempts=len(results),
        **fields,
    )


Progress: TypeAlias = bool | Callable[[MapProgress], object] | None
"""None shows a bar in a terminal if `rich` is installed; True always; False never. A function is called instead."""

Report: TypeAlias = Callable[[MapProgress], object]


def check_progress(progress: object) -> None:
    """Check the `progress` option.

    Raises:
        OptionsError: The value is neither a bool nor a function, or `rich` is needed and missing.
    """
    if progress is not None and not isinstance(progress, bool) and not callable(progress):
        raise OptionsError(f"must be a bool or a function, not {progress!r}", option="progress")
    if progress is True and not _has_rich():
        raise OptionsError("needs rich: pip install rich", option="progress")


@contextmanager
def show_progress(progress: Progress, first: MapProgress) -> Iterator[Report]:
    """Show progress during the block. Yields the function to call with each change."""
    if callable(progress):
        progress(first)
        yield progress
        return
    if progress is False or (progress is None and not (sys.stderr.isatty() and _has_rich())):
        yield lambda progress: None
        return
    from rich import console, progress as bars

    columns = (
        bars.BarColumn(),
        bars.MofNCompleteColumn(),
        bars.TextColumn("{task.description}"),
        bars.TimeRemainingColumn(),
    )
    with bars.Progress(*columns, console=console.Console(stderr=True), transient=True) as bar:
        task = bar.add_task(_format_counts(first), total=first.total, completed=first.done)

        def update(now: MapProgress) -> None:
            bar.update(task, completed=now.done, description=_format_counts(now))

        yield update


def _has_rich() -> bool:
    try:
        return importlib.util.find_spec("rich") is not None
    except ValueError:
        # `find_spec` raises this for a module in `sys.modules` without a spec.
        return False


def _format_counts(now: MapProgress) -> str:
    failed = f"{now.failed} failed, " if now.failed else ""
    return f"{failed}{now.running} running, {now.cost_usd:.4f} USD"
