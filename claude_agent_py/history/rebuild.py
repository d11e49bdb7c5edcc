"""Rebuild the task tree of a session from the records of a history. See also `tasks.tree`, for live tasks."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from claude_agent_py.history.records import RecordedTask, RecordedTree, RecordKind, TaskRecord
from claude_agent_py.wire.fitting import fit
from claude_agent_py.wire.messages.tasks import TaskStatus, TaskUsage

_STATUS: Final = {
    RecordKind.STARTED: TaskStatus.RUNNING,
    RecordKind.RESUMED: TaskStatus.RUNNING,
    RecordKind.PAUSED: TaskStatus.PAUSED,
    RecordKind.AWAITING_USER: TaskStatus.AWAITING_USER,
    RecordKind.COMPLETED: TaskStatus.COMPLETED,
    RecordKind.FAILED: TaskStatus.FAILED,
    RecordKind.CANCELLED: TaskStatus.STOPPED,
}
"""The status after a record without a status."""

_ENDS: Final = frozenset({RecordKind.COMPLETED, RecordKind.FAILED, RecordKind.CANCELLED})

TEXTS: Final[Mapping[str, str]] = {
    "type": "type",
    "agent": "subagent_type",
    "description": "description",
    "prompt": "prompt",
    "activity": "activity",
    "output_file": "output_file",
    "summary": "summary",
    "failure_reason": "failure_reason",
    "run_id": "run_id",
}
"""The details of a record that describe its task, with the fields of `RecordedTask` that they set."""
_MAY_BE_NONE: Final = frozenset({"type", "agent", "prompt", "output_file", "failure_reason", "run_id"})


def rebuild(records: Iterable[TaskRecord]) -> RecordedTree:
    """Build the tree of a session from its records, in order. A task with an unknown parent is a root."""
    tasks: dict[str, RecordedTask] = {}
    for record in records:
        tasks[record.task_id] = apply_record(tasks.get(record.task_id), record)
    children: dict[str | None, list[str]] = {}
    for task in tasks.values():
        parent_id = task.parent_id if task.parent_id in tasks else None
        children.setdefault(parent_id, []).append(task.id)

    def with_children(task_id: str) -> RecordedTask:
        return replace(tasks[task_id], children=tuple(map(with_children, children.get(task_id, ()))))

    return RecordedTree(tuple(map(with_children, children.get(None, ()))))


def apply_record(known: RecordedTask | None, record: TaskRecord) -> RecordedTask:
    """Return the task with one more record applied. `known` is None for a new task."""
    task = known
    if task is None:
        task = RecordedTask(record.task_id, created_at=record.at, run_id=record.run_id)
    details = record.details
    is_earlier = record.kind in _ENDS and None not in (record.run_id, task.run_id) and record.run_id != task.run_id
    status = record.status
    if status is None:
        # The end of an earlier run does not end the current one.
        status = task.status if is_earlier else _STATUS.get(record.kind, task.status)
    failure_reason = record.failure_reason if record.kind in _ENDS else task.failure_reason
    changes: dict[str, Any] = {
        "parent_id": task.parent_id or record.parent_task_id,
        "status": status,
        "summary": record.summary or task.summary,
        "failure_reason": failure_reason if status.is_terminal else None,
        "ended_at": _compute_end_time(task, record, status),
    }
    if record.kind in (RecordKind.STARTED, RecordKind.RESUMED):
        changes["run_id"] = record.run_id or task.run_id
    if record.kind is RecordKind.CREATED:
        changes["author"] = record.author
    for name, its_field in TEXTS.items():
        if name in details and (isinstance(details[name], str) or (details[name] is None and name in _MAY_BE_NONE)):
            changes[its_field] = details[name]
    for name, kind in (("is_backgrounded", bool), ("brief", dict)):
        if isinstance(details.get(name), kind):
            changes[name] = details[name]
    if "usage" in details:
        changes["usage"] = _parse_usage(details["usage"])
    return replace(task, **changes)


def _compute_end_time(task: RecordedTask, record: TaskRecord, status: TaskStatus) -> float | None:
    if not status.is_terminal:
        return None
    if record.kind in _ENDS or task.ended_at is None:
        return record.at
    return task.ended_at


def _parse_usage(usage: Any) -> TaskUsage | None:
    if not usage:
        return None
    try:
        return fit(TaskUsage, usage)[0]
    except ValueError:
        # Another version of the library wrote the record.
        return None
