"""`SpanFold`: builds spans from the messages of a session and the requests that the CLI sends to the client.

It does no I/O and has no clock. The time of a message is its own timestamp (messages of the user and the model have
one), otherwise the time of arrival passed to `feed`, otherwise the time of the message before it. See also `sources`,
which feeds it recordings, transcripts and stored sessions.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from claude_agent_py.hooks.dispatcher import HookRun
from claude_agent_py.observe.open_spans import (
    CALL_STATUSES,
    INTERRUPTED,
    BoundedDict,
    OpenSpan,
    Texts,
    add_usage,
    convert_task_status,
    pick_larger,
    read_tokens,
)
from claude_agent_py.observe.spans import MAIN, Span, SpanKind, SpanStatus, Tokens
from claude_agent_py.tasks.ledger.record import AGENT_TYPES
from claude_agent_py.tools.traffic import ToolTraffic
from claude_agent_py.wire.control.asks import (
    CanUseToolRequest,
    ElicitationRequest,
    HookCallbackRequest,
    UserDialogRequest,
)
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

MAX_CHARS: Final = 2000
"""The default limit for each text of a span (prompts, inputs, outputs), in characters."""
LAUNCHES: Final = ("Agent", "Task")
"""The tools that launch subagents. Their description identifies a call better than the whole input."""
_REFUSALS = frozenset({"deny", "block", "decline", "cancel", "cancelled"})
_MAX_IDS: Final = 100_000
_END_OF_TIME: Final = 1e11
"""Seconds since the epoch. A recording may contain any number, so later times are ignored."""


@dataclass(slots=True)
class Conversation:
    """The conversation of the main agent or a subagent."""

    asked_at: float | None = None
    """When the model got its latest input: a prompt or a result."""
    model: OpenSpan | None = None
    """The API message that is arriving."""


class SpanFold:
    """Builds the spans of one session.

    Args:
        on_end: Called with each span as it ends. `finish` reports the spans that are still open.
        max_chars: The limit for each text of a span, in characters; 0 keeps no text.
    """

    def __init__(self, on_end: Callable[[Span], object], *, max_chars: int = MAX_CHARS) -> None:
        self.session_id: str = ""
        """The id of the session; empty before the first turn."""
        self._texts: Texts = Texts(max_chars)
        self.now: float = 0.0
        """The latest time seen, in seconds since the epoch."""
        self._is_dated: bool = False
        """Whether any message so far had a time."""
        self._run: OpenSpan | None = None
        self._runs: int = 0
        self._turns: int = 0
        """The number of reported turns of the run."""
        self._turn: OpenSpan | None = None
        self._problem: SpanStatus | None = None
        """The status of the turn according to its messages, if something went wrong."""
        self._spent: dict[str, tuple[Tokens, float]] = {}
        """The usage by model of turns without an answer, caused by finished subagents. It is added to the next turn."""
        self._sent: dict[str, tuple[UserMessage, float]] = {}
        self._started: list[str] = []
        """The prompts that the CLI has started since the last turn began."""
        self._conversations: defaultdict[str, Conversation] = defaultdict(Conversation)
        self._traffic: ToolTraffic = ToolTraffic()
        self._calls: dict[str, OpenSpan] = {}
        self._tasks: dict[str, OpenSpan] = {}
        self._foreground: dict[str, TaskStartedMessage] = {}
        """Foreground shells. They get no span unless they move to the background."""
        self._requests: dict[str, OpenSpan] = {}
        self._task_of_run: dict[str, str] = {}
        self._run_numbers: dict[str, int] = {}
        self._span_ids: BoundedDict[int] = BoundedDict(_MAX_IDS)
        """How often the id of each reported span was used."""
        self._on_end = on_end

    def open(self, span_id: str | None) -> Span | None:
        """Return a snapshot of an open span, or None."""
        return next((span.to_span() for span in self._open_spans() if span.id == span_id), None)

    def _open_spans(self) -> Iterator[OpenSpan]:
        """Yield the open spans, the inner ones first."""
        for conversation in self._conversations.values():
            if conversation.model is not None:
                yield conversation.model
        yield from self._requests.values()
        yield from self._calls.values()
        yield from self._tasks.values()
        if self._turn is not None:
            yield self._turn
        if self._run is not None:
            yield self._run

    @property
    def turn_id(self) -> str | None:
        """The id of the turn, if one is open."""
        return self._turn.id if self._turn is not None else None

    def feed(self, message: Any, at: float | None = None) -> None:
        """Fold a message of any kind.

        Args:
            message: A message of the wire, or a `HookRun`. Others are ignored.
            at: When it arrived, in seconds since the epoch; None if unknown.
        """
        handler = _HANDLERS.get(type(message))
        if handler is not None:
            handler(self, message, at)

    def finish(self, at: float | None = None) -> None:
        """End the session: report the open spans, with the status `running`."""
        self._advance(at)
        for agent in list(self._conversations):
            self._end_model(agent)
        for span in self._open_spans():
            if span is self._run:
                self._finish_run(span)
            else:
                self._report(span)
        self._run = self._turn = None
        for table in (self._requests, self._calls, self._tasks):
            table.clear()

    def _advance(self, at: float | None) -> float:
        """Move the clock to a time and return it. If the time is unknown or invalid, return the latest time."""
        if at is None or not 0 <= at < _END_OF_TIME:
            return self.now
        if not self._is_dated:
            self._backdate(at)
        self.now = max(self.now, at)
        return at

    def _backdate(self, at: float) -> None:
        """Set the start of all open spans to the first known time."""
        self._is_dated = True
        self._sent = {key: (prompt, at) for key, (prompt, _) in self._sent.items()}
        for span in self._open_spans():
            span.start = at
        for conversation in self._conversations.values():
            conversation.asked_at = at

    def _report(self, span: OpenSpan) -> None:
        """Report a span under a unique id."""
        known = span.id
        if known in self._span_ids:
            count = self._span_ids[known]
            while span.id in self._span_ids:
                count += 1
                span.id = f"{known}#{count}"
            self._span_ids.put(known, count)
        self._span_ids.put(span.id, 1)
        self._on_end(span.to_span())

    def _find_owner(self, agent: str) -> str | None:
        """Return the id of the span that encloses the work of an agent."""
        if agent != MAIN:
            task = self._tasks.get(agent)
            return agent if task is None else task.id
        return self._turn.id if self._turn is not None else None

    def _end_model(self, agent: str) -> None:
        """End the API message of an agent, if one is arriving."""
        conversation = self._conversations.get(agent)
        if conversation is None or conversation.model is None:
            return
        model, conversation.model = conversation.model, None
        model.attributes.pop("message_id", None)
        model.attributes["output"] = self._texts.shorten(model.attributes.get("output"))
        if not model.attributes["calls"]:
            del model.attributes["calls"]
        if model.attributes.get("stop_reason") is None and not model.attributes.pop("is_counted", False):
            model.attributes["output_tokens_so_far"] = True
        self._report(model)

    # Runs and turns

    def sent(self, prompt: UserMessage, at: float | None = None) -> None:
        """Record a prompt that was sent. Its run begins with the turn that answers it."""
        when = self._advance(seconds(prompt.timestamp) or at)
        self._sent[prompt.uuid or f"#{len(self._sent)}"] = (prompt, when)

    def begin_turn(self, prompts: Sequence[str] = (), at: float | None = None, *, causes: Sequence[str] = ()) -> None:
        """Begin a turn for these prompts, by uuid. Without prompts, the turn was caused by tasks that ended."""
        self.end_turn()
        when = self._advance(at)
        run = self._run
        if prompts or run is None:
            run = self._begin_run(prompts, when)
        self._turn = OpenSpan(f"{run.id}/{self._turns + 1}", "turn", run.name, when, parent=run.id, links=tuple(causes))
        if prompts:
            self._turn.attributes["prompt"] = run.attributes.get("prompt")
        self._conversations[MAIN].asked_at = when
        self._problem = None

    def end_turn(self, at: float | None = None, status: SpanStatus = "ok", result: ResultMessage | None = None) -> None:
        """End the turn, if one is open. `result` is its message, with its usage and cost."""
        self._end_model(MAIN)
        turn = self._turn
        run = self._run
        self._turn = None
        if turn is None or run is None:
            return
        turn.end = self._advance(at)
        turn.status = status
        if self._problem and status != "denied":
            turn.status = self._problem
        if result is not None:
            self._add_result(turn, result)
        run.end = turn.end
        run.status = turn.status
        if turn.tokens is not None:
            run.tokens = (run.tokens or Tokens()) + turn.tokens
        if turn.attributes.pop("is_used", False) or (self._turns == 0 and turn.status != "ok"):
            if turn.cost_usd is not None:
                run.cost_usd = (run.cost_usd or 0.0) + turn.cost_usd
            self._turns += 1
            self._spent = {}
            self._report(turn)

    def _begin_run(self, prompts: Sequence[str], at: float) -> OpenSpan:
        if self._run is not None:
            self._finish_run(self._run)
        self._runs += 1
        self._turns = 0
        uuid = next((prompt for prompt in prompts if not prompt.startswith("#")), f"#{self._runs}")
        run = self._run = OpenSpan(f"run:{uuid}", "run", "run", at)
        sent = [self._sent.pop(prompt) for prompt in prompts if prompt in self._sent]
        if sent:
            run.start = min(at, sent[0][1])
            text = "\n\n".join(prompt.text for prompt, _ in sent)
            run.name = self._texts.to_line(text) or "run"
            run.attributes["prompt"] = self._texts.shorten(text)
        return run

    def _finish_run(self, run: OpenSpan) -> None:
        """Report a run. Its cost includes turns without an answer."""
        if self._spent:
            run.cost_usd = (run.cost_usd or 0.0) + sum(cost for _, cost in self._spent.values())
            self._spent = {}
        self._report(run)

    def _on_init(self, message: InitMessage, at: float | None) -> None:
        unnamed = [key for key in self._sent if key.startswith("#")][:1]
        prompts = list(message.prompt_uuids) or self._started or unnamed
        self._started = []
        self.begin_turn(prompts, at)
        self.session_id = message.session_id or self.session_id

    def _on_command_lifecycle(self, message: CommandLifecycleMessage, at: float | None) -> None:
        self._advance(at)
        if message.state == "started" and message.command_uuid in self._sent and self._turn is None:
            self._started.append(message.command_uuid)

    def _on_result(self, message: ResultMessage, at: float | None) -> None:
        if self._turn is None:
            self.begin_turn(message.prompt_uuids, at)
        turn = self._turn
        if at is None and turn is not None and (self._is_dated or "is_used" in turn.attributes):
            # A result has no timestamp, so compute the end from the duration.
            at = max(self.now, turn.start + message.duration_ms / 1000)
        is_aborted = (message.terminal_reason or "").startswith("aborted")
        status: SpanStatus = "ok"
        if is_aborted:
            status = "cancelled"
        elif message.is_error:
            status = "error"
        self.end_turn(at, status, message)

    def _add_result(self, turn: OpenSpan, result: ResultMessage) -> None:
        turn.tokens = read_tokens(result.usage)
        for model, usage in (result.model_usage_since_last_result or {}).items():
            tokens, cost = self._spent.get(model, (Tokens(), 0.0))
            self._spent[model] = (tokens + (read_tokens(usage) or Tokens()), cost + float(usage.cost_usd))
        turn.cost_usd = sum(cost for _, cost in self._spent.values())
        turn.attributes |= {
            "stop_reason": result.stop_reason,
            "terminal_reason": result.terminal_reason,
            "error": self._texts.shorten(result.error_text),
            "output": self._texts.shorten(result.text),
            "models": {model: {"tokens": tokens, "cost_usd": cost} for model, (tokens, cost) in self._spent.items()},
        }
        ended = result.origin.run_id if result.origin is not None else None
        if ended in self._task_of_run:
            turn.links = (self._task_of_run[ended],)

    def _on_api_retry(self, message: APIRetryMessage, at: float | None) -> None:
        self._advance(at)
        if self._turn is not None:
            self._turn.attributes["api_retries"] = self._turn.attributes.get("api_retries", 0) + 1

    # Calls of the model and of tools

    def _on_assistant(self, message: AssistantMessage, at: float | None) -> None:
        when = self._advance(seconds(message.timestamp) or at)
        agent = self._find_agent(message)
        if agent == MAIN:
            if self._turn is None:
                self.begin_turn(self._started or message.prompt_uuids, when)
            if self._turn is not None:
                self._turn.attributes["is_used"] = True
        conversation = self._conversations[agent]
        message_id = message.message.id or message.uuid
        model = conversation.model
        if model is None or model.attributes["message_id"] != message_id:
            self._end_model(agent)
            start = when if conversation.asked_at is None else min(when, conversation.asked_at)
            name = message.message.model or "model"
            model = OpenSpan(message_id, "model", name, start, self._find_owner(agent), agent, status="ok")
            model.attributes = {"message_id": message_id, "calls": [], "output": ""}
            conversation.model = model
        model.end = when
        self._add_content(model, message)
        self._open_calls(message, agent, when)

    def _find_agent(self, message: AssistantMessage | UserMessage) -> str:
        """Return the agent of a message. Early versions of the CLI name only the call that launched it."""
        if message.agent_id is not None:
            return message.agent_id
        call = message.parent_tool_use_id
        if call is None:
            return MAIN
        launched = (key for key, task in self._tasks.items() if task.attributes.get("tool_use_id") == call)
        return next(launched, call)

    def _add_content(self, model: OpenSpan, message: AssistantMessage) -> None:
        model.tokens = pick_larger(model.tokens, read_tokens(message.message.usage))
        model.attributes["stop_reason"] = message.message.stop_reason or model.attributes.get("stop_reason")
        if message.error is not None or message.is_api_error_message:
            model.status = "error"
            model.attributes["error"] = message.error or "unknown"
            self._problem = self._problem or ("error" if model.agent == MAIN else None)
        for block in message.message.content:
            if type(block) is TextBlock and self._texts.limit:
                model.attributes["output"] += block.text[: self._texts.limit + 64]
            elif type(block) is ThinkingBlock:
                model.attributes["is_thinking"] = True
            elif type(block) is ToolUseBlock:
                model.attributes["calls"].append(block.name)

    def _open_calls(self, message: AssistantMessage, agent: str, at: float) -> None:
        owner = self._find_owner(agent)
        for block in message.tool_uses:
            call = OpenSpan(block.id, "tool", block.name, at, owner, agent)
            call.attributes["input"] = self._texts.shorten_json(block.input)
            if block.name in LAUNCHES:
                call.attributes["description"] = self._texts.to_line(str(block.input.get("description") or ""))
            self._calls.setdefault(block.id, call)
        self._traffic.fold(message)

    def _on_user(self, message: UserMessage, at: float | None) -> None:
        if message.is_replay:
            return
        when = self._advance(seconds(message.timestamp) or at)
        agent = self._find_agent(message)
        self._conversations[agent].asked_at = when
        for record in self._traffic.fold(message):
            self._traffic.forget(record.id)
            call = self._calls.pop(record.id, None)
            if call is not None:
                call.end = when
                call.status = CALL_STATUSES.get(record.status, "running")
                if call.status == "error" and _was_rejected(message):
                    call.status = "denied"
                call.attributes["output"] = self._texts.shorten(record.text)
                self._report(call)
        if agent == MAIN and INTERRUPTED in message.text[: len(INTERRUPTED)]:
            self._problem = "cancelled"

    def _on_stream_event(self, message: StreamEventMessage, at: float | None) -> None:
        """Update the output tokens, which an assistant message does not contain yet."""
        event = message.event
        if type(event) is MessageDeltaEvent and event.usage is not None and message.parent_tool_use_id is None:
            model = self._conversations[MAIN].model
            output = int(event.usage.output_tokens or 0)
            if model is not None and model.tokens is not None and output >= model.tokens.output:
                model.attributes["is_counted"] = True
                model.tokens = msgspec.structs.replace(model.tokens, output=output)

    def _on_permission_denied(self, message: PermissionDeniedMessage, at: float | None) -> None:
        self._advance(at)
        self._traffic.fold(message)

    # Tasks

    def _on_started(self, message: TaskStartedMessage, at: float | None) -> None:
        when = self._advance(at)
        self._traffic.fold(message)
        if message.ambient or message.task_id in self._tasks:
            return
        if message.task_type not in AGENT_TYPES and message.is_backgrounded is False:
            self._foreground[message.task_id] = message
            return
        run_number = self._run_numbers.get(message.task_id, 0) + 1
        self._run_numbers[message.task_id] = run_number
        is_agent = message.task_type in AGENT_TYPES
        kind: SpanKind = "task"
        if message.task_type == CHILD_AGENT:
            kind = "child"
        elif is_agent:
            kind = "subagent"
        name = message.subagent_type or message.workflow_name or message.task_type or "task"
        span_id = message.task_id if run_number == 1 else f"{message.task_id}#{run_number}"
        span = OpenSpan(span_id, kind, name, when, agent=message.task_id)
        call = message.tool_use_id
        _attach(span, call, is_background=message.is_backgrounded is not False)
        launcher = self._calls.get(call or "")
        span.attributes = {
            "type": message.task_type,
            "tool_use_id": call,
            "launched_by": message.parent_task_id or (launcher.agent if launcher is not None else None),
            "description": self._texts.to_line(message.description),
            "prompt": self._texts.shorten(message.prompt),
        }
        self._tasks[message.task_id] = span
        if is_agent:
            self._conversations[message.task_id].asked_at = when
        if message.run_id is not None:
            self._task_of_run[message.run_id] = span.id

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
        self._conversations.pop(task_id, None)
        span = self._tasks.pop(task_id, None)
        if span is not None:
            add_usage(span, usage)
            # An earlier update may have set the exact end.
            if span.end is None or span.status == "running":
                span.end = self._advance(at)
            if status != "running":
                span.status = status
            span.attributes["output"] = self._texts.shorten(report)
            self._report(span)

    def _on_updated(self, message: TaskUpdatedMessage, at: float | None) -> None:
        self._advance(at)
        patch = message.patch
        shell = self._foreground.get(message.task_id)
        if patch.is_backgrounded and shell is not None:
            self._on_started(shell.replace(is_backgrounded=True), at)
        span = self._tasks.get(message.task_id)
        if span is None:
            return
        if patch.is_backgrounded:
            _attach(span, span.attributes.get("tool_use_id"), is_background=True)
        status = convert_task_status(patch.task_status)
        if status != "running":
            span.status = status
            span.end = self._advance(patch.end_time / 1000 if patch.end_time else at)
            span.attributes["error"] = self._texts.shorten(patch.error)

    def _on_notification(self, message: TaskNotificationMessage, at: float | None) -> None:
        when = self._advance(at)
        self._foreground.pop(message.task_id, None)
        span = self._tasks.get(message.task_id)
        if span is not None:
            span.attributes["notified_at"] = when
            status = convert_task_status(message.task_status)
            self.end_task(message.task_id, at, status, message.summary, usage=message.usage)

    # Requests of the CLI, and hooks

    def asked(self, request_id: str, request: Any, at: float | None = None, *, agent: str = MAIN) -> None:
        """Record a request of the CLI to the client: a hook, a permission prompt, an elicitation or a dialog."""
        span = _build_span(request_id, request, self._advance(at), self._texts)
        if span is not None and request_id not in self._span_ids:
            span.agent = span.agent or agent
            span.parent = span.parent or self._find_owner(span.agent)
            self._requests[request_id] = span

    def answered(self, request_id: str, reply: Any = None, at: float | None = None, *, failed: bool = False) -> None:
        """Record the reply to a request. `reply` is its payload; None if the request was withdrawn or failed."""
        span = self._requests.pop(request_id, None)
        if span is not None:
            span.end = self._advance(at)
            span.status = "error" if failed else classify_reply(span.kind, reply)
            if isinstance(reply, dict):
                span.attributes["output"] = self._texts.shorten_json(reply)
            self._report(span)

    def _on_hook_run(self, run: HookRun, at: float | None) -> None:
        """Record a hook that the client ran, unless its request was already recorded."""
        if run.request_id in self._span_ids or run.request_id in self._requests:
            return
        end = self._advance(at)
        agent = run.agent_id or MAIN
        span = OpenSpan(run.request_id, "hook", run.event, end - run.duration, self._find_owner(agent), agent, end)
        span.status = "error" if run.error is not None else classify_reply("hook", run.output)
        span.attributes["handler"] = run.handler
        self._report(span)

    def _on_hook_started(self, message: HookStartedMessage, at: float | None) -> None:
        span = OpenSpan(message.hook_id, "hook", message.hook_event, self._advance(at), self._find_owner(MAIN))
        span.attributes["handler"] = self._texts.to_line(message.hook_name)
        self._requests[message.hook_id] = span

    def _on_hook_response(self, message: HookResponseMessage, at: float | None) -> None:
        span = self._requests.pop(message.hook_id, None)
        if span is not None:
            span.end = self._advance(at)
            ends: dict[str, SpanStatus] = {"success": "ok", "cancelled": "cancelled"}
            span.status = ends.get(message.outcome, "error")
            span.attributes["output"] = self._texts.shorten(message.output)
            self._report(span)


_HANDLERS: Final[Mapping[type, Callable[[SpanFold, Any, float | None], None]]] = {
    InitMessage: SpanFold._on_init,
    CommandLifecycleMessage: SpanFold._on_command_lifecycle,
    ResultMessage: SpanFold._on_result,
    APIRetryMessage: SpanFold._on_api_retry,
    AssistantMessage: SpanFold._on_assistant,
    UserMessage: SpanFold._on_user,
    StreamEventMessage: SpanFold._on_stream_event,
    PermissionDeniedMessage: SpanFold._on_permission_denied,
    TaskStartedMessage: SpanFold._on_started,
    TaskUpdatedMessage: SpanFold._on_updated,
    TaskNotificationMessage: SpanFold._on_notification,
    HookRun: SpanFold._on_hook_run,
    HookStartedMessage: SpanFold._on_hook_started,
    HookResponseMessage: SpanFold._on_hook_response,
}
FOLDED_TYPES: Final = frozenset({*_HANDLERS, MessageDeltaEvent}) - {StreamEventMessage}
"""The types of messages, and of the events in partial messages, that affect spans."""


def _was_rejected(message: UserMessage) -> bool:
    """Return whether a call was refused, according to its transcript entry."""
    decision = message.raw.get("permissionDecision")
    return isinstance(decision, dict) and decision.get("decision") == "reject"


def _attach(span: OpenSpan, call: str | None, *, is_background: bool) -> None:
    """Make a foreground task a child of its tool call, or link a background task to the call that launched it."""
    span.parent = None if is_background else call
    span.links = (call,) if is_background and call else ()


def _build_span(request_id: str, request: Any, at: float, texts: Texts) -> OpenSpan | None:
    """Return the span of a request, or None if a tool call covers it, as for a message to an MCP server."""
    match request:
        case HookCallbackRequest():
            agent = _as_text(request.input.get("agent_id"))
            span = OpenSpan(
                request_id, "hook", _as_text(request.input.get("hook_event_name")) or "hook", at, agent=agent
            )
            span.parent = _as_text(request.input.get("tool_use_id")) or None
            span.attributes["tool"] = _as_text(request.input.get("tool_name"))
        case CanUseToolRequest():
            span = OpenSpan(request_id, "waiting", request.tool_name, at, request.tool_use_id, request.agent_id or MAIN)
            span.attributes["question"] = "question" if request.requires_user_interaction else "permission"
            span.attributes["input"] = texts.shorten_json(request.input)
        case ElicitationRequest():
            span = OpenSpan(request_id, "waiting", request.server_name, at)
            span.attributes |= {"question": "elicitation", "input": texts.shorten(request.message)}
        case UserDialogRequest():
            span = OpenSpan(request_id, "waiting", request.dialog_kind, at, request.tool_use_id)
            span.attributes["question"] = "dialog"
        case _:
            return None
    return span


def classify_reply(kind: str, reply: Any) -> SpanStatus:
    """Return the status of a request from its reply; None means that the request was withdrawn."""
    if not isinstance(reply, Mapping):
        return "cancelled" if kind == "waiting" else "ok"
    specific = reply.get("hookSpecificOutput")
    inner = specific if isinstance(specific, Mapping) else {}
    words = (reply.get("behavior"), reply.get("action"), reply.get("decision"), inner.get("permissionDecision"))
    is_refused = reply.get("continue") is False or any(_as_text(word) in _REFUSALS for word in words)
    return "denied" if is_refused else "ok"


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else ""
