"""Copy sessions between the CLI's folder and stores."""

import contextlib
import os
import secrets
from functools import partial

from claude_agent_py._base.errors import SessionError, SessionNotFoundError, StoreError
from claude_agent_py._base.event_loop import run_file_work, run_to_its_end
from claude_agent_py.sessions.folders import AnyPath, project_key_for_directory, projects_folder
from claude_agent_py.sessions.stores.access import StoreAccess, copy, find_on_disk, locate, open_folder
from claude_agent_py.sessions.stores.protocol import STORE_SECONDS, Place, SessionStore


async def import_session(
    store: SessionStore,
    session_id: str,
    directory: AnyPath | None = None,
    *,
    config_dir: AnyPath | None = None,
    project_key: str | None = None,
    include_subagents: bool = True,
    timeout: float = STORE_SECONDS,
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
        SessionLeasedError: A process is writing to the session in the store.
        StoreError: The store failed or took too long. Repeating the call continues the copy.
        OptionsError: The id is not a UUID.

    Cancelling keeps the entries that are already copied.
    """
    folder, place = await find_on_disk(session_id, directory, config_dir)
    access, to = StoreAccess(store, timeout), Place(project_key or place.project, session_id)
    async with access.hold_lease(to) as lease:
        return await copy(folder, place, access, to, lease=lease, include_subagents=include_subagents)


async def push(
    store: SessionStore,
    session_id: str,
    directory: AnyPath | None = None,
    *,
    config_dir: AnyPath | None = None,
    project_key: str | None = None,
    timeout: float = STORE_SECONDS,
) -> int:
    """Send entries that the session's store did not accept again, from the folder that kept them.

    `import_session` documents the arguments and the errors. Pass `StoreError.session_id`,
    `config_dir=StoreError.kept_in` and the project in `StoreError.key`.
    """
    try:
        folder, place = await find_on_disk(session_id, directory, config_dir)
    except SessionNotFoundError:
        folder = open_folder(projects_folder(config_dir))
        found = await folder.find(session_id)
        if not found:
            raise
        place = Place(found[0], session_id)  # the store lacks entries of subagents alone
    access, to = StoreAccess(store, timeout), Place(project_key or place.project, session_id)
    async with access.hold_lease(to) as lease:
        return await copy(folder, place, access, to, lease=lease, is_rest=True)


async def deliver_session(
    store: SessionStore,
    session_id: str,
    directory: AnyPath | None = None,
    *,
    config_dir: AnyPath | None = None,
    project_key: str | None = None,
    timeout: float = STORE_SECONDS,
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
    async with access.hold_lease(place) as lease:
        if await access.send_leftovers(place, lease, without_ends=True):
            text = "the store lacks entries that an earlier process left on this machine; the log says why"
            raise StoreError(text, session_id=session_id)
        try:
            folder, source = await find_on_disk(session_id, directory, config_dir)
        except SessionNotFoundError:
            return
        if await access.lacks_answers(place, folder, source):
            with contextlib.suppress(SessionNotFoundError):  # the transcript was begun, but has no complete line
                await copy(folder, source, access, place, lease=lease, without_ends=True)


async def export_session(
    store: SessionStore,
    session_id: str,
    directory: AnyPath | None = None,
    *,
    config_dir: AnyPath | None = None,
    project_key: str | None = None,
    timeout: float = STORE_SECONDS,
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
    exists = SessionError(f"session {session_id} already exists: {path}", session_id=session_id)
    if await run_file_work(os.path.lexists, path):
        raise exists
    # Under another name first, so that the CLI never finds a part of the session.
    draft = to._replace(session=f".{session_id}.{secrets.token_hex(8)}")
    try:
        await copy(access, place, folder, draft)
        await run_file_work(folder.store.rename, draft, to)
    except FileExistsError:  # written meanwhile
        raise exists from None
    except OSError as error:
        raise SessionError(f"{path} cannot be written: {error}", session_id=session_id) from error
    finally:
        await run_to_its_end(partial(folder.delete, draft), name="claude_agent_py delete")
    return path


async def copy_session(
    source: SessionStore,
    target: SessionStore,
    session_id: str,
    *,
    project_key: str | None = None,
    to_project_key: str | None = None,
    timeout: float = STORE_SECONDS,
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
        SessionLeasedError: A process is writing to the session in the target.
        StoreError: A store failed or took too long. Repeating the call continues the copy.
        OptionsError: The id is not a UUID.
    """
    origin, place = await locate(source, session_id, None, project_key, timeout)
    access, to = StoreAccess(target, timeout), Place(to_project_key or place.project, session_id)
    async with access.hold_lease(to) as lease:
        return await copy(origin, place, access, to, lease=lease)
