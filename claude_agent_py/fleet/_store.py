"""`FencedStore`: the session store of a worker, which writes nothing once the worker may count as dead."""

import time
from collections.abc import Callable
from typing import Any, Final

import anyio

from claude_agent_py._errors import StaleLeaseError
from claude_agent_py.sessions.stores.protocol import SessionKey, SessionStore, SessionStoreEntry

PROJECT: Final = "fleet"
"""The project of the sessions in the store."""
LOOK_SECONDS: Final = 0.05


def store_key(cli_session: str) -> SessionKey:
    """Return the key of a conversation in the store."""
    return {"project_key": PROJECT, "session_id": cli_session}


class Pulse:
    """Until when this worker counts as alive: as long as nobody else may have taken its sessions.

    It uses both clocks, because each of them may stand still while a process or its machine is stopped.
    """

    def __init__(self, lease: float) -> None:
        self._lease = lease
        self.beat(*self.now())

    @staticmethod
    def now() -> tuple[float, float]:
        """Return both clocks."""
        return time.monotonic(), time.time()

    def beat(self, monotonic: float, wall: float) -> None:
        """Note that the worker told of itself; the times are those before it did."""
        self._monotonic, self._wall = monotonic + self._lease, wall + self._lease

    @property
    def is_alive(self) -> bool:
        """Whether no other worker can have taken this one's sessions."""
        return time.monotonic() < self._monotonic and time.time() < self._wall


class FencedStore:
    """A session store that takes no entries while the worker may count as dead, and none once it has lost the session.

    The leases of the store refuse them, too, but not before somebody else has acquired one.

    Args:
        store: The store; what it has beside `append` and `load` is found here, too.
        pulse: Whether the worker counts as alive.
        is_lost: Whether another worker has the session.
    """

    def __init__(self, store: SessionStore, pulse: Pulse, is_lost: Callable[[], bool]) -> None:
        self._store: Any = store
        self._pulse = pulse
        self._is_lost = is_lost

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry], *, epoch: int | None = None) -> None:
        """Append, once it is certain that the worker has the session. Raises StaleLeaseError if it has not."""
        while not self._is_lost() and not self._pulse.is_alive:  # noqa: ASYNC110 - the next beat tells
            await anyio.sleep(LOOK_SECONDS)
        if self._is_lost():
            raise StaleLeaseError("another worker has the session", session_id=key["session_id"])
        await self._store.append(key, entries, **({} if epoch is None else {"epoch": epoch}))

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """Return the entries of a transcript."""
        found: list[SessionStoreEntry] | None = await self._store.load(key)
        return found
