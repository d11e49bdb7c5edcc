"""`FencedStore`: the session store of a worker, which stops writing once the worker may count as dead."""

import time
from collections.abc import Callable
from typing import Any, Final

import anyio

from claude_agent_py._errors import StaleLeaseError
from claude_agent_py.sessions.stores.protocol import SessionKey, SessionStore, SessionStoreEntry

PROJECT: Final = "fleet"
"""The project key of the fleet's sessions in the store."""
LOOK_SECONDS: Final = 0.05


def store_key(cli_session: str) -> SessionKey:
    """Return the key of a conversation in the store."""
    return {"project_key": PROJECT, "session_id": cli_session}


class Heartbeat:
    """The time until which this worker still owns its sessions.

    It uses both clocks, because either may stop while the process or its machine is suspended.
    """

    def __init__(self, lease: float) -> None:
        self._lease = lease
        self.beat(*self.now())

    @staticmethod
    def now() -> tuple[float, float]:
        """Return both clocks."""
        return time.monotonic(), time.time()

    def beat(self, monotonic: float, wall: float) -> None:
        """Record a successful heartbeat. The arguments are the clocks from before it was sent."""
        self._monotonic = monotonic + self._lease
        self._wall = wall + self._lease

    @property
    def is_alive(self) -> bool:
        """Whether no other worker can have claimed the sessions of this one."""
        return time.monotonic() < self._monotonic and time.time() < self._wall


class FencedStore:
    """A session store that delays writes while the worker may count as dead, and refuses them once the session is lost.

    The leases of the store also refuse such writes, but only after another worker has acquired one.

    Args:
        store: The store. Its other attributes remain available.
        heartbeat: Says whether the worker counts as alive.
        is_lost: Returns whether another worker has claimed the session.
    """

    def __init__(self, store: SessionStore, heartbeat: Heartbeat, is_lost: Callable[[], bool]) -> None:
        self._store: Any = store
        self._heartbeat = heartbeat
        self._is_lost = is_lost

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry], *, epoch: int | None = None) -> None:
        """Append once the worker certainly owns the session. Raises StaleLeaseError if it has lost the session."""
        while not self._is_lost() and not self._heartbeat.is_alive:  # noqa: ASYNC110 - waits for the next heartbeat
            await anyio.sleep(LOOK_SECONDS)
        if self._is_lost():
            raise StaleLeaseError("another worker has claimed the session", session_id=key["session_id"])
        await self._store.append(key, entries, **({} if epoch is None else {"epoch": epoch}))

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """Return the entries of a transcript."""
        found: list[SessionStoreEntry] | None = await self._store.load(key)
        return found
