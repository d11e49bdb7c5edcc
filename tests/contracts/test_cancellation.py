"""Cancelling at any await: nothing is lost, nothing is left behind, and the next call works.

Each test cancels after 0, 1, 2, ... turns of the event loop, until the operation gets through without being reached.
What happens within a session is cancelled again and again in the same one; a start or an end needs a session each.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from bounds import set_bound
from leftovers import is_alive, until_gone
from peers import MakeClient, start_in_memory

from claude_agent_py import Client, ClientOptions, query, run
from claude_agent_py.testing import FakeCLI, frames, steps

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_left")]

MOMENTS = [0, 1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20, 30, 50, 100]
"""How many turns of the event loop to let pass before cancelling."""

STARTS = [0, 1, 2, 4, 6, 16, 100]
"""Fewer of them, for what starts a process each time."""


@pytest.fixture
def moments(start: MakeClient) -> list[int]:
    """The moments at which to cancel what needs a session each: with processes, fewer."""
    return MOMENTS if start is start_in_memory else STARTS


async def cancelled_after(turns: int, function: Callable[[], Awaitable[Any]]) -> bool:
    """Call an async function and cancel it after so many turns of the loop; tell whether that reached it."""
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            scope = anyio.CancelScope()

            async def work() -> None:
                with scope:
                    await function()

            group.start_soon(work)
            for _ in range(turns):
                await checkpoint()
            scope.cancel()
    return scope.cancelled_caught


async def test_connect(start: MakeClient, moments: list[int]) -> None:
    for turns in moments:
        client = start(FakeCLI())
        was_cancelled = await cancelled_after(turns, client.connect)
        assert client.is_open is not was_cancelled
        if client.pid is not None:
            assert is_alive(client.pid) is not was_cancelled
        await client.close()


async def test_a_connect_that_is_never_answered(start: MakeClient, moments: list[int]) -> None:
    for turns in moments:
        client = start(FakeCLI(answers={"initialize": None}))
        assert await cancelled_after(turns, client.connect)
        assert not client.is_open
        assert client.pid is None or not is_alive(client.pid)


async def test_close(start: MakeClient, moments: list[int]) -> None:
    for turns in moments:
        client = start(FakeCLI(steps.turn([frames.task_started("t1")]), answers={"stop_task": {}}))
        with anyio.fail_after(60):
            await client.connect()
            await client.query("hi")
            await cancelled_after(turns, client.close)
            assert not client.is_open
            if client.pid is not None:
                await until_gone(client.pid)
            await client.close()
        assert client.tasks["t1"].done


async def test_awaiting_a_run_disturbs_neither_it_nor_the_session(start: MakeClient) -> None:
    turns_of_the_cli = [(steps.turn(f"one {turns}"), steps.turn(f"two {turns}")) for turns in MOMENTS]
    async with start(FakeCLI(*turns_of_the_cli)) as client:
        for turns in MOMENTS:
            one = client.query("first")
            await cancelled_after(turns, one.result)
            with anyio.fail_after(60):
                assert (await one).text == f"one {turns}"
                assert (await client.query("second")).text == f"two {turns}"


async def test_iterating_loses_no_message(start: MakeClient) -> None:
    said = [frames.of_prompt(frames.assistant(str(number))) for number in range(60)]
    async with start(FakeCLI(*([steps.wait_for_prompt(), *said, frames.result("end")] for _ in MOMENTS))) as client:
        for turns in MOMENTS:
            await _iterate(client, turns)


async def _iterate(client: Client, turns: int) -> None:
    one, messages = client.query("first"), client.messages()
    seen: list[Any] = []
    everything: list[Any] = []

    async def read() -> None:
        async for message in one:
            seen.append(message)
            await checkpoint()

    async def read_all() -> None:
        async for message in messages:
            everything.append(message)
            if len(everything) == 61:
                return

    await cancelled_after(turns, read)
    await cancelled_after(turns, read_all)
    with anyio.fail_after(60):
        if len(seen) < 61:
            await read()
        if len(everything) < 61:
            await read_all()
        assert seen == list((await one).messages)
    assert len(seen) == 61
    assert everything == seen


async def test_reading_text_loses_nothing(start: MakeClient) -> None:
    said = [frames.of_prompt(frames.assistant(str(number))) for number in range(60)]
    async with start(FakeCLI(*([steps.wait_for_prompt(), *said, frames.result("end")] for _ in MOMENTS))) as client:
        for turns in MOMENTS:
            await _read_text(client, turns)


async def _read_text(client: Client, turns: int) -> None:
    text = client.query("first").text_stream()
    seen: list[str] = []

    async def read() -> None:
        async for piece in text:
            seen.append(piece)
            await checkpoint()

    await cancelled_after(turns, read)
    with anyio.fail_after(60):
        await read()
    assert seen == [str(number) for number in range(60)]


async def test_a_control_request(start: MakeClient) -> None:
    async with start(FakeCLI(*(steps.turn(str(turns)) for turns in MOMENTS))) as client:
        for turns in MOMENTS:
            for number in range(3):
                await cancelled_after(turns, lambda n=number: client.control("x", n=n))  # type: ignore[misc]
            with anyio.fail_after(60):
                assert await client.control("y") == {}
                assert (await client.query("hi")).text == str(turns)


async def test_waiting_for_a_task(start: MakeClient) -> None:
    fake = FakeCLI(
        steps.turn([frames.task_started("t1"), frames.task_started("t2")]),
        steps.wait_for_prompt(),
        *frames.task_end("t1"),
        *frames.task_end("t2"),
        frames.result("end"),
    )
    async with start(fake) as client:
        await client.query("go")
        for turns in MOMENTS:
            for wait in (lambda: client.tasks.wait("t1"), client.tasks.wait_all, client.tasks.wait_any):
                await cancelled_after(turns, wait)
            assert len(client.tasks.running) == 2
        with anyio.fail_after(60):
            await client.query("now")
            assert len(await client.tasks.wait_all()) == 2


@pytest.mark.parametrize("turns", STARTS)
async def test_a_run_with_its_own_process(start_process: MakeClient, turns: int) -> None:
    fake = FakeCLI(steps.turn("one"))
    options = start_process(fake).options
    if await cancelled_after(turns, lambda: run("hi", options)):
        await until_gone(*[one.pid for one in fake.starts])


@pytest.mark.parametrize("turns", STARTS)
async def test_another_waiter_of_a_run_takes_over_its_start(start_process: MakeClient, turns: int) -> None:
    fake = FakeCLI(steps.turn("one"))
    one = query("hi", start_process(fake).options)
    texts: list[str] = []

    async def wait() -> None:
        texts.append((await one).text)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(cancelled_after, turns, one.result)
            await checkpoint()
            group.start_soon(wait)
    assert texts == ["one"]
    await until_gone(*[each.pid for each in fake.starts])


async def test_interrupting(start: MakeClient, moments: list[int]) -> None:
    for turns in moments:
        async with start(FakeCLI(steps.wait_for_prompt(), frames.init(), steps.turn("two"))) as client:
            one = client.query("first")
            await cancelled_after(turns, one.interrupt)
            with anyio.fail_after(60):
                await one.interrupt()
                assert (await client.query("second")).text == "two"


@pytest.mark.parametrize("turns", [0, 1, 2, 5, 10, 20])
async def test_a_cancelled_block_of_a_client(start: MakeClient, turns: int) -> None:
    clients: list[Client] = []

    async def use() -> None:
        async with start(FakeCLI(steps.wait_for_prompt())) as client:
            clients.append(client)
            await client.query("hi")

    await cancelled_after(turns, use)
    for client in clients:
        with anyio.fail_after(60):
            await client.close()  # the end goes on; wait for it
    assert all(not client.is_open for client in clients)


async def test_a_deadline_around_everything(start_process: MakeClient) -> None:
    fake = FakeCLI(steps.wait_for_prompt())
    client = start_process(fake)
    with anyio.move_on_after(0.5) as scope:
        async with client:
            await client.query("hi")
    assert scope.cancelled_caught
    await until_gone(*[one.pid for one in fake.starts])
    await client.close()


async def test_asyncio_cancels_in_its_own_way(start_process: MakeClient, anyio_backend: str) -> None:
    """`task.cancel()`, `asyncio.timeout` and `asyncio.wait_for` instead of scopes."""
    if anyio_backend != "asyncio":
        pytest.skip("about asyncio")
    import asyncio

    fake = FakeCLI(steps.wait_for_prompt("one"), steps.turn("two", prompt="two"))
    client = start_process(fake)
    await asyncio.wait_for(client.connect(), 60)
    one = client.query("one")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(one.result(), 0.05)
    worker = asyncio.create_task(one.result())
    await asyncio.sleep(0)
    worker.cancel()
    with pytest.raises(asyncio.CancelledError):
        await worker
    async with asyncio.timeout(60):
        assert (await client.query("two")).text == "two"
        closing = asyncio.create_task(client.close())
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.gather(closing, return_exceptions=True)
        await client.close()
    assert client.pid is not None
    assert not is_alive(client.pid)


@pytest.mark.parametrize("turns", STARTS)
async def test_asyncio_cancels_a_connect_in_its_own_way(
    start_process: MakeClient, turns: int, anyio_backend: str
) -> None:
    if anyio_backend != "asyncio":
        pytest.skip("about asyncio")
    import asyncio

    fake = FakeCLI()
    client = start_process(fake)
    connecting = asyncio.create_task(client.connect())
    for _ in range(turns):
        await asyncio.sleep(0)
    connecting.cancel()
    await asyncio.wait([connecting])
    await client.close()
    assert client.pid is None or not is_alive(client.pid)
    await until_gone(*[one.pid for one in fake.starts])


@pytest.mark.parametrize("has_pidfds", [True, False])
@pytest.mark.parametrize("again", [1, 3])
async def test_cancellations_by_asyncio_in_a_row_leave_no_process_of_a_connect(
    start_process: MakeClient, has_pidfds: bool, again: int, anyio_backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The later ones reach what cleans up after the first: the program must have ended when `connect` raises."""
    if anyio_backend != "asyncio":
        pytest.skip("about asyncio")
    import asyncio

    if not has_pidfds:
        set_bound(monkeypatch, "HAS_PIDFDS", lambda: False)
    for turns in STARTS:
        fake = FakeCLI(answers={"initialize": None})  # so that `connect` never gets through
        client = start_process(fake)
        connecting = asyncio.create_task(client.connect())
        for _ in range(turns):
            await asyncio.sleep(0)
        for _ in range(again):
            connecting.cancel()
            await asyncio.sleep(0)
        connecting.cancel()
        async with asyncio.timeout(60):
            await asyncio.wait([connecting])
        assert connecting.cancelled()
        assert client.pid is None or not is_alive(client.pid)
        await until_gone(*[one.pid for one in fake.starts])


async def test_a_cancelled_start_of_a_missing_program(tmp_path: Any) -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        with pytest.raises(Exception, match="nothing"):
            await Client(ClientOptions(cli_path=tmp_path / "nothing")).connect()
