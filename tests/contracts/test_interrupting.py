"""`Run.interrupt` stops the work on its own prompts, and nothing of other runs."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from peers import MakeClient

from claude_agent_py import Client, InterruptedRunError, Run
from claude_agent_py.errors import ControlError, PromptCancelledError
from claude_agent_py.messages import ResultMessage
from claude_agent_py.testing import FakeCLI, Gate, frames, steps

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_left")]

ONE, TWO, THREE = (f"00000000-0000-4000-8000-00000000000{number}" for number in (1, 2, 3))


def sent(uuid: str) -> Any:
    """Wait for a prompt."""
    return steps.wait_for({"type": "user", "uuid": uuid})


def started(uuid: str) -> Any:
    """Begin the turn on a prompt."""
    return steps.emit(frames.lifecycle("started", uuid), frames.init(user_message_uuids=[uuid]))


def begin(uuid: str) -> list[Any]:
    """Begin the turn on a prompt, once it was sent."""
    return [sent(uuid), started(uuid)]


def end(uuid: str, text: str) -> Any:
    """End a turn on a prompt."""
    return frames.result(text, user_message_uuid=uuid, user_message_uuids=[uuid])


def removed(uuid: str) -> list[Any]:
    """Remove a prompt from the queue, on request."""
    request = steps.wait_for({"request": {"subtype": "cancel_async_message", "message_uuid": uuid}})
    return [request, steps.answer({"cancelled": True}), frames.lifecycle("cancelled", uuid)]


async def prompts(*texts: str) -> AsyncIterator[str]:
    """Give prompts, and never another one."""
    for text in texts:
        yield text
    await anyio.sleep_forever()


async def begun(client: Client, uuid: str, **more: Any) -> Run[Any]:
    """Return a run whose turn has begun."""
    run: Run[Any] = client.query("hi", uuid=uuid, **more)
    await anext(run)
    return run


async def interrupt_beside(run: Run[Any], other: Run[Any], gate: Gate) -> None:
    """Interrupt a run, and check that it ends and that the turn of another, which the gate lets end, goes on."""
    assert (await run.interrupt()).outcome == "interrupted"
    with pytest.raises(InterruptedRunError):
        await run
    gate.open()
    assert (await other).text == "done"


async def test_one_without_a_prompt_leaves_the_turn_of_another(start: MakeClient) -> None:
    gate = Gate()
    fake = FakeCLI(begin(ONE), steps.wait_gate(gate), end(ONE, "done"))
    with anyio.fail_after(60):
        async with start(fake) as client:
            other, run = await begun(client, ONE), client.query(prompts())
            await interrupt_beside(run, other, gate)
    assert fake.requests("interrupt") == []


async def test_one_that_waits_for_its_tasks_leaves_the_turn_of_another(start: MakeClient) -> None:
    gate = Gate()
    first = [begin(ONE), frames.task_started("a shell"), end(ONE, "It runs.")]
    fake = FakeCLI(first, begin(TWO), steps.wait_gate(gate), end(TWO, "done"))
    with anyio.fail_after(60):
        async with start(fake) as client:
            run, other = await begun(client, ONE, until="idle"), await begun(client, TWO)
            await interrupt_beside(run, other, gate)
    assert fake.requests("interrupt") == []


async def test_one_that_ends_meanwhile_leaves_the_turn_of_the_next(start: MakeClient) -> None:
    """Its prompt was queued when the interrupt began."""
    gate = Gate()
    fake = FakeCLI(
        [begin(ONE), sent(TWO), sent(THREE), steps.wait_for_request("cancel_async_message")],
        [end(ONE, "one"), started(TWO), end(TWO, "two"), started(THREE), steps.answer({"cancelled": False})],
        [steps.wait_gate(gate), end(THREE, "three")],
    )
    with anyio.fail_after(60):
        async with start(fake) as client:
            one = await begun(client, ONE)
            two, three = client.query("hi", uuid=TWO), client.query("hi", uuid=THREE)
            assert (await two.interrupt()).outcome == "too_late"
            gate.open()
            assert [(await run).text for run in (one, two, three)] == ["one", "two", "three"]
    assert fake.requests("interrupt") == []


async def test_the_tasks_of_one_that_ends_meanwhile_are_stopped(start: MakeClient) -> None:
    fake = FakeCLI(
        [begin(ONE), sent(TWO), steps.wait_for_request("cancel_async_message"), end(ONE, "one")],
        [started(TWO), frames.task_started("a1"), end(TWO, "It runs."), steps.answer({"cancelled": False})],
        [steps.wait_for_request("stop_task"), steps.answer(), frames.task_notification("a1", status="stopped")],
    )
    with anyio.fail_after(60):
        async with start(fake) as client:
            await begun(client, ONE)
            run = client.query("hi", uuid=TWO)
            assert (await run.interrupt(stop_tasks=True)).outcome == "too_late"
            assert [request["task_id"] for request in fake.requests("stop_task")] == ["a1"]
            await run


async def test_one_of_an_iterable_ends_although_its_prompts_were_queued(start: MakeClient) -> None:
    queued = [steps.wait_for_prompt("queued"), steps.wait_for_request("cancel_async_message")]
    fake = FakeCLI(begin(ONE), queued, steps.answer({"cancelled": True}), frames.lifecycle("cancelled"))
    with anyio.fail_after(60):
        async with start(fake) as client:
            await begun(client, ONE)
            run = client.query(prompts("queued"))
            await fake.wait_received({"type": "user", "message": {"content": "queued"}})
            receipt = await run.interrupt()
            assert receipt.outcome == "dequeued"
            with pytest.raises(PromptCancelledError):
                await run
            assert (await run.result()).prompts == [*receipt.cancelled]


async def test_one_of_an_iterable_sends_no_more_prompts(start: MakeClient) -> None:
    gate, wanted = Gate(), anyio.Event()

    async def two() -> AsyncIterator[str]:
        yield "first"
        await wanted.wait()
        yield "second"

    removing = steps.wait_for_request("cancel_async_message")
    fake = FakeCLI(
        [begin(ONE), steps.wait_for_prompt("first"), removing, steps.wait_gate(gate)],
        [steps.answer({"cancelled": True}), frames.lifecycle("cancelled")],
    )
    with anyio.fail_after(60):
        async with start(fake) as client:
            await begun(client, ONE)
            run = client.query(two())
            await fake.wait_received({"type": "user", "message": {"content": "first"}})
            async with anyio.create_task_group() as group:
                group.start_soon(run.interrupt)
                await fake.wait_received({"request": {"subtype": "cancel_async_message"}})
                wanted.set()
                await anyio.wait_all_tasks_blocked()
                gate.open()
            with pytest.raises(PromptCancelledError):
                await run
    assert [frame["message"]["content"] for frame in fake.received_like({"type": "user"})] == ["hi", "first"]
    assert fake.requests("interrupt") == []


async def test_one_of_an_iterable_that_is_left_by_a_cancellation_is_interrupted(start: MakeClient) -> None:
    begins = steps.emit(frames.init(user_message_uuids=[frames.prompt_field("uuid")]))
    fake = FakeCLI(steps.wait_for_prompt("first"), begins, steps.wait_for_prompt("queued"), steps.hang())
    with anyio.fail_after(60):
        async with start(fake) as client:
            with anyio.CancelScope() as scope:
                async with client.query(prompts("first", "queued")) as run:
                    await anext(run)
                    await fake.wait_received({"type": "user", "message": {"content": "queued"}})
                    scope.cancel()
                    await anyio.sleep_forever()
            await fake.wait_received({"request": {"subtype": "interrupt"}})
    [_, queued] = fake.received_like({"type": "user"})
    removed = [request["message_uuid"] for request in fake.requests("cancel_async_message")]
    assert set(removed) == {queued["uuid"]}


async def test_a_queued_one_also_removes_the_other_queued_prompts(start: MakeClient) -> None:
    fake = FakeCLI(begin(ONE), sent(TWO), sent(THREE), removed(TWO), removed(THREE))
    with anyio.fail_after(60):
        async with start(fake) as client:
            await begun(client, ONE)
            run, other = client.query("hi", uuid=TWO), client.query("hi", uuid=THREE)
            receipt = await run.interrupt(cancel_queued=True)
            for each in (run, other):
                with pytest.raises(PromptCancelledError):
                    await each
            assert (receipt.outcome, receipt.cancelled) == ("dequeued", (TWO, THREE))
    assert fake.requests("interrupt") == []


@pytest.mark.parametrize("is_cancelled", [False, True], ids=["refused", "cancelled"])
async def test_one_of_an_iterable_ends_with_its_answers_if_its_interrupt_fails(
    is_cancelled: bool, start: MakeClient
) -> None:
    answer = steps.hang() if is_cancelled else steps.answer(error="no")
    fake = FakeCLI(steps.turn("one", prompt="first"), steps.wait_for_request("interrupt"), answer)
    with anyio.fail_after(60):
        async with start(fake) as client:
            run = client.query(prompts("first"))
            async for message in run:
                if isinstance(message, ResultMessage):
                    break
            async with anyio.create_task_group() as group:
                group.start_soon(interrupt_in_vain, run)
                await fake.wait_received({"request": {"subtype": "interrupt"}})
                if is_cancelled:
                    group.cancel_scope.cancel()
            assert (await run).text == "one"


async def interrupt_in_vain(run: Run[Any]) -> None:
    """Interrupt a run, and ignore that the CLI refuses it."""
    with contextlib.suppress(ControlError):
        await run.interrupt()
