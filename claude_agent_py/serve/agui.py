"""Sessions over the Agent User Interaction protocol (AG-UI 1.0): its events, made of those of a served session.

A run is the answer to one prompt. A question ends it with the outcome `interrupt` while the CLI goes on waiting, and
the run that answers it continues the same turn. Turns that finished tasks cause belong to no prompt and to no run.
"""

import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence, Set
from typing import Any, Final
from uuid import NAMESPACE_URL, uuid5
from weakref import WeakKeyDictionary

from ag_ui import core
from ag_ui.core import PROTOCOL_VERSION, BaseEvent, RunAgentInput

from claude_agent_py.errors import ClaudeAgentError, OptionsError, SessionNotFoundError
from claude_agent_py.serve.session import ServedSession, describe
from claude_agent_py.serve.sessions import AnySessions, is_uuid
from claude_agent_py.wire import JSONObject

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


def name_session(thread_id: str, user: str) -> str:
    """Return the id of the session of a thread: a uuid is one itself."""
    if is_uuid(thread_id):
        return thread_id.lower()
    return str(uuid5(NAMESPACE_URL, json.dumps(["claude_agent_py", user, thread_id])))


class Agent:
    """Runs the agent of these sessions for requests of AG-UI clients."""

    def __init__(self, sessions: AnySessions) -> None:
        self._sessions = sessions
        self._told: WeakKeyDictionary[ServedSession, set[str]] = WeakKeyDictionary()
        """The questions of each session that were interrupts of a run."""

    async def run(self, given: RunAgentInput, *, user: str = "") -> AsyncIterator[BaseEvent]:
        """Run the agent for a request, and yield its events up to the end of the run.

        The session is that of the thread. Of `messages` only the last one of the user is sent, because the session has
        the others; `forwardedProps`, `state` and `context` choose nothing.
        """
        run = _Run(given)
        yield run.begin()
        try:
            session = await self._find(given.thread_id, user)
            async for event in self._follow(session, given, user, run):
                yield event
            self._told[session] = set(run.questions)
        except (ClaudeAgentError, ValueError) as error:
            for event in run.close():
                yield event
            yield core.RunErrorEvent(message=str(error), code=type(error).__name__)

    async def _find(self, thread_id: str, user: str) -> ServedSession:
        name = name_session(thread_id, user)
        try:
            return await self._sessions.get(name, user=user)
        except SessionNotFoundError:
            try:
                return await self._sessions.create(user=user, session_id=name)
            except OptionsError:  # another run of the thread has just made it, or it belongs to another user
                return await self._sessions.get(name, user=user)

    async def _follow(
        self, session: ServedSession, given: RunAgentInput, user: str, run: "_Run"
    ) -> AsyncIterator[BaseEvent]:
        after = f"{session.epoch}.{session.log.last}"
        # What is resumed was told, maybe by another server.
        told = self._told.get(session, set()) | {entry.interrupt_id for entry in given.resume or ()}
        told &= session.questions.keys()
        for question_id in session.questions.keys() - told:  # asked since: they end the run, or the next one
            run.questions[question_id] = describe(session.questions[question_id])
        if told or given.resume:
            await _answer(session, told, given.resume or (), user)
            for each in run.go_on(session):
                yield each
            if run.is_over:
                return
        else:
            is_blocked = session.is_blocked
            run.prompt = await session.send(_read_prompt(given))
            if is_blocked:  # by what no run has told: nothing happens until it is answered
                for each in run.interrupt():
                    yield each
                return
        stream = session.follow(after)
        try:
            async for _, event in stream:
                for each in run.take(json.loads(event.data)):
                    yield each
                if run.is_over:
                    return
            raise ValueError("the server ends")
        finally:
            await stream.aclose()


def _read_prompt(given: RunAgentInput) -> str:
    """Return the text of the last message, which must be the user's."""
    message = given.messages[-1] if given.messages else None
    if not isinstance(message, core.UserMessage):
        raise ValueError("the last of `messages` must be one of the user")
    if isinstance(message.content, str):
        return message.content
    texts = [part.text for part in message.content if isinstance(part, core.TextPart)]
    if len(texts) != len(message.content):
        raise ValueError("`messages` may contain text only")
    return "\n".join(texts)


async def _answer(session: ServedSession, told: Set[str], entries: Sequence[core.ResumeEntry], user: str) -> None:
    """Answer each interrupt of the last run that is still open, once."""
    if not told and not session.prompts:
        raise ValueError("no interrupt is open, so there is nothing to resume")
    answers = {entry.interrupt_id: entry for entry in entries}
    if len(answers) != len(entries) or not told <= answers.keys():
        raise ValueError(f"`resume` must answer each open interrupt once: {', '.join(sorted(told))}")
    read = {key: _read_answer(session.questions[key].kind, answers[key]) for key in told}
    for question_id, answer in read.items():
        await session.answer(question_id, answer, by=user)


def _read_answer(kind: str, entry: core.ResumeEntry) -> dict[str, Any]:
    """Return the answer in an entry of `resume`. Everything that is not an approval denies."""
    payload = entry.payload if isinstance(entry.payload, dict) else {}
    if entry.status == "cancelled":
        return {"decision": "deny", "reason": str(payload.get("reason") or "")}
    if kind in ("permission", "plan"):
        if not isinstance(payload.get("approved"), bool):
            raise ValueError(f"the payload of {entry.interrupt_id} must have `approved`, true or false")
        edited = payload.get("editedArgs")
        return {
            "decision": "allow" if payload["approved"] else "deny",
            "reason": str(payload.get("reason") or ""),
            **({"input": edited} if isinstance(edited, dict) else {}),
        }
    return payload


class _Run:
    """Makes the events of one run from those of the session. Only the turn of its prompt is told."""

    def __init__(self, given: RunAgentInput) -> None:
        self.prompt = ""
        """The prompt that the run answers."""
        self.is_over = False
        self._given = given
        self._is_new = given.protocol_version is not None
        """Whether the client knows version 1.0, and so all outcomes."""
        self._follows = False
        """Whether the current turn is that of the prompt."""
        self._has_text = False
        self._texts = _Spans()
        self._thoughts = _Spans()
        self._length = 0
        """How many characters of the open text were told."""
        self._calls: set[str] = set()
        """The calls whose arguments are being told."""
        self._told: set[str] = set()
        """The calls that were told."""
        self._agents: dict[str, str] = {}
        """The names of the subagents in the foreground that are at work, by their ids."""
        self._awaited: set[str] = set()
        """All of them, those that have ended included."""
        self._tasks: dict[str, dict[str, Any]] = {}
        self.questions: dict[str, Mapping[str, Any]] = {}
        """The open questions, by id."""
        self._usage: list[core.TokenUsage] = []

    def begin(self) -> BaseEvent:
        """Return the first event."""
        given = self._given
        return core.RunStartedEvent(
            thread_id=given.thread_id,
            run_id=given.run_id,
            parent_run_id=given.parent_run_id,
            protocol_version=PROTOCOL_VERSION,
        )

    def go_on(self, session: ServedSession) -> Iterator[BaseEvent]:
        """Continue the turn of an earlier run, with the subagents that it waits for."""
        if not session.prompts:  # background work asked, after the answer
            yield from self._end_as("ok", "")
            return
        self.prompt = session.prompts[-1]
        self._follows = self._has_text = True
        for agent in session.list_waited_agents():
            yield from self._begin_agent(*agent)

    def take(self, event: Mapping[str, Any]) -> Iterator[BaseEvent]:
        """Yield what an event of the session tells about the run."""
        kind = event["type"]
        if kind == "fact":
            yield from self._take_fact(event["fact"])
        elif kind == "todo":
            yield core.StateSnapshotEvent(snapshot={"todo": event["items"]})
        elif kind in ("text", "reasoning", "call", "arguments"):
            if self._follows:
                yield from self._take_delta(kind, event)
        else:
            yield from self._take_end(kind, event)

    def _take_end(self, kind: str, event: Mapping[str, Any]) -> Iterator[BaseEvent]:
        if kind == "question":
            self.questions[event["question"]] = event
            yield from self.interrupt()
        elif kind == "question_settled":
            self.questions.pop(event["question"], None)
        elif kind == "run_ended" and event["prompt"] == self.prompt:
            if event["text"] and not self._has_text:  # it was answered within another turn
                yield from self._tell_text(self.prompt, event["text"])
            yield from self._end_as(event["status"], event["error"])
        elif kind == "closed":
            yield from self._end_as("error", event["error"] or "the process ended")

    def _take_delta(self, kind: str, event: Mapping[str, Any]) -> Iterator[BaseEvent]:
        if kind == "text":
            yield from self._tell_text(event["message"], event["delta"])
        elif kind == "reasoning":
            yield from self._tell_thought(event["message"], event["delta"])
        elif kind == "call":
            yield from self._begin_call(event["call"], event["name"])
        elif kind == "arguments" and event["call"] in self._calls:
            yield core.ToolCallArgsEvent(tool_call_id=event["call"], delta=event["delta"])

    def _take_fact(self, fact: Mapping[str, Any]) -> Iterator[BaseEvent]:
        kind = fact["fact"]
        if kind == "turn_started":
            self._follows = self.prompt in fact.get("prompts", ())
        elif kind == "turn_ended":
            if self._follows:
                self._usage = [_count(name, spent) for name, spent in fact.get("models", {}).items()]
        elif kind.startswith("task_"):
            yield from self._take_task(kind.removeprefix("task_"), fact)
        elif not self._follows or (fact.get("agent") and fact["agent"] not in self._agents):
            return
        elif kind == "message_added":
            yield from self._take_message(fact)
        elif kind == "call_started":
            yield from self._take_call(fact)
        elif kind == "call_ended":
            yield from self._take_result(fact)

    # Messages -----------------------------------------------------------------------------------------------------

    def _tell_text(self, message: str, delta: str, agent: str | None = None) -> Iterator[BaseEvent]:
        yield from self._close_thoughts()
        self._has_text = True
        if message not in self._texts.open:
            name, self._length = self._texts.begin(message), 0
            yield core.TextMessageStartEvent(message_id=name, role="assistant", subagent_run_id=agent)
        self._length += len(delta)
        name = self._texts.open[message]
        yield core.TextMessageContentEvent(message_id=name, delta=delta, subagent_run_id=agent)

    def _tell_thought(self, message: str, delta: str) -> Iterator[BaseEvent]:
        if message not in self._thoughts.open:
            name = self._thoughts.begin(message, "-reasoning")
            yield core.ReasoningStartEvent(message_id=name)
            yield core.ReasoningMessageStartEvent(message_id=name, role="reasoning")
        yield core.ReasoningMessageContentEvent(message_id=self._thoughts.open[message], delta=delta)

    def _close_texts(self) -> Iterator[BaseEvent]:
        for name in self._texts.close():
            yield core.TextMessageEndEvent(message_id=name)

    def _close_thoughts(self) -> Iterator[BaseEvent]:
        for name in self._thoughts.close():
            yield core.ReasoningMessageEndEvent(message_id=name)
            yield core.ReasoningEndEvent(message_id=name)

    def _take_message(self, fact: Mapping[str, Any]) -> Iterator[BaseEvent]:
        """Tell what of a message was not streamed. A subagent's messages are not."""
        agent = fact.get("agent", "")
        message = fact.get("id", "")
        for block in fact.get("content", ()):
            if block["type"] == "text" and block["text"]:
                told = self._length if message in self._texts.open else 0
                if rest := block["text"][told:]:
                    yield from self._tell_text(message, rest, agent or None)
                for name in self._texts.close(message):
                    yield core.TextMessageEndEvent(message_id=name, subagent_run_id=agent or None)
            elif block["type"] == "thinking" and not agent:
                if block.get("thinking") and message not in self._thoughts.open:
                    yield from self._tell_thought(message, block["thinking"])
                yield from self._close_thoughts()

    # Calls --------------------------------------------------------------------------------------------------------

    def _begin_call(self, call: str, name: str, agent: str | None = None) -> Iterator[BaseEvent]:
        if call in self._told:
            return
        yield from self._close_texts()
        yield from self._close_thoughts()
        self._told.add(call)
        self._calls.add(call)
        yield core.ToolCallStartEvent(tool_call_id=call, tool_call_name=name, subagent_run_id=agent)

    def _take_call(self, fact: Mapping[str, Any]) -> Iterator[BaseEvent]:
        agent, call = fact.get("agent", ""), fact["id"]
        if call not in self._told:
            yield from self._begin_call(call, fact["call"]["name"], agent or None)
            arguments = json.dumps(fact["call"].get("input", {}))
            yield core.ToolCallArgsEvent(tool_call_id=call, delta=arguments, subagent_run_id=agent or None)
        if call in self._calls:
            self._calls.discard(call)
            yield core.ToolCallEndEvent(tool_call_id=call, subagent_run_id=agent or None)

    def _take_result(self, fact: Mapping[str, Any]) -> Iterator[BaseEvent]:
        agent = fact.get("agent", "")
        content = fact["result"].get("content", "")
        if not isinstance(content, str):
            content = "\n".join(block.get("text", f"[{block['type']}]") for block in content or ())
        call = fact["id"]
        yield core.ToolCallResultEvent(
            message_id=f"{call}-result", tool_call_id=call, content=content, role="tool", subagent_run_id=agent or None
        )

    # Tasks --------------------------------------------------------------------------------------------------------

    def _take_task(self, kind: str, fact: Mapping[str, Any]) -> Iterator[BaseEvent]:
        """Tell of a subagent that the turn waits for, and of background work as an activity."""
        task, outcome = fact["task_id"], fact.get("outcome", {})
        if kind == "started" and not fact.get("is_backgrounded", True) and self._follows:
            name = fact.get("name") or fact.get("type") or "agent"
            yield from self._begin_agent(task, name, fact.get("description"), fact.get("call"))
        elif kind == "finished" and task in self._agents:
            yield from self._end_agent(task, outcome)
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

    def _begin_agent(self, task: str, name: str, description: str | None, call: str | None) -> Iterator[BaseEvent]:
        self._agents[task] = name
        self._awaited.add(task)
        yield core.SubagentStartedEvent(
            subagent_run_id=task, name=name, description=description or None, parent_tool_call_id=call
        )

    def _end_agent(self, task: str, outcome: Mapping[str, Any]) -> Iterator[BaseEvent]:
        del self._agents[task]
        if outcome.get("status") == "failed":
            message = outcome.get("failure_reason") or "the subagent failed"
            yield core.SubagentErrorEvent(subagent_run_id=task, message=message)
        else:
            result = core.SubagentFinishedSuccessOutcome(type="success")
            yield core.SubagentFinishedEvent(
                subagent_run_id=task, result=outcome.get("summary") or None, outcome=result
            )

    # The end ------------------------------------------------------------------------------------------------------

    def close(self, interrupts: Sequence[str] = ()) -> Iterator[BaseEvent]:
        """Yield the ends of all that is open."""
        yield from self._close_texts()
        yield from self._close_thoughts()
        for call in self._calls:
            yield core.ToolCallEndEvent(tool_call_id=call)
        self._calls.clear()
        for task in list(self._agents):
            del self._agents[task]
            outcome = core.SubagentFinishedSuspendedOutcome(type="suspended", interrupt_ids=list(interrupts) or None)
            yield core.SubagentFinishedEvent(subagent_run_id=task, outcome=outcome)

    def _end(self, outcome: Any) -> Iterator[BaseEvent]:
        yield from self.close(list(self.questions))
        given = self._given
        yield core.RunFinishedEvent(
            thread_id=given.thread_id, run_id=given.run_id, outcome=outcome, usage=self._usage or None
        )
        self.is_over = True

    def _end_as(self, status: str, error: str) -> Iterator[BaseEvent]:
        if status == "ok":
            success = core.RunFinishedSuccessOutcome(type="success")
            yield from self.interrupt() if self.questions else self._end(success)
        elif status == "cancelled" and self._is_new:
            yield from self._end(core.RunFinishedCancelledOutcome(type="cancelled"))
        else:
            yield from self.close()
            yield core.RunErrorEvent(message=error or status, code=status, usage=self._usage or None)
            self.is_over = True

    def interrupt(self) -> Iterator[BaseEvent]:
        """End the run with the open questions."""
        interrupts = [_describe(question) for question in self.questions.values()]
        yield from self._end(core.RunFinishedInterruptOutcome(type="interrupt", interrupts=interrupts))


class _Spans:
    """The open messages of a kind, with the names by which the client knows them: each block of a message has one."""

    def __init__(self) -> None:
        self.open: dict[str, str] = {}
        self._count: dict[str, int] = {}

    def begin(self, message: str, suffix: str = "") -> str:
        """Open the next block of a message, and return its name."""
        number = self._count[message] = self._count.get(message, 0) + 1
        name = self.open[message] = f"{message}{suffix}" if number == 1 else f"{message}{suffix}-{number}"
        return name

    def close(self, message: str | None = None) -> list[str]:
        """Close a message, or all, and return the names of those that were open."""
        if message is None:
            names = list(self.open.values())
            self.open.clear()
            return names
        name = self.open.pop(message, None)
        return [] if name is None else [name]


def _describe(question: Mapping[str, Any]) -> core.Interrupt:
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


def _count(model: str, spent: Mapping[str, Any]) -> core.TokenUsage:
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
