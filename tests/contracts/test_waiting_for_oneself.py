"""A handler that waits for a prompt to its own session waits for the turn that waits for it: the log says so."""

from typing import Any

import anyio
import anyio.lowlevel
import pytest

from claude_agent_py import Allow, Client, ClientOptions, PermissionContext, PermissionRequest, ToolServer, tool
from claude_agent_py.hooks import HookContext, NotificationInput, PreToolUseInput
from claude_agent_py.testing import FakeCLI, frames, steps

pytestmark = pytest.mark.anyio

WARNING = "waits for a prompt to its own session"


def make_fake(*asks: dict[str, Any]) -> FakeCLI:
    """Return a CLI that asks in its turn, and answers no further prompt before it has an answer."""
    return FakeCLI(steps.wait_for_prompt(), *asks, steps.wait_for_reply("r1"), frames.result("one"))


def said(caplog: pytest.LogCaptureFixture) -> int:
    return sum(WARNING in record.message for record in caplog.records)


@pytest.mark.parametrize("how", ["await", "iterate", "stream"])
async def test_a_handler_that_waits_for_its_own_session_is_told_so_once(
    how: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def decide(request: PermissionRequest, context: PermissionContext) -> Allow:
        run = client.query("is this right?")
        with anyio.move_on_after(0.1):
            if how == "await":
                await run
            elif how == "iterate":
                async for _ in run:
                    pass
            else:
                async for _ in run.text_stream():
                    pass
        await run.interrupt()
        return Allow()

    fake = make_fake(frames.can_use_tool("r1"))
    async with Client(ClientOptions(can_use_tool=decide), transport=fake.transport()) as client:
        with anyio.fail_after(60):
            assert (await client.query("hi")).text == "one"
    assert said(caplog) == 1


@pytest.mark.parametrize("asks", ["tool", "hook"])
async def test_so_are_tools_and_hooks(asks: str, caplog: pytest.LogCaptureFixture) -> None:
    async def ask() -> None:
        run = client.query("is this right?")
        with anyio.move_on_after(0.1):
            await run
        await run.interrupt()

    async def hook(input: PreToolUseInput, context: HookContext) -> None:
        await ask()

    @tool
    async def consult() -> str:
        """Ask."""
        await ask()
        return "asked"

    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "consult", "arguments": {}}}
    request = {"subtype": "mcp_message", "server_name": "own", "message": call}
    event = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {}}
    requests: dict[str, dict[str, Any]] = {
        "tool": {"type": "control_request", "request_id": "r1", "request": request},
        "hook": frames.hook_callback("r1", "hook_0", event),
    }
    options = ClientOptions(mcp_servers={"own": ToolServer("own", [consult])}, hooks={"PreToolUse": [hook]})
    async with Client(options, transport=make_fake(requests[asks]).transport()) as client:
        with anyio.fail_after(60):
            assert (await client.query("hi")).text == "one"
    assert said(caplog) == 1


async def test_what_a_handler_starts_or_asks_for_a_subagent_may_wait(caplog: pytest.LogCaptureFixture) -> None:
    """What it starts goes on after its answer; the turn does not wait for a subagent in the background."""

    async def decide(request: PermissionRequest, context: PermissionContext) -> Allow:
        if request.agent_id is None:
            group.start_soon(client.query("more").result)
        else:
            with anyio.move_on_after(0.1):
                await client.query("more")
        return Allow()

    asks = (frames.can_use_tool("r0", agent_id="a1"), frames.can_use_tool("r1"))
    async with (
        anyio.create_task_group() as group,
        Client(ClientOptions(can_use_tool=decide), transport=make_fake(*asks).transport()) as client,
    ):
        with anyio.fail_after(60):
            await client.query("hi")
        group.cancel_scope.cancel()
    assert said(caplog) == 0


async def test_what_a_handler_starts_may_also_start_something_that_waits(caplog: pytest.LogCaptureFixture) -> None:
    """The event loop may give the id of the handler's task, which has ended, to a later one."""
    is_answered = anyio.Event()

    async def go_on() -> None:
        await is_answered.wait()
        for _ in range(20):
            with anyio.move_on_after(0.01):
                async with anyio.create_task_group() as waiting:
                    waiting.start_soon(client.query("more").result)
        group.cancel_scope.cancel()

    async def decide(request: PermissionRequest, context: PermissionContext) -> Allow:
        await anyio.lowlevel.checkpoint()
        group.start_soon(go_on)
        return Allow()

    async with (
        anyio.create_task_group() as group,
        Client(
            ClientOptions(can_use_tool=decide), transport=make_fake(frames.can_use_tool("r1")).transport()
        ) as client,
    ):
        with anyio.fail_after(60):
            await client.query("hi")
            is_answered.set()
            await anyio.sleep_forever()
    assert said(caplog) == 0


async def test_a_hook_between_turns_may_wait_for_a_prompt(caplog: pytest.LogCaptureFixture) -> None:
    answers: list[str] = []
    is_answered = anyio.Event()

    async def hook(input: NotificationInput, context: HookContext) -> None:
        answers.append((await client.query("what is next?")).text)
        is_answered.set()

    event = {"hook_event_name": "Notification", "message": "idle", "notification_type": "idle_prompt"}
    fake = FakeCLI(
        *(steps.wait_for_prompt(), frames.result("one"), frames.hook_callback("r1", "hook_0", event)),
        *(steps.wait_for_prompt(), frames.result("two")),
    )
    async with Client(ClientOptions(hooks={"Notification": [hook]}), transport=fake.transport()) as client:
        with anyio.fail_after(60):
            await client.query("hi")
            await is_answered.wait()
    assert answers == ["two"]
    assert said(caplog) == 0
