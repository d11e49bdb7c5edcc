"""`TemporalWorker`: runs the activities of a fleet's sessions on this machine, and the workflows beside them.

For each agent it serves three task queues: the agent's; that of this machine, for sessions that have their workspace
here; and that for prompts which killed two workers, which run with no other in the process. Slots are counted for all
queues together: the server may hand out more than there is room for, and what finds none goes back.
"""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any, Final

import anyio
from temporalio import activity
from temporalio.api.workflowservice.v1 import SetWorkerDeploymentCurrentVersionRequest
from temporalio.client import (
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleSpec,
    ScheduleUpdate,
    WorkflowHandle,
    WorkflowQueryFailedError,
)
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import Worker as Poller, WorkerDeploymentConfig
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from claude_agent_py._base.event_loop import in_trio
from claude_agent_py._base.json_object import JSONMapping, JSONObject
from claude_agent_py._base.kept_alive import KeptAlive
from claude_agent_py._base.log import logger
from claude_agent_py.durable import PendingQuestion, TurnOutcome, TurnStop
from claude_agent_py.errors import FleetError, OptionsError
from claude_agent_py.fleet._engine import FleetEngine
from claude_agent_py.fleet._events import NewDeltas, NewEvent
from claude_agent_py.fleet._settings import FleetSettings
from claude_agent_py.fleet._state import ENDED, ENDS, FleetPrompt, TurnResult, add_cost
from claude_agent_py.fleet._temporal.deltas import DeltaLog
from claude_agent_py.fleet._temporal.descriptions import prune_session
from claude_agent_py.fleet._temporal.events import TurnEventLog
from claude_agent_py.fleet._temporal.limits import FIND_GONE, GRANT, LIMITS, Limit, LimitWorkflow, Request, limit_id
from claude_agent_py.fleet._temporal.server import RETRYABLE, TemporalService, on_asyncio
from claude_agent_py.fleet._temporal.workflow import (
    ASK,
    FREE,
    GIVE_BACK,
    KINDS,
    TELL,
    TURN,
    WORKFLOW,
    AgentSettings,
    Command,
    SessionWorkflow,
    TurnArgument,
    WorkflowSession,
)
from claude_agent_py.fleet.agents import FleetAgent
from claude_agent_py.fleet.worker import Execution, Worker, without_secrets
from claude_agent_py.permissions import AnswerSource, QuestionRecord
from claude_agent_py.sessions import SessionStore, implements

KINDS_OF_ENDS: Final = {state: kind for kind, state in ENDS.items()}
"""The kind of outcome that gives a prompt this state."""
STORE_SECONDS: Final = 5.0
"""How long a prompt waits if the store does not answer."""
ROOM_SECONDS: Final = 5.0
"""How long a prompt waits for a free slot before it goes back to the queue."""
LOOK_SECONDS: Final = 0.5
"""Seconds between queries for an answer."""
LONG_RESULT: Final = 16_000
"""From how many bytes of JSON the result of a prompt is only in its events."""
THROTTLE: Final = timedelta(seconds=1)
"""The longest time between a heartbeat and its delivery, and so the delay of an interrupt."""
FOREVER: Final = timedelta(days=365)
STICKY_SECONDS: Final = 5.0
READY_SECONDS: Final = 2.0
"""How long the server may take to answer before the worker is not ready."""
MAX_PRUNED: Final = 10_000
"""How many sessions it looks at each time for workspaces to remove."""
KNOWN_SECONDS: Final = 30.0
"""How long the server may take to know a version whose worker has just begun."""


class TemporalDesk:
    """The questions of a session, in its workflow."""

    def __init__(self, handle: WorkflowHandle[Any, Any], epoch: int, worker: str) -> None:
        self._handle = handle
        self._epoch = epoch
        self._worker = worker
        self._was_asked = False
        self.place: tuple[str | None, str | None] = (None, None)
        """The machine, and the workspace that only it has."""

    async def confirm(self) -> bool:
        """Return whether this call is the current one, and the second time note its worker."""
        if not self._was_asked:  # a query leaves nothing in the history
            self._was_asked = True
            return bool(await self._handle.query("wanted", self._epoch) != "abandon")
        is_current: bool = await self._handle.execute_update("begin", args=[self._epoch, self._worker, *self.place])
        return is_current

    async def ask(self, question: QuestionRecord) -> Any:
        """Keep a question, or take its answer."""
        return await self._handle.execute_update("ask", args=[self._epoch, question.key, question.to_dict()])

    async def wait(self, question: QuestionRecord) -> None:
        """Return once a question is answered."""
        while not any(each.is_answered and each.question.key == question.key for each in await self.pending()):  # noqa: ASYNC110
            await anyio.sleep(LOOK_SECONDS)

    async def pending(self) -> Sequence[PendingQuestion]:
        """Return the open questions."""
        found = await self._handle.query("pending")
        return [PendingQuestion(QuestionRecord.from_dict(record), is_answered) for record, is_answered in found]

    async def withdraw(self, question: QuestionRecord) -> None:
        """Close a question."""
        await self._handle.execute_update("withdraw", args=[self._epoch, question.key])


class _TemporalExecution(Execution):
    """A call of the activity, and the events of its prompt."""

    def __init__(self, turn: TurnArgument, store: SessionStore, handle: WorkflowHandle[Any, Any], worker: str) -> None:
        super().__init__(turn.session, turn.conversation, turn.uuid, turn.content, turn.attempt)
        self.desk = self._desk = TemporalDesk(handle, turn.epoch, worker)
        self.log = TurnEventLog(store, turn.conversation, turn.run, turn.epoch)
        self.deltas = DeltaLog(store, turn.conversation, turn.epoch)
        self.keeps_deltas: bool = implements(store, "delete")
        self._run = turn.run

    async def begin(self, where: dict[str, str]) -> None:
        """Let the desk report a workspace that only this machine has."""
        if "machine" in where:
            self._desk.place = where["machine"], where["workspace"]
        self.add_event("run", {"run": self._run, "state": "running"})

    async def write(self, events: Sequence[NewEvent], deltas: NewDeltas) -> None:
        await self.deltas.close(deltas, self.log.end + len(events))
        if events:
            await self.log.write(events)
        await self.deltas.add(deltas.open)


class Room:
    """The slots of a worker.

    Args:
        has_room: Returns whether one more prompt may run beside so many.
    """

    def __init__(self, has_room: Callable[[int], bool]) -> None:
        self._has_room = has_room
        self.taken: int = 0
        self._is_exclusive = False
        self._changed = anyio.Event()

    @contextlib.asynccontextmanager
    async def take(self, stop: TurnStop, *, is_alone: bool) -> AsyncIterator[bool]:
        """Take a slot, or all of them. Yield False if none became free in time, or before somebody stopped the turn."""
        with anyio.move_on_after(None if is_alone else ROOM_SECONDS) as limit:
            while stop.wish is None and (self._is_exclusive or not (is_alone or self._has_room(self.taken))):
                await self._changed.wait()
        if limit.cancelled_caught or stop.wish is not None:
            yield False
            return
        self._is_exclusive = is_alone
        try:
            while is_alone and self.taken and stop.wish is None:
                await self._changed.wait()
            self.taken += 1
            try:
                yield True
            finally:
                self.taken -= 1
        finally:
            self._is_exclusive = self._is_exclusive and not is_alone
            self.note_change()

    def note_change(self) -> None:
        """Look for room again."""
        self._changed.set()
        self._changed = anyio.Event()


class TemporalWorker(Worker):
    """A worker on asyncio."""

    def __init__(self, server: TemporalService, engine: FleetEngine, settings: FleetSettings, **given: Any) -> None:
        super().__init__(settings, engine.load_metrics, **given)
        self._engine = engine
        self._server = server
        self._room = Room(lambda taken: self._count_free_slots(taken) > 0)
        self._turns: list[Poller] = []
        """Those that run activities."""
        self._workflows: list[Poller] = []
        """Those that run workflows. They outlast the turns, which ask their workflows and hear from them."""

    # Lifecycle --------------------------------------------------------------------------------------------------------

    @property
    def _identity(self) -> str:
        return self._server.identity

    async def _connect(self, stack: AsyncExitStack) -> None:
        if in_trio():
            raise FleetError(
                "a worker on Temporal runs on asyncio only, as Temporal does; start it with anyio.run(main)"
            )
        self._client = await on_asyncio(self._server.connect)()
        await on_asyncio(self._server.check)(KNOWN_SECONDS)  # it may have gone away since this process connected

    @on_asyncio
    async def _begin(self) -> None:
        known = self._fleet.agents.values()
        try:
            self._turns = [self._make_poller(agent, queue) for agent in known for queue in self._queues(agent)]
            self._workflows = [self._make_workflow_poller(agent) for agent in known]
        except RuntimeError as error:  # whose text is long
            raise FleetError("this process has a worker of this Fleet: on Temporal, it can have one") from error
        if any(self._list_limited(agent) for agent in known):
            self._workflows.append(self._make_limit_poller())
        for poller in [*self._turns, *self._workflows]:
            self._group.start_soon(_run, poller)  # its failure ends the block
        for agent in known:
            await self._make_current(agent)
        self._group.start_soon(KeptAlive(self._measure, self._fleet.lease / 3, f"worker {self.id}").run)

    async def _finish(self) -> None:
        for pollers in (self._turns, self._workflows):
            async with anyio.create_task_group() as group:
                for poller in pollers:  # one that only starts ends as soon as it has started
                    group.start_soon(poller.shutdown)

    async def _find_problem(self) -> str:
        try:
            await self._server.check(READY_SECONDS)
        except RPCError:
            return "the Temporal server does not answer"
        return ""

    async def _measure(self) -> None:
        """Look for room, and whether it is asked to drain. The server hears of its life from its polls."""
        await self._measure_memory()
        self._room.note_change()
        word = await self._server.find_drain(self.id)
        if word is not None and not self._is_draining:
            self._group.start_soon(self.drain, word.get("grace"))  # the server keeps no None
        elif word is not None and "grace" in word:  # it drained before without this limit
            self._group.start_soon(self._release_after, word["grace"])

    async def _prune(self, seconds: float) -> None:
        latest = await self._server.find_time() - seconds
        for info in await self._engine.list_sessions(None, None, None, MAX_PRUNED):
            is_old = info.state in ENDED and info.updated_at < latest
            if not is_old or info.machine != self.machine:
                continue
            if await prune_session(self._server, info.id, self._store, latest):  # otherwise it needs its workspace
                folder = self._get_folder(info.id, info.cli_session_id)
                await self._remove_workspace(folder, info.agent, info.version, info.id)
        await self._engine.prune(self._store, seconds, AnswerSource("", f"worker {self.id}"))

    async def _prune_events(self, seconds: float) -> None:
        await self._engine.prune_events(seconds, None, AnswerSource("", f"worker {self.id}"))

    # What it serves --------------------------------------------------------------------------------------------------

    def _queues(self, agent: FleetAgent) -> list[str]:
        near = [f"{agent.name}@{self.machine}"] if not agent.workspace.is_shared else []
        return [agent.name, *near, f"{agent.name}/alone"]

    def _make_poller(self, agent: FleetAgent, queue: str) -> Poller:
        @activity.defn(name=TURN)
        async def run(turn: TurnArgument) -> TurnResult:
            return await self._run_turn(agent, turn)

        @activity.defn(name=FREE)
        async def free(session: str, conversation: str) -> None:
            folder = self._get_folder(session, conversation)
            await self._remove_workspace(folder, agent.name, agent.version, session)

        return Poller(
            self._client,
            task_queue=queue,
            activities=[run, free],
            identity=self._poller_identity,
            max_concurrent_activities=self._slots,
            max_heartbeat_throttle_interval=THROTTLE,
            graceful_shutdown_timeout=FOREVER,
            deployment_config=_make_version(agent),
        )

    @property
    def _poller_identity(self) -> str:
        return f"{self.id}|{self._slots}"

    def _make_workflow_poller(self, agent: FleetAgent) -> Poller:
        @activity.defn(name="fleet-agent")
        async def describe(name: str) -> AgentSettings:
            common = self._fleet.lease, self._fleet.max_crashes
            is_pruned = self._fleet.retention is not None
            return AgentSettings(agent.timeout, agent.after_failure, *common, self._list_limited(agent), is_pruned)

        @activity.defn(name=ASK)
        async def ask(name: str, request: Request) -> bool:
            limit = agent.limit if name == f"agent/{agent.name}" else self._fleet.tenant_limit
            if limit is None:
                return False
            await self._server.signal_limit(Limit(name, self._fleet.lease, limit), "acquire", request, limit)
            return True

        @activity.defn(name=GIVE_BACK)
        async def give_back(names: list[str], session: str, ticket: int) -> None:
            for name in names:
                await self._server.signal(limit_id(name), "release", session, ticket)

        @activity.defn(name=TELL)
        async def tell(conversation: str, epoch: int, prompts: list[FleetPrompt]) -> None:
            await self._tell_ends(agent, conversation, epoch, prompts)

        return Poller(
            self._client,
            task_queue=agent.name,
            workflows=[SessionWorkflow],
            activities=[describe, ask, give_back, tell],
            no_remote_activities=True,
            workflow_runner=make_runner(),
            identity=self._poller_identity,
            sticky_queue_schedule_to_start_timeout=self._sticky_seconds,
            disable_eager_activity_execution=True,
            deployment_config=_make_version(agent),
        )

    async def _tell_ends(
        self, agent: FleetAgent, conversation: str, epoch: int, prompts: Sequence[FleetPrompt]
    ) -> None:
        """Write events for prompts that no worker ran to their ends."""
        try:
            log = TurnEventLog(self._store, conversation, prompts[0].number, epoch)
            await log.begin(is_over=True)
            ends = [{"run": each.number, "state": each.state, "result": each.result} for each in prompts]
            await log.write(
                [("run", each.ended_at or time.time(), end) for each, end in zip(prompts, ends, strict=True)]
            )
        except Exception as error:  # whose text and traceback would be in the history
            raise FleetError(without_secrets(f"{type(error).__name__}: {error}", agent.options)) from None

    @property
    def _sticky_seconds(self) -> timedelta:
        """How long the workflows of a worker wait for it after a crash, before another one gets them."""
        return timedelta(seconds=min(STICKY_SECONDS, self._fleet.lease / 3))

    # Limits ----------------------------------------------------------------------------------------------------------

    def _list_limited(self, agent: FleetAgent) -> list[str]:
        limits = {"tenant": self._fleet.tenant_limit, "agent": agent.limit}
        return [kind for kind in KINDS if limits[kind] is not None]

    def _make_limit_poller(self) -> Poller:
        @activity.defn(name=GRANT)
        async def grant(name: str, request: Request) -> list[str]:
            was_found = await self._server.signal(request.session, "permit", name, request.ticket)
            return [] if was_found else [request.session]

        @activity.defn(name=FIND_GONE)
        async def find_gone(name: str, sessions: list[str]) -> list[str]:
            return [session for session in sessions if not await self._server.is_running(session)]

        return Poller(
            self._client,
            task_queue=LIMITS,
            workflows=[LimitWorkflow],
            activities=[grant, find_gone],
            workflow_runner=make_runner(),
            sticky_queue_schedule_to_start_timeout=self._sticky_seconds,
        )

    # Versions and schedules ------------------------------------------------------------------------------------------

    async def _make_current(self, agent: FleetAgent) -> None:
        """Start new sessions with this version, if the server has not had it before or has none."""
        deadline = anyio.current_time() + KNOWN_SECONDS
        while True:
            try:
                return await self._try_to_make_current(agent)
            except RPCError as error:
                # The server does not know the version before its first poll has arrived.
                is_early = error.status in (RPCStatusCode.NOT_FOUND, RPCStatusCode.FAILED_PRECONDITION)
                if not (is_early or error.status in RETRYABLE) or anyio.current_time() > deadline:
                    raise
            await anyio.sleep(0.1)

    async def _try_to_make_current(self, agent: FleetAgent) -> None:
        deployment = await self._server.find_deployment(agent.name)
        if deployment is not None:
            current = deployment.routing_config.current_deployment_version.build_id
            known = {found.deployment_version.build_id: found for found in deployment.version_summaries}
            was_used = agent.version in known and known[agent.version].first_activation_time.seconds
            if current and (current == agent.version or was_used):
                return
        request = SetWorkerDeploymentCurrentVersionRequest(
            namespace=self._client.namespace,
            deployment_name=agent.name,
            build_id=agent.version,
            ignore_missing_task_queues=True,
        )
        await self._client.workflow_service.set_worker_deployment_current_version(request)

    @on_asyncio
    async def _apply_schedules(self) -> None:
        for name, given in self._fleet.schedules.items():
            kept = {field: value for field, value in given.items() if field not in ("cron", "timezone")}
            session = WorkflowSession.new("", **kept)
            schedule = Schedule(
                action=ScheduleActionStartWorkflow(
                    WORKFLOW,
                    args=[session, Command(f"schedule:{name}", "")],
                    id=f"{name}@",
                    task_queue=given["agent"],
                ),
                spec=ScheduleSpec(cron_expressions=[given["cron"]], time_zone_name=given["timezone"]),
                policy=SchedulePolicy(overlap=ScheduleOverlapPolicy.ALLOW_ALL),
            )
            try:
                await self._client.create_schedule(name, schedule)
            except ScheduleAlreadyRunningError:
                handle = self._client.get_schedule_handle(name)
                await handle.update(lambda _, schedule=schedule: ScheduleUpdate(schedule))  # type: ignore[misc]
            except RPCError as error:
                if error.status is RPCStatusCode.INVALID_ARGUMENT:
                    raise OptionsError(error.message, option="schedule") from error
                raise

    # Turns -----------------------------------------------------------------------------------------------------------

    async def _run_turn(self, agent: FleetAgent, turn: TurnArgument) -> TurnResult:
        """The activity. Heartbeats until it returns."""
        beating = asyncio.create_task(_beat(self._fleet.lease / 4))
        execution = _TemporalExecution(turn, self._store, self._client.get_workflow_handle(turn.session), self.id)
        work = asyncio.create_task(self._perform(agent, turn, execution))
        try:
            while True:
                try:
                    return await asyncio.shield(work)
                except asyncio.CancelledError:
                    if work.done():
                        raise
                    wanted = await self._obey(turn, execution.stop)
                    while wanted == "interrupt" and not work.done():
                        await asyncio.wait([work], timeout=LOOK_SECONDS)  # the server cancels it once only
                        wanted = await self._obey(turn, execution.stop, wanted)
        finally:
            beating.cancel()

    async def _obey(self, turn: TurnArgument, stop: TurnStop, known: str = "cancel") -> str:
        """Do what the workflow wants, now that the server cancelled the activity, and return it.

        If the server does not answer, it is what is known.
        """
        details = activity.cancellation_details()
        wanted = "abandon" if details is not None and (details.not_found or details.timed_out) else known
        if wanted != "abandon":
            handle: WorkflowHandle[Any, Any] = self._client.get_workflow_handle(turn.session)
            with contextlib.suppress(RPCError, WorkflowQueryFailedError):
                wanted = await handle.query("wanted", turn.epoch, rpc_timeout=timedelta(seconds=5))
        {"interrupt": stop.interrupt, "abandon": stop.abandon}.get(wanted, stop.release)()
        self._room.note_change()  # it may wait there
        return wanted

    async def _perform(self, agent: FleetAgent, turn: TurnArgument, execution: _TemporalExecution) -> TurnResult:
        async with self._room.take(execution.stop, is_alone=turn.is_alone) as has_room:
            if not has_room:
                return TurnResult("busy")
            self._executions[turn.session] = execution
            try:
                if self._is_draining or execution.stop.wish is not None:
                    return TurnResult("later")
                try:
                    last = await execution.log.begin()
                    if last.get("uuid") == turn.uuid:  # the server has not heard how it ended
                        cost = (last["result"].get("cost_usd") or 0.0) - turn.spent_usd
                        kept = shorten({**last["result"], "cost_usd": cost})
                        return TurnResult(KINDS_OF_ENDS[last["state"]], result=kept)
                    if execution.keeps_deltas and agent.options.include_partial_messages:
                        await execution.deltas.begin()
                except Exception as error:  # of the store
                    return _wait_for_store(error, agent)
                folder = self._get_folder(turn.session, turn.conversation)
                outcome = await self._run_prompt(agent, execution, folder)
                result = self._read(outcome, execution, turn)
                try:
                    await execution.write_events()
                except Exception as error:
                    if result.kind == "done":  # the next call finds the answer in the store
                        return _wait_for_store(error, agent, result.result.get("cost_usd") or 0.0)
                    logger.warning("events of session %s cannot be written: %s", turn.session, error)
                return result
            finally:
                if self._executions.get(turn.session) is execution:
                    del self._executions[turn.session]

    def _read(self, outcome: TurnOutcome, execution: Execution, turn: TurnArgument) -> TurnResult:
        """Return what the workflow keeps of an outcome, and add an event if the prompt has ended."""
        found = TurnResult.of(outcome, self.id)
        if found.kind in ENDS:
            result = found.result
            told = add_cost(result, turn.spent_usd)
            data = {"run": turn.run, "uuid": turn.uuid, "state": ENDS[found.kind], "result": told}
            execution.add_event("run", data)
            if len(json.dumps(result)) > LONG_RESULT:
                found.result = shorten(result)
        return found


def _wait_for_store(error: Exception, agent: FleetAgent, cost_usd: float = 0.0) -> TurnResult:
    reason = without_secrets(f"{type(error).__name__}: {error}", agent.options)
    return TurnResult("later", STORE_SECONDS, False, reason, cost_usd=cost_usd)


def shorten(result: JSONMapping) -> JSONObject:
    """Return what the workflow keeps of a result that an event has."""
    brief = {name: result.get(name) for name in ("error", "worker", "num_turns", "cost_usd", "prompt_uuid")}
    return {**brief, "reason": str(result.get("reason", ""))[:1000], "is_stored": True}


def _make_version(agent: FleetAgent) -> WorkerDeploymentConfig:
    version = WorkerDeploymentVersion(agent.name, agent.version)
    return WorkerDeploymentConfig(version, True, VersioningBehavior.PINNED)


def make_runner() -> SandboxedWorkflowRunner:
    """Return the sandbox of the workflows, which imports this package once."""
    restrictions = SandboxRestrictions.default.with_passthrough_modules("claude_agent_py")
    return SandboxedWorkflowRunner(restrictions=restrictions)


async def _run(poller: Poller) -> None:
    """Run a poller until `shutdown`. If it were cancelled twice, that would wait forever."""
    with anyio.CancelScope(shield=True):
        try:
            await poller.run()
        except RuntimeError as error:
            failure = FleetError(f"the Temporal server gives the worker nothing to do: {error}")
            failure.is_retryable = True
            raise failure from error


async def _beat(pause: float) -> None:
    while True:
        activity.heartbeat()
        await asyncio.sleep(pause)
