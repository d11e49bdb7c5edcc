"""Copy sessions: from this machine to a store, from a store to a folder, from a store to another."""

import os
from pathlib import Path

from claude_agent_py._errors import SessionError
from claude_agent_py._event_loop import run_file_work
from claude_agent_py.sessions.folders import AnyPath, config_folder, find_session, project_key_for_directory
from claude_agent_py.sessions.stores.local import BATCH_ENTRIES, Append, send_older, transcripts_of
from claude_agent_py.sessions.stores.materialise import asked, load, subpaths, write_session
from claude_agent_py.sessions.stores.protocol import Place, SessionKey, SessionStore, SessionStoreEntry, described
from claude_agent_py.sessions.stores.reading import SECONDS, find_place, not_found
from claude_agent_py.sessions.stores.reported import missing_from


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
        directory: The session's working directory; by default it is looked for in all projects.
        config_dir: The CLI's configuration folder; by default `CLAUDE_CONFIG_DIR`, or `~/.claude`.
        project_key: The project in the store; by default the name of the folder on disk.
        include_subagents: Copy the transcripts of subagents, too.
        timeout: Seconds that each call of the store may take.

    Returns:
        How many entries were new to the store.

    Raises:
        SessionNotFoundError: There is no such session on disk.
        StoreError: The store failed or took too long. Repeating the call continues from there.
        OptionsError: The id is not a uuid.

    Cancelling keeps the entries copied so far.
    """
    path = await run_file_work(find_session, session_id, directory, config_dir)
    project = project_key or os.path.basename(os.path.dirname(path))
    count = 0
    for transcript, subpath in await run_file_work(transcripts_of, path):
        if not subpath or include_subagents:
            place = Place(project, session_id, subpath)
            stored = await load(store, place, timeout)
            count += await send_older(transcript, place.key, stored or [], _appending(store, timeout))
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
    """Send entries again that the session's store did not accept. See `import_session`, which this calls.

    Args:
        store: The store.
        session_id: The session's id: `StoreError.session_id`.
        directory: The session's working directory; by default it is looked for in all projects.
        config_dir: Where the entries are: `StoreError.kept_in`.
        project_key: The project in the store: that of `StoreError.key`; by default the name of the folder on disk.
        timeout: Seconds that each call of the store may take.

    Returns:
        How many entries were new to the store.

    Raises:
        SessionNotFoundError: There is no such session on disk.
        StoreError: The store failed again.
        OptionsError: The id is not a uuid.
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
    """Write a session of a store, with its subagents, into a configuration folder, and return the transcript's path.

    The functions for sessions on disk, and the CLI, then find it there.

    Args:
        store: The store.
        session_id: The session's id.
        directory: The working directory in which the CLI should find it; by default the current one.
        config_dir: The CLI's configuration folder; by default `CLAUDE_CONFIG_DIR`, or `~/.claude`.
        project_key: The project in the store; by default that of the directory, or else the one that has the session.
        timeout: Seconds that each call of the store may take.

    Raises:
        SessionNotFoundError: The store does not have the session.
        SessionError: The session is in the folder already, or cannot be written.
        StoreError: The store failed, or took too long.
        OptionsError: The id is not a uuid.
    """
    place = await find_place(store, session_id, directory, project_key, timeout)
    own = project_key_for_directory(directory)
    folder = os.path.join(config_folder(config_dir), "projects")
    try:
        is_there = await write_session(store, place, Path(folder), own, timeout)
    except FileExistsError as error:
        told = f"session {session_id} is there already: {error}"
        raise SessionError(told, session_id=session_id) from error
    except OSError as error:
        raise SessionError(f"session {session_id} cannot be written: {error}", session_id=session_id) from error
    if not is_there:
        raise not_found(place)
    return os.path.join(folder, own, f"{session_id}.jsonl")


async def copy_session(
    source: SessionStore,
    target: SessionStore,
    session_id: str,
    *,
    project_key: str | None = None,
    to_project_key: str | None = None,
    timeout: float = SECONDS,
) -> int:
    """Copy a session, with its subagents, to another store. Entries with a uuid that the target has are skipped.

    Args:
        source: The store that has the session.
        target: The other store.
        session_id: The session's id.
        project_key: The project in the source; by default that of the current directory, or else the one that has it.
        to_project_key: The project in the target; by default the same.
        timeout: Seconds that each call of a store may take.

    Returns:
        How many entries were new to the target.

    Raises:
        SessionNotFoundError: The source does not have the session.
        StoreError: A store failed or took too long. Repeating the call continues from there.
        OptionsError: The id is not a uuid.
    """
    place = await find_place(source, session_id, None, project_key, timeout)
    append, count = _appending(target, timeout), 0
    for subpath in ("", *await subpaths(source, place, timeout)):
        entries = await load(source, place._replace(subpath=subpath), timeout)
        if not entries:
            if not subpath:
                raise not_found(place)
            continue
        to = Place(to_project_key or place.project, session_id, subpath)
        new = list(filter(missing_from(await load(target, to, timeout) or []), entries))
        for start in range(0, len(new), BATCH_ENTRIES):
            await append(to.key, new[start : start + BATCH_ENTRIES])
        count += len(new)
    return count


def _appending(store: SessionStore, timeout: float) -> Append:
    async def append(key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        async with asked(f"append to {described(key)}", timeout):
            await store.append(key, entries)

    return append
