"""Read the sessions of a store with the code for sessions on disk.

A session is loaded into a private folder, which exists as long as the objects created from it.
"""

import re
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final

import anyio

from claude_agent_py._base.errors import SessionError, StoreError
from claude_agent_py._base.event_loop import run_file_work
from claude_agent_py._base.log import logger
from claude_agent_py.sessions.folders import AnyPath, is_id, project_key_for_directory
from claude_agent_py.sessions.index import check_page, describe_session
from claude_agent_py.sessions.info import SessionInfo, build_info
from claude_agent_py.sessions.stored_session import StoredSession, find_subagent, slice_messages
from claude_agent_py.sessions.stores.access import SECONDS, StoreAccess, copy, locate, open_folder
from claude_agent_py.sessions.stores.base import fold_session_summary
from claude_agent_py.sessions.stores.private_folder import NEW_SECONDS, PrivateFolder, find_left_behind, remove_tree
from claude_agent_py.sessions.stores.protocol import Place, SessionStore, implements
from claude_agent_py.tasks.files.transcript import TranscriptMessage

PREFIX: Final = "claude-agent-py-stored-"
PROJECT: Final = "stored"
"""The name of the one project in a folder."""
CONCURRENT_LOADS: Final = 16
"""The maximum number of sessions without a summary that are loaded concurrently."""
_AGENT: Final = re.compile(r"subagents/(?:.*/)?agent-(?P<id>[^/]+)", re.DOTALL)


def _make_folder() -> PrivateFolder:
    """Create a folder for one session, which is removed with the object at the latest."""
    for left in find_left_behind(PREFIX, min_age=NEW_SECONDS):
        shutil.rmtree(left, ignore_errors=True)
    return PrivateFolder(PREFIX, remove_tree)


async def list_sessions_from_store(
    session_store: SessionStore,
    directory: AnyPath | None = None,
    limit: int | None = None,
    offset: int = 0,
    *,
    project_key: str | None = None,
    timeout: float = SECONDS,
) -> list[SessionInfo]:
    """Return the sessions of a project in a store, newest first.

    Their `path` is empty and their `file_size` is 0. A session is loaded only if the store has no up-to-date summary.
    If loading fails, that is logged, and the session's `summary` is empty.

    Args:
        session_store: The store.
        directory: The working directory of the sessions; by default the current one.
        limit: The maximum number to return.
        offset: The number of newest sessions to skip.
        project_key: The project in the store; by default the directory's project.
        timeout: The time limit of each store call, in seconds.

    Raises:
        StoreError: The store cannot list its sessions, or took too long to list them.
        OptionsError: `limit` or `offset` is negative.
    """
    check_page(limit, offset)
    found: list[SessionInfo] = []
    if limit == 0:
        return found
    project = project_key or project_key_for_directory(directory)
    access = StoreAccess(session_store, timeout)
    times, data = await _load_lists(access, project)
    waiting = sorted(times, key=lambda each: times[each], reverse=True)
    while waiting and (limit is None or len(found) < offset + limit):
        wanted = CONCURRENT_LOADS if limit is None else offset + limit - len(found)
        batch = waiting[: min(wanted, CONCURRENT_LOADS)]
        del waiting[: len(batch)]
        await _derive_summaries(access, [Place(project, each) for each in batch if each not in data], data)
        infos = (_describe(each, times[each], data[each]) for each in batch)
        found += [info for info in infos if info is not None]
    return found[offset:]


async def _load_lists(access: StoreAccess, project: str) -> tuple[dict[str, int], dict[str, Any]]:
    """Return the time of the last write of each session, and the data of the summaries that are up to date."""
    has_times = implements(access.store, "list_sessions")
    summaries = await _load_summaries(access, project)
    if has_times:
        times = await access.load_session_times(project)
    elif summaries is not None:
        times = {each: at for each, (at, _) in summaries.items()}
    else:
        raise StoreError("the store has neither list_sessions() nor list_session_summaries()")
    return times, {each: data for each, (at, data) in (summaries or {}).items() if at >= times.get(each, at)}


async def _load_summaries(access: StoreAccess, project: str) -> dict[str, tuple[int, dict[str, Any]]] | None:
    """Return the time and the data of each summary; None if the store keeps no summaries."""
    if not implements(access.store, "list_session_summaries"):
        return None
    try:
        async with access.call(f"list the summaries of {project}"):
            listed = await access.store.list_session_summaries(project)
            return {s["session_id"]: (int(s["mtime"]), dict(s["data"])) for s in listed if is_id(s["session_id"])}
    except StoreError as error:
        if isinstance(error.__cause__, NotImplementedError):
            return None
        raise


async def _derive_summaries(access: StoreAccess, places: list[Place], data: dict[str, Any]) -> None:
    """Load sessions and add the `data` of their summaries to `data`; None for one that cannot be loaded."""

    async def derive(place: Place) -> None:
        try:
            summary = fold_session_summary(None, place.key, ())
            async for batch in access.load(place):
                summary = fold_session_summary(summary, place.key, batch)
            data[place.session] = summary["data"]
        except StoreError as error:
            data[place.session] = None
            logger.warning("session %s cannot be loaded: %s", place.session, error)

    async with anyio.create_task_group() as loading:
        for place in places:
            loading.start_soon(derive, place)


def _describe(session_id: str, changed: int, data: Mapping[str, Any] | None) -> SessionInfo | None:
    """Return the description of a session from its summary; an empty one for a session that cannot be loaded."""
    if data is None:
        return SessionInfo(session_id=session_id, summary="", last_modified=changed, file_size=0)
    return build_info(session_id, changed, data)


async def get_session_from_store(
    session_store: SessionStore,
    session_id: str,
    directory: AnyPath | None = None,
    *,
    project_key: str | None = None,
    include_subagents: bool = True,
    timeout: float = SECONDS,
) -> StoredSession:
    """Return a snapshot of a session in a store.

    Use the result like the result of `get_session`. Its files are in a private folder, which is removed when the
    session and the objects obtained from it are no longer in use.

    Args:
        session_store: The store.
        session_id: The session's id.
        directory: The session's working directory; by default the current one.
        project_key: The project in the store; by default the directory's project if it has the session, otherwise the
            only project that has it.
        include_subagents: Also load the transcripts of subagents.
        timeout: The time limit of each store call, in seconds.

    Raises:
        SessionNotFoundError: The store does not have the session.
        StoreError: The store failed, took too long, or returned an invalid transcript.
        SessionError: The session cannot be written to a temporary folder.
        OptionsError: The id is not a UUID.
    """
    access, place = await locate(session_store, session_id, directory, project_key, timeout)
    session, _ = await _load_session(access, place, include_subagents=include_subagents)
    return session


async def _load_session(
    access: StoreAccess, place: Place, *, include_subagents: bool
) -> tuple[StoredSession, PrivateFolder]:
    """Load a session into a new private folder."""
    try:
        folder = await run_file_work(_make_folder)
    except OSError as error:
        message = f"session {place.session} cannot be written to a temporary folder: {error}"
        raise SessionError(message, session_id=place.session) from error
    try:
        own, to = open_folder(folder.projects), Place(PROJECT, place.session)
        await copy(access, place, own, to, include_subagents=include_subagents)
        info = await run_file_work(describe_session, own.store.find_path(to), place.session)
    except BaseException:
        await _remove_now(folder)
        raise
    return StoredSession(info, config_dir=folder.path, owner=folder), folder


async def _remove_now(folder: PrivateFolder) -> None:
    with anyio.CancelScope(shield=True):
        await run_file_work(folder.remove)


@asynccontextmanager
async def open_temporarily(
    access: StoreAccess, place: Place, *, include_subagents: bool = True
) -> AsyncIterator[tuple[StoredSession, PrivateFolder]]:
    """Load a session into a folder that is removed on exit."""
    session, folder = await _load_session(access, place, include_subagents=include_subagents)
    try:
        yield session, folder
    finally:
        await _remove_now(folder)


async def get_session_info_from_store(
    session_store: SessionStore,
    session_id: str,
    directory: AnyPath | None = None,
    *,
    project_key: str | None = None,
    timeout: float = SECONDS,
) -> SessionInfo:
    """Return the description of a session in a store; `path` is empty.

    Raises the errors of `get_session_from_store`.
    """
    access, place = await locate(session_store, session_id, directory, project_key, timeout)
    async with open_temporarily(access, place, include_subagents=False) as (session, _):
        return replace(session.info, path="")


async def get_session_messages_from_store(
    session_store: SessionStore,
    session_id: str,
    directory: AnyPath | None = None,
    limit: int | None = None,
    offset: int = 0,
    *,
    project_key: str | None = None,
    timeout: float = SECONDS,
) -> list[TranscriptMessage]:
    """Return a page of the messages of a session in a store. Raises the errors of `get_session_from_store`."""
    access, place = await locate(session_store, session_id, directory, project_key, timeout)
    async with open_temporarily(access, place, include_subagents=False) as (session, _):
        return await run_file_work(slice_messages, session.messages, limit, offset)


async def list_subagents_from_store(
    session_store: SessionStore,
    session_id: str,
    directory: AnyPath | None = None,
    *,
    project_key: str | None = None,
    timeout: float = SECONDS,
) -> list[str]:
    """Return the ids of the subagents of a session in a store; empty for an unknown session.

    Raises:
        StoreError: The store failed, took too long, or has no `list_subkeys`.
        OptionsError: The id is not a UUID.
    """
    if not implements(session_store, "list_subkeys"):
        raise StoreError("the store has no list_subkeys()", session_id=session_id)
    access, place = await locate(session_store, session_id, directory, project_key, timeout)
    found = map(_AGENT.fullmatch, await access.list_subpaths(place))
    return list(dict.fromkeys(each["id"] for each in found if each is not None))


async def get_subagent_messages_from_store(
    session_store: SessionStore,
    session_id: str,
    agent_id: str,
    directory: AnyPath | None = None,
    limit: int | None = None,
    offset: int = 0,
    *,
    project_key: str | None = None,
    timeout: float = SECONDS,
) -> list[TranscriptMessage]:
    """Return a page of the messages of a subagent in a store. Raises the errors of `get_session_from_store`.

    Raises SessionError if the session does not have the subagent.
    """
    access, place = await locate(session_store, session_id, directory, project_key, timeout)
    async with open_temporarily(access, place) as (session, _):
        return await run_file_work(lambda: slice_messages(find_subagent(session, agent_id).messages, limit, offset))
