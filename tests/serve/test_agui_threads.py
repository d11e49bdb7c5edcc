"""What a client of AG-UI gets of a thread that exists: its messages so far, and the turns that nobody asked for."""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from ag_ui import core
from anyio.streams.memory import MemoryObjectReceiveStream
from called_app import Agent
from test_agui import check_order, only_session, say

from claude_agent_py import AgentDefinition
from claude_agent_py.serve import Sessions
from claude_agent_py.testing import Gate, Reply, ScriptedModel, thinking, tool_use

pytestmark = [pytest.mark.anyio, pytest.mark.real_cli]

LIMIT = 60
WORKER = {"worker": AgentDefinition(description="Works", prompt="You work.")}


def shell(command: str) -> Any:
    return tool_use("Bash", {"command": command, "description": "Run it"})


def delegate(prompt: str, *, background: bool) -> Any:
    given = {"description": "Look", "prompt": prompt, "subagent_type": "worker", "run_in_background": background}
    return tool_use("Agent", given)


def fold(events: Iterable[Any]) -> dict[str, list[Any]]:
    """Return the messages that a client makes of events, each call followed by its results."""
    found: dict[str, list[Any]] = {}
    for event in events:
        match event.type:
            case "TEXT_MESSAGE_START":
                kind = core.UserMessage if event.role == "user" else core.AssistantMessage
                found[event.message_id] = [kind(id=event.message_id, content="", subagent_run_id=event.subagent_run_id)]
            case "REASONING_MESSAGE_START":
                found[event.message_id] = [core.ReasoningMessage(id=event.message_id, content="")]
            case "TEXT_MESSAGE_CONTENT" | "REASONING_MESSAGE_CONTENT":
                found[event.message_id][0].content += event.delta
            case "TOOL_CALL_START":
                function = core.FunctionCall(name=event.tool_call_name, arguments="")
                call = core.ToolCall(id=event.tool_call_id, function=function)
                own = {"id": call.id, "tool_calls": [call], "subagent_run_id": event.subagent_run_id}
                found[call.id] = [core.AssistantMessage(**own)]
            case "TOOL_CALL_ARGS":
                found[event.tool_call_id][0].tool_calls[0].function.arguments += event.delta
            case "TOOL_CALL_RESULT":
                names = {"id": event.message_id, "tool_call_id": event.tool_call_id}
                result = core.ToolMessage(**names, content=event.content, subagent_run_id=event.subagent_run_id)
                found.setdefault(event.tool_call_id, []).append(result)
            case "ACTIVITY_SNAPSHOT":
                shown = {"activity_type": event.activity_type, "content": event.content}
                found[event.message_id] = [core.ActivityMessage(id=event.message_id, **shown)]
            case _:
                pass
    return found


class Client:
    """A client that keeps the messages of its thread as `@ag-ui/client` does."""

    def __init__(self, agent: Agent, thread: str = "a-thread") -> None:
        self.agent = agent
        self.thread = thread
        self.messages: list[Any] = []
        self.version: str | None = "1.0"
        self.tools: list[core.Tool] = []

    async def run(self, text: str = "", *more: Any, resume: Any = None) -> list[Any]:
        if text:
            self.messages.append(core.UserMessage(id=f"u{len(self.messages)}", content=text))
        self.messages += more
        given = core.RunAgentInput(
            thread_id=self.thread,
            run_id="r",
            messages=self.messages,
            tools=self.tools,
            protocol_version=self.version,
            resume=resume,
        )
        with anyio.fail_after(LIMIT):
            events = [event async for event in self.agent.run(given)]
        check_order(events)
        told = [message for group in fold(events).values() for message in group]
        for event in events:
            if isinstance(event, core.MessagesSnapshotEvent):
                self.messages = list(event.messages)
        self.messages += told
        return events

    @asynccontextmanager
    async def follow(self, after: str = "") -> AsyncIterator["Following"]:
        send, receive = anyio.create_memory_object_stream[tuple[str, Any]](1000)

        async def read() -> None:
            async with self.agent.follow(self.thread, after) as events:
                async for each in events:
                    await send.send(each)

        async with anyio.create_task_group() as group, send, receive:
            group.start_soon(read)
            yield Following(receive)
            group.cancel_scope.cancel()


class Following:
    """The runs that a reader gets."""

    def __init__(self, stream: MemoryObjectReceiveStream[tuple[str, Any]]) -> None:
        self._stream = stream
        self.last = ""

    async def read(self, is_enough: Callable[[Any], bool]) -> list[Any]:
        found: list[Any] = []
        with anyio.fail_after(LIMIT):
            while not found or not is_enough(found[-1]):
                self.last, event = await self._stream.receive()
                found.append(event)
        return found

    async def run_on(self) -> list[Any]:
        events = await self.read(lambda event: event.type in ("RUN_FINISHED", "RUN_ERROR"))
        assert self.last
        return events

    async def run(self) -> list[Any]:
        events = await self.run_on()
        check_order(events)
        return events

    @property
    def is_silent(self) -> bool:
        return not self._stream.statistics().current_buffer_used


def snapshot(events: list[Any]) -> list[Any]:
    (found,) = [event for event in events if event.type == "MESSAGES_SNAPSHOT"]
    return list(found.messages)


def texts(messages: list[Any]) -> list[tuple[str, Any]]:
    return [(each.role, each.content) for each in messages if each.role in ("user", "assistant") and each.content]


def shape(messages: list[Any], *, without: tuple[str, ...] = ("activity",)) -> list[tuple[str, str]]:
    return [(each.role, each.id) for each in messages if each.role not in without]


@pytest.mark.long
async def test_a_snapshot_has_what_was_streamed_here_from_the_file_and_for_those_who_lack_it() -> None:
    script = [
        Reply([thinking("Hm."), "Let me.", shell("echo one"), shell("echo two")]),
        Reply([delegate("look", background=False)]),
        Reply("Done.", chunk_chars=2),
        Reply("More."),
        Reply("Even more."),
        Reply("Old."),
    ]
    looks = {"look": [Reply([shell("echo three")]), Reply("I looked.")]}
    async with ScriptedModel(script, agents=looks) as model:
        options = model.options(agents=WORKER)
        async with Sessions(options) as sessions:
            client = Client(Agent(sessions))
            assert not [event for event in await client.run("Go") if event.type == "MESSAGES_SNAPSHOT"]
            streamed = list(client.messages)
            roles = ["user", "reasoning", "assistant", "assistant", "tool", "assistant", "tool", "assistant"]
            assert [each.role for each in streamed][:8] == roles
            async with client.follow() as following:
                here = snapshot(await following.run())
            assert not [event for event in await client.run("More") if event.type == "MESSAGES_SNAPSHOT"]
        assert shape(here[1:]) == shape(streamed[1:])
        assert [each.model_dump(exclude={"id"}) for each in here] == [
            each.model_dump(exclude={"id"}) for each in streamed
        ]
        async with Sessions(options) as sessions:
            client = Client(Agent(sessions))
            async with client.follow() as following:
                stored = snapshot(await following.run())
                # Nothing has happened since: the next one who says so is not told again.
                async with client.follow(following.last) as later:
                    await anyio.wait_all_tasks_blocked()
                    assert later.is_silent
            # Live, the CLI does not send the last words of a subagent, which are the result of the call.
            own = [each for each in stored if not (each.subagent_run_id and each.role == "assistant" and each.content)]
            assert shape(own)[: len(here)] == shape(here)
            # A new page has no message: it gets all, and its own prompt keeps its id.
            events = await client.run("Even more")
            assert [event.type for event in events[:2]] == ["RUN_STARTED", "MESSAGES_SNAPSHOT"]
            assert shape(snapshot(events)) == [*shape(stored), ("user", "u0")]
            assert say(events) == "Even more."
            old = Client(client.agent)
            old.version = None
            known = {each.role for each in snapshot(await old.run("Old"))}
            assert known == {"user", "assistant", "tool"}


async def test_a_follow_up_turn_is_a_run_of_the_followers_and_a_prompt_that_comes_meanwhile_has_its_own() -> None:
    ends, speaks = Gate(), Gate()
    script = [
        Reply([delegate("watch", background=True)]),
        Reply("Begun."),
        Reply("It has ended.", after=speaks),
        Reply("The answer."),
        Reply("Last."),
    ]
    async with ScriptedModel(script, agents={"watch": [Reply("I watched.", after=ends)]}) as model:
        async with Sessions(model.options(agents=WORKER)) as sessions:
            client, other = Client(Agent(sessions)), Client(Agent(sessions))
            other.agent = client.agent
            assert say(await client.run("Go")) == "Begun."
            async with client.follow() as following, other.follow() as watching:
                for each in (following, watching):
                    assert texts(snapshot(await each.run())) == [("user", "Go"), ("assistant", "Begun.")]
                ends.open()
                await speaks.wait_reached()
                async with anyio.create_task_group() as group:
                    answers: list[Any] = []

                    async def ask() -> None:
                        answers.extend(await client.run("And?"))

                    group.start_soon(ask)
                    with anyio.fail_after(LIMIT):
                        session = await only_session(sessions)
                        while not session.prompts:
                            await anyio.sleep(0.01)
                    speaks.open()
                    events = await following.run()
                assert say(events) == "It has ended."
                assert "MESSAGES_SNAPSHOT" not in {event.type for event in events}
                assert say(answers) == "The answer."
                # What the run of the prompt told is not told twice, but those who follow have it afterwards.
                assert say(await watching.run()) == "It has ended."
                seen = snapshot(await watching.run())
                answered = [("assistant", "It has ended."), ("assistant", "The answer.")]
                assert texts(seen)[2:] == [("user", "And?"), *answered]
            # A client that follows nothing gets it with its next prompt.
            assert answered[0] not in texts(client.messages)
            assert answered[0] in texts(snapshot(await client.run("Now?")))
            assert all(each.id.startswith("u") for each in client.messages if each.role == "user")


async def test_a_reader_who_comes_in_the_middle_gets_the_beginning_and_then_the_rest() -> None:
    gate = Gate()
    text = "Second. " * 40
    script = [Reply(["First, ", shell("touch made")]), Reply(text, chunk_chars=8, after=gate)]
    async with ScriptedModel(script) as model:
        async with Sessions(model.options(permission_mode="default")) as sessions:
            client = Client(Agent(sessions))
            (asked,) = (await client.run("Go"))[-1].outcome.interrupts
            connection = anyio.CancelScope()
            entry = core.ResumeEntry(interrupt_id=asked.id, status="resolved", payload={"approved": True})

            async def answer() -> None:
                with connection:
                    await client.run(resume=[entry])

            async with client.follow() as following:
                # A page that is opened again has the question.
                events = await following.run()
                assert [each.id for each in events[-1].outcome.interrupts] == [asked.id]
            async with anyio.create_task_group() as group:
                group.start_soon(answer)
                await gate.wait_reached()
                async with client.follow() as following:
                    events = await following.read(lambda event: event.type == "MESSAGES_SNAPSHOT")
                    gate.open()
                    events += await following.read(lambda event: event.type == "TEXT_MESSAGE_CONTENT")
                    connection.cancel()
                    events += await following.run_on()
            check_order(events)
            known = [each for each in snapshot(events) if each.role == "assistant" and each.content]
            assert "".join([*(each.content for each in known), say(events)]) == "First, " + text
            async with client.follow() as following:
                assert texts(snapshot(await following.run()))[1:] == [("assistant", "First, "), ("assistant", text)]


@pytest.mark.long
async def test_a_reader_gets_a_question_of_a_subagent_within_its_span() -> None:
    script = [Reply(delegate("look", background=False)), Reply("Done.")]
    looks = {"look": [Reply(shell("touch made")), Reply("I looked.")]}
    async with ScriptedModel(script, agents=looks) as model:
        async with Sessions(model.options(agents=WORKER, permission_mode="default")) as sessions:
            client = Client(Agent(sessions))
            (asked,) = (await client.run("Go"))[-1].outcome.interrupts
            async with client.follow() as following:
                events = await following.run()
                assert [each.id for each in events[-1].outcome.interrupts] == [asked.id]
                (ended,) = [each for each in events if each.type == "SUBAGENT_FINISHED"]
                assert ended.outcome.interrupt_ids == [asked.id]
                session = await only_session(sessions)
                await session.answer(asked.id, {"decision": "allow"})  # by the page, not by a run: it is told here
                events = await following.run()
                assert say(events) == "Done."
                assert "SUBAGENT_STARTED" in {each.type for each in events}
