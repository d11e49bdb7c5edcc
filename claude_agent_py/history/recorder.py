"""Turn task events of a session into records.

The recorder is called immediately after each change, so that a record has the state of that moment; records may be
stored later. The recorder remembers the recorded state of every task. It records a step of one task together with all
other changes, so that rebuilding from the records yields the tasks at that step. Changes that are not steps (mainly
usage, which changes with every message of a subagent) are recorded with the next step.
"""

import json
import threading
import weakref
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from claude_agent_py._journal.tasks.events import (
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
from claude_agent_py._journal.tasks.outcome import TaskOutcome, differ
from claude_agent_py.history.records import TEXTS, FinishedTask, RecordedTask, RecordKind, TaskRecord, apply_record
from claude_agent_py.tasks.intake import steady_time
from claude_agent_py.tasks.manager import TaskManager
from claude_agent_py.tasks.task import Task
from claude_agent_py.wire.base import JSONObject
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
    """The records of one session. Notified in the event loop's thread; any thread may take what waits.

    Args:
        manager: The tasks of the session.
        session_id: The session's id, or a function that returns it once it is known.
        flush: Stores the waiting records.
    """

    def __init__(
        self,
        manager: TaskManager,
        session_id: Callable[[], str | None] | str,
        flush: Callable[[], Awaitable[None]],
    ) -> None:
        # A weak reference, because the history holds the recorder and outlives the session.
        self._manager = weakref.ref(manager)
        self._session_id = session_id
        self._flush = flush
        self._stop: Callable[[], None] | None = None
        self._thread = threading.get_ident()
        self.sessions: dict[str, str] = {}
        """The session of each task that has a stored record."""
        self.earlier: set[str] = set()
        """Tasks whose end was stored by an earlier process."""
        self._known: dict[str, RecordedTask] = {}
        self._touched: set[str] = set()
        """The tasks that may differ from their recorded state."""
        self._steps: Counter[str] = Counter()
        self._reported_runs: set[tuple[str, str | None, bool]] = set()
        """The runs whose start (False) or end (True) was recorded."""
        self.waiting: deque[TaskRecord | FinishedTask] = deque()
        """The records to store."""

    @property
    def is_in_use(self) -> bool:
        """Whether a task is running according to the records, or there are records to store."""
        return bool(self.waiting) or any(not task.status.is_terminal for task in self._known.values())

    @property
    def session_id(self) -> str | None:
        """The id of the session; None while it is unknown."""
        return self._session_id() if callable(self._session_id) else self._session_id

    def is_for(self, manager: TaskManager, session_id: Callable[[], str | None] | str) -> bool:
        """Return whether this object records this manager for this session."""
        return self._manager() is manager and self._session_id == session_id

    # Events

    def listen(self, manager: TaskManager) -> None:
        """Start recording. Begins with the existing tasks, and the start and the end of each run."""
        if self._stop is None or not manager.listens(self.keep):
            self._unwatch()
            self._stop = manager.watch(self._on_change)
            manager.on(self.keep)
            self._touched.update(task.id for task in manager)
            past = [event for event in manager.so_far() if _identify_run(event) not in self._reported_runs]
            self._record(manager, past)
            # Call `keep` for the past events, so that it stores their records.
            manager.catch_up(self.keep)

    async def keep(self, event: TaskEvent) -> None:
        """Store the waiting records. One call stores the records of many events, so most calls do nothing."""
        if self.waiting:
            await self._flush()

    def record_pending_changes(self) -> None:
        """Record changes that would otherwise wait for the next step. Does nothing outside the session's thread."""
        manager = self._manager()
        if manager is not None and threading.get_ident() == self._thread:
            self._record(manager, [])

    def _on_change(self, touched: set[str], events: list[TaskEvent]) -> None:
        """Record the events if one of them is a step, otherwise remember the changed tasks."""
        manager = self._manager()
        # `TaskManager.off` removes `keep`.
        if manager is None or not manager.listens(self.keep):
            self._unwatch()
            return
        self._touched |= touched
        if any(map(_is_step, events)):
            self._record(manager, events)

    def _unwatch(self) -> None:
        stop = self._stop
        self._stop = None
        if stop is not None:
            stop()

    def _record(self, manager: TaskManager, events: list[TaskEvent]) -> None:
        """Record events and all other changes."""
        self._reported_runs.update(filter(None, map(_identify_run, events)))
        touched = self._touched | {event.task_id for event in events}
        self._touched = set()
        tasks = {task.id: task for task in _sort_tasks(manager, touched)}
        for event in events:
            if isinstance(event, TaskFinished | TaskRevised):
                self.waiting.append(FinishedTask.of(tasks[event.task_id], event.outcome, ""))
        drafts = self._draft(tasks, events)
        last = {draft.task_id: draft for draft in drafts}
        for draft in drafts:
            self._add(draft, tasks[draft.task_id] if draft is last[draft.task_id] else None)

    def _draft(self, tasks: Mapping[str, Task], events: list[TaskEvent]) -> list[TaskRecord]:
        """Return at least one record for each task: that it is new, its events, or that it has changed."""
        first_events = {event.task_id: event for event in reversed(events)}
        asking = {event.task_id for event in events if isinstance(event, TaskAsked)}
        new = [task for task in tasks.values() if task.id not in self._known]
        drafts = [_build_created(task, first_events.get(task.id)) for task in new]
        for event in events:
            drafts += _build_records(event, tasks[event.task_id], is_asked=event.task_id in asking)
        drafted = {draft.task_id for draft in drafts}
        other = [task for task in tasks.values() if task.id not in drafted]
        return drafts + [_build_changed(task, first_events.get(task.id)) for task in other]

    def _add(self, draft: TaskRecord, task: Task | None) -> None:
        """Add a record. The last record of a task also contains its other changes: then `task` is given."""
        before = self._known.get(draft.task_id)
        after = apply_record(before, draft)
        if task is None:
            draft = replace(draft, status=after.status)
        else:
            changed = dict(_differences(after, task))
            if draft.kind is RecordKind.CHANGED and not changed and after == before and after.status is task.status:
                return
            draft = replace(draft, status=task.status, details={**draft.details, **changed})
        self._known[draft.task_id] = apply_record(before, draft)
        key = draft.key  # of step 0, which each draft has
        self.waiting.append(replace(draft, step=self._steps[key]))
        self._steps[key] += 1


def _identify_run(event: TaskEvent) -> tuple[str, str | None, bool] | None:
    if isinstance(event, TaskStarted | TaskReopened | TaskFinished):
        return event.task_id, event.run_id, isinstance(event, TaskFinished)
    return None


def _is_step(event: TaskEvent) -> bool:
    """Return whether to record an event now. A final status is not recorded, because the end follows."""
    if isinstance(event, TaskStatusChanged):
        return not event.new.is_terminal
    return not isinstance(event, TaskOutputAvailable)


def _sort_tasks(manager: TaskManager, ids: set[str]) -> list[Task]:
    """Return tasks in the order of the task manager."""
    if len(ids) < 2:
        return [manager[task_id] for task_id in ids]
    return [task for task in manager if task.id in ids]


def _differences(known: RecordedTask, task: Task) -> Iterator[tuple[str, object]]:
    """Yield the details of the task that differ from its records."""
    for name in _FACTS:
        now = None if name == "failure_reason" and not task.done else getattr(task, name)
        if now != getattr(known, name):
            value = now.raw if isinstance(now, TaskUsage) else now
            yield _DETAIL_OF.get(name, name), value


# Records of events


def _build_record(
    kind: RecordKind,
    task: Task,
    at: float,
    author: str,
    *,
    run_id: str | None = None,
    outcome: TaskOutcome | None = None,
    details: JSONObject | None = None,
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


def _build_created(task: Task, event: TaskEvent | None) -> TaskRecord:
    run_id = event.run_id if event else task.run_id
    at = event.at if event else task.started_at
    details: JSONObject = {"type": task.type, "agent": task.subagent_type, "description": task.description}
    if task.prompt is not None:
        details["prompt"] = task.prompt
    if task.brief:
        details["brief"] = _to_json(task.brief)
    return _build_record(RecordKind.CREATED, task, at, task.author, run_id=run_id, details=details)


def _build_changed(task: Task, event: TaskEvent | None) -> TaskRecord:
    if event is None:
        return _build_record(RecordKind.CHANGED, task, steady_time(), _find_actor(task))
    return _build_record(RecordKind.CHANGED, task, event.at, event.author)


def _build_records(event: TaskEvent, task: Task, *, is_asked: bool) -> Iterator[TaskRecord]:
    """Yield the record of an event, if the event is a step."""
    kind = _classify(event, task)
    if kind is None:
        return
    # The status change that accompanies a question is the same step.
    if kind is RecordKind.AWAITING_USER and is_asked and not isinstance(event, TaskAsked):
        return
    outcome = event.outcome if isinstance(event, TaskFinished | TaskRevised) else None
    at = event.at
    if outcome is not None and outcome.ended_at is not None:
        at = outcome.ended_at
    details = _build_details(event, outcome)
    author = _find_actor(task) if kind is RecordKind.STARTED else event.author
    yield _build_record(kind, task, at, author, run_id=event.run_id, outcome=outcome, details=details)


def _classify(event: TaskEvent, task: Task) -> RecordKind | None:
    match event:
        case TaskStarted():
            # The process of a child agent starts later, which changes its status.
            return None if task.type == CHILD_AGENT else RecordKind.STARTED
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
        # Only the counts changed.
        case TaskRevised() if not differ(event.old, event.outcome):
            return None
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


def _build_details(event: TaskEvent, outcome: TaskOutcome | None) -> JSONObject:
    if outcome is not None:
        details: JSONObject = {
            "evidence": outcome.evidence.value,
            "usage": outcome.usage.raw if outcome.usage else None,
            "exit_code": outcome.exit_code,
            "output_file": outcome.output_file,
            "by": outcome.ended_by.value if outcome.ended_by else None,
        }
        return {name: value for name, value in details.items() if value is not None}
    match event:
        case TaskAsked(asked=asked):
            return {"question": asked.question, "asks": asked.kind, "interaction": asked.interaction_id}
        case TaskAnswered(answered=answered):
            return {
                "answer": _to_json(answered.answer),
                "by": answered.by,
                "origin": answered.origin,
                "interaction": answered.interaction_id,
            }
        case TaskProgressed():
            return {"activity": event.activity, "tool": event.last_tool_name}
        case TaskReopened(prompt=prompt) if prompt is not None:
            return {"prompt": prompt}
        case _:
            return {}


def _find_actor(task: Task) -> str:
    """Return the author of a task's own actions."""
    if task.is_agent:
        return task.subagent_type or task.id
    return task.author


def _to_json(value: object) -> object:
    """Convert any value from handlers or callers to JSON."""
    return json.loads(json.dumps(value, default=str))
