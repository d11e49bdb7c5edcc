"""`SpanFold`: the spans of a session, a view of its journal.

The journal pairs what belongs together; a span is what a fact started and another one ended. It has no clock: a fact
without a time happens at the time of the fact before it.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from msgspec.structs import asdict

from claude_agent_py._base.bounded_dict import BoundedDict
from claude_agent_py._base.log import Drops
from claude_agent_py._journal.facts import (
    MAIN,
    AnyFact,
    CallEnded,
    CallStarted,
    Fact,
    InputAdded,
    MessageAdded,
    PromptSent,
    RequestOpened,
    RequestRetried,
    RequestSettled,
    Spent,
    TaskBackgrounded,
    TaskFinished,
    TaskReopened,
    TaskRevised,
    TaskStarted,
    TaskStatusChanged,
    Tokens,
    TurnEnded,
    TurnStarted,
)
from claude_agent_py._journal.views import MessageFold, View
from claude_agent_py.observe.open_spans import (
    CALL_STATUSES,
    MAX_NAME_CHARS,
    MAX_SECRET_CHARS,
    OpenSpan,
    Texts,
    describe_end,
    pick_larger,
)
from claude_agent_py.observe.spans import TASK_STATUSES, Span, SpanKind
from claude_agent_py.wire.base import JSONObject
from claude_agent_py.wire.messages.content import TextBlock, ThinkingBlock, text_of
from claude_agent_py.wire.messages.tasks import AGENT_TYPES, CHILD_AGENT
from claude_agent_py.wire.settings.rule_lists import AGENT_TOOLS

MAX_CHARS: Final = 2000
"""The default limit for each text of a span (prompts, inputs, outputs), in characters."""
_MAX_IDS: Final = 100_000


@dataclass(slots=True)
class AgentConversation:
    """The conversation of the main agent or a subagent."""

    asked_at: float | None = None
    """When the model got its latest input: a prompt or a result."""
    model: OpenSpan | None = None
    """The API message that is arriving."""


class SpanFold(View):
    """Builds the spans of one session.

    Args:
        on_end: Called with each span as it ends. `finish` reports the spans that are still open.
        max_chars: The limit for each text of a span, in characters; 0 keeps no text.
        on_correction: Called if the outcome of a task is corrected after its span has ended, with the fact and the
            attributes of the span that describe the end.
        secrets: What is hidden in texts, with what is shown instead; by default the secrets of this program's
            environment. `claude_agent_py.options.find_secrets` finds those of a session.
    """

    def __init__(
        self,
        on_end: Callable[[Span], object],
        *,
        max_chars: int = MAX_CHARS,
        on_correction: Callable[[TaskFinished | TaskRevised, JSONObject], object] = lambda fact, attributes: None,
        secrets: Mapping[str, str] | None = None,
    ) -> None:
        self.session_id: str = ""
        """The id of the session; empty before the first turn."""
        self.now: float = 0.0
        """The latest time seen, in seconds since the epoch."""
        self._messages: MessageFold = MessageFold()
        """For messages from elsewhere, passed to `feed`."""
        self._texts: Texts = Texts(max_chars, secrets)
        self._is_dated: bool = False
        """Whether any fact so far had a time."""
        self._run: OpenSpan | None = None
        self._turn: OpenSpan | None = None
        self._spent: dict[str, Spent] = {}
        """The usage by model of turns without an answer, caused by finished subagents. It is added to the next turn."""
        self._sent: dict[str, tuple[str, float]] = {}
        """The prompts without a turn yet, with their times."""
        self._conversations: defaultdict[str, AgentConversation] = defaultdict(AgentConversation)
        self._calls: dict[str, OpenSpan] = {}
        self._tasks: dict[str, OpenSpan] = {}
        self._requests: dict[str, OpenSpan] = {}
        self._span_ids: BoundedDict[str, int] = BoundedDict(_MAX_IDS)
        """How often the id of each reported span was used."""
        self._on_end = on_end
        self._on_correction = on_correction
        self._drops = Drops("the view of the spans of a session")

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

    def feed(self, message: object, at: float | None = None, *, sent: bool = False) -> None:
        """Fold a frame of any kind.

        Args:
            message: A message or a control frame of the wire, or a `HookRun`. Others are ignored.
            at: When it passed, in seconds since the epoch; None if unknown.
            sent: Whether it was sent to the CLI. Otherwise the CLI sent it.
        """
        self._advance(at)
        self.add(self._messages.feed(message, at, sent=sent))

    def add(self, facts: Iterable[Fact]) -> None:
        """Add facts of the journal of the session, instead of feeding messages.

        A fact that cannot be added is logged and dropped.
        """
        for fact in facts:
            handler = _HANDLERS.get(type(fact))
            if handler is None:
                continue
            try:
                handler(self, fact, self._advance(fact.at))
            except Exception:
                self._drops.note(fact)

    def finish(self, at: float | None = None) -> None:
        """End the session: report the open spans, with the status `running`."""
        self._advance(at)
        self.add(self._messages.finish())
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
        """Move the clock to a time and return it. If the time is unknown, return the latest time."""
        if at is None:
            return self.now
        if not self._is_dated:
            self._backdate(at)
        self.now = max(self.now, at)
        return at

    def _backdate(self, at: float) -> None:
        """Set the start of all open spans to the first known time."""
        self._is_dated = True
        self._sent = {key: (text, at) for key, (text, _) in self._sent.items()}
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
        ended = span.to_span()
        try:
            self._on_end(ended)
        except Exception:
            self._drops.note(ended)

    def _find_owner(self, agent: str) -> str | None:
        """Return the id of the span that encloses the work of an agent."""
        if agent != MAIN:
            task = self._tasks.get(agent)
            return agent if task is None else task.id
        return self._turn.id if self._turn is not None else None

    # Runs and turns

    def _on_prompt(self, fact: PromptSent, at: float) -> None:
        self._sent[fact.id] = (text_of(fact.content), at)

    def _on_turn_started(self, fact: TurnStarted, at: float) -> None:
        self.session_id = fact.session_id or self.session_id
        run = self._run
        if fact.prompts or run is None:
            run = self._begin_run(fact, at)
        self._turn = OpenSpan(f"run:{fact.id}", "turn", run.name, at, parent=run.id, links=fact.causes)
        if fact.prompts:
            self._turn.attributes["prompt"] = run.attributes.get("prompt")
        self._conversations[MAIN].asked_at = at

    def _begin_run(self, fact: TurnStarted, at: float) -> OpenSpan:
        if self._run is not None:
            self._finish_run(self._run)
        run = self._run = OpenSpan(f"run:{fact.run}", "run", "run", at)
        sent = [self._sent.pop(prompt) for prompt in fact.prompts if prompt in self._sent]
        if sent:
            run.start = min(at, sent[0][1])
            text = "\n\n".join(text for text, _ in sent)
            run.name = self._texts.to_line(text) or "run"
            run.attributes["prompt"] = self._texts.shorten(text)
        return run

    def _on_turn_ended(self, fact: TurnEnded, at: float) -> None:
        self._end_model(MAIN)
        turn, self._turn = self._turn, None
        run = self._run
        if turn is None or run is None:
            return
        if fact.at is None and fact.duration is not None and (self._is_dated or not fact.is_silent):
            at = self._advance(max(self.now, turn.start + fact.duration))
        run.end = turn.end = at
        run.status = turn.status = fact.status
        if fact.cost_usd is not None:
            self._add_usage(turn, fact)
            run.tokens = (run.tokens or Tokens()) + turn.tokens if turn.tokens is not None else run.tokens
        if not fact.is_silent:
            if turn.cost_usd is not None:
                run.cost_usd = (run.cost_usd or 0.0) + turn.cost_usd
            self._spent = {}
            self._report(turn)

    def _add_usage(self, turn: OpenSpan, fact: TurnEnded) -> None:
        turn.tokens = fact.tokens
        for model, spent in fact.models.items():
            self._spent[model] = self._spent.get(model, Spent()) + spent
        turn.cost_usd = sum(spent.cost_usd for spent in self._spent.values())
        turn.attributes |= {
            "stop_reason": fact.stop_reason,
            "terminal_reason": fact.terminal_reason,
            "error": self._texts.shorten(fact.error),
            "output": self._texts.shorten(fact.text),
            "models": {model: asdict(spent) for model, spent in self._spent.items()},
        }
        turn.links = fact.causes or turn.links

    def _finish_run(self, run: OpenSpan) -> None:
        """Report a run. Its cost includes turns without an answer."""
        if self._spent:
            run.cost_usd = (run.cost_usd or 0.0) + sum(spent.cost_usd for spent in self._spent.values())
            self._spent = {}
        self._report(run)

    def _on_retry(self, fact: RequestRetried, at: float) -> None:
        if self._turn is not None:
            self._turn.attributes["api_retries"] = self._turn.attributes.get("api_retries", 0) + 1

    # Calls of the model and of tools

    def _on_message(self, fact: MessageAdded, at: float) -> None:
        if fact.is_synthetic:
            owner = self._tasks.get(fact.agent) or self._turn
            if owner is not None:
                owner.attributes["error_type"] = fact.error
            return
        conversation = self._conversations[fact.agent]
        model = conversation.model
        if model is None or model.id != fact.id:
            self._end_model(fact.agent)
            start = at if conversation.asked_at is None else min(at, conversation.asked_at)
            model = OpenSpan(fact.id, "model", fact.model or "model", start, self._find_owner(fact.agent), fact.agent)
            model.status = "ok"
            model.attributes = {"calls": [], "output": "", "output_tokens_so_far": True}
            conversation.model = model
        if fact.content or model.end is None:
            model.end = at
        self._add_content(model, fact)

    def _add_content(self, model: OpenSpan, fact: MessageAdded) -> None:
        model.tokens = pick_larger(model.tokens, fact.tokens)
        model.attributes["stop_reason"] = fact.stop_reason or model.attributes.get("stop_reason")
        if fact.is_complete:
            model.attributes["output_tokens_so_far"] = None
        for block in fact.content:
            if type(block) is TextBlock and self._texts.limit:
                model.attributes["output"] += block.text[: self._texts.limit + MAX_SECRET_CHARS]
            elif type(block) is ThinkingBlock:
                model.attributes["is_thinking"] = True

    def _end_model(self, agent: str) -> None:
        """End the API message of an agent, if one is arriving."""
        conversation = self._conversations.get(agent)
        if conversation is None or conversation.model is None:
            return
        model, conversation.model = conversation.model, None
        model.attributes["output"] = self._texts.shorten(model.attributes.get("output"))
        model.attributes["calls"] = model.attributes["calls"] or None
        self._report(model)

    def _on_input(self, fact: InputAdded, at: float) -> None:
        self._conversations[fact.agent].asked_at = at

    def _on_call_started(self, fact: CallStarted, at: float) -> None:
        block = fact.call
        call = self._calls[fact.id] = OpenSpan(
            fact.id, "tool", block.name, at, self._find_owner(fact.agent), fact.agent
        )
        call.attributes = {"input": self._texts.shorten_json(block.input), "is_unlisted": fact.is_unlisted or None}
        if block.name in AGENT_TOOLS:  # its description identifies a call better than the whole input
            call.attributes["description"] = self._texts.to_line(str(block.input.get("description") or ""))
        model = self._conversations[fact.agent].model
        if model is not None and model.id == fact.message:
            model.attributes["calls"].append(block.name[:MAX_NAME_CHARS])
            model.end = at

    def _on_call_ended(self, fact: CallEnded, at: float) -> None:
        self._conversations[fact.agent].asked_at = at
        call = self._calls.pop(fact.id, None)
        if call is not None:
            call.end = at
            call.status = CALL_STATUSES.get(fact.status, "running")
            call.attributes["output"] = self._texts.shorten(fact.result.text)
            self._report(call)

    # Tasks

    def _on_task_started(self, fact: TaskStarted | TaskReopened, at: float) -> None:
        is_agent = fact.type in AGENT_TYPES
        kind: SpanKind = "task"
        if fact.type == CHILD_AGENT:
            kind = "child"
        elif is_agent:
            kind = "subagent"
        span = self._tasks[fact.task_id] = OpenSpan(
            fact.id, kind, fact.name or fact.type or "task", at, agent=fact.task_id
        )
        _attach(span, fact.call, is_background=fact.is_backgrounded)
        span.attributes = {
            "type": fact.type,
            "tool_use_id": fact.call,
            "launched_by": fact.agent,
            "description": self._texts.to_line(fact.description),
            "prompt": self._texts.shorten(fact.prompt),
        }
        if is_agent:
            self._conversations[fact.task_id].asked_at = at

    def _on_task_backgrounded(self, fact: TaskBackgrounded, at: float) -> None:
        task = self._tasks.get(fact.task_id)
        if task is not None:
            _attach(task, task.attributes.get("tool_use_id"), is_background=True)

    def _on_task_status(self, fact: TaskStatusChanged, at: float) -> None:
        task = self._tasks.get(fact.task_id)
        if task is not None and fact.new.is_terminal:
            task.end = at
            task.status = TASK_STATUSES.get(fact.new, "running")
            task.attributes["error"] = self._texts.shorten(fact.failure_reason)

    def _on_task_finished(self, fact: TaskFinished | TaskRevised, at: float) -> None:
        task, outcome = self._tasks.get(fact.task_id), fact.outcome
        if task is None or task.id != fact.id:  # the task may run again
            self._on_correction(fact, describe_end(outcome, self._texts))
            return
        del self._tasks[fact.task_id]
        self._end_model(fact.task_id)
        self._conversations.pop(fact.task_id, None)
        task.end = task.end or at  # the change of the status has the exact end
        task.status = TASK_STATUSES.get(outcome.status, "running")
        task.attributes |= describe_end(outcome, self._texts)
        if outcome.usage is not None and outcome.usage.cost_usd is not None:
            task.cost_usd = outcome.usage.cost_usd
        if at != task.end:
            task.attributes["notified_at"] = at
        self._report(task)

    # Requests of the CLI, and hooks

    def _on_request(self, fact: RequestOpened, at: float) -> None:
        parent = fact.call or self._find_owner(fact.agent)
        kind: SpanKind = "hook" if fact.kind == "hook" else "waiting"
        span = self._requests[fact.id] = OpenSpan(fact.id, kind, fact.name, at, parent, fact.agent)
        span.attributes = {
            "question": None if fact.kind == "hook" else fact.kind,
            "input": self._texts.shorten_json(fact.input),
            "tool": fact.tool[:MAX_NAME_CHARS],
        }

    def _on_settled(self, fact: RequestSettled, at: float) -> None:
        span = self._requests.pop(fact.id, None)
        if span is not None:
            span.end = at
            span.status = fact.status
            span.attributes["handler"] = fact.handler[:MAX_NAME_CHARS]
            span.attributes["output"] = self._texts.shorten_json(fact.reply)
            self._report(span)


_HANDLERS: Final[Mapping[type[AnyFact], Callable[..., None]]] = {
    PromptSent: SpanFold._on_prompt,
    TurnStarted: SpanFold._on_turn_started,
    TurnEnded: SpanFold._on_turn_ended,
    RequestRetried: SpanFold._on_retry,
    MessageAdded: SpanFold._on_message,
    InputAdded: SpanFold._on_input,
    CallStarted: SpanFold._on_call_started,
    CallEnded: SpanFold._on_call_ended,
    TaskStarted: SpanFold._on_task_started,
    TaskReopened: SpanFold._on_task_started,
    TaskBackgrounded: SpanFold._on_task_backgrounded,
    TaskStatusChanged: SpanFold._on_task_status,
    TaskFinished: SpanFold._on_task_finished,
    TaskRevised: SpanFold._on_task_finished,
    RequestOpened: SpanFold._on_request,
    RequestSettled: SpanFold._on_settled,
}


def _attach(span: OpenSpan, call: str | None, *, is_background: bool) -> None:
    """Make a foreground task a child of its tool call, or link a background task to the call that launched it."""
    span.parent = None if is_background else call
    span.links = (call,) if is_background and call else ()
