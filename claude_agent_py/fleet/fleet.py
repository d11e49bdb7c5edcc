"""`Fleet`: sessions that outlive processes and machines: the agents, the database, and the way to start sessions."""

import importlib.util
import secrets
from collections.abc import Sequence
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import anyio

from claude_agent_py._errors import FleetError, OptionsError
from claude_agent_py.fleet.agents import FleetAgent, check_session_id, check_timeout, prompt_as_json
from claude_agent_py.fleet.records import FleetSessionInfo, FleetTenantInfo, FleetWorkerInfo, SessionState
from claude_agent_py.fleet.workspaces import Copy, Directory, Workspace
from claude_agent_py.options.client_options import ClientOptions, options_or_defaults
from claude_agent_py.retrying import RetryPolicy

if TYPE_CHECKING:
    import os

    from claude_agent_py._protocol.open_runs import Until
    from claude_agent_py.fleet._inbox import FleetInteraction
    from claude_agent_py.fleet.session import FleetSession
    from claude_agent_py.fleet.worker import Worker
    from claude_agent_py.sessions.stores.protocol import SessionStore

INSTALL = 'a fleet needs DBOS: pip install "claude-agent-py[fleet]"'


class Fleet:
    """Durable sessions, on one machine or on many.

    Processes that run sessions register agents and open a `worker`. All others start sessions, send prompts, read
    events and answer questions: they need the database only, and work on asyncio and trio.

    Args:
        url: The database: `sqlite:///fleet.db` for one machine, `postgresql://user@host/database` for many.
        store: Where the conversations are, for all workers to reach. One with leases (all of this package have them)
            keeps workers apart that are wrongly taken for dead.
        lease: Seconds after which a worker that is not heard of counts as dead.
        poll: Seconds between looks at the database for new work.
        tenant_limit: How many sessions of one tenant may run at once, on all workers, unless `tenant` sets another.
        max_crashes: How many workers may die at a run before it is given up.
        retention: Workers delete sessions that are idle, failed or cancelled, and did not change for so many seconds,
            with all that the database, the store and the machine have of them, as `prune` does. None keeps them.
        create: Whether the first call makes the database's tables if they are missing. Without, it raises FleetError.

    Raises:
        OptionsError: The extra `fleet` is not installed, or an argument is invalid.
    """

    def __init__(
        self,
        url: str,
        *,
        store: "SessionStore | None" = None,
        lease: float = 30.0,
        poll: float = 0.5,
        tenant_limit: int | None = None,
        max_crashes: int = 5,
        retention: float | timedelta | None = None,
        create: bool = True,
    ) -> None:
        for option, value in (("lease", lease), ("poll", poll), ("tenant_limit", tenant_limit)):
            if value is not None and value <= 0:
                raise OptionsError("must be more than 0", option=option)
        try:
            from claude_agent_py.fleet._database import Database
        except ImportError as error:
            raise OptionsError(INSTALL, option="fleet") from error
        self.database: Database = Database(url, create=create)
        """Internal."""
        self._store = store
        self.lease = lease
        self.poll = poll
        self.tenant_limit = tenant_limit
        self.max_crashes = max_crashes
        self.retention: float | None = None if retention is None else _seconds(retention, "retention")
        self.agents: dict[tuple[str, str], FleetAgent] = {}
        """The agents that this process knows, by name and version."""
        self.schedules: dict[str, dict[str, Any]] = {}
        """What `schedule` was called with, by name."""
        self.open_worker: Worker | None = None
        """The worker of this process. Internal."""

    def __repr__(self) -> str:
        return f"<Fleet on {'SQLite' if self.database.is_sqlite else 'PostgreSQL'}, {len(self.agents)} agents>"

    def close(self) -> None:
        """Close the connections to the database. They are opened again when they are needed."""
        self.database.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # Agents ----------------------------------------------------------------------------------------------------------

    def agent(
        self,
        name: str,
        options: ClientOptions[Any] | None = None,
        *,
        version: str = "1",
        workspace: Workspace | None = None,
        until: "Until" = "result",
        patience: float = 5.0,
        timeout: float | None = None,
        limit: int | None = None,
        weight: float = 1.0,
        retry: RetryPolicy | None = None,
    ) -> FleetAgent:
        """Register what sessions run under a name. Every worker that is to run it does so before it begins.

        Args:
            name: The name.
            options: The options of its processes. The fleet sets those of the session and its store.
            version: A session keeps the version with which it began. Register old versions beside new ones until
                their sessions are over; sessions of a version that no worker has wait.
            workspace: The directory of each session: `Copy`, `GitWorktree`, `Archive`, `Directory`. None means
                `options.cwd`, or an empty directory for each.
            until: `result` or `idle`, as in `Client.query`.
            patience: Seconds that a question to a person waits with its process, before the process is given back.
            timeout: Seconds within which a prompt has to be answered, waiting included.
            limit: How many of its sessions may run at once, on all workers.
            weight: Its share of the workers among agents whose sessions wait.
            retry: When to try again after an error. A rate limit whose reset is known is always waited for.

        Raises:
            OptionsError: An argument is invalid, or there is such an agent.
        """
        given = options_or_defaults(options)
        place = workspace or (Copy() if given.cwd is None else Directory(given.cwd))
        made = FleetAgent(
            name=name,
            version=version,
            options=given,
            workspace=place,
            until=until,
            patience=patience,
            timeout=timeout,
            limit=limit,
            weight=weight,
            retry=retry or RetryPolicy(),
        )
        if (name, version) in self.agents:
            raise OptionsError(f"there is an agent {name!r} of version {version!r}", option="name")
        self.agents[name, version] = made
        return made

    def schedule(
        self,
        name: str,
        cron: str,
        agent: str,
        prompt: str,
        *,
        timezone: str | None = None,
        tenant: str = "",
        priority: int = 0,
        timeout: float | None = None,
    ) -> None:
        """Start a session at the times of a cron expression, once in the whole fleet. Call it before `worker`.

        The sessions are named `<name>@<time>`. A schedule stays in the database, and fires while any worker lives,
        until `unschedule`. `worker` raises OptionsError if the cron expression or the time zone is not one.

        Args:
            name: The name; a later call with it, in any process, changes the schedule.
            cron: Five fields, or six with seconds first.
            agent: The agent.
            prompt: The prompt.
            timezone: An IANA name; None means UTC.
            tenant: As in `start`.
            priority: As in `start`.
            timeout: As in `start`.
        """
        given = {"cron": cron, "agent": agent, "prompt": prompt_as_json(prompt), "timezone": timezone}
        limit = check_timeout(timeout)
        self.schedules[check_session_id(name)] = {**given, "tenant": tenant, "priority": priority, "timeout": limit}

    async def unschedule(self, name: str) -> bool:
        """Delete a schedule from the database, and return whether it was there. Its sessions go on.

        A worker that begins with a `Fleet` on which `schedule` was called enters it again.
        """
        from claude_agent_py.fleet import _pruning

        self.schedules.pop(name, None)
        return await _pruning.unschedule(self.database, name)

    # Sessions --------------------------------------------------------------------------------------------------------

    async def start(
        self,
        agent: str,
        prompt: str | Sequence[Any],
        *,
        id: str | None = None,  # noqa: A002 - the contract's name
        version: str | None = None,
        tenant: str = "",
        priority: int = 0,
        timeout: float | None = None,
    ) -> "FleetSession":
        """Start a session. With an id that exists it returns that session, and does nothing else.

        Args:
            agent: The name of an agent that this process or a worker has registered.
            prompt: The first prompt: text, or content blocks.
            id: Any text of up to 200 characters; None makes one.
            version: The version of the agent; None means the one that was registered last.
            tenant: Whose it is. Tenants get equal shares of the workers; `tenant` says otherwise.
            priority: Sessions of a higher one go first, also before those of other tenants.
            timeout: Seconds within which the prompt has to be answered; None means that of the agent.

        Raises:
            OptionsError: The agent or version is unknown, an argument is invalid, or the id belongs to another agent.
            FleetError: The database does not answer.
        """
        from claude_agent_py.fleet import _claims, _rows
        from claude_agent_py.fleet._database import lock, server_time

        content = prompt_as_json(prompt)
        new = _rows.NewSession(check_session_id(id or secrets.token_hex(8)), agent, version, tenant, priority)
        limit = check_timeout(timeout)
        mine = [one for one in self.agents.values() if one.name == agent and version in (None, one.version)]

        def begin(connection: Any) -> FleetSessionInfo:
            if mine:
                lock(connection)  # before two processes enter the same agent
                _claims.register_agents(connection, server_time(connection), mine)
            return _rows.start(connection, new, content, limit)

        await self.database.call(begin)
        self._wake()
        return self.session(new.id)

    def session(self, session_id: str) -> "FleetSession":
        """Return a session by its id. Whether it exists, its methods say."""
        from claude_agent_py.fleet.session import FleetSession

        return FleetSession(self.database, check_session_id(session_id), self._wake)

    async def list(
        self,
        *,
        state: SessionState | None = None,
        agent: str | None = None,
        tenant: str | None = None,
        limit: int = 100,
    ) -> Sequence[FleetSessionInfo]:
        """Return up to `limit` sessions, newest first. Those of state `failed` are the dead letters.

        Raises:
            OptionsError: The limit is not positive.
        """
        from claude_agent_py.fleet import _rows

        if limit < 1:
            raise OptionsError("must be a positive number", option="limit")
        return await self.database.call(_rows.listed, state, agent, tenant, limit, write=False)

    async def interactions(self, session_id: str | None = None) -> "Sequence[FleetInteraction]":
        """Return the questions that wait for a person, of one session or of all, oldest first."""
        from claude_agent_py.fleet._inbox import open_questions

        return await open_questions(self.database, session_id)

    async def workers(self) -> Sequence[FleetWorkerInfo]:
        """Return the workers, oldest first."""
        from claude_agent_py.fleet import _rows

        return await self.database.call(_rows.list_workers, write=False)

    async def tenant(self, name: str, *, limit: int | None = None, weight: float = 1.0) -> None:
        """Set what a tenant may have, in the database, for all workers from now on. Sessions that run go on.

        Args:
            name: The tenant, as in `start`.
            limit: How many of its sessions may run at once, on all workers; None means `tenant_limit`.
            weight: Its share of the workers among tenants whose sessions wait.

        Raises:
            OptionsError: The limit or the weight is not positive.
        """
        from claude_agent_py.fleet import _choosing

        for option, value in (("limit", limit), ("weight", weight)):
            if value is not None and not 0 < value < float("inf"):
                raise OptionsError("must be more than 0", option=option)
        await self.database.call(_choosing.set_tenant, name, limit, weight)
        self._wake()

    async def tenants(self) -> Sequence[FleetTenantInfo]:
        """Return the tenants that have sessions or limits of their own, by name."""
        from claude_agent_py.fleet import _choosing

        return await self.database.call(_choosing.list_tenants, write=False)

    async def prune(self, older_than: float | timedelta) -> int:
        """Delete sessions that are idle, failed or cancelled, and did not change for so long. Safe while workers run.

        Their prompts, results, events, questions and packed workspaces go with them, and their conversations if this
        `Fleet` has a store that can delete; so do DBOS's rows of workflows that are as old. Workspaces stay on their
        machines. An id that was deleted may be used again.

        Args:
            older_than: Seconds, or a timedelta.

        Returns:
            How many sessions were deleted.

        Raises:
            OptionsError: The time is negative.
            FleetError: The database does not answer.
        """
        from claude_agent_py.fleet import _pruning

        return len(await _pruning.prune(self.database, self._store, _seconds(older_than, "older_than")))

    # Running them ----------------------------------------------------------------------------------------------------

    def worker(
        self,
        *,
        sessions: int = 16,
        memory: int | str | None = None,
        machine: str | None = None,
        folder: "str | os.PathLike[str] | None" = None,
    ) -> "Worker":
        """Return a worker, which runs sessions in this process while it is open, with `async with`, on asyncio.

        A process has one worker at a time, and no DBOS of its own, because DBOS has one instance in a process.

        Args:
            sessions: How many sessions run at once.
            memory: How much memory their processes may use, such as `8GiB`; None means any.
            machine: The name of this machine, if its host name changes.
            folder: Where workspaces are; by default in the folder for temporary files.

        Raises:
            OptionsError: An argument is invalid, or `Fleet` has no store.
            FleetError: While opening: this is trio, or the process has a DBOS already.
        """
        if importlib.util.find_spec("dbos") is None:
            raise OptionsError(INSTALL, option="fleet")
        from claude_agent_py.fleet.worker import Worker

        return Worker(self, self.store, sessions=sessions, memory=memory, machine=machine, folder=folder)

    @property
    def store(self) -> "SessionStore":
        """The session store. Raises OptionsError if the fleet has none."""
        if self._store is None:
            raise OptionsError("it is missing: Fleet(url, store=...)", option="store")
        return self._store

    async def drain_forever(self) -> None:
        """Run until the worker of this process was asked to drain (`drain_workers`), and has, or until cancelled."""
        await self._own_worker().wait_drained()

    async def drain(self) -> None:
        """Run until no session is queued or running, in the whole fleet. Some may wait for a person."""
        from claude_agent_py.fleet import _rows

        self._own_worker()
        while await self.database.call(_rows.unsettled, write=False):  # noqa: ASYNC110 - another process changes it
            await anyio.sleep(self.poll / 2)

    async def drain_workers(self, worker_id: str | None = None) -> int:
        """Ask a worker, or all, to finish the prompts at hand, take no more, and end. Returns how many were asked."""
        from claude_agent_py.fleet import _rows

        return await self.database.call(_rows.drain, worker_id)

    def _own_worker(self) -> "Worker":
        if self.open_worker is None:
            raise FleetError("this process has no open worker: async with fleet.worker(): ...")
        return self.open_worker

    def _wake(self) -> None:
        """Let the worker of this process look for work at once. From any thread."""
        if (worker := self.open_worker) is not None:
            worker.wake()


def _seconds(time: float | timedelta, option: str) -> float:
    """Return a time in seconds. Raises OptionsError."""
    seconds = time.total_seconds() if isinstance(time, timedelta) else time
    if not seconds >= 0:
        raise OptionsError("must not be negative", option=option)
    return seconds
