"""`Ledger`: the state of all tasks. It opens runs, moves and ends them, finalises their outcomes, and collects events.

Most changes of a `Record` are made here, with the indexes that make queries over all tasks cheap. It does not interpret
messages; `signals` does. Times are seconds since the epoch (`now`).

A run *ends* when its status becomes final, and is *finalised* when its outcome is published. Between the two, its
report is still on the way: the CLI sends the status first and the notification after it. Until then it is *unresolved*,
as is a run that may have ended. A run whose transcript has yet to be counted is *uncounted*.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import asdict

from claude_agent_py._journal.tasks.announcements import OpenCalls
from claude_agent_py._journal.tasks.events import (
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
from claude_agent_py._journal.tasks.outcome import EndedBy, TaskFinding, TaskOutcome, differ
from claude_agent_py._journal.tasks.record import Record, TaskRun
from claude_agent_py._journal.tasks.spending import Counted, Prices, subtract_counts
from claude_agent_py._journal.tasks.state import Evidence, Signal, move, signal_for
from claude_agent_py.wire.messages.tasks import TaskStatus

_INFERRED_STATUS: Final = {
    Evidence.HOOK: TaskStatus.COMPLETED,
    Evidence.LEVEL: TaskStatus.COMPLETED,
    Evidence.RESULT: TaskStatus.COMPLETED,
    Evidence.STOP_REQUEST: TaskStatus.STOPPED,
}
"""The assumed status of an ended run, by its only evidence."""


class Grace(Struct, frozen=True):
    """How long to wait before inferring an end, in seconds."""

    report: float = 0.5
    """For the notification of a task with a final status. Measured: it arrives some milliseconds later."""
    transcript: float = 10.0
    """For the last entries of the transcript of a completed task. Measured (CLI 2.1.332): they are written some
    milliseconds later, and up to four seconds later on a busy machine."""
    doubt: float = 1.0
    """For activity of a task that seems to have ended."""
    quiet: float = 2.0
    """Between two checks of the files of a quiet task."""


class QuestionState(Struct):
    """A request of the CLI that a person may have to answer."""

    task_id: str | None = None
    """The task for which a person has been asked; None before."""
    is_waiting: bool = False
    """Whether the person has not answered."""


class Ledger:
    """The records of all tasks of a session."""

    def __init__(self, grace: Grace | None = None) -> None:
        self.grace: Final = grace or Grace()
        self.records: dict[str, Record] = {}
        """All tasks, in the order of discovery."""
        self.calls: OpenCalls = OpenCalls()
        self.questions: dict[str, QuestionState] = {}
        """The open requests that a person may have to answer, by id."""
        self.has_live_list: bool = False
        """Whether the CLI sends the list of live tasks."""
        self.background: set[str] = set()
        """The CLI's live tasks in the background."""
        self.foreground: set[str] = set()
        self.unresolved: dict[TaskRun, tuple[Record, float]] = {}
        """The runs that await their report or a sign of life, with their tasks and the time at which the wait ends."""
        self.uncounted: dict[TaskRun, tuple[Record, float]] = {}
        """The finalised runs whose transcript is to be counted, with their tasks and the time of the last attempt."""
        self.prices: Prices = Prices()
        self.wants: Callable[[type[TaskEvent]], bool] = lambda kind: True
        """Returns whether events of a kind have a receiver. Others are not created."""
        self.events: list[TaskEvent] = []
        """The events since `take_changes`."""
        self.on_output: Callable[[str, str], object] = lambda task_id, path: None
        """Called with a task id and the path of its output, when it becomes known."""
        self.touched: set[str] = set()
        """The tasks that may have changed since `take_changes`."""
        self.has_news: bool = False
        """Whether a run began or ended, or a check is due earlier than before. Reset by the publisher."""
        self._live: set[str] = set()
        self._live_ids: frozenset[str] | None = frozenset()
        self._orphans_by_parent: dict[str, tuple[str, ...]] = {}

    def restore(self, records: dict[str, Record]) -> None:
        """Add the records of another ledger."""
        self.records.update(records)
        for record in records.values():
            self._update_sets(record)

    def add_earlier(self, record: Record) -> None:
        """Move a task of another ledger here, which an earlier process of the session ran. Causes no events."""
        for run in record.runs:
            run.is_earlier = run.is_announced = True
            run.notification = None
            run.started_at = run.started_at or run.ended_at or 0.0
            run.ended_at = run.ended_at or None
        parent_id, record.parent_id = record.parent_id, None
        record.is_confirmed = True
        record.children = self._orphans_by_parent.pop(record.id, ())
        self.records[record.id] = record
        self.set_parent(record, parent_id)
        record.last_reported = record.reported_fields

    def take_changes(self, now: float) -> tuple[set[str], list[TaskEvent]]:
        """Return the ids of the tasks that may have changed since the last call, and the events since then.

        The events include a `TaskChanged` for each started task whose reported fields changed.
        """
        for task_id in self.touched:
            record = self.records[task_id]
            reported = record.last_reported
            if reported is not None and reported != (fields := record.reported_fields):
                record.last_reported = fields
                self.emit(TaskChanged, record, record.run, now, acts=False, **asdict(fields))
        touched, self.touched = self.touched, set()
        events, self.events = self.events, []
        return touched, events

    # Queries

    def live_ids(self) -> frozenset[str]:
        """Return the ids of the tasks without a final outcome, except ambient tasks."""
        if self._live_ids is None:
            self._live_ids = frozenset(self._live)
        return self._live_ids

    def causes_follow_up(self, task_id: str) -> bool:
        """Return whether the end of a task causes a follow-up turn.

        In the foreground a turn waits for the task, and the CLI does not know a task outside of it.
        """
        record = self.records.get(task_id)
        return record is None or (record.is_backgrounded is not False and not record.is_external)

    @property
    def has_external(self) -> bool:
        """Whether tasks are running outside the CLI."""
        return any(record.is_external and record.is_live for record in self.records.values())

    # Opening

    def ensure_record(self, task_id: str, now: float) -> Record:
        """Return the record of a task, creating it if necessary."""
        self.touched.add(task_id)
        record = self.records.get(task_id)
        if record is None:
            record = Record(id=task_id, last_activity=now, children=self._orphans_by_parent.pop(task_id, ()))
            self.records[task_id] = record
        return record

    def set_parent(self, record: Record, parent_id: str | None) -> None:
        """Put a task under its parent. Only the first call has an effect; a task is never its own ancestor."""
        if parent_id is None or record.parent_id is not None or self._is_ancestor(record.id, parent_id):
            return
        record.parent_id = parent_id
        parent = self.records.get(parent_id)
        if parent is not None:
            parent.children += (record.id,)
        else:
            self._orphans_by_parent[parent_id] = (*self._orphans_by_parent.get(parent_id, ()), record.id)

    def _is_ancestor(self, task_id: str, descendant_id: str) -> bool:
        seen: set[str] = set()
        above: str | None = descendant_id
        while above is not None and above not in seen:
            if above == task_id:
                return True
            seen.add(above)
            parent = self.records.get(above)
            above = parent.parent_id if parent else None
        return False

    def ensure_run(self, task_id: str, run_id: str | None, now: float) -> tuple[Record, TaskRun]:
        """Return the record of a task and the run for a run id, creating them if necessary."""
        record = self.ensure_record(task_id, now)
        if run_id is not None and record.runs and record.runs[-1].run_id == run_id:
            # The shortcut for almost every message.
            return record, record.runs[-1]
        run = next((run for run in reversed(record.runs) if run_id in (None, run.run_id)), None)
        if run is None and record.runs and _accepts_run_id(record.run):
            run = record.run
            run.run_id = run_id
        if run is None:
            run = self.open_run(record, run_id, now)
        run.is_nameless |= run_id is None
        return record, run

    def open_run(self, record: Record, run_id: str | None, now: float) -> TaskRun:
        """Begin a run. A run with an older id than the current run belongs to the past, and does not become current."""
        number = 1 + sum(not other.is_earlier for other in record.runs)
        name = record.id if number == 1 else f"{record.id}#{number}"
        run = TaskRun(started_at=now, id=name, run_id=run_id)
        if not record.runs:
            record.runs.append(run)
            return run
        current = record.run
        # Run ids sort by time, as text.
        if run_id is not None and current.run_id is not None and run_id < current.run_id:
            position = sum(1 for other in record.runs if other.run_id is not None and other.run_id < run_id)
            record.runs.insert(position, run)
            return run
        # The end of the previous run was lost: a task has only one run at a time, so it must have ended.
        if current.is_live:
            self.end(record, current, current.status, Evidence.NEXT_RUN, now)
        run.prompt = current.prompt
        record.last_text = ""
        run.status = move(current.status, Signal.NEW_RUN)
        record.runs.append(run)
        self._update_sets(record)
        return run

    def confirm(self, record: Record, run: TaskRun) -> None:
        """Record that the CLI itself mentioned the task. From now on it counts as live."""
        if run is record.run and not record.is_confirmed:
            record.is_confirmed = True
            self._update_sets(record)

    def announce(self, record: Record, run: TaskRun, now: float) -> None:
        """Emit the event for the start of a run, once. A run that was past when it became known has only an end."""
        if run.is_announced or not run.is_live or not record.is_confirmed or run is not record.run:
            return
        run.is_announced = True
        record.last_reported = record.last_reported or record.reported_fields
        self.has_news = True
        self._emit_start(TaskStarted if run is record.runs[0] else TaskReopened, record, run, now)

    def _emit_start(self, event: type[TaskEvent], record: Record, run: TaskRun, now: float) -> None:
        fields = record.describe_start(run) if self.wants(event) else {}
        self.emit(event, record, run, now, acts=False, **fields)

    def emit(
        self,
        event: type[TaskEvent],
        record: Record,
        run: TaskRun,
        at: float,
        *,
        acts: bool = True,
        **fields: object,
    ) -> None:
        """Add an event of a class with these fields. Its author is the task if it `acts`, otherwise its launcher."""
        self.touched.add(record.id)
        if self.wants(event):
            launcher = self.records.get(record.parent_id) if record.parent_id else None
            self.events.append(record.build_event(event, run, at, launcher, acts=acts, **fields))

    # Moving

    def signal(self, record: Record, run: TaskRun, signal: Signal, now: float, by: Evidence | None = None) -> None:
        """Apply a signal to a run, according to the table of transitions."""
        old = run.status
        new = move(old, signal, known_by=run.evidence, now_by=by)
        if new is old:
            return
        run.status = new
        self.touched.add(record.id)
        if old.is_terminal and not new.is_terminal:
            self._revive(record, run, now)
        elif run is record.run and run.is_announced and self.wants(TaskStatusChanged):
            at = run.ended_at or now if new.is_terminal else now
            change = {"old": old, "new": new, "failure_reason": run.end_reason}
            self.emit(TaskStatusChanged, record, run, at, acts=new is not TaskStatus.STOPPED, **change)

    def _revive(self, record: Record, run: TaskRun, now: float) -> None:
        """Reopen a run whose end was inferred wrongly."""
        run.evidence = None
        run.ended_at = None
        run.is_live = True
        run.outcome = None
        run.suspicion = None
        self.unresolved.pop(run, None)
        self.uncounted.pop(run, None)
        self._update_sets(record)
        self.has_news = True
        self._emit_start(TaskReopened, record, run, now)

    def record_activity(self, record: Record, now: float) -> None:
        """Record activity, which clears a weak suspicion that the run has ended, and postpones a stronger one."""
        record.last_activity = now
        run = record.run
        if run.suspicion is Evidence.HOOK:
            self.clear_suspicion(record)
        elif run.suspicion is not None:
            self.unresolved[run] = record, now + self.grace.doubt

    def set_backgrounded(self, record: Record, is_backgrounded: bool, now: float) -> None:
        """Record whether a task runs in the background."""
        if record.is_backgrounded is is_backgrounded:
            return
        moved = record.is_backgrounded is False and is_backgrounded and record.is_live
        record.is_backgrounded = is_backgrounded
        self._update_sets(record)
        if moved:
            self.emit(TaskBackgrounded, record, record.run, now, acts=False)

    def set_ambient(self, record: Record, is_ambient: bool) -> None:
        """Record whether a task is ambient. A task that was ambient once stays so."""
        if is_ambient and not record.is_ambient:
            record.is_ambient = True
            self._update_sets(record)
            self.has_news = True

    def set_output(self, record: Record, run: TaskRun, path: str | None, now: float) -> None:
        """Record the output path of a task."""
        if not path:
            return
        run.output_file = path
        if record.output_file != path:
            record.output_file = path
            self.on_output(record.id, path)
            self.emit(TaskOutputAvailable, record, run, now, path=path)

    # Ending

    def end(
        self, record: Record, run: TaskRun, status: TaskStatus, by: Evidence, now: float, *, wait: bool = False
    ) -> None:
        """End a run. With `wait`, the outcome is delayed for a moment, because the report has not arrived yet."""
        # The end of the current run has a start before it, even if the CLI reported only the end.
        self.announce(record, run, now)
        final = status if status.is_terminal else TaskStatus.COMPLETED
        self.signal(record, run, signal_for(final), now, by)
        if run.evidence is None or by.rank > run.evidence.rank:
            run.evidence = by
        if run.ended_at is None:
            run.ended_at = now
        run.suspicion = None
        if wait and run.is_live and run is record.run:
            self._postpone(record, run, now + self.grace.report)
        else:
            self._finalise(record, run, now)

    def _finalise(self, record: Record, run: TaskRun, now: float, *, by_counting: bool = False) -> None:
        """Publish that a run has an outcome, or a better one than before."""
        run.correct_start()
        self.touched.add(record.id)
        acts = run.status is not TaskStatus.STOPPED
        if run.is_live:
            run.is_live = False
            # Why it was stopped depends on the present state of its parent; all else can be read later.
            is_wanted = not acts or self.wants(TaskFinished) or self.wants(TaskRevised)
            run.outcome = self.build_outcome(record, run) if is_wanted else None
            self.unresolved.pop(run, None)
            if run is record.run:
                if record.prompts:
                    record.prompts = frozenset()
                self._update_sets(record)
            self.has_news = True
            self.emit(TaskFinished, record, run, now, outcome=run.outcome, message=run.notification, acts=acts)
            self._suspect_children(record, now)
            if record.is_agent and not record.is_child_agent:
                self._schedule_count(record, run, now)
        elif run.outcome is not None:
            old, run.outcome = run.outcome, self.build_outcome(record, run)
            if differ(old, run.outcome) or (by_counting and old.usage != run.outcome.usage):
                self.has_news = True
                self.emit(TaskRevised, record, run, now, old=old, outcome=run.outcome, acts=acts)

    def find_outcome(self, record: Record, run: TaskRun) -> TaskOutcome | None:
        """Return the outcome of a run, or None until it is finalised."""
        if run.outcome is None and not run.is_live:
            run.outcome = self.build_outcome(record, run)
        return run.outcome

    def build_outcome(self, record: Record, run: TaskRun) -> TaskOutcome:
        """Return the outcome of a run that has ended, from what is known so far."""
        by_model = run.spent.by_model
        return TaskOutcome(
            task_id=record.id,
            status=run.status,
            evidence=run.evidence or Evidence.LEVEL,
            summary=run.summary,
            failure_reason=run.end_reason,
            output_file=run.output_file or record.output_file,
            usage=record.compute_usage(run, self.prices, by_model),
            exit_code=run.exit_code,
            is_report=run.is_report,
            run_id=run.run_id,
            started_at=run.started_at or None,
            ended_at=run.ended_at or None,
            description=record.description,
            ended_by=record.find_cause_of_end(run, self.records.get(record.parent_id or "")),
            models=self.prices.price(by_model),
        )

    def list_ends(self, record: Record) -> list[TaskFinished]:
        """Return the ends of a task's runs in this process, with their usage as it is known by now."""
        launcher = self.records.get(record.parent_id or "")
        return [
            record.build_event(
                TaskFinished, run, run.ended_at or 0.0, launcher, acts=True, outcome=self.build_outcome(record, run)
            )
            for run in record.runs
            if not run.is_live and not run.is_earlier
        ]

    def replay_events(self, record: Record) -> Iterator[TaskEvent]:
        """Yield the start and the end of each run so far. A run of an earlier process has only an end."""
        launcher = self.records.get(record.parent_id or "")
        for run in record.runs:
            if run.is_announced:
                yield record.build_start(run, run.started_at, launcher)
            outcome = self.find_outcome(record, run)
            if outcome is not None:
                at = run.started_at if run.ended_at is None else run.ended_at
                acts = outcome.status is not TaskStatus.STOPPED
                end = {"outcome": outcome, "message": run.notification}
                yield record.build_event(TaskFinished, run, at, launcher, acts=acts, **end)

    def _schedule_count(self, record: Record, run: TaskRun, now: float) -> None:
        # This count covers an earlier run that was not counted yet.
        for other in record.runs:
            self.uncounted.pop(other, None)
        self.uncounted[run] = record, now + self.grace.transcript

    def count_live(self, now: float) -> None:
        """Have the transcripts of the running subagents counted, because their process has ended."""
        for record in self.own_live():
            if record.is_agent:
                self._schedule_count(record, record.run, now)

    def apply_count(
        self, record: Record, run: TaskRun, dated: Sequence[TaskRun], found: Counted | None, now: float
    ) -> None:
        """Add the counts of a task's transcript. If it does not contain the end yet, it is counted again later.

        `found.by_run` covers the `dated` runs. Any other run gets the remaining counts.
        """
        if run not in self.uncounted:
            return
        self.touched.add(record.id)
        if found is None:  # there is no transcript, only perhaps a late report of the usage
            del self.uncounted[run]
            if not run.is_live:
                self._finalise(record, run, now, by_counting=True)
            return
        counted = _set_counts(record, run, dated, found)
        is_completed = run.status is TaskStatus.COMPLETED
        run.spent.missing_tokens = run.spent.find_missing(counted) if is_completed else 0
        lacks_end = run.spent.missing_tokens > 0 or not counted.is_complete
        if is_completed and lacks_end and now < self.uncounted[run][1]:
            return
        del self.uncounted[run]
        # An earlier run may have ended too recently to have been counted separately.
        for each in record.runs:
            if not each.is_live and (each is run or each in dated):
                self._finalise(record, each, now, by_counting=True)

    def reprice(self, now: float) -> None:
        """Add the cost to earlier outcomes, because a price became known."""
        for record in self.records.values():
            for run in record.runs:
                if run.outcome is not None and run.outcome.usage is not None and run.outcome.usage.cost_usd is None:
                    self._finalise(record, run, now, by_counting=True)

    def _suspect_children(self, record: Record, now: float) -> None:
        """Suspect the foreground tasks of an ended subagent, which no longer waits for them."""
        for child_id in record.children:
            if child_id in self.foreground:
                self.suspect(self.records[child_id], Evidence.RESULT, now)

    def own_live(self) -> list[Record]:
        """Return the live tasks of the CLI."""
        return [record for record in self.records.values() if record.is_live and not record.is_external]

    def end_all(self, reason: str | None, by: EndedBy, now: float) -> None:
        """End the live tasks of the CLI, because its process ended: by itself (they failed) or because of `by`."""
        for record in self.own_live():
            run = record.run
            if not run.status.is_terminal:
                run.failure_reason = reason
                run.ended_by = run.ended_by or by
            self.end(record, run, by.status, Evidence.PROCESS_EXIT, now)
        for run, (record, until) in self.uncounted.items():
            if not record.is_external:  # nobody writes its transcript any more
                self.uncounted[run] = record, min(until, now + self.grace.report)
                self._finalise(record, run, now, by_counting=True)
        self.has_live_list = False

    # Suspicion

    def suspect(self, record: Record, why: Evidence, now: float) -> None:
        """Suspect that the current run has ended. Resolved after a grace period unless the task shows activity."""
        run = record.run
        if not run.is_live or run.status.is_terminal or record.is_external:
            return
        if run.suspicion is None or run.suspicion is Evidence.HOOK:
            run.suspicion = why
        if run not in self.unresolved:
            self._postpone(record, run, now + self.grace.doubt)

    def clear_suspicion(self, record: Record) -> None:
        """Drop the suspicion that the current run has ended."""
        run = record.run
        if run.suspicion is not None:
            run.suspicion = None
            self.unresolved.pop(run, None)

    def resolve(self, record: Record, finding: TaskFinding | None, now: float) -> None:
        """Decide whether an unresolved task has ended, with the evidence from its files."""
        run = record.run
        if finding is not None:
            run.summary = run.summary or finding.summary
            run.exit_code = finding.exit_code  # of a shell that has not reported its end
            run.failure_reason = run.failure_reason or finding.failure_reason
        why = run.suspicion
        # The CLI's list of live tasks would no longer contain it.
        is_refuted = why is Evidence.HOOK and self.has_live_list and record.is_confirmed
        if run.status.is_terminal:
            self._finalise(record, run, now)
        elif finding is not None and finding.status is not None:
            self.end(record, run, finding.status, finding.evidence, now)
        elif why is not None and why in _INFERRED_STATUS and not is_refuted:
            self.end(record, run, _INFERRED_STATUS[why], why, now)
        else:
            self.clear_suspicion(record)

    def _postpone(self, record: Record, run: TaskRun, until: float) -> None:
        self.unresolved[run] = record, until
        self.touched.add(record.id)
        self.has_news = True

    # Indexes

    def _update_sets(self, record: Record) -> None:
        task_id = record.id
        is_live = record.is_confirmed and record.is_live
        if (is_live and not record.is_ambient) != (task_id in self._live):
            self._live ^= {task_id}  # adds or removes it
            self._live_ids = None
        has_quiet_checks = self.background or self.foreground
        if has_quiet_checks:
            self.background.discard(task_id)
            self.foreground.discard(task_id)
        if is_live and not record.is_external and record.is_backgrounded is not None:
            ids = self.background if record.is_backgrounded else self.foreground
            ids.add(task_id)
            # The reconciler has no worker while it has nothing to check.
            if not has_quiet_checks:
                self.has_news = True


def _set_counts(record: Record, run: TaskRun, dated: Sequence[TaskRun], found: Counted) -> Counted:
    """Set the exact counts of the runs, and return those that tell whether the transcript contains the end of `run`."""
    if run not in dated:
        others = (other.spent.by_model for other in record.runs if other is not run)
        run.spent.set_exact(subtract_counts(found.spent.by_model, others))
        return found
    for each, its_counts in zip(dated, found.by_run, strict=True):
        each.spent.set_exact(its_counts.spent.by_model)
    return found.by_run[dated.index(run)]


def _accepts_run_id(run: TaskRun) -> bool:
    """Return whether a new run id may belong to this run: only signals without a run id mentioned it so far.

    A run that certainly ended without a run id is an earlier run: the CLI gives no run id to runs of another process.
    But the notification about a subagent that the model stopped follows the result of TaskStop.
    """
    was_stopped = run.evidence is Evidence.TOOL_RESULT and run.status is TaskStatus.STOPPED
    is_over = run.evidence is not None and run.evidence.is_certain and not was_stopped
    return run.run_id is None and not run.is_earlier and not (run.is_nameless and is_over)
