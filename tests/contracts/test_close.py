"""The end of a session: idempotent, bounded whatever the peer does, and complete."""

import signal
import sys
import threading
import time
from typing import Any

import anyio
import pytest
from asking_cli import asking
from leftovers import is_alive, until_gone, until_workers, workers
from peers import MakeClient, start_in_memory

from claude_agent_py import (
    Allow,
    Client,
    ClientOptions,
    ConnectionClosedError,
    OptionsError,
    ResultMessage,
    TaskStatus,
    Timeouts,
)
from claude_agent_py.testing import FakeCLI, Gate, frames, steps
from claude_agent_py.tools import ToolContext

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_left")]

NO_STOP = {"stop_task": None}

SLEEP = [sys.executable, "-IS", "-c", "import time; time.sleep(60)"]


async def exit_code(client: Client) -> int | None:
    """Return the exit code of the program once it has ended: on a busy machine that is after the limit of the close."""
    with anyio.fail_after(60):
        await client.connection.shutdown.wait_closed()
    assert client.session.transport is not None
    return client.session.transport.exit_code


SLACK = 8.0
"""What a slow machine may add to a time limit, in seconds: less than the default limit of a close, which is ten."""


async def closed_within(client: Client, seconds: float, **options: Any) -> None:
    """Close, within a time and what a slow machine adds."""
    began = time.monotonic()
    with anyio.fail_after(60):
        await client.close(**options)
    assert time.monotonic() - began < seconds + SLACK


async def test_waiters_get_the_end_of_the_session(start: MakeClient) -> None:
    client = start(FakeCLI(steps.turn("one")))
    await client.connect()
    heard: list[bool] = []

    async def wait() -> None:
        await client.wait_closed()
        heard.append(client.is_closed)

    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        await client.query("hi")
        assert not heard
        assert not client.is_closed
        await closed_within(client, 1)
        with anyio.fail_after(60):
            while not heard:
                await anyio.sleep(0)
    assert heard == [True]


async def test_a_quiet_program_ends_by_itself(start: MakeClient) -> None:
    client = start(FakeCLI(steps.turn("one")))
    await client.connect()
    await client.query("hi")
    pid = client.pid
    await closed_within(client, 1)
    assert await exit_code(client) == 0
    assert pid is None or not is_alive(pid)
    assert repr(client) == "<Client closed, 0 tasks>"


async def try_to_end_with(code: int, start: MakeClient, ignore_eof: bool, bound: float) -> None:
    """Close clients until one ends with this code: on a busy machine a program may be too slow for its time limit."""
    for _ in range(5):
        client = start(FakeCLI(ignore_eof=ignore_eof), timeouts=Timeouts(close=bound))
        await client.connect()
        await closed_within(client, bound)
        if await exit_code(client) == code:
            return
    pytest.fail(f"none ended with {code}")


@pytest.mark.parametrize("bound", [0.5, 3.0, 20.0])
async def test_a_program_may_end_by_itself_whatever_the_bound(start: MakeClient, bound: float) -> None:
    await try_to_end_with(0, start, False, bound)


async def test_closing_again_does_nothing(start: MakeClient) -> None:
    client = start(FakeCLI())
    await client.connect()
    for _ in range(3):
        await closed_within(client, 1)


async def test_a_client_closed_before_connecting_stays_closed(start: MakeClient) -> None:
    client = start(FakeCLI())
    await client.close()
    await client.close(tasks="wait")
    with pytest.raises(ConnectionClosedError):
        await client.connect()
    assert not client.is_open


async def test_many_may_close_at_once(start: MakeClient) -> None:
    client = start(FakeCLI(steps.wait_for_prompt()))
    await client.connect()
    run = client.query("hi")
    closed: list[bool] = []

    async def close() -> None:
        await client.close()
        pid = client.pid
        closed.append(pid is None or not is_alive(pid))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(close)
    assert closed == [True] * 5
    with pytest.raises(ConnectionClosedError):
        await run


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="grandchildren are found on Linux only")
async def test_a_program_that_ignores_signals_is_killed_with_its_descendants(start_process: MakeClient) -> None:
    fake = FakeCLI(
        steps.wait_for_prompt(), steps.spawn(SLEEP), steps.spawn(SLEEP), ignore_eof=True, ignore_sigterm=True
    )
    client = start_process(fake, timeouts=Timeouts(close=6))
    await client.connect()
    run = client.query("hi")
    with anyio.fail_after(60):
        while len(fake.spawned) < 2:
            await anyio.sleep(0.01)
    await closed_within(client, 6)
    assert await exit_code(client) == -signal.SIGKILL
    await until_gone(*fake.spawned)
    with pytest.raises(ConnectionClosedError):
        await run


async def test_a_program_that_ignores_the_end_of_its_input_is_terminated(start_process: MakeClient) -> None:
    await try_to_end_with(143, start_process, True, 1.0)


async def test_a_stopped_program_is_killed(start_process: MakeClient) -> None:
    """SIGSTOP: it does not even notice that it is told to end."""
    import os

    client = start_process(FakeCLI(), timeouts=Timeouts(close=0.5))
    await client.connect()
    assert client.pid is not None
    os.kill(client.pid, signal.SIGSTOP)
    await closed_within(client, 0.5)
    assert await exit_code(client) == -signal.SIGKILL


async def test_the_bound_holds_for_a_program_that_ignores_everything(start_process: MakeClient) -> None:
    fake = FakeCLI(steps.turn([frames.task_started("t1")]), ignore_eof=True, ignore_sigterm=True, answers=NO_STOP)
    client = start_process(fake, timeouts=Timeouts(close=0.5))
    await client.connect()
    await client.query("hi")
    pid = client.pid
    assert pid is not None
    await closed_within(client, 0.5)
    assert await exit_code(client) == -signal.SIGKILL
    assert not is_alive(pid)


class Stubborn:
    """Permission handlers that do not end when they are cancelled."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.release = threading.Event()

    async def wait(self, event: threading.Event) -> None:
        while not event.is_set():
            await anyio.sleep(0.01)

    async def shielded(self, request: Any, context: Any) -> Allow:
        self.begun.set()
        with anyio.CancelScope(shield=True):
            await self.wait(self.release)
        return Allow()

    async def swallowing(self, request: Any, context: Any) -> Allow:
        self.begun.set()
        while not self.release.is_set():
            try:
                await self.wait(self.release)
            except anyio.get_cancelled_exc_class():
                with anyio.CancelScope(shield=True):
                    await self.wait(self.release)
        return Allow()

    def in_a_thread(self, request: Any, context: Any) -> Allow:
        self.begun.set()
        self.release.wait(120)
        return Allow()


@pytest.mark.parametrize("kind", ["shielded", "swallowing", "in_a_thread"])
@pytest.mark.parametrize("start", ["process"], indirect=True)
async def test_the_bound_holds_for_handlers_that_do_not_end(start: MakeClient, kind: str, caplog: Any) -> None:
    stubborn, before = Stubborn(), workers()
    fake = FakeCLI(steps.wait_for_prompt(), frames.can_use_tool("r1"))
    client = start(
        fake, can_use_tool=getattr(stubborn, kind), timeouts=Timeouts(close=20 if kind == "in_a_thread" else 1)
    )
    try:
        await client.connect()
        run = client.query("hi")
        with anyio.fail_after(60):
            await stubborn.wait(stubborn.begun)
        pid = client.pid
        assert pid is not None
        await closed_within(client, 1)
        await until_gone(pid)
        assert not client.is_open
        assert ("stops waiting" in caplog.text) == (kind != "in_a_thread")
        with pytest.raises(ConnectionClosedError):
            await run
    finally:
        stubborn.release.set()
    await until_workers(before)


@pytest.mark.one_backend
async def test_connecting_to_a_program_that_writes_without_end_times_out(
    start_process: MakeClient, tmp_path: Any
) -> None:
    program = tmp_path / "claude"
    program.write_text('#!/bin/sh\nexec yes \'{"type": "keep_alive"}\'\n')
    program.chmod(0o755)
    client = Client(ClientOptions(cli_path=program, timeouts=Timeouts(connect=0.1, close=0.2)))
    from claude_agent_py import CLIStartError

    with anyio.fail_after(60), pytest.raises(CLIStartError):
        await client.connect()


async def test_closing_ends_open_runs_requests_tasks_and_streams(start: MakeClient) -> None:
    fake = FakeCLI(
        steps.turn([frames.task_started("t1")]), steps.wait_for_prompt(), answers={"slow": None, "stop_task": None}
    )
    client = start(fake, timeouts=Timeouts(close=6))
    told: list[str] = []
    with anyio.fail_after(60):
        await client.connect()
        await client.query("first")
        messages, run, idle = client.messages(), client.query("second"), client.query("third", until="idle")

        async def fails(what: str, awaitable: Any) -> None:
            with pytest.raises(ConnectionClosedError):
                await awaitable
            told.append(what)

        async def ends() -> None:
            async for _ in messages:
                pass
            told.append("messages")

        async def settles() -> None:
            assert (await client.tasks.wait("t1")).status in (TaskStatus.FAILED, TaskStatus.STOPPED)
            told.append("task")

        async with anyio.create_task_group() as group:
            group.start_soon(fails, "run", run)
            group.start_soon(fails, "idle", idle)
            group.start_soon(fails, "control", client.control("slow"))
            group.start_soon(ends)
            group.start_soon(settles)
            await anyio.wait_all_tasks_blocked()
            await client.close()
    assert sorted(told) == ["control", "idle", "messages", "run", "task"]


async def test_an_open_run_yields_its_messages_and_then_the_error(start: MakeClient) -> None:
    fake = FakeCLI(steps.wait_for_prompt(), frames.of_prompt(frames.assistant("half")))
    seen: list[Any] = []
    with anyio.fail_after(60):
        async with start(fake) as client:
            run = client.query("hi")
            seen.append(await anext(aiter(run)))
        with pytest.raises(ConnectionClosedError):
            seen += [message async for message in run]
    assert [message.text for message in seen] == ["half"]


async def test_an_error_in_the_block_comes_out_of_it(start: MakeClient) -> None:
    async def use() -> None:
        async with start(FakeCLI(steps.wait_for_prompt())) as client:
            client.query("hi")
            raise LookupError

    with pytest.raises(LookupError):
        await use()


async def test_closing_during_the_connect_ends_both(start: MakeClient) -> None:
    fake = FakeCLI(answers={"initialize": None})
    client = start(fake)
    failed = anyio.Event()

    async def connect() -> None:
        with pytest.raises(ConnectionClosedError):
            await client.connect()
        failed.set()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(connect)
            await fake.wait_received({"request": {"subtype": "initialize"}})
            await client.close()
            await failed.wait()
    assert client.pid is None or not is_alive(client.pid)


@pytest.mark.parametrize("how", ["close", "abort"])
@pytest.mark.parametrize("turns", range(6))
async def test_closing_at_any_moment_of_the_connect(start: MakeClient, turns: int, how: str) -> None:
    """Before the program runs, while it starts, before it is spoken to: `connect` fails, and nothing is left."""
    client = start(FakeCLI())
    outcomes: list[str] = []
    expected: list[str] = []

    async def connect() -> None:
        try:
            await client.connect()
        except ConnectionClosedError:
            outcomes.append("closed")
        else:
            outcomes.append("connected")

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(connect)
            for _ in range(turns):
                await anyio.lowlevel.checkpoint()
            expected += outcomes or ["closed"]
            if how == "close":
                await client.close()
            else:
                client.abort()
        assert outcomes == expected
        await client.close()
    assert not client.is_open
    assert client.pid is None or not is_alive(client.pid)


async def test_a_program_on_another_machine_is_not_killed_but_aborted() -> None:
    client = start_in_memory(FakeCLI(steps.wait_for_prompt(), steps.hang()))
    await client.connect()
    run = client.query("hi")
    client.kill()
    with anyio.fail_after(60):
        with pytest.raises(ConnectionClosedError):
            await run
        await client.wait_closed()


async def test_a_cancelled_close_ends_the_session_all_the_same(start_process: MakeClient) -> None:
    client = start_process(FakeCLI(ignore_eof=True), timeouts=Timeouts(close=6))
    await client.connect()
    pid = client.pid
    assert pid is not None
    with anyio.CancelScope() as scope:
        scope.cancel()
        await client.close()
    assert scope.cancelled_caught
    with anyio.fail_after(60):
        await client.close()
    assert not is_alive(pid)


async def test_a_cancelled_block_ends_the_session_all_the_same(start_process: MakeClient) -> None:
    with anyio.fail_after(60):
        with anyio.CancelScope() as scope:
            async with start_process(FakeCLI(steps.wait_for_prompt())) as client:
                run = client.query("hi")
                scope.cancel()
                await run
        assert client.pid is not None
        await until_gone(client.pid)
    assert scope.cancelled_caught
    await client.close()


# Background tasks ------------------------------------------------------------------------------------------------


def with_a_task(*then: Any, **options: Any) -> FakeCLI:
    return FakeCLI(steps.turn([frames.task_started("t1")]), *then, **options)


async def test_tasks_are_stopped_by_default(start: MakeClient) -> None:
    fake = with_a_task(steps.wait_for_request("stop_task"), steps.answer({}), *frames.task_end("t1", "stopped"))
    with anyio.fail_after(60):
        async with start(fake) as client:
            await client.query("go")
    assert fake.requests("stop_task") == [{"subtype": "stop_task", "task_id": "t1"}]
    assert client.tasks["t1"].status is TaskStatus.STOPPED
    assert await exit_code(client) == 0


async def test_tasks_are_waited_for_on_demand(start: MakeClient) -> None:
    gate = Gate()
    client = start(with_a_task(steps.wait_gate(gate), *frames.task_end("t1")))
    with anyio.fail_after(60):
        await client.connect()
        await client.query("go")
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: client.close(tasks="wait"))
            await anyio.wait_all_tasks_blocked()
            assert client.is_open
            gate.open()
    assert client.tasks["t1"].status is TaskStatus.COMPLETED
    assert not client.is_open


async def test_waiting_for_tasks_is_bounded(start: MakeClient) -> None:
    client = start(with_a_task(), timeouts=Timeouts(close=5.5))
    await client.connect()
    await client.query("go")
    await closed_within(client, 5.5, tasks="wait")
    assert client.tasks["t1"].done


async def test_a_task_that_cannot_be_stopped_does_not_hold_up_the_end(start: MakeClient) -> None:
    cases: list[dict[str, Any]] = [{"stop_task": None}, {"stop_task": {"error": "no"}}, {"stop_task": {}}]

    async def close(answers: dict[str, Any]) -> None:
        client = start(with_a_task(answers=answers), timeouts=Timeouts(close=5.5))
        await client.connect()
        await client.query("go")
        await closed_within(client, 5.5)
        assert client.tasks["t1"].done

    async with anyio.create_task_group() as group:
        for answers in cases:
            group.start_soon(close, answers)


async def test_another_fate_of_the_tasks_is_refused_and_closes_nothing(start: MakeClient) -> None:
    client = start(FakeCLI())
    await client.connect()
    with pytest.raises(OptionsError, match="tasks: must be 'stop', 'wait' or 'leave', not 'kill'"):
        await client.close(tasks="kill")  # type: ignore[arg-type]
    assert client.is_open
    await closed_within(client, 1)


async def test_tasks_may_be_left_to_the_program(start_process: MakeClient) -> None:
    gate, before = Gate(), workers()
    fake = with_a_task(steps.wait_gate(gate), *frames.task_end("t1"))
    client = start_process(fake)
    with anyio.fail_after(60):
        await client.connect()
        await client.query("go")
        pid = client.pid
        assert pid is not None
        await client.close(tasks="leave")
        await client.close()  # as leaving an `async with` does
        assert is_alive(pid)
        with pytest.raises(ConnectionClosedError):
            client.query("more")
        gate.open()
        await until_gone(pid)
        await until_workers(before)
    assert await exit_code(client) == 0
    assert client.tasks["t1"].status is TaskStatus.COMPLETED


@pytest.mark.parametrize("is_busy", [True, False])
async def test_a_program_that_was_left_may_be_aborted(start_process: MakeClient, is_busy: bool) -> None:
    """While it works on its task, and when it is idle but does not exit."""
    fake = with_a_task(ignore_eof=True) if is_busy else FakeCLI(steps.turn(), ignore_eof=True)
    with anyio.fail_after(60):
        client = start_process(fake)
        await client.connect()
        await client.query("go")
        pid = client.pid
        assert pid is not None
        await client.close(tasks="leave")
        await anyio.sleep(0.05)
        assert is_alive(pid)
        client.abort()
        await client.wait_closed()
        await until_gone(pid)


# After the end ---------------------------------------------------------------------------------------------------


async def test_calls_of_a_closed_client_raise_and_its_results_stay(start: MakeClient) -> None:
    client = start(FakeCLI(steps.turn("one")))
    async with client:
        run = client.query("hi")
        await run
    for use in (client.interrupt, lambda: client.set_model("x"), lambda: client.control("x"), client.mcp.status):
        with pytest.raises(ConnectionClosedError, match="closed"):
            await use()
    with pytest.raises(ConnectionClosedError, match="closed"):
        client.query("more")
    assert [message async for message in client.messages() if isinstance(message, ResultMessage)] == []
    assert (await run).text == "one"
    assert (await run.interrupt()).outcome == "too_late"
    assert [message async for message in run] == list((await run).messages)
    assert client.info.claude_code_version
    assert client.stderr_tail == ""
    assert not client.is_open


async def test_listeners_of_a_closed_client_are_not_called(start: MakeClient) -> None:
    called: list[object] = []
    async with start(FakeCLI(steps.turn())) as client:
        await client.query("go")
    with anyio.fail_after(60):
        client.tasks.on(called.append)
        await client.wait_closed()
    assert called == []


async def test_what_a_tool_reports_after_the_end_is_not_sent() -> None:
    called, reported = anyio.Event(), list[str]()

    async def work(context: ToolContext) -> None:
        """Work."""
        context.log("info", "early")
        called.set()
        try:
            await anyio.sleep_forever()
        finally:
            context.log("info", "late")
            reported.append("late")

    async with asking(custom_tools=[work]) as cli:
        cli.start_asking(frames.mcp_message("r1", "tools", "tools/call", name="work", arguments={})["request"])
        await called.wait()
    assert reported == ["late"]
    assert [each["message"]["params"]["data"] for each in cli.requests("mcp_message")] == ["early"]


async def test_calls_before_connect_raise() -> None:
    client = start_in_memory(FakeCLI())
    await client.wait_closed()  # it has no session yet
    for use in (client.interrupt, lambda: client.control("x")):
        with pytest.raises(ConnectionClosedError, match="connect"):
            await use()
    for ask in (lambda: client.query("hi"), client.messages):
        with pytest.raises(ConnectionClosedError, match="connect"):
            ask()
    with pytest.raises(ConnectionClosedError, match="connect"):
        _ = client.info
    assert (client.pid, client.is_open, len(client.tasks)) == (None, False, 0)
    assert repr(client) == "<Client not connected>"
    assert client.stderr_tail == ""
