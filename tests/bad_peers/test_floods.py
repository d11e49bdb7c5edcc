"""More messages than anybody reads: memory stays bounded, and whoever is asked still answers at once."""

import gc
import tracemalloc
from typing import Any

import anyio
import pytest
from peers import MakeClient, start_in_memory

from claude_agent_py import Allow, AssistantMessage, Limits, ResultMessage, Run, UnknownMessage
from claude_agent_py.testing import FakeCLI, frames, steps

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_left")]

KIBIBYTE = 1024
MANY = 1000
SMALL = Limits(mailbox_bytes=256 * KIBIBYTE)


def flood(number: int, size: int) -> list[Any]:
    """Make steps that send so many messages of no run, each with a text of so many characters."""
    line = frames.encode(frames.system("something_new", text="x" * size))
    return [steps.emit_raw(line * 100)] * (number // 100)


async def until_over(run: Run) -> None:
    """Wait without reading."""
    while not run.done:
        await anyio.sleep(0.005)


async def grown_by(before: int) -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0] - before


@pytest.mark.one_backend
async def test_messages_that_nobody_reads_cost_bounded_memory() -> None:
    """Both where somebody subscribed and does not read, and where nobody did."""
    fake = FakeCLI(steps.turn("one"), *flood(MANY, 4000), steps.turn("two"))
    with anyio.fail_after(240):  # tracing makes it several times as slow
        async with start_in_memory(fake, limits=SMALL) as client:
            await client.query("first")
            messages = client.messages()
            tracemalloc.start()
            before = tracemalloc.get_traced_memory()[0]
            second = await client.query("second")
            grown = await grown_by(before)
            tracemalloc.stop()
            unread = 0
            async for message in messages:
                unread += isinstance(message, UnknownMessage) and message.raw["subtype"] == "something_new"
                if isinstance(message, ResultMessage):
                    break
    assert second.text == "two"
    assert unread == MANY
    assert grown < 2.5 * KIBIBYTE * KIBIBYTE  # of 4 MiB; little for each message


@pytest.mark.one_backend
async def test_big_messages_that_belong_to_nobody_cost_bounded_memory() -> None:
    fake = FakeCLI(steps.turn("one"), *flood(300, 50_000), steps.turn("two"))
    with anyio.fail_after(240):
        async with start_in_memory(fake, limits=SMALL) as client:
            await client.query("first")
            tracemalloc.start()
            before = tracemalloc.get_traced_memory()[0]
            await client.query("second")
            grown = await grown_by(before)
            tracemalloc.stop()
    assert grown < 5 * KIBIBYTE * KIBIBYTE


async def test_a_run_that_nobody_reads_gets_all_of_its_messages(start: MakeClient) -> None:
    said = [frames.of_prompt(frames.assistant(str(number))) for number in range(2000)]
    fake = FakeCLI(steps.wait_for_prompt(), steps.emit(*said), frames.result("all"), steps.turn("two"))
    with anyio.fail_after(240):
        async with start(fake, limits=SMALL) as client:
            first = client.query("first")
            assert (await client.query("second")).text == "two"
            texts = [message.text async for message in first if isinstance(message, AssistantMessage)]
            assert texts == [str(number) for number in range(2000)]
            assert len((await first).messages) == 2001


@pytest.mark.one_backend
async def test_partial_messages_are_not_kept() -> None:
    """They are for who iterates; a run that is only awaited must not hold them."""
    deltas = frames.text_stream(*["x" * 4000] * 2500)
    fake = FakeCLI(steps.wait_for_prompt(), frames.init(), steps.emit(*deltas), frames.result("all"))
    with anyio.fail_after(240):
        async with start_in_memory(fake) as client:
            tracemalloc.start()
            before = tracemalloc.get_traced_memory()[0]
            result = await client.query("first")
            grown = await grown_by(before)
            tracemalloc.stop()
    assert result.text == "all"
    assert len(result.messages) == 2
    assert grown < 3 * KIBIBYTE * KIBIBYTE


@pytest.mark.one_backend
async def test_an_interrupt_is_answered_while_nobody_reads(start_process: MakeClient) -> None:
    """Principle 2: the pump never waits for the user."""
    line = frames.encode(frames.assistant("x" * 10_000))
    fake = FakeCLI(
        steps.wait_for_prompt("first"),
        frames.init(),
        *[steps.emit_raw(line * 100)] * 20,
        steps.wait_for_request("interrupt"),
        steps.answer({"still_queued": []}),
        frames.result("", subtype="error_during_execution", terminal_reason="aborted_streaming"),
    )
    with anyio.fail_after(240):
        async with start_process(fake, limits=SMALL) as client:
            messages = client.messages()
            run = client.query("first")
            receipt = await run.interrupt()
            assert receipt.outcome == "interrupted"
            await until_over(run)
            seen = 0
            async for message in messages:
                seen += isinstance(message, AssistantMessage)
                if isinstance(message, ResultMessage):
                    break
    assert seen == 2000


@pytest.mark.one_backend
async def test_permission_prompts_and_hooks_are_answered_while_nobody_reads(start_process: MakeClient) -> None:
    async def can_use_tool(request: Any, context: Any) -> Allow:
        return Allow()

    async def on_stop(data: Any, context: Any) -> None:
        return None

    hook = frames.hook_callback("r2", "hook_0", {"hook_event_name": "Stop", "stop_hook_active": False})
    line = frames.encode(frames.assistant("x" * 10_000))
    part = [steps.emit_raw(line * 100)] * 5
    fake = FakeCLI(
        steps.wait_for_prompt(),
        *part,
        frames.can_use_tool("r1"),
        steps.wait_for_reply("r1"),
        *part,
        hook,
        steps.wait_for_reply("r2"),
        *part,
        frames.result("done"),
    )
    with anyio.fail_after(240):
        options = {"can_use_tool": can_use_tool, "hooks": {"Stop": [on_stop]}, "limits": SMALL}
        async with start_process(fake, **options) as client:
            messages, run = client.messages(), client.query("first")
            await until_over(run)
            assert messages is not None
    replies = fake.received_like({"type": "control_response"})
    assert [reply["response"]["request_id"] for reply in replies] == ["r1", "r2"]
    assert replies[0]["response"]["response"]["behavior"] == "allow"


async def test_a_reader_that_starts_late_and_reads_while_more_comes_gets_everything_in_order(
    start: MakeClient,
) -> None:
    """In memory, on disk and in memory again: the order must hold across."""
    lines = [frames.system("numbered", n=number, pad="x" * 200) for number in range(2000)]
    fake = FakeCLI(steps.turn("one"), *[steps.emit(*lines[i : i + 50]) for i in range(0, 2000, 50)])
    with anyio.fail_after(240):
        async with start(fake, limits=Limits(mailbox_bytes=20_000)) as client:
            messages = client.messages()
            await client.query("first")
            seen: list[int] = []
            async for message in messages:
                if isinstance(message, UnknownMessage) and message.raw["subtype"] == "numbered":
                    seen.append(message.raw["n"])
                if len(seen) == 2000:
                    break
    assert seen == list(range(2000))
