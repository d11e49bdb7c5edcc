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
from claude_agent_py._journal.tasks.outcome import differ
from claude_agent_py.history.records import (
    DETAILS,
    STATUS,
    FinishedTask,
    RecordedTask,
    RecordKind,
    TaskRecord,
    apply_record,
)
from claude_agent_py.tasks.intake import steady_time
from claude_agent_py.tasks.manager import TaskManager
from claude_agent_py.tasks.task import Task
from claude_agent_py.wire.base import JSONObject
from claude_agent_py.wire.messages.tasks import CHILD_AGENT, TaskStatus, TaskUsage

_KINDS: Final = {status: kind for kind, status in STATUS.items()}
"""The steps that lead to each status."""


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
        self.ended_before: set[str] = set()
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
            # The status change that accompanies a question is the same step.
            if not (event.task_id in asking and _begins_to_wait(event)):
                drafts += filter(None, [_build_step(event, tasks[event.task_id])])
        drafted = {draft.task_id for draft in drafts}
        for task in tasks.values():
            if task.id not in drafted:
                event = first_events.get(task.id) or TaskEvent(
                    task_id=task.id, at=steady_time(), author=_find_actor(task)
                )
                drafts.append(_build(RecordKind.CHANGED, event, task))
        return drafts

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


def _begins_to_wait(event: TaskEvent) -> bool:
    return isinstance(event, TaskStatusChanged) and event.new is TaskStatus.AWAITING_USER


def _sort_tasks(manager: TaskManager, ids: set[str]) -> list[Task]:
    """Return tasks in the order of the task manager."""
    if len(ids) < 2:
        return [manager[task_id] for task_id in ids]
    return [task for task in manager if task.id in ids]


def _differences(known: RecordedTask, task: Task) -> Iterator[tuple[str, object]]:
    """Yield the details of the task that differ from its records."""
    for field in DETAILS:
        name = field.name
        now = None if name == "failure_reason" and not task.done else getattr(task, name)
        if name != "brief" and now != getattr(known, name):
            yield field.encode_name, now.raw if isinstance(now, TaskUsage) else now


# Records of events


def _build(
    kind: RecordKind, event: TaskEvent, task: Task, details: JSONObject | None = None, *, author: str | None = None
) -> TaskRecord:
    return TaskRecord(
        session_id="",
        task_id=task.id,
        kind=kind,
        at=event.at or 0.0,
        run_id=event.run_id or task.run_id,
        author=event.author if author is None else author,
        parent_task_id=task.parent_id,
        details=details or {},
    )


def _build_created(task: Task, event: TaskEvent | None) -> TaskRecord:
    details: JSONObject = {"type": task.type, "agent": task.subagent_type, "description": task.description}
    if task.prompt is not None:
        details["prompt"] = task.prompt
    if task.brief:
        details["brief"] = _to_json(task.brief)
    return _build(
        RecordKind.CREATED, event or TaskEvent(task_id=task.id, at=task.started_at), task, details, author=task.author
    )


def _build_step(event: TaskEvent, task: Task) -> TaskRecord | None:
    """Return the record of an event, or None if the event is no step."""
    match event:
        case TaskStarted():
            # The process of a child agent starts later, which changes its status.
            is_later = task.type == CHILD_AGENT
            return None if is_later else _build(RecordKind.STARTED, event, task, author=_find_actor(task))
        case TaskStatusChanged():
            return _build_status_change(event, task)
        case TaskReopened():
            return _build(RecordKind.RESUMED, event, task, {} if event.prompt is None else {"prompt": event.prompt})
        case TaskBackgrounded():
            return _build(RecordKind.BACKGROUNDED, event, task)
        case TaskProgressed():
            details: JSONObject = {"activity": event.activity, "tool": event.last_tool_name}
            return _build(RecordKind.PROGRESSED, event, task, details)
        case TaskAsked(asked=asked):
            details = {"question": asked.question, "asks": asked.kind, "interaction": asked.interaction_id}
            return _build(RecordKind.AWAITING_USER, event, task, details)
        case TaskAnswered(answered=answered):
            details = {"answer": _to_json(answered.answer), "by": answered.by, "origin": answered.origin}
            return _build(RecordKind.ANSWERED, event, task, {**details, "interaction": answered.interaction_id})
        case TaskRevised() if not differ(event.old, event.outcome):
            return None  # only the counts changed
        case TaskFinished() | TaskRevised():
            return _build_end(event, task)
    return None


def _build_status_change(event: TaskStatusChanged, task: Task) -> TaskRecord | None:
    if (event.old, event.new) == (TaskStatus.PENDING, TaskStatus.RUNNING):
        return _build(RecordKind.STARTED, event, task, author=_find_actor(task))
    kind = None if event.new.is_terminal else _KINDS.get(event.new)
    return None if kind is None else _build(kind, event, task)


def _build_end(event: TaskFinished | TaskRevised, task: Task) -> TaskRecord:
    outcome = event.outcome
    details: JSONObject = {
        "evidence": outcome.evidence.value,
        "usage": outcome.usage.raw if outcome.usage else None,
        "exit_code": outcome.exit_code,
        "output_file": outcome.output_file,
        "by": outcome.ended_by.value if outcome.ended_by else None,
    }
    known = {name: value for name, value in details.items() if value is not None}
    return replace(
        _build(_KINDS[outcome.status], event, task, known),
        at=(event.at or 0.0) if outcome.ended_at is None else outcome.ended_at,
        summary=outcome.summary,
        failure_reason=outcome.failure_reason,
    )


def _find_actor(task: Task) -> str:
    """Return the author of a task's own actions."""
    if task.is_agent:
        return task.subagent_type or task.id
    return task.author


def _to_json(value: object) -> object:
    """Convert any value from handlers or callers to JSON. A value that has no JSON form is replaced with a notice."""
    try:
        return json.loads(json.dumps(value, default=str))
    except (TypeError, ValueError, RecursionError) as error:
        return f"(not recorded, because it has no JSON form: {type(error).__name__})"
