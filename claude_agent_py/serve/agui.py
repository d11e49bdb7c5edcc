"""Sessions over the Agent User Interaction protocol (AG-UI 1.0): its runs, made of the events of a served session.

A run is the answer to one prompt. A question ends it with the outcome `interrupt` while the CLI goes on waiting, and
the run that answers it continues the same turn. Turns that finished tasks cause belong to no prompt: they are runs of
`follow`, which a page reads while it has no run.
"""

import json
from collections.abc import AsyncGenerator, Collection, Iterator, Sequence, Set
from contextlib import aclosing, contextmanager
from typing import Any
from uuid import NAMESPACE_URL, uuid5
from weakref import WeakKeyDictionary

import anyio.to_thread
from ag_ui import core
from ag_ui.core import BaseEvent, RunAgentInput

from claude_agent_py._base.checks import is_uuid
from claude_agent_py.durable import CallResult
from claude_agent_py.errors import ClaudeAgentError, OptionsError, SessionNotFoundError
from claude_agent_py.serve.agui_following import Follower
from claude_agent_py.serve.agui_messages import ThreadMessages, is_missing, rename
from claude_agent_py.serve.agui_run import RunEvents, replay
from claude_agent_py.serve.event_log import ServedEvent
from claude_agent_py.serve.frontend_tools import FrontendTool
from claude_agent_py.serve.session import ServedSession, describe
from claude_agent_py.serve.sessions import AnySessions, is_derived
from claude_agent_py.wire import JSONObject


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
        self._runs: WeakKeyDictionary[ServedSession, list[RunEvents]] = WeakKeyDictionary()
        """The runs of each session that answer a prompt now."""

    async def run(self, given: RunAgentInput, *, user: str = "") -> AsyncGenerator[BaseEvent, None]:
        """Run the agent for a request, and yield its events up to the end of the run.

        The session is that of the thread. Of `messages` only the last one of the user is sent, because the session has
        the others; if the client lacks some of them, it gets all. `forwardedProps`, `state` and `context` choose
        nothing.
        """
        is_new = given.protocol_version is not None
        run = RunEvents(given.thread_id, given.run_id, given.parent_run_id, prompt="", is_new=is_new)
        yield run.begin()
        try:
            session = await self.find(given.thread_id, user)
            with self._telling(session, run):
                async with aclosing(self._answer(session, given, user, run)) as events:
                    async for event in events:
                        yield event
            self._note_interrupts(session, run)
        except (ClaudeAgentError, ValueError) as error:
            for event in run.fail(str(error), type(error).__name__):
                yield event

    def follow(self, session: ServedSession, thread_id: str, after: str = "") -> AsyncGenerator[tuple[str, Any], None]:
        """Yield the events of a session that no run tells, as runs, and go on with new ones until the server ends.

        The first run has all messages so far, and the rest of the turn that is running. Further ones are the turns that
        nobody has asked for, and what others have sent. The last event of each run comes with an id: `after` names it.
        """
        follower = Follower(
            session,
            thread_id,
            is_told=lambda prompts: self._tells(session, prompts),
            note=lambda run: self._note_interrupts(session, run),
        )
        return follower.follow(after)

    async def find(self, thread_id: str, user: str) -> ServedSession:
        """Return the session of a thread, a new one if need be.

        Raises:
            SessionNotFoundError: It belongs to another user, or its id is a uuid of version 5 and it does not exist.
        """
        name = name_session(thread_id, user)
        try:
            return await self._sessions.get(name, user=user)
        except SessionNotFoundError:
            if is_derived(thread_id):
                raise
            try:
                return await self._sessions.create(user=user, session_id=name)
            except OptionsError:  # another run of the thread has just made it, or it belongs to another user
                return await self._sessions.get(name, user=user)

    # Who tells what -----------------------------------------------------------------------------------------------

    @contextmanager
    def _telling(self, session: ServedSession, run: RunEvents) -> Iterator[None]:
        runs = self._runs.setdefault(session, [])
        runs.append(run)
        try:
            yield
        finally:
            runs.remove(run)

    def _tells(self, session: ServedSession, prompts: Collection[str]) -> bool:
        """Return whether a run tells the turn of these prompts; maybe one whose prompt is just being sent."""
        return bool(prompts) and any(not run.prompt or run.prompt in prompts for run in self._runs.get(session, ()))

    def _note_interrupts(self, session: ServedSession, run: RunEvents) -> None:
        told = self._told.setdefault(session, set())
        told.intersection_update(session.questions)
        told.update(run.questions)

    # A run --------------------------------------------------------------------------------------------------------

    async def _answer(
        self, session: ServedSession, given: RunAgentInput, user: str, run: RunEvents
    ) -> AsyncGenerator[BaseEvent, None]:
        position, events = await session.read()
        earlier = RunEvents(given.thread_id, prompt=None, is_new=True)
        is_busy = session.is_busy
        messages = await anyio.to_thread.run_sync(
            _list_missing, events, given, earlier, is_busy
        )  # a long one takes long
        if messages:
            yield core.MessagesSnapshotEvent(messages=list(messages))
        for each in await self._send(session, given, user, run, earlier):
            yield each
        if run.is_over:
            return
        stream = session.follow(position)
        try:
            async for _, data in stream:
                event = json.loads(data.data)
                for each in run.take(event):
                    yield each
                ended = list(_end(run, event))
                for each in ended:
                    yield each
                if ended:
                    return
            raise ValueError("the server ends")
        finally:
            await stream.aclose()

    async def _send(
        self, session: ServedSession, given: RunAgentInput, user: str, run: RunEvents, earlier: RunEvents
    ) -> Sequence[BaseEvent]:
        """Send what the client has given, and return the first events; the run is over if it cannot go on."""
        has_results = await _give_results(session, given, run, earlier)
        # What is resumed was told, maybe by another server.
        told = self._told.get(session, set()) | {entry.interrupt_id for entry in given.resume or ()}
        told &= session.questions.keys()
        for question_id in session.questions.keys() - told:  # asked since: they end the run, or the next one
            run.questions[question_id] = describe(session.questions[question_id])
        if told or given.resume:
            await _resume(session, told, given.resume or (), user)
            return list(run.go_on(session, earlier))
        if has_results:
            begun = list(run.go_on(session, earlier))
            return [*begun, *run.end("ok", "")] if run.pending else begun
        is_blocked = session.is_blocked
        run.prompt = await session.send(_read_prompt(given))
        # Blocked by what no run has told, nothing happens until it is answered.
        return list(run.interrupt()) if is_blocked else ()


def _end(run: RunEvents, event: Any) -> Iterator[BaseEvent]:
    """Yield the end of the run, if the event ends it."""
    kind = event["type"]
    if kind == "question":
        yield from run.interrupt()
    elif kind == "run_ended" and event["prompt"] == run.prompt:
        yield from run.end(event["status"], event["error"])
    elif run.pending:
        yield from run.end("ok", "")
    elif kind == "reset":
        raise ValueError("the client has read too slowly: connect again")


def _list_missing(events: Sequence[ServedEvent], given: RunAgentInput, run: RunEvents, is_busy: bool) -> Sequence[Any]:
    """Let a run take the events, and return all messages if the client lacks some; otherwise none."""
    conversation = ThreadMessages()
    for _, each in replay(run, events, is_busy):
        conversation.take(each)
    last = given.messages[-1] if given.messages else None
    goes_on = bool(given.resume) or isinstance(last, core.ToolMessage)
    messages = conversation.list(without=() if goes_on else run.open_messages)
    if not is_missing(messages, given.messages):
        return ()
    sent: list[Any] = [
        each for each in given.messages if isinstance(each, core.ToolMessage) and each.tool_call_id in run.calls
    ]
    if given.messages and not given.resume and isinstance(given.messages[-1], core.UserMessage):
        sent.append(given.messages[-1])
    found = [*rename(messages, given.messages), *sent]
    # A client that declares no version may know no other roles.
    return found if given.protocol_version else [each for each in found if each.role in ("user", "assistant", "tool")]


async def _give_results(session: ServedSession, given: RunAgentInput, run: RunEvents, earlier: RunEvents) -> bool:
    """Offer the client's tools, and give its results. Return whether a turn goes on with them."""
    frontend = session.frontend
    if frontend is None:
        return False
    frontend.offer([FrontendTool(each.name, each.description, _read_schema(each)) for each in given.tools or ()])
    calls = {call for call, is_frontend in earlier.calls.items() if is_frontend} if session.is_busy else set()
    given_now = [each for each in given.messages if isinstance(each, core.ToolMessage) and each.tool_call_id in calls]
    results = {each.tool_call_id: _read_result(each) for each in given_now}
    last = given.messages[-1] if given.messages and not given.resume else None
    if isinstance(last, core.ToolMessage) and last.tool_call_id not in calls:
        raise ValueError(f"the call {last.tool_call_id} does not wait for a result")
    if isinstance(last, core.UserMessage):  # the person goes on without them
        results = {call: results.get(call, CallResult("the person has not answered", is_error=True)) for call in calls}
    run.answered = results.keys()
    if results:
        await frontend.answer(results)
    return isinstance(last, core.ToolMessage)


def _read_schema(tool: core.Tool) -> JSONObject:
    """Return the schema of a tool's arguments."""
    if tool.parameters is None:
        return {"type": "object", "properties": {}}
    if not isinstance(tool.parameters, dict):
        raise ValueError(f"`parameters` of the tool {tool.name!r} must be a JSON Schema")
    return tool.parameters


def _read_result(message: core.ToolMessage) -> CallResult:
    parts = message.content if isinstance(message.content, list) else []
    text = message.content if isinstance(message.content, str) else "\n".join(map(_read_part, parts))
    return CallResult(message.error or text, is_error=message.error is not None)


def _read_part(part: Any) -> str:
    return part.text if isinstance(part, core.TextPart) else f"[{part.type}]"


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


async def _resume(session: ServedSession, told: Set[str], entries: Sequence[core.ResumeEntry], user: str) -> None:
    """Answer each interrupt of the last run that is still open, once."""
    if not told and not session.prompts:
        raise ValueError("no interrupt is open, so there is nothing to resume")
    answers = {entry.interrupt_id: entry for entry in entries}
    if len(answers) != len(entries) or not told <= answers.keys():
        raise ValueError(f"`resume` must answer each open interrupt once: {', '.join(sorted(told))}")
    read = {key: _read_answer(session.questions[key].kind, answers[key]) for key in told}
    for question_id, answer in read.items():
        await session.answer(question_id, answer, by=user)


def _read_answer(kind: str, entry: core.ResumeEntry) -> JSONObject:
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
