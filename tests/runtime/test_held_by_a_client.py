"""What a client has given out before its CLI died goes on with the next process."""

import sys
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import pytest
from peers import client_in_turn, crash

from claude_agent_py import AgentDefinition, Allow, Client, CLIExitError, CLIStartError, HookMatcher, TaskStatus
from claude_agent_py.children import ChildAgent
from claude_agent_py.testing import FakeCLI, Gate, frames, steps

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.usefixtures("nothing_left"),
    pytest.mark.skipif(sys.platform == "win32", reason="an installed fake is a shell script"),
]

Start: TypeAlias = Callable[..., Client]
Held: TypeAlias = tuple[Callable[[Client], Any], Callable[[Any], Coroutine[Any, Any, Any]], str]
WORKER = AgentDefinition(description="Works", prompt="You work.")


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """Return a function that makes a client whose processes, and those of its children, are these fakes in turn."""
    return partial(client_in_turn, tmp_path)


async def allow(*_: object) -> None:
    """A hook that has no objection."""


HELD: dict[str, Held] = {
    "settings": (lambda c: c.settings, lambda held: held.apply({"a": 1}), "apply_flag_settings"),
    "files": (lambda c: c.files, lambda held: held.diff(), "get_workspace_diff"),
    "conversation": (lambda c: c.conversation, lambda held: held.rename("T"), "rename_session"),
    "usage": (lambda c: c.usage, lambda held: held.cost(), "get_session_cost"),
    "mcp": (lambda c: c.mcp, lambda held: held.reconnect("jira"), "mcp_reconnect"),
    "hooks": (lambda c: c.hooks, lambda held: held.add("PreToolUse", HookMatcher(None, allow)), "get_hooks_listing"),
    "tasks": (lambda c: c.tasks, lambda held: held.move_all_to_background(), "background_tasks"),
}


@pytest.mark.parametrize("name", HELD)
async def test_groups_of_requests_ask_the_next_process(name: str, start: Start) -> None:
    group, call, subtype = HELD[name]
    answers = {"get_session_cost": {"response": {"text": ""}}}
    with anyio.fail_after(60):
        async with start(FakeCLI(), second := FakeCLI(answers=answers)) as client:
            held = group(client)
            await crash(client)
            with pytest.raises(CLIExitError):
                await call(held)
            await client.reopen()
            await call(held)
    assert len(second.requests(subtype)) == 1


def created(number: str, subject: str) -> list[Any]:
    """A turn in which the model adds an item to its to-do list."""
    call = frames.tool_use_block("TaskCreate", {"subject": subject, "description": subject}, id=f"toolu_{number}")
    done = {"task": {"id": number, "subject": subject}}
    return steps.turn(
        [
            frames.assistant([call]),
            frames.tool_result(f"toolu_{number}", "created", tool_use_result=done),
            frames.result(),
        ]
    )


async def test_the_to_do_list_goes_on(start: Start) -> None:
    fakes = FakeCLI(*created("1", "write")), FakeCLI(*created("2", "test"))
    with anyio.fail_after(60):
        async with start(*fakes) as client:
            await client.query("go")
            held = client.task_list
            await crash(client)
            await client.reopen()
            assert client.task_list is held
            assert [item.subject for item in held] == ["write"]
            await client.query("go on")
            assert [item.subject for item in held] == ["write", "test"]


async def test_the_definitions_of_child_agents_are_kept(start: Start) -> None:
    with anyio.fail_after(60):
        async with start(FakeCLI(), FakeCLI(steps.turn("done")), FakeCLI()) as client:
            await (await client.spawn(ChildAgent(WORKER, id="worker"), "Do it."))
            await crash(client)
            await client.reopen()
            assert [agent.definition for agent in client.agents] == [WORKER]


async def test_a_child_may_ask_the_inbox_of_a_client_whose_cli_died(start: Start) -> None:
    gate = Gate()
    child = FakeCLI(
        steps.wait_for_prompt(),
        steps.wait_gate(gate),
        frames.can_use_tool("r1"),
        steps.wait_for_reply("r1"),
        frames.result("ok"),
    )
    with anyio.fail_after(60):
        async with start(FakeCLI(), child, interactions=True, permission_mode="default") as client:
            inbox = client.interactions
            task = await client.spawn(ChildAgent(WORKER, id="worker"), "Do it.")
            await child.wait_received({"type": "user"})
            await crash(client)
            gate.open()
            question = await anext(inbox.arrivals())
            question.resolve(Allow())
            assert (await task).status is TaskStatus.COMPLETED
    [answer] = child.received_like({"type": "control_response"})
    assert answer["response"]["response"]["behavior"] == "allow"


async def test_the_inbox_goes_on_and_ends_with_the_client(start: Start) -> None:
    asking = FakeCLI(frames.can_use_tool("r1"), steps.wait_for_reply("r1"), steps.turn("ok"))
    with anyio.fail_after(60):
        async with start(FakeCLI(), asking, interactions=True, permission_mode="default") as client:
            inbox = client.interactions
            before = inbox.arrivals()
            await crash(client)
            with pytest.raises(StopAsyncIteration):
                await anext(before)
            await client.reopen()
            assert client.interactions is inbox
            arrivals = inbox.arrivals()
            (await anext(arrivals)).resolve(Allow())
            assert (await client.query("hi")).text == "ok"
        assert [question async for question in arrivals] == []


@pytest.mark.parametrize("how", ["close", "abort", "a failed reopen"])
async def test_the_inbox_of_a_cli_that_died_is_closed_with_the_client(how: str, start: Start) -> None:
    with anyio.fail_after(60):
        async with start(FakeCLI(), FakeCLI(steps.exit(3)), interactions=True) as client:
            await crash(client)
            arrivals = client.interactions.arrivals()
            match how:
                case "close":
                    await client.close()
                case "abort":
                    client.abort()
                case _:
                    with pytest.raises(CLIStartError):
                        await client.reopen()
            assert [question async for question in arrivals] == []
