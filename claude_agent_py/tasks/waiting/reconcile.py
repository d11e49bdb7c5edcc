"""Reconcile tasks whose end was not reported with their files.

The registry keeps the doubts (the CLI no longer lists the task, its turn is over, a hook announced its stop) and when
to decide about each; this module waits for that time and reads the files. The files of a quiet task are also read from
time to time, because they may be the only sign of its end.
"""

import logging
import os
from collections.abc import Callable, Sequence
from typing import Final

from claude_agent_py._event_loop import run_file_work
from claude_agent_py.tasks.files.output_file import read_marker
from claude_agent_py.tasks.files.paths import Paths
from claude_agent_py.tasks.files.transcript import look_at_transcript
from claude_agent_py.tasks.ledger.record import Record, Run
from claude_agent_py.tasks.ledger.registry import Registry
from claude_agent_py.tasks.ledger.spending import Counted, count_transcript
from claude_agent_py.tasks.ledger.state import Evidence
from claude_agent_py.tasks.outcome import Finding
from claude_agent_py.wire.messages.tasks import TaskStatus

logger: logging.Logger = logging.getLogger(__name__)

_SHORTEST_PAUSE: Final = 0.02


class Reconciler:
    """Decides about the tasks of one registry. `publish` is called after each change."""

    def __init__(
        self, registry: Registry, paths: Paths, clock: Callable[[], float], publish: Callable[[], object]
    ) -> None:
        self._registry = registry
        self._paths = paths
        self._clock = clock
        self._publish = publish
        self._looked_at = clock()
        self._is_checking = False

    def pause(self) -> float | None:
        """Return the seconds until the next check, or None if there is nothing to decide."""
        registry = self._registry
        times = [registry.next_due()]
        if registry.uncounted:
            times.append(self._clock())
        if registry.background or registry.foreground:
            times.append(self._looked_at + registry.grace.quiet)
        next_time = min((time for time in times if time is not None), default=None)
        return None if next_time is None else max(_SHORTEST_PAUSE, next_time - self._clock())

    async def check(self) -> None:
        """Decide what is due. May be called at any time, even from several workers."""
        if self._is_checking:
            return
        self._is_checking = True
        try:
            await self._count()
            await self._decide_all(self._clock())
        finally:
            self._is_checking = False

    async def _count(self) -> None:
        """Count the transcripts of subagents that are over."""
        registry = self._registry
        runs = [(registry.records[task_id], run) for task_id, (run, _) in registry.uncounted.items()]
        if not runs:
            return
        paths = [self._paths.of(record) for record, _ in runs]
        dated = [record.dated_runs for record, _ in runs]
        found: list[Counted | None] = [None] * len(runs)
        if any(paths):
            begins = [[run.begun or 0.0 for run in each] for each in dated]
            found = await run_file_work(
                lambda: [_count_first(*each) for each in zip(paths, begins, strict=True)], abandon_on_cancel=True
            )
        for (record, run), its_runs, counted in zip(runs, dated, found, strict=True):
            registry.count(record, run, its_runs, counted, self._clock())
            self._publish()

    async def _decide_all(self, now: float) -> None:
        records = [*self._registry.due(now), *self._quiet_records(now)]
        if not records:
            return
        runs = [record.run for record in records]
        paths = [self._paths.of(record) for record in records]
        findings = await run_file_work(
            lambda: [_look(*each) for each in zip(records, paths, strict=True)], abandon_on_cancel=True
        )
        now = self._clock()
        for record, run, finding in zip(records, runs, findings, strict=True):
            if run is record.run and run.is_live:  # nothing happened meanwhile
                self._decide(record, run, finding, now)
                self._publish()

    def _quiet_records(self, now: float) -> list[Record]:
        registry, since = self._registry, now - self._registry.grace.quiet
        if since < self._looked_at:
            return []
        self._looked_at = now
        records = (registry.records[task_id] for task_id in (*registry.background, *registry.foreground))
        return [
            record
            for record in records
            if record.last_activity <= since and record.run.settle_at is None and not record.is_over
        ]

    def _decide(self, record: Record, run: Run, finding: Finding | None, now: float) -> None:
        if run.settle_at is not None and run.settle_at <= now:
            self._registry.conclude(record, finding, now)
        elif run.settle_at is None and finding is not None and finding.status is not None:
            self._registry.doubt(record, finding.evidence, now)


# Blocking calls, for a worker thread -----------------------------------------------------------------------------


def _count_first(paths: Sequence[str], begins: Sequence[float]) -> Counted | None:
    """Count the first readable file. Zero if only its directory exists yet, None without even that."""
    found = next((found for path in paths if (found := _count(path, begins)) is not None), None)
    if found is None and any(os.path.isdir(os.path.dirname(path)) for path in paths if "\0" not in path):
        return Counted({}, 0, by_run=[Counted({}, 0)] * len(begins))
    return found


def _count(path: str, begins: Sequence[float]) -> Counted | None:
    try:
        return count_transcript(path, begins)
    except OSError:
        return None
    except Exception:
        logger.exception("The transcript %s could not be counted", path)
        return None


def _look(record: Record, paths: Sequence[str]) -> Finding | None:
    """Return what the files of one task say about its end. An error does not affect the other tasks."""
    look = look_at_transcript if record.is_agent else look_at_shell
    try:
        return next((finding for finding in map(look, paths) if finding is not None), None)
    except Exception:
        logger.exception("The files of the task %s could not be looked at", record.id)
        return None


def look_at_shell(path: str) -> Finding | None:
    """Return what a shell's output file says about its end, or None if it cannot be read."""
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
