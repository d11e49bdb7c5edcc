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
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from typing import Any, Final

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

from claude_agent_py._base.json_object import JSONObject
from claude_agent_py.fleet._state import ALONE_CRASHES, ENDS, FleetPrompt, SessionRecord, TurnResult, list_retried
from claude_agent_py.fleet._temporal.limits import ACTIVITY_SECONDS, Request

WORKFLOW: Final = "fleet-session"
TURN: Final = "fleet-turn"
FREE: Final = "fleet-free"
ASK: Final = "fleet-ask"
GIVE_BACK: Final = "fleet-give-back"
TELL: Final = "fleet-tell"
MEMO: Final = "session"
"""The memo that has the state."""
KINDS: Final = ("tenant", "agent")
"""What may have a limit. A session first waits for the one of its tenant, so that it keeps no other tenant waiting."""
STATE: Final = SearchAttributeKey.for_keyword("FleetState")
AGENT: Final = SearchAttributeKey.for_keyword("FleetAgent")
TENANT: Final = SearchAttributeKey.for_keyword("FleetTenant")
QUESTIONS: Final = SearchAttributeKey.for_int("FleetQuestions")
"""How many questions of the session are open."""

NEAR_SECONDS: Final = 5.0
"""How long a prompt waits for the machine that has its workspace."""
LONGEST: Final = timedelta(days=30)
TELL_SECONDS: Final = timedelta(minutes=1)
"""How long the store may take to note the end of a prompt that no worker ran to its end."""
FREE_SECONDS: Final = timedelta(minutes=5)
"""How long a cancelled session waits for its machine to remove the workspace."""
KEPT_RUNS: Final = 20
"""How many ended prompts the memo has."""
KEPT_KEYS: Final = 200
"""How many keys of prompts and ids of questions are remembered."""
MAX_STATE: Final = 1_400_000
"""The longest state that a new workflow run begins with, in bytes of JSON. A codec may make it longer."""


@dataclass
class Command:
    """Who gave a command, for the audit log, and what it names."""

    by: str = ""
    origin: str = ""
    prompt_uuid: str = ""
    """The uuid of the prompt that it sends; empty if the workflow chooses one, as in older histories."""


@dataclass
class WorkflowSession(SessionRecord):
    """The state of a session, and what only its workflow needs."""

    asked: list[str] = field(default_factory=list[str])
    """The ids of the latest questions."""
    ticket: int = 0
    """The number of its last request for permits."""
    permits: list[str] = field(default_factory=list[str])
    """The limits of which it has a permit."""
    logged: int = 0
    """The number of the last prompt that has a log of events; 0 before the first, and in one of an earlier release."""
    told: int = -1
    """The number of the last prompt whose end is an event; -1 in a session of an earlier release."""


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
class TurnArgument:
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
    spent_usd: float = 0.0
    """The cost of earlier calls for the prompt."""


@workflow.defn(name=WORKFLOW, versioning_behavior=VersioningBehavior.PINNED)
class SessionWorkflow:
    """A session."""

    @workflow.init
    def __init__(self, session: WorkflowSession, command: Command) -> None:
        self._s = session
        if session.told < 0:
            session.told = max((prompt.number for prompt in session.prompts if prompt.ended_at is not None), default=0)
        self._turn: workflow.ActivityHandle[TurnResult] | None = None
        self._limits: list[str] = []
        """The limits that its prompts need a permit of."""
        self._lease = timedelta()
        self._has_news = True
        """Whether the memo is older than the state."""
        self._shown: tuple[str, int] | None = None
        """What the search attributes say."""
        self._near = True
        """Whether the next attempt asks the machine that has the workspace first."""
        self._is_stopped = False
        """Whether an operator cancelled the workflow."""

    @workflow.run
    async def run(self, session: WorkflowSession, command: Command) -> None:
        """Run the prompts of the session until it is cancelled, or until an operator cancels the workflow."""
        serving = asyncio.create_task(self._serve(command))
        try:
            await asyncio.shield(serving)
        except asyncio.CancelledError:
            if workflow.patched("stop"):
                self._stop()
            else:
                serving.cancel()
            await serving
            raise

    def _stop(self) -> None:
        """Cancel the session because an operator cancels its workflow. Whatever it waits for, it hears of it."""
        self._is_stopped = True
        if self._s.state != "cancelled" and self._s.wanted != "cancel":
            self._s.reason = "its workflow ended: cancelled"
            self._want("cancel")

    async def _serve(self, command: Command) -> None:
        s = self._s
        if not s.id:  # a schedule started it
            s.id, s.conversation = workflow.info().workflow_id, str(workflow.uuid4())
            s.created_at = workflow.time()
            for prompt in s.prompts:
                prompt.uuid = str(workflow.uuid4())
        settings = await workflow.execute_local_activity(
            "fleet-agent", s.agent, result_type=AgentSettings, schedule_to_close_timeout=timedelta(minutes=1)
        )
        s.timeout, s.after_failure, s.max_crashes = settings.timeout, settings.after_failure, settings.max_crashes
        self._limits, self._lease = _name_limits(s, settings.limits), timedelta(seconds=settings.lease)
        for prompt in s.prompts:
            s.set_deadline(prompt, workflow.time())
        showing = asyncio.create_task(self._show_changes())
        while s.state != "cancelled":
            if (current := s.current) is not None:
                await self._advance(current)
            else:
                await workflow.wait_condition(lambda: s.current is not None or s.wanted is not None)
                if s.current is None:
                    s.cancel(workflow.time())
                    self._publish()
            await self._tell_ends()
            is_suggested = workflow.info().is_continue_as_new_suggested()
            # The server refuses a longer state; that of a session with many long prompts gets shorter as they end.
            if is_suggested and s.state != "cancelled" and s.wanted is None and _measure(s) < MAX_STATE:
                await workflow.wait_condition(workflow.all_handlers_finished)
                workflow.continue_as_new(args=[s, command], memo=show(s), search_attributes=attributes(s))
        showing.cancel()
        self._show()
        if s.machine is not None:
            await _remove_workspace(s, s.machine)
        if settings.is_pruned:  # a worker deletes it; the server might do so before, and its conversation stay
            await workflow.wait_condition(lambda: self._is_stopped)
        await workflow.wait_condition(workflow.all_handlers_finished)

    # Commands --------------------------------------------------------------------------------------------------------

    @workflow.signal
    def send(self, key: str, content: Any, timeout: float | None, command: Command) -> None:
        """Add a prompt, unless one with this key is known."""
        s = self._s
        if key in s.keys or s.state == "cancelled":
            return
        s.add(command.prompt_uuid or str(workflow.uuid4()), content, timeout, key, workflow.time())
        if len(s.keys) > KEPT_KEYS:
            del s.keys[next(iter(s.keys))]
        self._publish()

    @workflow.signal
    def answer(self, question: str, reply: Any, command: Command) -> None:
        """Answer a question. The first answer counts."""
        if self._s.answer(question, reply, command.by):
            self._publish()

    @workflow.signal
    def interrupt(self, command: Command) -> None:
        """Interrupt the current prompt."""
        if self._s.current is not None and self._s.wanted is None:
            self._want("interrupt")

    @workflow.signal
    def cancel(self, reason: str, command: Command) -> None:
        """Cancel the session for good."""
        if self._s.wanted != "cancel":
            self._s.reason = reason
            self._want("cancel")

    @workflow.signal
    def retry(self, command: Command) -> None:
        """Queue the prompt that failed again, and those that failed with it."""
        if self._s.state == "failed":
            self._s.told = min(prompt.number for prompt in list_retried(self._s.prompts)) - 1
            self._s.retry(workflow.time())
            self._publish()

    @workflow.signal
    async def permit(self, name: str, ticket: int) -> None:
        """Note a permit, or give it back if it comes too late."""
        if ticket == self._s.ticket:
            self._s.permits.append(name)
        else:
            await self._give_back(ticket)

    def _want(self, what: str) -> None:
        self._s.wanted = what
        if self._turn is not None:
            self._turn.cancel()

    # What the activity asks ------------------------------------------------------------------------------------------

    @workflow.update
    def begin(self, epoch: int, worker: str, machine: str | None, workspace: str | None) -> bool:
        """Note the worker of a call of `run_turn`, and return whether this call is the current one."""
        if not self._is_current(epoch):
            return False
        self._s.machine, self._s.workspace = machine, workspace
        self._s.begin(worker, workflow.time())
        self._publish()
        return True

    @workflow.update
    def ask(self, epoch: int, key: str, record: JSONObject) -> Any:
        """Keep a question, unless one with its key is open, or take its answer. Fails for an earlier call."""
        self._check(epoch)
        s = self._s
        reply = s.ask(key, record, lambda: workflow.uuid4().hex[:12], workflow.time())
        s.asked = list(dict.fromkeys((*s.asked, *(question.id for question in s.questions))))[-KEPT_KEYS:]
        self._publish()
        return reply

    @workflow.update
    def withdraw(self, epoch: int, key: str) -> None:
        """Close a question."""
        self._check(epoch)
        self._s.withdraw(key)
        self._publish()

    @workflow.query
    def wanted(self, epoch: int) -> str | None:
        """Return what the call of `run_turn` should do: `abandon`, `interrupt`, `cancel`, `overdue`, or None."""
        return self._s.wanted if self._is_current(epoch) else "abandon"

    @workflow.query
    def pending(self) -> list[tuple[JSONObject, bool]]:
        """Return the open questions, and whether each is answered."""
        return [(question.record, question.reply is not None) for question in self._s.questions]

    def _is_current(self, epoch: int) -> bool:
        return self._turn is not None and epoch == self._s.epoch

    def _check(self, epoch: int) -> None:
        if not self._is_current(epoch):
            raise ApplicationError("another call runs the turn", type="Lost", non_retryable=True)

    # Prompts ---------------------------------------------------------------------------------------------------------

    async def _advance(self, prompt: FleetPrompt) -> None:
        """Wait until a prompt can go on, and run it once."""
        s = self._s
        if s.state == "waiting":
            await self._wait(lambda: s.state != "waiting", prompt.deadline)
        elif s.not_before > workflow.time():
            await self._wait(lambda: False, min(s.not_before, prompt.deadline or s.not_before))
        s.not_before = 0.0
        if s.wanted is None and prompt.deadline is not None and workflow.time() >= prompt.deadline:
            s.wanted = "overdue"
        if s.wanted is not None:
            s.stop(prompt, workflow.time())
            self._publish()
        elif await self._get_permits(prompt):
            result = await self._run_turn(prompt)
            if result is None:
                s.crash(prompt, workflow.time())
            else:
                s.settle(prompt, result, workflow.time())
                s.told = prompt.number if result.kind in ENDS else s.told  # the worker told it
            self._publish()
            if prompt.ended_at is None and s.state == "queued" and not s.not_before:
                return  # it runs again at once, with its permits
        if s.permits:
            await self._give_back(s.ticket)

    async def _tell_ends(self) -> None:
        """Have the ends of prompts written as events, unless the worker that ran them did so."""
        s = self._s
        ends = [replace(prompt, content=None) for prompt in s.prompts if self._is_untold(prompt)]
        if ends and not s.logged:
            s.logged = ends[0].number
        s.told = max([s.told, *(prompt.number for prompt in ends)])  # first: `retry` may come meanwhile
        if ends and workflow.patched("tell"):
            s.epoch += 1
            with contextlib.suppress(ActivityError):  # the store is away
                await workflow.execute_local_activity(
                    TELL, args=[s.conversation, s.epoch, ends], schedule_to_close_timeout=TELL_SECONDS
                )

    def _is_untold(self, prompt: FleetPrompt) -> bool:
        return prompt.ended_at is not None and prompt.number > self._s.told

    async def _get_permits(self, prompt: FleetPrompt) -> bool:
        """Wait for the permits that a prompt needs. Return False if a command or its deadline came first."""
        s = self._s
        for name in [] if s.permits else self._limits:
            is_limited = await workflow.execute_local_activity(
                ASK, args=[name, Request(s.id, s.ticket, s.priority)], start_to_close_timeout=ACTIVITY_SECONDS
            )
            if is_limited and name not in s.permits and s.wanted is None:
                s.reason = f"the limit of {name} is reached"
                self._publish()
                await self._wait(lambda name=name: name in s.permits, prompt.deadline)
            if s.wanted is not None or (is_limited and name not in s.permits):
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
            await workflow.wait_condition(lambda: condition() or self._s.wanted is not None, timeout=timeout)

    async def _run_turn(self, prompt: FleetPrompt) -> TurnResult | None:
        """Run an activity. Return None if its worker died."""
        s = self._s
        s.epoch, s.logged = s.epoch + 1, max(s.logged, prompt.number)
        s.state = "queued"
        is_alone = prompt.crashes >= ALONE_CRASHES
        is_near = self._near and s.machine is not None and s.workspace is not None and not is_alone
        queue = f"{s.agent}/alone" if is_alone else f"{s.agent}@{s.machine}" if is_near else s.agent
        turn = TurnArgument(
            session=s.id,
            agent=s.agent,
            conversation=s.conversation,
            epoch=s.epoch,
            run=prompt.number,
            uuid=prompt.uuid,
            content=prompt.content,
            attempt=prompt.attempts + 1,
            is_alone=is_alone,
            spent_usd=prompt.spent_usd,
        )
        self._turn = workflow.start_activity(
            TURN,
            turn,
            result_type=TurnResult,
            task_queue=queue,
            schedule_to_start_timeout=timedelta(seconds=NEAR_SECONDS) if is_near else None,
            start_to_close_timeout=LONGEST,
            heartbeat_timeout=self._lease,
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
        except asyncio.CancelledError:
            if s.wanted is None:
                raise
            result = TurnResult("later")  # it ended at the moment at which it was cancelled
        finally:
            self._turn = None
            if overdue is not None:
                overdue.cancel()
        self._near = result.kind != "busy"
        return result

    async def _expire(self, deadline: float) -> None:
        await workflow.sleep(max(0.0, deadline - workflow.time()))
        if self._s.wanted is None:
            self._want("overdue")

    async def _show_changes(self) -> None:
        """Show the state, once after all that a message of the server changed."""
        while True:
            await workflow.wait_condition(lambda: self._has_news)
            self._show()

    def _publish(self) -> None:
        """Note that the state has changed, and drop what nobody needs of prompts that have ended."""
        s = self._s
        self._has_news, s.updated_at = True, workflow.time()
        ended = [prompt for prompt in s.prompts if prompt.ended_at is not None]
        if not workflow.patched("drop"):  # what is kept decides whether the workflow continues in another run
            for prompt in ended:
                if prompt.state != "failed" or s.state != "failed":
                    prompt.content = None
            for prompt in [each for each in ended if each.state != "failed"][:-KEPT_RUNS]:
                s.prompts.remove(prompt)
            return
        retried = list_retried(s.prompts) if s.state == "failed" else []
        unneeded = [prompt for prompt in ended if prompt not in retried]
        for prompt in unneeded:
            prompt.content = None
        for prompt in unneeded[:-KEPT_RUNS]:
            if not self._is_untold(prompt):
                s.prompts.remove(prompt)

    def _show(self) -> None:
        """Write the state where it is read without a worker."""
        s = self._s
        self._has_news = False
        # An operator may move the session to another version.
        deployment = workflow.info().get_current_deployment_version()
        s.version = deployment.build_id if deployment is not None else s.version
        shown = (s.state, len(s.unanswered))
        if shown != self._shown:
            self._shown = shown
            workflow.upsert_search_attributes([STATE.value_set(shown[0]), QUESTIONS.value_set(shown[1])])
        workflow.upsert_memo(show(s))


async def _remove_workspace(session: SessionRecord, machine: str) -> None:
    with contextlib.suppress(ActivityError):  # no worker of that machine lives
        await workflow.execute_activity(
            FREE,
            args=[session.id, session.conversation],
            task_queue=f"{session.agent}@{machine}",
            schedule_to_start_timeout=FREE_SECONDS,
            start_to_close_timeout=FREE_SECONDS,
            retry_policy=RetryPolicy(maximum_attempts=1),
        )


def _name_limits(session: SessionRecord, kinds: Sequence[str]) -> list[str]:
    return [f"{kind}/{getattr(session, kind)}" for kind in kinds]


def _measure(session: SessionRecord) -> int:
    return len(json.dumps(asdict(session)))


def attributes(session: SessionRecord) -> TypedSearchAttributes:
    """Return what sessions can be searched by."""
    pairs: list[SearchAttributePair[Any]] = [
        SearchAttributePair(STATE, session.state),
        SearchAttributePair(AGENT, session.agent),
        SearchAttributePair(TENANT, session.tenant),
        SearchAttributePair(QUESTIONS, len(session.unanswered)),
    ]
    return TypedSearchAttributes(pairs)


def show(session: WorkflowSession) -> JSONObject:
    """Return the memo of a session: its state without prompts and answers, for those who read without a worker."""
    prompts = [replace(prompt, content=None) for prompt in session.prompts]
    return {MEMO: replace(session, prompts=prompts, questions=session.unanswered)}
