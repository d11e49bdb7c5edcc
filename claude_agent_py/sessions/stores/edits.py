"""Change the sessions of a store: title, tag, deletion, copies. Sessions with a live writer are not changed."""

import contextlib
import os
import secrets
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final, cast

import anyio

from claude_agent_py._base.errors import SessionError, SessionNotFoundError, StoreError
from claude_agent_py._base.event_loop import run_file_work
from claude_agent_py.sessions.changes import build_tag, build_title, fork_session
from claude_agent_py.sessions.folders import AnyPath, find_session, project_key_for_directory, projects_folder
from claude_agent_py.sessions.info import SessionInfo
from claude_agent_py.sessions.stores.access import (
    SECONDS,
    StoreAccess,
    copy,
    drop_ends,
    locate,
    not_found_error,
    open_folder,
)
from claude_agent_py.sessions.stores.protocol import (
    Lease,
    Place,
    SessionStore,
    SessionStoreEntry,
    format_key,
    implements,
    new_holder,
)
from claude_agent_py.sessions.stores.queries import open_temporarily


async def import_session(
    store: SessionStore,
    session_id: str,
    directory: AnyPath | None = None,
    *,
    config_dir: AnyPath | None = None,
    project_key: str | None = None,
    include_subagents: bool = True,
    timeout: float = SECONDS,
) -> int:
    """Copy a session on disk, with its subagents, to a store. Entries that the store already has are skipped.

    Args:
        store: The store.
        session_id: The session's id.
        directory: The session's working directory; by default all projects are searched.
        config_dir: The CLI's configuration folder; by default `CLAUDE_CONFIG_DIR`, or `~/.claude`.
        project_key: The project in the store; by default the name of the folder on disk.
        include_subagents: Also copy the transcripts of subagents.
        timeout: The time limit of each store call, in seconds.

    Returns:
        The number of entries that were new to the store.

    Raises:
        SessionNotFoundError: The session does not exist on disk.
        StoreError: The store failed or took too long. Repeating the call continues the copy.
        OptionsError: The id is not a UUID.

    Cancelling keeps the entries that are already copied.
    """
    path = await run_file_work(find_session, session_id, directory, config_dir)
    folder, name = os.path.split(os.path.dirname(path))
    return await copy(
        open_folder(folder),
        Place(name, session_id),
        StoreAccess(store, timeout),
        Place(project_key or name, session_id),
        include_subagents=include_subagents,
    )


async def push(
    store: SessionStore,
    session_id: str,
    directory: AnyPath | None = None,
    *,
    config_dir: AnyPath | None = None,
    project_key: str | None = None,
    timeout: float = SECONDS,
) -> int:
    """Send entries that the session's store did not accept again, from the folder that kept them.

    Calls `import_session`, which documents the arguments and the errors, with `StoreError.session_id`,
    `config_dir=StoreError.kept_in` and the project in `StoreError.key`.
    """
    return await import_session(
        store, session_id, directory, config_dir=config_dir, project_key=project_key, timeout=timeout
    )


async def deliver_session(
    store: SessionStore,
    session_id: str,
    directory: AnyPath | None = None,
    *,
    config_dir: AnyPath | None = None,
    project_key: str | None = None,
    timeout: float = SECONDS,
) -> None:
    """Send everything that this machine has of a session, and the store lacks, to the store.

    Processes that were killed leave entries in private folders; these are sent and removed. The session in the CLI's
    configuration folder is copied if the model has written something there that the store lacks. Otherwise, all that
    the store could lack are results of calls, which the CLI may have written when its program died. A permission prompt
    that was open then counts as not asked: what the CLI wrote about it, and afterwards, is left out.

    Args:
        store: The store.
        session_id: The session's id.
        directory: The session's working directory; by default all projects of the folder are searched.
        config_dir: The CLI's configuration folder; by default `CLAUDE_CONFIG_DIR`, or `~/.claude`.
        project_key: The project in the store; by default the directory's project if the store has the session there,
            otherwise the only project that has it.
        timeout: The time limit of each store call, in seconds.

    Raises:
        SessionLeasedError: A process is writing to the session.
        StoreError: The store failed or took too long. Repeating the call continues.
        OptionsError: The id is not a UUID.
    """
    access, place = await locate(store, session_id, directory, project_key, timeout)
    async with _hold_lease(access, place) as lease:
        if await access.send_leftovers(place, lease, without_ends=True):
            text = "the store lacks entries that an earlier process left on this machine; the log says why"
            raise StoreError(text, session_id=session_id)
        try:
            path = await run_file_work(find_session, session_id, directory, config_dir)
        except SessionNotFoundError:
            return
        projects, name = os.path.split(os.path.dirname(path))
        folder, source = open_folder(projects), Place(name, session_id)
        known = await access.compare(place)
        is_missing = known.is_empty
        async with contextlib.aclosing(drop_ends(folder.load(source))) as batches:
            async for batch in batches:
                missing = await run_file_work(known.find_missing, batch)
                is_missing = is_missing or any(entry["type"] == "assistant" for entry in missing)
        if is_missing:
            with contextlib.suppress(SessionNotFoundError):  # the transcript was begun, but has no complete line
                await copy(folder, source, access, place, lease=lease, without_ends=True)


async def export_session(
    store: SessionStore,
    session_id: str,
    directory: AnyPath | None = None,
    *,
    config_dir: AnyPath | None = None,
    project_key: str | None = None,
    timeout: float = SECONDS,
) -> str:
    """Write a session of a store, with its subagents, into a configuration folder. Return the transcript's path.

    The CLI and the functions for sessions on disk can then find the session.

    Args:
        store: The store.
        session_id: The session's id.
        directory: The working directory in which the CLI should find the session; by default the current one.
        config_dir: The CLI's configuration folder; by default `CLAUDE_CONFIG_DIR`, or `~/.claude`.
        project_key: The project in the store; by default the directory's project if it has the session, otherwise the
            only project that has it.
        timeout: The time limit of each store call, in seconds.

    Raises:
        SessionNotFoundError: The store does not have the session.
        SessionError: The session already exists in the folder, or cannot be written.
        StoreError: The store failed or took too long.
        OptionsError: The id is not a UUID.
    """
    access, place = await locate(store, session_id, directory, project_key, timeout)
    to = Place(project_key_for_directory(directory), session_id)
    folder = open_folder(projects_folder(config_dir))
    path: str = folder.store.find_path(to)
    if await run_file_work(os.path.lexists, path):
        raise SessionError(f"session {session_id} already exists: {path}", session_id=session_id)
    # Under another name first, so that the CLI never finds a part of the session.
    draft = to._replace(session=f".{session_id}.{secrets.token_hex(8)}")
    try:
        await copy(access, place, folder, draft)
        await run_file_work(folder.store.rename, draft, to)
    except OSError as error:
        raise SessionError(f"{path} cannot be written: {error}", session_id=session_id) from error
    finally:
        with anyio.CancelScope(shield=True):
            await folder.store.delete(draft.key)
    return path


async def copy_session(
    source: SessionStore,
    target: SessionStore,
    session_id: str,
    *,
    project_key: str | None = None,
    to_project_key: str | None = None,
    timeout: float = SECONDS,
) -> int:
    """Copy a session, with its subagents, to another store. Entries whose uuid the target has are skipped.

    Args:
        source: The store that has the session.
        target: The other store.
        session_id: The session's id.
        project_key: The project in the source; by default the current directory's project if it has the session,
            otherwise the only project that has it.
        to_project_key: The project in the target; by default the same.
        timeout: The time limit of each store call, in seconds.

    Returns:
        The number of entries that were new to the target.

    Raises:
        SessionNotFoundError: The source does not have the session.
        StoreError: A store failed or took too long. Repeating the call continues the copy.
        OptionsError: The id is not a UUID.
    """
    origin, place = await locate(source, session_id, None, project_key, timeout)
    to = Place(to_project_key or place.project, session_id)
    return await copy(origin, place, StoreAccess(target, timeout), to)


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
        SessionLeasedError: A process is writing to the session and would restore its own title.
        StoreError: The store failed or took too long.
        OptionsError: The id is not a UUID, or the title is empty.
    """
    note = build_title(title)
    await _append_note(*await locate(session_store, session_id, directory, project_key, timeout), note)


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
    note = build_tag(tag)
    await _append_note(*await locate(session_store, session_id, directory, project_key, timeout), note)


async def delete_session_via_store(
    session_store: SessionStore,
    session_id: str,
    directory: AnyPath | None = None,
    *,
    project_key: str | None = None,
    timeout: float = SECONDS,
) -> None:
    """Delete a session in a store, with its subagents. This cannot be undone.

    Takes the arguments of `rename_session_via_store` except `title`, and raises its errors; also StoreError if the
    store has no `delete`.
    """
    if not implements(session_store, "delete"):
        raise StoreError("the store has no delete()", session_id=session_id)
    access, place = await locate(session_store, session_id, directory, project_key, timeout)
    await _check_exists(access, place)
    async with _hold_lease(access, place):
        # Some stores do not delete the subagents with the session.
        for subpath in (*await access.list_subpaths(place), ""):
            key = place._replace(subpath=subpath).key
            async with access.call(f"delete {format_key(key)}"):
                await access.store.delete(key)


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
    """Copy a session within its store, even while a process is writing to it. The copy can be resumed.

    Args:
        session_store: The store.
        session_id: The id of the session to copy. The original is not changed.
        directory: The session's working directory; by default the current one.
        up_to_message_id: The uuid of the last message to copy; by default everything is copied.
        title: The title of the copy; by default the original title with " (fork)" appended.
        project_key: The project in the store, as for `rename_session_via_store`.
        timeout: The time limit of each store call, in seconds.

    Raises:
        SessionNotFoundError: The store does not have the session.
        SessionError: The session has no messages or lacks the last message.
        StoreError: The store failed or took too long. The copy may exist in part.
        OptionsError: The id is not a UUID.
    """
    access, place = await locate(session_store, session_id, directory, project_key, timeout)
    async with open_temporarily(access, place) as (_, folder):
        fork = await run_file_work(
            lambda: fork_session(session_id, None, up_to_message_id, title, config_dir=folder.path)
        )
        await import_session(session_store, fork.id, config_dir=folder.path, project_key=place.project, timeout=timeout)
    return replace(fork, path="")


async def _append_note(access: StoreAccess, place: Place, note: dict[str, Any]) -> None:
    await _check_exists(access, place)
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    entry = {**note, "sessionId": place.session, "uuid": str(uuid.uuid4()), "timestamp": now}
    async with _hold_lease(access, place) as lease:
        await access.append(place.key, [cast("SessionStoreEntry", entry)], lease)


async def _check_exists(access: StoreAccess, place: Place) -> None:
    """Raise SessionNotFoundError if the store does not have a session."""
    if implements(access.store, "list_sessions"):
        exists = place.session in await access.load_session_times(place.project)
    else:
        exists = await anext(access.load(place), None) is not None
    if not exists:
        raise not_found_error(access, place)


@asynccontextmanager
async def _hold_lease(access: StoreAccess, place: Place) -> AsyncIterator[Lease | None]:
    """Hold the lease of a session. Yields None for a store without leases."""
    lease = await access.acquire_lease(place, new_holder())
    try:
        yield lease
    finally:
        if lease is not None:
            with anyio.move_on_after(RELEASE_SECONDS, shield=True):
                await access.release_lease(lease)
