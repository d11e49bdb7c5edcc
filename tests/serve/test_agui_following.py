"""A page that comes at any moment has the same messages in the end: every moment of a recorded session is tried."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from ag_ui import core
from called_app import Agent
from test_agui import check_order, only_session
from test_agui_threads import LIMIT, WORKER, delegate, shell

from claude_agent_py import ClientOptions
from claude_agent_py.journal import decode_fact
from claude_agent_py.serve import ServedSession, Sessions
from claude_agent_py.testing import FakeCLI, Gate, Reply, ScriptedModel, frames, steps, thinking

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


class Only:
    """Sessions of which there is one."""

    def __init__(self, session: Any) -> None:
        self._session = session

    async def get(self, name: str, user: str) -> Any:
        return self._session


async def follow_from(events: list[dict[str, Any]], moment: int, whole: dict[str, str] | None = None) -> Shown:
    """Return what a page shows that came when so many events had happened, once it shows `whole`."""
    session, shown = Played(), Shown()
    for event in events[:moment]:
        session.play(event)

    async def show() -> None:
        async with Agent(Only(session)).follow("t") as events:
            async for _, event in events:
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
            while shown.events[-1].type != "RUN_FINISHED" or whole not in (None, shown.contents):
                await anyio.sleep(0)
        await session.end()
    return shown


@pytest.mark.parametrize("kind", ["text", "reasoning"])
async def test_what_is_written_before_the_page_has_the_messages_is_not_lost(kind: str) -> None:
    session, shown = Played(), Shown()
    session.play(began(1, "a"))
    session.play({"type": kind, "message": "m", "delta": "One "})
    async with Agent(Only(session)).follow("t") as stream:
        shown.take((await anext(stream))[1])
        session.play({"type": kind, "message": "m", "delta": "two"})
        session.play({"type": kind, "message": "m", "delta": " three."})
        name = "thinking" if kind == "reasoning" else kind
        session.play(fact("message_added", 2, id="m", content=[{"type": name, name: "One two three."}]))
        session.play(over(3, "a"))
        with anyio.fail_after(LIMIT):
            while shown.events[-1].type != "RUN_FINISHED":
                shown.take((await anext(stream))[1])
    assert list(shown.contents.values()) == ["One two three."]


async def test_each_thought_of_a_message_is_told_whole() -> None:
    thoughts = [{"type": "thinking", "thinking": text} for text in ("First one.", "Second.")]
    events = [
        began(1, "a"),
        {"type": "reasoning", "message": "m", "delta": "First"},
        *(fact("message_added", number, id="m", content=[block]) for number, block in enumerate(thoughts, 2)),
        over(4, "a"),
    ]
    shown = await follow_along(events)
    assert list(shown.contents.values()) == ["First one.", "Second."]


@pytest.mark.long
@pytest.mark.real_cli
async def test_a_page_that_comes_at_any_moment_has_all_in_the_end() -> None:
    events = await record()
    whole = (await follow_from(events, len(events))).contents
    assert {"Let me see.", "Begun, and on it goes.", "It has ended.", "Hm, well.", "Go"} <= set(whole.values())
    for moment in range(len(events)):
        shown = await follow_from(events, moment, whole)
        for run in shown.runs:
            check_order(run)
        assert shown.contents == whole, (moment, events[moment])


ASKED: dict[str, Any] = {
    "type": "question", "question": "q", "kind": "permission", "title": "Allow?", "call": "", "agent": "other",
    "lines": [], "diff": "", "markdown": "", "steps": [], "form": [],
}  # fmt: skip
"""A question of a background task."""
AGENT = {"task_id": "looker", "run_id": "r1", "author": "looker"}


def fact(kind: str, number: int, **more: Any) -> dict[str, Any]:
    return {"type": "fact", "fact": {"fact": kind, "number": number, "at": float(number), **more}}


def call(number: int, name: str, **more: Any) -> dict[str, Any]:
    called = {"type": "tool_use", "id": name, "name": "Bash", "input": {}}
    return fact("call_started", number, id=name, call=called, message="m", **more)


async def follow_along(events: Sequence[Mapping[str, Any]], whole: dict[str, str] | None = None) -> Shown:
    """Return what a page shows that was there from the beginning, once it shows `whole`."""
    session, shown = Played(), Shown()

    async def show() -> None:
        async with Agent(Only(session)).follow("t") as events:
            async for _, event in events:
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
        with anyio.fail_after(LIMIT):
            while whole not in (None, shown.contents):
                await anyio.sleep(0)
        await session.end()
    return shown


async def test_a_subagent_is_told_on_after_background_work_has_asked() -> None:
    shown = await follow_along(
        [
            fact("turn_started", 1, id="t/1", run="t", prompts=["t"]),
            call(2, "launch"),
            fact("task_started", 3, id="r1", call="launch", is_backgrounded=False, type="local_agent", **AGENT),
            ASKED,
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


async def test_what_the_api_broke_off_is_with_no_page_in_the_end() -> None:
    events = [
        fact("turn_started", 1, id="t/1", run="t", prompts=["t"]),
        {"type": "reasoning", "message": "lost", "delta": "Well"},
        {"type": "text", "message": "lost", "delta": "It w"},
        fact("request_retried", 2, attempt=1),
        {"type": "call", "call": "lost-call", "name": "Bash"},
        {"type": "arguments", "call": "lost-call", "delta": '{"comm'},
        fact("request_retried", 3, attempt=2),
        {"type": "text", "message": "m", "delta": "It is"},
        said(4, "m", "It is so."),
        fact("turn_ended", 5, id="t/1", run="t", status="ok"),
    ]
    whole = {"m": "It is so."}
    for shown in [
        await follow_along(events, whole),
        *[await follow_from(events, each, whole) for each in range(len(events))],
    ]:
        assert shown.contents == whole
        for run in shown.runs:
            check_order(run)


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


def said(number: int, message: str, text: str) -> dict[str, Any]:
    return fact("message_added", number, id=message, content=[{"type": "text", "text": text}])


def began(number: int, turn: str) -> dict[str, Any]:
    return fact("turn_started", number, id=turn, run=turn, prompts=[turn])


def over(number: int, turn: str) -> dict[str, Any]:
    return fact("turn_ended", number, id=turn, run=turn, status="ok")


def sent(number: int, prompt: str) -> dict[str, Any]:
    return fact("prompt_sent", number, id=prompt, content=f"Do {prompt}")


def answered(prompt: str, status: str = "ok") -> dict[str, Any]:
    return {"type": "run_ended", "prompt": prompt, "status": status, "error": "", "text": ""}


async def test_each_run_has_an_id_of_its_own() -> None:
    shown = await follow_along([began(1, "a"), said(2, "m", "One."), over(3, "a"), said(4, "n", "Two."), over(5, "a")])
    ids = [run[0].run_id for run in shown.runs]
    assert len(ids) == len(set(ids)) == 3
    assert [run[-1].run_id for run in shown.runs] == ids


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([sent(1, "p"), began(2, "p"), over(3, "p"), answered("p")], id="silent turn"),
        pytest.param([sent(1, "p"), answered("p", "error")], id="dead process"),
        pytest.param(
            [began(1, "a"), said(2, "m", "One."), sent(3, "p"), over(4, "a"), answered("p")], id="answered by a turn"
        ),
        pytest.param([sent(1, "p"), began(2, "a"), said(3, "m", "One."), answered("p"), over(4, "a")], id="in a turn"),
        pytest.param([sent(1, "p"), {"type": "closed", "error": ""}], id="closed"),
    ],
)
async def test_a_prompt_that_no_other_run_tells_is_told_when_it_ends(events: list[dict[str, Any]]) -> None:
    shown = await follow_along(events)
    assert shown.contents["p"] == "Do p"
    for run in shown.runs:
        check_order(run)


@pytest.mark.parametrize("end", ["stopped", "failed"])
async def test_the_end_of_a_task_that_no_turn_follows_is_told(end: str) -> None:
    task = {"task_id": "b1", "run_id": "r1", "author": "b1"}
    events = [
        began(1, "a"),
        fact("task_started", 2, id="r1", is_backgrounded=True, type="local_bash", description="Build", **task),
        said(3, "m", "Begun."),
        over(4, "a"),
        fact("task_finished", 5, id="r1", outcome={"task_id": "b1", "status": end, "evidence": "update"}, **task),
    ]
    died = {"type": "closed", "error": "the CLI died"}
    shown = await follow_along(events if end == "stopped" else [*events, died])
    *_, activity = (event for event in shown.events if event.type == "ACTIVITY_SNAPSHOT")
    assert (activity.message_id, activity.content["status"]) == ("b1", end)
    assert shown.runs[-1][-1].type == ("RUN_FINISHED" if end == "stopped" else "RUN_ERROR")


async def test_a_reader_that_comes_back_gets_a_prompt_that_waited_for_the_next_run() -> None:
    events = [began(1, "a"), said(2, "m", "One."), sent(3, "p"), over(4, "a")]
    session, shown, names = Played(), Shown(), []

    async def show(after: str) -> None:
        async with Agent(Only(session)).follow("t", after) as events:
            async for name, event in events:
                names.append(name)
                shown.take(event)

    async def play(after: str, events: Sequence[Mapping[str, Any]]) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(show, after)
            with anyio.fail_after(LIMIT):
                while not session.readers:
                    await anyio.sleep(0)
            for event in events:
                session.play(event)
                for _ in range(5):
                    await anyio.sleep(0)
            group.cancel_scope.cancel()

    await play("", events)
    assert "p" not in shown.contents
    await play(next(name for name in reversed(names) if name), [began(5, "p"), said(6, "n", "Two."), over(7, "p")])
    assert {"p": "Do p", "n": "Two."}.items() <= shown.contents.items()


TEXT = [{"type": "text", "message": "m", "delta": delta} for delta in ("One ", "two ", "three.")]
ARGUMENTS = [
    {"type": "call", "call": "c", "name": "Bash"},
    *({"type": "arguments", "call": "c", "delta": delta} for delta in ('{"com', 'mand": ', '"ls"}')),
]


@pytest.mark.parametrize("deltas", [TEXT, ARGUMENTS], ids=["text", "arguments"])
async def test_what_is_written_while_background_work_asks_is_whole_afterwards(deltas: list[dict[str, Any]]) -> None:
    called = {"type": "tool_use", "id": "c", "name": "Bash", "input": {"command": "ls"}}
    whole = said(2, "m", "One two three.") if deltas is TEXT else fact("call_started", 2, id="c", call=called)
    for cut in range(1, len(deltas) + 1):
        shown = await follow_along([began(1, "a"), *deltas[:cut], ASKED, *deltas[cut:], whole, over(3, "a")])
        for run in shown.runs:
            check_order(run)
        key, content = ("m", "One two three.") if deltas is TEXT else ("c", '{"command": "ls"}')
        assert shown.contents[key] == content, cut


async def test_a_text_that_never_comes_whole_has_all_that_was_written_while_background_work_asked() -> None:
    shown = await follow_along([began(1, "a"), *TEXT[:1], ASKED, *TEXT[1:2], over(3, "a")])
    assert shown.contents["m"] == "One two "


@pytest.mark.parametrize("is_whole", [False, True], ids=["in the middle", "at its end"])
async def test_a_run_after_an_answer_goes_on_in_the_middle_of_a_text(tmp_path: Path, is_whole: bool) -> None:
    whole = frames.of_prompt(frames.assistant("One two three."))
    start = frames.stream_event({"type": "message_start", "message": {**whole["message"], "content": []}})
    _, *deltas, _ = frames.text_stream("One ", "two ", "three.")
    rest = [steps.emit(deltas[2]), steps.emit(whole)]
    settled = [steps.wait_for_reply("q1")]
    asked, goes_on = frames.can_use_tool("q1", agent_id="sub"), Gate()
    before = [*map(steps.emit, (frames.task_started("sub"), start, deltas[0], asked)), steps.wait_gate(goes_on)]
    begin, end = steps.turn([])[:3], steps.turn([])[3:]
    told = [*rest, *settled] if is_whole else [*settled, *rest]
    fake = FakeCLI(*begin, *before, deltas[1], *told, *end)
    shown = Shown()
    options = ClientOptions(cli_path=fake.install(tmp_path / "cli"), cwd=tmp_path)
    async with Sessions(options) as sessions:
        agent = Agent(sessions)

        async def run(messages: Sequence[Any], resume: Any = None) -> None:
            given = core.RunAgentInput(
                thread_id="t", run_id="r", messages=list(messages), tools=[], protocol_version="1.0", resume=resume
            )
            with anyio.fail_after(LIMIT):
                async for event in agent.run(given):
                    shown.take(event)
            check_order(shown.runs[-1])

        prompt = core.UserMessage(id="u", content="Count")
        await run([prompt])
        [interrupt] = shown.events[-1].outcome.interrupts
        [(message, beginning)] = shown.contents.items()
        assert beginning == "One "
        goes_on.open()
        session = await only_session(sessions)
        with anyio.fail_after(LIMIT):
            while (b"message_added" if is_whole else b"two ") not in (await session.read())[1][-1].data:
                await anyio.sleep(0.001)
        answer = core.ResumeEntry(interrupt_id=interrupt.id, status="resolved", payload={"approved": True})
        await run([prompt, core.AssistantMessage(id=message, content=beginning)], [answer])
    assert shown.events[-1].type == "RUN_FINISHED"
    assert shown.contents[message] == "One two three."


async def test_a_call_without_arguments_is_told_in_one_run_and_has_an_empty_object() -> None:
    begun = {"type": "call", "call": "c", "name": "Bash"}
    shown = await follow_along([began(1, "a"), begun, {**ARGUMENTS[1], "delta": ""}, call(2, "c"), over(3, "a")])
    assert (shown.contents["c"], len(shown.runs)) == ("{}", 2)
