"""`HeldLease`: the lease of a session, renewed while it is held."""

import os
from collections.abc import Awaitable, Callable
from typing import Any

import anyio

from claude_agent_py._base.errors import SessionLeasedError, StaleLeaseError, StoreError
from claude_agent_py._base.event_loop import run_to_its_end
from claude_agent_py._base.kept_alive import KeptAlive
from claude_agent_py._base.log import logger
from claude_agent_py.sessions.stores.base import RELEASE_SECONDS
from claude_agent_py.sessions.stores.protocol import (
    LEASE_SECONDS,
    STORE_SECONDS,
    Lease,
    SessionKey,
    SessionStore,
    calling_store,
    implements,
    new_holder,
)


class HeldLease:
    """The right to write a session, renewed from `take` to `release`. A store without leases gives none.

    `async with` takes it, yields the `Lease` or None, and releases it.

    Args:
        store: The store.
        key: The session.
        holder: How the name of the writer begins. Host, process and a random part follow.
        timeout: The time limit of a call of the store, in seconds.
        on_lost: Called once if another process has taken it.
    """

    def __init__(
        self,
        store: SessionStore,
        key: SessionKey,
        *,
        holder: str = "",
        timeout: float = STORE_SECONDS,
        on_lost: Callable[[StaleLeaseError], Awaitable[object]] | None = None,
    ) -> None:
        self._store: Any = store
        self._key = key
        self._holder = holder + new_holder()
        self._timeout = timeout
        self._on_lost = on_lost
        self._about = f"the lease of session {key['session_id']}"
        self._keeping: KeptAlive | None = None
        self.lease: Lease | None = None
        """The lease; None before it is taken, and of a store without leases."""
        self._is_lost = False
        self._owner = 0
        """The process that took it. A copy of the process, made by `os.fork`, does not release it."""

    async def take(self, *, steals_from: str | None = None) -> Lease | None:
        """Take the lease, and renew it from now on.

        Args:
            steals_from: Take it also from a holder whose name begins so.

        Raises:
            SessionLeasedError: Another process holds it.
            StoreError: The store failed.
            RuntimeError: It was taken and not released.
        """
        if self._keeping is not None:
            raise RuntimeError(f"{self._about} is taken already; release it first, or use another HeldLease")
        if not implements(self._store, "acquire_lease"):
            return None
        async with calling_store(f"acquire {self._about}", self._timeout):
            try:
                self.lease = self._check(await self._store.acquire_lease(self._key, self._holder))
            except SessionLeasedError as error:
                if steals_from is None or not error.holder.startswith(steals_from):
                    raise
                self.lease = self._check(await self._store.acquire_lease(self._key, self._holder, steal=True))
        self._is_lost, self._owner = False, os.getpid()
        self._keeping = KeptAlive(self._keep, LEASE_SECONDS / 3, self._about)
        self._keeping.start()
        return self.lease

    async def renew(self) -> None:
        """Extend the lease. Raises StaleLeaseError, a StoreError, if another process has taken it."""
        if self.lease is not None:
            async with calling_store(f"renew {self._about}", self._timeout):
                self.lease = self._check(await self._store.renew_lease(self.lease))

    def _check(self, lease: object) -> Lease:
        if not isinstance(lease, Lease):  # None would be taken for that of a store without leases
            raise StoreError(f"the store returned {lease!r:.100} instead of {self._about}")
        return lease

    async def _keep(self) -> None:
        if self._is_lost:
            return
        try:
            with anyio.fail_after(LEASE_SECONDS / 3):
                await self.renew()
        except StaleLeaseError as error:
            self._is_lost = True
            if self._on_lost is not None:
                await self._on_lost(error)

    async def release(self, *, leave: bool = False) -> None:
        """Release the lease, unless `leave` lets it expire, as it does after a failure, which is logged."""
        if self._keeping is not None:
            await self._keeping.stop()
            self._keeping = None
        if self.lease is not None and not leave and self._owner == os.getpid():
            try:
                async with calling_store(f"release {self._about}", self._timeout):
                    await self._store.release_lease(self.lease)
            except StoreError as error:
                logger.warning("%s cannot be released: %s", self._about, error)

    async def __aenter__(self) -> Lease | None:
        return await self.take()

    async def __aexit__(self, *exc: object) -> None:
        await run_to_its_end(self.release, name="claude_agent_py lease", seconds=RELEASE_SECONDS)
