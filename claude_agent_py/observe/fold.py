"""`SpanFold`: from the messages of a session, and the questions that the CLI asks this side, to spans.

Pure: it does no I/O and has no clock. A message has the CLI's time if it carries one (those of the user and the model
do), otherwise the time of arrival that `feed` is told, otherwise that of the message before it. Twin: `sources`, which
feeds it what a recording, a transcript or a store holds.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from claude_agent_py.hooks.dispatcher import HookRun
from claude_agent_py.observe.asked import draft_of_question, status_of_reply
from claude_agent_py.observe.drafts import (
    INTERRUPTED,
    Draft,
    Seen,
    Texts,
    most,
    note_usage,
    status_of_call,
    status_of_task,
    tokens_of,
)
from claude_agent_py.observe.spans import MAIN, Span, SpanStatus, Tokens
from claude_agent_py.tasks.ledger.record import AGENT_TYPES
from claude_agent_py.tools.traffic import ToolTraffic
from claude_agent_py.wire.messages.content import TextBlock, ThinkingBlock, ToolUseBlock
from claude_agent_py.wire.messages.conversation import (
    AssistantMessage,
    CommandLifecycleMessage,
    ResultMessage,
    UserMessage,
)
from claude_agent_py.wire.messages.occasional import HookResponseMessage, HookStartedMessage
from claude_agent_py.wire.messages.stream import MessageDeltaEvent, StreamEventMessage
from claude_agent_py.wire.messages.system import APIRetryMessage, InitMessage, PermissionDeniedMessage
from claude_agent_py.wire.messages.tasks import (
    CHILD_AGENT,
    TaskNotificationMessage,
    TaskStartedMessage,
    TaskUpdatedMessage,
    TaskUsage,
)
from claude_agent_py.wire.timestamps import seconds

_END_OF_TIME: Final = 1e11
"""Seconds since the epoch. A recording may hold any number."""
MAX_CHARS: Final = 2000
"""How much of each text (prompts, inputs, outputs) a span keeps, by default."""


@dataclass(slots=True)
class _Conversation:
    """The main agent's conversation, or that of one subagent."""

    asked_at: float | None = None
    """When the model got its latest input: a prompt or a result."""
    model: Draft | None = None
    """The API message that is arriving."""


class SpanFold:
    """Folds what happens in one session into spans.

    Args:
        on_end: Called with each span when it is over, in that order; those that never end, in `finish`.
        max_chars: How much of each text the spans keep, in characters; 0 keeps none.
    """

    def __init__(self, on_end: Callable[[Span], object], *, max_chars: int = MAX_CHARS) -> None:
        self.session_id: str = ""
        """The id of the session; empty before the first turn."""
        self._on_end = on_end
        self._texts = Texts(max_chars)
        self._now = 0.0
        self._is_dated = False
        """Whether any message had a time yet."""
        self._run: Draft | None = None
        self._runs = self._turns = 0
        self._turn: Draft | None = None
        self._flaw: SpanStatus | None = None
        """What went wrong in the turn, by its messages."""
        self._spent: dict[str, tuple[Tokens, float]] = {}
        """What turns without an answer of the model cost: subagents that ended before them. The next one has it."""
        self._sent: dict[str, tuple[UserMessage, float]] = {}
        self._started: list[str] = []
        """The prompts that the CLI has taken up since the last turn began."""
        self._talks: dict[str, _Conversation] = {}
        self._traffic = ToolTraffic()
        self._calls: dict[str, Draft] = {}
        self._tasks: dict[str, Draft] = {}
        self._foreground: dict[str, TaskStartedMessage] = {}
        """Shells that their calls wait for: no spans unless they move to the background."""
        self._asked: dict[str, Draft] = {}
        self._task_of_run: dict[str, str] = {}
        self._times_of_task: dict[str, int] = {}
        self._known = Seen()

    @property
    def now(self) -> float:
        """The latest time seen, in seconds since the epoch."""
        return self._now

    def open(self, span_id: str | None) -> Span | None:
        """Return a span that is not over, as it is now, or None."""
        call = self._calls.get(span_id or "")
        others = (self._run, self._turn, *self._tasks.values())
        found = call or next((draft for draft in others if draft is not None and draft.id == span_id), None)
        return None if found is None else found.span()

    @property
    def turn_id(self) -> str | None:
        """The id of the turn, if one is open."""
        return self._turn.id if self._turn is not None else None

    # What comes in -----------------------------------------------------------------------------------------------

    def feed(self, message: Any, at: float | None = None) -> None:
        """Fold a message of any kind.

        Args:
            message: A message of the wire, or a `HookRun`. Others are ignored.
            at: When it arrived, in seconds since the epoch; None if unknown.
        """
        handler = self._HANDLERS.get(type(message))
        if handler is not None:
            handler(self, message, at)

    def sent(self, prompt: UserMessage, at: float | None = None) -> None:
        """Note a prompt that was sent. Its run begins with the turn that takes it up."""
        when = self._time(seconds(prompt.timestamp) or at)
        self._sent[prompt.uuid or f"#{len(self._sent)}"] = (prompt, when)

    def asked(self, request_id: str, request: Any, at: float | None = None, *, agent: str = MAIN) -> None:
        """Note a question of the CLI to this side: a hook, a permission prompt, an elicitation, a dialog."""
        draft = draft_of_question(request_id, request, self._time(at), self._texts)
        if draft is not None and request_id not in self._known:
            draft.agent = draft.agent or agent
            draft.parent = draft.parent or self._owner(draft.agent)
            self._asked[request_id] = draft

    def answered(self, request_id: str, reply: Any = None, at: float | None = None, *, failed: bool = False) -> None:
        """Note the answer to a question. `reply` is its payload; None if it was withdrawn, or failed."""
        draft = self._asked.pop(request_id, None)
        if draft is not None:
            draft.end = self._time(at)
            draft.status = "error" if failed else status_of_reply(draft.kind, reply)
            if isinstance(reply, dict):
                draft.attributes["output"] = self._texts.json(reply)
            self._finish(draft)

    def begin_turn(self, prompts: Sequence[str] = (), at: float | None = None, *, causes: Sequence[str] = ()) -> None:
        """Begin a turn with these prompts, by uuid; without any, one that the ends of tasks caused."""
        self.end_turn()
        when = self._time(at)
        run = self._run
        if prompts or run is None:
            run = self._begin_run(prompts, when)
        self._turn = Draft(f"{run.id}/{self._turns + 1}", "turn", run.name, when, parent=run.id, links=tuple(causes))
        if prompts:
            self._turn.attributes["prompt"] = run.attributes.get("prompt")
        self._talk(MAIN).asked_at = when
        self._flaw = None

    def end_turn(self, at: float | None = None, status: SpanStatus = "ok", result: ResultMessage | None = None) -> None:
        """End the turn, if one is open."""
        self._end_model(MAIN)
        turn, run, self._turn = self._turn, self._run, None
        if turn is None or run is None:
            return
        turn.end, turn.status = self._time(at), self._flaw if self._flaw and status != "denied" else status
        if result is not None:
            self._note_result(turn, result)
        run.end, run.status = turn.end, turn.status
        if turn.tokens is not None:
            run.tokens = (run.tokens or Tokens()) + turn.tokens
        if turn.attributes.pop("is_used", False) or (self._turns == 0 and turn.status != "ok"):
            if turn.cost_usd is not None:
                run.cost_usd = (run.cost_usd or 0.0) + turn.cost_usd
            self._turns += 1
            self._spent = {}
            self._finish(turn)

    def finish(self, at: float | None = None) -> None:
        """End the fold: report the spans that are still open. What has no end is `running`."""
        self._time(at)
        for agent in list(self._talks):
            self._end_model(agent)
        for draft in [*self._asked.values(), *self._calls.values(), *self._tasks.values()]:
            self._finish(draft)
        if self._turn is not None:
            self._finish(self._turn)
        if self._run is not None:
            self._finish_run(self._run)
        self._run = self._turn = None
        for table in (self._asked, self._calls, self._tasks):
            table.clear()

    # Time and identity -------------------------------------------------------------------------------------------

    def _time(self, at: float | None) -> float:
        """Return a time, or the latest one if it is unknown or cannot be a time."""
        if at is None or not 0 <= at < _END_OF_TIME:
            return self._now
        if not self._is_dated:
            self._date(at)
        self._now = max(self._now, at)
        return at

    def _date(self, at: float) -> None:
        """Let what came before the first time that is known begin then."""
        self._is_dated = True
        self._sent = {key: (prompt, at) for key, (prompt, _) in self._sent.items()}
        for draft in (self._run, self._turn, *self._asked.values(), *self._tasks.values()):
            if draft is not None:
                draft.start = at
        for talk in self._talks.values():
            talk.asked_at = at

    def _finish(self, draft: Draft) -> None:
        """Report a span under an id that no other has."""
        name, count = draft.id, 1
        while draft.id in self._known:
            count += 1
            draft.id = f"{name}#{count}"
        self._known.add(draft.id)
        self._on_end(draft.span())

    def _finish_run(self, run: Draft) -> None:
        """Report a run, with what turns without an answer cost."""
        if self._spent:
            run.cost_usd = (run.cost_usd or 0.0) + sum(cost for _, cost in self._spent.values())
            self._spent = {}
        self._finish(run)

    def _owner(self, agent: str) -> str | None:
        """Return the span that the work of an agent is a part of."""
        if agent != MAIN:
            task = self._tasks.get(agent)
            return agent if task is None else task.id
        return self._turn.id if self._turn is not None else None

    def _talk(self, agent: str) -> _Conversation:
        talk = self._talks.get(agent)
        if talk is None:
            talk = self._talks[agent] = _Conversation()
        return talk

    # Runs and turns ----------------------------------------------------------------------------------------------

    def _begin_run(self, prompts: Sequence[str], at: float) -> Draft:
        if self._run is not None:
            self._finish_run(self._run)
        self._runs += 1
        self._turns = 0
        uuid = next((prompt for prompt in prompts if not prompt.startswith("#")), f"#{self._runs}")
        run = self._run = Draft(f"run:{uuid}", "run", "run", at)
        taken = [self._sent.pop(prompt) for prompt in prompts if prompt in self._sent]
        if taken:
            run.start = min(at, taken[0][1])
            text = "\n\n".join(prompt.text for prompt, _ in taken)
            run.name = self._texts.line(text) or "run"
            run.attributes["prompt"] = self._texts.of(text)
        return run

    def _init(self, message: InitMessage, at: float | None) -> None:
        unnamed = [key for key in self._sent if key.startswith("#")][:1]
        prompts = list(message.prompt_uuids) or self._started or unnamed
        self._started = []
        self.begin_turn(prompts, at)
        self.session_id = message.session_id or self.session_id

    def _lifecycle(self, message: CommandLifecycleMessage, at: float | None) -> None:
        self._time(at)
        if message.state == "started" and message.command_uuid in self._sent and self._turn is None:
            self._started.append(message.command_uuid)

    def _result(self, message: ResultMessage, at: float | None) -> None:
        if self._turn is None:
            self.begin_turn(message.prompt_uuids, at)
        turn = self._turn
        if at is None and turn is not None and (self._is_dated or "is_used" in turn.attributes):
            at = max(self._now, turn.start + message.duration_ms / 1000)  # it has no time of its own
        is_aborted = (message.terminal_reason or "").startswith("aborted")
        self.end_turn(at, "cancelled" if is_aborted else "error" if message.is_error else "ok", message)

    def _note_result(self, turn: Draft, result: ResultMessage) -> None:
        turn.tokens = tokens_of(result.usage)
        for model, usage in (result.model_usage_since_last_result or {}).items():
            tokens, cost = self._spent.get(model, (Tokens(), 0.0))
            self._spent[model] = (tokens + (tokens_of(usage) or Tokens()), cost + float(usage.cost_usd))
        turn.cost_usd = sum(cost for _, cost in self._spent.values())
        turn.attributes |= {
            "stop_reason": result.stop_reason,
            "terminal_reason": result.terminal_reason,
            "error": self._texts.of(result.error_text),
            "output": self._texts.of(result.text),
            "models": {model: {"tokens": tokens, "cost_usd": cost} for model, (tokens, cost) in self._spent.items()},
        }
        ended = result.origin.run_id if result.origin is not None else None
        if ended in self._task_of_run:
            turn.links = (self._task_of_run[ended],)

    # Messages ----------------------------------------------------------------------------------------------------

    def _agent_of(self, message: AssistantMessage | UserMessage) -> str:
        """Return the agent of a message; early versions of the CLI only name the call that launched it."""
        if message.agent_id is not None:
            return message.agent_id
        call = message.parent_tool_use_id
        if call is None:
            return MAIN
        launched = (key for key, task in self._tasks.items() if task.attributes.get("tool_use_id") == call)
        return next(launched, call)

    def _assistant(self, message: AssistantMessage, at: float | None) -> None:
        when = self._time(seconds(message.timestamp) or at)
        agent = self._agent_of(message)
        if agent == MAIN:
            if self._turn is None:
                self.begin_turn(self._started or message.prompt_uuids, when)
            if self._turn is not None:
                self._turn.attributes["is_used"] = True
        talk, message_id = self._talk(agent), message.message.id or message.uuid
        model = talk.model
        if model is None or model.attributes["message_id"] != message_id:
            self._end_model(agent)
            start = when if talk.asked_at is None else min(when, talk.asked_at)
            name = message.message.model or "model"
            model = talk.model = Draft(message_id, "model", name, start, self._owner(agent), agent, status="ok")
            model.attributes = {"message_id": message_id, "calls": [], "output": ""}
        model.end = when
        self._note_answer(model, message)
        self._fold_calls(message, agent, when)

    def _note_answer(self, model: Draft, message: AssistantMessage) -> None:
        model.tokens = most(model.tokens, tokens_of(message.message.usage))
        model.attributes["stop_reason"] = message.message.stop_reason or model.attributes.get("stop_reason")
        if message.error is not None or message.is_api_error_message:
            model.status = "error"
            model.attributes["error"] = message.error or "unknown"
            self._flaw = self._flaw or ("error" if model.agent == MAIN else None)
        for block in message.message.content:
            if type(block) is TextBlock and self._texts.limit:
                model.attributes["output"] += block.text[: self._texts.limit + 64]
            elif type(block) is ThinkingBlock:
                model.attributes["is_thinking"] = True
            elif type(block) is ToolUseBlock:
                model.attributes["calls"].append(block.name)

    def _end_model(self, agent: str) -> None:
        talk = self._talks.get(agent)
        if talk is None or talk.model is None:
            return
        model, talk.model = talk.model, None
        model.attributes.pop("message_id", None)
        model.attributes["output"] = self._texts.of(model.attributes.get("output"))
        if not model.attributes["calls"]:
            del model.attributes["calls"]
        if model.attributes.get("stop_reason") is None and not model.attributes.pop("is_counted", False):
            model.attributes["output_tokens_so_far"] = True
        self._finish(model)

    def _fold_calls(self, message: AssistantMessage, agent: str, at: float) -> None:
        owner = self._owner(agent)
        for block in message.tool_uses:
            call = Draft(block.id, "tool", block.name, at, owner, agent)
            call.attributes["input"] = self._texts.json(block.input)
            self._calls.setdefault(block.id, call)
        self._traffic.fold(message)

    def _user(self, message: UserMessage, at: float | None) -> None:
        if message.is_replay:
            return
        when = self._time(seconds(message.timestamp) or at)
        agent = self._agent_of(message)
        self._talk(agent).asked_at = when
        for record in self._traffic.fold(message):
            self._traffic.forget(record.id)
            call = self._calls.pop(record.id, None)
            if call is not None:
                call.end, call.status = when, status_of_call(record)
                if call.status == "error" and _was_rejected(message):
                    call.status = "denied"
                call.attributes["output"] = self._texts.of(record.text)
                self._finish(call)
        if agent == MAIN and INTERRUPTED in message.text[: len(INTERRUPTED)]:
            self._flaw = "cancelled"

    def _stream(self, message: StreamEventMessage, at: float | None) -> None:
        """Take the count of output tokens, which an assistant message does not have yet."""
        event = message.event
        if type(event) is MessageDeltaEvent and event.usage is not None and message.parent_tool_use_id is None:
            model = self._talk(MAIN).model
            output = int(event.usage.output_tokens or 0)
            if model is not None and model.tokens is not None and output >= model.tokens.output:
                model.attributes["is_counted"] = True
                model.tokens = Tokens(
                    input=model.tokens.input,
                    output=output,
                    cache_read=model.tokens.cache_read,
                    cache_write=model.tokens.cache_write,
                )

    def _denied(self, message: PermissionDeniedMessage, at: float | None) -> None:
        self._time(at)
        self._traffic.fold(message)

    def _retry(self, message: APIRetryMessage, at: float | None) -> None:
        self._time(at)
        if self._turn is not None:
            self._turn.attributes["api_retries"] = self._turn.attributes.get("api_retries", 0) + 1

    # Tasks -------------------------------------------------------------------------------------------------------

    def _task_started(self, message: TaskStartedMessage, at: float | None) -> None:
        when = self._time(at)
        self._traffic.fold(message)
        if message.ambient or message.task_id in self._tasks:
            return
        if message.task_type not in AGENT_TYPES and message.is_backgrounded is False:
            self._foreground[message.task_id] = message
            return
        self.begin_task(
            message.task_id,
            message.task_type,
            when,
            name=message.subagent_type or message.workflow_name,
            call=message.tool_use_id,
            is_background=message.is_backgrounded is not False,
            launched_by=message.parent_task_id,
            description=message.description,
            prompt=message.prompt,
        )
        if message.run_id is not None:
            self._task_of_run[message.run_id] = self._tasks[message.task_id].id

    def begin_task(
        self,
        task_id: str,
        task_type: str | None,
        at: float,
        *,
        name: str | None = None,
        call: str | None = None,
        is_background: bool = True,
        launched_by: str | None = None,
        description: str = "",
        prompt: str | None = None,
    ) -> None:
        """Begin a task: a subagent, a child agent, or any other background task."""
        at = self._time(at)
        times = self._times_of_task[task_id] = self._times_of_task.get(task_id, 0) + 1
        is_agent = task_type in AGENT_TYPES
        draft = Draft(
            task_id if times == 1 else f"{task_id}#{times}",
            "child" if task_type == CHILD_AGENT else "subagent" if is_agent else "task",
            name or task_type or "task",
            at,
            agent=task_id,
        )
        _hang(draft, call, is_background=is_background)
        launcher = self._calls.get(call or "")
        draft.attributes = {
            "type": task_type,
            "tool_use_id": call,
            "launched_by": launched_by or (launcher.agent if launcher is not None else None),
            "description": self._texts.line(description),
            "prompt": self._texts.of(prompt),
        }
        self._tasks[task_id] = draft
        if is_agent:
            self._talk(task_id).asked_at = at

    def end_task(
        self,
        task_id: str,
        at: float | None,
        status: SpanStatus,
        report: str | None = None,
        *,
        usage: TaskUsage | None = None,
    ) -> None:
        """End a task."""
        self._end_model(task_id)
        self._talks.pop(task_id, None)
        draft = self._tasks.pop(task_id, None)
        if draft is not None:
            note_usage(draft, usage)
            draft.end = draft.end if draft.end is not None and draft.status != "running" else self._time(at)
            draft.status = draft.status if status == "running" else status
            draft.attributes["output"] = self._texts.of(report)
            self._finish(draft)

    def _task_updated(self, message: TaskUpdatedMessage, at: float | None) -> None:
        self._time(at)
        patch = message.patch
        shell = self._foreground.get(message.task_id)
        if patch.is_backgrounded and shell is not None:
            self._task_started(shell.replace(is_backgrounded=True), at)
        draft = self._tasks.get(message.task_id)
        if draft is None:
            return
        if patch.is_backgrounded:
            _hang(draft, draft.attributes.get("tool_use_id"), is_background=True)
        status = status_of_task(patch.task_status)
        if status != "running":
            draft.status = status
            draft.end = self._time(patch.end_time / 1000 if patch.end_time else at)
            draft.attributes["error"] = self._texts.of(patch.error)

    def _task_notified(self, message: TaskNotificationMessage, at: float | None) -> None:
        when = self._time(at)
        self._foreground.pop(message.task_id, None)
        draft = self._tasks.get(message.task_id)
        if draft is not None:
            draft.attributes["notified_at"] = when
            status = status_of_task(message.task_status)
            self.end_task(message.task_id, at, status, message.summary, usage=message.usage)

    # Hooks -------------------------------------------------------------------------------------------------------

    def _hook_ran(self, run: HookRun, at: float | None) -> None:
        """Take a hook that ran here, unless its question was seen."""
        if run.request_id in self._known or run.request_id in self._asked:
            return
        end = self._time(at)
        agent = run.agent_id or MAIN
        draft = Draft(run.request_id, "hook", run.event, end - run.duration, self._owner(agent), agent, end)
        draft.status = "error" if run.error is not None else status_of_reply("hook", run.output)
        draft.attributes["handler"] = run.handler
        self._finish(draft)

    def _hook_started(self, message: HookStartedMessage, at: float | None) -> None:
        draft = Draft(message.hook_id, "hook", message.hook_event, self._time(at), self._owner(MAIN))
        draft.attributes["handler"] = self._texts.line(message.hook_name)
        self._asked[message.hook_id] = draft

    def _hook_ended(self, message: HookResponseMessage, at: float | None) -> None:
        draft = self._asked.pop(message.hook_id, None)
        if draft is not None:
            draft.end = self._time(at)
            ends: dict[str, SpanStatus] = {"success": "ok", "cancelled": "cancelled"}
            draft.status = ends.get(message.outcome, "error")
            draft.attributes["output"] = self._texts.of(message.output)
            self._finish(draft)

    _HANDLERS: ClassVar[dict[type, Callable[[Any, Any, float | None], None]]] = {
        InitMessage: _init,
        CommandLifecycleMessage: _lifecycle,
        AssistantMessage: _assistant,
        UserMessage: _user,
        ResultMessage: _result,
        StreamEventMessage: _stream,
        PermissionDeniedMessage: _denied,
        APIRetryMessage: _retry,
        TaskStartedMessage: _task_started,
        TaskUpdatedMessage: _task_updated,
        TaskNotificationMessage: _task_notified,
        HookRun: _hook_ran,
        HookStartedMessage: _hook_started,
        HookResponseMessage: _hook_ended,
    }


FOLDED: Final = frozenset({*SpanFold._HANDLERS, MessageDeltaEvent}) - {StreamEventMessage}
"""The types of messages that matter, and of events of partial messages."""


def _hang(draft: Draft, call: str | None, *, is_background: bool) -> None:
    """Make a task a part of the call that waits for it, or link it to the call that launched it."""
    draft.parent = None if is_background else call
    draft.links = (call,) if is_background and call else ()


def _was_rejected(message: UserMessage) -> bool:
    """Return whether a call was refused, by what an entry on disk says of it."""
    decision = message.raw.get("permissionDecision")
    return isinstance(decision, dict) and decision.get("decision") == "reject"
