"""`RunEvents`: the events of AG-UI runs, made from those of a served session.

It knows what is told and which spans are open, but not who reads: `agui.py` decides when a run begins and ends.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Final
from uuid import uuid4

from ag_ui import core
from ag_ui.core import PROTOCOL_VERSION, BaseEvent

from claude_agent_py._base.json_object import JSONMapping
from claude_agent_py.serve.event_log import ServedEvent
from claude_agent_py.serve.frontend_tools import strip_name
from claude_agent_py.serve.session import ServedSession
from claude_agent_py.wire import CUT_OFF, JSONObject

APPROVAL: Final[JSONObject] = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "editedArgs": {"type": "object"},
        "reason": {"type": "string"},
    },
    "required": ["approved"],
}
"""How a permission or a plan is answered."""
_CHANGED: Final = frozenset({"started", "reopened", "progressed", "status_changed", "asked", "finished", "revised"})


class RunEvents:
    """Makes the events of runs: that of one prompt, or those of all turns of a session.

    Attributes:
        prompt: The prompt whose turn is told; None if all turns are, and the prompts themselves.
        turn: The prompts of the turn that is running, none if finished tasks caused it; None between two turns.
        questions: The open questions, by id.
        calls: The calls of the main agent that have no result, and whether the client runs them itself.
        waiting: Those that wait for the client, and whether calls after them may wait for that.
        answered: Those whose results the client has given, and so is not told.
        is_over: Whether the run has ended.
        is_torn: Whether the client lacks a part of what it has begun to read, which only a snapshot can give it.
    """

    def __init__(
        self, thread_id: str, run_id: str = "", parent_run_id: str | None = None, *, prompt: str | None, is_new: bool
    ) -> None:
        """Create a run.

        Args:
            thread_id: The thread.
            run_id: The id that the client has given to the run; without one, each `begin` makes another.
            parent_run_id: The run that it continues.
            prompt: See the attribute; empty if it is not known yet.
            is_new: Whether the client knows version 1.0, and so all outcomes.
        """
        self.prompt = prompt
        self.turn: tuple[str, ...] | None = None
        self.questions: dict[str, JSONMapping] = {}
        self.calls: dict[str, bool] = {}
        self.waiting: dict[str, bool] = {}
        self.answered: Collection[str] = ()
        self.is_over: bool = False
        self.is_torn: bool = False
        self._is_early = False
        """Whether the turn has not started: the first words of one that finished tasks caused come before its start."""
        self._is_complete = False
        """Whether the last message of the main agent is complete, so that no call of it follows."""
        self._thread_id = thread_id
        self._given_id = self._run_id = run_id
        self._parent_run_id = parent_run_id
        self._is_new = is_new
        self._follows = prompt is None
        """Whether the current turn is told."""
        self._words = _Words()
        self._calls: dict[str, str] = {}
        """The names of the calls whose arguments are being told."""
        self._arguments: dict[str, str] = {}
        """What was told of them."""
        self._cut: set[str] = set()
        """The messages and calls in the middle of which a run has ended: the rest of them is not told."""
        self._told: set[str] = set()
        """The calls and prompts that were told."""
        self._unanswered: dict[str, str | None] = {}
        """The calls without a result, with the subagents that made them."""
        self._agents: dict[str, core.SubagentStartedEvent] = {}
        """The subagents in the foreground that are at work, by their ids."""
        self._awaited: set[str] = set()
        """All of them, those that have ended included."""
        self._tasks: dict[str, JSONObject] = {}
        self._usage: list[core.TokenUsage] = []

    def begin(self) -> BaseEvent:
        """Return the first event."""
        self._run_id = self._given_id or str(uuid4())
        self.is_over, self._usage = False, []
        return core.RunStartedEvent(
            thread_id=self._thread_id,
            run_id=self._run_id,
            parent_run_id=self._parent_run_id,
            protocol_version=PROTOCOL_VERSION,
        )

    def go_on(self, session: ServedSession, earlier: "RunEvents") -> Iterator[BaseEvent]:
        """Continue the turn of an earlier run, with what is open in it and the subagents that it waits for."""
        if not session.prompts:  # background work asked, after the answer
            yield from self.end("ok", "")
            return
        self.prompt = session.prompts[-1]
        self._follows = True
        self.calls = dict(earlier.calls)
        self.waiting = {call: blocks for call, blocks in earlier.waiting.items() if call not in self.answered}
        self._unanswered = dict(earlier._unanswered)
        self._is_complete = earlier._is_complete
        self._words, self._calls, self._arguments = earlier._words, earlier._calls, earlier._arguments
        self._words.were_told, self._told = True, earlier._told
        for agent in session.list_waited_agents():
            yield self._begin_agent(*agent)
        yield from self._reopen_spans()

    @property
    def agents(self) -> Sequence[BaseEvent]:
        """The beginnings of the subagents that the turn waits for. Each run that tells of them has these."""
        return list(self._agents.values())

    def reopen(self) -> Iterator[BaseEvent]:
        """Yield the beginnings of all that is open, for a client that has its contents."""
        yield from self.agents
        yield from self._reopen_spans()

    def _reopen_spans(self) -> Iterator[BaseEvent]:
        yield from self._words.reopen()
        for call, name in self._calls.items():
            yield core.ToolCallStartEvent(tool_call_id=call, tool_call_name=name)

    @property
    def pending(self) -> list[str]:
        """The calls whose results the client has to give; none as long as anything else is going on."""
        calls = {call: is_frontend for call, is_frontend in self.calls.items() if call not in self.answered}
        if not self._is_complete or not self.waiting:
            return []
        first = next((call for call, is_frontend in calls.items() if not is_frontend or self.waiting.get(call)), "")
        is_stuck = calls.get(first, True)  # the first of the others is behind a call that blocks it
        return [call for call, is_frontend in calls.items() if is_frontend] if is_stuck else []

    @property
    def open_messages(self) -> set[str]:
        """The ids of the messages of which more will be told."""
        return {*self._words.open, *self._calls}

    def take(self, event: JSONMapping) -> Iterator[BaseEvent]:
        """Yield what an event of the session tells, but no end of a run."""
        kind = event["type"]
        if kind == "fact":
            yield from self._take_fact(event["fact"])
        elif kind == "todo":
            yield core.StateSnapshotEvent(snapshot={"todo": event["items"]})
        elif kind in ("text", "reasoning", "call", "arguments"):
            if self._follows:
                yield from self._take_delta(kind, event)
        elif kind == "closed":
            self.questions.clear()
            yield from self.leave_turn()
        elif kind == "question":
            self.questions[event["question"]] = event
        elif kind == "question_settled":
            self.questions.pop(event["question"], None)
        elif kind == "frontend_call":
            self.waiting[event["call"]] = event["blocks"]
        elif kind == "run_ended" and event["prompt"] == self.prompt and event["text"] and not self._words.were_told:
            yield from self._words.tell(event["prompt"], event["text"])  # it was answered within another turn

    def _take_delta(self, kind: str, event: JSONMapping) -> Iterator[BaseEvent]:
        if self.turn is None:
            self.turn, self._is_early = (), True
        if event.get("message", event.get("call")) in self._cut:
            return
        if kind == "text":
            yield from self._words.tell(event["message"], event["delta"])
        elif kind == "reasoning":
            yield from self._words.think(event["message"], event["delta"])
        elif kind == "call":
            yield from self._begin_call(event["call"], event["name"])
        elif kind == "arguments" and event["call"] in self._calls:
            self._arguments[event["call"]] += event["delta"]
            yield core.ToolCallArgsEvent(tool_call_id=event["call"], delta=event["delta"])

    def _take_fact(self, fact: JSONMapping) -> Iterator[BaseEvent]:
        kind = fact["fact"]
        if kind == "turn_started":
            if not self._is_early:
                yield from self._lose_calls()
                yield from self._words.close()  # of a turn whose process has ended before it
            self._is_early = False
            self.turn = tuple(fact.get("prompts", ()))
            self._follows = self.prompt is None or self.prompt in self.turn
        elif kind == "turn_ended":
            yield from self._end_turn(fact)
        elif kind == "prompt_sent":
            yield from self._tell_prompt(fact)
        elif kind.startswith("task_"):
            yield from self._take_task(kind.removeprefix("task_"), fact)
        elif self._follows and (not fact.get("agent") or fact["agent"] in self._agents):
            yield from self._take_content(kind, fact)

    def _take_content(self, kind: str, fact: JSONMapping) -> Iterator[BaseEvent]:
        if kind == "message_added":
            yield from self._take_message(fact)
        elif kind == "call_started":
            yield from self._take_call(fact)
        elif kind == "call_ended":
            yield from self._take_result(fact)
        elif kind == "request_retried":
            yield from self._drop_begun()

    def _drop_begun(self) -> Iterator[BaseEvent]:
        """End what the API broke off: the answer begins anew, and the client has a part that is in no message."""
        self.is_torn = self.is_torn or bool(self.open_messages)
        begun = list(self._calls)
        yield from _end_calls(self._calls)
        for call in begun:
            yield from self._tell_result(call, CUT_OFF)
        yield from self._words.close()

    def _end_turn(self, fact: JSONMapping) -> Iterator[BaseEvent]:
        self.turn = None
        if self._follows:
            self._usage = [_count(name, spent) for name, spent in fact.get("models", {}).items()]
            yield from self.leave_turn()
            self._follows = self.prompt is None

    def leave_turn(self) -> Iterator[BaseEvent]:
        """End the turn that is running, and what is open in it."""
        self.turn = None
        self.is_torn = self.is_torn or bool(self._cut)
        yield from self._lose_calls()
        yield from self.close()

    def _lose_calls(self) -> Iterator[BaseEvent]:
        """End the calls that get no result any more: they belong to an earlier turn, or to a process that has ended."""
        yield from _end_calls(self._calls)
        for call in list(self._unanswered):
            yield from self._tell_result(call, CUT_OFF)
        self.calls.clear()
        self.waiting.clear()

    # Messages -----------------------------------------------------------------------------------------------------

    def _tell_prompt(self, fact: JSONMapping) -> Iterator[BaseEvent]:
        """Tell a prompt, once, unless the client has sent it."""
        name = fact["id"]
        if self.prompt is not None or name in self._told:
            return
        self._told.add(name)
        yield core.TextMessageStartEvent(message_id=name, role="user")
        yield core.TextMessageContentEvent(message_id=name, delta=_read_text(fact["content"]))
        yield core.TextMessageEndEvent(message_id=name)

    def _take_message(self, fact: JSONMapping) -> Iterator[BaseEvent]:
        """Tell what of a message was not streamed. A subagent's messages are not."""
        agent = fact.get("agent", "")
        message = fact.get("id", "")
        if not agent:
            self._is_complete = fact.get("is_complete", False)
        if message in self._cut:
            self.is_torn = True
            return
        for block in fact.get("content", ()):
            if block["type"] == "text" and block["text"]:
                yield from self._words.complete(message, block["text"], agent or None)
            elif block["type"] == "thinking" and not agent:
                yield from self._words.complete_thought(message, block.get("thinking") or "")

    # Calls --------------------------------------------------------------------------------------------------------

    def _begin_call(self, call: str, name: str, agent: str | None = None) -> Iterator[BaseEvent]:
        if call in self._told:
            return
        yield from self._words.close()
        self._told.add(call)
        self._unanswered[call] = agent
        self._calls[call], self._arguments[call] = strip_name(name), ""
        yield core.ToolCallStartEvent(tool_call_id=call, tool_call_name=strip_name(name), subagent_run_id=agent)

    def _take_call(self, fact: JSONMapping) -> Iterator[BaseEvent]:
        agent, call, name = fact.get("agent", ""), fact["id"], fact["call"]["name"]
        if not agent:
            self.calls[call] = strip_name(name) != name
        if call not in self._told:
            yield from self._begin_call(call, name, agent or None)
        if call in self._calls and not self._arguments[call]:
            arguments = json.dumps(fact["call"].get("input", {}))
            self._arguments[call] = arguments
            yield core.ToolCallArgsEvent(tool_call_id=call, delta=arguments, subagent_run_id=agent or None)
        if not _is_json(self._arguments.pop(call, "{}")):  # a run has ended in the middle, or the reader came late
            self.is_torn = True
        if call in self._calls:
            del self._calls[call]
            yield core.ToolCallEndEvent(tool_call_id=call, subagent_run_id=agent or None)

    def _take_result(self, fact: JSONMapping) -> Iterator[BaseEvent]:
        agent, call = fact.get("agent", "") or None, fact["id"]
        self.calls.pop(call, None)
        self.waiting.pop(call, None)
        if call in self._unanswered or call not in self._told:  # it may be told as lost already
            self._unanswered[call] = agent
            yield from self._tell_result(call, _read_text(fact["result"].get("content")))

    def _tell_result(self, call: str, content: str) -> Iterator[BaseEvent]:
        """Tell the result of a call, unless the client has given it."""
        agent = self._unanswered.pop(call)
        if call not in self.answered:
            yield core.ToolCallResultEvent(
                message_id=f"{call}-result", tool_call_id=call, content=content, role="tool", subagent_run_id=agent
            )

    # Tasks --------------------------------------------------------------------------------------------------------

    def _take_task(self, kind: str, fact: JSONMapping) -> Iterator[BaseEvent]:
        """Tell of a subagent that the turn waits for, and of background work as an activity."""
        task, outcome = fact["task_id"], fact.get("outcome", {})
        if kind == "started" and not fact.get("is_backgrounded", True) and self._follows:
            name = fact.get("name") or fact.get("type") or "agent"
            yield self._begin_agent(task, name, fact.get("description"), fact.get("call"))
        elif kind == "finished" and task in self._agents:
            del self._agents[task]
            yield _end_agent(task, outcome)
        elif task not in self._awaited and kind in _CHANGED:
            known = self._tasks.setdefault(task, {"name": task, "status": "running"})
            news = {
                "name": fact.get("description"),
                "status": outcome.get("status") or fact.get("new"),
                "activity": fact.get("activity"),
                "summary": outcome.get("summary"),
            }
            known.update({key: value for key, value in news.items() if value})
            yield core.ActivitySnapshotEvent(message_id=task, activity_type="task", content=dict(known), replace=True)

    def _begin_agent(self, task: str, name: str, description: str | None, call: str | None) -> BaseEvent:
        self._awaited.add(task)
        begun = self._agents[task] = core.SubagentStartedEvent(
            subagent_run_id=task, name=name, description=description or None, parent_tool_call_id=call
        )
        return begun

    # The end ------------------------------------------------------------------------------------------------------

    def close(self, interrupts: Sequence[str] = ()) -> Iterator[BaseEvent]:
        """Yield the ends of all that is open."""
        yield from self._words.close()
        yield from _end_calls(self._calls)
        for task in self._agents:
            outcome = core.SubagentFinishedSuspendedOutcome(type="suspended", interrupt_ids=list(interrupts) or None)
            yield core.SubagentFinishedEvent(subagent_run_id=task, outcome=outcome)
        if not interrupts:
            self._agents.clear()

    def _cut_off(self, interrupts: Sequence[str] = ()) -> Iterator[BaseEvent]:
        self._cut |= {*self._words.messages, *self._calls}
        yield from self.close(interrupts)

    def end(self, status: str, error: str) -> Iterator[BaseEvent]:
        """End the run as its turn has ended, `ok`, `error` or `cancelled`, or with the open questions."""
        if status == "ok":
            pending = self.pending if self._is_new else []
            success = core.RunFinishedSuccessOutcome(type="success", pending_tool_call_ids=pending or None)
            yield from self.interrupt() if self.questions else self._finish(success)
        elif status == "cancelled" and self._is_new:
            yield from self._finish(core.RunFinishedCancelledOutcome(type="cancelled"))
        else:
            yield from self.fail(error or status, status)

    def interrupt(self) -> Iterator[BaseEvent]:
        """End the run with the open questions."""
        interrupts = [_describe(question) for question in self.questions.values()]
        yield from self._finish(core.RunFinishedInterruptOutcome(type="interrupt", interrupts=interrupts))

    def fail(self, message: str, code: str) -> Iterator[BaseEvent]:
        """End the run with an error."""
        yield from self._cut_off()
        yield core.RunErrorEvent(message=message, code=code, usage=self._usage or None)
        self.is_over = True

    def _finish(self, outcome: Any) -> Iterator[BaseEvent]:
        yield from self._cut_off(list(self.questions))
        yield core.RunFinishedEvent(
            thread_id=self._thread_id, run_id=self._run_id, outcome=outcome, usage=self._usage or None
        )
        self.is_over = True


def _end_calls(calls: dict[str, str]) -> Iterator[BaseEvent]:
    for call in calls:
        yield core.ToolCallEndEvent(tool_call_id=call)
    calls.clear()


def _end_agent(task: str, outcome: JSONMapping) -> BaseEvent:
    if outcome.get("status") == "failed":
        message = outcome.get("failure_reason") or "the subagent failed"
        return core.SubagentErrorEvent(subagent_run_id=task, message=message)
    success = core.SubagentFinishedSuccessOutcome(type="success")
    return core.SubagentFinishedEvent(subagent_run_id=task, result=outcome.get("summary") or None, outcome=success)


def replay(run: RunEvents, events: Iterable[ServedEvent], is_busy: bool) -> Iterator[tuple[int, BaseEvent]]:
    """Let a run take all events of a session so far, and yield what it tells, with the numbers of the events.

    Unless the session is busy, a turn that is unfinished in the stored conversation has ended with its process.
    """
    is_stored = True
    for event in events:
        if is_stored and event.number and not is_busy:
            yield from ((0, each) for each in run.leave_turn())
        is_stored = not event.number
        yield from ((event.number, each) for each in run.take(json.loads(event.data)))
    if is_stored and not is_busy:
        yield from ((0, each) for each in run.leave_turn())


class _Words:
    """The texts and thoughts that are told, of which some messages are open."""

    def __init__(self) -> None:
        self.were_told = False
        """Whether any text was told."""
        self._texts = _Spans()
        self._thoughts = _Spans()

    @property
    def open(self) -> list[str]:
        """The names of the open messages."""
        return [*self._texts.open.values(), *self._thoughts.open.values()]

    @property
    def messages(self) -> set[str]:
        """The open messages."""
        return {*self._texts.open, *self._thoughts.open}

    def reopen(self) -> Iterator[BaseEvent]:
        for name in self._thoughts.open.values():
            yield core.ReasoningStartEvent(message_id=name)
            yield core.ReasoningMessageStartEvent(message_id=name, role="reasoning")
        for name in self._texts.open.values():
            yield core.TextMessageStartEvent(message_id=name, role="assistant")

    def tell(self, message: str, delta: str, agent: str | None = None) -> Iterator[BaseEvent]:
        """Tell a piece of a text."""
        yield from self._close_thoughts()
        self.were_told = True
        if message not in self._texts.open:
            name = self._texts.begin(message)
            yield core.TextMessageStartEvent(message_id=name, role="assistant", subagent_run_id=agent)
        name = self._texts.tell(message, delta)
        yield core.TextMessageContentEvent(message_id=name, delta=delta, subagent_run_id=agent)

    def think(self, message: str, delta: str) -> Iterator[BaseEvent]:
        """Tell a piece of a thought."""
        if message not in self._thoughts.open:
            name = self._thoughts.begin(message, "-reasoning")
            yield core.ReasoningStartEvent(message_id=name)
            yield core.ReasoningMessageStartEvent(message_id=name, role="reasoning")
        yield core.ReasoningMessageContentEvent(message_id=self._thoughts.tell(message, delta), delta=delta)

    def complete(self, message: str, text: str, agent: str | None) -> Iterator[BaseEvent]:
        """Tell what of a text was not told, and its end."""
        if rest := text[self._texts.lengths.get(message, 0) :]:
            yield from self.tell(message, rest, agent)
        self._texts.lengths.pop(message, None)
        for name in self._texts.close(message):
            yield core.TextMessageEndEvent(message_id=name, subagent_run_id=agent)

    def complete_thought(self, message: str, text: str) -> Iterator[BaseEvent]:
        """Tell what of a thought was not told, and its end."""
        if rest := text[self._thoughts.lengths.get(message, 0) :]:
            yield from self.think(message, rest)
        self._thoughts.lengths.pop(message, None)
        yield from self._close_thoughts()

    def close(self) -> Iterator[BaseEvent]:
        """Tell the ends of all."""
        for name in self._texts.close():
            yield core.TextMessageEndEvent(message_id=name)
        yield from self._close_thoughts()

    def _close_thoughts(self) -> Iterator[BaseEvent]:
        for name in self._thoughts.close():
            yield core.ReasoningMessageEndEvent(message_id=name)
            yield core.ReasoningEndEvent(message_id=name)


class _Spans:
    """The open messages of a kind, with the names by which the client knows them: each block of a message has one."""

    def __init__(self) -> None:
        self.open: dict[str, str] = {}
        self.lengths: dict[str, int] = {}
        """How many characters were told of each message that has not come whole."""
        self._count: dict[str, int] = {}

    def begin(self, message: str, suffix: str = "") -> str:
        """Open the next block of a message, and return its name."""
        number = self._count[message] = self._count.get(message, 0) + 1
        name = self.open[message] = f"{message}{suffix}" if number == 1 else f"{message}{suffix}-{number}"
        return name

    def tell(self, message: str, delta: str) -> str:
        """Count a piece of an open message, and return its name."""
        self.lengths[message] = self.lengths.get(message, 0) + len(delta)
        return self.open[message]

    def close(self, message: str | None = None) -> list[str]:
        """Close a message, or all, and return the names of those that were open."""
        if message is None:
            names = list(self.open.values())
            self.open.clear()
            return names
        name = self.open.pop(message, None)
        return [] if name is None else [name]


def _describe(question: JSONMapping) -> core.Interrupt:
    """Return the interrupt for a question."""
    kind = question["kind"]
    shown = ("kind", "lines", "diff", "markdown", "steps", "form")
    is_decision = kind in ("permission", "plan")
    return core.Interrupt(
        id=question["question"],
        reason="tool_call" if is_decision else kind,
        message=question["title"],
        tool_call_id=question["call"] or None,
        response_schema=APPROVAL if is_decision else None,
        metadata={key: question[key] for key in shown if question[key]},
    )


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _read_text(content: Any) -> str:
    """Return the text of a content, with the types of its other blocks."""
    if isinstance(content, str):
        return content
    return "\n".join(block.get("text", f"[{block['type']}]") for block in content or ())


def _count(model: str, spent: JSONMapping) -> core.TokenUsage:
    tokens = spent.get("tokens", {})
    given, output, cached, written = (tokens.get(key, 0) for key in ("input", "output", "cache_read", "cache_write"))
    return core.TokenUsage(
        provider="anthropic",
        model=model,
        input_tokens=given,
        output_tokens=output,
        total_tokens=given + output + cached + written,
        cached_input_tokens=cached,
        cache_write_input_tokens=written,
    )
