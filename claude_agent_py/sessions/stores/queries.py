"""Read the sessions of a store with the code for sessions on disk.

A session is loaded into a private folder, which exists as long as the objects created from it.
"""

import re
import shutil
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import Any, Final

import anyio

from claude_agent_py._errors import SessionError, SessionNotFoundError, StoreError
from claude_agent_py._event_loop import run_file_work
from claude_agent_py.sessions.folders import AnyPath, is_id, project_key_for_directory
from claude_agent_py.sessions.index import check_page, describe_session
from claude_agent_py.sessions.info import SessionInfo
from claude_agent_py.sessions.session import Session, find_subagent, slice_messages
from claude_agent_py.sessions.stores.access import SECONDS, StoreAccess
from claude_agent_py.sessions.stores.base import fold_session_summary
from claude_agent_py.sessions.stores.private_folder import NEW_SECONDS, PrivateFolder, find_left_behind, remove_tree
from claude_agent_py.sessions.stores.protocol import Place, SessionStore, format_key, implements
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

    Args:
        session_store: The store.
        directory: The working directory of the sessions; by default the current one.
        limit: The maximum number to return.
        offset: The number of newest sessions to skip.
        project_key: The project in the store; by default the directory's project.
        timeout: The time limit of each store call, in seconds.

    Raises:
        StoreError: The store failed, took too long, or cannot list its sessions.
        OptionsError: `limit` or `offset` is negative.
    """
    check_page(limit, offset)
    found: list[SessionInfo] = []
    if limit == 0:
        return found
    project = project_key or project_key_for_directory(directory)
    async with aclosing(_iter_newest_first(StoreAccess(session_store, timeout), project)) as newest_first:
        async for info in newest_first:
            found.append(info)
            if limit is not None and len(found) >= offset + limit:
                break
    return found[offset:]


async def _iter_newest_first(access: StoreAccess, project: str) -> AsyncGenerator[SessionInfo, None]:
    has_times = implements(access.store, "list_sessions")
    summaries = await _load_summaries(access, project)
    if not has_times and summaries is None:
        raise StoreError("the store has neither list_sessions() nor list_session_summaries()")
    known = summaries or {}
    if has_times:
        times = await access.load_session_times(project)
    else:
        times = {session: at for session, (at, _) in known.items()}
    waiting = sorted(times, key=lambda each: times[each], reverse=True)
    for start in range(0, len(waiting), CONCURRENT_LOADS):
        batch = waiting[start : start + CONCURRENT_LOADS]
        data = {each: known[each][1] for each in batch if each in known and known[each][0] >= times[each]}
        await _derive_summaries(access, [Place(project, each) for each in batch if each not in data], data)
        for each in batch:
            info = _build_info(each, times[each], data.get(each, {}))
            if info is not None:
                yield info


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


async def _derive_summaries(access: StoreAccess, places: list[Place], data: dict[str, dict[str, Any]]) -> None:
    """Load sessions and add the `data` of their summaries to `data`."""
    failed: list[StoreError] = []

    async def derive(place: Place) -> None:
        try:
            entries = await access.load(place)
        except StoreError as error:
            failed.append(error)
        else:
            data[place.session] = fold_session_summary(None, place.key, entries or [])["data"]

    async with anyio.create_task_group() as loading:
        for place in places:
            loading.start_soon(derive, place)
    if failed:
        raise failed[0]


def _build_info(session_id: str, changed: int, data: Mapping[str, Any]) -> SessionInfo | None:
    """Return the description from a summary, or None for a subagent or a session without a prompt."""

    def text(*names: str) -> str | None:
        for name in names:
            value = data.get(name)
            if isinstance(value, str) and value:
                return value
        return None

    first = text("first_prompt") if data.get("first_prompt_locked") else text("command_fallback")
    title = text("custom_title", "ai_title")
    last = text("last_prompt")
    summary = title or last or text("summary_hint") or first
    if data.get("is_sidechain") or not summary:
        return None
    created = data.get("created_at")
    return SessionInfo(
        session_id=session_id,
        summary=summary,
        last_modified=changed,
        file_size=0,
        custom_title=title,
        first_prompt=first,
        last_prompt=last,
        git_branch=text("git_branch"),
        cwd=text("cwd"),
        tag=text("tag"),
        created_at=created if isinstance(created, int) else None,
    )


async def get_session_from_store(
    session_store: SessionStore,
    session_id: str,
    directory: AnyPath | None = None,
    *,
    project_key: str | None = None,
    include_subagents: bool = True,
    timeout: float = SECONDS,
) -> Session:
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
    access = StoreAccess(session_store, timeout)
    place = await access.find_place(session_id, directory, project_key)
    session, _ = await _load_session(access, place, include_subagents=include_subagents)
    return session


async def _load_session(access: StoreAccess, place: Place, *, include_subagents: bool) -> tuple[Session, PrivateFolder]:
    """Load a session into a new private folder."""
    try:
        folder = await run_file_work(_make_folder)
        try:
            projects = folder.projects
            if not await access.write_session(place, projects, PROJECT, include_subagents=include_subagents):
                raise not_found_error(place)
            info = await run_file_work(
                describe_session, str(projects / PROJECT / f"{place.session}.jsonl"), place.session
            )
        except BaseException:
            await _remove_now(folder)
            raise
    except OSError as error:
        message = f"session {place.session} cannot be written to a temporary folder: {error}"
        raise SessionError(message, session_id=place.session) from error
    return Session(info, config_dir=folder.path, owner=folder), folder


async def _remove_now(folder: PrivateFolder) -> None:
    with anyio.CancelScope(shield=True):
        await run_file_work(folder.remove)


def not_found_error(place: Place) -> SessionNotFoundError:
    """Return the error for a session that the store does not have."""
    return SessionNotFoundError(f"the store has no session {format_key(place.key)}", session_id=place.session)


@asynccontextmanager
async def open_temporarily(
    access: StoreAccess, place: Place, *, include_subagents: bool = True
) -> AsyncIterator[tuple[Session, PrivateFolder]]:
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
    access = StoreAccess(session_store, timeout)
    place = await access.find_place(session_id, directory, project_key)
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
    access = StoreAccess(session_store, timeout)
    place = await access.find_place(session_id, directory, project_key)
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
    access = StoreAccess(session_store, timeout)
    place = await access.find_place(session_id, directory, project_key)
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
    access = StoreAccess(session_store, timeout)
    place = await access.find_place(session_id, directory, project_key)
    async with open_temporarily(access, place) as (session, _):
        return await run_file_work(lambda: slice_messages(find_subagent(session, agent_id).messages, limit, offset))
