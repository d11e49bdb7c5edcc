"""`SessionWorkflow`: a session as a workflow of Temporal.

Its prompts run in order, each as one activity, which calls `run_turn`. The activity is never retried by the server: the
workflow counts crashes, so that poison, outages and rate limits are different things. Commands are signals, which the
server keeps while no worker lives. Everything that is read without a worker is in the memo and the search attributes.

The code must stay deterministic for sessions that live for weeks: a change of the order of its commands needs
`workflow.patched`, and the histories in `tests/fleet/histories` must replay.
"""

import asyncio
import contextlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import Any, Final
from uuid import UUID, uuid5

from temporalio import workflow
from temporalio.common import (
    Priority,
    RetryPolicy,
    SearchAttributeKey,
    SearchAttributePair,
    TypedSearchAttributes,
    VersioningBehavior,
)
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    CancelledError,
    TimeoutError as TemporalTimeoutError,
    TimeoutType,
)

from claude_agent_py.fleet._temporal.limits import ACTIVITY_SECONDS, Request

WORKFLOW: Final = "fleet-session"
TURN: Final = "fleet-turn"
FREE: Final = "fleet-free"
ASK: Final = "fleet-ask"
GIVE_BACK: Final = "fleet-give-back"
KINDS: Final = ("tenant", "agent")
"""What may have a limit. A session first waits for the one of its tenant, so that it keeps no other tenant waiting."""
STATE: Final = SearchAttributeKey.for_keyword("FleetState")
AGENT: Final = SearchAttributeKey.for_keyword("FleetAgent")
TENANT: Final = SearchAttributeKey.for_keyword("FleetTenant")
QUESTIONS: Final = SearchAttributeKey.for_int("FleetQuestions")
"""How many questions of the session are open."""

ALONE_CRASHES: Final = 2
"""After so many crashes, a prompt runs with no other in its process."""
NEAR_SECONDS: Final = 5.0
"""How long a prompt waits for the machine that has its workspace."""
LONGEST: Final = timedelta(days=30)
FREE_SECONDS: Final = timedelta(minutes=5)
"""How long a cancelled session waits for its machine to remove the workspace."""
KEPT_RUNS: Final = 20
"""How many ended prompts the memo has."""
KEPT_KEYS: Final = 200
"""How many keys of prompts and ids of questions are remembered."""
MAX_STATE: Final = 1_400_000
"""The longest state that a new workflow run begins with, in bytes of JSON. A codec may make it longer."""
OVERDUE: Final = "it was not answered in time"


@dataclass
class Command:
    """Who gave a command, for the audit log, and what it names."""

    by: str = ""
    origin: str = ""
    prompt_uuid: str = ""
    """The uuid of the prompt that it sends; empty if the workflow chooses one, as in older histories."""


@dataclass
class Prompt:
    """A prompt, and what became of it."""

    number: int
    uuid: str
    content: Any = None
    """Dropped once the prompt has ended."""
    timeout: float | None = None
    deadline: float | None = None
    """In seconds since the epoch, by the clock of the server."""
    state: str = "queued"
    attempts: int = 0
    crashes: int = 0
    started_at: float | None = None
    ended_at: float | None = None
    result: dict[str, Any] = field(default_factory=dict)
    """The fields of `FleetOutcome` that the turn gives."""


@dataclass
class Question:
    """An open question: a `QuestionRecord`, and its answer."""

    id: str
    key: str
    record: dict[str, Any]
    created_at: float
    reply: Any = None
    """None until it is answered. The question goes once the answer is taken."""


@dataclass
class Session:
    """The state of a session, which also begins its next workflow run."""

    id: str
    agent: str
    conversation: str
    tenant: str = ""
    priority: int = 0
    created_at: float = 0.0
    updated_at: float = 0.0
    state: str = "queued"
    reason: str | None = None
    version: str = ""
    machine: str | None = None
    workspace: str | None = None
    worker: str | None = None
    not_before: float = 0.0
    epoch: int = 0
    """The number of calls of `run_turn`."""
    runs: int = 0
    prompts: list[Prompt] = field(default_factory=list[Prompt])
    """Those that have not ended, and the last ones that have."""
    questions: list[Question] = field(default_factory=list[Question])
    asked: list[str] = field(default_factory=list[str])
    """The ids of the latest questions."""
    keys: dict[str, int] = field(default_factory=dict[str, int])
    """The numbers of the latest prompts by key."""
    crashes: int = 0
    """How many workers died in this session."""
    ticket: int = 0
    """The number of its last request for permits."""
    permits: list[str] = field(default_factory=list[str])
    """The limits of which it has a permit."""


@dataclass
class AgentSettings:
    """What a workflow knows of its agent. The worker has the rest."""

    timeout: float | None
    after_failure: str
    lease: float
    max_crashes: int
    limits: list[str] = field(default_factory=list[str])
    """Which of `KINDS` have a limit."""
    is_pruned: bool = False
    """Whether workers delete sessions that have ended, with their conversations."""


@dataclass
class Turn:
    """The argument of the activity."""

    session: str
    agent: str
    conversation: str
    epoch: int
    run: int
    uuid: str
    content: Any
    attempt: int
    is_alone: bool
    workspace: str | None


@dataclass
class TurnResult:
    """What the activity returns: the kind of a `TurnOutcome`, its fields, and the fields of `FleetOutcome`."""

    kind: str
    """That of the outcome; or `busy`: the worker had no room."""
    pause: float = 0.0
    is_attempt: bool = False
    reason: str = ""
    result: dict[str, Any] = field(default_factory=dict)


@workflow.defn(name=WORKFLOW, versioning_behavior=VersioningBehavior.PINNED)
class SessionWorkflow:
    """A session."""

    @workflow.init
    def __init__(self, session: Session, command: Command) -> None:
        self._s = session
        self._wanted: str | None = None
        """`interrupt`, `cancel` or `overdue`, until the current prompt has heard of it."""
        self._turn: workflow.ActivityHandle[TurnResult] | None = None
        self._settings: AgentSettings | None = None
        self._has_news = True
        """Whether the memo is older than the state."""
        self._shown: tuple[str, int] | None = None
        """What the search attributes say."""
        self._near = True
        """Whether the next attempt asks the machine that has the workspace first."""

    @workflow.run
    async def run(self, session: Session, command: Command) -> None:
        """Run the prompts of the session until it is cancelled."""
        s = self._s
        if not s.id:  # a schedule started it
            s.id, s.conversation = workflow.info().workflow_id, str(workflow.uuid4())
            s.created_at = workflow.time()
            for prompt in s.prompts:
                prompt.uuid = str(workflow.uuid4())
        settings = self._settings = await workflow.execute_local_activity(
            "fleet-agent", s.agent, result_type=AgentSettings, schedule_to_close_timeout=timedelta(minutes=1)
        )
        deployment = workflow.info().get_current_deployment_version()
        s.version = deployment.build_id if deployment is not None else s.version
        for prompt in s.prompts:
            self._set_deadline(prompt)
        showing = asyncio.create_task(self._show_changes())
        while s.state != "cancelled":
            current = self._find_next()
            if current is None:
                await self._rest("failed" if s.state == "failed" else "idle")
            else:
                await self._advance(current)
            is_suggested = workflow.info().is_continue_as_new_suggested()
            # The server refuses a longer state; that of a session with many long prompts gets shorter as they end.
            if is_suggested and s.state != "cancelled" and self._wanted is None and _measure(s) < MAX_STATE:
                await workflow.wait_condition(workflow.all_handlers_finished)
                workflow.continue_as_new(args=[s, command], memo=show(s), search_attributes=attributes(s))
        showing.cancel()
        self._show()
        if s.machine is not None:
            await self._remove_workspace(s.machine)
        if settings.is_pruned:  # a worker deletes it; the server might do so before, and its conversation stay
            await workflow.wait_condition(lambda: False)
        await workflow.wait_condition(workflow.all_handlers_finished)

    async def _remove_workspace(self, machine: str) -> None:
        s = self._s
        with contextlib.suppress(ActivityError):  # no worker of that machine lives
            await workflow.execute_activity(
                FREE,
                args=[s.id, s.conversation],
                task_queue=f"{s.agent}@{machine}",
                schedule_to_start_timeout=FREE_SECONDS,
                start_to_close_timeout=FREE_SECONDS,
                retry_policy=RetryPolicy(maximum_attempts=1),
            )

    # Commands --------------------------------------------------------------------------------------------------------

    @workflow.signal
    def send(self, key: str, content: Any, timeout: float | None, command: Command) -> None:
        """Add a prompt, unless one with this key is known."""
        s = self._s
        if key in s.keys or s.state == "cancelled":
            return
        s.runs += 1
        prompt = Prompt(s.runs, command.prompt_uuid or str(workflow.uuid4()), content, timeout)
        if self._settings is not None:
            self._set_deadline(prompt)
        s.prompts.append(prompt)
        _remember(s.keys, key, s.runs)
        if s.state == "failed":
            s.state = "queued"
        self._publish()

    @workflow.signal
    def answer(self, question: str, reply: Any, command: Command) -> None:
        """Answer a question. The first answer counts."""
        for asked in self._s.questions:
            if asked.id == question and asked.reply is None:
                asked.reply = reply
                self._publish()

    @workflow.signal
    def interrupt(self, command: Command) -> None:
        """Interrupt the current prompt."""
        if self._find_next() is not None and self._wanted is None:
            self._want("interrupt")

    @workflow.signal
    def cancel(self, reason: str, command: Command) -> None:
        """Cancel the session for good."""
        if self._wanted != "cancel":
            self._s.reason = reason
            self._want("cancel")

    @workflow.signal
    def retry(self, command: Command) -> None:
        """Queue the prompt that failed again, and those that failed with it."""
        s = self._s
        if s.state != "failed":
            return
        for prompt in reversed(s.prompts):
            if prompt.state != "failed" or prompt.content is None:
                break
            is_first = prompt.result.get("error") != "EarlierPromptFailed"
            # The conversation may have the prompt, which gets an answer only if it is sent anew.
            prompt.uuid = str(uuid5(UUID(prompt.uuid), "retry"))
            prompt.state, prompt.attempts, prompt.crashes, prompt.result = "queued", 0, 0, {}
            prompt.deadline = None
            self._set_deadline(prompt)
            if is_first:
                break
        s.state, s.reason = "queued", None
        self._publish()

    @workflow.signal
    async def permit(self, name: str, ticket: int) -> None:
        """Note a permit, or give it back if it comes too late."""
        if ticket == self._s.ticket:
            self._s.permits.append(name)
        else:
            await self._give_back(ticket)

    def _want(self, what: str) -> None:
        self._wanted = what
        if self._turn is not None:
            self._turn.cancel()

    # What the activity asks ------------------------------------------------------------------------------------------

    @workflow.update
    def begin(self, epoch: int, worker: str, machine: str, workspace: str | None) -> bool:
        """Note the worker of a call of `run_turn`, and return whether this call is the current one."""
        if not self._is_current(epoch):
            return False
        s = self._s
        s.state, s.worker, s.machine, s.workspace, s.reason = "running", worker, machine, workspace, None
        prompt = self._find_next()
        if prompt is not None:
            prompt.state = "running"
            prompt.started_at = prompt.started_at or workflow.time()
        self._publish()
        return True

    @workflow.update
    def ask(self, epoch: int, key: str, record: dict[str, Any]) -> Any:
        """Keep a question, unless one with its key is open, or take its answer. Fails for an earlier call."""
        self._check(epoch)
        s = self._s
        asked = next((question for question in s.questions if question.key == key), None)
        if asked is None:
            asked = Question(str(workflow.uuid4()).replace("-", "")[:12], key, record, workflow.time())
            s.questions.append(asked)
            s.asked = [*s.asked, asked.id][-KEPT_KEYS:]
        elif asked.reply is not None:
            s.questions.remove(asked)
        self._publish()
        return asked.reply

    @workflow.update
    def withdraw(self, epoch: int, key: str) -> None:
        """Close a question."""
        self._check(epoch)
        self._s.questions = [question for question in self._s.questions if question.key != key]
        self._publish()

    @workflow.query
    def wanted(self, epoch: int) -> str | None:
        """Return what the call of `run_turn` should do: `abandon`, `interrupt`, `cancel`, `overdue`, or None."""
        return self._wanted if self._is_current(epoch) else "abandon"

    @workflow.query
    def pending(self) -> list[tuple[dict[str, Any], bool]]:
        """Return the open questions, and whether each is answered."""
        return [(question.record, question.reply is not None) for question in self._s.questions]

    def _is_current(self, epoch: int) -> bool:
        return self._turn is not None and epoch == self._s.epoch

    def _check(self, epoch: int) -> None:
        if not self._is_current(epoch):
            raise ApplicationError("another call runs the turn", type="Lost", non_retryable=True)

    # Prompts ---------------------------------------------------------------------------------------------------------

    def _find_next(self) -> Prompt | None:
        return next((prompt for prompt in self._s.prompts if prompt.state in ("queued", "running")), None)

    def _set_deadline(self, prompt: Prompt) -> None:
        assert self._settings is not None  # noqa: S101 - loaded at first
        if prompt.timeout is None:
            prompt.timeout = self._settings.timeout
        if prompt.timeout is not None and prompt.deadline is None:
            prompt.deadline = workflow.time() + prompt.timeout

    async def _rest(self, state: str) -> None:
        """Wait for the next prompt, or for the end."""
        if self._s.state != state:
            self._s.state = state
            self._s.worker = None
            self._publish()
        await workflow.wait_condition(lambda: self._find_next() is not None or self._wanted is not None)
        if self._wanted == "cancel":
            self._end_session()
        elif self._find_next() is None:
            self._wanted = None

    async def _advance(self, prompt: Prompt) -> None:
        """Wait until a prompt can go on, and run it once."""
        s = self._s
        if s.state == "waiting":
            await self._wait(lambda: all(q.reply is not None for q in s.questions), prompt.deadline)
        elif s.not_before > workflow.time():
            await self._wait(lambda: False, min(s.not_before, prompt.deadline or s.not_before))
        s.not_before = 0.0
        if self._wanted is None and prompt.deadline is not None and workflow.time() >= prompt.deadline:
            self._wanted = "overdue"
        if self._wanted is not None:
            self._stop(prompt)
        elif await self._get_permits(prompt):
            self._settle(prompt, await self._run_turn(prompt))
            if prompt.state == "queued" and s.state == "queued" and not s.not_before:
                return  # it runs again at once, with its permits
        if s.permits:
            await self._give_back(s.ticket)

    async def _get_permits(self, prompt: Prompt) -> bool:
        """Wait for the permits that a prompt needs. Return False if a command or its deadline came first."""
        s = self._s
        assert self._settings is not None  # noqa: S101 - loaded at first
        for name in [] if s.permits else _name_limits(s, self._settings.limits):
            is_limited = await workflow.execute_local_activity(
                ASK, args=[name, Request(s.id, s.ticket, s.priority)], start_to_close_timeout=ACTIVITY_SECONDS
            )
            if is_limited and name not in s.permits:
                s.reason = f"the limit of {name} is reached"
                self._publish()
                await self._wait(lambda name=name: name in s.permits, prompt.deadline)
            if self._wanted is not None or (is_limited and name not in s.permits):
                await self._give_back(s.ticket)
                return False
        return True

    async def _give_back(self, ticket: int) -> None:
        """Give the permits of a request back, also those that may still come."""
        s = self._s
        if ticket == s.ticket:
            s.ticket, s.permits = ticket + 1, []
        await workflow.execute_local_activity(
            GIVE_BACK, args=[_name_limits(s, KINDS), s.id, ticket], start_to_close_timeout=ACTIVITY_SECONDS
        )

    async def _wait(self, condition: Any, until: float | None) -> None:
        """Wait for a condition, a command, or a time."""
        timeout = None if until is None else timedelta(seconds=max(0.0, until - workflow.time()))
        with contextlib.suppress(TimeoutError):
            await workflow.wait_condition(lambda: condition() or self._wanted is not None, timeout=timeout)

    async def _run_turn(self, prompt: Prompt) -> TurnResult | None:
        """Run an activity. Return None if its worker died."""
        s, settings = self._s, self._settings
        assert settings is not None  # noqa: S101 - loaded at first
        s.epoch += 1
        s.state = "queued"
        is_alone = prompt.crashes >= ALONE_CRASHES
        is_near = self._near and s.machine is not None and s.workspace is not None and not is_alone
        queue = f"{s.agent}/alone" if is_alone else f"{s.agent}@{s.machine}" if is_near else s.agent
        turn = Turn(
            session=s.id,
            agent=s.agent,
            conversation=s.conversation,
            epoch=s.epoch,
            run=prompt.number,
            uuid=prompt.uuid,
            content=prompt.content,
            attempt=prompt.attempts + 1,
            is_alone=is_alone,
            workspace=s.workspace,
        )
        self._turn = workflow.start_activity(
            TURN,
            turn,
            result_type=TurnResult,
            task_queue=queue,
            schedule_to_start_timeout=timedelta(seconds=NEAR_SECONDS) if is_near else None,
            start_to_close_timeout=LONGEST,
            heartbeat_timeout=timedelta(seconds=settings.lease),
            retry_policy=RetryPolicy(maximum_attempts=1),
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            priority=Priority(priority_key=max(1, min(5, 3 - s.priority)), fairness_key=s.tenant[:64] or None),
        )
        self._publish()
        overdue = None
        if prompt.deadline is not None:
            overdue = asyncio.create_task(self._expire(prompt.deadline))
        try:
            result = await self._turn
        except ActivityError as error:
            cause = error.cause
            if isinstance(cause, CancelledError):
                result = TurnResult("later")
            elif not isinstance(cause, TemporalTimeoutError):
                result = TurnResult("later", 1.0, True, str(cause))
            elif cause.type == TimeoutType.SCHEDULE_TO_START:
                result = TurnResult("busy")
            else:
                return None
        finally:
            self._turn = None
            if overdue is not None:
                overdue.cancel()
        self._near = result.kind != "busy"
        return result

    async def _expire(self, deadline: float) -> None:
        await workflow.sleep(max(0.0, deadline - workflow.time()))
        if self._wanted is None:
            self._want("overdue")

    def _settle(self, prompt: Prompt, result: TurnResult | None) -> None:
        """Note what became of a prompt."""
        s = self._s
        s.worker = None
        if result is None:
            self._note_crash(prompt)
        elif result.kind in ("done", "interrupted"):
            if self._wanted == "interrupt":
                self._wanted = None
            self._end(prompt, "done" if result.kind == "done" else "cancelled", result.result)
        elif result.kind == "failed":
            self._fail(prompt, result.result)
        elif self._wanted is not None:
            self._stop(prompt)
        elif result.kind == "waiting":
            s.state = "waiting"
        else:
            prompt.attempts += result.is_attempt
            s.not_before = workflow.time() + result.pause if result.pause else 0.0
            s.reason = result.reason or None
        if prompt.state == "running":
            prompt.state = "queued"
            s.state = "queued" if s.state == "running" else s.state
        self._publish()

    def _note_crash(self, prompt: Prompt) -> None:
        """Note that the worker of a prompt died."""
        assert self._settings is not None  # noqa: S101 - loaded at first
        prompt.crashes += 1
        self._s.crashes += 1
        if prompt.crashes >= self._settings.max_crashes:
            reason = f"{prompt.crashes} workers died while they ran it"
            self._fail(prompt, {"error": "WorkerDied", "reason": reason})
        elif self._wanted is not None:
            self._stop(prompt)

    def _stop(self, prompt: Prompt) -> None:
        """End a prompt, or the session, because somebody wants it, or because of its deadline."""
        wanted, self._wanted = self._wanted, None
        if wanted == "cancel":
            self._end_session()
        elif wanted == "overdue":
            self._fail(prompt, {"error": "RunTimeoutError", "reason": OVERDUE})
        else:
            self._end(prompt, "cancelled", {"error": "InterruptedRunError", "reason": "interrupted"})

    def _end(self, prompt: Prompt, state: str, result: dict[str, Any]) -> None:
        s = self._s
        prompt.state, prompt.result, prompt.ended_at = state, result, workflow.time()
        if state != "failed":
            prompt.content = None
        s.questions = []
        s.state, s.reason = "queued", None
        ended = [old for old in s.prompts if old.ended_at is not None and old.state != "failed"]
        for old in ended[:-KEPT_RUNS]:
            s.prompts.remove(old)
        self._publish()

    def _fail(self, prompt: Prompt, result: dict[str, Any]) -> None:
        """End a prompt that failed for good, and perhaps those behind it."""
        s = self._s
        self._end(prompt, "failed", result)
        if self._settings is not None and self._settings.after_failure == "fail":
            while (behind := self._find_next()) is not None:
                reason = f"prompt {prompt.number} failed: {result.get('reason', '')}"
                self._end(behind, "failed", {"error": "EarlierPromptFailed", "reason": reason})
        if self._find_next() is None:
            s.state = "failed"
            s.reason = ": ".join(part for part in (result.get("error"), result.get("reason")) if part)
        else:  # what failed before a prompt that runs is not retried
            for old in s.prompts:
                if old.state == "failed":
                    old.content = None
        self._publish()

    def _end_session(self) -> None:
        s = self._s
        reason = s.reason or "cancelled"
        while (prompt := self._find_next()) is not None:
            self._end(prompt, "cancelled", {"error": "", "reason": reason})
        s.state, s.reason, s.worker = "cancelled", reason, None
        self._wanted = None
        self._publish()

    async def _show_changes(self) -> None:
        """Show the state, once after all that a message of the server changed."""
        while True:
            await workflow.wait_condition(lambda: self._has_news)
            self._show()

    def _publish(self) -> None:
        """Note that the state has changed."""
        self._has_news = True
        self._s.updated_at = workflow.time()

    def _show(self) -> None:
        """Write the state where it is read without a worker."""
        s = self._s
        self._has_news = False
        shown = (s.state, sum(question.reply is None for question in s.questions))
        if shown != self._shown:
            self._shown = shown
            workflow.upsert_search_attributes([STATE.value_set(shown[0]), QUESTIONS.value_set(shown[1])])
        workflow.upsert_memo(show(s))


def _name_limits(session: Session, kinds: Sequence[str]) -> list[str]:
    return [f"{kind}/{getattr(session, kind)}" for kind in kinds]


def _measure(session: Session) -> int:
    return len(json.dumps(asdict(session)))


def attributes(session: Session) -> TypedSearchAttributes:
    """Return what sessions can be searched by."""
    pairs: list[SearchAttributePair[Any]] = [
        SearchAttributePair(STATE, session.state),
        SearchAttributePair(AGENT, session.agent),
        SearchAttributePair(TENANT, session.tenant),
        SearchAttributePair(QUESTIONS, sum(question.reply is None for question in session.questions)),
    ]
    return TypedSearchAttributes(pairs)


def show(session: Session) -> dict[str, Any]:
    """Return the memo of a session: its state, for those who read without a worker."""
    hidden = ("prompts", "questions", "asked", "keys", "conversation")
    info = {name: value for name, value in vars(session).items() if name not in hidden}
    return {
        "info": {**info, "cli_session_id": session.conversation},
        "runs": [{name: value for name, value in vars(run).items() if name != "content"} for run in session.prompts],
        "questions": [vars(question) for question in session.questions if question.reply is None],
        "asked": session.asked,
        "keys": session.keys,
    }


def _remember(table: dict[str, int], key: str, value: int) -> None:
    table[key] = value
    if len(table) > KEPT_KEYS:
        del table[next(iter(table))]
