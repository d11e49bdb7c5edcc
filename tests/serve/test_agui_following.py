"""A page that comes at any moment has the same messages in the end: every moment of a recorded session is tried."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import anyio
import pytest
from ag_ui import core
from test_agui import check_order
from test_agui_threads import LIMIT, WORKER, delegate, shell

from claude_agent_py.journal import decode_fact
from claude_agent_py.serve import ServedSession, Sessions
from claude_agent_py.serve.agui import Agent
from claude_agent_py.testing import Gate, Reply, ScriptedModel, thinking

pytestmark = pytest.mark.anyio


class Played(ServedSession):
    """A session in which happens what is played."""

    def __init__(self) -> None:
        super().__init__("7d0f9c1e-1a55-4f1e-9d57-0a4f7b7c3c11", "", 0.0)

    @property
    def state(self) -> str:
        return "running" if self.is_busy else "idle"

    @property
    def is_busy(self) -> bool:
        return self._in_turn

    @property
    def is_blocked(self) -> bool:
        return False

    def play(self, event: Mapping[str, Any]) -> None:
        if event["type"] == "fact":
            self._take_fact(decode_fact(json.dumps(event["fact"])))
        else:
            self._add(event, part_of=event.get("call", event.get("message")))

    async def _load_stored(self, until: float) -> Sequence[bytes]:
        return ()

    async def send(self, prompt: str, *, prompt_id: str | None = None) -> str:
        raise NotImplementedError

    async def stop(self) -> None:
        raise NotImplementedError

    async def read_output(self, task_id: str) -> str | None:
        raise NotImplementedError

    async def stop_task(self, task_id: str) -> bool:
        raise NotImplementedError

    def list_waited_agents(self) -> Sequence[tuple[str, str, str, str | None]]:
        return ()

    async def end(self) -> None:
        self._is_over = True
        self._wake()


class Shown:
    """What a page shows: the contents of the messages by id, as `@ag-ui/client` keeps them."""

    def __init__(self) -> None:
        self.contents: dict[str, str] = {}
        self.events: list[Any] = []

    def take(self, event: Any) -> None:
        self.events.append(event)
        if isinstance(event, core.MessagesSnapshotEvent):
            self.contents = {each.id: read(each) for each in event.messages if each.role != "activity"}
        elif isinstance(event, core.TextMessageStartEvent | core.ReasoningMessageStartEvent):
            self.contents.setdefault(event.message_id, "")
        elif isinstance(event, core.TextMessageContentEvent | core.ReasoningMessageContentEvent):
            self.contents[event.message_id] += event.delta
        elif isinstance(event, core.ToolCallStartEvent):
            self.contents.setdefault(event.tool_call_id, "")
        elif isinstance(event, core.ToolCallArgsEvent):
            self.contents[event.tool_call_id] += event.delta
        elif isinstance(event, core.ToolCallResultEvent):
            self.contents[event.message_id] = str(event.content)

    @property
    def runs(self) -> list[list[Any]]:
        runs: list[list[Any]] = []
        for event in self.events:
            if event.type == "RUN_STARTED":
                runs.append([])
            runs[-1].append(event)
        return runs


def read(message: Any) -> str:
    if message.role == "assistant" and message.tool_calls:
        return str(message.tool_calls[0].function.arguments)
    return str(message.content)


async def record() -> list[dict[str, Any]]:
    """Return all events of a session with a prompt, a background task and a follow-up turn, as a reader got them."""
    ends = Gate()
    script = [
        Reply([thinking("Hm, well."), "Let me see.", shell("echo one"), shell("echo two")], chunk_chars=4),
        Reply([delegate("look", background=False), delegate("watch", background=True)]),
        Reply("Begun, and on it goes.", chunk_chars=4),
        Reply("It has ended.", chunk_chars=4),
    ]
    looks = {"look": [Reply([shell("echo three")]), Reply("I looked.")], "watch": [Reply("I watched.", after=ends)]}
    async with ScriptedModel(script, agents=looks) as model, Sessions(model.options(agents=WORKER)) as sessions:
        session = await sessions.create()
        found: list[dict[str, Any]] = []
        await session.send("Go")
        with anyio.fail_after(LIMIT):
            async for _, event in session.follow():
                found.append(json.loads(event.data))
                if found[-1]["type"] == "run_ended":
                    ends.open()
                if [each["fact"]["fact"] for each in found if each["type"] == "fact"].count("turn_ended") == 2:
                    return found[1:]
    raise AssertionError("the stream has ended")


async def follow_from(events: list[dict[str, Any]], moment: int) -> Shown:
    """Return what a page shows that came when so many events had happened."""
    session, shown = Played(), Shown()
    for event in events[:moment]:
        session.play(event)

    async def show() -> None:
        async for _, event in Agent({}).follow(session, "t"):  # type: ignore[arg-type]
            shown.take(event)

    async with anyio.create_task_group() as group:
        group.start_soon(show)
        with anyio.fail_after(LIMIT):
            while not shown.events:
                await anyio.sleep(0)
        for event in events[moment:]:
            session.play(event)
            await anyio.sleep(0)
        with anyio.fail_after(LIMIT):
            while shown.events[-1].type != "RUN_FINISHED":
                await anyio.sleep(0)
        await session.end()
    return shown


@pytest.mark.long
@pytest.mark.real_cli
async def test_a_page_that_comes_at_any_moment_has_all_in_the_end() -> None:
    events = await record()
    whole = (await follow_from(events, len(events))).contents
    assert {"Let me see.", "Begun, and on it goes.", "It has ended.", "Hm, well.", "Go"} <= set(whole.values())
    for moment in range(len(events)):
        shown = await follow_from(events, moment)
        for run in shown.runs:
            check_order(run)
        assert shown.contents == whole, (moment, events[moment])


AGENT = {"task_id": "looker", "run_id": "r1", "author": "looker"}


def fact(kind: str, number: int, **more: Any) -> dict[str, Any]:
    return {"type": "fact", "fact": {"fact": kind, "number": number, "at": float(number), **more}}


def call(number: int, name: str, **more: Any) -> dict[str, Any]:
    called = {"type": "tool_use", "id": name, "name": "Bash", "input": {}}
    return fact("call_started", number, id=name, call=called, message="m", **more)


async def follow_along(events: Sequence[Mapping[str, Any]]) -> Shown:
    """Return what a page shows that was there from the beginning."""
    session, shown = Played(), Shown()

    async def show() -> None:
        async for _, event in Agent({}).follow(session, "t"):  # type: ignore[arg-type]
            shown.take(event)

    async with anyio.create_task_group() as group:
        group.start_soon(show)
        with anyio.fail_after(LIMIT):
            while not shown.events:
                await anyio.sleep(0)
        for event in events:
            session.play(event)
            for _ in range(5):
                await anyio.sleep(0)
        await session.end()
    return shown


async def test_a_subagent_is_told_on_after_background_work_has_asked() -> None:
    asked = {"type": "question", "question": "q", "kind": "permission", "title": "Allow?", "call": "", "agent": "other"}
    details: dict[str, Any] = {"lines": [], "diff": "", "markdown": "", "steps": [], "form": []}
    shown = await follow_along(
        [
            fact("turn_started", 1, id="t/1", run="t", prompts=["t"]),
            call(2, "launch"),
            fact("task_started", 3, id="r1", call="launch", is_backgrounded=False, type="local_agent", **AGENT),
            {**asked, **details},
            call(4, "look", agent="looker"),
            fact("turn_ended", 5, id="t/1", run="t", status="ok"),
        ]
    )
    for run in shown.runs:
        check_order(run)
    assert shown.runs[1][-1].outcome.type == "interrupt"
    started = [event for event in shown.runs[2] if event.type == "SUBAGENT_STARTED"]
    assert [event.subagent_run_id for event in started] == ["looker"]
    assert [event.tool_call_id for event in shown.runs[2] if event.type == "TOOL_CALL_START"] == ["look"]


async def test_calls_that_their_process_has_not_outlived_get_a_result() -> None:
    started = fact("turn_started", 1, id="t/1", run="t", prompts=["t"])
    again = fact("turn_started", 3, id="t/1", run="t", prompts=["t"])
    ended = fact("turn_ended", 4, id="t/1", run="t", status="ok")
    for end in ([again, ended], [{"type": "closed", "error": "it died"}]):
        events = [started, call(2, "lost"), *end]
        for shown in (await follow_along(events), await follow_from([*events, again, ended], len(events))):
            assert "its outcome is unknown" in shown.contents["lost-result"]
            for run in shown.runs:
                check_order(run)


async def test_a_message_that_its_process_has_not_outlived_ends_before_the_next_one() -> None:
    shown = await follow_along(
        [
            fact("turn_started", 1, id="t/1", run="t", prompts=["t"]),
            {"type": "text", "message": "lost", "delta": "It "},
            fact("turn_started", 2, id="t/1", run="t", prompts=["t"]),
            {"type": "text", "message": "kept", "delta": "It is."},
            fact("turn_ended", 3, id="t/1", run="t", status="ok"),
        ]
    )
    told = [(event.type, event.message_id) for event in shown.events if event.type.startswith("TEXT_MESSAGE")]
    kinds = ("TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END")
    assert told == [(kind, message) for message in ("lost", "kept") for kind in kinds]
