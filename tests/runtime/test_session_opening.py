"""Opening a session: after it was closed, and on a turn that the CLI resumes late."""

from pathlib import Path
from typing import Any

import anyio
import pytest
from asking_cli import AskingCLI
from timers import seconds_to_next_timer

from claude_agent_py import AgentDefinition, Client, ClientOptions, CLIExitError, ConnectionClosedError, Timeouts
from claude_agent_py.permissions import Deny, PermissionContext, PermissionRequest
from claude_agent_py.testing import FakeCLI, Gate, frames, steps
from claude_agent_py.tools import ToolServer, tool
from claude_agent_py.transport import LaunchPlan, Transport

pytestmark = pytest.mark.anyio

SESSION = "11111111-1111-4111-8111-111111111111"


async def test_a_session_closed_before_it_opens_says_so() -> None:
    session = Client(ClientOptions()).connection
    session.shutdown.abort()
    launched: Any = None
    with pytest.raises(ConnectionClosedError, match="the client is closed"):
        session.open(launched)


async def test_the_commands_are_those_that_the_cli_reported_last() -> None:
    def commands(*names: str) -> list[dict[str, Any]]:
        return [{"name": name, "description": "d", "argumentHint": ""} for name in names]

    def initialize(_: Any) -> dict[str, Any]:
        cli.say(frames.system("commands_changed", commands=commands("early")))
        return frames.initialize_response(commands=commands("first"))

    cli = AskingCLI({"initialize": initialize})
    async with Client(transport=cli) as client:
        assert [command.name for command in client.info.commands] == ["first"]
        cli.say(frames.system("commands_changed", commands=commands("first", "second")))
        await client.control("anything")  # its reply is read after what was said before
        assert [command.name for command in client.info.commands] == ["first", "second"]


async def test_a_session_opens_where_the_current_directory_was_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directories: list[str | None] = []

    def decide(request: PermissionRequest, context: PermissionContext) -> Deny:
        directories.append(context.cwd)
        return Deny("no")

    fake = FakeCLI(frames.can_use_tool("p"), steps.wait_for_reply("p"), steps.turn("hello"))
    client = Client(ClientOptions(can_use_tool=decide), transport=fake.transport())
    monkeypatch.chdir(tmp_path)  # goes back at the end
    tmp_path.rmdir()
    async with client:
        assert (await client.query("hi").result()).text == "hello"
    assert directories == [None]


async def test_concurrent_starts_are_planned_before_the_first_program_starts() -> None:
    order: list[str] = []

    def spawn(plan: LaunchPlan) -> Transport:
        order.append("plan")
        transport = FakeCLI().transport()
        start = transport.start

        async def note_start() -> None:
            order.append("start")
            await start()

        transport.start = note_start  # type: ignore[method-assign]
        return transport

    async def connect() -> None:
        async with Client(ClientOptions(cli_path="claude", spawn=spawn)):
            order.append("open")

    with anyio.fail_after(60):
        async with anyio.create_task_group() as starts:
            for _ in range(3):
                starts.start_soon(connect)
    assert order[:6] == ["plan"] * 3 + ["start"] * 3


async def test_a_spawned_transport_keeps_its_own_listener_for_stderr() -> None:
    own, others = list[str](), list[str]()

    def spawn(plan: LaunchPlan) -> Transport:
        transport = FakeCLI(steps.stderr("hello\n"), steps.turn("ok")).transport()
        transport.on_stderr = own.append
        return transport

    async with Client(ClientOptions(cli_path="claude", spawn=spawn, on_stderr=others.append)) as client:
        assert (await client.query("hi")).text == "ok"
    assert (own, others) == (["hello"], [])


async def test_a_tool_that_changes_after_the_end_tells_nobody() -> None:
    @tool
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    server = ToolServer("calc")
    opened: list[Any] = [
        frames.mcp_message(
            "r1",
            "calc",
            "initialize",
            protocolVersion="2025-06-18",
            capabilities={},
            clientInfo={"name": "c", "version": "1"},
        ),
        steps.wait_for_reply("r1"),
        steps.turn("ok"),
    ]
    fake = FakeCLI(*opened)
    async with Client(ClientOptions(mcp_servers={"calc": server}), transport=fake.transport()) as client:
        assert (await client.query("hi")).text == "ok"
        server.add(add)
        await fake.wait_received({"request": {"subtype": "mcp_message"}})
    received = len(fake.received)
    server.add(add)
    assert len(fake.received) == received


async def test_a_session_leaves_no_timer_once_its_deadlines_are_met() -> None:
    fake = FakeCLI(steps.turn("done"), answers={"late": None})
    options = ClientOptions(timeouts=Timeouts(connect=20.0, control=30.0))
    with anyio.fail_after(60), anyio.CancelScope() as scope:
        async with Client(options, transport=fake.transport()) as client:
            await client.query("go")
            assert seconds_to_next_timer() > 30
            async with anyio.create_task_group() as group:
                group.start_soon(client.control, "late")
                await anyio.wait_all_tasks_blocked()
                assert 20 < seconds_to_next_timer() < 30
                await client.control("prompt")
                assert 20 < seconds_to_next_timer() < 30
                scope.cancel()


def reopening(second: FakeCLI, seconds: float) -> tuple[Client, FakeCLI]:
    """Return a client whose first process dies in a turn, and that process."""
    first = FakeCLI(steps.wait_for_prompt(), frames.init(session_id=SESSION), steps.die(9))
    fakes = iter([first, second])

    def spawn(plan: LaunchPlan) -> Transport:
        return next(fakes).transport()

    resumed = {"resume": SESSION, "resume_interrupted_turn": True}
    return Client(ClientOptions(spawn=spawn, timeouts=Timeouts(connect=seconds), **resumed)), first


async def test_a_queued_prompt_is_sent_again_even_if_the_cli_reports_its_turn_after_connect() -> None:
    report = Gate()
    greeting = frames.initialize_response(session_state="running")
    turn = steps.turn("done", prompt="queued before")
    second = FakeCLI(steps.wait_gate(report), frames.session_state("idle"), turn, initialize=greeting)
    with anyio.fail_after(60):
        client, first = reopening(second, 1.0)
        async with client:
            run = client.query("queued before")
            with pytest.raises(CLIExitError):
                await run
            await client.reopen()
            report.open()
            assert (await run).text == "done"
    [before], [again] = first.received_like({"type": "user"}), second.received_like({"type": "user"})
    assert again["uuid"] == before["uuid"]


async def test_a_session_that_is_closed_before_the_cli_reports_its_turn_sends_nothing_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    second = FakeCLI(initialize=frames.initialize_response(session_state="running"))
    with anyio.fail_after(60):
        client, _ = reopening(second, 0.3)
        async with client:
            run = client.query("queued before")
            with pytest.raises(CLIExitError):
                await run
            await client.reopen()
        with pytest.raises(ConnectionClosedError):
            await run
    assert "failed" not in caplog.text
    assert second.received_like({"type": "user"}) == []


async def test_a_prompt_that_comes_with_the_reply_to_initialize_has_the_list_of_agents() -> None:
    """The CLI submits an `initial_prompt` on its own: the session may read both at once."""
    lead = AgentDefinition(description="Leads", prompt="p", initial_prompt="Begin.")
    submitted = {"hook_event_name": "UserPromptSubmit", "prompt": "Begin."}
    agents = [{"name": name, "description": f"The {name}."} for name in ("lead", "helper")]
    fake = FakeCLI(
        steps.wait_for_request("initialize"),
        steps.emit(frames.hook_callback("first", "hook_0", submitted)),
        steps.answer(frames.initialize_response(agents=agents)),
        steps.wait_for_reply("first"),
        steps.emit(frames.hook_callback("second", "hook_0", submitted)),
        steps.wait_for_reply("second"),
        answers={"initialize": None},
    )
    options = ClientOptions(agents={"lead": lead}, agent="lead", delegation_guide=True)
    with anyio.fail_after(60):
        async with Client(options, transport=fake.transport()):
            await fake.wait_received({"response": {"request_id": "second"}})
    added = [str(reply["response"]["response"]) for reply in fake.received_like({"type": "control_response"})]
    assert ["| helper | default | The helper. |" in text for text in added] == [True, False]
