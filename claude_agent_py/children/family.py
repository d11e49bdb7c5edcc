"""Who descends from whom, and how many may: the limits for child agents.

Owns the bookkeeping of a client and all its descendants. Does not start anything.
"""

import weakref
from collections.abc import Awaitable, Callable
from typing import Any

import anyio

from claude_agent_py.client import Client
from claude_agent_py.errors import OptionsError
from claude_agent_py.options.values import Limits
from claude_agent_py.wire.tasks import TaskStartedMessage


class Family:
    """A client that is nobody's child, and all its descendants."""

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
    """A client's place in its family: what it may start, and who hears of it."""

    def __init__(self, client: Client, family: Family, lineage: tuple[str, ...], above: "Membership | None") -> None:
        self._client = weakref.ref(client)
        self.family = family
        self.lineage = lineage
        """The ids of the agents from the root's child to this client; empty for the root."""
        self._above = above
        self.task_id: str | None = None
        """This client's own task, in the client above."""

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
        limits = self.family.limits
        if agent_id in self.lineage:
            chain = " -> ".join([*self.lineage, agent_id])
            raise OptionsError(f"it would start itself ({chain}); this is refused", option=f"agent {agent_id!r}")
        if self.generation > limits.child_depth:
            raise OptionsError(
                f"children may be nested {limits.child_depth} deep (limits.child_depth)", option=f"agent {agent_id!r}"
            )
        if self.family.started >= limits.child_total:
            raise OptionsError(
                f"all {limits.child_total} children were started (limits.child_total)", option=f"agent {agent_id!r}"
            )
        self.family.started += 1

    def child(self, client: Client, agent_id: str, task_id: str) -> "Membership":
        """Give the membership of a child's client."""
        membership = Membership(client, self.family, (*self.lineage, agent_id), self)
        membership.task_id = task_id
        _memberships[client] = membership
        return membership

    # Telling -----------------------------------------------------------------------------------------------------

    def adopt(self, message: TaskStartedMessage, stop: Callable[[], Awaitable[object]]) -> None:
        """Take in a new task here and in every client above."""
        self.client.tasks.adopt(message, stop)
        self._inject(message)
        self.adopt_above(message, stop)

    def adopt_above(self, message: TaskStartedMessage, stop: Callable[[], Awaitable[object]]) -> None:
        """Take in a task of this client in every client above."""
        if self._above is not None:
            self._above.adopt(self._seen_from_above(message), stop)

    def tell(self, message: Any) -> None:
        """Report on a task here and in every client above."""
        self._inject(message)
        self.tell_above(message)

    def tell_above(self, message: Any) -> None:
        """Report on a task of this client in every client above."""
        if self._above is not None:
            self._above.tell(self._seen_from_above(message))

    def _inject(self, message: Any) -> None:
        connection = self.client._session.connection
        connection.inject(message)

    def _seen_from_above(self, message: Any) -> Any:
        """Hang a task without a parent below this client's own task."""
        if isinstance(message, TaskStartedMessage) and message.parent_task_id is None:
            return message.model_copy(update={"parent_task_id": self.task_id})
        return message


_memberships: "weakref.WeakKeyDictionary[Client, Membership]" = weakref.WeakKeyDictionary()


def membership_of(client: Client) -> Membership:
    """Give a client's membership; one that has none is the root of a family of its own."""
    if client not in _memberships:
        _memberships[client] = Membership(client, Family(client.options.limits), (), None)
    return _memberships[client]
