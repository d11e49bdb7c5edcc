"""The tree of a client and its child agents: limits, task lookup, and messages about children to their ancestors."""

import weakref
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

import anyio

from claude_agent_py._errors import OptionsError
from claude_agent_py.agents.definition import AgentDefinition
from claude_agent_py.client import Client
from claude_agent_py.tasks import TaskIntake
from claude_agent_py.tasks.outcome import EndedBy
from claude_agent_py.tasks.task import Task
from claude_agent_py.wire.messages.tasks import TaskStartedMessage


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
        self._limiters: dict[int, anyio.CapacityLimiter] = {}

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
    def limiter(self) -> anyio.CapacityLimiter:
        """Limits the processes of this client's children and all others of their generation.

        Each generation has its own, so parents cannot starve their children.
        """
        limiters = self.root._limiters
        if self.generation not in limiters:
            limiters[self.generation] = anyio.CapacityLimiter(self.root._limits.child_processes)
        return limiters[self.generation]

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
        return (node.client.session.intake for node in self.with_ancestors())

    def define(self, agent_id: str, definition: AgentDefinition) -> None:
        """Add an agent's definition to this client and its ancestors."""
        for node in self.with_ancestors():
            node.client.session.agents[agent_id] = definition

    # Tasks -------------------------------------------------------------------------------------------------------

    def find_task(self, agent_id: str) -> Task | None:
        """Return the task of an agent from the root, which tracks all tasks of the tree."""
        return self.root.client.tasks.get(agent_id)

    def adopt(
        self,
        message: TaskStartedMessage,
        stop: Callable[[], Awaitable[object]],
        brief: Mapping[str, Any] | None,
        author: str | None,
    ) -> None:
        """Track a task that the client's CLI did not start. The client's messages announce it to the ancestors."""
        self.client.session.intake.adopt(message, stop, brief=brief, author=author)
        self.inject_message(message)

    def inject_message(self, message: Any) -> None:
        """Feed the client a message as if its CLI had sent it, even after the CLI has ended."""
        self.client.session.inject(message)

    def set_path(self, task_id: str, path: str) -> None:
        """Set the output file of a task for this client and its ancestors."""
        for intake in self.intakes():
            intake.set_path(task_id, path)

    def set_cause(self, task_id: str, by: EndedBy) -> None:
        """Set the cause of a task's end for this client and its ancestors."""
        for intake in self.intakes():
            intake.set_cause(task_id, by)


_nodes: "weakref.WeakKeyDictionary[Client, TreeNode]" = weakref.WeakKeyDictionary()


def get_node(client: Client) -> TreeNode:
    """Return a client's node, or a new root for a client without one."""
    if client not in _nodes:
        _nodes[client] = TreeNode(client)
    return _nodes[client]
