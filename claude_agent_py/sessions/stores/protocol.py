"""`SessionStore`: the interface of transcript stores. Call-compatible with the official Python SDK.

`FullSessionStore` has the optional methods. A store implements the ones that it supports; callers check with
`implements` first.
"""

import contextlib
import os
import secrets
import socket
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, NotRequired, Protocol, Required, TypedDict, runtime_checkable

import anyio

from claude_agent_py._base.errors import SessionLeasedError, StaleLeaseError, StoreError
from claude_agent_py._base.event_loop import is_cancelled
from claude_agent_py._base.json_object import JSONObject


class SessionKey(TypedDict):
    """Names one transcript: of a session, or (with `subpath`) of a subagent."""

    project_key: str
    session_id: str
    subpath: NotRequired[str]
    """For example `subagents/agent-<id>`. Absent for the session itself."""


class Place(NamedTuple):
    """A transcript in a store."""

    project: str
    session: str
    subpath: str = ""
    """Empty for the session itself."""

    def __str__(self) -> str:
        return "/".join(filter(None, self))

    @property
    def key(self) -> SessionKey:
        """The key of the transcript."""
        key: SessionKey = {"project_key": self.project, "session_id": self.session}
        if self.subpath:
            key["subpath"] = self.subpath
        return key


class SessionListSubkeysKey(TypedDict):
    """Names a session."""

    project_key: str
    session_id: str


class SessionStoreEntry(TypedDict, total=False):
    """A line of a transcript: a JSON object. Fields not listed here are kept."""

    type: Required[str]
    uuid: str
    timestamp: str


class SessionStoreListEntry(TypedDict):
    """A session in a store."""

    session_id: str
    mtime: int
    """The time of the last write, in milliseconds since the epoch."""


class SessionSummaryEntry(TypedDict):
    """The summary that `fold_session_summary` derives from the entries of a session."""

    session_id: str
    mtime: int
    """The time of the last write, in milliseconds since the epoch, by the clock of `SessionStoreListEntry.mtime`."""
    data: JSONObject
    """Opaque to stores."""


@runtime_checkable
class SessionStore(Protocol):
    """Keeps transcripts. These two methods are required; the methods of `FullSessionStore` are optional."""

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Append entries to a transcript, in order.

        A batch may be sent again after an error or a timeout: skip entries whose `uuid` is already stored. Always
        append entries without a `uuid`.
        """
        ...

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """Return all entries of a transcript, equal to the appended ones, or None if there are none."""
        ...


class FullSessionStore(SessionStore, Protocol):
    """A store with all optional methods of the official SDK.

    Without `list_subkeys`, a resumed session lacks its subagents.
    """

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """Return the sessions of a project, without its subagents. Needed for `continue_conversation`."""
        ...

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """Return the summaries of the sessions of a project, kept up to date in `append`."""
        ...

    async def delete(self, key: SessionKey) -> None:
        """Delete a session with its subagents, or (with `subpath`) one transcript. Unknown keys are ignored."""
        ...

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """Return the subpaths of a session's other transcripts."""
        ...


def implements(store: object, method: str) -> bool:
    """Return whether a store implements an optional method, rather than inheriting a protocol's placeholder."""
    if not callable(getattr(store, method, None)):
        return False
    if method in getattr(store, "__dict__", {}):
        return True
    owner = next((base for base in type(store).__mro__ if method in vars(base)), None)
    return not getattr(owner, "_is_protocol", False)


def find_problem(store: object, methods: Sequence[str] = ("append", "load")) -> str | None:
    """Return why a value is not a session store with these methods, or None."""
    missing = [name for name in methods if not callable(getattr(store, name, None))]
    if isinstance(store, type) or missing:
        kind = "the class itself" if isinstance(store, type) else f"a {type(store).__name__}"
        return f"must be a session store, with append() and load(), not {kind}"
    return None


def parse_key(key: SessionKey) -> Place:
    """Return the place named by a key.

    Raises:
        StoreError: A part of the key is missing, not text, or empty.
    """
    # Check the types at run time, because callers may not use a type checker.
    given: JSONObject = {**key}
    project = given.get("project_key")
    session = given.get("session_id")
    subpath = given.get("subpath")
    for name, value in (("project_key", project), ("session_id", session)):
        if not isinstance(value, str) or not value or "\0" in value:
            raise StoreError(f"the {name} of a key must be text, not {value!r}")
    if subpath is not None and (not isinstance(subpath, str) or not subpath or "\0" in subpath):
        raise StoreError(f"the subpath of a key must be text or absent, not {subpath!r}")
    return Place(str(project), str(session), subpath or "")


LEASE_SECONDS: Final = 30.0
"""The duration of a lease that is not renewed, in seconds."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write a session: at most one process has it at a time.

    An append with an epoch before the current one is refused, so a process that does not notice the expiry of its lease
    does no harm.
    """

    key: SessionKey
    holder: str
    """A readable name: host, process and a random part."""
    epoch: int
    expires_at: float
    """Seconds since the epoch, by the clock of the store."""


RELEASED: Final = 0.0
"""The expiry of a lease that was released."""


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
            StaleLeaseError: Another process has acquired the lease, or it was released.
        """
        ...

    async def release_lease(self, lease: Lease) -> None:
        """Release a lease. Does nothing if another process has acquired the lease."""
        ...


STORE_SECONDS: Final = 60.0
"""The default time limit of a store call, in seconds."""


@contextlib.asynccontextmanager
async def calling_store(action: str, seconds: float) -> AsyncIterator[None]:
    """Limit the time of a call of a store, and convert its errors to StoreError.

    Args:
        action: What the store does, for errors: `load the session`.
        seconds: The limit.
    """
    try:
        with anyio.fail_after(seconds):
            yield
    except StoreError:
        raise
    except TimeoutError as error:
        message = f"the store did not answer in time: it took more than {seconds:g} s to {action}"
        raise StoreError(message) from error
    except (Exception, anyio.get_cancelled_exc_class()) as error:
        if not isinstance(error, Exception) and is_cancelled():
            raise
        # A store may have cancelled what it waits for: that cancels nothing here.
        raise StoreError(f"the store failed to {action}: {type(error).__name__}: {error}") from error


def new_holder() -> str:
    """Return a readable name for a writer: host, process and a random part."""
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"


# State changes, which stores apply atomically ------------------------------------------------------------------------


def acquire(state: LeaseState, place: Place, holder: str, *, ttl: float, now: float, steal: bool) -> LeaseState:
    """Return the state with a new holder. Raises SessionLeasedError if another process holds the lease."""
    if state.expires_at > now and state.holder != holder and not steal:
        raise SessionLeasedError(
            f"session {place} is being written by {state.holder}, for another "
            f"{state.expires_at - now:.0f} s unless it renews its lease",
            session_id=place.session,
            holder=state.holder,
            expires_at=state.expires_at,
        )
    return LeaseState(state.epoch + 1, holder, now + ttl)


def renew(state: LeaseState, place: Place, lease: Lease, *, ttl: float, now: float) -> LeaseState:
    """Return the state with a later expiry. Raises StaleLeaseError if the lease was released or taken over."""
    check_epoch(state, place, lease.epoch)
    if state.expires_at == RELEASED:  # a renewal that was cancelled may come late
        raise StaleLeaseError(f"the lease of session {place} was released", session_id=place.session)
    return LeaseState(lease.epoch, lease.holder, now + ttl)


def release(state: LeaseState, lease: Lease) -> LeaseState:
    """Return the state without a holder. The epoch stays."""
    return state._replace(expires_at=RELEASED) if state.epoch == lease.epoch else state


def check_epoch(state: LeaseState, place: Place, epoch: int | None) -> None:
    """Raise StaleLeaseError if a later lease was acquired."""
    if epoch is not None and state.epoch != epoch:
        raise StaleLeaseError(
            f"session {place} is now written by {state.holder or 'another process'} (epoch {state.epoch}, not {epoch})",
            session_id=place.session,
            holder=state.holder,
        )
