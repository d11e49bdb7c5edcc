"""The records of all tasks: opens runs, moves them, ends them, settles them, and collects the events.

Every change of a `Record` is made here, and the sets that keep questions about all tasks cheap. Knows no messages: its
twin `ledger` decides what they mean. Times are seconds since the epoch (`now`).

A run *ends* when its status becomes final, and is *settled* when its outcome is published. Between the two its report
is still on the way: the CLI sends the status first and the notification after it.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from claude_agent_py.tasks.events import (
    TaskBackgrounded,
    TaskChanged,
    TaskEvent,
    TaskFinished,
    TaskOutputAvailable,
    TaskReopened,
    TaskRevised,
    TaskStarted,
    TaskStatusChanged,
)
from claude_agent_py.tasks.ledger.record import Record, Run
from claude_agent_py.tasks.ledger.spending import Counted, Counts, Prices, without
from claude_agent_py.tasks.ledger.state import Evidence, Signal, move, signal_of
from claude_agent_py.tasks.outcome import Finding, TaskOutcome, differ
from claude_agent_py.wire.messages.tasks import TaskStatus

_INFERRED_STATUS: Final = {
    Evidence.LEVEL: TaskStatus.COMPLETED,
    Evidence.RESULT: TaskStatus.COMPLETED,
    Evidence.STOP_REQUEST: TaskStatus.STOPPED,
}
"""How a run is assumed to have ended when this is the only evidence."""


@dataclass(frozen=True, slots=True)
class Grace:
    """How long to wait before inferring an end, in seconds."""

    report: float = 0.5
    """For the notification of a task whose status is final; it was measured to be milliseconds behind."""
    doubt: float = 1.0
    """For a sign of life from a task that seems to be over."""
    quiet: float = 2.0
    """Between two looks at the files of a task that is quiet."""


class Registry:
    """The records of all tasks of a session."""

    def __init__(self, grace: Grace | None = None) -> None:
        self.grace: Final = grace or Grace()
        self.records: dict[str, Record] = {}
        """Every task, in the order in which they became known."""
        self.knows_level: bool = False
        """Whether the CLI sends the list of live tasks."""
        self.background: set[str] = set()
        """The CLI's live tasks in the background."""
        self.foreground: set[str] = set()
        self.prices: Prices = Prices()
        self.uncounted: dict[str, tuple[Run, float]] = {}
        """By task: the run whose transcript is still to be counted, and when to give up waiting for its end."""
        self.events: list[TaskEvent] = []
        """The events since `take_events`."""
        self.agenda: list[str] = []
        """The tasks that need attention since `take_agenda`: they began, or there is a doubt about them."""
        self.wants_progress: Callable[[], bool] = lambda: True
        """Whether anyone receives `TaskProgressed`."""
        self.touched: set[str] = set()
        """The tasks that may have changed since the last publication."""
        self._agenda_due = math.inf
        self._live: dict[str, None] = {}
        self._live_ids: frozenset[str] | None = frozenset()
        self._undecided: set[str] = set()
        self._children_of_unknown: dict[str, list[str]] = {}

    def restore(self, records: dict[str, Record]) -> None:
        """Add the records of another registry."""
        self.records.update(records)
        for record in records.values():
            record.run.is_to_count = False
            self._update_sets(record)

    def recall(
        self,
        record: Record,
        outcome: TaskOutcome,
        *,
        prompt: str | None,
        tool_use_id: str | None,
        parent_id: str | None = None,
        spent: Mapping[str, Counts] = MappingProxyType({}),
    ) -> None:
        """Add a task that an earlier process of the session ran, with its end. Causes no events."""
        run = Run(
            started_at=outcome.started_at or outcome.ended_at or 0.0,
            is_earlier=True,
            tool_use_id=tool_use_id,
            prompt=prompt,
            status=outcome.status,
            evidence=outcome.evidence,
            ended_at=outcome.ended_at,
            summary=outcome.summary,
            failure_reason=outcome.failure_reason,
            ended_by=outcome.ended_by,
            output_file=outcome.output_file,
            exit_code=outcome.exit_code,
            is_report=outcome.is_report,
            is_announced=True,
            outcome=outcome,
        )
        run.spent.report(outcome.usage)
        run.spent.exact = dict(spent)
        record.runs.append(run)
        record.children += self._children_of_unknown.pop(record.id, [])
        self.records[record.id] = record
        self.set_parent(record, parent_id)
        record.told = record.essence

    def take_events(self) -> list[TaskEvent]:
        """Return the events since the last call."""
        events, self.events = self.events, []
        return events

    def say_changes(self, clock: Callable[[], float]) -> None:
        """Report newly known facts of started tasks that no other event reports."""
        for task_id in self.touched:
            record = self.records[task_id]
            if record.told is not None and record.told != record.essence:
                record.told = record.essence
                author = self.author_of(record, acts=False)
                self.say(TaskChanged(task_id, clock(), record.run.run_id, *record.essence, author=author))

    def take_agenda(self) -> tuple[list[str], float]:
        """Return the agenda since the last call, and the time of the first decision in it (infinity for none)."""
        taken = self.agenda, self._agenda_due
        self.agenda, self._agenda_due = [], math.inf
        return taken

    # Questions

    def live_ids(self) -> frozenset[str]:
        """Return the ids of the tasks that are not settled, without ambient ones."""
        if self._live_ids is None:
            self._live_ids = frozenset(self._live)
        return self._live_ids

    @property
    def has_external(self) -> bool:
        """Whether tasks run that are not the CLI's."""
        return any(record.is_external and record.is_live for record in self.records.values())

    def next_due(self) -> float | None:
        """Return the time of the next decision, or None."""
        times = (self.records[task_id].run.settle_at for task_id in self._undecided)
        return min((time for time in times if time is not None), default=None)

    def due(self, now: float) -> list[Record]:
        """Return the tasks to decide about now."""
        records = (self.records[task_id] for task_id in self._undecided)
        return [record for record in records if record.run.settle_at is not None and record.run.settle_at <= now]

    # Opening

    def record(self, task_id: str, now: float) -> Record:
        """Return the record of a task, creating it if necessary."""
        self.touched.add(task_id)
        record = self.records.get(task_id)
        if record is None:
            record = Record(id=task_id, last_activity=now, children=self._children_of_unknown.pop(task_id, []))
            self.records[task_id] = record
        return record

    def set_parent(self, record: Record, parent_id: str | None) -> None:
        """Put a task under its parent. The first call counts; a task is never its own ancestor."""
        if parent_id is None or record.parent_id is not None or self._is_ancestor(record.id, parent_id):
            return
        record.parent_id = parent_id
        parent = self.records.get(parent_id)
        siblings = parent.children if parent else self._children_of_unknown.setdefault(parent_id, [])
        siblings.append(record.id)

    def _is_ancestor(self, task_id: str, of: str) -> bool:
        seen: set[str] = set()
        above: str | None = of
        while above is not None and above not in seen:
            if above == task_id:
                return True
            seen.add(above)
            parent = self.records.get(above)
            above = parent.parent_id if parent else None
        return False

    def run_of(self, record: Record, run_id: str | None, now: float) -> Run:
        """Return the run for a run id, creating it if necessary."""
        if run_id is not None and record.runs and record.runs[-1].run_id == run_id:
            return record.runs[-1]  # nearly always
        run = next((run for run in reversed(record.runs) if run_id in (None, run.run_id)), None)
        if run is None and record.runs and _may_be_named(record.run):
            run = record.run
            run.run_id = run_id
        if run is None:
            run = self.open_run(record, run_id, now)
        run.is_nameless |= run_id is None
        return run

    def open_run(self, record: Record, run_id: str | None, now: float) -> Run:
        """Begin a run. One whose id is older than the current run's is history, and does not become current."""
        run = Run(started_at=now, run_id=run_id)
        if not record.runs:
            record.runs.append(run)
            return run
        current = record.run
        if run_id is not None and current.run_id is not None and run_id < current.run_id:
            position = sum(1 for other in record.runs if other.run_id is not None and other.run_id < run_id)
            record.runs.insert(position, run)
            return run
        if current.is_live:  # its end was lost: a task does not run twice at once
            self.end(record, current, current.status, Evidence.NEXT_RUN, now)
        run.prompt = current.prompt
        record.last_text = ""
        run.status = move(current.status, Signal.NEW_RUN)
        record.runs.append(run)
        self._undecided.discard(record.id)
        self._update_sets(record)
        return run

    def confirm(self, record: Record, run: Run) -> None:
        """Record that the CLI runs the task, which counts as live from now on."""
        if run is record.run and not record.is_confirmed:
            record.is_confirmed = True
            self._update_sets(record)

    def announce(self, record: Record, run: Run, now: float) -> None:
        """Report, once, that a run began."""
        if run.is_announced or not run.is_live or not record.is_confirmed:
            return
        run.is_announced = True
        record.told = record.told or record.essence
        by = self.author_of(record, acts=False)
        if run is record.runs[0]:
            told = (record.description, record.type, record.parent_id)
            self.say(TaskStarted(record.id, now, run.run_id, *told, author=by))
        else:
            self.say(TaskReopened(record.id, now, run.run_id, run.prompt, author=by))

    def author_of(self, record: Record, *, acts: bool = True) -> str:
        """Return who caused an event of a task; `acts`: the task itself did."""
        return record.author(self.records.get(record.parent_id) if record.parent_id else None, acts=acts)

    def say(self, event: TaskEvent) -> None:
        """Report an event."""
        self.events.append(event)

    # Moving

    def signal(self, record: Record, run: Run, signal: Signal, now: float, by: Evidence | None = None) -> None:
        """Move a run as the table of transitions says."""
        old = run.status
        if not run.move(signal, by):
            return
        self.touched.add(record.id)
        if old.is_terminal and not run.status.is_terminal:
            self._revive(record, run, now)
        elif run is record.run and run.is_announced:
            author = self.author_of(record, acts=run.status is not TaskStatus.STOPPED)
            self.say(TaskStatusChanged(record.id, now, run.run_id, old, run.status, author=author))

    def _revive(self, record: Record, run: Run, now: float) -> None:
        """Reopen a run whose end was inferred wrongly."""
        run.evidence = run.ended_at = run.outcome = None
        run.doubt = run.settle_at = None
        self._update_sets(record)
        self.say(TaskReopened(record.id, now, run.run_id, run.prompt, author=self.author_of(record, acts=False)))

    def touch(self, record: Record, now: float) -> None:
        """Record activity. It clears a weak doubt about the run and postpones a stronger one."""
        record.last_activity = now
        run = record.run
        if run.doubt is Evidence.HOOK:
            self.trust(record)
        elif run.doubt is not None:
            run.settle_at = now + self.grace.doubt

    def set_backgrounded(self, record: Record, is_backgrounded: bool, now: float) -> None:
        """Record whether a task runs in the background."""
        if record.is_backgrounded is is_backgrounded:
            return
        moved = record.is_backgrounded is False and is_backgrounded and record.is_live
        record.is_backgrounded = is_backgrounded
        self._update_sets(record)
        if moved:
            author = self.author_of(record, acts=False)
            self.say(TaskBackgrounded(record.id, now, record.run.run_id, author=author))

    def set_output(self, record: Record, run: Run, path: str | None, now: float) -> None:
        """Record where a task writes."""
        if not path:
            return
        run.output_file = path
        if record.output_file != path:
            record.output_file = path
            self.say(TaskOutputAvailable(record.id, now, run.run_id, path, author=self.author_of(record)))

    # Ending

    def end(
        self, record: Record, run: Run, status: TaskStatus, by: Evidence, now: float, *, wait: bool = False
    ) -> None:
        """End a run. With `wait` the outcome is held back for a moment, because the report is still to come."""
        self.announce(record, run, now)
        final = status if status.is_terminal else TaskStatus.COMPLETED
        self.signal(record, run, signal_of(final), now, by)
        if run.evidence is None or by.rank > run.evidence.rank:
            run.evidence = by
        run.ended_at = now if run.ended_at is None else run.ended_at
        run.doubt = None
        if wait and run.is_live and run is record.run:
            self._decide_at(record, now + self.grace.report)
        else:
            self._settle(record, run, now)

    def _settle(self, record: Record, run: Run, now: float, *, by_counting: bool = False) -> None:
        """Publish the outcome of a run, or a better one than before."""
        run.mend_start()
        self.touched.add(record.id)
        parent = self.records.get(record.parent_id or "")
        old, new = run.outcome, record.outcome_of(run, self.prices, parent)
        run.outcome = new
        if run is record.run:
            run.settle_at = None
            self._undecided.discard(record.id)
            record.prompts.clear()
            self._update_sets(record)
        by = self.author_of(record, acts=new.status is not TaskStatus.STOPPED)
        if old is None:
            self.say(TaskFinished(record.id, now, run.run_id, outcome=new, message=run.notification, author=by))
            self._doubt_children(record, now)
            if record.is_agent and not record.is_child_agent:
                self._count_soon(record, run, now)
        elif differ(old, new) or (by_counting and old.usage != new.usage):
            self.say(TaskRevised(record.id, now, run.run_id, old=old, outcome=new, author=by))

    def _count_soon(self, record: Record, run: Run, now: float) -> None:
        earlier = self.uncounted.get(record.id)
        if earlier is not None:
            earlier[0].is_to_count = False
        run.is_to_count = True
        self.uncounted[record.id] = (run, now + self.grace.report)
        self.agenda.append(record.id)
        self._agenda_due = min(self._agenda_due, now)

    def count(self, record: Record, run: Run, dated: Sequence[Run], found: Counted | None, now: float) -> None:
        """Add the counts of a task's transcript; look again later if it does not contain the end yet.

        `found.by_run` covers the `dated` runs. Another run gets everything that those did not use.
        """
        waiting = self.uncounted.get(record.id)
        if waiting is None or waiting[0] is not run:
            return
        counted: Counted | None = None
        if found is not None:
            self.touched.add(record.id)
            counted = _share(record, run, dated, found)
        lacks_end = (
            run.status is TaskStatus.COMPLETED
            and counted is not None
            and (not counted.is_complete or counted.last_tokens != run.spent.last_tokens > 0)
        )
        run.spent.tail = run.spent.last_tokens if lacks_end else 0
        if lacks_end and now < waiting[1]:
            return
        del self.uncounted[record.id]
        run.is_to_count = False
        self.agenda.append(record.id)
        for each in record.runs:  # may include an earlier run that ended too recently to be counted separately
            if each.outcome is not None and (each is run or each in dated):
                self._settle(record, each, now, by_counting=True)

    def price_again(self) -> None:
        """Add the cost to earlier outcomes, after a price became known."""
        for record in self.records.values():
            for run in record.runs:
                if run.outcome is not None and run.outcome.usage is not None and run.outcome.usage.cost_usd is None:
                    parent = self.records.get(record.parent_id or "")
                    run.outcome = record.outcome_of(run, self.prices, parent)

    def _doubt_children(self, record: Record, now: float) -> None:
        """Doubt foreground tasks of a subagent that is over and so no longer waits for them."""
        for child in [self.records[child_id] for child_id in record.children if child_id in self.foreground]:
            self.doubt(child, Evidence.RESULT, now)

    def lose_all(self, reason: str, now: float) -> None:
        """End everything that the CLI's process ran, because it ended."""
        for record in [record for record in self.records.values() if record.is_live and not record.is_external]:
            run = record.run
            if not run.status.is_terminal:
                run.failure_reason = reason
            self.end(record, run, TaskStatus.FAILED, Evidence.PROCESS_EXIT, now)
        self.knows_level = False

    # Doubting

    def doubt(self, record: Record, why: Evidence, now: float) -> None:
        """Doubt that the current run is live. Decided after a grace period, unless a sign of life comes first."""
        run = record.run
        if not run.is_live or run.status.is_terminal or record.is_external:
            return
        if run.doubt is None or run.doubt is Evidence.HOOK:
            run.doubt = why
        if run.settle_at is None:
            self._decide_at(record, now + self.grace.doubt)

    def trust(self, record: Record) -> None:
        """Drop the doubt about the current run."""
        run = record.run
        if run.doubt is not None:
            run.doubt = run.settle_at = None
            self._undecided.discard(record.id)

    def conclude(self, record: Record, finding: Finding | None, now: float) -> None:
        """Decide about a task that is due, using its files."""
        run = record.run
        if not run.is_live:
            return
        if finding is not None:
            run.summary = run.summary or finding.summary
            run.exit_code = finding.exit_code if run.exit_code is None else run.exit_code
            run.failure_reason = run.failure_reason or finding.failure_reason
        why = run.doubt
        if run.status.is_terminal:
            self._settle(record, run, now)
        elif finding is not None and finding.status is not None:
            self.end(record, run, finding.status, finding.evidence, now)
        elif why is Evidence.HOOK and not (self.knows_level and record.is_confirmed):
            self.end(record, run, TaskStatus.COMPLETED, why, now)
        elif why is not None and why in _INFERRED_STATUS:
            self.end(record, run, _INFERRED_STATUS[why], why, now)
        else:
            self.trust(record)

    def _decide_at(self, record: Record, time: float) -> None:
        record.run.settle_at = time
        self._undecided.add(record.id)
        self.agenda.append(record.id)
        self._agenda_due = min(self._agenda_due, time)

    # Keeping the sets

    def _update_sets(self, record: Record) -> None:
        is_live = record.is_live and record.is_confirmed
        self._set_live(record.id, is_live and not record.is_ambient)
        ours = is_live and not record.is_external
        _put(self.background, record.id, ours and record.is_backgrounded is True)
        _put(self.foreground, record.id, ours and record.is_backgrounded is False)

    def _set_live(self, task_id: str, is_live: bool) -> None:
        if is_live == (task_id in self._live):
            return
        self._live_ids = None
        if is_live:
            self._live[task_id] = None
            self.agenda.append(task_id)
        else:
            del self._live[task_id]


def _share(record: Record, run: Run, dated: Sequence[Run], found: Counted) -> Counted:
    """Add a transcript's counts to each run, and return this run's share."""
    if run not in dated:
        others = (other.spent.by_model for other in record.runs if other is not run)
        run.spent.exact = without(found.by_model, others)
        return found
    for each, counted in zip(dated, found.by_run, strict=True):
        each.spent.exact, each.spent.tail = dict(counted.by_model), 0
    return found.by_run[dated.index(run)]


def _may_be_named(run: Run) -> bool:
    """Return whether an unknown run id may be this run's: so far only signals without a run id spoke of it.

    A run that certainly ended without a run id is an earlier one: the CLI gives no run id to runs of another process.
    """
    is_over = run.evidence is not None and run.evidence.is_certain
    return run.run_id is None and not run.is_earlier and not (run.is_nameless and is_over)


def _put(ids: set[str], task_id: str, belongs: bool) -> None:
    (ids.add if belongs else ids.discard)(task_id)
