"""Readers who come late see what the others have seen, in its order and without a gap, and what is open."""

import json
from pathlib import Path
from typing import Any

import pytest
from test_prompts_end_once import ask
from test_sessions import facts_of, is_end, read_until, says

from claude_agent_py import Client, ClientOptions
from claude_agent_py.serve import ServedSession, Sessions
from claude_agent_py.testing import CutStream, FakeCLI, Gate, Reply, ScriptedModel, frames, steps, tool_use

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


@pytest.mark.long
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


async def test_an_open_question_is_told_to_who_comes_after_the_log_forgot_it(tmp_path: Path) -> None:
    large = [steps.turn("x" * 3_000_000) for _ in range(4)]
    fake = FakeCLI(
        steps.wait_for_prompt(),
        frames.init(),
        frames.task_started("a1", "Review"),
        frames.can_use_tool("r1", "Bash", input={"command": "true"}, agent_id="a1"),
        frames.assistant("Launched."),
        frames.result("Launched."),
        *large,
    )
    async with Sessions(ClientOptions(cli_path=fake.install(tmp_path), cwd=tmp_path)) as sessions:
        session = await sessions.create()
        for number in range(5):
            await ask(session, str(number))
        assert session.log.start[0] > 0
        (asked,) = [event for _, event in await see(session) if event["type"] == "question"]
        assert [event for _, event in await read_until(session, lambda event: event == asked)]
        assert await session.answer(asked["question"], {"decision": "deny"})
        await read_until(session, lambda event: event["type"] == "question_settled")
        assert not [event for _, event in await see(session) if event["type"] == "question"]


@pytest.mark.long
@pytest.mark.real_cli
async def test_the_to_do_list_goes_on_in_further_processes_and_another_server() -> None:
    def listed(found: list[Any]) -> list[Any]:
        return [event["items"] for _, event in found if event["type"] == "todo"]

    def change(**given: str) -> Reply:
        name = "TaskUpdate" if "taskId" in given else "TaskCreate"
        return Reply([tool_use(name, {"description": "All of it", **given} if name == "TaskCreate" else given)])

    script = [
        change(subject="Build it"),
        change(subject="Test it"),
        Reply("Listed."),
        change(taskId="1", status="completed"),
        Reply("Built."),
        change(taskId="2", status="completed"),
        Reply("Tested."),
    ]
    items = [{"text": "Build it", "status": "pending"}, {"text": "Test it", "status": "pending"}]
    async with ScriptedModel(script) as model:
        options = model.options(env={"CLAUDE_CODE_ENABLE_TODO_TOOLS": "1"})
        async with Sessions(options) as sessions:
            session = await sessions.create()
            await ask(session, "Plan")
            assert listed(await see(session))[-1] == items
        async with Sessions(options) as sessions:
            session = await sessions.get(session.id)
            assert listed(await see(session)) == [items]
            for item in items:
                await ask(session, "Go on")
                item["status"] = "completed"
                assert listed(await see(session))[-1] == items
                await session.close()


@pytest.mark.real_cli
async def test_half_a_message_that_the_api_broke_off_is_not_told_to_who_comes_later() -> None:
    broken, gate = "Hello world, how are you?", Gate()
    async with ScriptedModel([CutStream(broken, after_chars=12, when=gate), Reply("Hello again.")]) as model:
        async with Sessions(model.options()) as sessions:
            session = await sessions.create()
            await session.send("Go")
            await read_until(session, lambda event: event["type"] == "text")
            gate.open()
            await read_until(session, is_end)
            found = await see(session)
    assert says(found) == ["Hello again."]
    assert not [event for _, event in found if event["type"] == "text"]
