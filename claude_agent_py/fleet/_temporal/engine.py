"""`TemporalEngine`: the commands and queries of a fleet whose sessions are workflows of Temporal.

Commands are signals, which the server keeps while no worker lives; queries read memos and search attributes, which lag
behind a command until a worker has handled it. Events are in the session store (`events.py`).
"""

import contextlib
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID, uuid5

import anyio
from temporalio.api.enums.v1 import PendingWorkflowTaskState
from temporalio.client import Client, WorkflowExecution, WorkflowExecutionDescription
from temporalio.common import (
    PinnedVersioningOverride,
    WorkerDeploymentVersion,
    WorkflowIDConflictPolicy,
    WorkflowIDReusePolicy,
)
from temporalio.converter import PayloadCodec
from temporalio.exceptions import WorkflowAlreadyStartedError

from claude_agent_py._base.bounded_dict import BoundedDict
from claude_agent_py.errors import FleetError, OptionsError
from claude_agent_py.fleet import _temporal
from claude_agent_py.fleet._settings import FleetSettings
from claude_agent_py.fleet._state import ENDED, FleetQuestion, SessionRecord, list_retried, read_outcome
from claude_agent_py.fleet._temporal.deltas import read_deltas
from claude_agent_py.fleet._temporal.descriptions import CUT_OFF, has_unheard_command, prune_session, read_session
from claude_agent_py.fleet._temporal.events import find_end, prune_logs, read_events
from claude_agent_py.fleet._temporal.limits import Limit
from claude_agent_py.fleet._temporal.server import TemporalService, UnlessMissing, on_asyncio
from claude_agent_py.fleet._temporal.workflow import (
    AGENT,
    MEMO,
    QUESTIONS,
    STATE,
    TENANT,
    WORKFLOW,
    Command,
    WorkflowSession,
    attributes,
    show,
)
from claude_agent_py.fleet.agents import FleetAgent
from claude_agent_py.fleet.metrics import FleetMetrics
from claude_agent_py.fleet.records import (
    FleetAuditEntry,
    FleetDelta,
    FleetEvent,
    FleetOutcome,
    FleetSessionInfo,
    FleetTenantInfo,
    FleetWorkerInfo,
    SessionState,
)
from claude_agent_py.permissions import AnswerSource
from claude_agent_py.sessions import SessionStore

MAX_PROMPT: Final = 1_000_000
"""The longest prompt in bytes of JSON: the server refuses payloads of 2 MB."""
PAGE: Final = 1000
"""How many sessions the server lists at a time."""
KNOWN: Final = 10_000
"""How many sessions a process remembers."""


class TemporalEngine:
    """Sessions as workflows of Temporal. See `FleetEngine` for the methods.

    Args:
        url: The URL, `temporal://host:7233/namespace`.
        codec: Encodes what the server keeps.
        settings: The settings of the fleet.
    """

    name = "Temporal"

    def __init__(self, url: str, codec: PayloadCodec | None, settings: FleetSettings) -> None:
        self._server = TemporalService(url, codec)
        self._settings = settings
        self._sent: BoundedDict[str, int] = BoundedDict(KNOWN)
        """The numbers of the prompts that this process sent last, by session, which the memo may not have yet."""
        self._conversations: BoundedDict[str, str] = BoundedDict(KNOWN)
        """Those of the sessions whose events this process has read: who reads deltas reads these first."""

    def close(self) -> None:
        self._server.close()

    # Commands to a session -------------------------------------------------------------------------------------------

    @on_asyncio
    async def start(self, new: SessionRecord, known: Sequence[FleetAgent], by: AnswerSource) -> None:
        client = await self._server.connect()
        check_size(new.prompts[0].content)
        if not known:
            await self._server.check_agent(new.agent)
        session = WorkflowSession(**vars(new))
        session.created_at = session.updated_at = datetime.now(UTC).timestamp()
        override = None
        if new.version:
            override = PinnedVersioningOverride(WorkerDeploymentVersion(new.agent, new.version))
        with contextlib.suppress(WorkflowAlreadyStartedError):  # it has ended
            await client.start_workflow(
                WORKFLOW,
                args=[session, Command(by.by, by.origin)],
                id=new.id,
                task_queue=new.agent,
                id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
                search_attributes=attributes(session),
                memo=show(session),
                versioning_override=override,
            )
        found = await self._load(new.id)
        if found.agent != new.agent:
            raise OptionsError(f"the session {new.id!r} belongs to the agent {found.agent!r}", option="id")

    @on_asyncio
    async def send(self, session: str, prompt: Any, timeout: float | None, key: str, by: AnswerSource) -> int:
        check_size(prompt)
        found = await self._load(session)
        number = find_number(found, key)
        if number is None:
            uuid = name_prompt(found.conversation, key)
            await self._signal(session, "send", key, prompt, timeout, Command(by.by, by.origin, uuid))
        while number is None:
            await anyio.sleep(0.05)
            description = await self._server.describe(session)
            number = find_number(await read_session(description), key)
            if number is None and not is_at_worker(description):
                number = count_prompts((await self._server.read_run(session))[0]).get(key)
        self._sent.put(session, number)
        return number

    @on_asyncio
    async def answer(self, session: str, interaction: str, reply: Any, by: AnswerSource) -> bool:
        if all(question.id != interaction for question in (await self._load(session)).questions):
            return False
        await self._signal(session, "answer", interaction, reply, Command(by.by, by.origin))
        return True

    @on_asyncio
    async def interrupt(self, session: str, by: AnswerSource) -> bool:
        if (await self._load(session)).state in ENDED:
            return False
        await self._signal(session, "interrupt", Command(by.by, by.origin))
        return True

    @on_asyncio
    async def cancel(self, session: str, reason: str, by: AnswerSource) -> bool:
        if (await self._load(session)).state == "cancelled":
            return False
        await self._signal(session, "cancel", reason, Command(by.by, by.origin))
        return True

    @on_asyncio
    async def retry(self, session: str, by: AnswerSource) -> int:
        found = await self._load(session)
        if found.state != "failed":
            raise FleetError(f"the session {session!r} is {found.state}, not failed", session_id=session)
        await self._signal(session, "retry", Command(by.by, by.origin))
        return list_retried(found.prompts)[-1].number

    async def _signal(self, session: str, name: str, *args: Any) -> None:
        if not await self._server.signal(session, name, *args):
            raise FleetError(f"the session {session!r} was cancelled", session_id=session)  # and has ended since

    # Queries about a session -----------------------------------------------------------------------------------------

    async def _load(self, session: str) -> WorkflowSession:
        return await read_session(await self._server.describe(session))

    @on_asyncio
    async def info(self, session: str) -> FleetSessionInfo:
        return read_info(await self._load(session))

    @on_asyncio
    async def outcome(self, session: str, run: int | None) -> FleetOutcome:
        description = await self._server.describe(session)
        s = await read_session(description)
        number = max(s.runs, self._sent.get(session, 0)) if run is None else run
        found = next((vars(prompt) for prompt in s.prompts if prompt.number == number), None)
        if number > s.runs:  # no worker has seen it, if it was sent
            sent = count_prompts((await self._server.read_run(session))[0])
            for key in [key for key in sent if sent[key] == number]:
                found = {"state": "queued", "uuid": name_prompt(s.conversation, key), "result": {}}
        elif found is None or found["result"].get("is_stored"):
            # The events have what is too long or too old for the memo.
            end = await find_end(self._settings.store, session, s.conversation, number, find_last_run(s))
            found = {**(found or {}), **end} if end else found
        if found is None:
            raise FleetError(f"session {session!r} has no prompt {number}", session_id=session)
        can_retry = s.state == "failed" and number in [prompt.number for prompt in list_retried(s.prompts)]
        if can_retry and has_unheard_command(description):  # it may retry the prompt
            found = {**found, "state": "queued"}
        return read_outcome(session, s.conversation, number, found)

    @on_asyncio
    async def events(self, session: str, after: int, limit: int) -> tuple[Sequence[FleetEvent], SessionState]:
        description = await self._server.describe(session)
        s = await read_session(description)
        self._conversations.put(session, s.conversation)
        found = await read_events(self._settings.store, session, s.conversation, find_last_run(s), after, limit)
        state = read_info(s).state
        return found, "queued" if state in ("idle", "failed") and has_unheard_command(description) else state

    @on_asyncio
    async def deltas(self, session: str, after: int) -> Sequence[FleetDelta]:
        conversation = self._conversations.get(session) or (await self._load(session)).conversation
        self._conversations.put(session, conversation)
        return await read_deltas(self._settings.store, session, conversation, after)

    @on_asyncio
    async def questions(self, session: str | None) -> Sequence[tuple[str, FleetQuestion]]:
        sessions = await self._select(session, f"{find_in('queued', 'running', 'waiting')} AND {QUESTIONS.name} > 0")
        found = [(s.id, question) for s in sessions for question in s.questions]
        return sorted(found, key=lambda each: each[1].created_at)

    @on_asyncio
    async def check_question(self, session: str, interaction: str) -> None:
        if interaction not in (await self._load(session)).asked:
            raise FleetError(f"the session {session!r} has asked no question {interaction!r}", session_id=session)

    # The fleet -------------------------------------------------------------------------------------------------------

    async def _list(self, query: str, limit: int = sys.maxsize) -> AsyncIterator[WorkflowSession]:
        client, count = await self._server.connect(), 0
        async for found in client.list_workflows(query, page_size=min(limit, PAGE)):
            if MEMO not in found.raw_info.memo.fields:  # a schedule has just begun it
                continue
            if found.status in CUT_OFF and await has_later_run(client, found):  # a reset ended it
                continue
            yield await read_session(found)
            count += 1
            if count == limit:
                return

    async def _select(self, session: str | None, query: str) -> list[WorkflowSession]:
        return [each async for each in self._list(query)] if session is None else [await self._load(session)]

    @on_asyncio
    async def list_sessions(
        self, state: SessionState | None, agent: str | None, tenant: str | None, limit: int
    ) -> Sequence[FleetSessionInfo]:
        wanted = ((AGENT.name, agent), (TENANT.name, tenant))
        parts = [find_in(*([] if state is None else [state]))]
        parts += [f"{name} = {quote(value)}" for name, value in wanted if value is not None]
        return [read_info(s) async for s in self._list(" AND ".join(parts), limit)]

    @on_asyncio
    async def count_open_sessions(self) -> int:
        return await self._server.count(find_in("queued", "running"))

    @on_asyncio
    async def list_workers(self) -> Sequence[FleetWorkerInfo]:
        workers: dict[str, FleetWorkerInfo] = {}
        for poller in await self._server.list_pollers():
            worker, _, slots = poller.identity.partition("|")
            machine, pid, _ = (*worker.rsplit("-", 2), "", "")[:3]
            if pid.isdigit() and slots.isdigit():  # it is none of another program
                expires_at = poller.last_access_time.seconds + self._settings.lease
                workers[worker] = FleetWorkerInfo(
                    id=worker, machine=machine, pid=int(pid), slots=int(slots), expires_at=expires_at
                )
        return list(workers.values())

    @on_asyncio
    async def drain_workers(self, worker: str | None, grace: float | None, by: AnswerSource) -> int:
        found = [info.id for info in await self.list_workers() if worker in (None, info.id)]
        for each in found:
            await self._server.ask_to_drain(each, grace, 2 * self._settings.lease)
        return len(found)

    @on_asyncio
    async def list_tenants(self) -> Sequence[FleetTenantInfo]:
        tenants: dict[str, Counter[str]] = {}
        async for s in self._list(find_in()):
            tenants.setdefault(s.tenant, Counter())[s.state] += 1
        limits = await self._server.load_limits()
        return [
            FleetTenantInfo(name=name, limit=limits.get(name), sessions=dict(tenants.get(name, {})))
            for name in sorted({*tenants, *limits})
        ]

    @on_asyncio
    async def set_tenant(self, name: str, limit: int | None, weight: float, by: AnswerSource) -> None:
        if weight != 1:
            raise OptionsError("is not possible on Temporal: tenants take turns", option="weight")
        if self._settings.tenant_limit is None:
            raise OptionsError("is possible on Temporal if the fleet has a tenant_limit", option="limit")
        made = Limit(f"tenant/{name}", self._settings.lease, self._settings.tenant_limit)
        await self._server.signal_limit(made, "set", limit)

    @on_asyncio
    async def unschedule(self, name: str, by: AnswerSource) -> bool:
        client = await self._server.connect()
        with UnlessMissing():
            await client.get_schedule_handle(name).delete()
            return True
        return False

    @on_asyncio
    async def prune(self, store: SessionStore | None, seconds: float, by: AnswerSource) -> int:
        latest = await self._server.find_time() - seconds
        old = [s.id async for s in self._list(find_in(*ENDED)) if s.updated_at <= latest]
        return sum([await prune_session(self._server, session, store, latest) for session in old])

    @on_asyncio
    async def prune_events(self, seconds: float, session: str | None, by: AnswerSource) -> int:
        found, latest = await self._select(session, find_in()), await self._server.find_time() - seconds
        return sum([await prune_logs(self._settings.store, s.conversation, latest) for s in found])

    @on_asyncio
    async def load_audit(self, after: int, session: str | None, actor: str | None) -> Sequence[FleetAuditEntry]:
        if session is None:
            raise FleetError("on Temporal, the audit log is the history of each session: name one with session_id")
        await self._load(session)  # fails if it cannot be decoded
        entries, keys = list[FleetAuditEntry](), set[str]()
        for name, args in await self._server.read_commands(session):
            if name == "send" and args[0] in keys:  # it was sent again
                continue
            keys.update(args[:1] if name == "send" else ())
            at = args[-1]["at"]
            # Not the place in the list, which the server shortens at its beginning.
            number = max(int(at * 1e6), entries[-1].number + 1 if entries else 0)
            details = {"reason": args[0]} if name == "cancel" else {}
            given = {"actor": args[-1]["by"], "origin": args[-1]["origin"], "action": name, "details": details}
            entries.append(FleetAuditEntry(number=number, at=at, session_id=session, **given))
        return [entry for entry in entries if entry.number > after and actor in (None, entry.actor)]

    @on_asyncio
    async def load_metrics(self, agent_limits: Mapping[str, int]) -> FleetMetrics:
        states = {
            state: await self._server.count(find_in(state)) for state in ("queued", "running", "waiting", "failed")
        }
        workers = await self.list_workers()
        return FleetMetrics(
            at=datetime.now(UTC).timestamp(),
            queued={"ready": states["queued"]},
            running=states["running"],
            waiting=states["waiting"],
            failed=states["failed"],
            workers=len(workers),
            slots=sum(worker.slots for worker in workers),
        )

    # Workers ---------------------------------------------------------------------------------------------------------

    def make_worker(self, settings: FleetSettings, **given: Any) -> "_temporal.TemporalWorker":
        return _temporal.TemporalWorker(self._server, self, settings, **given)


def count_prompts(commands: Iterable[tuple[str, Any]]) -> dict[str, int]:
    """Return the numbers of prompts by key, also of those that no worker has seen, from the commands of a run."""
    number, known = 0, dict[str, int]()
    for name, args in commands:
        if name == "start":
            number, known = args[0]["runs"], dict(args[0]["keys"])
        elif name == "send" and args[0] not in known:
            number += 1
            known[args[0]] = number
    return known


async def has_later_run(client: Client, found: WorkflowExecution) -> bool:
    """Return whether a workflow went on in another run, or is gone."""
    with UnlessMissing():
        return (await client.get_workflow_handle(found.id).describe()).run_id != found.run_id
    return True


def find_last_run(s: WorkflowSession) -> int:
    """Return the number of the last prompt that may have events of its own."""
    return s.logged or s.runs


def find_number(s: WorkflowSession, key: str) -> int | None:
    """Return the number of the prompt with a key. Raises FleetError if there is none, and never will be."""
    if key not in s.keys and s.state == "cancelled":
        raise FleetError(f"the session {s.id!r} was cancelled: {s.reason}", session_id=s.id)
    return s.keys.get(key)


def is_at_worker(found: WorkflowExecutionDescription) -> bool:
    """Return whether a worker has the workflow now, or had it when it died: the history lacks what was sent since."""
    state = found.raw_description.pending_workflow_task.state
    return state == PendingWorkflowTaskState.PENDING_WORKFLOW_TASK_STATE_STARTED


def check_size(prompt: object) -> None:
    """Raise OptionsError if a prompt is too long for the server."""
    if len(json.dumps(prompt)) > MAX_PROMPT:
        raise OptionsError(f"must not be longer than {MAX_PROMPT} bytes of JSON: name files instead", option="prompt")


def find_in(*states: str) -> str:
    """Return the query for the sessions in some of the states, by default all. See `CUT_OFF`.

    The run of a workflow that was continued in another one is no session.
    """
    own, cut_off = "ExecutionStatus IN ('Running', 'Completed')", "('Terminated', 'Canceled', 'Failed', 'TimedOut')"
    if states:
        own = f"({own} AND {STATE.name} IN ({', '.join(map(quote, states))}))"
    if not states or "cancelled" in states:
        own = f"({own} OR ExecutionStatus IN {cut_off})"
    return f"WorkflowType = '{WORKFLOW}' AND {own}"


def quote(value: str) -> str:
    """Return a text as a literal of the server's query language. Raises OptionsError."""
    if "'" in value or "\\" in value:
        raise OptionsError("must have no quotation mark and no backslash", option="tenant")
    return f"'{value}'"


def read_info(s: WorkflowSession) -> FleetSessionInfo:
    """Return the record of a session."""
    names = FleetSessionInfo.__dataclass_fields__
    fields: dict[str, Any] = {name: value for name, value in vars(s).items() if name in names}
    return FleetSessionInfo(**fields, cli_session_id=s.conversation)


def name_prompt(conversation: str, key: str) -> str:
    """Return the uuid of a prompt, which is known before a worker has seen it."""
    return str(uuid5(UUID(conversation), key))
