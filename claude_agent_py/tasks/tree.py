"""Draw trees of tasks, and sum up the usage of tasks."""

from collections.abc import Callable, Iterator, Sequence
from typing import Generic, Protocol, Self, TypeVar

from msgspec import Struct

from claude_agent_py._base.display import one_line
from claude_agent_py.wire.messages.tasks import TaskStatus, TaskUsage


def add_usage(parts: Sequence[TaskUsage | None]) -> TaskUsage:
    """Sum up the usage of tasks."""
    known = [part for part in parts if part is not None]
    costs = [part.cost_usd for part in known if part.cost_usd is not None]
    return TaskUsage(
        total_tokens=sum(part.total_tokens for part in known),
        tool_uses=sum(part.tool_uses for part in known),
        duration_ms=sum(part.duration_ms for part in known),
        cost_usd=sum(costs) if costs else None,
        cost_is_derived=any(part.cost_is_derived for part in known),
        uncounted_tokens=sum(part.uncounted_tokens for part in known),
    )


class Node(Protocol):
    """A task with the tasks that it launched."""

    @property
    def label(self) -> str:
        """Its line in a drawing."""
        ...

    @property
    def children(self) -> Sequence[Self]:
        """The nodes below."""
        ...


NodeT = TypeVar("NodeT", bound=Node)


class Forest(Struct, Generic[NodeT], frozen=True):
    """All tasks of a session, as a forest. `str()` draws it."""

    roots: tuple[NodeT, ...]

    def __iter__(self) -> Iterator[NodeT]:
        return iter(self.roots)

    def __len__(self) -> int:
        return sum(1 for _ in self.walk())

    def __str__(self) -> str:
        return draw(self.roots)

    def walk(self) -> Iterator[NodeT]:
        """Yield all nodes, parents before their children."""
        return walk(self.roots)


def walk(nodes: Sequence[NodeT]) -> Iterator[NodeT]:
    """Yield nodes and all below them, parents before their children."""
    for node in nodes:
        yield node
        yield from walk(node.children)


def draw(roots: Sequence[NodeT], describe: Callable[[NodeT], str] = lambda node: node.label) -> str:
    """Draw trees, one line for each node, safe to print in a terminal."""
    return "\n".join(line for root in roots for line in _draw(root, "", "", describe))


def _draw(node: NodeT, first: str, others: str, describe: Callable[[NodeT], str]) -> Iterator[str]:
    yield f"{first}{one_line(describe(node))}"
    for index, child in enumerate(node.children):
        is_last = index == len(node.children) - 1
        branch, below = ("└── ", "    ") if is_last else ("├── ", "│   ")
        yield from _draw(child, others + branch, others + below, describe)


def build_label(what: str, kind: str | None, status: TaskStatus, usage: TaskUsage | None) -> str:
    """Return a task's line in a drawing."""
    used = f", {usage.total_tokens} tokens" if usage and usage.total_tokens else ""
    return one_line(f"{what} [{kind or 'task'}] {status.value}{used}")
