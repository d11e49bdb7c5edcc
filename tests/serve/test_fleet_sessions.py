"""Sessions of a fleet, served: they go on with another server, and questions outlive the process that asked."""

import asyncio
import json
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, Literal

import anyio
import leftovers
import pytest
from ag_ui import core
from called_app import Agent
from fleets import until_state
from pydantic import BaseModel
from temporal_server import SharedServer, temporal_server as temporal_server
from test_agui import check_order
from test_sessions import facts_of, following, is_end, read_until, says

from claude_agent_py import ClientOptions, RetryPolicy
from claude_agent_py.errors import FleetRunError, OptionsError, SessionNotFoundError
from claude_agent_py.fleet import Fleet, FleetSession
from claude_agent_py.serve import FleetServedSession, FleetSessions, ServedSession
from claude_agent_py.sessions import SQLiteStore
from claude_agent_py.testing import (
    CutStream,
    Failure,
    FakeCLI,
    Gate,
    RecordedRequest,
    Reply,
    ScriptedModel,
    frames,
    steps,
    text,
    thinking,
    tool_use,
)
from claude_agent_py.tools import ToolContext, ToolServer, tool

pytestmark = [pytest.mark.anyio]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def make_file(request: RecordedRequest) -> Reply:
    """Run a command, and then tell its result."""
    if "hello" in request.last_user_text:
        return Reply("Hello!")
    if request.tool_results:
        return Reply("Made.")
    return Reply(tool_use("Bash", {"command": "echo x >> made", "description": "Make it"}))


@asynccontextmanager
async def fleet_at(url: str, folder: Path, model: ScriptedModel) -> AsyncIterator[Fleet]:
    """A fleet with a worker in this process, whose processes wait for no answer."""
    async with Fleet(url, store=SQLiteStore(folder / "store.db"), lease=3, poll=0.1) as fleet:
        options = model.options(permission_mode="default")
        fleet.agent("chat", options.replace(cwd=folder), patience=0.2)
        yield fleet


@pytest.fixture(params=["sqlite", pytest.param("temporal", marks=pytest.mark.long)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'fleet.db'}"
    server: SharedServer = request.getfixturevalue("temporal_server")
    return server.new_url()


async def test_a_close_that_asyncio_cancels_ends_the_streams_of_all_readers(tmp_path: Path) -> None:
    async with Fleet(f"sqlite:///{tmp_path / 'fleet.db'}") as fleet:
        sessions = FleetSessions(fleet, "chat")
        begun = [anyio.Event() for _ in range(3)]

        async def follow(is_begun: anyio.Event) -> None:
            session = await sessions.create()
            async for _ in session.follow():
                is_begun.set()

        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                for is_begun in begun:
                    group.start_soon(follow, is_begun)
                    await is_begun.wait()
                ending = asyncio.create_task(sessions.close())
                await asyncio.sleep(0)
                ending.cancel()
                await asyncio.wait([ending])
        assert ending.cancelled()


@pytest.mark.real_cli
async def test_a_question_is_answered_after_its_process_and_its_server_have_ended(url: str, tmp_path: Path) -> None:
    with ScriptedModel(make_file) as model:
        async with fleet_at(url, tmp_path, model) as fleet:
            async with fleet.worker(folder=tmp_path / "worker"), FleetSessions(fleet, "chat") as sessions:
                session = await sessions.create(user="ann")
                prompt = await session.send("Make it")
                found = await read_until(session, lambda event: event["type"] == "question")
                assert found[0][1] == {"type": "reset"}
                assert [fact["content"] for fact in facts_of(found, "prompt_sent")] == ["Make it"]
                asked = found[-1][1]
                assert (asked["kind"], asked["title"]) == ("permission", "Allow Bash?")
                with anyio.fail_after(60):
                    while session.state != "waiting":  # its process has ended
                        await anyio.sleep(0.05)
                for user in ("", "bob"):
                    with pytest.raises(SessionNotFoundError):
                        await sessions.get(session.id, user=user)
                    assert not await sessions.list(user=user)
        # Another server, and another worker.
        async with fleet_at(url, tmp_path, model) as fleet:
            async with fleet.worker(folder=tmp_path / "worker"), FleetSessions(fleet, "chat") as sessions:
                with pytest.raises(OptionsError, match="new id"):
                    await sessions.create(user="bob", session_id=session.id)
                assert [(each.id, each.title) for each in await sessions.list(user="ann")] == [(session.id, "Make it")]
                session = await sessions.get(session.id, user="ann")
                again = (await read_until(session, lambda event: event["type"] == "question"))[-1][1]
                assert again == asked
                with pytest.raises(ValueError, match="decision"):
                    await session.answer(asked["question"], {"decision": "perhaps"})
                async with FleetSessions(fleet, "chat") as others:  # a third server, which nobody follows
                    other = await others.get(session.id, user="ann")
                    assert other.prompts == [prompt]
                    assert await other.answer(asked["question"], {"decision": "allow"}, by="Ann")
                found = await read_until(session, is_end)
                assert (found[-1][1]["prompt"], found[-1][1]["status"]) == (prompt, "ok")
                assert says(found)[-1] == "Made."
                assert [event["question"] for _, event in found if event["type"] == "question_settled"] == [
                    asked["question"]
                ]
                assert (tmp_path / "made").read_text() == "x\n"
                async with FleetSessions(fleet, "chat") as sessions:
                    with anyio.fail_after(60):
                        async with Agent(sessions, "ann").follow(session.id) as stream:
                            told = [(await anext(stream))[1] for _ in range(3)]
                    assert [each.type for each in told] == ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
                    first, cut_off, lost, call, result, last = told[1].messages
                    assert (first.content, last.content) == ("Make it", "Made.")
                    # The worker that asked has ended, and the next one's model repeats the call.
                    assert (lost.tool_call_id, result.tool_call_id) == (cut_off.id, call.id)
                    assert "its outcome is unknown" in lost.content
                # A prompt that is sent twice, with the same id, is one.
                ids = [await session.send("Say hello", prompt_id="0b0c7b44-0000-4000-8000-000000000001") for _ in "ab"]
                assert ids[0] == ids[1]
                later = await read_until(session, is_end, found[-1][0])
                assert (later[-1][1]["prompt"], says(later)) == (ids[0], ["Hello!"])
                assert not any(event["type"] == "reset" for _, event in later)
                # A reader that comes later gets all of it, once.
                whole = await read_until(session, lambda event: is_end(event) and event["prompt"] == ids[0])
                assert [fact["content"] for fact in facts_of(whole, "prompt_sent")][-1] == "Say hello"
                assert says(whole).count("Hello!") == 1


@pytest.mark.real_cli
async def test_a_turn_is_stopped(url: str, tmp_path: Path) -> None:
    with ScriptedModel(make_file) as model:
        async with fleet_at(url, tmp_path, model) as fleet, fleet.worker(folder=tmp_path / "worker"):
            async with FleetSessions(fleet, "chat") as sessions:
                session = await sessions.create()
                prompt = await session.send("Make it")
                await read_until(session, lambda event: event["type"] == "question")
                await until_state(fleet.session(session.id), "waiting")  # its process has ended, its turn has not
                await session.stop()
                found = await read_until(session, is_end)
                assert (found[-1][1]["prompt"], found[-1][1]["status"]) == (prompt, "cancelled")
                assert facts_of(found, "call_ended") == facts_of(found, "turn_ended") == []
                assert [event for _, event in found if event["type"] == "closed"] == [{"type": "closed", "error": ""}]
                await read_until(session, lambda event: event["type"] == "question_settled")
                assert session.questions == {}
                assert not (tmp_path / "made").exists()
                async with FleetSessions(fleet, "chat") as others:  # a page that is opened later
                    _, events = await (await others.get(session.id)).read()
                    assert json.loads(events[-1].data)["type"] == "closed"


@asynccontextmanager
async def fleet_without_worker(folder: Path) -> AsyncIterator[Fleet]:
    async with Fleet(f"sqlite:///{folder / 'fleet.db'}", store=SQLiteStore(folder / "store.db")) as fleet:
        fleet.agent("chat")
        fleet.agent("other")
        yield fleet


async def test_an_id_that_somebody_has_reserved_keeps_nobody_from_a_session(tmp_path: Path) -> None:
    async with fleet_without_worker(tmp_path) as fleet, FleetSessions(fleet, "chat") as sessions:
        reserved = await sessions.create(user="bob", session_id="pr/17")
        await fleet.start("chat", "Review it", id="pr/17", tenant="ann")
        session = await sessions.get("pr/17", user="ann")
        assert session.owner == "ann"
        with pytest.raises(SessionNotFoundError):
            await reserved.send("Show me")
        assert await reserved.answer("a-question", {"decision": "allow"}) is False
        assert (await fleet.session("pr/17").info()).runs == 1
        await fleet.start("other", "Else", id="else")
        with pytest.raises(OptionsError, match="new id"):
            await sessions.create(session_id="else")


async def test_every_prompt_is_sent_once_also_the_first_of_two_servers(tmp_path: Path) -> None:
    async with fleet_without_worker(tmp_path) as fleet:
        async with FleetSessions(fleet, "chat") as one, FleetSessions(fleet, "chat") as two:
            sessions = [await each.create(user="ann", session_id="a") for each in (one, two)]
            keys = [f"0b0c7b44-0000-4000-8000-00000000000{number}" for number in range(2)]
            ids = [await sessions[0].send("First", prompt_id=keys[0]) for _ in range(2)]
            ids.append(await sessions[1].send("Second", prompt_id=keys[1]))
            assert len(set(ids)) == 2
            assert [ids[0], ids[2]] == [(await fleet.session("a").outcome(number)).prompt_uuid for number in (1, 2)]
            assert (await fleet.session("a").info()).runs == 2


async def test_cancelled_prompts_end_once_and_the_streams_of_a_deleted_session_end(tmp_path: Path) -> None:
    async with fleet_without_worker(tmp_path) as fleet, FleetSessions(fleet, "chat") as sessions:
        session = await sessions.create()
        prompts = [await session.send(text) for text in ("One", "Two")]
        told: list[Any] = []
        async with following(session) as events:
            async for _, event in events:
                told.append(event)
                if event["type"] == "reset":
                    await fleet.session(session.id).cancel("not needed")
                elif len(told) == 3:
                    await fleet.prune(0)
        assert [(each.get("prompt"), each.get("status")) for each in told[1:]] == [
            (prompt, "cancelled") for prompt in prompts
        ]
        with pytest.raises(SessionNotFoundError):
            await sessions.get(session.id)


@pytest.mark.long
@pytest.mark.real_cli
async def test_a_prompt_that_fails_ends_again_when_it_is_sent_again(tmp_path: Path) -> None:
    is_mended = False

    def answer(request: RecordedRequest) -> Any:
        return "Mended." if is_mended else Failure(400, "bad prompt")

    with ScriptedModel(answer) as model:
        async with Fleet(f"sqlite:///{tmp_path / 'fleet.db'}", store=SQLiteStore(tmp_path / "store.db")) as fleet:
            fleet.agent("chat", model.options(cwd=tmp_path), retry=RetryPolicy(attempts=1), after_failure="fail")
            async with fleet.worker(folder=tmp_path / "worker"), FleetSessions(fleet, "chat") as sessions:
                session = await sessions.create()
                prompt = await session.send("Say it")
                found = await read_until(session, is_end)
                assert (found[-1][1]["prompt"], found[-1][1]["status"]) == (prompt, "error")
                assert "bad prompt" in found[-1][1]["error"]
                await until_state(fleet.session(session.id), "failed")
                is_mended = True
                await fleet.session(session.id).retry()
                later = await read_until(session, is_end, found[-1][0])
                assert (later[-1][1]["status"], later[-1][1]["text"]) == ("ok", "Mended.")
                assert [fact["id"] for fact in facts_of(later, "prompt_sent")] == [later[-1][1]["prompt"]]


@pytest.mark.long
@pytest.mark.real_cli
async def test_an_interrupt_of_agui_is_answered_at_another_server_after_its_process_has_ended(tmp_path: Path) -> None:
    message = core.UserMessage(id="u1", content="Make it")
    with ScriptedModel(make_file) as model:
        async with fleet_at(f"sqlite:///{tmp_path / 'fleet.db'}", tmp_path, model) as fleet:
            async with fleet.worker(folder=tmp_path / "worker"):

                async def run(*resume: core.ResumeEntry) -> list[Any]:
                    given = core.RunAgentInput(
                        thread_id="t",
                        run_id="r",
                        messages=[message],
                        resume=list(resume) or None,
                        protocol_version="1.0",
                    )
                    async with FleetSessions(fleet, "chat") as sessions:
                        with anyio.fail_after(60):
                            return [event async for event in Agent(sessions, "ann").run(given)]

                (asked,) = (await run())[-1].outcome.interrupts
                await until_state(fleet.session((await fleet.list())[0].id), "waiting")
                events = await run(
                    core.ResumeEntry(interrupt_id=asked.id, status="resolved", payload={"approved": True})
                )
                assert events[-1].outcome.type == "success"
                assert "".join(event.delta for event in events if event.type == "TEXT_MESSAGE_CONTENT") == "Made."
                assert (tmp_path / "made").read_text() == "x\n"


def write(request: RecordedRequest) -> Reply:
    """Write a long text slowly, then call a tool."""
    if request.tool_results:
        return Reply("Done.")
    command = tool_use("Bash", {"command": f"true {'x' * 200}", "description": "Do nothing"})
    return Reply([thinking("I think so. " * 10), text("word " * 60), command], chunk_chars=10, chunk_delay=0.02)


@pytest.mark.real_cli
async def test_deltas_reach_readers_while_the_worker_writes_and_go_when_the_message_is_whole(
    url: str, tmp_path: Path
) -> None:
    with ScriptedModel(write) as model:
        async with Fleet(url, store=SQLiteStore(tmp_path / "store.db"), lease=3, poll=0.1) as fleet:
            fleet.agent("chat", model.options(include_partial_messages=True, cwd=tmp_path))
            async with fleet.worker(), FleetSessions(fleet, "chat") as sessions, FleetSessions(fleet, "chat") as others:
                session = await sessions.create(user="ann")
                await session.send("Write")
                early = await read_until(session, lambda event: event["type"] == "text")
                # Another server joins in the middle of the message.
                other = await others.get(session.id, user="ann")
                late: list[Any] = []

                async def read(session: ServedSession, found: list[Any]) -> None:
                    found += await read_until(session, is_end, found[-1][0] if found else None)

                async with anyio.create_task_group() as group:
                    group.start_soon(read, session, early)
                    group.start_soon(read, other, late)
                for found in (early, late):
                    events = [event for _, event in found]
                    message = next(event["message"] for event in events if event["type"] == "text")
                    assert join(events, "text", message=message) == "word " * 60
                    (call,) = [event for event in events if event["type"] == "call"]
                    arguments = json.loads(join(events, "arguments", call=call["call"]))
                    assert (call["name"], arguments["command"]) == ("Bash", f"true {'x' * 200}")
                    kinds = [event["fact"]["fact"] if event["type"] == "fact" else event["type"] for event in events]
                    order = [kinds.index(kind) for kind in ("text", "call", "arguments", "call_started")]
                    assert order == sorted(order)
                    assert kinds.count("text") <= 20  # several are written together
                # Only who came early has deltas of the first block: later readers have the fact.
                assert join([event for _, event in early], "reasoning") == "I think so. " * 10
                assert [delta for delta in await fleet.session(session.id).read_deltas() if delta.whole is None] == []


def streamed(*parts: str, delay: float = 0.0) -> list[Any]:
    """Return the steps of a stand-in CLI that writes a message in parts."""
    whole = frames.of_prompt(frames.assistant("".join(parts)))
    whole["message"]["id"] = frames.prompt_field("uuid")  # so that no two processes write the same message
    start = frames.stream_event({"type": "message_start", "message": {**whole["message"], "content": []}})
    deltas = [step for delta in frames.text_stream(*parts) for step in (steps.pause(delay), steps.emit(delta))]
    return [steps.emit(start), *deltas, steps.emit(whole)]


def fake_options(folder: Path, *script: Any) -> ClientOptions:
    """Return options with a stand-in CLI whose processes answer each a prompt."""
    turn = steps.turn([])
    program = FakeCLI(*turn[:3], *script, *turn[3:]).install(folder / "cli")
    return ClientOptions(cli_path=program, include_partial_messages=True, cwd=folder)


@asynccontextmanager
async def a_session_at_rest(
    options: ClientOptions, folder: Path
) -> AsyncIterator[tuple[FleetSession, FleetServedSession]]:
    """A session after one prompt, in the fleet and as a server serves it, which looks only when the test says so."""
    async with Fleet(f"sqlite:///{folder / 'fleet.db'}", store=SQLiteStore(folder / "store.db"), poll=0.1) as fleet:
        fleet.agent("chat", options)
        async with fleet.worker(), FleetSessions(fleet, "chat") as sessions:
            handle = await fleet.start("chat", "One", id="a")
            await handle.result()
            session = await sessions.get("a")
            await session.end()
            yield handle, session


async def test_deltas_of_a_turn_at_another_server_do_not_come_after_the_facts_that_have_them(tmp_path: Path) -> None:
    options = fake_options(tmp_path, *streamed(*["word "] * 20))
    async with a_session_at_rest(options, tmp_path) as (handle, session):
        # The session was at rest at each look of this server, also when the turn had ended.
        number = await handle.send("Two")
        await handle.result(number)
        assert await handle.read_deltas()
        await session.catch_up(is_due=False)
        await session.send("Three")
        await handle.result()
        await session.catch_up()
        told = [("", json.loads(event.data)) for event in session.log.read(0)]
    assert [fact["content"] for fact in facts_of(told, "prompt_sent")] == ["Two", "Three"]
    assert [event["type"] for _, event in told if event["type"] not in ("fact", "run_ended")] == []


@pytest.mark.long
@pytest.mark.real_cli
async def test_deltas_of_a_message_come_after_all_events_before_it_however_many(tmp_path: Path) -> None:
    calls = Reply([tool_use("Read", {"file_path": f"/nowhere/{number}"}) for number in range(200)])
    script = [Reply("Hello."), calls, Reply("word " * 500, chunk_chars=5, chunk_delay=0.05)]
    async with ScriptedModel(script) as model:
        options = model.options(include_partial_messages=True, cwd=tmp_path)
        async with a_session_at_rest(options, tmp_path) as (handle, session):
            await handle.send("Two")
            with anyio.fail_after(60):
                while not any(each.kind == "text" and each.whole is None for each in await handle.read_deltas()):
                    await anyio.sleep(0.05)
            await session.catch_up()
            told = [json.loads(event.data) for event in session.log.read(0, count=5000)]
            await handle.interrupt()
            with pytest.raises(FleetRunError):
                await handle.result()
    kinds = [event["fact"]["fact"] if event["type"] == "fact" else event["type"] for event in told]
    ends = [at for at, kind in enumerate(kinds) if kind == "call_ended"]
    assert len(ends) == 200
    assert kinds.index("text") > ends[-1]


async def test_a_fact_that_is_written_while_a_server_reads_comes_before_the_deltas_of_what_follows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, read = Gate(), FleetSession.read_events
    block = frames.tool_use_block("Bash", {"command": "true", "description": "Do nothing"})
    begun = {"type": "content_block_start", "index": 1, "content_block": {**block, "input": {}}}
    call = [steps.emit(frames.stream_event(begun)), steps.wait_gate(gate), steps.emit(frames.assistant([block]))]
    script = [*streamed(*["word "] * 20, delay=0.05), *call, steps.emit(frames.tool_result(block["id"]))]

    async def read_late(handle: FleetSession, *args: Any) -> Any:
        """Read, and return when the call is being written."""
        found = await read(handle, *args)
        with anyio.fail_after(60):
            while not any(delta.kind == "call" for delta in await handle.read_deltas()):
                await anyio.sleep(0.02)
        return found

    options = fake_options(tmp_path)
    async with a_session_at_rest(options, tmp_path) as (handle, session):
        later = fake_options(tmp_path / "later", *script)
        Path(str(later.cli_path)).replace(str(options.cli_path))
        await handle.send("Two")
        monkeypatch.setattr(FleetSession, "read_events", read_late)
        await session.catch_up()
        monkeypatch.undo()
        gate.open()
        await handle.result()
        told = [json.loads(event.data) for event in session.log.read(0)]
    kinds = [event["fact"]["fact"] if event["type"] == "fact" else event["type"] for event in told]
    texts = [at for at, event in enumerate(told) if kinds[at] == "message_added" and event["fact"].get("content")]
    assert texts
    assert texts[0] < kinds.index("call")


async def test_a_worker_writes_the_deltas_of_a_fast_model_together_and_deletes_them_without_another_prompt(
    tmp_path: Path,
) -> None:
    options = fake_options(tmp_path, *streamed(*["word"] * 400, delay=0.005))
    url = f"sqlite:///{tmp_path / 'fleet.db'}"
    async with Fleet(url, store=SQLiteStore(tmp_path / "store.db"), poll=0.1, lease=3.0) as fleet:
        fleet.agent("chat", options)
        async with fleet.worker():
            began = time.monotonic()
            session = await fleet.start("chat", "Write")
            await session.result()
            deltas = await session.read_deltas()
            assert "".join(delta.text for delta in deltas) == "word" * 400
            assert 1 < len(deltas) <= (time.monotonic() - began) * 5 + 1
            with closing(sqlite3.connect(tmp_path / "fleet.db")) as file, file:  # as if a minute had passed
                file.execute("UPDATE fleet_deltas SET whole_at = whole_at - 60")
            with anyio.fail_after(30):
                while await session.read_deltas():
                    await anyio.sleep(0.05)


@pytest.mark.long
@pytest.mark.real_cli
async def test_what_a_killed_process_had_written_is_not_told_to_who_comes_later(url: str, tmp_path: Path) -> None:
    gate = Gate()
    script = [Reply("lost " * 200, chunk_chars=5, chunk_delay=0.1), Reply("Kept.", after=gate)]
    async with ScriptedModel(script) as model:
        async with Fleet(url, store=SQLiteStore(tmp_path / "store.db"), lease=3, poll=0.1) as fleet:
            retry = RetryPolicy(wait=0.01)
            fleet.agent("chat", model.options(include_partial_messages=True, cwd=tmp_path), retry=retry)
            async with fleet.worker(), FleetSessions(fleet, "chat") as sessions, FleetSessions(fleet, "chat") as others:
                session = await sessions.create(user="ann")
                await session.send("Write")
                early = await read_until(session, lambda event: event["type"] == "text")
                leftovers.kill(*(leftovers.children() - leftovers.LASTING))
                with anyio.fail_after(60):
                    while len(model.requests) < 2:
                        await anyio.sleep(0.02)
                other = await others.get(session.id, user="ann")
                gate.open()
                found = await read_until(other, is_end)
                assert "lost" not in json.dumps([event for _, event in found])
                early += await read_until(session, is_end, early[-1][0])
                assert says(found)[-1:] == says(early)[-1:] == ["Kept."]
                assert "lost" in json.dumps([event for _, event in early])
                late = await read_until(session, is_end)
                assert "lost" not in json.dumps([event for _, event in late])


@pytest.mark.long
@pytest.mark.real_cli
async def test_what_the_api_broke_off_is_not_told_to_who_comes_later(url: str, tmp_path: Path) -> None:
    breaks, goes_on = Gate(), Gate()
    script = [CutStream("Hello world, how are you?", after_chars=12, when=breaks), Reply("Again.", after=goes_on)]
    with ScriptedModel(script) as model:
        async with Fleet(url, store=SQLiteStore(tmp_path / "store.db"), lease=3, poll=0.1) as fleet:
            fleet.agent("chat", model.options(include_partial_messages=True, cwd=tmp_path))
            async with fleet.worker(), FleetSessions(fleet, "chat") as sessions, FleetSessions(fleet, "chat") as other:
                session = await sessions.create()
                await session.send("Go")
                await read_until(session, lambda event: event["type"] == "text")
                breaks.open()
                await read_until(session, lambda event: bool(facts_of([("", event)], "request_retried")))
                for each in (session, await other.get(session.id)):
                    _, events = await each.read()
                    assert not [event for event in events if b"Hello" in event.data]
                goes_on.open()
                assert says(await read_until(session, is_end)) == ["Again."]


@pytest.mark.real_cli
async def test_a_run_of_agui_streams_text_and_arguments_of_a_fleet(tmp_path: Path) -> None:
    with ScriptedModel(write) as model:
        url = f"sqlite:///{tmp_path / 'fleet.db'}"
        async with Fleet(url, store=SQLiteStore(tmp_path / "store.db"), lease=3, poll=0.1) as fleet:
            fleet.agent("chat", model.options(include_partial_messages=True, cwd=tmp_path))
            async with fleet.worker(), FleetSessions(fleet, "chat") as sessions:
                message = core.UserMessage(id="u", content="Write")
                given = core.RunAgentInput(thread_id="t", run_id="r", messages=[message], protocol_version="1.0")
                events = [event async for event in Agent(sessions).run(given)]
                texts = [event.delta for event in events if isinstance(event, core.TextMessageContentEvent)]
                arguments = [event.delta for event in events if isinstance(event, core.ToolCallArgsEvent)]
                assert "".join(texts) == "word " * 60 + "Done."
                assert len(texts) > 2
                assert json.loads("".join(arguments))["description"] == "Do nothing"
                assert len(arguments) > 1
                check_order(events)


class Color(BaseModel):
    color: Literal["red", "green"]


@tool
async def pick_color(context: ToolContext) -> str:
    """Ask the person for a color."""
    picked = await context.elicit("Which color?", Color)
    return "none" if picked is None else picked.color


@pytest.mark.long
@pytest.mark.real_cli
async def test_a_tool_that_asks_is_answered_by_a_run_at_another_server_after_its_process_has_ended(
    tmp_path: Path,
) -> None:
    def call(request: RecordedRequest) -> Reply:
        done = [each for each in request.tool_results if not each.get("is_error")]  # the first call was cut off
        return Reply(json.dumps(done[-1])) if done else Reply(tool_use(name, {}))

    name = "mcp__page__pick_color"
    with ScriptedModel(call) as model:
        url = f"sqlite:///{tmp_path / 'fleet.db'}"
        async with Fleet(url, store=SQLiteStore(tmp_path / "store.db"), lease=3, poll=0.1) as fleet:
            server = ToolServer("page", tools=[pick_color])
            options = model.options(cwd=tmp_path, mcp_servers={"page": server}, allowed_tools=[name])
            fleet.agent("chat", options, patience=0.2)
            async with fleet.worker():
                sent: dict[str, Any] = {"thread_id": "t", "protocol_version": "1.0"}
                async with FleetSessions(fleet, "chat") as sessions:
                    message = core.UserMessage(id="u", content="Ask")
                    given = core.RunAgentInput(run_id="1", messages=[message], **sent)
                    asked: Any = [event async for event in Agent(sessions).run(given)][-1]
                (interrupt,) = asked.outcome.interrupts
                assert interrupt.tool_call_id
                assert "Which color?" in str(interrupt.metadata)
                (listed,) = await fleet.list()
                await until_state(fleet.session(listed.id), "waiting")  # no process waits
                async with FleetSessions(fleet, "chat") as sessions:
                    payload = {"action": "accept", "content": {"color": "green"}}
                    entry = core.ResumeEntry(interrupt_id=interrupt.id, status="resolved", payload=payload)
                    given = core.RunAgentInput(run_id="2", messages=[message], resume=[entry], **sent)
                    ended: Any = [event async for event in Agent(sessions).run(given)][-1]
                assert ended.outcome.type == "success"
                assert "green" in (await fleet.session(listed.id).result()).text


def join(events: list[Any], kind: str, **of: str) -> str:
    return "".join(event["delta"] for event in events if event["type"] == kind and of.items() <= event.items())
