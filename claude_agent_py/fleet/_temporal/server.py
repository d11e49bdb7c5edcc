"""`TemporalService`: the connection to a Temporal server."""

import atexit
import contextlib
import hashlib
import time
from collections.abc import Callable, Mapping
from datetime import UTC, timedelta
from functools import partial, wraps
from typing import Any, Final, TypeVar, cast
from urllib.parse import urlsplit

import anyio
from anyio import to_thread
from temporalio.api.enums.v1 import IndexedValueType, TaskQueueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest
from temporalio.api.taskqueue.v1 import PollerInfo, TaskQueue
from temporalio.api.workflowservice.v1 import (
    DescribeNamespaceRequest,
    DescribeTaskQueueRequest,
    DescribeWorkerDeploymentRequest,
    ListWorkerDeploymentsRequest,
)
from temporalio.client import Client, WorkflowExecutionDescription, WorkflowExecutionStatus, WorkflowHandle
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.converter import DataConverter, DefaultFailureConverterWithEncodedAttributes, PayloadCodec
from temporalio.envconfig import ClientConfig
from temporalio.service import PayloadLimitsConfig, RPCError, RPCStatusCode

from claude_agent_py._base.checks import is_url
from claude_agent_py._base.event_loop import in_trio
from claude_agent_py._base.json_object import JSONMapping
from claude_agent_py.errors import FleetError, OptionsError
from claude_agent_py.fleet._temporal.limits import LIMIT, LIMITS, Limit, limit_id
from claude_agent_py.fleet._temporal.workflow import AGENT, QUESTIONS, STATE, TENANT, WORKFLOW

Method = TypeVar("Method", bound=Callable[..., Any])

COMMANDS: Final = frozenset({"send", "answer", "interrupt", "cancel", "retry"})
"""The signals that are commands. The other ones concern limits."""
DRAIN: Final = "fleet-drain"
DEFAULT_PORT: Final = 7233
WARN_BYTES: Final = 1_000_000
ATTRIBUTE_SECONDS: Final = 60.0
"""How long a server may take to know a new search attribute."""
EXIT_SECONDS: Final = 0.2
"""How long a process waits at its end for the threads of Temporal's SDK: they may touch the interpreter for a moment
after a call has returned, and crash a process that ends meanwhile."""
AHEAD_SECONDS: Final = 600.0
"""A clock is ahead if something asked the server so long ago: the server forgets it before."""
RETRYABLE: Final = frozenset(
    {
        RPCStatusCode.UNAVAILABLE,
        RPCStatusCode.DEADLINE_EXCEEDED,
        RPCStatusCode.RESOURCE_EXHAUSTED,
        RPCStatusCode.CANCELLED,
        RPCStatusCode.ABORTED,
        RPCStatusCode.INTERNAL,
        RPCStatusCode.UNKNOWN,
    }
)


atexit.register(time.sleep, EXIT_SECONDS)


def on_asyncio(method: Method) -> Method:
    """Run an async method on asyncio, in a thread under trio, and convert the errors of the server."""

    @wraps(method)
    async def call(*args: Any) -> Any:
        try:
            if in_trio():
                return await to_thread.run_sync(anyio.run, partial(method, *args))
            return await method(*args)
        except RPCError as error:
            raise convert_error(error) from error

    return cast("Method", call)


def is_missing(error: BaseException | None) -> bool:
    """Return whether the server has not what a call asks for. A busy one may not find its namespace for a moment."""
    is_not_found = isinstance(error, RPCError) and error.status is RPCStatusCode.NOT_FOUND
    return is_not_found and not str(error).startswith("Namespace ")


def convert_error(error: RPCError, session: str | None = None) -> FleetError:
    """Return the FleetError for an error of the server."""
    if session is not None and is_missing(error):
        return FleetError(f"the fleet has no session {session!r}", session_id=session)
    failure = FleetError(
        f"the Temporal server failed: {error.status.name.lower()}: {error.message}", session_id=session
    )
    failure.is_retryable = error.status in RETRYABLE or error.status is RPCStatusCode.NOT_FOUND
    return failure


class UnlessMissing(contextlib.AbstractContextManager[None]):
    """Ends its block if the server does not know what the block asks for."""

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        return is_missing(error)


def parse_url(url: str) -> tuple[str, str]:
    """Return the address and the namespace in `temporal://host:port/namespace`. Raises OptionsError."""
    parts = urlsplit(url) if is_url(url) else None
    if parts is None or not parts.hostname or "@" in parts.netloc or parts.query or parts.fragment:
        raise OptionsError(
            "must be temporal://host:port/namespace; credentials come from TEMPORAL_API_KEY or TEMPORAL_TLS_...",
            option="url",
        )
    return f"{parts.hostname}:{parts.port or DEFAULT_PORT}", parts.path.strip("/") or "default"


class TemporalService:
    """A Temporal server.

    TLS, an API key and the like come from the environment, as for all programs of Temporal: `TEMPORAL_API_KEY`,
    `TEMPORAL_TLS_CLIENT_CERT_PATH`, ...

    Args:
        url: The URL, `temporal://host:7233/namespace`.
        codec: Encodes the payloads, also those of failures. Search attributes stay readable.
    """

    def __init__(self, url: str, codec: PayloadCodec | None) -> None:
        self._address, self.namespace = parse_url(url)
        self._converter = DataConverter.default
        if codec is not None:
            self._converter = DataConverter(
                payload_codec=codec, failure_converter_class=DefaultFailureConverterWithEncodedAttributes
            )
        self._client: Client | None = None
        self._registered: set[str] = set()
        """The agents that the server knows."""

    def close(self) -> None:
        """Forget the connection."""
        self._client = None

    @property
    def identity(self) -> str:
        """The name of the fleet in the folder for workspaces."""
        return hashlib.sha256(f"{self._address}/{self.namespace}".encode()).hexdigest()[:16]

    async def connect(self) -> Client:
        """Return the client, once the namespace has the search attributes.

        Raises:
            FleetError: The server does not answer.
        """
        if self._client is None:
            config: Any = {**ClientConfig.load_client_connect_config()}
            # Prompts and the memo of a session, which has its last results, may be long.
            limits = PayloadLimitsConfig(payloads_warn_size=WARN_BYTES, memo_warn_size=WARN_BYTES)
            config |= {"target_host": self._address, "namespace": self.namespace, "payload_limits": limits}
            config["data_converter"] = self._converter
            try:
                client = await Client.connect(**config)
            except RuntimeError as error:
                failure = FleetError(f"the Temporal server at {self._address} does not answer: {error}")
                failure.is_retryable = True
                raise failure from error
            await self._add_attributes(client)
            self._client = client
        return self._client

    async def _add_attributes(self, client: Client) -> None:
        keyword, number = IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD, IndexedValueType.INDEXED_VALUE_TYPE_INT
        wanted = {STATE.name: keyword, AGENT.name: keyword, TENANT.name: keyword, QUESTIONS.name: number}
        request = AddSearchAttributesRequest(namespace=self.namespace, search_attributes=wanted)
        try:
            await client.operator_service.add_search_attributes(request)
        except RPCError as error:
            # They exist, or a service does not let programs make them: its operator has.
            if error.status not in (RPCStatusCode.ALREADY_EXISTS, RPCStatusCode.PERMISSION_DENIED):
                raise
        deadline = anyio.current_time() + ATTRIBUTE_SECONDS
        while True:
            try:
                await client.count_workflows(" AND ".join(f"{name} IS NOT NULL" for name in wanted))
            except RPCError as error:
                if error.status is not RPCStatusCode.INVALID_ARGUMENT or anyio.current_time() > deadline:
                    raise
                await anyio.sleep(0.2)
            else:
                return

    async def check_agent(self, agent: str) -> None:
        """Raise OptionsError if no worker has registered an agent. The server may be asked a few times a second."""
        if agent in self._registered:
            return
        try:
            found = await self.find_deployment(agent)
        except RPCError as error:
            if error.status is not RPCStatusCode.RESOURCE_EXHAUSTED:
                raise
        else:
            if found is None:
                raise OptionsError(f"no worker has registered an agent {agent!r}", option="agent")
            self._registered.add(agent)

    async def find_deployment(self, agent: str) -> Any:
        """Return what the server knows of the versions of an agent, or None."""
        client = await self.connect()
        request = DescribeWorkerDeploymentRequest(namespace=self.namespace, deployment_name=agent)
        with UnlessMissing():
            return (await client.workflow_service.describe_worker_deployment(request)).worker_deployment_info
        return None

    async def list_pollers(self) -> list[PollerInfo]:
        """Return what asks the server for prompts of agents, or has done so in the last minutes."""
        service, found, token = (await self.connect()).workflow_service, list[PollerInfo](), b""
        while True:
            listing = ListWorkerDeploymentsRequest(namespace=self.namespace, page_size=1000, next_page_token=token)
            page = await service.list_worker_deployments(listing)
            for agent in page.worker_deployments:
                queue, kind = TaskQueue(name=agent.name), TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY
                request = DescribeTaskQueueRequest(namespace=self.namespace, task_queue=queue, task_queue_type=kind)
                found += (await service.describe_task_queue(request)).pollers
            token = page.next_page_token
            if not token:
                return found

    async def find_time(self) -> float:
        """Return the time; if the clock of this machine is ahead, the time at which something asked the server last."""
        asked = max((poller.last_access_time.seconds for poller in await self.list_pollers()), default=0)
        return asked if asked and time.time() - asked > AHEAD_SECONDS else time.time()

    async def check(self, seconds: float) -> None:
        """Raise RPCError if the server does not answer in time, or has no such namespace."""
        client, request = await self.connect(), DescribeNamespaceRequest(namespace=self.namespace)
        await client.workflow_service.describe_namespace(request, timeout=timedelta(seconds=seconds))

    async def is_running(self, workflow: str) -> bool:
        """Return whether a workflow exists and has not ended."""
        return await self._find(workflow) is not None

    async def _find(self, workflow: str) -> WorkflowExecutionDescription | None:
        client = await self.connect()
        with UnlessMissing():
            found = await client.get_workflow_handle(workflow).describe()
            return found if found.status is WorkflowExecutionStatus.RUNNING else None
        return None

    async def describe(self, session: str) -> WorkflowExecutionDescription:
        """Return the description of a session. Raises FleetError if there is none."""
        client = await self.connect()
        try:
            found = await client.get_workflow_handle(session).describe()
        except RPCError as error:
            raise convert_error(error, session) from error
        if found.workflow_type != WORKFLOW:
            raise FleetError(f"{session!r} is a workflow, but not a session of a fleet", session_id=session)
        return found

    async def count(self, query: str) -> int:
        """Return how many workflows there are of a kind."""
        return (await (await self.connect()).count_workflows(query)).count

    async def signal(self, workflow: str, name: str, *args: Any) -> bool:
        """Signal a workflow. Return False if it has ended."""
        client = await self.connect()
        with UnlessMissing():
            await client.get_workflow_handle(workflow).signal(name, args=args)
            return True
        return False

    async def read_commands(self, workflow: str) -> list[tuple[str, list[Any]]]:
        """Return the start and the commands in the histories of a workflow that the server has kept, with arguments."""
        found, earlier = await self.read_run(workflow)
        while earlier:
            commands, earlier = await self.read_run(workflow, earlier)
            found = [*commands, *found[1:]]  # without the start of the later run
        return found

    async def read_run(self, workflow: str, run: str | None = None) -> tuple[list[tuple[str, list[Any]]], str]:
        """Return the start and the commands in a run of a workflow, by default the last one, and the run before it."""
        client, commands, earlier = await self.connect(), list[tuple[str, list[Any]]](), ""
        handle: WorkflowHandle[Any, Any] = client.get_workflow_handle(workflow, run_id=run)
        with UnlessMissing():
            async for event in handle.fetch_history_events():
                signal = event.workflow_execution_signaled_event_attributes
                if event.HasField("workflow_execution_started_event_attributes"):
                    start = event.workflow_execution_started_event_attributes
                    name, payloads, earlier = "start", start.input, start.continued_execution_run_id
                elif signal.signal_name in COMMANDS:
                    name, payloads = signal.signal_name, signal.input
                else:
                    continue
                args = await client.data_converter.decode(payloads.payloads)
                args[-1] = {**args[-1], "at": event.event_time.ToDatetime(UTC).timestamp()}
                commands.append((name, args))
        return commands, earlier

    async def ask_to_drain(self, worker: str, grace: float | None, seconds: float) -> None:
        """Leave word for a worker to drain: a workflow that no worker runs, and which the server ends after a time."""
        client = await self.connect()
        await client.start_workflow(
            DRAIN,
            id=f"{DRAIN}/{worker}",
            task_queue=DRAIN,
            memo={"grace": grace},
            execution_timeout=timedelta(seconds=seconds),
            id_conflict_policy=WorkflowIDConflictPolicy.TERMINATE_EXISTING,
        )

    async def find_drain(self, worker: str) -> JSONMapping | None:
        """Return the memo of the word for a worker to drain, or None."""
        found = await self._find(f"{DRAIN}/{worker}")
        return None if found is None else await found.memo()

    async def signal_limit(self, limit: Limit, signal: str, *args: Any) -> None:
        """Send a signal to a limit, which starts if it does not run."""
        client = await self.connect()
        await client.start_workflow(
            LIMIT,
            limit,
            id=limit_id(limit.name),
            task_queue=LIMITS,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            start_signal=signal,
            start_signal_args=args,
        )

    async def load_limits(self) -> Mapping[str, int]:
        """Return the limits that tenants have been given."""
        client, start = await self.connect(), limit_id("tenant/")
        found: dict[str, int] = {}
        async for each in client.list_workflows(f"WorkflowType = '{LIMIT}' AND ExecutionStatus = 'Running'"):
            own = (await each.memo()).get("own")
            if own is not None and each.id.startswith(start):
                found[each.id.removeprefix(start)] = own
        return found
