"""Copy sessions: from this machine to a store, from a store to a folder, and between stores."""

import os
from pathlib import Path

from claude_agent_py._errors import SessionError
from claude_agent_py._event_loop import run_file_work
from claude_agent_py.sessions.folders import AnyPath, config_folder, find_session, project_key_for_directory
from claude_agent_py.sessions.stores.access import list_subpaths, load, store_call, write_session
from claude_agent_py.sessions.stores.protocol import Place, SessionKey, SessionStore, SessionStoreEntry, format_key
from claude_agent_py.sessions.stores.queries import SECONDS, find_place, not_found_error
from claude_agent_py.sessions.stores.transfers import (
    BATCH_ENTRIES,
    Append,
    build_missing_check,
    list_transcripts,
    send_older,
)


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
    project = project_key or os.path.basename(os.path.dirname(path))
    count = 0
    for transcript, subpath in await run_file_work(list_transcripts, path):
        if not subpath or include_subagents:
            place = Place(project, session_id, subpath)
            stored = await load(store, place, timeout)
            count += await send_older(transcript, place.key, stored or [], _build_append(store, timeout))
    return count


async def push(
    store: SessionStore,
    session_id: str,
    directory: AnyPath | None = None,
    *,
    config_dir: AnyPath | None = None,
    project_key: str | None = None,
    timeout: float = SECONDS,
) -> int:
    """Send entries that the session's store did not accept again. Calls `import_session`.

    Args:
        store: The store.
        session_id: The session's id: `StoreError.session_id`.
        directory: The session's working directory; by default all projects are searched.
        config_dir: The folder with the entries: `StoreError.kept_in`.
        project_key: The project in the store: the one in `StoreError.key`; by default the name of the folder on disk.
        timeout: The time limit of each store call, in seconds.

    Returns:
        The number of entries that were new to the store.

    Raises:
        SessionNotFoundError: The session does not exist on disk.
        StoreError: The store failed again.
        OptionsError: The id is not a UUID.
    """
    return await import_session(
        store, session_id, directory, config_dir=config_dir, project_key=project_key, timeout=timeout
    )


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
    place = await find_place(store, session_id, directory, project_key, timeout)
    target_project = project_key_for_directory(directory)
    folder = os.path.join(config_folder(config_dir), "projects")
    try:
        exists = await write_session(store, place, Path(folder), target_project, timeout)
    except FileExistsError as error:
        raise SessionError(f"session {session_id} already exists: {error}", session_id=session_id) from error
    except OSError as error:
        raise SessionError(f"session {session_id} cannot be written: {error}", session_id=session_id) from error
    if not exists:
        raise not_found_error(place)
    return os.path.join(folder, target_project, f"{session_id}.jsonl")


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
    place = await find_place(source, session_id, None, project_key, timeout)
    append = _build_append(target, timeout)
    count = 0
    for subpath in ("", *await list_subpaths(source, place, timeout)):
        entries = await load(source, place._replace(subpath=subpath), timeout)
        if not entries:
            if not subpath:
                raise not_found_error(place)
            continue
        to = Place(to_project_key or place.project, session_id, subpath)
        new = list(filter(build_missing_check(await load(target, to, timeout) or []), entries))
        for start in range(0, len(new), BATCH_ENTRIES):
            await append(to.key, new[start : start + BATCH_ENTRIES])
        count += len(new)
    return count


def _build_append(store: SessionStore, timeout: float) -> Append:
    async def append(key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        async with store_call(f"append to {format_key(key)}", timeout):
            await store.append(key, entries)

    return append
