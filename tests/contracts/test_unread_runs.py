"""Runs that nobody awaits, and errors that nobody reads."""

import copy
import operator
import warnings
from collections.abc import AsyncIterator

import anyio
import pytest
from peers import MakeClient, read_into, start_in_memory

from claude_agent_py import Client, ClientOptions, CLIExitError, ResultMessage, Run, RunError, RunResult, query
from claude_agent_py.testing import FakeCLI, frames, steps

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_left")]

OPTIONS = ClientOptions(cli_path="/there/is/none")
NEVER_AWAITED = r"client\.query\(\.\.\.\) was never awaited"
NOT_READ = "an error that nothing has read"


def failing() -> FakeCLI:
    """Return a CLI whose turns fail."""
    return FakeCLI(*[steps.turn([frames.result("no", subtype="error_during_execution")])] * 3)


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """Yield a client of a CLI that fails."""
    with anyio.fail_after(60):
        async with start_in_memory(failing()) as client:
            yield client


async def until_done(run: Run) -> None:
    """Wait for the end of a run without reading it."""
    while not run.done:
        await anyio.lowlevel.checkpoint()


# Runs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ends", [True, False])
async def test_a_prompt_that_nobody_awaited_warns_when_its_client_closes(start: MakeClient, ends: bool) -> None:
    script = FakeCLI(steps.turn("one"), steps.turn("two")) if ends else FakeCLI(steps.turn("one"))
    with pytest.warns(RuntimeWarning, match=NEVER_AWAITED) as told:  # noqa: PT031
        async with start(script) as client:
            await client.query("first")
            client.query("second")
            if ends:
                await client.control("get_settings")
    assert [one.filename for one in told] == [__file__]


async def test_a_run_that_is_dropped_after_its_end_warns_then(client: Client) -> None:
    run = client.query("hi")
    await until_done(run)
    with pytest.warns(RuntimeWarning, match=NEVER_AWAITED):
        del run


async def test_a_run_that_is_dropped_after_the_client_closed_warns_only_then(start: MakeClient) -> None:
    async with start(FakeCLI()) as client:
        run = client.query("hi")
    with pytest.warns(RuntimeWarning, match=NEVER_AWAITED):
        del run


async def test_an_error_of_the_block_is_not_replaced_by_the_warning() -> None:
    with pytest.raises(KeyError), warnings.catch_warnings():  # noqa: PT012
        warnings.simplefilter("error")
        async with start_in_memory(FakeCLI()) as client:
            client.query("forgotten")
            raise KeyError


async def test_a_read_or_interrupted_run_does_not_warn(start: MakeClient) -> None:
    async with start(FakeCLI(steps.turn("one"), answers={"interrupt": {}, "cancel_async_message": {}})) as client:
        client.query("this one ends")
        read = client.query("read")
        with anyio.move_on_after(0.01):
            await read
        interrupted = client.query("interrupted")
        await interrupted.interrupt()
        await client.messages().__anext__()
        client.query("seen")
    del read, interrupted


ELSEWHERE = {"result": "text", "structured_output": "output", "duration_ms": "message.duration_ms"}
"""The fields of the official SDK's `ResultMessage` that a result has elsewhere."""


async def test_attributes_of_the_result_say_that_a_run_must_be_awaited(client: Client) -> None:
    run = client.query("hi")
    for name in ("output", "is_error", "session_id", "cost_usd", "messages", "error"):
        with pytest.raises(AttributeError, match=rf"await the run first: \(await run\)\.{name}$"):
            getattr(run, name)
        assert not hasattr(run, name)
    for name in ("structured_output", "duration_ms"):
        where = ELSEWHERE[name]
        with pytest.raises(AttributeError, match=rf"await the run first: \(await run\)\.{where}$"):
            getattr(run, name)
    with pytest.raises(AttributeError, match=r"no attribute 'nonsense'$"):
        _ = run.nonsense  # type: ignore[attr-defined]
    assert "await the run" in str(run.text)
    result = await run.result()
    assert isinstance(result, RunResult)
    for name, where in ELSEWHERE.items():
        with pytest.raises(AttributeError, match=rf"no attribute '{name}': use result\.{where}$"):
            getattr(result, name)
        operator.attrgetter(where)(result)
    assert not hasattr(result, "nonsense")
    assert copy.deepcopy(result.message) == copy.copy(result).message


async def test_the_old_name_of_the_stream_of_text_is_deprecated() -> None:
    run = query("hi", OPTIONS, transport=FakeCLI(steps.turn("hello")).transport())
    with pytest.warns(DeprecationWarning, match="text_stream"):
        pieces = run.text()
    assert [piece async for piece in pieces] == ["hello"]


# Errors ----------------------------------------------------------------------------------------------------------


async def test_iterating_a_one_shot_run_raises_its_error_after_the_last_message() -> None:
    run = query("hi", OPTIONS, transport=failing().transport())
    for _ in range(2):
        seen: list[object] = []
        with pytest.raises(RunError) as caught:
            await read_into(seen, run)
        assert isinstance(seen[-1], ResultMessage)
        assert caught.value.result is not None
    with pytest.raises(RunError):
        _ = [call async for call in run.tool_calls()]


async def test_a_failure_that_an_iteration_has_raised_does_not_warn(start: MakeClient) -> None:
    task = [frames.task_started("a1"), frames.background_tasks("a1")]
    script = FakeCLI(steps.turn(task, subtype="error_during_execution"), steps.exit(3))
    with pytest.raises(CLIExitError):  # noqa: PT012
        async with start(script) as client:
            run = client.query("hi", until="idle")
            _ = [message async for message in run]
    del run


async def test_an_error_that_was_only_iterated_over_warns_once(client: Client) -> None:
    run = client.query("hi")
    for _ in range(2):
        assert isinstance([message async for message in run][-1], ResultMessage)
    with pytest.warns(RuntimeWarning, match=NOT_READ) as told:
        del run
    assert len(told) == 1


async def test_an_awaited_or_raised_error_does_not_warn(client: Client) -> None:
    awaited, inspected, left = (client.query("hi") for _ in range(3))
    assert [message async for message in awaited]
    with pytest.raises(RunError):
        await awaited
    assert [message async for message in inspected]
    assert (await inspected.result()).is_error
    async for message in left:
        if isinstance(message, ResultMessage):
            break
    del awaited, inspected, left
