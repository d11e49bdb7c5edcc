"""`TaskFacts`: the part of the journal that numbers the events of a `Ledger`.

Most events become facts as they are. Not those about a shell in the foreground, which is a part of its call, about an
ambient task, or about a run that the journal does not know.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol

from msgspec.structs import replace

from claude_agent_py._base.bounded_dict import BoundedDict
from claude_agent_py._journal.fact_base import check_time
from claude_agent_py._journal.tasks import signals
from claude_agent_py._journal.tasks.events import TaskBackgrounded, TaskEvent, TaskFinished, TaskReopened, TaskStarted
from claude_agent_py._journal.tasks.ledger import Ledger
from claude_agent_py._journal.tasks.record import EventT, Record
from claude_agent_py._journal.tasks.state import Evidence
from claude_agent_py.wire.messages.tasks import TaskNotificationMessage, TaskStatus

_MAX_ENDED: Final = 1000
"""How many tasks that have ended are remembered, for what may still be told about them."""


class Number(Protocol):
    """Adds a fact that has no number, and returns it with one."""

    def __call__(self, fact: EventT, /) -> EventT: ...


class TaskFacts:
    """The tasks of a session as facts.

    Args:
        ledger: The tasks.
        number: Numbers a fact.
        on_end: Called with the id of a task that has ended, before the fact about it.
    """

    def __init__(self, ledger: Ledger, number: Number, on_end: Callable[[str], None]) -> None:
        self._ledger = ledger
        self._number = number
        self._on_end = on_end
        self.open: dict[str, TaskStarted | TaskReopened] = {}
        """The facts of the start of running tasks, by task id."""
        self._ended: BoundedDict[str, None] = BoundedDict(_MAX_ENDED)
        """The runs of tasks that have ended, by id. Their outcome may be corrected."""
        self._task_of_run: BoundedDict[str, str] = BoundedDict(_MAX_ENDED)

    def add_running(self) -> None:
        """Add the starts of the tasks that run already."""
        for record in self._ledger.records.values():
            for run in record.runs:
                if run.run_id is not None:  # a turn may follow the end of a task
                    self._task_of_run.put(run.run_id, run.id)
            if record.is_live and record.run.is_announced and not record.is_ambient:
                at = check_time(record.run.started_at)
                self._take(self._build_start(record, at), record, at)

    def add(self, events: list[TaskEvent], at: float | None) -> None:
        """Add the events of the ledger, and replace those in the list that become facts by the facts."""
        for place, event in enumerate(events):
            record = self._ledger.records[event.task_id]
            if not record.is_ambient:
                events[place] = self._take(event, record, at)

    def add_late_report(self, message: TaskNotificationMessage, at: float | None) -> None:
        """Add the end of a task of an earlier process when it is reported: the ledger does not end it again."""
        record = self._ledger.records.get(message.task_id)
        if record is None or not record.run.is_earlier or record.is_ambient or record.run.id in self._ended:
            return
        run, status = record.run, signals.read_end(record.run, message)
        known = self._ledger.build_outcome(record, run)
        outcome = replace(known, status=status, evidence=Evidence.NOTIFICATION, summary=message.summary)
        self._take(self._build_start(record, at), record, at)
        launcher = self._ledger.records.get(record.parent_id or "")
        acts, end = status is not TaskStatus.STOPPED, {"outcome": outcome, "message": message}
        self._take(record.build_event(TaskFinished, run, at or 0.0, launcher, acts=acts, **end), record, at)

    def describe_open(self) -> Iterator[TaskStarted | TaskReopened]:
        """Yield the facts of the start of running tasks, which show what has become known of them since."""
        for task_id, started in self.open.items():
            record = self._ledger.records[task_id]
            shown = self._build_start(record, started.at) if record.run.id == started.id else started
            yield replace(shown, number=started.number, at=started.at)

    def find_run(self, task_id: str) -> str:
        """Return the id of the current run of a task."""
        record = self._ledger.records.get(task_id)
        return record.run.id if record is not None and record.runs else task_id

    def find_named_run(self, run_id: str | None) -> str | None:
        """Return the id of the run that the CLI calls `run_id`, or None."""
        return self._task_of_run.get(run_id or "")

    def find_launched(self, call: str) -> str | None:
        """Return the running task that a call launched, or None."""
        return next((task.task_id for task in self.open.values() if task.call == call), None)

    def _take(self, event: EventT, record: Record, at: float | None) -> EventT:
        """Return the fact of an event; the event itself if it is about a part of a call or about an unknown run."""
        kind = type(event)
        begins = kind is TaskStarted or kind is TaskReopened
        # A shell in the foreground has no start until it moves.
        if begins or (kind is TaskBackgrounded and record.id not in self.open):
            if record.is_part_of_its_call:
                return event
            start: Any = self._number(event if begins else self._build_start(record, at))
            self.open[record.id] = start
            self._ended.pop(start.id, None)
            if start.run_id is not None:
                self._task_of_run.put(start.run_id, start.id)
            return start if begins else self._number(event)
        if kind is TaskFinished:
            self._on_end(record.id)
        started = self.open.get(record.id)
        if started is None or started.id != event.id:
            return self._number(event) if event.id in self._ended else event
        if kind is TaskFinished:
            self._ended.put(self.open.pop(record.id).id, None)
        return self._number(event)

    def _build_start(self, record: Record, at: float | None) -> TaskStarted | TaskReopened:
        return record.build_start(record.run, at or 0.0, self._ledger.records.get(record.parent_id or ""))
