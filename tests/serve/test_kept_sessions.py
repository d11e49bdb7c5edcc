"""A session that somebody holds is one session: however long it was unused, and when the sessions are over."""

from pathlib import Path

import anyio
import pytest
from test_prompts_end_once import ask
from test_sessions import is_end, read_until

from claude_agent_py import ClientOptions
from claude_agent_py.errors import ConnectionClosedError, SessionError
from claude_agent_py.serve import ServedSession, Sessions
from claude_agent_py.testing import FakeCLI, Reply, ScriptedModel, steps, tool_use

pytestmark = pytest.mark.anyio


def answering(folder: Path) -> ClientOptions:
    return ClientOptions(cli_path=FakeCLI(steps.turn("done"), steps.turn("done")).install(folder / "cli"), cwd=folder)


async def is_forgotten(sessions: Sessions, session: ServedSession) -> None:
    with anyio.fail_after(60):
        while session.id in [each.id for each in await sessions.list()]:
            await anyio.sleep(0.02)


async def test_a_session_that_was_forgotten_is_looked_after_again_once_it_is_used(tmp_path: Path) -> None:
    async with Sessions(answering(tmp_path), idle_after=0.0, leave_after=0.0, max_open=1) as sessions:
        session = await sessions.create()
        await ask(session, "One")
        await is_forgotten(sessions, session)
        prompt = await session.send("Two")
        assert session.id in [each.id for each in await sessions.list()]
        assert await sessions.get(session.id) is session
        await read_until(session, lambda event: is_end(event) and event["prompt"] == prompt)
        # Its process counts, and ends when it is idle.
        other = await sessions.create()
        await other.send("Three")
        assert session.state == "closed"
    assert (session.state, other.state) == ("closed", "closed")


async def test_of_two_objects_for_a_session_only_the_later_one_is_used(tmp_path: Path) -> None:
    async with Sessions(answering(tmp_path), idle_after=0.0, leave_after=0.0) as sessions:
        session = await sessions.create()
        await is_forgotten(sessions, session)
        await sessions.create(session_id=session.id)
        with pytest.raises(SessionError, match="get it again"):
            await session.send("One")
        with pytest.raises(SessionError, match="get it again"):
            await read_until(session, is_end)


async def test_no_session_starts_a_process_once_the_sessions_are_over(tmp_path: Path) -> None:
    sessions = Sessions(answering(tmp_path), idle_after=0.0, leave_after=0.0)
    forgotten = await sessions.create()
    await is_forgotten(sessions, forgotten)
    known = await sessions.create()
    await sessions.close()
    made = await sessions.create()
    for session in (forgotten, known, made):
        with pytest.raises(ConnectionClosedError, match="the server of the session ends"):
            await session.send("One")
        assert session.state == "closed"
    for session in (known, made):
        assert [event async for event in session.follow()] == []


@pytest.mark.real_cli
async def test_the_mode_after_an_approved_plan_is_that_of_the_next_process() -> None:
    script = [Reply([tool_use("ExitPlanMode", {"plan": "Do it"})]), Reply("Done."), Reply("Again.")]
    async with ScriptedModel(script) as model, Sessions(model.options(permission_mode="plan")) as sessions:
        session = await sessions.create()
        await session.send("Go")
        asked = (await read_until(session, lambda event: event["type"] == "question"))[-1][1]
        await session.answer(asked["question"], {"decision": "allow"})
        await read_until(session, is_end)
        await session.close()
        await ask(session, "Again")
        assert "Plan mode is active" in str(model.requests[0].messages)
        assert session.client is not None
        assert session.client.session.reported.permission_mode == "default"
