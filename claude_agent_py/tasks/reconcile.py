"""Reconciling: deciding about tasks whose end nobody reported.

Owns when to look at the files of a task and what follows from them. The ledger keeps the doubts (the CLI no longer
lists the task, its turn is over, a hook said that it stops) and how long to wait with each; here the waiting is done
and the files are read. A task that is merely quiet is looked at from time to time, too, so that an end that only the
files tell of is found. What a sign of life contradicts is dropped.
"""

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from claude_agent_py.event_loop import run_file_work
from claude_agent_py.tasks.entry import Entry, Run
from claude_agent_py.tasks.events import TaskEvent
from claude_agent_py.tasks.ledger import DOUBT_GRACE, REPORT_GRACE, Ledger
from claude_agent_py.tasks.outcome import Finding
from claude_agent_py.tasks.output_file import read_marker
from claude_agent_py.tasks.places import Places
from claude_agent_py.tasks.spending import Counted, count_transcript
from claude_agent_py.tasks.state import Evidence
from claude_agent_py.tasks.transcript import look_at_transcript
from claude_agent_py.wire.tasks import TaskStatus

logger: logging.Logger = logging.getLogger(__name__)

_SHORTEST_PAUSE: Final = 0.02


@dataclass(frozen=True, slots=True)
class Grace:
    """How long to wait before something is inferred, in seconds."""

    report: float = REPORT_GRACE
    """For the notification of a task whose status is final already."""
    doubt: float = DOUBT_GRACE
    """For a sign of life of a task that seems to be over."""
    quiet: float = 2.0
    """Between two looks at the files of a task that is quiet."""


@dataclass(frozen=True, slots=True)
class _Question:
    """One task whose files are to be looked at."""

    entry: Entry
    run: Run
    paths: Sequence[str]
    is_agent: bool


class Reconciler:
    """Looks after the tasks of one ledger."""

    def __init__(
        self,
        ledger: Ledger,
        places: Places,
        clock: Callable[[], float],
        publish: Callable[[list[TaskEvent]], object],
        quiet: float,
    ) -> None:
        self._ledger = ledger
        self._places = places
        self._clock = clock
        self._publish = publish
        self._quiet = quiet
        self._looked_at = clock()
        self._is_checking = False

    def pause(self) -> float | None:
        """Give the seconds until the next check; None while there is nothing to look after."""
        book = self._ledger.book
        times = [book.next_due()]
        if book.uncounted:
            times.append(self._clock())
        if book.background or book.foreground:
            times.append(self._looked_at + self._quiet)
        next_time = min((time for time in times if time is not None), default=None)
        return None if next_time is None else max(_SHORTEST_PAUSE, next_time - self._clock())

    async def check(self) -> None:
        """Decide about what is due. Harmless to call at any time, also from several workers."""
        if self._is_checking:
            return
        self._is_checking = True
        try:
            await self._check(self._clock())
        finally:
            self._is_checking = False

    async def _check(self, now: float) -> None:
        await self._count()
        due = [self._question(entry) for entry in self._ledger.book.due(now)]
        quiet = [self._question(entry) for entry in self._quiet_entries(now)]
        if not due and not quiet:
            return
        findings = await run_file_work(_look_at_all, [*due, *quiet], abandon_on_cancel=True)
        now = self._clock()
        for question, finding in zip([*due, *quiet], findings, strict=True):
            if question.run is question.entry.run and question.run.is_live:  # nothing happened meanwhile
                self._decide(question, finding, now)

    async def _count(self) -> None:
        """Count the transcripts of subagents that are over."""
        book = self._ledger.book
        runs = [(book.entries[task_id], run) for task_id, (run, _) in book.uncounted.items()]
        if not runs:
            return
        paths = [self._places.transcript_of(entry) for entry, _ in runs]
        found: list[Counted | None] = [None] * len(runs)
        if any(paths):
            found = await run_file_work(_count_all, paths, abandon_on_cancel=True)
        for (entry, run), counted in zip(runs, found, strict=True):
            self._publish(self._ledger.counted(entry, run, counted, self._clock()))

    def _quiet_entries(self, now: float) -> list[Entry]:
        if now < self._looked_at + self._quiet:
            return []
        self._looked_at = now
        book = self._ledger.book
        entries = (book.entries[task_id] for task_id in (*book.background, *book.foreground))
        return [entry for entry in entries if _is_quiet(entry, now - self._quiet)]

    def _question(self, entry: Entry) -> _Question:
        places = self._places
        paths = places.transcript_of(entry) if entry.is_agent else places.output_of(entry)
        return _Question(entry, entry.run, paths, entry.is_agent)

    def _decide(self, question: _Question, finding: Finding | None, now: float) -> None:
        run, task_id = question.run, question.entry.id
        if run.settle_at is not None and run.settle_at <= now:
            self._publish(self._ledger.conclude(task_id, finding, now))
        elif run.settle_at is None and finding is not None and finding.status is not None:
            self._publish(self._ledger.suspect(task_id, finding.evidence, now))


def _is_quiet(entry: Entry, since: float) -> bool:
    return entry.last_activity <= since and entry.run.settle_at is None and not entry.run.status.is_terminal


def _count_all(all_paths: Sequence[Sequence[str]]) -> list[Counted | None]:
    """Count several transcripts. Blocking."""
    return [_count_first(paths) for paths in all_paths]


def _count_first(paths: Sequence[str]) -> Counted | None:
    """Count the first that can be read; nothing yet where only the folder is there, None where not even that."""
    found = next((found for found in map(_count, paths) if found is not None), None)
    if found is None and any(os.path.isdir(os.path.dirname(path)) for path in paths if "\0" not in path):
        return Counted({}, 0)
    return found


def _count(path: str) -> Counted | None:
    try:
        return count_transcript(path)
    except OSError:
        return None
    except Exception:
        logger.exception("The transcript %s could not be counted", path)
        return None


def _look_at_all(questions: Sequence[_Question]) -> list[Finding | None]:
    """Look at the files of several tasks. Blocking."""
    return [_look_safely(question) for question in questions]


def _look_safely(question: _Question) -> Finding | None:
    """Look at the files of one task: whatever is in them, the others are looked at, too."""
    try:
        return _look_at(question)
    except Exception:
        logger.exception("The files of the task %s could not be looked at", question.entry.id)
        return None


def _look_at(question: _Question) -> Finding | None:
    look = look_at_transcript if question.is_agent else look_at_shell
    return next((finding for finding in map(look, question.paths) if finding is not None), None)


def look_at_shell(path: str) -> Finding | None:
    """Say whether a shell is over, as far as its output file tells. None where it cannot be read."""
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
