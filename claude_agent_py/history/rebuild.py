"""Rebuild the task tree of a session from the records of a history. `tasks.tree` is its twin for live tasks."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from claude_agent_py.history.records import RecordKind, TaskRecord
from claude_agent_py.tasks.tree import draw, label_of
from claude_agent_py.wire.fitting import fit
from claude_agent_py.wire.messages.tasks import TaskStatus, TaskUsage


@dataclass(frozen=True, slots=True)
class RecordedTask:
    """A task as described by its records, with the tasks that it launched."""

    id: str
    parent_id: str | None = None
    type: str | None = None
    subagent_type: str | None = None
    description: str = ""
    status: TaskStatus = TaskStatus.PENDING
    summary: str = ""
    failure_reason: str | None = None
    usage: TaskUsage | None = None
    created_at: float | None = None
    """Seconds since the epoch."""
    ended_at: float | None = None
    """Seconds since the epoch; None while it runs."""
    children: tuple["RecordedTask", ...] = ()

    @property
    def label(self) -> str:
        """Its line in a drawing."""
        return label_of(self.description or self.id, self.subagent_type or self.type, self.status, self.usage)

    def walk(self) -> "Iterator[RecordedTask]":
        """Yield it and all below it, parents before their children."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True, slots=True)
class RecordedTree:
    """All tasks of a session, as a forest. `str()` draws it like the live tree."""

    roots: tuple[RecordedTask, ...]

    def __iter__(self) -> Iterator[RecordedTask]:
        return iter(self.roots)

    def __len__(self) -> int:
        return sum(1 for _ in self.walk())

    def __str__(self) -> str:
        return draw(self.roots)

    def walk(self) -> Iterator[RecordedTask]:
        """Yield all tasks, parents before their children."""
        for root in self.roots:
            yield from root.walk()


_STATUS: Final = {
    RecordKind.STARTED: TaskStatus.RUNNING,
    RecordKind.RESUMED: TaskStatus.RUNNING,
    RecordKind.AWAITING_USER: TaskStatus.AWAITING_USER,
    RecordKind.COMPLETED: TaskStatus.COMPLETED,
    RecordKind.FAILED: TaskStatus.FAILED,
    RecordKind.CANCELLED: TaskStatus.STOPPED,
}
_OF_DETAILS: Final = {"type": "type", "agent": "subagent_type", "description": "description"}


def rebuild(records: Iterable[TaskRecord]) -> RecordedTree:
    """Build the tree of a session from its records, in their order. A task with an unknown parent is a root."""
    tasks: dict[str, RecordedTask] = {}
    for record in records:
        tasks[record.task_id] = _after(tasks.get(record.task_id) or RecordedTask(record.task_id), record)
    children: dict[str | None, list[str]] = {}
    for task in tasks.values():
        children.setdefault(task.parent_id if task.parent_id in tasks else None, []).append(task.id)

    def with_children(task_id: str) -> RecordedTask:
        return replace(tasks[task_id], children=tuple(map(with_children, children.get(task_id, ()))))

    return RecordedTree(tuple(map(with_children, children.get(None, ()))))


def _after(task: RecordedTask, record: TaskRecord) -> RecordedTask:
    """Return the task with one more record applied."""
    status = _STATUS.get(record.kind, task.status)
    found = ((name, record.details.get(key)) for key, name in _OF_DETAILS.items())
    named: dict[str, Any] = {name: value for name, value in found if value and isinstance(value, str)}
    return replace(
        task,
        parent_id=task.parent_id or record.parent_task_id,
        status=status,
        summary=record.summary or task.summary,
        failure_reason=record.failure_reason if status.is_terminal else None,
        usage=_usage(record) or task.usage,
        created_at=record.at if task.created_at is None else task.created_at,
        ended_at=record.at if status.is_terminal else None,
        **named,
    )


def _usage(record: TaskRecord) -> TaskUsage | None:
    usage = record.details.get("usage")
    try:
        return fit(TaskUsage, usage)[0] if usage else None
    except ValueError:  # written by another version
        return None
