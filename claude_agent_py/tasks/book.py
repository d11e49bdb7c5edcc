"""The book of tasks: opens runs, moves them, ends them, settles them, and says what happened.

Owns every change of an `Entry` and the sets that make questions about all tasks cheap (what is live, what runs in the
foreground, what waits for a decision). Deliberately knows no message: what a message means is decided in `ledger`, the
twin of this file. Pure: no I/O, and time is an argument (`now`, seconds since the epoch).

A run *ends* when its status becomes final, and is *settled* when its outcome is published. Between the two lies the
moment in which the report is still on its way: the CLI sends the status first and the notification after it.
"""

import math
from typing import Final

from claude_agent_py.tasks.entry import Entry, Run
from claude_agent_py.tasks.events import (
    TaskBackgrounded,
    TaskEvent,
    TaskFinished,
    TaskOutputAvailable,
    TaskReopened,
    TaskRevised,
    TaskStarted,
    TaskStatusChanged,
)
from claude_agent_py.tasks.outcome import Finding, differ
from claude_agent_py.tasks.spending import Counted, Prices, without
from claude_agent_py.tasks.state import Evidence, Signal, move, signal_of
from claude_agent_py.wire.tasks import TaskStatus

_INFERRED_STATUS: Final = {
    Evidence.LEVEL: TaskStatus.COMPLETED,
    Evidence.RESULT: TaskStatus.COMPLETED,
    Evidence.STOP_REQUEST: TaskStatus.STOPPED,
}
"""How a run is taken to have ended when nothing but this speaks for its end."""


class Book:
    """The records of all tasks."""

    def __init__(self, *, report_grace: float, doubt_grace: float) -> None:
        self.entries: dict[str, Entry] = {}
        """Every task ever seen, in the order in which they were."""
        self.knows_level: bool = False
        """Whether the CLI sends the list of live tasks."""
        self.background: set[str] = set()
        """Live tasks of the CLI in the background."""
        self.foreground: set[str] = set()
        self.prices: Prices = Prices()
        self.uncounted: dict[str, tuple[Run, float]] = {}
        """The runs that are over and whose transcripts are to be counted, by task, with the time to count at last."""
        self._report_grace = report_grace
        self._doubt_grace = doubt_grace
        self._live: dict[str, None] = {}
        self._live_ids: frozenset[str] | None = frozenset()
        self._undecided: set[str] = set()
        self._children_of_unknown: dict[str, list[str]] = {}
        self._events: list[TaskEvent] = []
        self._agenda: list[str] = []
        self._agenda_due = math.inf

    def take_over(self, entries: dict[str, Entry]) -> None:
        """Have the entries of another book, as they are."""
        self.entries.update(entries)
        for entry in entries.values():
            entry.run.is_to_count = False
            self.refile(entry)

    def take_events(self) -> list[TaskEvent]:
        """Give the events since the last call."""
        events, self._events = self._events, []
        return events

    @property
    def has_agenda(self) -> bool:
        """Whether `take_agenda` gives anything."""
        return bool(self._agenda)

    def take_agenda(self) -> tuple[list[str], float]:
        """Give the tasks that need looking after since the last call: they began, or there is a doubt about them.

        Beside them the time of the first decision among them; infinity where none is due.
        """
        taken = self._agenda, self._agenda_due
        self._agenda, self._agenda_due = [], math.inf
        return taken

    # Questions

    def live_ids(self) -> frozenset[str]:
        """Give the ids of the tasks that are not settled, ambient ones left out."""
        if self._live_ids is None:
            self._live_ids = frozenset(self._live)
        return self._live_ids

    def next_due(self) -> float | None:
        """Give the time of the next decision; None where none is due."""
        times = (self.entries[task_id].run.settle_at for task_id in self._undecided)
        return min((time for time in times if time is not None), default=None)

    def due(self, now: float) -> list[Entry]:
        """Give the tasks about which to decide now."""
        entries = (self.entries[task_id] for task_id in self._undecided)
        return [entry for entry in entries if entry.run.settle_at is not None and entry.run.settle_at <= now]

    # Opening

    def entry(self, task_id: str, now: float) -> Entry:
        """Give the entry of a task, a new one where it is not known."""
        entry = self.entries.get(task_id)
        if entry is None:
            entry = Entry(id=task_id, last_activity=now, children=self._children_of_unknown.pop(task_id, []))
            self.entries[task_id] = entry
        return entry

    def set_parent(self, entry: Entry, parent_id: str | None) -> None:
        """Put a task under its parent. The first word on it stands; a task is never its own ancestor."""
        if parent_id is None or entry.parent_id is not None or self._is_ancestor(entry.id, parent_id):
            return
        entry.parent_id = parent_id
        parent = self.entries.get(parent_id)
        siblings = parent.children if parent else self._children_of_unknown.setdefault(parent_id, [])
        siblings.append(entry.id)

    def _is_ancestor(self, task_id: str, of: str) -> bool:
        seen: set[str] = set()
        above: str | None = of
        while above is not None and above not in seen:
            if above == task_id:
                return True
            seen.add(above)
            parent = self.entries.get(above)
            above = parent.parent_id if parent else None
        return False

    def run_of(self, entry: Entry, run_id: str | None, now: float) -> Run:
        """Give the run that a task message with this run id is about, a new one where it is not known."""
        if run_id is not None and entry.runs and entry.runs[-1].run_id == run_id:
            return entry.runs[-1]  # which it nearly always is
        run = next((run for run in reversed(entry.runs) if run_id in (None, run.run_id)), None)
        if run is None and entry.runs and _may_be_named(entry.run):
            run = entry.run
            run.run_id = run_id
        if run is None:
            run = self.open_run(entry, run_id, now)
        run.is_nameless |= run_id is None
        return run

    def open_run(self, entry: Entry, run_id: str | None, now: float) -> Run:
        """Begin a run. One whose id is older than the current run's is history, and does not become current."""
        run = Run(started_at=now, run_id=run_id)
        if not entry.runs:
            entry.runs.append(run)
            return run
        current = entry.run
        if run_id is not None and current.run_id is not None and run_id < current.run_id:
            position = sum(1 for other in entry.runs if other.run_id is not None and other.run_id < run_id)
            entry.runs.insert(position, run)
            return run
        if current.is_live:  # its end was lost: a task cannot run twice at once
            self.end(entry, current, current.status, Evidence.NEXT_RUN, now)
        run.prompt = current.prompt
        entry.last_text = ""
        run.status = move(current.status, Signal.NEW_RUN)
        entry.runs.append(run)
        self._undecided.discard(entry.id)
        self.refile(entry)
        return run

    def confirm(self, entry: Entry, run: Run, now: float) -> None:
        """Note that the CLI has the task: it counts as live from here on."""
        if run is entry.run and not entry.is_confirmed:
            entry.is_confirmed = True
            self.refile(entry)

    def announce(self, entry: Entry, run: Run, now: float) -> None:
        """Say, once, that a run began."""
        if run.is_announced or not run.is_live or not entry.is_confirmed:
            return
        run.is_announced = True
        if run is entry.runs[0]:
            told = (entry.description, entry.type, entry.parent_id)
            self.say(TaskStarted(entry.id, now, run.run_id, *told, author=self.author_of(entry, acts=False)))
        else:
            self.say(TaskReopened(entry.id, now, run.run_id, run.prompt, author=self.author_of(entry, acts=False)))

    def author_of(self, entry: Entry, *, acts: bool = True) -> str:
        """Give whose doing it is what is said of a task; `acts`: it does it itself."""
        return entry.author(self.entries.get(entry.parent_id) if entry.parent_id else None, acts=acts)

    # Moving

    def signal(self, entry: Entry, run: Run, signal: Signal, now: float, by: Evidence | None = None) -> None:
        """Move a run by a signal, as the table says."""
        old = run.status
        if not run.move(signal, by):
            return
        if old.is_terminal and not run.status.is_terminal:
            self._revive(entry, run, now)
        elif run is entry.run and run.is_announced:
            author = self.author_of(entry, acts=run.status is not TaskStatus.STOPPED)
            self.say(TaskStatusChanged(entry.id, now, run.run_id, old, run.status, author=author))

    def _revive(self, entry: Entry, run: Run, now: float) -> None:
        """Open a run again whose end had been inferred, wrongly."""
        run.evidence = run.ended_at = run.outcome = None
        run.doubt = run.settle_at = None
        self.refile(entry)
        self.say(TaskReopened(entry.id, now, run.run_id, run.prompt, author=self.author_of(entry, acts=False)))

    def touch(self, entry: Entry, now: float) -> None:
        """Note activity. It does away with a hint that the run may be over, and postpones a stronger doubt."""
        entry.last_activity = now
        run = entry.run
        if run.doubt is Evidence.HOOK:
            self.trust(entry)
        elif run.doubt is not None:
            run.settle_at = now + self._doubt_grace

    def set_backgrounded(self, entry: Entry, is_backgrounded: bool, now: float) -> None:
        """Note where a task runs."""
        if entry.is_backgrounded is is_backgrounded:
            return
        moved = entry.is_backgrounded is False and is_backgrounded and entry.is_live
        entry.is_backgrounded = is_backgrounded
        self.refile(entry)
        if moved:
            self.say(TaskBackgrounded(entry.id, now, entry.run.run_id, author=self.author_of(entry, acts=False)))

    def set_output(self, entry: Entry, run: Run, path: str | None, now: float) -> None:
        """Note where a task writes to."""
        if not path:
            return
        run.output_file = path
        if entry.output_file != path:
            entry.output_file = path
            self.say(TaskOutputAvailable(entry.id, now, run.run_id, path, author=self.author_of(entry)))

    # Ending

    def end(self, entry: Entry, run: Run, status: TaskStatus, by: Evidence, now: float, *, wait: bool = False) -> None:
        """End a run. With `wait` the outcome is held back for a moment, because the report is still to come."""
        self.announce(entry, run, now)
        final = status if status.is_terminal else TaskStatus.COMPLETED
        self.signal(entry, run, signal_of(final), now, by)
        if run.evidence is None or by.rank > run.evidence.rank:
            run.evidence = by
        run.ended_at = now if run.ended_at is None else run.ended_at
        run.doubt = None
        if wait and run.is_live and run is entry.run:
            self._decide_at(entry, now + self._report_grace)
        else:
            self.settle(entry, run, now)

    def settle(self, entry: Entry, run: Run, now: float, *, by_counting: bool = False) -> None:
        """Publish the outcome of a run that is over, or a better one than was published."""
        run.mend_start()
        old, new = run.outcome, entry.outcome_of(run, self.prices)
        run.outcome = new
        if run is entry.run:
            run.settle_at = None
            self._undecided.discard(entry.id)
            entry.prompts.clear()
            self.refile(entry)
        by = self.author_of(entry, acts=new.status is not TaskStatus.STOPPED)
        if old is None:
            self.say(TaskFinished(entry.id, now, run.run_id, outcome=new, message=run.notification, author=by))
            self._doubt_children(entry, now)
            if entry.is_agent and not entry.is_child_agent:
                self._count_soon(entry, run, now)
        elif differ(old, new) or (by_counting and old.usage != new.usage):
            self.say(TaskRevised(entry.id, now, run.run_id, old=old, outcome=new, author=by))

    def _count_soon(self, entry: Entry, run: Run, now: float) -> None:
        earlier = self.uncounted.get(entry.id)
        if earlier is not None:
            earlier[0].is_to_count = False
        run.is_to_count = True
        self.uncounted[entry.id] = (run, now + self._report_grace)
        self._agenda.append(entry.id)
        self._agenda_due = min(self._agenda_due, now)

    def count(self, entry: Entry, run: Run, found: Counted | None, now: float) -> None:
        """Take over what the transcript of a task says; look again where its end is not in it yet."""
        waiting = self.uncounted.get(entry.id)
        if waiting is None or waiting[0] is not run:
            return
        if found is not None:
            others = (other.spent.by_model for other in entry.runs if other is not run)
            run.spent.exact = without(found.by_model, others)
        lacks_end = found is not None and (not found.is_complete or found.last_tokens != run.spent.last_tokens > 0)
        run.spent.tail = run.spent.last_tokens if lacks_end and run.status is TaskStatus.COMPLETED else 0
        if lacks_end and run.status is TaskStatus.COMPLETED and now < waiting[1]:
            return
        del self.uncounted[entry.id]
        run.is_to_count = False
        self._agenda.append(entry.id)
        if run.outcome is not None:
            self.settle(entry, run, now, by_counting=True)

    def price_again(self) -> None:
        """Give the ends so far their cost: a price became known."""
        for entry in self.entries.values():
            for run in entry.runs:
                if run.outcome is not None and run.outcome.usage is not None and run.outcome.usage.cost_usd is None:
                    run.outcome = entry.outcome_of(run, self.prices)

    def _doubt_children(self, entry: Entry, now: float) -> None:
        """A subagent that is over no longer waits for anything: what ran in its foreground is over too."""
        for child in [self.entries[child_id] for child_id in entry.children if child_id in self.foreground]:
            self.doubt(child, Evidence.RESULT, now)

    # Doubting

    def doubt(self, entry: Entry, why: Evidence, now: float) -> None:
        """Note that the current run may be over: to be decided after a grace, unless a sign of life comes first."""
        run = entry.run
        if not run.is_live or run.status.is_terminal or entry.is_external:
            return
        if run.doubt is None or run.doubt is Evidence.HOOK:
            run.doubt = why
        if run.settle_at is None:
            self._decide_at(entry, now + self._doubt_grace)

    def trust(self, entry: Entry) -> None:
        """Drop the doubt about the current run."""
        run = entry.run
        if run.doubt is not None:
            run.doubt = run.settle_at = None
            self._undecided.discard(entry.id)

    def conclude(self, entry: Entry, finding: Finding | None, now: float) -> None:
        """Decide about a task that is due, with what its files say."""
        run = entry.run
        if not run.is_live:
            return
        if finding is not None:
            run.summary = run.summary or finding.summary
            run.exit_code = finding.exit_code if run.exit_code is None else run.exit_code
            run.failure_reason = run.failure_reason or finding.failure_reason
        if run.status.is_terminal:
            self.settle(entry, run, now)
        elif finding is not None and finding.status is not None:
            self.end(entry, run, finding.status, finding.evidence, now)
        else:
            self._conclude_without_files(entry, run, now)

    def _conclude_without_files(self, entry: Entry, run: Run, now: float) -> None:
        why = run.doubt
        if why is Evidence.HOOK and not (self.knows_level and entry.is_confirmed):
            self.end(entry, run, TaskStatus.COMPLETED, why, now)
        elif why is not None and why in _INFERRED_STATUS:
            self.end(entry, run, _INFERRED_STATUS[why], why, now)
        else:
            self.trust(entry)

    def lose_all(self, reason: str, now: float) -> None:
        """End everything that the CLI's process ran: the process is gone."""
        for entry in [self.entries[task_id] for task_id in self.entries if self.entries[task_id].is_live]:
            run = entry.run
            if entry.is_external:
                continue
            if not run.status.is_terminal:
                run.failure_reason = reason
            self.end(entry, run, TaskStatus.FAILED, Evidence.PROCESS_EXIT, now)
        self.knows_level = False

    # Keeping the sets

    def refile(self, entry: Entry) -> None:
        """Put a task into the sets that it belongs to now."""
        is_live = entry.is_live and entry.is_confirmed
        self._file_live(entry.id, is_live and not entry.is_ambient)
        ours = is_live and not entry.is_external
        _put(self.background, entry.id, ours and entry.is_backgrounded is True)
        _put(self.foreground, entry.id, ours and entry.is_backgrounded is False)

    def _file_live(self, task_id: str, is_live: bool) -> None:
        if is_live == (task_id in self._live):
            return
        self._live_ids = None
        if is_live:
            self._live[task_id] = None
            self._agenda.append(task_id)
        else:
            del self._live[task_id]

    def _decide_at(self, entry: Entry, time: float) -> None:
        entry.run.settle_at = time
        self._undecided.add(entry.id)
        self._agenda.append(entry.id)
        self._agenda_due = min(self._agenda_due, time)

    def say(self, event: TaskEvent) -> None:
        """Report an event."""
        self._events.append(event)


def _may_be_named(run: Run) -> bool:
    """Whether a new run id may be this run's: it was seen so far under no name, by a message or a tool's result.

    One that ended without ever having a name is an earlier one (the CLI names none that another process left behind).
    """
    is_over = run.evidence is not None and run.evidence.is_certain
    return run.run_id is None and not (run.is_nameless and is_over)


def _put(ids: set[str], task_id: str, belongs: bool) -> None:
    (ids.add if belongs else ids.discard)(task_id)
