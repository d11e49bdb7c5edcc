"""Infer unreported ends of tasks from their files.

The ledger stores the suspicions (the CLI no longer lists the task, its turn has ended, a hook announced its stop) with
their deadlines; this module reads the files at these deadlines. It also counts the transcripts of subagents that have
ended, and reads the files of a quiet task from time to time, because they may be the only sign of its end.
"""

import logging
import os
from collections.abc import Callable, Sequence
from typing import Final

from claude_agent_py._event_loop import run_file_work
from claude_agent_py.tasks.files.paths import Paths
from claude_agent_py.tasks.ledger.ledger import Ledger
from claude_agent_py.tasks.ledger.record import Record, TaskRun
from claude_agent_py.tasks.ledger.spending import Counted, count_transcript
from claude_agent_py.tasks.ledger.state import Evidence
from claude_agent_py.tasks.outcome import Finding
from claude_agent_py.wire.messages.tasks import TaskStatus

logger: logging.Logger = logging.getLogger(__name__)

PAUSE: Final = 0.02
"""Seconds between two checks, so that one check serves the tasks that end together."""


class Reconciler:
    """Decides about the tasks of one ledger. `publish` is called after each change."""

    def __init__(self, ledger: Ledger, paths: Paths, clock: Callable[[], float], publish: Callable[[], object]) -> None:
        self._ledger = ledger
        self._paths = paths
        self._clock = clock
        self._publish = publish
        self._last_quiet_check = clock()
        self._is_checking = False

    def seconds_until_check(self) -> float | None:
        """Return the seconds until the next check, or None if no task needs one."""
        ledger = self._ledger
        now = self._clock()
        times = [now if run.is_to_count else run.deadline or now for run in ledger.postponed]
        if ledger.background or ledger.foreground:
            times.append(self._last_quiet_check + ledger.grace.quiet)
        return max(0.0, min(times) - now) if times else None

    async def check(self) -> None:
        """Resolve all tasks whose deadline has passed. May be called at any time, even from several workers."""
        if self._is_checking:
            return
        self._is_checking = True
        try:
            await self._count_ended()
            await self._decide_all(self._clock())
        finally:
            self._is_checking = False

    async def _count_ended(self) -> None:
        """Count the transcripts of subagents that have ended, again and again until they contain the end."""
        runs = [(record, run) for run, record in self._ledger.postponed.items() if run.is_to_count]
        if not runs:
            return
        paths = [self._paths.list_candidates(record) for record, _ in runs]
        dated = [record.dated_runs for record, _ in runs]
        found: list[Counted | None] = [None] * len(runs)
        if any(paths):
            begins = [[run.begin_time or 0.0 for run in each] for each in dated]
            found = await run_file_work(
                lambda: [_count_first_readable(*each) for each in zip(paths, begins, strict=True)],
                abandon_on_cancel=True,
            )
        for (record, run), its_runs, counted in zip(runs, dated, found, strict=True):
            self._ledger.apply_count(record, run, its_runs, counted, self._clock())
        self._publish()

    async def _decide_all(self, now: float) -> None:
        records = [record for run, record in self._ledger.postponed.items() if run.is_due(now)]
        records += self._quiet_records(now)
        if not records:
            return
        runs = [record.run for record in records]
        paths = [self._paths.list_candidates(record) for record in records]
        findings = await run_file_work(
            lambda: [_inspect(*each) for each in zip(records, paths, strict=True)], abandon_on_cancel=True
        )
        now = self._clock()
        for record, run, finding in zip(records, runs, findings, strict=True):
            # Skip a task that ended or started again while its files were read.
            if run is record.run and run.is_live:
                self._decide(record, run, finding, now)
        self._publish()

    def _quiet_records(self, now: float) -> list[Record]:
        ledger = self._ledger
        since = now - ledger.grace.quiet
        if since < self._last_quiet_check:
            return []
        self._last_quiet_check = now
        records = (ledger.records[task_id] for task_id in (*ledger.background, *ledger.foreground))
        return [
            record
            for record in records
            if record.last_activity <= since and record.run.deadline is None and not record.is_done
        ]

    def _decide(self, record: Record, run: TaskRun, finding: Finding | None, now: float) -> None:
        if run.is_due(now):
            self._ledger.resolve(record, finding, now)
        elif run.deadline is None and finding is not None and finding.status is not None:
            self._ledger.suspect(record, finding.evidence, now)


# Blocking calls, for a worker thread -----------------------------------------------------------------------------


def _count_first_readable(paths: Sequence[str], begins: Sequence[float]) -> Counted | None:
    """Count the first readable file. Zero if only its directory exists yet, None if not even that exists."""
    for path in paths:
        counted = _count_transcript(path, begins)
        if counted is not None:
            return counted
    if any(os.path.isdir(os.path.dirname(path)) for path in paths if "\0" not in path):
        return Counted({}, 0, by_run=[Counted({}, 0)] * len(begins))
    return None


def _count_transcript(path: str, begins: Sequence[float]) -> Counted | None:
    try:
        return count_transcript(path, begins)
    except OSError:
        return None
    except Exception:
        logger.exception("Cannot count the transcript %s", path)
        return None


def _inspect(record: Record, paths: Sequence[str]) -> Finding | None:
    """Return the evidence in the files of one task. An error is logged, so that it does not affect other tasks."""
    from claude_agent_py.tasks.files.transcript import inspect_transcript

    inspect = inspect_transcript if record.is_agent else inspect_shell
    try:
        return next((finding for finding in map(inspect, paths) if finding is not None), None)
    except Exception:
        logger.exception("Cannot inspect the files of task %s", record.id)
        return None


def inspect_shell(path: str) -> Finding | None:
    """Return the end of a shell according to its output file, or None if the file cannot be read."""
    from claude_agent_py.tasks.files.output_file import read_marker

    try:
        marker = read_marker(path)
    except OSError:
        return None
    if marker is None:
        return Finding(Evidence.END_MARKER)
    if marker.exit_code is None:
        return Finding(Evidence.END_MARKER, TaskStatus.STOPPED)
    failed = marker.exit_code != 0
    return Finding(
        Evidence.END_MARKER,
        TaskStatus.FAILED if failed else TaskStatus.COMPLETED,
        failure_reason=f"exit code {marker.exit_code}" if failed else None,
        exit_code=marker.exit_code,
    )
