"""Every method from any worker: what one worker opened, a second uses, a third reads and a fourth closes."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import pytest
from peers import MakeClient

from claude_agent_py import AssistantMessage, Client, Run, TaskStatus
from claude_agent_py.errors import LocalProtocolError
from claude_agent_py.testing import FakeCLI, Gate, frames, steps

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_left")]


async def in_a_worker(function: Callable[[], Awaitable[Any]]) -> Any:
    """Run an async function in a worker, and a cancel scope, of its own; give what it returns."""
    outcome: list[Any] = []

    async def work() -> None:
        with anyio.fail_after(60):
            outcome.append(await function())

    async with anyio.create_task_group() as group:
        group.start_soon(work)
    return outcome[0]


async def texts_of(run: Run) -> list[str]:
    return [message.text async for message in run if isinstance(message, AssistantMessage)]


async def test_opened_prompted_read_and_closed_in_four_workers(start: MakeClient) -> None:
    client = start(FakeCLI(steps.turn("one"), steps.turn("two")))
    await in_a_worker(client.connect)

    async def ask() -> Run:
        return client.query("hi")

    run = await in_a_worker(ask)
    assert await in_a_worker(lambda: texts_of(run)) == ["one"]
    assert (await in_a_worker(run.result)).text == "one"
    assert await in_a_worker(lambda: client.control("x")) == {}
    await in_a_worker(client.close)
    assert not client.is_open


async def test_the_scope_of_who_connected_does_not_matter(start: MakeClient) -> None:
    """Neither its end nor its cancellation: with the official SDK, either breaks the session."""
    client = start(FakeCLI(steps.turn("one")))
    async with anyio.create_task_group() as group:

        async def connect() -> None:
            await client.connect()
            group.cancel_scope.cancel()
            await anyio.sleep_forever()

        group.start_soon(connect)
    with anyio.fail_after(60):
        assert (await client.query("hi")).text == "one"
        await client.close()


async def test_many_workers_may_await_one_run(start: MakeClient) -> None:
    gate = Gate()
    fake = FakeCLI(steps.wait_for_prompt(), steps.wait_gate(gate), frames.result("same"))
    results: list[Any] = []
    with anyio.fail_after(60):
        async with start(fake) as client:
            run = client.query("hi")

            async def wait() -> None:
                results.append(await run)

            async with anyio.create_task_group() as group:
                for _ in range(5):
                    group.start_soon(wait)
                await anyio.wait_all_tasks_blocked()
                gate.open()
    assert len(results) == 5
    assert all(result is results[0] for result in results)


async def test_one_worker_iterates_while_another_awaits(start: MakeClient) -> None:
    gate = Gate()
    said = [frames.of_prompt(frames.assistant(str(number))) for number in range(20)]
    fake = FakeCLI(steps.wait_for_prompt(), *said[:10], steps.wait_gate(gate), *said[10:], frames.result("end"))
    seen: list[str] = []
    with anyio.fail_after(60):
        async with start(fake) as client:
            run = client.query("hi")

            async def read() -> None:
                seen.extend(await texts_of(run))

            async with anyio.create_task_group() as group:
                group.start_soon(read)
                await anyio.wait_all_tasks_blocked()
                gate.open()
                result = await run
    assert seen == [str(number) for number in range(20)]
    assert len(result.messages) == 21


async def test_prompts_from_many_workers_get_their_own_answers(start: MakeClient) -> None:
    fake = FakeCLI(*[steps.turn(f"answer {number}", prompt=f"prompt {number}") for number in range(10)])
    answers: dict[int, str] = {}
    with anyio.fail_after(60):
        async with start(fake) as client:

            async def ask(number: int) -> None:
                answers[number] = (await client.query(f"prompt {number}")).text

            async with anyio.create_task_group() as group:
                for number in range(10):
                    group.start_soon(ask, number)
    assert answers == {number: f"answer {number}" for number in range(10)}


async def test_several_clients_at_once_do_not_touch_each_other(start: MakeClient) -> None:
    answers: dict[int, str] = {}

    async def use(number: int) -> None:
        fake = FakeCLI(steps.turn(f"answer {number}"))
        async with start(fake) as client:
            answers[number] = (await client.query("hi")).text
            assert [frame["type"] for frame in fake.received] == ["control_request", "user"]

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            for number in range(6):
                group.start_soon(use, number)
    assert answers == {number: f"answer {number}" for number in range(6)}


async def test_clients_that_are_opened_and_closed_crosswise(start: MakeClient) -> None:
    first, second = start(FakeCLI(steps.turn("first"))), start(FakeCLI(steps.turn("second")))
    with anyio.fail_after(60):
        await first.connect()
        await second.connect()
        assert (await first.query("hi")).text == "first"
        await first.close()
        assert (await second.query("hi")).text == "second"
        await second.close()


async def test_from_a_thread(start: MakeClient) -> None:
    async with start(FakeCLI(steps.turn("one"))) as client:

        async def ask() -> str:
            return (await client.query("hi")).text

        with anyio.fail_after(60):
            assert await anyio.to_thread.run_sync(lambda: anyio.from_thread.run(ask)) == "one"


async def test_tasks_are_awaited_in_one_worker_and_followed_in_another(start: MakeClient) -> None:
    gate = Gate()
    fake = FakeCLI(
        steps.turn([frames.task_started("t1"), frames.task_started("t2")]),
        steps.wait_gate(gate),
        *frames.task_end("t1"),
        *frames.task_end("t2", "failed"),
    )
    told: list[str] = []
    with anyio.fail_after(60):
        async with start(fake) as client:
            await client.query("go")

            async def follow() -> None:
                async for task in client.tasks.as_completed():
                    told.append(task.id)  # noqa: PERF401 - told as they end

            async with anyio.create_task_group() as group:
                group.start_soon(follow)
                group.start_soon(client.tasks.wait, "t2")
                await anyio.wait_all_tasks_blocked()
                gate.open()
                outcomes = await client.tasks.wait_all()
    assert sorted(told) == ["t1", "t2"]
    assert [outcome.status for outcome in outcomes] == [TaskStatus.COMPLETED, TaskStatus.FAILED]


async def test_a_second_reader_of_the_same_messages_raises(start: MakeClient) -> None:
    from claude_agent_py.errors import LocalProtocolError

    with anyio.fail_after(60):
        async with start(FakeCLI()) as client:
            messages = client.messages()
            async with anyio.create_task_group() as group:

                async def read() -> None:
                    await anext(messages)

                group.start_soon(read)
                await anyio.wait_all_tasks_blocked()
                with pytest.raises(LocalProtocolError, match="already reading"):
                    await anext(messages)
                group.cancel_scope.cancel()


async def test_a_client_is_used_once(start: MakeClient) -> None:
    from claude_agent_py.errors import LocalProtocolError

    client: Client = start(FakeCLI())
    with anyio.fail_after(60):
        async with client:
            with pytest.raises(LocalProtocolError, match="once"):
                await client.connect()
            assert client.is_open
        with pytest.raises(LocalProtocolError, match="once"):
            await client.connect()


async def test_a_client_refuses_calls_from_another_thread_and_goes_on(start: MakeClient) -> None:
    client = start(FakeCLI(steps.turn("one")))
    await client.connect()

    async def elsewhere() -> None:
        with anyio.fail_after(60):
            with pytest.raises(LocalProtocolError, match="another thread"):
                await client.query("hi")
            with pytest.raises(LocalProtocolError, match="another thread"):
                await client.control("x")

    for backend in ("asyncio", "trio"):
        await anyio.to_thread.run_sync(partial(anyio.run, elsewhere, backend=backend))
    with anyio.fail_after(60):
        assert (await client.query("hi")).text == "one"
    await client.close()
