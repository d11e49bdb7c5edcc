"""`HeldStore`: the session store of one turn, written under one lease that is taken once.

A later call of `run_turn` takes the lease away, and the store then refuses what this call still writes. This call never
takes it back.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from claude_agent_py._base.errors import StaleLeaseError
from claude_agent_py._base.json_object import JSONMapping
from claude_agent_py._base.streams import RepeatingEvent
from claude_agent_py.durable.progress import select_blocks
from claude_agent_py.sessions import HeldLease, SessionKey, SessionStore, SessionStoreEntry, calling_store, implements

HOLDER: Final = "durable turn "
"""How the names of holders of leases begin that a later call may take away."""


class HeldStore:
    """A session store with the lease of one session.

    Args:
        store: The store. Its other methods remain available.
        key: The session.
        timeout: The time limit of one call, in seconds.
    """

    def __init__(self, store: SessionStore, key: SessionKey, timeout: float) -> None:
        self._store: Any = store
        self._timeout = timeout
        self.key: SessionKey = key
        self._held: HeldLease | None = None
        self.is_closed: bool = False
        """Whether writes are refused."""
        self._calls: set[str] = set()
        """The ids of tool calls that the store has, in the entries that this process wrote or read."""
        self._has_more_calls = RepeatingEvent()

    def __repr__(self) -> str:
        return repr(self._store)  # it is the same place

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        # Nobody else takes a lease: `append` writes under the one of the turn.
        is_left_out = name in ("acquire_lease", "renew_lease", "release_lease")
        if is_left_out or (callable(found) and not name.startswith("_") and not implements(self._store, name)):
            raise AttributeError(name)
        return found

    @property
    def session_id(self) -> str:
        """The session."""
        return self.key["session_id"]

    # The lease -------------------------------------------------------------------------------------------------------

    async def take(self, on_lost: Callable[[StaleLeaseError], Awaitable[object]]) -> None:
        """Take the lease, from an earlier call of `run_turn` if need be. Does nothing for a store without leases.

        Raises:
            SessionLeasedError: Another process holds the lease.
        """
        self._held = HeldLease(self._store, self.key, holder=HOLDER, timeout=self._timeout, on_lost=on_lost)
        await self._held.take(steals_from=HOLDER)

    async def renew(self) -> None:
        """Extend the lease. Raises StaleLeaseError if it was taken away."""
        if self._held is not None:
            await self._held.renew()

    async def give_back(self) -> None:
        """Release the lease; without writing, if writes are refused."""
        if self._held is not None:
            await self._held.release(leave=self.is_closed)

    # Entries ---------------------------------------------------------------------------------------------------------

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Append entries. Raises StaleLeaseError once the lease was taken away, or the turn abandoned."""
        if self.is_closed:
            raise StaleLeaseError("the turn was abandoned", session_id=key["session_id"], holder=HOLDER)
        # A session that the CLI began within this one, by `/clear` for example, has no lease.
        if key["session_id"] == self.key["session_id"] and self._held is not None and self._held.lease is not None:
            await self._store.append(key, entries, epoch=self._held.lease.epoch)
        else:
            await self._store.append(key, entries)
        self._note_calls(entries)

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """Return the entries of a transcript."""
        async with calling_store("load the session", self._timeout):
            found: list[SessionStoreEntry] | None = await self._store.load(key)
        self._note_calls(found or ())
        return found

    async def wait_for_call(self, tool_use_id: str) -> None:
        """Wait until the store has a tool call."""
        while tool_use_id not in self._calls:
            await self._has_more_calls.wait()

    def _note_calls(self, entries: Sequence[JSONMapping]) -> None:
        for entry in entries:
            self._calls.update(str(block.get("id")) for block in select_blocks(entry, "tool_use"))
        self._has_more_calls.set()
