"""`StoredSessions`: the sessions of a store or of the CLI's folder, for async programs.

A session of a store is read and copied as one on disk: it is loaded into a private folder, which exists as long as the
objects created from it.
"""

import shutil
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Final, TypeVar, cast

import anyio

from claude_agent_py._base.errors import OptionsError, SessionError, StoreError
from claude_agent_py._base.event_loop import run_file_work, run_to_its_end
from claude_agent_py._base.log import logger
from claude_agent_py.sessions.changes import (
    build_tag,
    build_title,
    delete_session,
    fork_session,
    rename_session,
    tag_session,
)
from claude_agent_py.sessions.folders import AnyPath, project_key_for_directory
from claude_agent_py.sessions.index import check_page, describe_session, get_session_info, list_sessions
from claude_agent_py.sessions.info import SessionInfo
from claude_agent_py.sessions.stored_session import StoredSession, get_session
from claude_agent_py.sessions.stores.access import StoreAccess, copy, locate, open_folder
from claude_agent_py.sessions.stores.copies import import_session
from claude_agent_py.sessions.stores.listing import list_infos
from claude_agent_py.sessions.stores.private_folder import NEW_SECONDS, PrivateFolder, find_left_behind, remove_tree
from claude_agent_py.sessions.stores.protocol import (
    STORE_SECONDS,
    Lease,
    Place,
    SessionStore,
    SessionStoreEntry,
    find_problem,
    implements,
)
from claude_agent_py.wire.base import JSONObject

PREFIX: Final = "claude-agent-py-stored-"
PROJECT: Final = "stored"
"""The name of the one project in a private folder."""
_DELETE_SECONDS: Final = 5.0
"""How long the deletion of a part of a session may take, in seconds."""
T = TypeVar("T")


class StoredSessions:
    """The sessions of a store or, without one, of the CLI's folder on this machine.

    Each method of a session raises

    - `SessionNotFoundError` if the session does not exist,
    - `OptionsError` if the id is not a UUID,
    - `StoreError` if the store fails, hangs, lacks a method, or returns an invalid transcript,
    - `SessionError` if the transcript cannot be read or written.

    Args:
        store: The store; None for the CLI's folder, whose files are read and written in threads.
        directory: The working directory of the sessions. By default, a store has those of the current directory (`get`
            and the other methods with an id also find those of other directories), and the folder has all sessions.
        project_key: The project in the store, instead of a directory.
        config_dir: The CLI's configuration folder, without a store; by default `CLAUDE_CONFIG_DIR`, or `~/.claude`.
        timeout: The time limit of each call of the store, in seconds.
    """

    def __init__(
        self,
        store: SessionStore | None = None,
        directory: AnyPath | None = None,
        *,
        project_key: str | None = None,
        config_dir: AnyPath | None = None,
        timeout: float = STORE_SECONDS,
    ) -> None:
        if store is None and project_key is not None:
            raise OptionsError("is for sessions in a store; the CLI's folder takes a directory", option="project_key")
        if store is not None and config_dir is not None:
            raise OptionsError("is for the CLI's folder, and these sessions are in a store", option="config_dir")
        if store is not None and (problem := find_problem(store, ["load"])):
            raise OptionsError(problem, option="store")
        self._store = store
        self._directory = directory
        self._project_key = project_key
        self._config_dir = config_dir
        self._timeout = timeout

    def __repr__(self) -> str:
        return f"StoredSessions({self._store!r})"

    async def get(self, session_id: str, *, include_subagents: bool = True) -> StoredSession:
        """Return a snapshot of a session.

        The files of a session in a store are in a private folder, which is removed when the session and the objects
        obtained from it are no longer in use.

        Args:
            session_id: The session's id.
            include_subagents: Also load the transcripts of subagents from the store.
        """
        if self._store is None:
            return await self._on_disk(get_session, session_id)
        access, place = await self._locate(session_id)
        lease = await access.find_lease(place)  # first: what is written until it ends is then loaded, too
        session, _ = await _load(access, place, include_subagents=include_subagents, lease=lease)
        return session

    async def get_info(self, session_id: str) -> SessionInfo:
        """Return the description of a session. In a store, its `path` is empty."""
        if self._store is None:
            return await self._on_disk(get_session_info, session_id)
        access, place = await self._locate(session_id)
        session, folder = await _load(access, place, include_subagents=False)
        await _remove_now(folder)
        return replace(session.info, path="")

    async def rename(self, session_id: str, title: str) -> None:
        """Set the title of a session. Surrounding white space is removed.

        Raises:
            SessionLeasedError: A process is writing to the session in the store and would restore its own title.
            OptionsError: The title is empty.
        """
        if self._store is None:
            await self._on_disk(rename_session, session_id, title)
        else:
            await self._append_note(session_id, build_title(title))

    async def tag(self, session_id: str, tag: str | None) -> None:
        """Set or, with None, remove the tag of a session. Raises the errors of `rename`."""
        if self._store is None:
            await self._on_disk(tag_session, session_id, tag)
        else:
            await self._append_note(session_id, build_tag(tag))

    async def delete(self, session_id: str) -> None:
        """Delete a session with its subagents. This cannot be undone.

        Raises:
            SessionLeasedError: A process is writing to the session in the store.
            SessionBusyError: A process has the session on disk open.
        """
        if self._store is None:
            await self._on_disk(delete_session, session_id)
            return
        if not implements(self._store, "delete"):
            raise StoreError("the store has no delete()", session_id=session_id)
        access, place = await self._locate(session_id)
        await access.check_exists(place)
        async with access.hold_lease(place):
            await _delete(access, place)

    async def fork(self, session_id: str, up_to_message_id: str | None = None, title: str | None = None) -> SessionInfo:
        """Copy a session to the same place, even while a process is writing to it. The copy can be resumed.

        Args:
            session_id: The id of the session to copy. The original is not changed.
            up_to_message_id: The uuid of the last message to copy; by default everything is copied.
            title: The title of the copy; by default the original title with " (fork)" appended.

        Raises:
            SessionError: The session has no messages or lacks the last message.
            StoreError: The store failed or took too long. If it cannot delete the copy, the copy exists in part.
        """
        if self._store is None:
            return await self._on_disk(fork_session, session_id, up_to_message_id=up_to_message_id, title=title)
        access, place = await self._locate(session_id)
        _, folder = await _load(access, place)
        try:
            fork = await run_file_work(
                lambda: fork_session(session_id, None, up_to_message_id, title, config_dir=folder.path)
            )
            try:
                await import_session(
                    self._store, fork.id, config_dir=folder.path, project_key=place.project, timeout=self._timeout
                )
            except BaseException:
                delete = partial(_delete_part, access, place._replace(session=fork.id))
                await run_to_its_end(delete, name="claude_agent_py delete", seconds=_DELETE_SECONDS)
                raise
        finally:
            await _remove_now(folder)
        return replace(fork, path="")

    async def list(
        self, limit: int | None = None, offset: int = 0, *, archived: bool | None = None
    ) -> "list[SessionInfo]":
        """Return the sessions, newest first.

        A session in a store has an empty `path`, a `file_size` of 0, no `cost_usd` and `message_count`, and is not
        archived. It is loaded only if the store has no up-to-date summary; if loading fails, that is logged, and the
        session's `summary` is empty.

        Args:
            limit: The maximum number to return.
            offset: The number of newest sessions to skip.
            archived: True for archived sessions only, False for other sessions only.

        Raises:
            StoreError: The store cannot list its sessions, or took too long to list them.
            OptionsError: `limit` or `offset` is negative.
        """
        if self._store is None:
            return await self._on_disk(list_sessions, limit=limit, offset=offset, archived=archived)
        check_page(limit, offset)
        project = self._project_key or project_key_for_directory(self._directory)
        return [] if archived else await list_infos(StoreAccess(self._store, self._timeout), project, limit, offset)

    async def _on_disk(self, function: Callable[..., T], *args: object, **options: object) -> T:
        """Call a function for the CLI's folder in a thread."""
        where = {"directory": self._directory, "config_dir": self._config_dir}
        return await run_file_work(partial(function, *args, **options, **where))

    async def _locate(self, session_id: str) -> tuple[StoreAccess, Place]:
        assert self._store is not None  # noqa: S101
        return await locate(self._store, session_id, self._directory, self._project_key, self._timeout)

    async def _append_note(self, session_id: str, note: JSONObject) -> None:
        access, place = await self._locate(session_id)
        await access.check_exists(place)
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        entry = {**note, "sessionId": place.session, "uuid": str(uuid.uuid4()), "timestamp": now}
        async with access.hold_lease(place) as lease:
            await access.append(place, [cast("SessionStoreEntry", entry)], lease)


async def _delete(access: StoreAccess, place: Place) -> None:
    # Some stores do not delete the subagents with the session.
    for subpath in (*await access.list_subpaths(place), ""):
        await access.delete(place._replace(subpath=subpath))


async def _delete_part(access: StoreAccess, place: Place) -> None:
    """Delete a session that was copied in part, if the store can. Failures are logged."""
    try:
        if implements(access.store, "delete"):
            async with access.hold_lease(place):  # so that the store refuses what a cancelled call appends later
                await _delete(access, place)
    except StoreError as error:
        logger.warning("a part of session %s stays in the store: %s", place.session, error)


def _make_folder() -> PrivateFolder:
    """Create a folder for one session, which is removed with the object at the latest."""
    for left in find_left_behind(PREFIX, min_age=NEW_SECONDS):
        shutil.rmtree(left, ignore_errors=True)
    return PrivateFolder(PREFIX, remove_tree)


async def _load(
    access: StoreAccess, place: Place, *, include_subagents: bool = True, lease: Lease | None = None
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
    return StoredSession(info, config_dir=folder.path, owner=folder, lease=lease), folder


async def _remove_now(folder: PrivateFolder) -> None:
    with anyio.CancelScope(shield=True):
        await run_file_work(folder.remove)
