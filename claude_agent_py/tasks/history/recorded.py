"""Tasks rebuilt from their facts."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from claude_agent_py._base.json_object import JSONMapping
from claude_agent_py._journal.tasks.events import (
    TaskBackgrounded,
    TaskChanged,
    TaskEvent,
    TaskFinished,
    TaskOutputAvailable,
    TaskProgressed,
    TaskReopened,
    TaskRevised,
    TaskStarted,
    TaskStatusChanged,
)
from claude_agent_py._journal.tasks.outcome import TaskOutcome
from claude_agent_py.tasks.tree import Forest, build_label, walk
from claude_agent_py.wire.messages.tasks import TaskStatus, TaskUsage


@dataclass(frozen=True, slots=True)
class RecordedTask:
    """A task, rebuilt from its facts, with the tasks that it launched. The fields have the names of `Task`."""

    id: str
    session_id: str
    parent_id: str | None = None
    type: str | None = None
    subagent_type: str | None = None
    description: str = ""
    status: TaskStatus = TaskStatus.PENDING
    summary: str = ""
    failure_reason: str | None = None
    usage: TaskUsage | None = None
    """While the task runs, the usage when it last made progress."""
    created_at: float | None = None
    """Seconds since the epoch."""
    ended_at: float | None = None
    """Seconds since the epoch; None while the task runs."""
    run: str = ""
    """The id of the current run: the task's, with `#2`, ... for its later runs."""
    run_id: str | None = None
    prompt: str | None = None
    activity: str = ""
    output_file: str | None = None
    is_backgrounded: bool = False
    author: str = ""
    """The name of the agent that launched the task; empty for the main agent and its program."""
    brief: JSONMapping = field(default_factory=dict)
    outcome: TaskOutcome | None = None
    """How the current run ended; None while it runs."""
    children: tuple["RecordedTask", ...] = ()

    @property
    def label(self) -> str:
        """The line of the task in a drawing."""
        return build_label(self.description or self.id, self.subagent_type or self.type, self.status, self.usage)

    def walk(self) -> "Iterator[RecordedTask]":
        """Yield this task and all of its descendants, parents before their children."""
        return walk([self])


class RecordedTree(Forest[RecordedTask], frozen=True):
    """All tasks of a session, as a forest. `str()` draws the forest like the live tree."""


def rebuild(session_id: str, facts: Iterable[TaskEvent]) -> RecordedTree:
    """Build the tree of a session from its facts, in order. A task with an unknown parent is a root."""
    tasks: dict[str, RecordedTask] = {}
    for fact in facts:
        tasks[fact.task_id] = apply(tasks.get(fact.task_id), fact, session_id)
    children: dict[str | None, list[str]] = {}
    for task in tasks.values():
        parent_id = task.parent_id if task.parent_id in tasks else None
        children.setdefault(parent_id, []).append(task.id)

    def with_children(task_id: str) -> RecordedTask:
        return replace(tasks[task_id], children=tuple(map(with_children, children.get(task_id, ()))))

    return RecordedTree(tuple(map(with_children, children.get(None, ()))))


def apply(known: RecordedTask | None, fact: TaskEvent, session_id: str) -> RecordedTask:
    """Return the task with one more fact applied. `known` is None for a new task."""
    task = known or RecordedTask(
        fact.task_id, session_id, fact.agent or None, created_at=fact.at, run=fact.id, author=fact.author
    )
    change = _CHANGES.get(type(fact))
    begins = isinstance(fact, TaskStarted | TaskReopened)
    if change is None or not (begins or fact.id == task.run):
        return task  # the end of an earlier run does not end the current one
    return replace(task, run=fact.id, run_id=fact.run_id or task.run_id, **change(task, fact))


def _begin(task: RecordedTask, fact: TaskStarted | TaskReopened) -> dict[str, Any]:
    return {
        "parent_id": task.parent_id or fact.parent_id,
        "type": fact.type or task.type,
        "subagent_type": (fact.name if fact.type != "local_workflow" else "") or task.subagent_type,
        "description": fact.description or task.description,
        "prompt": task.prompt if fact.prompt is None else fact.prompt,
        "status": fact.status,
        "is_backgrounded": fact.is_backgrounded,
        "brief": fact.brief or task.brief,
        "summary": "",
        "failure_reason": None,
        "usage": None,
        "ended_at": None,
        "outcome": None,
    }


def _end(task: RecordedTask, fact: TaskFinished | TaskRevised) -> dict[str, Any]:
    outcome = fact.outcome
    return {
        "outcome": outcome,
        "status": outcome.status,
        "summary": outcome.summary,
        "failure_reason": outcome.failure_reason,
        "usage": outcome.usage,
        "ended_at": fact.at if outcome.ended_at is None else outcome.ended_at,
        "output_file": outcome.output_file or task.output_file,
        "description": outcome.description or task.description,
    }


_CHANGES: Final[Mapping[type[TaskEvent], Callable[..., dict[str, Any]]]] = {
    TaskStarted: _begin,
    TaskReopened: _begin,
    TaskProgressed: lambda task, fact: {
        "activity": fact.activity,
        "summary": fact.summary or task.summary,
        "usage": fact.usage,
    },
    TaskStatusChanged: lambda task, fact: {
        "status": fact.new,
        "failure_reason": fact.failure_reason,
        "ended_at": fact.at if fact.new.is_terminal else None,
    },
    TaskBackgrounded: lambda task, fact: {"is_backgrounded": True},
    TaskChanged: lambda task, fact: {
        "description": fact.description,
        "type": fact.type,
        "subagent_type": fact.subagent_type,
        "parent_id": fact.parent_id,
    },
    TaskOutputAvailable: lambda task, fact: {"output_file": fact.path},
    TaskFinished: _end,
    TaskRevised: _end,
}
"""What each fact changes in a task: the fields of `RecordedTask`."""
