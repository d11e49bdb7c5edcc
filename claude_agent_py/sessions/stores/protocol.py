"""`SessionStore`: what a store of transcripts implements. Call-compatible with the official Python SDK.

The optional methods are in `FullSessionStore`. A store implements those that it can; callers check with `implements`
first.
"""

from typing import Any, NamedTuple, NotRequired, Protocol, Required, TypedDict, runtime_checkable

from claude_agent_py._errors import StoreError


class SessionKey(TypedDict):
    """Names one transcript: of a session, or (with `subpath`) of a subagent."""

    project_key: str
    session_id: str
    subpath: NotRequired[str]
    """Such as `subagents/agent-<id>`. Absent for the session itself."""


class Place(NamedTuple):
    """A transcript in a store."""

    project: str
    session: str
    subpath: str = ""
    """Empty for the session itself."""

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
    """When it was last written, in milliseconds since the epoch."""


class SessionSummaryEntry(TypedDict):
    """What `fold_session_summary` derives from the entries of a session."""

    session_id: str
    mtime: int
    """When it was last written, in milliseconds since the epoch, by the same clock as `SessionStoreListEntry.mtime`."""
    data: dict[str, Any]
    """Opaque to stores."""


@runtime_checkable
class SessionStore(Protocol):
    """Keeps transcripts. These two methods are required; those of `FullSessionStore` are optional."""

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Append entries to a transcript, in order.

        A batch may be sent again after an error or a timeout: skip entries whose `uuid` is already stored. Always
            append entries without a `uuid`.
        """
        ...

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """Return all entries of a transcript, equal to what was appended, or None if there are none."""
        ...


class FullSessionStore(SessionStore, Protocol):
    """A store with all optional methods of the official SDK. Without `list_subkeys`, resuming has no subagents."""

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


def described(key: SessionKey) -> str:
    """Return a key for errors and logs."""
    return "/".join(part for part in (key["project_key"], key["session_id"], key.get("subpath")) if part)


def checked(key: SessionKey) -> Place:
    """Return the place that a key names.

    Raises:
        StoreError: A part is missing, not text, or empty.
    """
    given: dict[str, Any] = {**key}  # callers may not use a type checker
    project, session, subpath = given.get("project_key"), given.get("session_id"), given.get("subpath")
    for name, value in (("project_key", project), ("session_id", session)):
        if not isinstance(value, str) or not value or "\0" in value:
            raise StoreError(f"the {name} of a key must be text, not {value!r}")
    if subpath is not None and (not isinstance(subpath, str) or not subpath or "\0" in subpath):
        raise StoreError(f"the subpath of a key must be text, or left out, not {subpath!r}")
    return Place(str(project), str(session), subpath or "")
