"""Served sessions: numbered events for readers that come, go and come back, with the real CLI."""

import json
import os
import signal
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from claude_agent_py import ClientOptions
from claude_agent_py.errors import OptionsError, SessionNotFoundError, TooManySessionsError
from claude_agent_py.serve import ServedSession, Sessions
from claude_agent_py.testing import FakeCLI, Gate, Reply, ScriptedModel, frames, steps, tool_use

LIMIT = 60.0


@asynccontextmanager
async def following(session: ServedSession, after: str | None = None) -> AsyncIterator[AsyncIterator[tuple[str, Any]]]:
    stream = session.follow(after)

    async def decoded() -> AsyncGenerator[tuple[str, Any], None]:
        async for name, event in stream:
            yield name, json.loads(event.data)

    with anyio.fail_after(LIMIT):
        events = decoded()
        try:
            yield events
        finally:
            await events.aclose()
            await stream.aclose()


async def read_until(session: ServedSession, is_last: Callable[[Any], bool], after: str | None = None) -> list[Any]:
    found = []
    async with following(session, after) as events:
        async for name, event in events:
            found.append((name, event))
            if is_last(event):
                break
    return found


def is_end(event: Any) -> bool:
    return bool(event["type"] == "run_ended")


def facts_of(found: list[Any], kind: str) -> list[Any]:
    return [event["fact"] for _, event in found if event["type"] == "fact" and event["fact"]["fact"] == kind]


def says(found: list[Any]) -> list[str]:
    return [block["text"] for fact in facts_of(found, "message_added") for block in fact.get("content", ())]


@pytest.mark.anyio
@pytest.mark.real_cli
async def test_a_reader_sees_all_from_any_number_and_after_the_process_and_the_server_have_ended() -> None:
    async with ScriptedModel([Reply("First answer.", chunk_chars=3), Reply("Second."), Reply("Third.")]) as model:
        async with Sessions(model.options()) as sessions:
            session = await sessions.create()
            assert session.state == "closed"
            await session.send("One")
            found = await read_until(session, is_end)
            assert found[0] == ("", {"type": "reset"})
            assert says(found) == ["First answer."]
            assert [fact["content"] for fact in facts_of(found, "prompt_sent")] == ["One"]
            # What was streamed is in the fact: a reader that comes later gets it once.
            whole = await read_until(session, is_end)
            assert says(whole) == ["First answer."]
            assert not any(event["type"] == "text" for _, event in whole)
            for index, (name, _) in enumerate(whole[:-1]):
                assert not name or await read_until(session, is_end, name) == whole[index + 1 :]
            # The process ends, and the next prompt starts it again: the same stream goes on.
            await session.close()
            assert session.state == "closed"
            await session.send("Two")
            later = await read_until(session, is_end, found[-1][0])
            assert says(later) == ["Second."]
            assert not any(event["type"] == "reset" for _, event in later)
            assert session.id in [info.id for info in await sessions.list()]
        async with Sessions(model.options()) as sessions:
            session = await sessions.get(session.id)
            await session.send("Three")
            # A number of the earlier server begins anew, with what is stored.
            found = await read_until(session, is_end, later[-1][0])
            assert found[0][1] == {"type": "reset"}
            assert says(found) == ["First answer.", "Second.", "Third."]
            assert [fact["content"] for fact in facts_of(found, "prompt_sent")] == ["One", "Two", "Three"]


@pytest.mark.anyio
@pytest.mark.real_cli
async def test_questions_are_answered_once_by_id_and_the_limit_of_processes_holds() -> None:
    script = [Reply([tool_use("Bash", {"command": "touch made", "description": "Make it"})]), Reply("Made.")]
    async with ScriptedModel(script) as model:
        options = model.options(permission_mode="default")
        async with Sessions(options, max_open=1) as sessions:
            session = await sessions.create(user="ann")
            await session.send("Make it")
            asked = (await read_until(session, lambda event: event["type"] == "question"))[-1][1]
            assert (asked["kind"], asked["title"]) == ("permission", "Allow Bash?")
            assert "command: touch made" in asked["lines"]
            with pytest.raises(TooManySessionsError):
                await sessions.make_room()
            with pytest.raises(ValueError, match="decision"):
                await session.answer(asked["question"], {"decision": "perhaps"})
            assert await session.answer(asked["question"], {"decision": "allow"}, by="Ann")
            assert not await session.answer(asked["question"], {"decision": "deny"})
            found = await read_until(session, is_end)
            assert [fact["status"] for fact in facts_of(found, "call_ended")] == ["succeeded"]
            assert [event["answered"] for _, event in found if event["type"] == "question_settled"] == [True]
            await sessions.make_room()  # ends the idle one
            assert session.state == "closed"
            for user in ("", "bob"):
                with pytest.raises(SessionNotFoundError):
                    await sessions.get(session.id, user=user)
            assert await sessions.get(session.id, user="ann") is session


@pytest.mark.anyio
@pytest.mark.real_cli
async def test_a_turn_that_is_stopped_ends_as_cancelled_and_a_failed_start_is_reported() -> None:
    gate = Gate()
    async with ScriptedModel([Reply("Never", after=gate)] * 2) as model, Sessions(model.options()) as sessions:
        session = await sessions.create()
        await session.send("Think")
        await read_until(session, lambda event: event["type"] == "fact" and event["fact"]["fact"] == "turn_started")
        assert session.is_busy
        await session.stop()
        name, ended = (await read_until(session, is_end))[-1]
        assert ended["status"] == "cancelled"
        # One whose process still starts is also stopped.
        await session.close()
        async with anyio.create_task_group() as group:
            group.start_soon(session.send, "Think again")
            with anyio.fail_after(LIMIT):
                while not session.is_opening:
                    await anyio.sleep(0)
            await session.stop()
        assert (await read_until(session, is_end, name))[-1][1]["status"] == "cancelled"
        gate.open()
    async with Sessions(ClientOptions(cli_path="/nowhere/claude")) as sessions:
        session = await sessions.create()
        with pytest.raises(Exception, match="nowhere"):
            await session.send("Hello")
        assert session.state == "closed"
        with pytest.raises(OptionsError, match="uuid"):
            await sessions.create(session_id="../../etc")
        with pytest.raises(SessionNotFoundError):
            await sessions.get("../../etc")


@pytest.mark.anyio
@pytest.mark.real_cli
async def test_each_prompt_of_one_turn_ends_and_nobody_takes_the_id_of_a_stored_session(tmp_path: Path) -> None:
    gate = Gate()
    call = Reply([tool_use("Bash", {"command": "true", "description": "Wait"})], after=gate)
    async with ScriptedModel([call, Reply("For all.")]) as model:
        async with Sessions(model.options()) as sessions:
            session = await sessions.create(user="ann")
            prompts = [await session.send("One")]
            await gate.wait_reached()
            prompts += [await session.send("Two"), await session.send("Three")]
            gate.open()
            found = await read_until(session, lambda event: is_end(event) and not session.prompts)
            while len([event for _, event in found if is_end(event)]) < len(prompts):
                found += await read_until(session, is_end, found[-1][0])
            ended = [event["prompt"] for _, event in found if is_end(event)]
            assert sorted(ended) == sorted(prompts)
        # In another directory the CLI would begin a session with that id, and its stream would have Ann's conversation.
        async with Sessions(model.options(cwd=tmp_path), owns=lambda user, session_id: False) as sessions:
            for taken in (session.id, session.id.upper()):
                with pytest.raises(OptionsError, match="new uuid"):
                    await sessions.create(user="bob", session_id=taken)
            assert not sessions.owns("bob", session.id)


def writing(folder: Path, *parts: str, delay: float = 0.0) -> ClientOptions:
    """Return options with a stand-in CLI that begins a message with these parts, and never ends it."""
    start = frames.stream_event({"type": "message_start", "message": frames.assistant("")["message"]})
    begun, *deltas = frames.text_stream(*parts)[:-1]
    written = [step for delta in deltas for step in (steps.pause(delay), steps.emit(delta))]
    script = [steps.wait_for_prompt(), steps.emit(frames.init(), start, begun), *written, steps.hang()]
    return ClientOptions(cli_path=FakeCLI(*script).install(folder / "cli"), cwd=folder)


@pytest.mark.anyio
async def test_half_a_message_of_a_process_that_died_is_not_told_to_who_comes_later(tmp_path: Path) -> None:
    async with Sessions(writing(tmp_path, "lost ")) as sessions:
        session = await sessions.create()
        await session.send("Write")
        await read_until(session, lambda event: event["type"] == "text")
        assert session.client is not None
        assert session.client.pid is not None
        os.kill(session.client.pid, signal.SIGKILL)
        await read_until(session, is_end)
        late = await read_until(session, is_end)
        assert "lost" not in json.dumps([event for _, event in late])


@pytest.mark.long
@pytest.mark.anyio
@pytest.mark.real_cli
async def test_prompts_at_once_start_no_more_processes_and_a_killed_one_starts_again() -> None:
    gate = Gate()
    async with ScriptedModel([Reply("Here.", after=gate), Reply("Still here.")]) as model:
        async with Sessions(model.options(), max_open=1) as sessions:
            made = [await sessions.create() for _ in range(3)]
            refused: list[ServedSession] = []

            async def send(session: ServedSession) -> None:
                try:
                    await session.send("Hello")
                except TooManySessionsError:
                    refused.append(session)

            async with anyio.create_task_group() as group:
                for session in made:
                    group.start_soon(send, session)
            assert len(refused) == 2
            (session,) = {*made} - {*refused}
            # The process dies before it has stored anything: the prompt is sent again.
            assert session.client is not None
            assert session.client.pid is not None
            os.kill(session.client.pid, signal.SIGKILL)
            await read_until(session, lambda event: event["type"] == "closed")
            gate.open()
            found = await read_until(session, is_end)
            assert (found[-1][1]["status"], found[-1][1]["text"]) == ("ok", "Here.")
            # Or before it has read the prompt.
            assert session.client is not None
            idle = session.client.pid
            assert idle is not None
            os.kill(idle, signal.SIGSTOP)
            await session.send("Still there?")
            os.kill(idle, signal.SIGKILL)
            found = await read_until(session, is_end, found[-1][0])
            assert (found[-1][1]["status"], found[-1][1]["text"]) == ("ok", "Still here.")
            assert [event["type"] for _, event in found if event["type"] in ("opened", "closed")] == [
                "closed",
                "opened",
            ]


@pytest.mark.anyio
async def test_work_that_everybody_has_left_is_stopped_although_it_continues_writing(tmp_path: Path) -> None:
    endless = writing(tmp_path, *["word "] * 2000, delay=0.05)
    async with Sessions(endless, on_leave="stop", leave_after=0.5) as sessions:
        session = await sessions.create()
        async with anyio.create_task_group() as readers:
            readers.start_soon(read_until, session, lambda event: event["type"] == "text")
            while not session.readers:  # otherwise a slow start is taken for leaving
                await anyio.sleep(0.01)
            await session.send("Write")
        with anyio.fail_after(LIMIT):
            while session.state != "closed":
                await anyio.sleep(0.05)


@pytest.mark.long
@pytest.mark.anyio
@pytest.mark.real_cli
async def test_a_session_that_is_ready_answers_without_a_start_and_belongs_to_who_asked() -> None:
    with pytest.raises(OptionsError, match="ready"):
        Sessions(max_open=2, ready=2)
    async with ScriptedModel([Reply("One."), Reply("Two.")]) as model:
        async with Sessions(model.options(), max_open=2, ready=1, idle_after=LIMIT) as sessions:
            assert await sessions.list(user="ann") == []
            await spares(sessions, 1)
            assert await sessions.list(user="ann") == []
            session = await sessions.create(user="ann")
            assert session.state == "idle"
            with pytest.raises(SessionNotFoundError):
                await sessions.get(session.id, user="bob")
            await session.send("Go")
            assert says(await read_until(session, is_end)) == ["One."]
            await spares(sessions, 1)
            # One process more than may run: that of the spare ends, not that of the session.
            other = await sessions.create(user="bob", session_id="7d0f9c1e-1a55-4f1e-9d57-0a4f7b7c3c12")
            await other.send("Go")
            assert says(await read_until(other, is_end)) == ["Two."]
            assert (session.state, sessions.spares) == ("idle", 0)


async def spares(sessions: Sessions, count: int) -> None:
    with anyio.fail_after(LIMIT):
        while sessions.spares != count:
            await anyio.sleep(0.02)


@pytest.mark.anyio
@pytest.mark.real_cli
@pytest.mark.parametrize("is_opted_out", [False, pytest.param(True, marks=pytest.mark.long)])
async def test_the_prompts_of_users_read_no_files_and_run_no_commands(tmp_path: Path, is_opted_out: bool) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("the secret 77")
    async with ScriptedModel([Reply("Mine."), *[Reply("Theirs.")] * 3, Reply("Mine again.")]) as model:
        async with Sessions(model.options(), owns=lambda user, session_id: True) as sessions:
            own = await sessions.create()
            await own.send(f"Look at @{secret}")
            await read_until(own, is_end)
            assert "the secret 77" in str(model.requests[-1].body)
            with pytest.raises(OptionsError, match="begins another conversation"):
                await own.send("/new")
            theirs = await sessions.create(user="ann")
            last = None
            for prompt in (f"Look at @{secret}", "/clear", "/compact"):
                await theirs.send(prompt)
                found = await read_until(theirs, is_end, last)
                last = found[-1][0]
                assert found[-1][1]["text"] == "Theirs."
            assert "the secret 77" not in str(model.requests[-1].body)
        if is_opted_out:
            async with Sessions(model.options(verbatim_prompts=False), owns=lambda user, session_id: True) as sessions:
                theirs = await sessions.get(theirs.id, user="ann")
                await theirs.send(f"Look at @{secret}")
                found = await read_until(theirs, is_end)
                assert [fact["content"] for fact in facts_of(found, "prompt_sent")][1:3] == ["/clear", "/compact"]
                assert "the secret 77" in str(model.requests[-1].body)
