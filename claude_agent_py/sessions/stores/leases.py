"""Leases: at most one process writes a session of a store at a time.

Each lease has an epoch, which grows with every new holder. An append with an earlier epoch is refused, so a process
that does not notice the expiry of its lease does no harm.
"""

import os
import secrets
import socket
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, cast

from claude_agent_py._errors import SessionLeasedError, StaleLeaseError
from claude_agent_py.sessions.stores.protocol import SessionKey, SessionStore, SessionStoreEntry, format_key

LEASE_SECONDS: Final = 30.0
"""The duration of a lease that is not renewed, in seconds."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write a session."""

    key: SessionKey
    holder: str
    """A readable name: host, process and a random part."""
    epoch: int
    expires_at: float
    """Seconds since the epoch, by the clock of the store."""


class LeaseState(NamedTuple):
    """The lease state of a session in a store, which outlives its leases."""

    epoch: int = 0
    holder: str = ""
    expires_at: float = 0.0


class LeasingStore(SessionStore, Protocol):
    """A store with leases."""

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry], *, epoch: int | None = None) -> None:
        """Append entries. See `SessionStore.append`.

        Args:
            key: The transcript.
            entries: The entries.
            epoch: The epoch of the writer's lease; None writes without a lease.

        Raises:
            StaleLeaseError: A lease with a higher epoch exists. Nothing was written.
        """
        ...

    async def acquire_lease(
        self, key: SessionKey, holder: str, *, ttl: float = LEASE_SECONDS, steal: bool = False
    ) -> Lease:
        """Become the writer of a session.

        Args:
            key: The session.
            holder: The new writer. The holder of a lease may acquire it again.
            ttl: The duration of the lease, in seconds.
            steal: Take the lease from a holder that is presumed dead. The store refuses its later writes.

        Raises:
            SessionLeasedError: Another process holds the lease.
        """
        ...

    async def renew_lease(self, lease: Lease, *, ttl: float = LEASE_SECONDS) -> Lease:
        """Extend a lease, even an expired one.

        Raises:
            StaleLeaseError: Another process has acquired the lease.
        """
        ...

    async def release_lease(self, lease: Lease) -> None:
        """Release a lease. Does nothing if another process has acquired the lease."""
        ...


def new_holder() -> str:
    """Return a readable name for a writer: host, process and a random part."""
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"


async def append(store: SessionStore, key: SessionKey, entries: list[SessionStoreEntry], lease: Lease | None) -> None:
    """Append entries to a store with a lease; None for a store without leases."""
    if lease is None:
        await store.append(key, entries)
    else:
        await cast("LeasingStore", store).append(key, entries, epoch=lease.epoch)


# State changes, which stores apply atomically ------------------------------------------------------------------------


def acquire(
    state: LeaseState, key: SessionKey, holder: str, *, ttl: float, now: float, steal: bool = False
) -> LeaseState:
    """Return the state with a new holder. Raises SessionLeasedError if another process holds the lease."""
    if state.expires_at > now and state.holder != holder and not steal:
        raise SessionLeasedError(
            f"session {format_key(key)} is being written by {state.holder}, for another "
            f"{state.expires_at - now:.0f} s unless it renews its lease",
            session_id=key["session_id"],
            holder=state.holder,
            expires_at=state.expires_at,
        )
    return LeaseState(state.epoch + 1, holder, now + ttl)


def renew(state: LeaseState, lease: Lease, *, ttl: float, now: float) -> LeaseState:
    """Return the state with a later expiry. Raises StaleLeaseError if a later lease was acquired."""
    check_epoch(state, lease.key, lease.epoch)
    return LeaseState(lease.epoch, lease.holder, now + ttl)


def release(state: LeaseState, lease: Lease) -> LeaseState:
    """Return the state without a holder. The epoch stays."""
    return state._replace(expires_at=0.0) if state.epoch == lease.epoch else state


def check_epoch(state: LeaseState, key: SessionKey, epoch: int | None) -> None:
    """Raise StaleLeaseError if a later lease was acquired."""
    if epoch is not None and state.epoch != epoch:
        raise StaleLeaseError(
            f"session {format_key(key)} is now written by {state.holder or 'another process'} "
            f"(epoch {state.epoch}, not {epoch})",
            session_id=key["session_id"],
            holder=state.holder,
        )
