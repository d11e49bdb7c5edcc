"""Sessions by the official SDK's functions: its arguments, results and errors.

Reads return nothing for an unknown session. A store fails with its own exceptions.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from claude_agent_py import sessions as ours
from claude_agent_py._base.checks import is_uuid
from claude_agent_py.errors import OptionsError
from claude_agent_py.sessions import (
    SessionError,
    SessionInfo,
    SessionKey,
    SessionNotFoundError,
    SessionStore,
    SessionStoreEntry,
    StoredSession,
    StoredSessions,
    StoredSubagent,
    StoreError,
    TranscriptMessage,
    fold_session_summary,
    implements,
    project_key_for_directory,
)

__all__ = [
    "ForkSessionResult",
    "SDKSessionInfo",
    "SessionMessage",
    "delete_session",
    "delete_session_via_store",
    "fold_session_summary",
    "fork_session",
    "fork_session_via_store",
    "get_session_info",
    "get_session_info_from_store",
    "get_session_messages",
    "get_session_messages_from_store",
    "get_subagent_messages",
    "get_subagent_messages_from_store",
    "import_session_to_store",
    "list_sessions",
    "list_sessions_from_store",
    "list_subagents",
    "list_subagents_from_store",
    "project_key_for_directory",
    "rename_session",
    "rename_session_via_store",
    "tag_session",
    "tag_session_via_store",
]


@dataclass
class SDKSessionInfo:
    """A session in a list. Times are in milliseconds since the epoch."""

    session_id: str
    summary: str
    last_modified: int
    file_size: int | None = None
    custom_title: str | None = None
    first_prompt: str | None = None
    git_branch: str | None = None
    cwd: str | None = None
    tag: str | None = None
    created_at: int | None = None


@dataclass
class SessionMessage:
    """A message of a transcript."""

    type: Literal["user", "assistant"]
    uuid: str
    session_id: str
    message: Any
    """The message of the API, as a dict."""
    parent_tool_use_id: str | None = None
    """The call that launched the subagent whose message this is."""
    parent_agent_id: str | None = None
    """The subagent that made this call; None for the main agent."""


@dataclass
class ForkSessionResult:
    """The copy that `fork_session` made."""

    session_id: str


# In the CLI's folder ----------------------------------------------------------------------------------------------


def list_sessions(
    directory: str | None = None, limit: int | None = None, offset: int = 0, include_worktrees: bool = True
) -> list[SDKSessionInfo]:
    """Return the sessions of a project, or of all, newest first. A limit below 1 is none."""
    infos = ours.list_sessions(directory, _page_size(limit), max(offset, 0), include_worktrees)
    return [_describe(info, directory) for info in infos]


def get_session_info(session_id: str, directory: str | None = None) -> SDKSessionInfo | None:
    """Return the description of a session, or None."""
    try:
        info = ours.get_session_info(_check_id(session_id), directory)
    except (ValueError, SessionNotFoundError):
        return None
    return _describe(info, directory) if info.summary else None


def get_session_messages(
    session_id: str, directory: str | None = None, limit: int | None = None, offset: int = 0
) -> list[SessionMessage]:
    """Return a page of the messages of a session; empty for an unknown one."""
    session = _read(session_id, directory)
    return [] if session is None else _page(session.messages, limit, offset)


def list_subagents(session_id: str, directory: str | None = None) -> list[str]:
    """Return the ids of the subagents of a session; empty for an unknown one."""
    session = _read(session_id, directory)
    return [] if session is None else [agent.agent_id for agent in session.subagents]


def get_subagent_messages(
    session_id: str, agent_id: str, directory: str | None = None, limit: int | None = None, offset: int = 0
) -> list[SessionMessage]:
    """Return a page of the messages of a subagent; empty for an unknown one."""
    session = _read(session_id, directory)
    return [] if session is None else _page_of_agent(session, agent_id, limit, offset)


def rename_session(session_id: str, title: str, directory: str | None = None) -> None:
    """Set the title of a session."""
    with _official_errors(session_id, directory):
        ours.rename_session(_check_id(session_id), _check_title(title), directory)


def tag_session(session_id: str, tag: str | None, directory: str | None = None) -> None:
    """Set or, with None, remove the tag of a session."""
    with _official_errors(session_id, directory):
        ours.tag_session(_check_id(session_id), tag, directory)


def delete_session(session_id: str, directory: str | None = None) -> None:
    """Delete a session with its subagents. Raises SessionBusyError while a process has it open."""
    with _official_errors(session_id, directory):
        ours.delete_session(_check_id(session_id), directory)


def fork_session(
    session_id: str, directory: str | None = None, up_to_message_id: str | None = None, title: str | None = None
) -> ForkSessionResult:
    """Copy a session. Messages keep their uuids, as in a fork by the CLI."""
    last = _check_message_id(_check_id(session_id), up_to_message_id)
    with _official_errors(session_id, directory, last=last):
        return ForkSessionResult(ours.fork_session(session_id, directory, last, title).id)


# In a store -------------------------------------------------------------------------------------------------------


async def list_sessions_from_store(
    session_store: SessionStore, directory: str | None = None, limit: int | None = None, offset: int = 0
) -> list[SDKSessionInfo]:
    """Return the sessions of a project in a store, newest first. A limit below 1 is none."""
    _check_method(session_store, ("list_sessions", "list_session_summaries"), "list sessions")
    with _official_errors("", directory):
        infos = await _sessions(session_store, directory).list(_page_size(limit), max(offset, 0))
    return [_describe(info, directory) for info in infos]


async def get_session_info_from_store(
    session_store: SessionStore, session_id: str, directory: str | None = None
) -> SDKSessionInfo | None:
    """Return the description of a session in a store, or None."""
    session = await _load(session_store, session_id, directory)
    return _describe(session.info, directory) if session is not None and session.info.summary else None


async def get_session_messages_from_store(
    session_store: SessionStore,
    session_id: str,
    directory: str | None = None,
    limit: int | None = None,
    offset: int = 0,
) -> list[SessionMessage]:
    """Return a page of the messages of a session in a store; empty for an unknown one."""
    session = await _load(session_store, session_id, directory)
    return [] if session is None else _page(session.messages, limit, offset)


async def list_subagents_from_store(
    session_store: SessionStore, session_id: str, directory: str | None = None
) -> list[str]:
    """Return the ids of the subagents of a session in a store; empty for an unknown one."""
    if not is_uuid(session_id):
        return []
    _check_method(session_store, ("list_subkeys",), "list subagents")
    names = [path.rpartition("/")[2] for path in await _list_agents(session_store, session_id, directory)]
    return list(dict.fromkeys(name.removeprefix("agent-") for name in names))


async def get_subagent_messages_from_store(
    session_store: SessionStore,
    session_id: str,
    agent_id: str,
    directory: str | None = None,
    limit: int | None = None,
    offset: int = 0,
) -> list[SessionMessage]:
    """Return a page of the messages of a subagent in a store; empty for an unknown one."""
    if not is_uuid(session_id) or not agent_id:
        return []
    subpath = f"subagents/agent-{agent_id}"
    if implements(session_store, "list_subkeys"):
        paths = await _list_agents(session_store, session_id, directory)
        found = next((path for path in paths if path.endswith(f"/agent-{agent_id}")), None)
        if found is None:
            return []
        subpath = found
    session = await _load(_OneSubagent(session_store, subpath), session_id, directory, include_subagents=True)
    return [] if session is None else _page_of_agent(session, agent_id, limit, offset)


async def rename_session_via_store(
    session_store: SessionStore, session_id: str, title: str, directory: str | None = None
) -> None:
    """Set the title of a session in a store. Raises SessionLeasedError while a process writes to it."""
    with _official_errors(session_id, directory):
        await _sessions(session_store, directory).rename(_check_id(session_id), _check_title(title))


async def tag_session_via_store(
    session_store: SessionStore, session_id: str, tag: str | None, directory: str | None = None
) -> None:
    """Set or, with None, remove the tag of a session in a store."""
    with _official_errors(session_id, directory):
        await _sessions(session_store, directory).tag(_check_id(session_id), tag)


async def delete_session_via_store(session_store: SessionStore, session_id: str, directory: str | None = None) -> None:
    """Delete a session in a store. Does nothing if the store has no `delete` or no such session."""
    _check_id(session_id)
    if implements(session_store, "delete"):
        try:
            with _official_errors(session_id, directory):
                await _sessions(session_store, directory).delete(session_id)
        except FileNotFoundError:
            return


async def fork_session_via_store(
    session_store: SessionStore,
    session_id: str,
    directory: str | None = None,
    up_to_message_id: str | None = None,
    title: str | None = None,
) -> ForkSessionResult:
    """Copy a session within its store. Messages keep their uuids, as in a fork by the CLI."""
    last = _check_message_id(_check_id(session_id), up_to_message_id)
    with _official_errors(session_id, None, last=last):
        return ForkSessionResult((await _sessions(session_store, directory).fork(session_id, last, title)).id)


async def import_session_to_store(
    session_id: str,
    store: SessionStore,
    *,
    directory: str | None = None,
    include_subagents: bool = True,
    batch_size: int = 500,
) -> None:
    """Copy a session from the CLI's folder to a store. Batches have at most 500 entries or `batch_size`."""
    target = store if batch_size <= 0 else _Batching(store, batch_size)
    with _official_errors(_check_id(session_id), None):
        await ours.import_session(target, session_id, directory, include_subagents=include_subagents)


# ------------------------------------------------------------------------------------------------------------------


def _describe(info: SessionInfo, directory: str | None) -> SDKSessionInfo:
    return SDKSessionInfo(
        session_id=info.id,
        summary=info.summary,
        last_modified=info.last_modified,
        file_size=info.file_size if info.path else None,
        custom_title=info.custom_title,
        first_prompt=info.first_prompt,
        git_branch=info.git_branch,
        cwd=info.cwd or directory,
        tag=info.tag,
        created_at=info.created_at,
    )


def _page_size(limit: int | None) -> int | None:
    return limit if limit is not None and limit > 0 else None


def _page(
    messages: Sequence[TranscriptMessage], limit: int | None, offset: int, agent: StoredSubagent | None = None
) -> list[SessionMessage]:
    start, size = max(offset, 0), _page_size(limit)
    chosen = messages[start : None if size is None else start + size]
    call, parent = (agent.tool_use_id, agent.parent_agent_id) if agent is not None else (None, None)
    return [_convert(message, call, parent) for message in chosen]


def _convert(message: TranscriptMessage, call: str | None, parent: str | None) -> SessionMessage:
    entry = message.raw
    return SessionMessage(
        message.type, entry.get("uuid", ""), entry.get("sessionId", ""), entry.get("message"), call, parent
    )


def _page_of_agent(session: StoredSession, agent_id: str, limit: int | None, offset: int) -> list[SessionMessage]:
    agent = next((agent for agent in session.subagents if agent.agent_id == agent_id), None)
    return [] if agent is None else _page(agent.messages, limit, offset, agent)


def _read(session_id: str, directory: str | None) -> StoredSession | None:
    if not is_uuid(session_id):
        return None
    try:
        return ours.get_session(session_id, directory)
    except SessionNotFoundError:
        return None


def _sessions(store: SessionStore, directory: str | None) -> StoredSessions:
    return StoredSessions(store, project_key=project_key_for_directory(directory))


async def _load(
    store: SessionStore, session_id: str, directory: str | None, *, include_subagents: bool = False
) -> StoredSession | None:
    if not is_uuid(session_id):
        return None
    try:
        with _official_errors(session_id, None):
            return await _sessions(store, directory).get(session_id, include_subagents=include_subagents)
    except FileNotFoundError:
        return None


async def _list_agents(store: Any, session_id: str, directory: str | None) -> list[str]:
    """Return the subpaths of subagents."""
    key = {"project_key": project_key_for_directory(directory), "session_id": session_id}
    paths: list[str] = await store.list_subkeys(key)
    return [path for path in paths if path.startswith("subagents/") and "/agent-" in path]


class _OneSubagent:
    """A store of which one subagent is read. Its session may be missing."""

    def __init__(self, store: SessionStore, subpath: str) -> None:
        self._store = store
        self._subpath = subpath
        self.append = store.append

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        return await self._store.load(key) if key.get("subpath") else [{"type": "not-loaded"}]

    async def list_subkeys(self, key: object) -> list[str]:
        return [self._subpath]


class _Batching:
    """A store to which entries are appended in smaller batches."""

    def __init__(self, store: SessionStore, size: int) -> None:
        self._store = store
        self._size = size
        self.load = store.load

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        for start in range(0, len(entries), self._size):
            await self._store.append(key, entries[start : start + self._size])


def _check_id(session_id: str) -> str:
    if not is_uuid(session_id):
        raise ValueError(f"Invalid session_id: {session_id}")
    return session_id


def _check_message_id(session_id: str, message_id: str | None) -> str | None:
    if message_id and not is_uuid(message_id):
        raise ValueError(f"Invalid up_to_message_id: {message_id}")
    return message_id or None


def _check_title(title: str) -> str:
    if not title.strip():
        raise ValueError("title must be non-empty")
    return title


def _check_method(store: SessionStore, methods: Sequence[str], action: str) -> None:
    if not any(implements(store, method) for method in methods):
        names = " or ".join(f"{method}()" for method in methods)
        raise ValueError(f"session_store does not implement {names} -- cannot {action}.")


@contextmanager
def _official_errors(session_id: str, directory: str | None, *, last: str | None = None) -> Iterator[None]:
    """Raise the errors of the official functions instead of this package's. `last` is the last message to copy."""
    try:
        yield
    except SessionNotFoundError as error:
        where = f"in project directory for {directory}" if directory else "in any project directory"
        raise FileNotFoundError(f"Session {session_id} not found {where}") from error
    except OptionsError as error:
        # Ids and titles have been checked.
        is_tag = error.option == "tag"
        raise ValueError("tag must be non-empty (use None to clear)" if is_tag else str(error)) from error
    except StoreError as error:
        raise (error.__cause__ or error) from error
    except SessionError as error:
        if "has no messages" in str(error):
            raise ValueError(f"Session {session_id} has no messages to fork") from error
        if last is not None and last in str(error):
            raise ValueError(f"Message {last} not found in session {session_id}") from error
        raise
