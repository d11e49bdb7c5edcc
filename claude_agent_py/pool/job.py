"""`Job`: the work behind `MapRuns`, with its own workers, independent of its readers; and its `JobJournal`."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import math
import os
import stat
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import anyio
import msgspec
from anyio.lowlevel import checkpoint
from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from claude_agent_py._base.errors import ConnectionClosedError, OptionsError, RunFailed, first_error
from claude_agent_py._base.event_loop import from_any_thread, run_file_work, spawn_detached, worker
from claude_agent_py._base.locks import lock_file
from claude_agent_py._base.private_files import append_durably, make_private
from claude_agent_py._base.streams import LazyEvent, RepeatingEvent
from claude_agent_py.messages import Prompt, UserContent, check_prompt
from claude_agent_py.options import ClientOptions
from claude_agent_py.pool.compatibility import names_one_session
from claude_agent_py.pool.outcome import MapProgress, Progress, Report, RunOutcome, build_outcome, show_progress
from claude_agent_py.pool.pool import Pool
from claude_agent_py.retrying import RetryPolicy
from claude_agent_py.runs import RunResult, Until
from claude_agent_py.wire import encode

KIND: Final = "claude_agent_py.map_runs"
VERSION: Final = 1
OPTION: Final = "journal"


def digest_prompts(prompts: Sequence[Prompt]) -> str:
    """Return a digest of these prompts, in this order."""
    digest = hashlib.sha256()
    for prompt in prompts:
        message = UserContent(role="user", content=check_prompt(prompt))
        digest.update(hashlib.sha256(encode(message)).digest())
    return digest.hexdigest()


class _Entry(msgspec.Struct):
    """A line of a journal: an outcome."""

    index: int
    ok: bool
    text: str = ""
    output: msgspec.Raw = msgspec.Raw(b"null")
    error: dict[str, str] | None = None
    session_id: str = ""
    cost_usd: float = 0.0
    attempts: int = 1


class JobJournal:
    """The outcomes of `map_runs` in a JSONL file, opened and locked for one call (locked on POSIX only).

    The first line names the prompts by a digest; each further line is one outcome. Lines are on disk before an outcome
    is reported. All methods block.

    Raises:
        OptionsError: The file belongs to other prompts, is not a journal, is damaged, in use, or cannot be written.
    """

    def __init__(self, path: str | Path, prompts: Sequence[Prompt]) -> None:
        self.path: Path = Path(path)
        self._prompts = prompts
        self._header = {"journal": KIND, "version": VERSION, "prompts": len(prompts), "digest": digest_prompts(prompts)}
        self._entries: dict[int, _Entry] = {}
        """The last entry of each prompt."""
        self._writing = threading.Lock()
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise OptionsError(f"cannot be written: {error}", option=OPTION) from error
        try:
            if not stat.S_ISREG(os.fstat(self._file).st_mode):
                raise OptionsError(f"{self.path} is not a regular file", option=OPTION)
            self._lock()
            self._load()
        except PermissionError as error:
            os.close(self._file)
            raise OptionsError(f"cannot be written: {error}", option=OPTION) from error
        except BaseException:
            os.close(self._file)
            raise

    def _lock(self) -> None:
        if sys.platform == "win32":  # the lock would also refuse reading the file
            return
        try:
            lock_file(self._file)
        except OSError as error:
            raise OptionsError(f"{self.path} is in use: another call of map_runs writes it", option=OPTION) from error

    def _load(self) -> None:
        """Read the lines. Drops the last one if it is incomplete."""
        content = self.path.read_bytes()
        complete, newline, rest = content.rpartition(b"\n")
        lines = complete.split(b"\n") if newline else []
        header = to_json(self._header) + b"\n"
        if not lines:
            if rest and not header.startswith(rest):
                raise OptionsError(f"{self.path} is not a journal of map_runs", option=OPTION)
            make_private(self._file)
            os.ftruncate(self._file, 0)
            self._write(header)
            return
        self._check_header(lines[0])
        make_private(self._file)
        for number, line in enumerate(lines[1:], 2):
            self._read_entry(number, line)
        os.ftruncate(self._file, len(complete) + 1)

    def _check_header(self, line: bytes) -> None:
        found = None
        with contextlib.suppress(ValueError):
            found = json.loads(line)
        if found == self._header:
            return
        if isinstance(found, dict) and found.get("journal") == KIND:
            raise OptionsError(
                f"{self.path} is the journal of {found.get('prompts')} other prompts (or of another order, or of "
                "another version): name another file, or delete it to start over",
                option=OPTION,
            )
        raise OptionsError(f"{self.path} is not a journal of map_runs", option=OPTION)

    def _read_entry(self, number: int, line: bytes) -> None:
        try:
            entry = msgspec.json.decode(line, type=_Entry)
            if not 0 <= entry.index < len(self._prompts):
                raise ValueError
        except (ValueError, RecursionError):
            raise OptionsError(f"{self.path} is damaged in line {number}", option=OPTION) from None
        self._entries[entry.index] = entry

    def answers(self, adapter: TypeAdapter[Any] | None) -> dict[int, RunOutcome]:
        """Return the recorded answers by index. Failures are left out: their prompts run again.

        Args:
            adapter: Validates the structured output, if it has a type.

        Raises:
            OptionsError: A structured output does not match the type.
        """
        return {index: self._build_outcome(entry, adapter) for index, entry in self._entries.items() if entry.ok}

    def _build_outcome(self, entry: _Entry, adapter: TypeAdapter[Any] | None) -> RunOutcome:
        line = bytes(entry.output)
        try:
            output = json.loads(line) if adapter is None else adapter.validate_json(line)
        except ValidationError:
            problem = f"the output of prompt {entry.index} in {self.path} does not match this output_type"
            raise OptionsError(problem, option=OPTION) from None
        except (ValueError, RecursionError):
            raise OptionsError(f"the output of prompt {entry.index} in {self.path} is damaged", option=OPTION) from None
        return RunOutcome(
            index=entry.index,
            prompt=self._prompts[entry.index],
            text=entry.text,
            output=output,
            session_id=entry.session_id,
            cost_usd=entry.cost_usd,
            attempts=entry.attempts,
            from_journal=True,
        )

    def record(self, outcome: RunOutcome) -> None:
        """Write an outcome. It is on disk when this returns. May be called in several threads at once.

        Raises:
            OSError: The file cannot be written; it has nothing of the outcome.
        """
        error = outcome.error
        results = [] if outcome.result is None else outcome.result.results
        outputs = [result.structured_output for result in results if result.has_structured_output]
        entry = _Entry(
            index=outcome.index,
            ok=outcome.ok,
            text=outcome.text,
            output=msgspec.Raw(to_json(outputs[-1] if outputs and outcome.ok else None)),
            error=None if error is None else {"type": type(error).__name__, "text": str(error)},
            session_id=outcome.session_id,
            cost_usd=outcome.cost_usd,
            attempts=outcome.attempts,
        )
        self._write(msgspec.json.encode(entry) + b"\n")

    def _write(self, line: bytes) -> None:
        with self._writing:
            append_durably(self._file, line)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


AHEAD: Final = 4
"""How many outcomes may wait for a slow reader, in multiples of `concurrency`. No further prompt starts above it."""


@dataclass(kw_only=True, eq=False, repr=False)
class Job:
    """The runs of some prompts, with the arguments of `map_runs`. The first reader starts them; `stop` ends them."""

    prompts: list[Prompt]
    options: ClientOptions
    concurrency: int
    retry: RetryPolicy
    until: Until
    timeout: float | None
    journal: str | Path | None
    show: Progress
    pool: Pool | None
    memory: int | str | None

    def __post_init__(self) -> None:
        self._outcomes: dict[int, RunOutcome] = {}
        self._unread: deque[int] = deque()
        """The indexes of the outcomes that were not yielded yet, in order of arrival."""
        self._read = 0
        self._ahead: float = AHEAD * self.concurrency
        """How many outcomes may wait for a slow reader. Those of the journal are there anyway."""
        self._failure: BaseException | None = None
        self._scope: anyio.CancelScope | None = None
        """Cancels the work; None before it starts."""
        self._is_stopped = False
        self._changed = RepeatingEvent()
        self._done = LazyEvent()
        self._stop_soon: Callable[[], object] = lambda: None
        self._todo: deque[int] = deque()
        self._running = 0
        self._failed = 0
        self._cost = 0.0

    # Readers -----------------------------------------------------------------------------------------------------

    async def next(self, *, ordered: bool) -> RunOutcome:
        """Return the next outcome. Raises StopAsyncIteration after the last."""
        self._begin()
        await checkpoint()
        while True:
            if ordered and self._read in self._outcomes:
                return self._take_outcome(self._read)
            if not ordered and self._unread:
                return self._take_outcome(self._unread[0])
            self._raise_failure()
            if self._done.is_set():
                raise StopAsyncIteration
            await self._changed.wait()

    def _take_outcome(self, index: int) -> RunOutcome:
        self._unread.remove(index)
        self._read += 1
        self._changed.set()
        return self._outcomes[index]

    async def all(self) -> list[RunOutcome]:
        """Wait for all outcomes."""
        self._ahead = math.inf
        self._begin()
        self._changed.set()
        await self._done.wait()
        self._raise_failure()
        return [self._outcomes[index] for index in range(len(self.prompts))]

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._done.is_set() and len(self._outcomes) < len(self.prompts):
            raise ConnectionClosedError("the runs were stopped")

    # Lifecycle --------------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        if not self.was_begun:
            self._scope = anyio.CancelScope()
            self._stop_soon = from_any_thread(self._scope.cancel)
            spawn_detached(functools.partial(self._work, self._scope), name="claude_agent_py map_runs")

    @property
    def was_begun(self) -> bool:
        """Whether the runs were started, or stopped before that."""
        return self._is_stopped or self._scope is not None

    async def stop(self) -> None:
        """Cancel the runs and wait until they have ended."""
        self._is_stopped = True
        if self._scope is None:
            self._done.set()
        else:
            self._scope.cancel()
            await self._done.wait()

    def stop_soon(self) -> None:
        """Cancel the runs without waiting. Thread-safe."""
        if not self._done.is_set():
            try:
                self._stop_soon()
            except RuntimeError:
                # The event loop is closed, and the runs ended with it.
                return

    async def _work(self, scope: anyio.CancelScope) -> None:
        try:
            with scope:
                async with AsyncExitStack() as stack:
                    journal = await self._open_journal(stack)
                    report = stack.enter_context(show_progress(self.show, self.progress))
                    if self._todo:
                        pool = self.pool
                        if pool is None:
                            pool = self._create_pool()
                            stack.push_async_callback(_close, pool)
                            await pool.open()
                        await self._run_all(pool, journal, report)
        except Exception as error:
            self._failure = first_error(error)
        finally:
            self._done.set()
            self._changed.set()

    async def _open_journal(self, stack: AsyncExitStack) -> JobJournal | None:
        """Open the journal and load its answers."""
        self._todo.extend(range(len(self.prompts)))
        if self.journal is None:
            return None
        journal = await run_file_work(JobJournal, self.journal, self.prompts)
        stack.callback(journal.close)
        shape = self.options.output_shape
        found = await run_file_work(journal.answers, None if shape is None else shape.adapter)
        self._ahead += len(found)
        for index in sorted(found):
            self._put(found[index])
        self._todo = deque(index for index in self._todo if index not in found)
        return journal

    def _create_pool(self) -> Pool:
        concurrency = min(self.concurrency, len(self._todo))
        # Each process resumes the same session, so none can be started ahead.
        if names_one_session(self.options):
            return Pool(size=0, max_size=concurrency, memory=self.memory)
        spares = max(1, concurrency // 2)
        return Pool(self.options, size=spares, max_size=concurrency + spares, memory=self.memory)

    async def _run_all(self, pool: Pool, journal: JobJournal | None, report: Report) -> None:
        async with anyio.create_task_group() as group:
            for _ in range(min(self.concurrency, len(self._todo))):
                group.start_soon(self._run_some, pool, journal, report)

    @worker
    async def _run_some(self, pool: Pool, journal: JobJournal | None, report: Report) -> None:
        """Run one prompt after another until none is left."""
        while self._todo:
            while len(self._unread) + self._running >= self._ahead:
                await self._changed.wait()
            if not self._todo:
                return
            index = self._todo.popleft()
            self._running += 1
            if self.pool is None:
                await self._keep_spares(pool)
            try:
                outcome = await self._run_prompt(pool, index)
                if journal is not None:
                    with anyio.CancelScope(shield=True):
                        await run_file_work(journal.record, outcome)
            finally:
                self._running -= 1
            self._put(outcome)
            report(self.progress)

    async def _run_prompt(self, pool: Pool, index: int) -> RunOutcome:
        """Run a prompt until it has an answer or a final error."""
        prompt = self.prompts[index]
        failures: list[RunFailed] = []
        attempt = functools.partial(pool.run, prompt, self.options, until=self.until, timeout=self.timeout)
        ended: RunResult | RunFailed
        try:
            ended = await self.retry.run(attempt, failures=failures)
        except RunFailed as error:
            if isinstance(error, ConnectionClosedError):
                # Raises if the pool was closed: then no further prompt can run.
                pool.check_accepting()
            ended = error
        return build_outcome(index, prompt, ended, failures)

    async def _keep_spares(self, pool: Pool) -> None:
        """Near the end, keep no more spares than prompts are left."""
        if len(self._todo) < max(1, self.concurrency // 2) and not names_one_session(self.options):
            await pool.warm(size=len(self._todo))

    def _put(self, outcome: RunOutcome) -> None:
        self._outcomes[outcome.index] = outcome
        self._unread.append(outcome.index)
        self._failed += not outcome.ok
        self._cost += 0.0 if outcome.from_journal else outcome.cost_usd
        self._changed.set()

    @property
    def progress(self) -> MapProgress:
        """The progress of the runs."""
        return MapProgress(
            total=len(self.prompts),
            done=len(self._outcomes),
            failed=self._failed,
            running=self._running,
            cost_usd=self._cost,
        )


async def _close(pool: Pool) -> None:
    with anyio.CancelScope(shield=True):
        await pool.close()
