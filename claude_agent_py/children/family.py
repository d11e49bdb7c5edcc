"""Who descends from whom, and how many may: a client with all its child agents, their children included.

Owns the bookkeeping, the limits, and the way by which a client hears of the tasks of a child. Starts nothing.
"""

import weakref
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import anyio

from claude_agent_py.agents.definition import AgentDefinition
from claude_agent_py.client import Client
from claude_agent_py.errors import OptionsError
from claude_agent_py.options.values import Limits
from claude_agent_py.tasks.task import Task
from claude_agent_py.wire.tasks import TaskStartedMessage


class Family:
    """What a client that is nobody's child has in common with all its descendants."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.started = 0
        self._places: dict[int, anyio.CapacityLimiter] = {}

    def places(self, generation: int) -> anyio.CapacityLimiter:
        """Give the places for processes of a generation. Each has its own, or parents could keep children waiting."""
        if generation not in self._places:
            self._places[generation] = anyio.CapacityLimiter(self.limits.child_processes)
        return self._places[generation]


class Membership:
    """A client's place in its family: what it may start, and how it hears of it."""

    def __init__(
        self,
        client: Client,
        family: Family,
        lineage: tuple[str, ...] = (),
        above: "Membership | None" = None,
    ) -> None:
        self._client = weakref.ref(client)
        self.family = family
        self.lineage = lineage
        """The ids of the agents from the root's child to this client; empty for the root."""
        self.above = above

    @property
    def client(self) -> Client:
        """The client."""
        client = self._client()
        assert client is not None, "a client outlives its children"  # noqa: S101
        return client

    @property
    def generation(self) -> int:
        """How far below the root the children of this client are; 1 for children of the root."""
        return len(self.lineage) + 1

    def admit(self, agent_id: str) -> None:
        """Count one more child.

        Raises:
            OptionsError: It would be its own ancestor, too deep, or one too many.
        """
        limits, option = self.family.limits, f"agent {agent_id!r}"
        if agent_id in self.lineage:
            chain = " -> ".join([*self.lineage, agent_id])
            raise OptionsError(f"it would start itself ({chain}); this is refused", option=option)
        if self.generation > limits.child_depth:
            raise OptionsError(f"children may be nested {limits.child_depth} deep (limits.child_depth)", option=option)
        if self.family.started >= limits.child_total:
            raise OptionsError(f"all {limits.child_total} children were started (limits.child_total)", option=option)
        self.family.started += 1

    def child(self, client: Client, agent_id: str) -> "Membership":
        """Make a child's client a member."""
        membership = _memberships[client] = Membership(client, self.family, (*self.lineage, agent_id), self)
        return membership

    def levels(self) -> "Iterator[Membership]":
        """Give this member and all above it."""
        level: Membership | None = self
        while level is not None:
            yield level
            level = level.above

    def define(self, agent_id: str, definition: AgentDefinition) -> None:
        """Let this client and all above it know what an agent is."""
        for level in self.levels():
            level.client.session.agents[agent_id] = definition

    # Tasks -------------------------------------------------------------------------------------------------------

    def find_task(self, agent_id: str) -> Task | None:
        """Give the task of an agent as the root knows it, which hears of them all."""
        *_, root = self.levels()
        return root.client.tasks.get(agent_id)

    def adopt(self, message: TaskStartedMessage, stop: Callable[[], Awaitable[object]]) -> None:
        """Take in a task that is not the CLI's. Clients above hear of it by what this one is told."""
        self.client.session.intake.adopt(message, stop)
        self.tell(message)

    def tell(self, message: Any) -> None:
        """Let the client hear a message as if its CLI had sent it, also when that is gone."""
        session = self.client.session
        if session.answers.has_ended:
            session.answers.track(message)
        else:
            session.inject(message)

    def writes_to(self, task_id: str, path: str) -> None:
        """Let this client and all above it know where a task writes to."""
        for level in self.levels():
            level.client.session.intake.writes_to(task_id, path)

    def note_waiting(self, prompt_id: str, agent_id: str, waiting: bool) -> None:
        """Let this client and all above it know that an agent waits for a person, or no longer."""
        for level in self.levels():
            if waiting:
                level.client.session.intake.track_prompt(prompt_id, agent_id)
            else:
                level.client.session.intake.track_prompt_end(prompt_id)


_memberships: "weakref.WeakKeyDictionary[Client, Membership]" = weakref.WeakKeyDictionary()


def membership_of(client: Client) -> Membership:
    """Give a client's membership; one that has none is the root of a family of its own."""
    if client not in _memberships:
        _memberships[client] = Membership(client, Family(client.options.limits))
    return _memberships[client]
