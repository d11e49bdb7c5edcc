"""Clients that are dropped without being closed: a warning that names them, and the session ends."""

import copy
import gc
import tracemalloc
import weakref
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from anyio import to_thread
from leftovers import is_alive, until_gone, until_workers, workers
from peers import MakeClient

from claude_agent_py import (
    Allow,
    Client,
    CLIExitError,
    CLIStartError,
    ConnectionClosedError,
    OptionsError,
    TaskStatus,
    Timeouts,
    tool,
)
from claude_agent_py.client import current_client
from claude_agent_py.tasks import EndedBy
from claude_agent_py.testing import FakeCLI, Gate, frames, steps

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_left")]

MakeCheck = Callable[[Client], Callable[[], Awaitable[None]]]

UNCLOSED = "unclosed Client over <.*Transport .*: use `async with Client"


@pytest.fixture
async def all_gone() -> MakeCheck:
    """Note what a client has; what is given waits until there is nothing left of it."""
    before = workers()

    def note(client: Client) -> Callable[[], Awaitable[None]]:
        pid, client_reference = client.pid, weakref.ref(client)

        async def wait() -> None:
            assert client_reference() is None
            await until_workers(before)
            if pid is not None:
                await until_gone(pid)

        return wait

    return note


@tool
def add(left: int, right: int) -> int:
    """Add."""
    return left + right


def allow(*args: Any) -> Allow:
    return Allow()


@pytest.mark.parametrize("ignores", [False, True], ids=["polite", "stubborn"])
async def test_a_dropped_client_warns_and_ends(start: MakeClient, ignores: bool, all_gone: MakeCheck) -> None:
    """At once, without the garbage collector: nothing of the session refers to the client."""
    client = start(
        FakeCLI(steps.turn([frames.task_started("t1")]), ignore_eof=ignores),
        can_use_tool=allow,
        hooks={"PreToolUse": [allow]},
        custom_tools=[add],
        on_stderr=print,
        on_task_event=print,
        interactions=True,
    )
    await client.connect()
    await client.query("hi")
    assert client.hooks is client.hooks
    gone = all_gone(client)
    with pytest.warns(ResourceWarning, match=UNCLOSED):
        del client
    with anyio.fail_after(60):
        await gone()


async def test_the_warning_may_be_an_error(start: MakeClient, all_gone: MakeCheck) -> None:
    """As with `-W error`: Python prints what `__del__` raises, and the session ends all the same."""
    client = start(FakeCLI())
    await client.connect()
    gone = all_gone(client)
    with pytest.MonkeyPatch.context() as patch:
        raised: list[Any] = []
        patch.setattr("sys.unraisablehook", lambda unraisable: raised.append(unraisable.exc_type))
        del client
    assert raised == [ResourceWarning]
    with anyio.fail_after(60):
        await gone()


async def test_a_handler_that_knows_its_client_keeps_it(start: MakeClient) -> None:
    held: dict[str, Client] = {}
    before = workers()

    def can_use_tool(*args: Any) -> Allow:
        assert held["client"].is_open
        return Allow()

    client = held["client"] = start(FakeCLI(), can_use_tool=can_use_tool)
    await client.connect()
    reference = weakref.ref(client)
    del client
    gc.collect()
    assert reference() is not None
    with pytest.warns(ResourceWarning, match=UNCLOSED):
        del held["client"]
    with anyio.fail_after(60):
        await until_workers(before)


async def test_dropped_in_a_thread(start: MakeClient, all_gone: MakeCheck) -> None:
    clients = [start(FakeCLI(ignore_eof=True))]
    await clients[0].connect()
    gone = all_gone(clients[0])
    with pytest.warns(ResourceWarning, match=UNCLOSED):
        await to_thread.run_sync(clients.clear)
    with anyio.fail_after(60):
        await gone()


async def test_a_run_keeps_its_client(start: MakeClient, all_gone: MakeCheck) -> None:
    client = start(FakeCLI(steps.turn("one")))
    await client.connect()
    run, gone = client.query("hi"), all_gone(client)
    del client
    with anyio.fail_after(60):
        assert (await run).text == "one"
        with pytest.warns(ResourceWarning, match=UNCLOSED):
            del run
        await gone()


async def test_a_copy_of_a_run_that_is_dropped_takes_no_messages_along(start: MakeClient) -> None:
    async with start(FakeCLI(steps.turn("ok"))) as client:
        run = client.query("hi")
        copied = copy.copy(run)
        del copied
        gc.collect()
        assert (await run).messages[-1] == [message async for message in run][-1]


async def test_messages_keep_their_client(start: MakeClient, all_gone: MakeCheck) -> None:
    client = start(FakeCLI(steps.turn("one")))
    await client.connect()
    messages, gone = client.messages(), all_gone(client)
    client.query("hi")
    del client
    with anyio.fail_after(60):
        await anext(messages)
        with pytest.warns(ResourceWarning, match=UNCLOSED):
            del messages
        await gone()


async def test_users_of_a_dropped_client_get_the_reason(start: MakeClient) -> None:
    before = workers()
    client = start(FakeCLI(steps.turn([frames.task_started("t1")])))
    await client.connect()
    await client.query("hi")
    tasks, session = client.tasks, client.session
    with anyio.fail_after(60):
        with pytest.warns(ResourceWarning, match=UNCLOSED):
            del client
        outcome = await tasks.wait("t1")
        with pytest.raises(ConnectionClosedError, match="dropped without being closed"):
            await session.control("interrupt")
        await until_workers(before)
    assert (outcome.status, outcome.ended_by) == (TaskStatus.STOPPED, EndedBy.PROGRAM)
    assert "dropped" in (tasks["t1"].failure_reason or "")


async def test_a_client_whose_program_died(start: MakeClient, all_gone: MakeCheck) -> None:
    client = start(FakeCLI(steps.wait_for_prompt(), steps.exit(3)))
    await client.connect()
    with pytest.raises(CLIExitError):
        await client.query("hi")
    gone = all_gone(client)
    gc.collect()  # the error's traceback
    with pytest.warns(ResourceWarning, match=UNCLOSED):
        del client
    with anyio.fail_after(60):
        await gone()


async def test_a_client_that_is_left_alone_lives_as_long_as_its_session(start: MakeClient) -> None:
    gate, seen, before = Gate(), list[Client | None](), workers()

    async def can_use_tool(*args: Any) -> Allow:
        seen.append(current_client())
        return Allow()

    fake = FakeCLI(
        steps.turn([frames.task_started("t1")]),
        steps.wait_gate(gate),
        frames.can_use_tool("r1"),
        steps.wait_for_reply("r1"),
        *frames.task_end("t1"),
    )
    client = start(fake, can_use_tool=can_use_tool)
    await client.connect()
    await client.query("hi")
    await client.close(tasks="leave")
    reference = weakref.ref(client)
    del client
    gc.collect()
    gate.open()
    with anyio.fail_after(60):
        await until_workers(before)
    assert seen == [reference()]
    assert seen != [None]
    seen.clear()
    gc.collect()
    assert reference() is None


async def test_a_client_that_never_connected_warns_of_nothing(start: MakeClient) -> None:
    """The suite makes a warning an error; that of a `__del__`, too."""
    before = workers()
    never = start(FakeCLI())
    failed = start(FakeCLI(steps.exit(3)))
    with pytest.raises(CLIStartError):
        await failed.connect()
    cancelled = start(FakeCLI(answers={"initialize": None}), timeouts=Timeouts(close=6))
    with anyio.move_on_after(0.05):
        await cancelled.connect()
    closed = start(FakeCLI())
    await closed.connect()
    await closed.close()
    assert cancelled.pid is None or not is_alive(cancelled.pid)
    del never, failed, cancelled, closed
    gc.collect()
    assert workers() == before
    with pytest.raises(OptionsError):
        Client("no options")  # type: ignore[arg-type]
    gc.collect()


async def test_a_session_that_waits_keeps_nothing_of_a_run_that_was_dropped(start_process: MakeClient) -> None:
    text = "x" * 3_000_000
    between = [frames.of_prompt(frames.assistant(text)), frames.can_use_tool("r1")]
    *begin, result, completed = steps.turn(between, text="done")
    fake = FakeCLI(begin, steps.wait_for_reply("r1"), result, completed)  # the result comes alone
    async with start_process(fake, can_use_tool=allow) as client:
        tracemalloc.start()
        try:
            assert (await client.query("hi")).text == "done"
            gc.collect()
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert held < len(text)
