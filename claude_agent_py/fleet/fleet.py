"""`Fleet`: durable sessions: registers agents, opens the database and starts sessions."""

import math
import secrets
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Never, Self

import anyio

from claude_agent_py._base.errors import FleetError, OptionsError
from claude_agent_py._base.json_object import JSONMapping
from claude_agent_py.fleet._engine import FleetEngine
from claude_agent_py.fleet._folders import find_own_file
from claude_agent_py.fleet._interactions import FleetInteraction
from claude_agent_py.fleet._settings import FleetSettings, read_seconds
from claude_agent_py.fleet._state import SessionRecord
from claude_agent_py.fleet.agents import (
    AfterFailure,
    FleetAgent,
    check_positive,
    check_priority,
    check_session_id,
    check_text,
    name_source,
    prompt_as_json,
)
from claude_agent_py.fleet.metrics import FleetMetrics
from claude_agent_py.fleet.records import (
    FleetAuditEntry,
    FleetSessionInfo,
    FleetTenantInfo,
    FleetWorkerInfo,
    SessionState,
)
from claude_agent_py.fleet.session import FleetSession
from claude_agent_py.fleet.workspaces import Copy, Directory, Workspace
from claude_agent_py.options import ClientOptions, options_or_defaults, refuse_options
from claude_agent_py.retrying import RetryPolicy
from claude_agent_py.sessions import SessionStore

if TYPE_CHECKING:
    import os

    from temporalio.converter import PayloadCodec

    from claude_agent_py.fleet.worker import Worker

INSTALL_TEMPORAL: Final = "a fleet on Temporal needs its SDK: pip install temporalio"
SQLITE: Final = "sqlite:///"


class Fleet(FleetSettings):
    """Durable sessions, on one machine or on many.

    Processes that run sessions register agents and open a `worker`. Other processes start sessions, send prompts, read
    events and answer questions. They work on asyncio and trio.

    Args:
        url: `sqlite:///fleet.db` for one machine, or `temporal://host:7233/namespace`, a Temporal server, for many.
            None means a file in the user's folder for state, `~/.local/state/claude-agent-py/fleet/fleet.db` on Linux.
        store: The session store. All workers must be able to reach it. A store with leases (every store of this
            package has them) also rejects writes by a worker that was wrongly declared dead.
        lease: Seconds without a heartbeat after which a worker counts as dead.
        poll: Seconds between queries of the database for new work.
        tenant_limit: How many sessions of one tenant may run concurrently, on all workers; `tenant` overrides it.
        max_crashes: How many workers may die while running a prompt before it fails.
        retention: Seconds after the last change at which workers delete a session that is idle, failed or cancelled,
            as `prune` does, together with its workspace. None keeps all sessions.
        event_retention: Seconds after which workers delete events of sessions that are kept, as `prune_events` does.
        codec: Encodes all that the Temporal server keeps of prompts, answers and results, to encrypt it for example: a
            `temporalio.converter.PayloadCodec`. All processes of the fleet need it. Not for SQLite.
        create: Whether the first call creates missing tables. If not, it raises FleetError.

    Raises:
        OptionsError: An argument is invalid, or the engine for the address is not installed.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        store: SessionStore | None = None,
        lease: float = 30.0,
        poll: float = 0.5,
        tenant_limit: int | None = None,
        max_crashes: int = 5,
        retention: float | timedelta | None = None,
        event_retention: float | timedelta | None = None,
        codec: "PayloadCodec | None" = None,
        create: bool = True,
    ) -> None:
        check_positive(lease=lease, poll=poll, tenant_limit=tenant_limit)
        self._store = store
        self.lease = lease
        self.poll = poll
        self.tenant_limit = tenant_limit
        self.max_crashes = max_crashes
        self.retention: float | None = None if retention is None else read_seconds(retention, "retention")
        self.event_retention: float | None = (
            None if event_retention is None else read_seconds(event_retention, "event_retention")
        )
        self.agents: dict[tuple[str, str], FleetAgent] = {}
        self.schedules: dict[str, dict[str, Any]] = {}
        self._workers: set[Worker] = set()
        self._engine = _open_engine(url, create, codec, self)

    def __repr__(self) -> str:
        return f"<Fleet on {self._engine.name}, {len(self.agents)} agents>"

    def close(self) -> None:
        """Close the connections to the database. The next call opens new ones."""
        self._engine.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.close()

    # Agents ----------------------------------------------------------------------------------------------------------

    def agent(
        self,
        name: str,
        options: ClientOptions | None = None,
        *,
        version: str = "1",
        workspace: Workspace | None = None,
        until: Literal["result", "idle"] = "result",
        patience: float = 5.0,
        timeout: float | None = None,
        after_failure: AfterFailure = "run",
        limit: int | None = None,
        retry: RetryPolicy | None = None,
        **misplaced: Never,
    ) -> FleetAgent:
        """Register an agent. Every worker that runs it must do so before starting.

        Args:
            name: The name of the agent.
            options: The options of its processes. The fleet sets the session options and the session store.
            version: A session keeps the version with which it started. Also register old versions until their sessions
                have ended; sessions of a version that no worker has registered wait.
            workspace: The directory of each session: `Copy`, `GitWorktree` or `Directory`. None means
                `options.cwd`, or an empty directory for each session.
            until: `result` or `idle`, as in `Client.query`.
            patience: Seconds that a process waits for the answer to a question before it ends.
            timeout: Seconds within which a prompt has to be answered, including waiting.
            after_failure: What happens to the prompts that wait behind one that fails for good: `run`, as if they had
                been sent after it, or `fail`, with its reason.
            limit: How many sessions of the agent may run concurrently, on all workers.
            retry: When to retry after an error. A rate limit with a known reset time is always waited for.
            **misplaced: Options belong in `options`; here they are a TypeError.

        Raises:
            OptionsError: An argument is invalid, or this version of the agent is already registered.
        """
        refuse_options("Fleet.agent", misplaced)
        agent_options = options_or_defaults(options)
        if workspace is None:
            workspace = Copy() if agent_options.cwd is None else Directory(agent_options.cwd)
        agent = FleetAgent(
            name=name,
            version=version,
            options=agent_options,
            workspace=workspace,
            until=until,
            patience=patience,
            timeout=timeout,
            after_failure=after_failure,
            limit=limit,
            retry=retry or RetryPolicy(),
        )
        if (name, version) in self.agents:
            raise OptionsError(f"agent {name!r} of version {version!r} is already registered", option="name")
        self.agents[name, version] = agent
        return agent

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

        The sessions are named `<name>@<time>`. A schedule stays in the database until `unschedule`, and fires while any
        worker is alive. `worker` raises OptionsError if the cron expression or the time zone is invalid.

        Args:
            name: The name. A later call with the same name, in any process, changes the schedule.
            cron: Five fields, or six with seconds first.
            agent: The name of the agent.
            prompt: The prompt of each session.
            timezone: An IANA name; None means UTC.
            tenant: As in `start`.
            priority: As in `start`.
            timeout: As in `start`.
        """
        check_positive(timeout=timeout)
        self.schedules[check_session_id(name)] = {
            "cron": cron,
            "agent": agent,
            "prompt": prompt_as_json(prompt),
            "timezone": timezone,
            "tenant": check_text(tenant, "tenant"),
            "priority": check_priority(priority),
            "timeout": timeout,
        }

    async def unschedule(self, name: str, *, actor: str = "") -> bool:
        """Delete a schedule from the database, and return whether it existed. Its sessions continue.

        A worker whose `Fleet` has the schedule creates it again at the start.
        """
        source = name_source(actor)
        self.schedules.pop(name, None)
        return await self._engine.unschedule(name, source)

    # Sessions --------------------------------------------------------------------------------------------------------

    async def start(
        self,
        agent: str,
        prompt: str | Sequence[object],
        *,
        id: str | None = None,  # noqa: A002 - the contract's name
        version: str | None = None,
        tenant: str = "",
        priority: int = 0,
        timeout: float | None = None,
        key: str | None = None,
        tools: Sequence[JSONMapping] = (),
        actor: str = "",
    ) -> FleetSession:
        """Start a session, or return the existing session with this id unchanged.

        Args:
            agent: The name of an agent that this process or a worker has registered.
            prompt: The first prompt: text, or content blocks.
            id: Any text of up to 200 characters; None generates an id.
            version: The version of the agent; None means the last registered one that a live worker runs, or the last
                registered one if none does.
            tenant: The owner of the session. Tenants get equal shares of the workers unless `tenant` sets weights.
            priority: Sessions with a higher priority run first, across all tenants.
            timeout: Seconds within which the prompt has to be answered; None means the `timeout` of the agent.
            key: The key of the prompt, as in `FleetSession.send`, which does not add it again then.
            tools: Tools whose calls you answer, as in `FleetSession.send`.
            actor: Who starts it, for the audit log; empty means the user of this process.

        Raises:
            OptionsError: The agent or version is unknown, an argument is invalid, or the id belongs to another agent.
            FleetError: The database does not answer.
        """
        check_positive(timeout=timeout)
        source = name_source(actor)
        new = SessionRecord.new(
            check_session_id(id or secrets.token_hex(8)),
            agent,
            prompt_as_json(prompt, tools),
            version=version,
            tenant=check_text(tenant, "tenant"),
            priority=check_priority(priority),
            timeout=timeout,
            key=key,
        )
        known = [each for each in self.agents.values() if each.name == agent and version in (None, each.version)]
        await self._engine.start(new, known, source)
        self._wake()
        return self.session(new.id)

    def session(self, session_id: str) -> FleetSession:
        """Return a session by its id. Its methods raise FleetError if it does not exist."""
        return FleetSession(self._engine, check_session_id(session_id), self._wake)

    async def list(
        self,
        *,
        state: SessionState | None = None,
        agent: str | None = None,
        tenant: str | None = None,
        limit: int = 100,
    ) -> Sequence[FleetSessionInfo]:
        """Return up to `limit` sessions, newest first. Sessions in the state `failed` are dead letters.

        Raises:
            OptionsError: The limit is not positive.
        """
        if limit < 1:
            raise OptionsError("must be a positive number", option="limit")
        return await self._engine.list_sessions(state, agent, tenant, limit)

    async def interactions(self, session_id: str | None = None) -> Sequence[FleetInteraction]:
        """Return the unanswered questions of one session or of all, oldest first."""
        return [FleetInteraction(self._engine, *found) for found in await self._engine.questions(session_id)]

    async def workers(self) -> Sequence[FleetWorkerInfo]:
        """Return the workers, oldest first."""
        return await self._engine.list_workers()

    async def tenant(self, name: str, *, limit: int | None = None, weight: float = 1.0, actor: str = "") -> None:
        """Set the limit and the weight of a tenant for all workers. Running sessions continue.

        Args:
            name: The tenant, as in `start`.
            limit: How many sessions of the tenant may run concurrently, on all workers; None means `tenant_limit`.
            weight: The tenant's share of the workers among tenants with queued sessions.
            actor: Who sets it, for the audit log; empty means the user of this process.

        Raises:
            OptionsError: The limit or the weight is not positive.
        """
        check_positive(limit=0 if limit == math.inf else limit, weight=0 if weight == math.inf else weight)
        await self._engine.set_tenant(check_text(name, "name"), limit, weight, name_source(actor))
        self._wake()

    async def tenants(self) -> Sequence[FleetTenantInfo]:
        """Return the tenants that have sessions or settings, sorted by name."""
        return await self._engine.list_tenants()

    async def metrics(self) -> FleetMetrics:
        """Return the figures of the fleet. Sessions that are idle or cancelled cost nothing to count.

        A process that has registered agents with limits tells apart sessions that these hold back.

        Raises:
            FleetError: The database does not answer within some seconds.
        """
        return await self._engine.load_metrics(self.agent_limits)

    def observe_metrics(self, meter_provider: Any = None) -> None:
        """Export `metrics` to OpenTelemetry: each export reads the database. Do so in one process of the fleet.

        Args:
            meter_provider: A `MeterProvider`; None means the global one.

        Raises:
            OptionsError: OpenTelemetry is not installed.
        """
        try:
            from claude_agent_py.fleet._telemetry import observe
        except ModuleNotFoundError as error:
            if error.name is None or not error.name.startswith("opentelemetry"):
                raise
            raise OptionsError("needs OpenTelemetry: pip install opentelemetry-api", option="meter_provider") from error
        observe(self.metrics, meter_provider)

    async def audit(
        self, *, session_id: str | None = None, actor: str | None = None, after: int = 0
    ) -> AsyncIterator[FleetAuditEntry]:
        """Iterate over the commands that were given, oldest first.

        An entry is written together with what it did, and never changed. It is deleted with its session.

        Args:
            session_id: Only commands to this session.
            actor: Only commands of this actor.
            after: Only entries with a number above this one.

        Raises:
            FleetError: The database does not answer.
        """
        while found := await self._engine.load_audit(after, session_id, actor):
            for entry in found:
                yield entry
            after = found[-1].number

    async def prune(self, older_than: float | timedelta, *, actor: str = "") -> int:
        """Delete old sessions that are idle, failed or cancelled. Safe while workers run.

        This also deletes their prompts, results, events and questions, and their conversations if this `Fleet` has a
        store that can delete (if not, another one on SQLite does later).
        Workspaces stay on their machines. The id of a deleted session may be used again.

        Args:
            older_than: The time since the last change of a session: seconds, or a timedelta.
            actor: Who deletes them, for the audit log; empty means the user of this process.

        Returns:
            How many sessions were deleted.

        Raises:
            OptionsError: The time is negative.
            FleetError: The database does not answer.
        """
        return await self._engine.prune(self._store, read_seconds(older_than, "older_than"), name_source(actor))

    async def prune_events(
        self, older_than: float | timedelta, *, session_id: str | None = None, actor: str = ""
    ) -> int:
        """Delete old events of one session or of all, and return how many. Safe while workers run.

        Those of the current prompt are kept, and so are results. Whoever reads from before the deleted events gets one
        event `pruned` instead of them.

        Args:
            older_than: The age of the events: seconds, or a timedelta.
            session_id: The session; None means all.
            actor: Who deletes them, for the audit log; empty means the user of this process.

        Raises:
            OptionsError: The time is negative.
            FleetError: The database does not answer.
        """
        seconds = read_seconds(older_than, "older_than")
        return await self._engine.prune_events(seconds, session_id, name_source(actor))

    # Workers ---------------------------------------------------------------------------------------------------------

    def worker(
        self,
        *,
        sessions: int = 16,
        memory: int | str | None = None,
        machine: str | None = None,
        folder: "str | os.PathLike[str] | None" = None,
        health: str | int | None = None,
    ) -> "Worker":
        """Return a worker. `async with` runs sessions in this process.

        On Temporal it runs on asyncio only.

        Args:
            sessions: How many sessions may run concurrently.
            memory: How much memory their processes may use, such as `8GiB`; None means no limit.
            machine: The name of this machine; set it if the host name changes.
            folder: The folder for workspaces, in which each fleet has a private one. By default, it is in the user's
                folder for state, `~/.local/state/claude-agent-py/fleet` on Linux.
            health: Where to serve `/healthz`, `/readyz` and `/metrics` by HTTP: a port of the loopback interface, or
                `HOST:PORT`. With port 0, `Worker.health` has the port that was chosen.

        Raises:
            OptionsError: An argument is invalid, or `Fleet` has no store.
            FleetError: On opening: other users can change the folder for workspaces, the address for `health` is in
                use, or, on Temporal, the event loop is trio.
        """
        worker = self._engine.make_worker(
            self, sessions=sessions, memory=memory, machine=machine, folder=folder, health=health
        )
        self._workers.add(worker)
        return worker

    async def drain_forever(self) -> None:
        """Run until the workers of this process have drained after `drain_workers`, or until cancelled."""
        for worker in self._own_workers():
            await worker.wait_drained()

    async def drain(self) -> None:
        """Run until no session of the fleet is queued or running. Sessions may still wait for a person."""
        self._own_workers()
        while await self._engine.count_open_sessions():  # noqa: ASYNC110 - another process changes it
            await anyio.sleep(self.poll / 2)

    async def drain_workers(
        self, worker_id: str | None = None, *, grace: float | timedelta | None = None, actor: str = ""
    ) -> int:
        """Ask one worker or all to finish their current prompts and exit. Returns how many were asked.

        Args:
            worker_id: The worker; None means all.
            grace: Seconds after which what still runs is released, and goes on in other workers; None means no limit.
                Workers hear of it within a third of their `lease`.
            actor: Who asks, for the audit log; empty means the user of this process.
        """
        seconds = None if grace is None else read_seconds(grace, "grace")
        return await self._engine.drain_workers(worker_id, seconds, name_source(actor))

    def _own_workers(self) -> "Sequence[Worker]":
        """Return the open workers. Raises FleetError if there is none."""
        found = [worker for worker in self._workers if worker.is_open]
        if not found:
            raise FleetError("this process has no open worker: async with fleet.worker(): ...")
        return found

    def _wake(self) -> None:
        """Let the worker of this process look for work immediately. Thread-safe."""
        for worker in tuple(self._workers):
            worker.wake()


def _open_engine(url: str | None, create: bool, codec: "PayloadCodec | None", settings: FleetSettings) -> FleetEngine:
    """Return the engine for an address. Raises OptionsError."""
    if url is None or url.startswith(SQLITE):
        if codec is not None:
            raise OptionsError("encodes what a Temporal server keeps: a fleet on SQLite has none", option="codec")
        from claude_agent_py.fleet._local.engine import LocalEngine

        path = find_own_file() if url is None else Path(url.removeprefix(SQLITE))
        if path.name in ("", ":memory:"):
            raise OptionsError("must name a file: workers and other processes share it", option="url")
        return LocalEngine(path.absolute(), create=create)
    if url.startswith("temporal:"):
        try:
            from claude_agent_py.fleet._temporal.engine import TemporalEngine
        except ImportError as error:
            raise OptionsError(INSTALL_TEMPORAL, option="url") from error
        return TemporalEngine(url, codec, settings)
    # The URL may contain a password, so the error does not show it.
    raise OptionsError(
        "must be sqlite:///fleet.db for one machine, or temporal://host:7233/namespace for many", option="url"
    )
