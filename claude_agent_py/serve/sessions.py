"""`Sessions`: the served sessions of a program, by their ids, and who may use them."""

import time
from collections.abc import Callable, Collection, Container, Sequence
from dataclasses import dataclass
from functools import partial
from os import PathLike
from sys import maxsize
from typing import Any, Final, Literal, Protocol, Self, TypeAlias
from uuid import UUID, uuid4

import anyio
import anyio.to_thread

from claude_agent_py._base.checks import is_uuid
from claude_agent_py._base.event_loop import run_to_its_end, spawn_detached
from claude_agent_py._base.log import logger
from claude_agent_py.client import Client
from claude_agent_py.durable import PROMPT_TOOLS, add_prompt_server
from claude_agent_py.errors import (
    ClaudeAgentError,
    ConnectionClosedError,
    OptionsError,
    PoolTimeoutError,
    SessionError,
    SessionNotFoundError,
    TooManySessionsError,
)
from claude_agent_py.options import ClientOptions
from claude_agent_py.pool import Pool
from claude_agent_py.serve.client_session import OVER, ClientSession
from claude_agent_py.serve.session import ServedSession
from claude_agent_py.sessions import SessionInfo, get_session_info, list_sessions, running_sessions
from claude_agent_py.tools import ToolServer

Owns: TypeAlias = Callable[[str, str], bool]
"""Returns whether a user, by name, may use the stored session with an id."""
OnLeave: TypeAlias = Literal["finish", "stop"]

IDLE_SECONDS: Final = 300.0
LEAVE_SECONDS: Final = 10.0
FRONTEND_SECONDS: Final = 600.0
MAX_OPEN: Final = 20
MAX_LISTED: Final = 500
"""How many sessions are listed."""
LOOK_EVERY: Final = 1.0


@dataclass(frozen=True, kw_only=True)
class ListedSession:
    """A session in a list."""

    id: str
    state: str
    """`closed`, `idle`, `running`, or `elsewhere` if another program has it open; otherwise as in its fleet."""
    title: str = ""
    cwd: str = ""
    changed_at: float | None = None
    """In seconds since the epoch; None if nothing is stored yet."""


class AnySessions(Protocol):
    """What a server needs of sessions: `Sessions` and `FleetSessions` have it."""

    async def create(self, *, user: str = "", session_id: str | None = None) -> ServedSession:
        """Return a new session."""
        ...

    async def get(self, session_id: str, *, user: str = "") -> ServedSession:
        """Return a session. Raises SessionNotFoundError if there is none, or it belongs to another user."""
        ...

    async def list(self, *, user: str = "") -> Sequence[ListedSession]:
        """Return the sessions of a user."""
        ...

    async def close(self) -> None:
        """End the streams of all readers."""
        ...


class Sessions:
    """Sessions that are served, each on a client of its own.

    Use it as an async context manager, or call `close`, which ends their processes.

    Args:
        options: The options of each session's client, or a pool that lends the clients. The pool has to be open while
            the sessions are used, and stays open. Its options must have `include_partial_messages=True` and
            `interactions`, as its spares are started with them.
        max_open: How many processes may run at once. The one that is idle the longest is closed for another. None means
            20, or as many as the pool has.
        idle_after: Seconds after which the process of a session ends in which nothing happens; the next prompt starts
            it again.
        on_leave: What becomes of the work when no reader follows any more: it is finished, or stopped.
        leave_after: For how many seconds a page may be away before it has left: it reconnects after a moment.
        ready: How many further sessions are kept ready for `create` while the sessions are used. Their processes run,
            so that a first prompt waits for no start; they count for `max_open`. With a pool, its spares are.
        owns: Whether a user may use a stored session that nobody has opened in this process. By default, only the user
            `""` may, the one of a page without users.
        frontend_tools: The names of the tools that an AG-UI client may bring; True allows any. By default none: the
            descriptions of tools are instructions for the model, and a call holds up the session until the client
            returns a result.
        frontend_timeout: For how many seconds such a call waits. Then it fails, and the model goes on.

    Raises:
        OptionsError: An argument is not valid.
    """

    def __init__(
        self,
        options: ClientOptions | Pool | None = None,
        *,
        max_open: int | None = None,
        idle_after: float = IDLE_SECONDS,
        on_leave: OnLeave = "finish",
        leave_after: float = LEAVE_SECONDS,
        ready: int = 0,
        owns: Owns = lambda user, session_id: user == "",
        frontend_tools: bool | Collection[str] = False,
        frontend_timeout: float = FRONTEND_SECONDS,
    ) -> None:
        self._pool: Pool | None = options if isinstance(options, Pool) else None
        self._options: ClientOptions = _read_options(options)
        self._max_open: int = (MAX_OPEN if self._pool is None else maxsize) if max_open is None else max_open
        if self._max_open < 1:
            raise OptionsError(f"must be at least 1, not {max_open}", option="max_open")
        if not 0 <= ready < self._max_open:
            raise OptionsError(f"must be less than max_open ({max_open}), not {ready}", option="ready")
        if ready and self._pool is not None:
            raise OptionsError("is not for a pool, which has its `size`", option="ready")
        if frontend_timeout <= 0:
            raise OptionsError(f"must be positive, not {frontend_timeout}", option="frontend_timeout")
        if frontend_tools:
            add_prompt_server(self._options, ToolServer(PROMPT_TOOLS))  # raises if there is one of its name
        self._frontend: dict[str, Any] = {"frontend_tools": frontend_tools, "frontend_timeout": frontend_timeout}
        self._idle_after = idle_after
        self._on_leave = on_leave
        self._leave_after = leave_after
        self._owns = owns
        self._sessions: dict[str, ClientSession] = {}
        self._ready = ready
        self._spares: list[ClientSession] = []
        """The sessions that are ready, oldest first. Nobody knows their ids."""
        self._is_preparing = False
        self._is_over = False
        self._looking: anyio.CancelScope | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End the streams of all readers, and all processes. The conversations stay, for another `Sessions`."""
        self._is_over = True
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as group:
                for session in (*self._sessions.values(), *self._spares):
                    group.start_soon(session.end)

    @property
    def spares(self) -> int:
        """How many sessions are ready for `create`: their processes run."""
        return sum(spare.client is not None for spare in self._spares)

    # Sessions -----------------------------------------------------------------------------------------------------

    async def create(self, *, user: str = "", session_id: str | None = None) -> ClientSession:
        """Return a new session. Its process starts with the first prompt, unless one is ready.

        Args:
            user: The user to whom it belongs.
            session_id: Its id, a uuid. A session with an id of your own starts a process, as a ready one has its own.

        Raises:
            OptionsError: The id is not a uuid, or is taken, maybe by a stored session.
            ClaudeAgentError: The pool is not open, or accepts no new callers.
        """
        if self._pool is not None:
            self._pool.check_accepting()
        if session_id is None:
            spare = self._find_spare() if self._pool is None else await self._borrow_spare(self._pool)
            if spare is None:
                return await self._add(str(uuid4()), user)
            self._spares.remove(spare)
            spare.owner = user
            return await self._begin(spare)
        name = session_id.lower()  # as the CLI names its file, so that no id has two owners
        is_new = is_uuid(name) and await anyio.to_thread.run_sync(self._find_stored, name, None) is None
        if not is_new or name in self._sessions:
            raise OptionsError(f"must be a new uuid, not {session_id!r}", option="session_id")
        return await self._add(name, user)

    async def get(self, session_id: str, *, user: str = "") -> ClientSession:
        """Return a session, which may be a stored one.

        Raises:
            SessionNotFoundError: There is no such session, or it belongs to another user.
        """
        session_id = session_id.lower()
        session = self._sessions.get(session_id)
        if session is None and is_uuid(session_id) and self._owns(user, session_id):
            stored = await anyio.to_thread.run_sync(self._find_stored, session_id, self._options.cwd)
            if stored is not None:
                session = self._sessions.get(session_id) or await self._add(session_id, user, stored)
        if session is None or session.owner != user:
            raise SessionNotFoundError(f"there is no session {session_id!r}")
        session.note_use()
        return session

    async def list(self, *, user: str = "") -> Sequence[ListedSession]:
        """Return the sessions of a user: those used in this process, and the latest stored ones.

        The stored ones are those of the directory of the options, if these have one.
        """
        self._prepare()
        stored, in_use = await anyio.to_thread.run_sync(self._list_stored)
        known = [*self._sessions, *(name for name in stored if name not in self._sessions)]
        return [
            _describe(name, self._sessions.get(name), stored.get(name), in_use)
            for name in known
            if self.owns(user, name)
        ]

    def _list_stored(self) -> tuple[dict[str, SessionInfo], set[str]]:
        """Return the stored sessions, and the ids of those that a process has open."""
        config = Client(self._options).config_dir
        stored = list_sessions(self._options.cwd, MAX_LISTED, config_dir=config)
        return {info.id: info for info in stored}, {each.session_id.lower() for each in running_sessions(config)}

    def _find_stored(self, session_id: str, directory: str | PathLike[str] | None) -> SessionInfo | None:
        try:
            return get_session_info(session_id, directory, config_dir=Client(self._options).config_dir)
        except SessionNotFoundError:
            return None

    def owns(self, user: str, session_id: str) -> bool:
        """Return whether a user may use a stored session."""
        known = self._sessions.get(session_id)
        return known.owner == user if known is not None else self._owns(user, session_id)

    def _list_open(self) -> Sequence[ClientSession]:
        """Return the sessions with a process."""
        sessions = (*self._spares, *self._sessions.values())
        return [session for session in sessions if session.client is not None or session.is_opening]

    async def make_room(self) -> None:
        """Close the process of the session that is idle the longest, if the limit is reached, or the pool has none.

        If all of a pool are busy, the next caller waits in its queue.

        Raises:
            TooManySessionsError: As many as may be open are busy.
        """
        while len(self._list_open()) >= self._max_open:
            if not await self._close_idle():
                raise TooManySessionsError(self._max_open)
        if self._pool is not None and self._pool.stats().free <= 0:
            await self._close_idle()

    async def _close_idle(self) -> bool:
        """Close the process of the session that is idle the longest. Return whether there is one."""
        idle = [session for session in self._list_open() if not session.is_busy and not session.is_waiting]
        if not idle:
            return False
        unneeded = min(idle, key=lambda session: (session not in self._spares, session.used_at))
        await unneeded.close(only_idle=True)
        return True

    async def _add(self, session_id: str, user: str, stored: SessionInfo | None = None) -> ClientSession:
        options = self._options
        if stored is not None and stored.cwd and options.cwd is None:
            options = options.replace(cwd=stored.cwd)  # the CLI finds a session from its own directory only
        return await self._begin(self._make(session_id, options, owner=user, is_stored=stored is not None))

    def _make(self, session_id: str, options: ClientOptions, **more: Any) -> ClientSession:
        lend = {} if self._pool is None else {"lend": self._pool.client}
        usual = {"keep": self._keep, "make_room": self.make_room, **self._frontend, **lend}
        return ClientSession(session_id, options, **{**usual, **more})

    async def _begin(self, session: ClientSession) -> ClientSession:
        """Keep a session that somebody gets, which the end of the sessions may have overtaken."""
        if self._is_over:
            await run_to_its_end(session.end, name="claude_agent_py sessions")
        else:
            self._keep(session)
            self._prepare()
        return session

    def _keep(self, session: ClientSession) -> None:
        """Look after a session that is used: again, if it has been forgotten, but somebody held it.

        Raises:
            ConnectionClosedError: The sessions are over.
            SessionError: Another object has been made for the session meanwhile.
        """
        if self._is_over:
            raise ConnectionClosedError(OVER)
        if session in self._spares:
            return
        if self._sessions.setdefault(session.id, session) is not session:
            raise SessionError("another object has the session by now; get it again", session_id=session.id)
        self._look()

    # Spares -------------------------------------------------------------------------------------------------------

    def _find_spare(self) -> ClientSession | None:
        return next((spare for spare in self._spares if spare.client is not None), None)

    async def _borrow_spare(self, pool: Pool) -> ClientSession | None:
        """Return a session on a spare of the pool, whose id it has; None if no spare is ready."""
        if not pool.stats().spares or len(self._list_open()) >= self._max_open:
            return None
        spare = self._make("", self._options, lend=partial(pool.client, timeout=0))
        self._spares.append(spare)
        try:
            await spare.start()
        except BaseException as error:
            self._spares.remove(spare)
            # It may have got a process before it noticed that nobody waits.
            await run_to_its_end(spare.end, name="claude_agent_py sessions")
            if not isinstance(error, PoolTimeoutError | TooManySessionsError):
                raise
            return None
        spare.lend = pool.client
        return spare

    def _prepare(self) -> None:
        """Start the sessions that are to be ready, without waiting for them."""
        if self._ready and not self._is_preparing:
            self._is_preparing = True
            spawn_detached(self._start_spares, name="claude_agent_py spare sessions")

    async def _start_spares(self) -> None:
        try:
            while len(self._spares) < self._ready and len(self._list_open()) < self._max_open and not self._is_over:
                spare = self._make(str(uuid4()), self._options)
                self._spares.append(spare)
                self._look()
                await spare.start()
        except ClaudeAgentError as error:
            if not self._is_over:
                logger.warning("no session can be made ready: %s", error)
        finally:
            self._is_preparing = False
            self._spares = [spare for spare in self._spares if spare.client is not None]

    # Looking after ------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        if self._looking is None:
            self._looking = anyio.CancelScope()
            spawn_detached(partial(self._look_after, self._looking), name="claude_agent_py sessions")

    async def _look_after(self, scope: anyio.CancelScope) -> None:
        """Close what nobody uses, and stop what everybody has left."""
        with scope:
            while self._sessions or self._spares:
                await anyio.sleep(LOOK_EVERY)
                await self._look_at_spares(time.monotonic())
                await self._look_at_pool()
                for session in tuple(self._sessions.values()):
                    await self._look_at(session, time.monotonic())
        if self._looking is scope:
            self._looking = None

    async def _look_at_spares(self, now: float) -> None:
        """Close the spares that have waited for too long. The next use of the sessions replaces them."""
        for spare in tuple(self._spares):
            if now - spare.used_at > self._idle_after:
                await spare.close(only_idle=True)
        self._spares = [spare for spare in self._spares if spare.client is not None or spare.is_waiting]

    async def _look_at_pool(self) -> None:
        """Give a process back that others wait for."""
        if self._pool is not None:
            stats = self._pool.stats()
            if stats.free < 0:
                await self._close_idle()

    async def _look_at(self, session: ClientSession, now: float) -> None:
        has_left = not session.readers and now - session.seen_at > self._leave_after
        unused = now - session.used_at
        if session.is_busy or session.is_waiting:
            if self._on_leave == "stop" and has_left:
                await session.close()
        elif session.client is None:
            if has_left and unused > self._idle_after:
                del self._sessions[session.id]  # what is stored stays
        elif unused > self._idle_after:
            await session.close(only_idle=True)


def _read_options(options: ClientOptions | Pool | None) -> ClientOptions:
    """Return the options of the sessions.

    Raises:
        OptionsError: The spares of the pool cannot serve.
    """
    if not isinstance(options, Pool):
        return options or ClientOptions()
    missing = [name for name in ("include_partial_messages", "interactions") if not getattr(options.options, name)]
    if missing:
        raise OptionsError(f"need {'=True and '.join(missing)}=True in a pool that is served", option="options")
    return options.options


def _describe(
    session_id: str, session: ClientSession | None, stored: SessionInfo | None, in_use: Container[str]
) -> ListedSession:
    state = "closed" if session is None else session.state
    is_elsewhere = state == "closed" and session_id in in_use and not (session and session.is_opening)
    return ListedSession(
        id=session_id,
        state="elsewhere" if is_elsewhere else state,
        title=(stored.summary if stored is not None else "") or (session.title if session is not None else ""),
        cwd="" if stored is None else stored.cwd or "",
        changed_at=None if stored is None else stored.last_modified / 1000,
    )


def is_derived(session_id: str) -> bool:
    """Return whether an id may be made of the name of somebody's thread. A request may not choose such an id."""
    return is_uuid(session_id) and UUID(session_id).version == 5
