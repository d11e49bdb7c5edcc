"""An immutable snapshot of the task tree: subagents, the tasks that they launched, and their usage."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from claude_agent_py.wire.messages.tasks import TaskStatus, TaskUsage

if TYPE_CHECKING:
    from claude_agent_py.tasks.task import Task


@dataclass(frozen=True, slots=True)
class TaskNode:
    """A task with everything that it launched."""

    task: "Task"
    children: tuple["TaskNode", ...] = ()

    @property
    def label(self) -> str:
        """The task's line in a drawing."""
        task = self.task
        return label_of(task.description or task.id, task.subagent_type or task.type, task.status, task.usage)

    def walk(self) -> Iterator["TaskNode"]:
        """Yield this node and all below it, parents before their children."""
        yield self
        for child in self.children:
            yield from child.walk()

    @property
    def usage(self) -> TaskUsage:
        """What the task and all below it used. Durations are added up, also of tasks that ran in parallel."""
        return add_usage([node.task.usage for node in self.walk()])


@dataclass(frozen=True, slots=True)
class TaskTree:
    """All tasks, as a forest. `str()` draws it."""

    roots: tuple[TaskNode, ...]

    def __iter__(self) -> Iterator[TaskNode]:
        return iter(self.roots)

    def __len__(self) -> int:
        return sum(1 for _ in self.walk())

    def walk(self) -> Iterator[TaskNode]:
        """Yield all nodes, parents before their children."""
        for root in self.roots:
            yield from root.walk()

    @property
    def usage(self) -> TaskUsage:
        """What all tasks used."""
        return add_usage([node.task.usage for node in self.walk()])

    def __str__(self) -> str:
        return draw(self.roots)


def build_tree(roots: "Sequence[Task]", children: "Callable[[Task], Sequence[Task]]") -> TaskTree:
    """Build the tree below these roots. A task that would be its own ancestor is left out."""

    def node(task: "Task", above: frozenset[str]) -> TaskNode:
        path = above | {task.id}
        return TaskNode(task, tuple(node(child, path) for child in children(task) if child.id not in path))

    return TaskTree(tuple(node(root, frozenset()) for root in roots))


def add_usage(parts: Sequence[TaskUsage | None]) -> TaskUsage:
    """Add up what tasks used."""
    known = [part for part in parts if part is not None]
    costs = [part.cost_usd for part in known if part.cost_usd is not None]
    return TaskUsage(
        total_tokens=sum(part.total_tokens for part in known),
        tool_uses=sum(part.tool_uses for part in known),
        duration_ms=sum(part.duration_ms for part in known),
        cost_usd=sum(costs) if costs else None,
        cost_is_derived=any(part.cost_is_derived for part in known),
    )


class Drawable(Protocol):
    """A node of a tree that can be drawn."""

    @property
    def label(self) -> str:
        """Its line in the drawing."""
        ...

    @property
    def children(self) -> "Sequence[Drawable]":
        """The nodes below."""
        ...


def draw(roots: Sequence[Drawable]) -> str:
    """Draw trees, one line for each node."""
    return "\n".join(line for root in roots for line in _draw(root, "", ""))


def _draw(node: Drawable, first: str, others: str) -> Iterator[str]:
    yield f"{first}{node.label}"
    for index, child in enumerate(node.children):
        is_last = index == len(node.children) - 1
        yield from _draw(child, others + ("└── " if is_last else "├── "), others + ("    " if is_last else "│   "))


def label_of(what: str, kind: str | None, status: TaskStatus, usage: TaskUsage | None) -> str:
    """Return a task's line in a drawing."""
    used = f", {usage.total_tokens} tokens" if usage and usage.total_tokens else ""
    return f"{what} [{kind or 'task'}] {status.value}{used}"
