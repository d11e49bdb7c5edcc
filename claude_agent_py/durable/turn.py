"""`run_turn`: runs one prompt of a session, or continues it, or returns its outcome if an earlier call has run it."""

import json
import os
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import anyio
from anyio.abc import TaskGroup

from claude_agent_py._base.callbacks import Callback
from claude_agent_py._base.checks import is_uuid
from claude_agent_py._base.event_loop import run_file_work, run_to_its_end
from claude_agent_py._base.json_object import JSONMapping, JSONObject
from claude_agent_py._base.log import logger
from claude_agent_py.client import Client
from claude_agent_py.durable._inbox import DeskInbox
from claude_agent_py.durable.deltas import Delta
from claude_agent_py.durable.desk import Desk, MemoryDesk
from claude_agent_py.durable.held_store import HOLDER, HeldStore
from claude_agent_py.durable.outcomes import Done, Failed, Interrupted, Later, Lost, TurnOutcome, Waiting
from claude_agent_py.durable.progress import Progress, read_noted_cost, read_progress
from claude_agent_py.durable.prompt_tools import CallResult, add_tools, find_unrun_call, read_result, record_call
from claude_agent_py.durable.questions import DeskError, Questions
from claude_agent_py.durable.reporting import Reports
from claude_agent_py.durable.stopping import TurnStop
from claude_agent_py.errors import (
    ClaudeAgentError,
    CLIError,
    ConnectionClosedError,
    InterruptedRunError,
    MaxTurnsError,
    OptionsError,
    PromptCancelledError,
    RateLimitedError,
    RunFailed,
    SessionInUseError,
    SessionLeasedError,
    StaleLeaseError,
    StoreError,
)
from claude_agent_py.hooks import HookMatcher, Hooks, PreToolUseInput
from claude_agent_py.journal import Fact
from claude_agent_py.messages import PromptContent, check_keeps_conversation, check_prompt
from claude_agent_py.options import ClientOptions
from claude_agent_py.permissions import Inbox, PermissionContext, QuestionRecord
from claude_agent_py.retrying import RetryPolicy
from claude_agent_py.runs import Run, RunResult
from claude_agent_py.sessions import SessionStore, deliver_session, push
from claude_agent_py.tools import ToolContext

OWN_OPTIONS: Final = ("session_store", "session_id", "resume", "continue_conversation", "fork_session")
"""Options that `run_turn` sets."""
PUSH_SECONDS: Final = 600.0
"""How many seconds to keep sending entries that the store rejected."""
PUSH_PAUSE: Final = 1.0
LEASE_SECONDS: Final = 30.0
"""The longest pause while another process holds the lease of the session."""
RELEASE_SECONDS: Final = 2.0
LEAVE_SECONDS: Final = 10.0
"""How many seconds to wait for the store to have the call of a question."""
OUTAGE_PAUSE: Final = 3
"""After an outage, the pause is that after so many attempts."""
LIMIT_PAUSE: Final = 7
"""After a rate limit that does not say when it ends, the pause is that after so many attempts: up to a minute."""
COST_SECONDS: Final = 2.0
"""How many seconds the CLI gets to say what it has spent, before it is ended."""
LISTENER_SECONDS: Final = 10.0
LOOKS: Final = 3
"""How often a call decides anew because the store has more of the prompt than it had before the process started."""
UNWANTED: Final = "the engine has begun another call"
RESUME_PROMPT: Final = (
    "You were interrupted while waiting for a person's answer, which has now arrived. Continue where you left off: "
    "repeat the pending calls to receive the answers."
)
RESUME_CALLS: Final = " Repeat them with exactly this input, because the answers belong to these calls:"
"""A resumed CLI (2.1.328) does not ask again for a call that waited for an answer: the model has to repeat it."""
CONTINUE_PROMPT: Final = "Continue from where you left off."
"""The CLI's own prompt for an interrupted turn, which it gives once: not if the API fails again."""
MAX_RESUME_CHARS: Final = 16_000
"""The maximum length of the listed calls. An environment variable holds at most 128 KiB."""


async def run_turn(
    options: ClientOptions,
    *,
    store: SessionStore,
    session_id: str,
    prompt_id: str,
    prompt: PromptContent,
    desk: Desk | None = None,
    patience: float = 5.0,
    attempt: int = 1,
    retry: RetryPolicy | None = None,
    stop: TurnStop | None = None,
    on_fact: Callable[[Fact], object] | None = None,
    on_delta: Callable[[Delta], object] | None = None,
    until: Literal["result", "idle"] = "result",
    tools: Sequence[JSONMapping] = (),
    project: str = "durable",
) -> TurnOutcome:
    """Run one prompt of a session. May be called again with the same arguments, after a crash and after any outcome.

    The store says what is left to do: a prompt that is answered is not sent again, and an interrupted turn continues. A
    later call takes the session from an earlier one, which then cannot write to a store with leases any more. A session
    answers one prompt at a time: call it for the next prompt once the last one has ended.

    Args:
        options: The options of the session. The budget `max_budget_usd` is the session's.
        store: Keeps the conversation.
        session_id: The id of the session, a UUID of your choice.
        prompt_id: The id of the prompt, another UUID of your choice.
        prompt: The prompt.
        desk: Keeps the questions to a person. None leaves them to the handlers in `options`.
        patience: Seconds to wait for an answer before the process ends and the outcome is `Waiting`.
        attempt: One more than the number of earlier outcomes with `Later.is_attempt`.
        retry: Says how many attempts there are, which errors are worth one, and the pauses between them.
        stop: Interrupts, releases or abandons the turn.
        on_fact: Called with every fact of the session's journal, in order; its errors are logged. If another process
            continues the turn, it is not told that the turn and its calls have ended with this one.
        on_delta: Called with what the model writes while it writes it, in order with the facts, if the options have
            `include_partial_messages`; its errors are logged.
        until: `idle` also waits for background tasks and their follow-up turns.
        tools: Tools for this prompt, as MCP defines them: each with `name`, `description` and `inputSchema`. The model
            sees `mcp__frontend__<name>`. A call is an elicitation at the desk, which they need, whose subject has the
            `call`; `Accept({"result": ..., "is_error": False})` answers it.
        project: The project of the session in the store.

    Returns:
        The outcome. Errors of the CLI, the store and the desk are outcomes, too.

    Raises:
        OptionsError: An argument is invalid.

    Cancelling kills the process; the next call continues the turn.
    """
    _check_own_options(options)
    _check_uuids(session_id=session_id, prompt_id=prompt_id)
    if until not in ("result", "idle"):
        raise OptionsError(f"must be 'result' or 'idle', not {until!r}", option="until")
    check_prompt(prompt)
    if tools and desk is None:
        raise OptionsError("need a `desk`, which answers their calls", option="tools")
    options.replace(session_store=store, session_store_project=project)  # refuses what does not go with a store
    return await _DurableTurn(
        options=options,
        tools=tools,
        store=HeldStore(store, {"project_key": project, "session_id": session_id}, options.load_timeout),
        prompt_id=prompt_id,
        prompt=prompt,
        questions=Questions(desk or MemoryDesk(), patience, session_id),
        has_desk=desk is not None and not isinstance(options.interactions, Inbox),
        attempt=attempt,
        retry=retry or RetryPolicy(),
        stop=stop or TurnStop(),
        reports=Reports(on_fact, on_delta if options.include_partial_messages else None),
        until=until,
    ).run()


def _check_own_options(options: ClientOptions) -> None:
    for name in OWN_OPTIONS:
        if getattr(options, name):
            raise OptionsError("must not be set: run_turn sets it", option=name)


def _check_uuids(**values: object) -> None:
    """Raise OptionsError if an option is not the text of a UUID, in lower case."""
    for option, value in values.items():
        if not is_uuid(value) or value != str(value).lower():
            raise OptionsError(f"must be the text of a UUID, such as str(uuid4()), not {value!r}", option=option)


@dataclass(kw_only=True, eq=False)
class _DurableTurn:
    """One call of `run_turn`, which documents the fields."""

    options: ClientOptions
    tools: Sequence[JSONMapping]
    store: HeldStore
    prompt_id: str
    prompt: PromptContent
    questions: Questions
    has_desk: bool
    """Whether the questions of the CLI go to the desk."""
    attempt: int
    retry: RetryPolicy
    stop: TurnStop
    reports: Reports
    until: Literal["result", "idle"]

    def __post_init__(self) -> None:
        self.options = add_tools(self.options, self.tools, self._find_result)
        self._scope = anyio.CancelScope()
        """Cancelled to end the call with the outcome `_ending`."""
        self._workers: TaskGroup | None = None
        self._client: Client | None = None
        self._run: Run[Any] | None = None
        self._events: AsyncIterator[object] | None = None
        """The facts and messages since the client is connected, if there are deltas to report."""
        self._ending: TurnOutcome | None = None
        """The outcome if the call ends before the turn."""
        self._is_fenced = False
        """Whether another process writes the session now."""
        self._has_begun = False
        """Whether a process continued the turn or was about to get the prompt."""
        self._noted_usd = 0.0
        """What the session had spent before, as far as the CLI knows."""
        self._kept_in: str | None = None
        """The directory with entries that the store rejected."""

    async def run(self) -> TurnOutcome:
        """Run the turn and return its outcome."""
        outcome: TurnOutcome | None = None
        try:
            with self._scope:
                async with anyio.create_task_group() as self._workers:
                    self._workers.start_soon(self._obey)
                    outcome = await self._perform()
                    self._workers.cancel_scope.cancel()
            if self._ending is not None and (outcome is None or self._is_fenced or isinstance(outcome, Later)):
                outcome = self._ending
            if isinstance(outcome, Waiting):
                outcome = await self._list_open(outcome)
            elif isinstance(outcome, Done | Failed | Interrupted):
                await self.reports.tell_ends()
                await self.questions.withdraw()
        finally:
            await run_to_its_end(self.store.give_back, name="claude_agent_py lease", seconds=RELEASE_SECONDS)
        assert outcome is not None  # noqa: S101 - only `_end` cancels the scope
        return outcome

    # How it ends early -----------------------------------------------------------------------------------------------

    async def _obey(self) -> None:
        """Do what the engine wishes."""
        wish = None
        while True:
            wish = await self.stop.wait(wish)
            if wish == "release":
                await self._leave(Later(pause=0.0, is_attempt=False, reason="the turn was released"))
            elif wish == "abandon":
                self._fence(Lost(reason="the turn was abandoned"))
            elif self._run is not None:
                await self._interrupt(self._run)
            else:
                self.questions.wait_for_answers.cancel()

    async def _interrupt(self, run: Run[Any]) -> None:
        try:
            await run.interrupt()
        except ClaudeAgentError as error:
            logger.debug("interrupting session %s failed: %s", self.store.session_id, error)

    async def _leave(self, outcome: TurnOutcome) -> None:
        """End the process from one of its handlers, which is cancelled. The store gets what it has spent."""
        if self._client is not None and isinstance(outcome, Waiting | Later):
            with anyio.move_on_after(COST_SECONDS), suppress(ClaudeAgentError):
                usage = await self._client.usage.session(skip_behaviors=True)
                outcome = replace(outcome, cost_usd=max(0.0, usage.session.total_cost_usd - self._noted_usd))
        self._end(outcome)
        await anyio.sleep_forever()  # the handler must not answer

    def _end(self, outcome: TurnOutcome) -> None:
        """End the process, and the call with this outcome."""
        if self._ending is None or self._is_fenced:
            self._ending = outcome
        if self._client is not None:
            self._client.kill()
        self._scope.cancel()

    def _fence(self, outcome: TurnOutcome) -> None:
        """End the process and write nothing more, because another one writes the session."""
        self._is_fenced = self.store.is_closed = self.reports.is_closed = True
        self._end(outcome)

    async def _lose_lease(self, error: StaleLeaseError) -> None:
        self._give_way(error)

    def _give_way(self, error: StaleLeaseError) -> TurnOutcome:
        """End the process, because another one has the lease, and return the outcome."""
        # A later call of `run_turn` has the turn; any other program only has the session for a while.
        if error.holder.startswith(HOLDER):
            outcome: TurnOutcome = Lost(reason=str(error))
        else:
            outcome = self._postpone(error, pause=LEASE_SECONDS)
        self._fence(outcome)
        return outcome

    async def _let_store_have(self, input: PreToolUseInput, context: object) -> None:  # noqa: A002
        """Let a tool run once the store has its call, so that after a crash the model knows that it may have run.

        The lease may have been taken since the call was stored, with others of its message.
        """
        try:
            with anyio.fail_after(self.options.load_timeout):
                await self.store.wait_for_call(input.tool_use_id)
                await self.store.renew()
        except TimeoutError:
            await self._leave(self._postpone(StoreError("the store does not accept the calls of tools")))
        except Exception as error:
            await self._leave(self._explain(error))

    # Steps -----------------------------------------------------------------------------------------------------------

    async def _perform(self) -> TurnOutcome:
        try:
            # A call that was suspended must not take the lease from a later one. The second answer counts.
            if not await self.questions.is_wanted():
                return Lost(reason=UNWANTED)
            await self.store.take(self._lose_lease)
            if not await self.questions.is_wanted():
                return Lost(reason=UNWANTED)
            for _ in range(LOOKS):
                outcome = await self._decide()
                if outcome is not None:
                    return outcome
            return Later(pause=1.0, is_attempt=False, reason="the store keeps changing")
        except Exception as error:
            return self._explain(error)

    async def _decide(self) -> TurnOutcome | None:
        """Do what is left to do. Return None if the store has more of the prompt than it had at first."""
        progress = await self._look()
        if progress.answer is not None:
            fields = {"text": progress.answer, "output": progress.output, "prompt_uuid": progress.uuid}
            return Done(**fields, is_recovered=True)
        if progress.reached_max_turns:
            return Failed(error=MaxTurnsError.__name__, reason="the turn reached max_turns", prompt_uuid=progress.uuid)
        if progress.was_interrupted:
            return Interrupted(prompt_uuid=progress.uuid)
        answered = await self.questions.take_up() if progress.has_prompt else []
        if self.stop.wish == "interrupt":
            return Interrupted(prompt_uuid=progress.uuid)
        if answered is None:
            return Waiting(questions=())
        start = self._choose_start(progress, answered)
        outcome: TurnOutcome | None
        try:
            async with self._open_client(self._build_options(start)) as client:
                try:
                    outcome = await self._finish(client, progress)
                except Exception as error:
                    outcome = self._explain(error)
        except SessionInUseError:
            if progress.exists or not await run_file_work(self._remove_begun_transcript):
                raise
            return None
        await self._push_kept_entries()
        return outcome

    def _remove_begun_transcript(self) -> bool:
        """Remove a transcript without messages, left by a killed CLI: another one would not begin the session."""
        folder = Client(self.options).config_dir
        found = [] if folder is None else list(folder.glob(f"projects/*/{self.store.session_id}.jsonl"))
        for path in found:
            path.unlink(missing_ok=True)
        return bool(found)

    async def _look(self) -> Progress:
        """Find the prompt in the store, once that has everything that earlier processes left on this machine."""
        key = self.store.key
        # A CLI in another place has no folder on this machine.
        config_dir = Client(self.options).config_dir or os.devnull
        await deliver_session(
            self.store,
            key["session_id"],
            config_dir=config_dir,
            project_key=key["project_key"],
            timeout=self.options.load_timeout,
        )
        entries = await self.store.load(key) or ()
        self._noted_usd = read_noted_cost(entries)
        return read_progress(entries, self.prompt_id)

    def _choose_start(self, progress: Progress, answered: Sequence[QuestionRecord]) -> dict[str, Any]:
        """Return the options that start the conversation, resume it, or continue the turn of this prompt."""
        session_id = self.store.session_id
        if not progress.exists:
            return {"session_id": session_id}
        if not progress.has_prompt or progress.is_over:
            return {"resume": session_id}
        # A call that waited for an answer did not run. If it is left out, the model repeats it as it was.
        is_cut_off = bool(progress.cut_off - set(map(find_unrun_call, answered)))
        start = {"resume": session_id, "resume_interrupted_turn": True}
        if answered:
            env = {"CLAUDE_CODE_RESUME_PROMPT": build_resume_prompt(answered), **self.options.env}
            start |= {"show_cut_off_calls": is_cut_off, "env": env}
        return start

    def _build_options(self, start: dict[str, Any]) -> ClientOptions:
        options, key = self.options, self.store.key
        hooks = Hooks()
        for event, matcher in Hooks.of(options.hooks):
            hooks.add(event, matcher)
        hooks.add("PreToolUse", HookMatcher(None, self._let_store_have))
        changes: dict[str, Any] = {"hooks": hooks, "on_store_error": self._on_store_error, **start}
        if self.has_desk and options.permission_prompts != "none":
            changes["interactions"] = DeskInbox(self._ask)
        # Eager, because each tool waits until the store has its call.
        return options.replace(
            session_store=self.store, session_store_project=key["project_key"], session_store_flush="eager", **changes
        )

    @asynccontextmanager
    async def _open_client(self, options: ClientOptions) -> AsyncIterator[Client]:
        """Open a client and report its facts. If the turn has not ended, the process is killed."""
        client, facts_over = Client(options), anyio.Event()
        facts = client.journal()
        try:
            self._client = client
            assert self._workers is not None  # noqa: S101
            self._workers.start_soon(self._report, facts, facts_over)
            await client.connect()
            if self.reports.has_deltas:
                self._events = client.events(facts=True)
                facts.close()
            yield client
        except BaseException:
            # An orderly end would write to the transcript that open calls have failed.
            client.kill()
            raise
        finally:
            with anyio.CancelScope(shield=True):
                await client.close()
                self._client = self._run = None
                facts.close()
                await facts_over.wait()
                self._events = None

    async def _report(self, facts: AsyncIterator[Fact], over: anyio.Event) -> None:
        with anyio.CancelScope(shield=True):  # the end of the process ends it
            await self.reports.read(facts, lambda: self._events)
        over.set()

    async def _finish(self, client: Client, progress: Progress) -> TurnOutcome | None:
        """Wait for the continued turn, or send the prompt, and return the outcome."""
        run, uuid = client.resumed_run, progress.uuid
        if run is None:
            # Connecting delivers what a process on this machine wrote after the last look.
            now = read_progress(await self.store.load(self.store.key) or (), self.prompt_id)
            if now != progress:
                return None
            # A model that has done a part of the prompt would take it for another one, so it is sent again only if
            # others followed it.
            is_continued = progress.has_prompt and not progress.is_over
            prompt, uuid = CONTINUE_PROMPT if is_continued else self.prompt, progress.unused_uuid
            verbatim = client.options.verbatim_prompts
            check_keeps_conversation(prompt, client.info.commands, verbatim=verbatim)
            run = client.query(prompt, until=self.until, uuid=uuid)
        self._has_begun, self._run = True, run
        if self.stop.wish == "interrupt":
            await self._interrupt(run)
        result = await run.result()
        error = result.error()
        if isinstance(error, PromptCancelledError) and not progress.has_prompt and self.stop.wish != "interrupt":
            return None  # the CLI found the prompt in its folder, but the store did not have it
        fields = _read_result(result, uuid)
        return Done(**fields) if error is None else self._explain(error, fields)

    async def _on_store_error(self, error: StoreError) -> None:
        if isinstance(error, StaleLeaseError):
            self._give_way(error)
        if error.kept_in is not None:
            self._kept_in = error.kept_in
        if self.options.on_store_error is not None:
            await Callback(self.options.on_store_error).call_within(LISTENER_SECONDS, None, error)

    async def _push_kept_entries(self) -> None:
        """Write the entries that the store rejected earlier. Raises StoreError if it still rejects them."""
        deadline = time.monotonic() + PUSH_SECONDS
        key = self.store.key
        while self._kept_in is not None and not self._is_fenced:
            try:
                await push(self.store, key["session_id"], config_dir=self._kept_in, project_key=key["project_key"])
            except StoreError as error:
                if isinstance(error, StaleLeaseError) or time.monotonic() > deadline:
                    self._has_begun = False
                    raise
                await anyio.sleep(PUSH_PAUSE)
            else:
                self._kept_in = None

    # The desk --------------------------------------------------------------------------------------------------------

    async def _ask(self, kind: Any, wire: object, context: PermissionContext) -> JSONObject:
        """Ask a person, wait for the answer, and return the reply to the CLI."""
        question = QuestionRecord.of(kind, wire, session_id=self.store.session_id, agent_id=context.agent_id)
        with self.questions.identify(question) as question, context.awaiting_user(question.key[:12]):
            return await self._ask_at_desk(question, context.tool_use_id)

    async def _find_result(self, context: ToolContext, arguments: JSONObject) -> CallResult | None:
        """Ask for the result of a call of the tools of the prompt. No handler of the options has a say in it."""
        with self.questions.identify(record_call(context, arguments, self.store.session_id)) as question:
            return read_result(await self._ask_at_desk(question, context.tool_use_id))

    async def _ask_at_desk(self, question: QuestionRecord, call: str | None) -> JSONObject:
        """Return the reply to a question, which the tool call `call` asks if it is not None."""
        try:
            reply = await self.questions.wait_for_reply(question)
            if reply is None:  # it takes long: once the store has the call of the question, the process ends
                if call is not None:
                    with anyio.move_on_after(LEAVE_SECONDS):
                        await self.store.wait_for_call(call)
                await self._leave(Waiting(questions=()))
            return question.check(reply)
        except Exception as error:
            await self._leave(self._postpone(error))
        except BaseException:
            # If the process ends, the question stays open; otherwise the CLI has withdrawn it.
            if self._ending is None and self._client is not None and self._client.is_open:
                with anyio.CancelScope(shield=True):
                    await self.questions.withdraw(question)
            raise
        return question.refusal()

    async def _list_open(self, outcome: Waiting) -> TurnOutcome:
        """Return the outcome with the questions that wait at the desk."""
        try:
            return replace(outcome, questions=await self.questions.list_open())
        except Exception as error:
            return self._postpone(error)

    # Outcomes --------------------------------------------------------------------------------------------------------

    def _postpone(self, error: Exception, *, pause: float | None = None, **more: Any) -> Later:
        """Return the outcome for an error that says nothing about the prompt."""
        if pause is None:
            pause = self.retry.pause_after(ConnectionClosedError(str(error)), OUTAGE_PAUSE)
        return Later(pause=pause, is_attempt=False, reason=f"{type(error).__name__}: {error}", **more)

    def _explain(self, error: Exception, result: JSONObject | None = None) -> TurnOutcome:
        """Return the outcome for an error. Ends the process if another one has taken the lease."""
        fields = result or {}
        if isinstance(error, StaleLeaseError):
            return self._give_way(error)
        if isinstance(error, SessionLeasedError):
            left = error.expires_at - time.time()
            return self._postpone(error, pause=min(max(left, 1.0), LEASE_SECONDS))
        if isinstance(error, DeskError) or (isinstance(error, StoreError) and not self._has_begun):
            return self._postpone(error)
        wants_interrupt = self.stop.wish == "interrupt"
        if isinstance(error, InterruptedRunError) or (isinstance(error, PromptCancelledError) and wants_interrupt):
            return Interrupted(**fields)
        cost = fields.get("cost_usd") or 0.0
        if isinstance(error, RateLimitedError):
            number = LIMIT_PAUSE if error.resets_at is None else self.attempt
            return self._postpone(error, pause=self.retry.pause_after(error, number), cost_usd=cost)
        if self.attempt < self.retry.attempts and _is_transient(error, self.retry):
            transient = error if isinstance(error, RunFailed) else ConnectionClosedError(str(error))
            pause = self.retry.pause_after(transient, self.attempt)
            return Later(pause=pause, is_attempt=True, reason=f"{type(error).__name__}: {error}", cost_usd=cost)
        if not isinstance(error, ClaudeAgentError):
            logger.error("the turn of session %s failed", self.store.session_id, exc_info=error)
        return Failed(error=type(error).__name__, reason=str(error), **fields)


def _is_transient(error: Exception, retry: RetryPolicy) -> bool:
    """Return whether another attempt may succeed, possibly on another machine."""
    if isinstance(error, CLIError | StoreError | ConnectionClosedError):
        return True
    return isinstance(error, RunFailed) and retry.is_retryable(error)


def _read_result(result: RunResult[Any], uuid: str) -> JSONObject:
    outputs = [each.structured_output for each in result.results if each.has_structured_output]
    return {
        "text": result.text,
        "output": outputs[-1] if outputs else None,
        "num_turns": result.num_turns,
        "cost_usd": result.cost_usd,
        "usage": None if result.usage is None else result.usage.raw,
        "prompt_uuid": uuid,
    }


def build_resume_prompt(answered: Sequence[QuestionRecord]) -> str:
    """Return the prompt that continues a turn after questions. It lists the calls to repeat if they are short."""
    asked = [each.request.get("call") or each.request for each in answered]
    calls = [(call.get("name") or call.get("tool_name"), call.get("input")) for call in asked]
    listed = "".join(f"\n- {name} {json.dumps(given, ensure_ascii=False)}" for name, given in calls if name)
    return RESUME_PROMPT + (RESUME_CALLS + listed if listed and len(listed) <= MAX_RESUME_CHARS else "")
