"""The tree of a client and its child agents: limits, task lookup, and messages about children to their ancestors."""

import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from heapq import heapify, heappop, heappush
from typing import Any

import anyio

from claude_agent_py._base.errors import OptionsError
from claude_agent_py._journal.tasks.outcome import EndedBy
from claude_agent_py.agents.definition import AgentDefinition
from claude_agent_py.client import Client
from claude_agent_py.tasks import Evidence, TaskIntake
from claude_agent_py.tasks.task import Task
from claude_agent_py.wire.messages.tasks import TaskStartedMessage


class Places:
    """A limited number of running processes. A free place goes to the most urgent run that waits."""

    def __init__(self, total: int) -> None:
        self._free = total
        self._waiting: list[tuple[float, int, anyio.Event]] = []

    @asynccontextmanager
    async def place(self, urgency: float, number: int) -> AsyncIterator[None]:
        """Wait for a place, and keep it inside the block. Of equally urgent runs, the lowest number is the first."""
        turn = anyio.Event()
        entry = (-urgency, number, turn)
        heappush(self._waiting, entry)
        self._hand_out()
        try:
            await turn.wait()
            yield
        finally:
            if turn.is_set():
                self._free += 1
            else:
                self._waiting.remove(entry)
                heapify(self._waiting)
            self._hand_out()

    def _hand_out(self) -> None:
        while self._free and self._waiting:
            self._free -= 1
            heappop(self._waiting)[-1].set()


class TreeNode:
    """A client's node in the tree of child agents. Only the root, a client without a parent, uses the limits."""

    def __init__(self, client: Client, lineage: tuple[str, ...] = (), parent: "TreeNode | None" = None) -> None:
        self._client = weakref.ref(client)
        self.lineage = lineage
        """The agent ids from the root's child to this client; empty for the root."""
        self.parent = parent
        self.root: TreeNode = self if parent is None else parent.root
        self._limits = client.options.limits
        self._started = 0
        """The number of children in the whole tree."""
        self._places: dict[int, Places] = {}

    @property
    def client(self) -> Client:
        """The client, which outlives its children."""
        client = self._client()
        assert client is not None, "a client outlives its children"  # noqa: S101
        return client

    @property
    def generation(self) -> int:
        """The depth of this client's children below the root, starting at 1."""
        return len(self.lineage) + 1

    def admit(self, agent_id: str) -> None:
        """Count one more child. Raises OptionsError if it is its own ancestor, or a limit is reached."""
        limits = self.root._limits
        option = f"agent {agent_id!r}"
        if agent_id in self.lineage:
            chain = " -> ".join([*self.lineage, agent_id])
            raise OptionsError(f"an agent must not start itself ({chain})", option=option)
        if self.generation > limits.child_depth:
            raise OptionsError(
                f"children are nested at most {limits.child_depth} deep (limits.child_depth)", option=option
            )
        if self.root._started >= limits.child_total:
            raise OptionsError(
                f"the limit of {limits.child_total} children is reached (limits.child_total)", option=option
            )
        self.root._started += 1

    @property
    def places(self) -> Places:
        """Limits the processes of this client's children and all others of their generation.

        Each generation has its own, so parents cannot starve their children.
        """
        places = self.root._places
        if self.generation not in places:
            places[self.generation] = Places(self.root._limits.child_processes)
        return places[self.generation]

    def add_child(self, client: Client, agent_id: str) -> "TreeNode":
        """Add a child's client to the tree."""
        node = _nodes[client] = TreeNode(client, (*self.lineage, agent_id), self)
        return node

    def with_ancestors(self) -> "Iterator[TreeNode]":
        """Iterate over this node and its ancestors."""
        node: TreeNode | None = self
        while node is not None:
            yield node
            node = node.parent

    def intakes(self) -> Iterator[TaskIntake]:
        """Iterate over the task intakes of this client and its ancestors."""
        return (node.client.connection.intake for node in self.with_ancestors())

    def define(self, agent_id: str, definition: AgentDefinition) -> None:
        """Add an agent's definition to this client and its ancestors."""
        for node in self.with_ancestors():
            node.client.connection.agents[agent_id] = definition

    # Tasks -------------------------------------------------------------------------------------------------------

    def find_task(self, agent_id: str) -> Task | None:
        """Return the task of an agent from the root, which tracks all tasks of the tree."""
        return self.root.client.tasks.get(agent_id)

    def adopt(
        self,
        message: TaskStartedMessage,
        stop: Callable[[], Awaitable[object]],
        brief: Mapping[str, object] | None,
        author: str | None,
    ) -> None:
        """Track a task that the client's CLI did not start. The client's messages announce it to the ancestors."""
        self.client.connection.intake.adopt(message, stop, brief=brief, author=author)
        self.inject_message(message)

    def inject_message(self, message: object) -> None:
        """Feed the client a message as if its CLI had sent it, even after the CLI has ended."""
        self.client.connection.inject(message)

    def add_message(self, task_id: str, message: Any) -> None:
        """Add a message to a task's conversation for this client and its ancestors, but not to their runs."""
        for intake in self.intakes():
            intake.add_message(task_id, message)

    def set_path(self, task_id: str, path: str) -> None:
        """Set the output file of a task for this client and its ancestors."""
        for intake in self.intakes():
            intake.set_path(task_id, path)

    def set_cause(self, task_id: str, by: EndedBy | None, inferred_by: Evidence | None = None) -> None:
        """Set the cause of a task's end, and how it was inferred, for this client and its ancestors."""
        for intake in self.intakes():
            intake.set_cause(task_id, by, inferred_by)


_nodes: "weakref.WeakKeyDictionary[Client, TreeNode]" = weakref.WeakKeyDictionary()


def get_node(client: Client) -> TreeNode:
    """Return a client's node, or a new root for a client without one."""
    if client not in _nodes:
        _nodes[client] = TreeNode(client)
    return _nodes[client]
