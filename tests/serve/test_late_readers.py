"""Readers who come late see what the others have seen, in its order and without a gap, and what is open."""

import json
from typing import Any

import pytest
from test_prompts_end_once import ask
from test_sessions import facts_of, is_end, read_until, says

from claude_agent_py import Client
from claude_agent_py.serve import ServedSession, Sessions
from claude_agent_py.testing import Reply, ScriptedModel, tool_use

pytestmark = pytest.mark.anyio
LARGE = "x" * 9_000_000


async def see(session: ServedSession) -> list[Any]:
    """Return what somebody who comes now reads."""
    _, events = await session.read()
    return [("", json.loads(event.data)) for event in events]


def prompts(found: list[Any]) -> list[str]:
    return [fact["content"] for fact in facts_of(found, "prompt_sent")]


@pytest.mark.real_cli
async def test_a_session_that_another_program_goes_on_with_has_no_gap() -> None:
    async with ScriptedModel([Reply("One."), Reply("Two."), Reply("Three.")]) as model:
        async with Sessions(model.options()) as sessions:
            async with Client(model.options()) as other:
                await other.query("First")
                assert other.session_id is not None
                session = await sessions.get(other.session_id)
                assert prompts(await see(session)) == ["First"]
                await other.query("Second")
                assert prompts(await see(session)) == ["First", "Second"]
            await ask(session, "Third")
            found = await see(session)
    assert prompts(found) == ["First", "Second", "Third"]
    assert says(found) == ["One.", "Two.", "Three."]


@pytest.mark.real_cli
async def test_what_a_process_left_open_ends_after_it_began() -> None:
    background = {"command": "sleep 61", "run_in_background": True, "description": "Wait"}
    script = [
        Reply("Old."),
        Reply([tool_use("Bash", background)]),
        Reply([tool_use("Bash", {"command": "tail -f /dev/null", "description": "Hang"})]),
    ]
    async with ScriptedModel(script) as model, Sessions(model.options()) as sessions:
        async with Client(model.options()) as other:
            await other.query("First")
            assert other.session_id is not None
            session = await sessions.get(other.session_id)
        await session.send("Second")
        await read_until(session, lambda event: "tail -f" in str(facts_of([("", event)], "call_started")))
        assert session.client is not None
        session.client.kill()
        await read_until(session, is_end)
        kinds = ("prompt_sent", "call_started", "call_ended", "task_started", "task_finished", "turn_ended")
        seen = [event["fact"] for _, event in await see(session) if event["type"] == "fact"]
        told = [(fact["fact"], fact.get("id") or fact.get("task_id")) for fact in seen if fact["fact"] in kinds]
    assert told[0][0] == "prompt_sent"
    for begins, ends in (("call_started", "call_ended"), ("task_started", "task_finished")):
        begun = [name for kind, name in told if kind == begins]
        assert len(begun) == len(set(begun)) > 0
        for name in begun:
            assert [kind for kind, each in told if each == name and kind in (begins, ends)] == [begins, ends]


@pytest.mark.real_cli
async def test_of_two_prompts_that_wait_none_is_lost_when_the_log_forgets() -> None:
    async with ScriptedModel([Reply(LARGE), Reply("a" + LARGE), Reply("B.")]) as model:
        async with Sessions(model.options()) as sessions:
            session = await sessions.create()
            await ask(session, "First")
            await session.send("A")
            await ask(session, "B")
            assert session.log.start[0] > 0
            assert prompts(await see(session)) == ["First", "A", "B"]
