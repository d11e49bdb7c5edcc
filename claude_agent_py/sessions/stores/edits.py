"""Change the sessions of a store: title, tag, deletion, copies. Sessions with a live writer are not changed."""

import logging
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final, cast

import anyio

from claude_agent_py._errors import StoreError
from claude_agent_py._event_loop import run_file_work
from claude_agent_py.sessions.changes import normalise_tag, normalise_title
from claude_agent_py.sessions.folders import AnyPath
from claude_agent_py.sessions.fork import fork_session
from claude_agent_py.sessions.info import SessionInfo
from claude_agent_py.sessions.stores.access import list_subpaths, load, load_session_times, store_call
from claude_agent_py.sessions.stores.copies import import_session
from claude_agent_py.sessions.stores.protocol import (
    Lease,
    Place,
    SessionStore,
    SessionStoreEntry,
    append,
    format_key,
    implements,
    new_holder,
)
from claude_agent_py.sessions.stores.queries import SECONDS, find_place, not_found_error, open_temporarily

logger: logging.Logger = logging.getLogger("claude_agent_py")

RELEASE_SECONDS: Final = 2.0
"""The time limit for releasing a lease, in seconds. A lease that is not released expires."""


async def rename_session_via_store(
    session_store: SessionStore,
    session_id: str,
    title: str,
    directory: AnyPath | None = None,
    *,
    project_key: str | None = None,
    timeout: float = SECONDS,
) -> None:
    """Set the title of a session in a store.

    Args:
        session_store: The store.
        session_id: The session's id.
        title: The title. Surrounding white space is removed.
        directory: The session's working directory; by default the current one.
        project_key: The project in the store; by default the directory's project if it has the session, otherwise the
            only project that has it.
        timeout: The time limit of each store call, in seconds.

    Raises:
        SessionNotFoundError: The store does not have the session.
        SessionLeasedError: A process writes the session and would restore its own title.
        StoreError: The store failed or took too long.
        OptionsError: The id is not a UUID, or the title is empty.
    """
    note = {"type": "custom-title", "customTitle": normalise_title(title)}
    place = await find_place(session_store, session_id, directory, project_key, timeout)
    await _append(session_store, place, note, timeout)


async def tag_session_via_store(
    session_store: SessionStore,
    session_id: str,
    tag: str | None,
    directory: AnyPath | None = None,
    *,
    project_key: str | None = None,
    timeout: float = SECONDS,
) -> None:
    """Set or, with None, remove the tag of a session in a store.

    Takes the arguments and raises the errors of `rename_session_via_store`.
    """
    note = {"type": "tag", "tag": normalise_tag(tag)}
    place = await find_place(session_store, session_id, directory, project_key, timeout)
    await _append(session_store, place, note, timeout)


async def delete_session_via_store(
    session_store: SessionStore,
    session_id: str,
    directory: AnyPath | None = None,
    *,
    project_key: str | None = None,
    timeout: float = SECONDS,
) -> None:
    """Delete a session in a store, with its subagents. This cannot be undone.

    Args:
        session_store: The store.
        session_id: The session's id.
        directory: The session's working directory; by default the current one.
        project_key: The project in the store; by default the directory's project if it has the session, otherwise the
            only project that has it.
        timeout: The time limit of each store call, in seconds.

    Raises:
        SessionNotFoundError: The store does not have the session.
        SessionLeasedError: A process writes the session.
        StoreError: The store failed, took too long, or has no `delete`.
        OptionsError: The id is not a UUID.
    """
    if not implements(session_store, "delete"):
        raise StoreError("the store has no delete()", session_id=session_id)
    place = await find_place(session_store, session_id, directory, project_key, timeout)
    await _check_exists(session_store, place, timeout)
    store = cast("Any", session_store)
    async with _hold_lease(session_store, place, timeout):
        # Some stores do not delete the subagents with the session.
        for subpath in await list_subpaths(session_store, place, timeout):
            async with store_call(f"delete {format_key(place.key)}/{subpath}", timeout):
                await store.delete(place._replace(subpath=subpath).key)
        async with store_call(f"delete {format_key(place.key)}", timeout):
            await store.delete(place.key)


async def fork_session_via_store(
    session_store: SessionStore,
    session_id: str,
    directory: AnyPath | None = None,
    up_to_message_id: str | None = None,
    title: str | None = None,
    *,
    project_key: str | None = None,
    timeout: float = SECONDS,
) -> SessionInfo:
    """Copy a session within its store, even while a process writes it. The copy can be resumed.

    Args:
        session_store: The store.
        session_id: The id of the session to copy. The original is not changed.
        directory: The session's working directory; by default the current one.
        up_to_message_id: The uuid of the last message to copy; by default everything is copied.
        title: The title of the copy; by default the original title with " (fork)" appended.
        project_key: The project in the store; by default the directory's project if it has the session, otherwise the
            only project that has it.
        timeout: The time limit of each store call, in seconds.

    Raises:
        SessionNotFoundError: The store does not have the session.
        SessionError: The session has no messages or lacks the last message.
        StoreError: The store failed or took too long. The copy may exist in part.
        OptionsError: The id is not a UUID.
    """
    place = await find_place(session_store, session_id, directory, project_key, timeout)
    async with open_temporarily(session_store, place, timeout) as (_, folder):
        copy = await run_file_work(
            lambda: fork_session(session_id, None, up_to_message_id, title, config_dir=folder.path)
        )
        await import_session(
            session_store, copy.session_id, config_dir=folder.path, project_key=place.project, timeout=timeout
        )
    return replace(copy, path="")


async def _append(store: SessionStore, place: Place, note: dict[str, Any], timeout: float) -> None:
    await _check_exists(store, place, timeout)
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    entry = {**note, "sessionId": place.session, "uuid": str(uuid.uuid4()), "timestamp": now}
    entries = [cast("SessionStoreEntry", entry)]
    async with _hold_lease(store, place, timeout) as lease, store_call(f"append to {format_key(place.key)}", timeout):
        await append(store, place.key, entries, lease)


async def _check_exists(store: SessionStore, place: Place, timeout: float) -> None:
    """Raise SessionNotFoundError if the store does not have a session."""
    if implements(store, "list_sessions"):
        exists = place.session in await load_session_times(store, place.project, timeout)
    else:
        exists = bool(await load(store, place, timeout))
    if not exists:
        raise not_found_error(place)


@asynccontextmanager
async def _hold_lease(store: Any, place: Place, timeout: float) -> AsyncIterator[Lease | None]:
    """Hold the lease of a session. Yields None for a store without leases."""
    if not implements(store, "acquire_lease"):
        yield None
        return
    async with store_call(f"acquire the lease of session {place.session}", timeout):
        lease = await store.acquire_lease(place.key, new_holder())
    try:
        yield lease
    finally:
        with anyio.move_on_after(RELEASE_SECONDS, shield=True):
            try:
                await store.release_lease(lease)
            except Exception as error:
                logger.warning("the lease of session %s cannot be released: %s", place.session, error)
