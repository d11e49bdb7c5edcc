"""Infer unreported ends of tasks from their files.

The ledger stores the suspicions (the CLI no longer lists the task, its turn has ended, a hook announced its stop) and
how long to wait for the contrary; then this module reads the files. It also counts the transcripts of subagents that
have ended, and reads the files of a quiet task from time to time, because they may be the only sign of its end.
"""

import logging
import math
import os
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias, TypeVar

import anyio

from claude_agent_py._base.coalescing import SharedCall
from claude_agent_py._base.event_loop import Returned, run_file_work
from claude_agent_py._base.log import get_logger
from claude_agent_py._base.streams import RepeatingEvent
from claude_agent_py._journal.tasks.ledger import Ledger
from claude_agent_py._journal.tasks.outcome import TaskFinding
from claude_agent_py._journal.tasks.record import Record, TaskRun
from claude_agent_py._journal.tasks.spending import Counted
from claude_agent_py._journal.tasks.state import Evidence
from claude_agent_py.tasks.files.output_file import read_marker
from claude_agent_py.tasks.files.paths import Paths
from claude_agent_py.tasks.files.task_file import TaskFile
from claude_agent_py.tasks.files.transcript import count_transcript, inspect_transcript
from claude_agent_py.wire.messages.tasks import TaskStatus

logger: logging.Logger = get_logger(__name__)

PAUSE: Final = 0.02
"""Seconds between two checks, so that one check serves the tasks that end together."""

PATIENCE: Final = 0.25
"""Seconds after which each session reads its files alone, because those of another one may be large."""

T = TypeVar("T")
StartWorker: TypeAlias = Callable[[Callable[[], Returned[None]]], object]


class Reconciler:
    """Decides about the tasks of one ledger, in a worker of the session or, without one, in whoever waits for a task.

    The worker runs only while a task needs it, because a session that closes waits for it. `publish` is called after
    each change, and `wake_waiters` when the worker has ended.
    """

    def __init__(
        self,
        ledger: Ledger,
        paths: Paths,
        clock: Callable[[], float],
        publish: Callable[[], object],
        wake_waiters: Callable[[], object],
    ) -> None:
        self._ledger = ledger
        self._paths = paths
        self._clock = clock
        self._publish = publish
        self._wake_waiters = wake_waiters
        self._last_quiet_check = clock()
        self._is_checking = False
        self._start: StartWorker | None = None
        """Starts the worker; None without a session, and once it closes."""
        self._has_worker = False
        self._woken = RepeatingEvent()

    # The worker

    def work_in(self, start: StartWorker) -> None:
        """Have `start` run a worker, now and whenever a task needs one, until `stop`."""
        self._start = start
        self.wake()

    def wake(self) -> None:
        """Have the worker look at the times again; start it if a task needs it."""
        if self._has_worker:
            self._woken.set()
        elif self._start is not None and self._seconds_until_check() is not None:
            self._has_worker = True
            self._start(self._work)

    def stop(self) -> None:
        """End the worker, after the current check. From then on, waiters check."""
        self._start = None
        self._has_worker = False
        self._woken.set()
        self._wake_waiters()

    async def _work(self) -> None:
        try:
            while self._start is not None and (pause := self._seconds_until_check()) is not None:
                if pause:
                    await self._woken.wait(pause)
                    continue
                await self.check()
                if self._seconds_until_check() is not None:
                    await anyio.sleep(PAUSE)
        finally:
            self._has_worker = False
            self._wake_waiters()

    async def wait(self, event: RepeatingEvent, timeout: float | None) -> None:
        """Wait for an event, at most `timeout` seconds, and check meanwhile unless the worker does."""
        if self._has_worker:
            await event.wait(timeout)
            return
        pause = self._seconds_until_check()
        if pause is not None:
            timeout = min(max(PAUSE, pause), math.inf if timeout is None else timeout)
        await event.wait(timeout)
        await self.check()

    def _seconds_until_check(self) -> float | None:
        """Return the seconds until the next check, or None if no task needs one."""
        ledger = self._ledger
        now = self._clock()
        times = [until for _, until in ledger.unresolved.values()]
        if ledger.uncounted:
            times.append(now)
        if ledger.background or ledger.foreground:
            times.append(self._last_quiet_check + ledger.grace.quiet)
        return max(0.0, min(times) - now) if times else None

    # A check

    async def check(self) -> None:
        """Count the tasks that have ended, and decide about those that have waited long enough.

        May be called at any time, even concurrently.
        """
        if self._is_checking:
            return
        self._is_checking = True
        try:
            await self._count_ended()
            await self._decide_all(self._clock())
        finally:
            self._is_checking = False

    async def count_last(self, deadline: float) -> None:
        """Count what the subagents have used, now that their process has ended, until the deadline at most."""
        self._ledger.count_live(self._clock())
        try:
            with anyio.CancelScope(deadline=deadline):
                await self._count_ended()
        except Exception:  # the process may be out of threads; the tasks end all the same
            logger.exception("Cannot count the subagents that end with their process")

    async def _count_ended(self) -> None:
        """Count the transcripts of subagents that have ended, again and again until they contain the end."""
        runs = [(record, run) for run, (record, _) in self._ledger.uncounted.items()]
        if not runs:
            return
        files = [self._paths.list_candidates(record) for record, _ in runs]
        dated = [record.dated_runs for record, _ in runs]
        found: list[Counted | None] = [None] * len(runs)
        if any(files):
            begins = [[run.begin_time or 0.0 for run in each] for each in dated]
            found = await _read(lambda: _count_each(files, begins))
        for (record, run), its_runs, counted in zip(runs, dated, found, strict=True):
            self._ledger.apply_count(record, run, its_runs, counted, self._clock())
        self._publish()

    async def _decide_all(self, now: float) -> None:
        records = [record for record, until in self._ledger.unresolved.values() if until <= now]
        records += self._quiet_records(now)
        if not records:
            return
        runs = [record.run for record in records]
        files = [self._paths.list_candidates(record) for record in records]
        findings = await _read(lambda: [inspect_files(*each) for each in zip(records, files, strict=True)])
        now = self._clock()
        for record, run, finding in zip(records, runs, findings, strict=True):
            # Skip a task that started again while its files were read. One that ended is not decided again.
            if run is record.run:
                self._decide(record, run, finding, now)
        self._publish()

    def _quiet_records(self, now: float) -> list[Record]:
        ledger = self._ledger
        since = now - ledger.grace.quiet
        if since < self._last_quiet_check:
            return []
        self._last_quiet_check = now
        background = map(ledger.records.__getitem__, ledger.background)
        # A shell that the CLI lists runs. An end marker in its output is one that it printed, such as another one's.
        read = [record for record in background if record.is_agent or not ledger.has_live_list]
        read += map(ledger.records.__getitem__, ledger.foreground)
        return [
            record
            for record in read
            if record.last_activity <= since and record.run not in ledger.unresolved and not record.is_done
        ]

    def _decide(self, record: Record, run: TaskRun, finding: TaskFinding | None, now: float) -> None:
        if run in self._ledger.unresolved:
            _, until = self._ledger.unresolved[run]
            if until <= now:
                self._ledger.resolve(record, finding, now)
        elif finding is not None and finding.status is not None:
            self._ledger.suspect(record, finding.evidence, now)


async def _read(function: Callable[[], T]) -> T:
    """Call a function that reads files in a thread, together with those of other sessions unless they take long."""
    result: T | None = await _read_together(function, PATIENCE)
    return await run_file_work(function, abandon_on_cancel=True) if result is None else result


def _call_each(functions: list[Callable[[], Any]]) -> list[Any]:
    return [function() for function in functions]


_read_together: Final = SharedCall(_call_each)


# Blocking calls, for a worker thread -----------------------------------------------------------------------------


def _count_each(files: Sequence[Sequence[TaskFile]], begins: Sequence[Sequence[float]]) -> list[Counted | None]:
    """Count the first readable file of each task. Zero if only its directory exists yet, None if not even that exists.

    Each directory is looked for once: every system call of a thread interrupts the event loop.
    """
    valid = [[file for file in each if "\0" not in file.path] for each in files]
    folders = {os.path.dirname(file.path) for each in valid for file in each}
    there = {folder for folder in folders if os.path.isdir(folder)}
    possible = [[file for file in each if os.path.dirname(file.path) in there] for each in valid]
    return [_count_first_readable(*each) for each in zip(possible, begins, strict=True)]


def _count_first_readable(files: Sequence[TaskFile], begins: Sequence[float]) -> Counted | None:
    for file in files:
        try:
            return count_transcript(file, begins)
        except OSError:
            continue
        except Exception:
            logger.exception("Cannot count the transcript %s", file.path)
    return Counted(by_run=[Counted() for _ in begins]) if files else None


def inspect_files(record: Record, files: Sequence[TaskFile]) -> TaskFinding | None:
    """Return the evidence in the files of one task. An error is logged, so that it does not affect other tasks."""
    inspect = inspect_transcript if record.is_agent else _inspect_shell
    try:
        found = map(inspect, files)
        return next((finding for finding in found if finding is not None), None)
    except Exception:
        logger.exception("Cannot inspect the files of task %s", record.id)
        return None


def _inspect_shell(file: TaskFile) -> TaskFinding | None:
    """Return the end of a shell according to its output file, or None if the file cannot be read."""
    try:
        marker = read_marker(file)
    except OSError:
        return None
    if marker is None:
        return TaskFinding(Evidence.END_MARKER)
    if marker.exit_code is None:
        return TaskFinding(Evidence.END_MARKER, TaskStatus.STOPPED)
    failed = marker.exit_code != 0
    return TaskFinding(
        Evidence.END_MARKER,
        TaskStatus.FAILED if failed else TaskStatus.COMPLETED,
        failure_reason=f"exit code {marker.exit_code}" if failed else None,
        exit_code=marker.exit_code,
    )
