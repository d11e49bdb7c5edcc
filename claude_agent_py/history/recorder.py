"""Turn what happens to the tasks of a session into records.

The recorder is called with each change at once, so that a record has the state of that moment; records may be stored
later. It remembers the recorded state of every task. A step of one task is recorded together with all other changes, so
that rebuilding from the records yields the tasks at that step. Changes that are not steps (mainly usage, which changes
with every message of a subagent) are recorded with the next step.
"""

import json
import weakref
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from claude_agent_py.history.rebuild import TEXTS, fold
from claude_agent_py.history.records import FinishedTask, RecordedTask, RecordKind, TaskRecord
from claude_agent_py.tasks.events import (
    TaskAnswered,
    TaskAsked,
    TaskBackgrounded,
    TaskEvent,
    TaskFinished,
    TaskOutputAvailable,
    TaskProgressed,
    TaskReopened,
    TaskRevised,
    TaskStarted,
    TaskStatusChanged,
)
from claude_agent_py.tasks.intake import steady_time
from claude_agent_py.tasks.manager import TaskManager
from claude_agent_py.tasks.outcome import TaskOutcome, differ
from claude_agent_py.tasks.task import Task
from claude_agent_py.wire.messages.tasks import CHILD_AGENT, TaskStatus, TaskUsage

_END_OF: Final = {
    TaskStatus.COMPLETED: RecordKind.COMPLETED,
    TaskStatus.FAILED: RecordKind.FAILED,
    TaskStatus.STOPPED: RecordKind.CANCELLED,
}
_FACTS: Final = (*TEXTS.values(), "usage", "is_backgrounded")
"""The recorded facts of a task, besides its status and parent."""
_DETAIL_OF: Final = {its_field: name for name, its_field in TEXTS.items()}


class Recorder:
    """The records of one session. Notified in the event loop's thread; `take` may be called from any thread.

    Args:
        manager: The tasks of the session.
    """

    def __init__(self, manager: TaskManager) -> None:
        self._manager = weakref.ref(manager)  # the history holds the recorder and outlives the session
        self._known: dict[str, RecordedTask] = {}
        self._touched: set[str] = set()
        """The tasks that may differ from their recorded state."""
        self._steps: Counter[str] = Counter()
        self._heard: set[tuple[str, str | None, bool]] = set()
        """The runs whose start (False) or end (True) was reported."""
        self._waiting: deque[TaskRecord | FinishedTask] = deque()

    @property
    def manager(self) -> TaskManager | None:
        """The tasks; None if the session is gone."""
        return self._manager()

    @property
    def has_waiting(self) -> bool:
        """Whether there are records to store."""
        return bool(self._waiting)

    @property
    def has_live(self) -> bool:
        """Whether a task is not over according to the records."""
        return any(not task.status.is_terminal for task in self._known.values())

    def take(self) -> "list[TaskRecord | FinishedTask]":
        """Return and remove the records to store."""
        return [self._waiting.popleft() for _ in range(len(self._waiting))]

    def give_back(self, rows: "list[TaskRecord | FinishedTask]") -> None:
        """Undo `take`."""
        self._waiting.extendleft(reversed(rows))

    # Hearing

    def catch_up(self, manager: TaskManager) -> None:
        """Record the existing tasks, with the start and the end of each run."""
        self._touched.update(task.id for task in manager)
        self._record(manager, [event for event in manager.so_far() if _run_of(event) not in self._heard])

    def settle(self) -> None:
        """Record changes that would otherwise wait for the next step."""
        if (manager := self.manager) is not None:
            self._record(manager, [])

    def hear(self, manager: TaskManager, touched: set[str], events: list[TaskEvent]) -> None:
        """Record events."""
        self._touched |= touched
        if any(map(_is_step, events)):
            self._record(manager, events)

    def _record(self, manager: TaskManager, events: list[TaskEvent]) -> None:
        """Record events and all other changes."""
        self._heard.update(filter(None, map(_run_of, events)))
        touched, self._touched = self._touched | {event.task_id for event in events}, set()
        tasks = {task.id: task for task in _in_order(manager, touched)}
        at_first = {event.task_id: event for event in reversed(events)}
        drafts = [_created(task, at_first.get(task.id)) for task in tasks.values() if task.id not in self._known]
        asking = {event.task_id for event in events if isinstance(event, TaskAsked)}
        for event in events:
            drafts += _drafts(event, tasks[event.task_id], is_asked=event.task_id in asking)
            if isinstance(event, TaskFinished | TaskRevised):
                self._waiting.append(FinishedTask.of(tasks[event.task_id], event.outcome, ""))
        told = {draft.task_id for draft in drafts}
        drafts += [_changed(task, at_first.get(task.id)) for task in tasks.values() if task.id not in told]
        last = {draft.task_id: index for index, draft in enumerate(drafts)}
        for index, draft in enumerate(drafts):
            self._put(draft, tasks[draft.task_id] if last[draft.task_id] == index else None)

    def _put(self, draft: TaskRecord, task: Task | None) -> None:
        """Add a record. The last one about a task also has its other changes."""
        before = self._known.get(draft.task_id)
        after = fold(before, draft)
        if task is not None:
            changed = dict(_differences(after, task))
            if draft.kind is RecordKind.CHANGED and not changed and after == before and after.status is task.status:
                return
            draft = replace(draft, status=task.status, details={**draft.details, **changed})
            after = fold(before, draft)
        else:
            draft = replace(draft, status=after.status)
        self._known[draft.task_id] = after
        draft = replace(draft, step=self._steps[draft.key])
        self._steps[replace(draft, step=0).key] += 1
        self._waiting.append(draft)


def _run_of(event: TaskEvent) -> tuple[str, str | None, bool] | None:
    if isinstance(event, TaskStarted | TaskReopened | TaskFinished):
        return event.task_id, event.run_id, isinstance(event, TaskFinished)
    return None


def _is_step(event: TaskEvent) -> bool:
    """Return whether to record an event now. A final status is not recorded, because the end follows."""
    if isinstance(event, TaskStatusChanged):
        return not event.new.is_terminal
    return not isinstance(event, TaskOutputAvailable)


def _in_order(manager: TaskManager, ids: set[str]) -> list[Task]:
    """Return tasks in the order in which they became known."""
    return [manager[task_id] for task_id in ids] if len(ids) < 2 else [task for task in manager if task.id in ids]


def _differences(known: RecordedTask, task: Task) -> Iterator[tuple[str, Any]]:
    """Yield the details in which the task differs from its records."""
    for name in _FACTS:
        now = None if name == "failure_reason" and not task.done else getattr(task, name)
        if now != getattr(known, name):
            yield _DETAIL_OF.get(name, name), now.raw if isinstance(now, TaskUsage) else now


# Records of events


def _draft(
    kind: RecordKind,
    task: Task,
    at: float,
    author: str,
    *,
    run_id: str | None = None,
    outcome: TaskOutcome | None = None,
    details: dict[str, Any] | None = None,
) -> TaskRecord:
    return TaskRecord(
        session_id="",
        task_id=task.id,
        kind=kind,
        at=at,
        run_id=run_id or task.run_id,
        author=author,
        parent_task_id=task.parent_id,
        summary=outcome.summary if outcome else "",
        failure_reason=outcome.failure_reason if outcome else None,
        details=details or {},
    )


def _created(task: Task, event: TaskEvent | None) -> TaskRecord:
    run_id, at = (event.run_id, event.at) if event else (task.run_id, task.started_at)
    details: dict[str, Any] = {"type": task.type, "agent": task.subagent_type, "description": task.description}
    if task.prompt is not None:
        details["prompt"] = task.prompt
    if task.brief:
        details["brief"] = _as_json(task.brief)
    return _draft(RecordKind.CREATED, task, at, task.author, run_id=run_id, details=details)


def _changed(task: Task, event: TaskEvent | None) -> TaskRecord:
    at, author = (event.at, event.author) if event else (steady_time(), _actor(task))
    return _draft(RecordKind.CHANGED, task, at, author)


def _drafts(event: TaskEvent, task: Task, *, is_asked: bool) -> Iterator[TaskRecord]:
    """Yield the records of an event, if it has any."""
    kind = _kind_of(event, task)
    if kind is None or (kind is RecordKind.AWAITING_USER and is_asked and not isinstance(event, TaskAsked)):
        return
    outcome = event.outcome if isinstance(event, TaskFinished | TaskRevised) else None
    at = outcome.ended_at if outcome is not None and outcome.ended_at is not None else event.at
    details = _details(event, outcome)
    author = _actor(task) if kind is RecordKind.STARTED else event.author
    yield _draft(kind, task, at, author, run_id=event.run_id, outcome=outcome, details=details)


def _kind_of(event: TaskEvent, task: Task) -> RecordKind | None:
    match event:
        case TaskStarted():
            return None if task.type == CHILD_AGENT else RecordKind.STARTED  # its process has not started yet
        case TaskReopened():
            return RecordKind.RESUMED
        case TaskBackgrounded():
            return RecordKind.BACKGROUNDED
        case TaskProgressed():
            return RecordKind.PROGRESSED
        case TaskAsked():
            return RecordKind.AWAITING_USER
        case TaskAnswered():
            return RecordKind.ANSWERED
        case TaskRevised() if not differ(event.old, event.outcome):
            return None  # only the counts changed
        case TaskFinished() | TaskRevised():
            return _END_OF[event.outcome.status]
        case TaskStatusChanged():
            return next((kind for old, new, kind in _CHANGES if event.new is new and old in (None, event.old)), None)
        case _:
            return None


_CHANGES: Final = (
    (TaskStatus.PENDING, TaskStatus.RUNNING, RecordKind.STARTED),
    (None, TaskStatus.AWAITING_USER, RecordKind.AWAITING_USER),
    (None, TaskStatus.PAUSED, RecordKind.PAUSED),
    (None, TaskStatus.RUNNING, RecordKind.RESUMED),
)
"""The status changes that are steps: old (None means any), new, step. The first match counts."""


def _details(event: TaskEvent, outcome: TaskOutcome | None) -> dict[str, Any]:
    if outcome is not None:
        told: dict[str, Any] = {
            "evidence": outcome.evidence.value,
            "usage": outcome.usage.raw if outcome.usage else None,
            "exit_code": outcome.exit_code,
            "output_file": outcome.output_file,
            "by": outcome.ended_by.value if outcome.ended_by else None,
        }
        return {name: value for name, value in told.items() if value is not None}
    match event:
        case TaskAsked(asked=asked):
            return {"question": asked.question, "asks": asked.kind, "interaction": asked.interaction_id}
        case TaskAnswered(answered=answered):
            answer: Any = _as_json(answered.answer)
            told = {"by": answered.by, "origin": answered.origin, "interaction": answered.interaction_id}
            return {"answer": answer, **told}
        case TaskProgressed():
            return {"activity": event.activity, "tool": event.last_tool_name}
        case TaskReopened(prompt=prompt) if prompt is not None:
            return {"prompt": prompt}
        case _:
            return {}


def _actor(task: Task) -> str:
    """Return the author of a task's own actions."""
    return task.subagent_type or task.id if task.is_agent else task.author


def _as_json(value: Any) -> Any:
    """Convert any value from handlers or callers to JSON."""
    return json.loads(json.dumps(value, default=str))
