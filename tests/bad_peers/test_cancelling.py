"""Cancellation at every await: nothing is left behind, nothing hangs, and the session goes on."""

import gc
from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from cancelling import Answers, Cancelling, How, cancel_everywhere, prompts, stepped, until
from leftovers import nothing_left

from claude_agent_py import AgentDefinition, Allow, ChildAgent, Client, ClientOptions, query, run
from claude_agent_py.pool import Pool, map_runs

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def no_garbage() -> Iterator[None]:
    """Collect the runs that a cancelled program did not await, before their warning meets another test."""
    yield
    gc.collect()


LATE = (0, pytest.param(1, marks=pytest.mark.long), 2, pytest.param(3, marks=pytest.mark.long))


def ways(backend: str) -> list[How]:
    return ["scope"] if backend == "trio" else ["scope", "task", "task twice"]


async def connects_asks_and_closes(client: Client, cli: Answers) -> None:
    async with client:
        assert (await client.query("hi")).text == "re: hi"


async def connects_and_reads(client: Client, cli: Answers) -> None:
    async with client:
        assert [type(message).__name__ async for message in client.query("hi")]


async def leaves_a_task_running(client: Client, cli: Answers) -> None:
    async with client:
        await client.query("task")
        await client.close(tasks="stop")


WHOLE = [connects_asks_and_closes, connects_and_reads, leaves_a_task_running]
"""Work that opens and closes a client."""


@pytest.mark.each_backend
@pytest.mark.parametrize("late", LATE)
@pytest.mark.parametrize("work", WHOLE)
async def test_a_client_that_is_cancelled_leaves_nothing(work: Any, late: int, anyio_backend: str) -> None:
    for how in ways(anyio_backend):

        async def attempt(cancelling: Cancelling) -> None:
            cli = Answers()
            async with nothing_left():
                client = Client(ClientOptions(), transport=cli)
                was_cancelled = await cancelling.run(lambda: work(client, cli))
                assert was_cancelled or not cancelling.is_strict
                if not client.is_closed:  # it was cancelled before it was entered
                    await client.close()
            assert cli.exit_code is not None or not cli.was_started

        assert await cancel_everywhere(how, late, attempt) > 3


async def asks(client: Client, cli: Answers) -> None:
    assert (await client.query("hi")).text == "re: hi"


async def asks_twice_at_once(client: Client, cli: Answers) -> None:
    first, second = client.query("one"), client.query("two")
    assert [(await second).text, (await first).text] == ["re: two", "re: one"]


async def reads(client: Client, cli: Answers) -> None:
    run = client.query("hi")
    assert len([message async for message in run]) == 3
    assert len([message async for message in run]) == 3


async def reads_text(client: Client, cli: Answers) -> None:
    assert [text async for text in client.query("hi").text_stream()] == ["re: hi"]


async def interrupts(client: Client, cli: Answers) -> None:
    async with client.query("wait") as run:
        await anyio.lowlevel.checkpoint()
    assert (await run.result()).is_error


async def sends_many_prompts(client: Client, cli: Answers) -> None:
    assert (await client.query(prompts("one", "two"))).text == "re: two"


async def follows_the_session(client: Client, cli: Answers) -> None:
    messages, run = client.messages(), client.query("hi")
    async for message in messages:
        if type(message).__name__ == "ResultMessage":
            break
    await run


async def follows_the_journal(client: Client, cli: Answers) -> None:
    facts, run = client.journal(), client.query("hi")
    async for fact in facts:
        if fact.fact == "turn_ended":
            break
    facts.close()
    await run


async def controls(client: Client, cli: Answers) -> None:
    await client.set_model("fable")
    await client.control("anything")
    await client.interrupt()


async def stops_a_task(client: Client, cli: Answers) -> None:
    await client.query("task")
    [*_, task] = client.tasks
    assert (await task.stop()).status == "stopped"


async def waits_for_a_task(client: Client, cli: Answers) -> None:
    await client.query("task")
    [*_, task] = client.tasks
    cli.end_task()
    assert (await task.wait()).status == "completed"


async def waits_for_all_tasks(client: Client, cli: Answers) -> None:
    await client.query("task")
    cli.end_task()
    await client.tasks.wait_all()
    assert [outcome.status async for outcome in client.tasks.as_completed()]


async def waits_until_idle(client: Client, cli: Answers) -> None:
    run = client.query("task", until="idle")
    await until(lambda: len(client.tasks.running) > 0)
    cli.end_task()
    await run


async def answers_a_question(client: Client, cli: Answers) -> None:
    assert (await client.query("ask")).text == "allowed"


async def reopens(client: Client, cli: Answers) -> None:
    assert (await client.query("hi")).text == "re: hi"
    await client.sync_store()
    await client.tasks.stop_all()


OPEN = [
    asks,
    asks_twice_at_once,
    reads,
    reads_text,
    interrupts,
    sends_many_prompts,
    follows_the_session,
    follows_the_journal,
    controls,
    stops_a_task,
    waits_for_a_task,
    waits_for_all_tasks,
    waits_until_idle,
    answers_a_question,
    reopens,
]
"""Work in a session that goes on."""


async def allow(request: Any, context: Any) -> Allow:
    await anyio.lowlevel.checkpoint()
    return Allow()


@pytest.mark.each_backend
@pytest.mark.filterwarnings(
    "ignore:client.query.* was never awaited"
)  # what a cancelled program does not await any more
@pytest.mark.parametrize("late", LATE)
@pytest.mark.parametrize("work", OPEN)
async def test_a_session_goes_on_after_a_cancellation(work: Any, late: int, anyio_backend: str) -> None:
    for how in ways(anyio_backend):

        async def attempt(cancelling: Cancelling) -> None:
            cli = Answers()
            async with nothing_left(), Client(ClientOptions(can_use_tool=allow), transport=cli) as client:
                was_cancelled = await cancelling.run(lambda: work(client, cli))
                assert was_cancelled or not cancelling.is_strict
                with anyio.fail_after(20):
                    assert (await client.query("still there?")).text == "re: still there?"
                    await client.set_model("fable")
                    await client.query("wait").interrupt()
                    await client.tasks.stop_all()

        assert await cancel_everywhere(how, late, attempt) > 0


async def runs(options: ClientOptions) -> None:
    assert (await run("hi", options)).text == "re: hi"


async def queries(options: ClientOptions) -> None:
    async with query("wait", options) as answer:
        async for _ in answer:
            break


async def uses_a_pool(options: ClientOptions) -> None:
    async with Pool(options, size=1, max_size=2) as pool:
        await pool.ready()
        first, second = pool.query("one"), pool.query("two")
        assert [(await second).text, (await first).text] == ["re: two", "re: one"]
        async with pool.client() as client:
            assert (await client.query("three")).text == "re: three"
        await pool.drain()


async def maps_runs(options: ClientOptions) -> None:
    async with map_runs(["one", "two", "three"], options, concurrency=2) as outcomes:
        assert [outcome.text async for outcome in outcomes] == ["re: one", "re: two", "re: three"]


async def spawns_a_child(options: ClientOptions) -> None:
    child = ChildAgent(AgentDefinition(description="Helps.", prompt="Help."), id="helper", options=options)
    async with Client(options) as client:
        task = await client.spawn(child, "go on")
        assert (await task).summary == "re: go on"


PROGRAMS = [runs, queries, uses_a_pool, maps_runs, spawns_a_child]
"""Work that starts processes by itself."""
WAITING = [runs, queries, maps_runs]
"""Those that, cancelled by a scope, end once the processes have ended. Others leave that to the event loop."""


@pytest.mark.each_backend
@pytest.mark.filterwarnings("ignore:.* was never awaited")
@pytest.mark.parametrize("late", LATE)
@pytest.mark.parametrize("work", PROGRAMS)
async def test_a_program_that_is_cancelled_leaves_no_process(work: Any, late: int, anyio_backend: str) -> None:
    for how in ways(anyio_backend):

        async def attempt(cancelling: Cancelling, how: How = how) -> None:
            started: list[Answers] = []

            def spawn(plan: Any) -> Answers:
                started.append(Answers())
                return started[-1]

            async with nothing_left():
                options = ClientOptions(cli_path="claude", spawn=spawn)
                was_cancelled = await cancelling.run(lambda: work(options))
                assert was_cancelled or not cancelling.is_strict
                if how == "scope" and work in WAITING:
                    assert all(cli.exit_code is not None for cli in started)
            await until(lambda: all(cli.exit_code is not None for cli in started))

        assert await cancel_everywhere(how, late, attempt) > 0


async def decides(request: Any, context: Any) -> Allow:
    await anyio.sleep(0)
    async with anyio.create_task_group() as group:
        group.start_soon(anyio.lowlevel.checkpoint)
    with anyio.move_on_after(20):
        await anyio.lowlevel.checkpoint()
    await anyio.to_thread.run_sync(id, None)
    return Allow()


class Withdrawn:
    """A handler whose question is withdrawn at its await number `at`."""

    def __init__(self, cli: Answers, at: int, late: int) -> None:
        self._cli = cli
        self._at = at
        self._late = late
        self.awaits = 0
        self.ends = 0

    async def __call__(self, request: Any, context: Any) -> Allow:
        try:
            answer: Allow = await stepped(decides(request, context), self._on_await)
            for _ in range(self._late):
                await anyio.lowlevel.cancel_shielded_checkpoint()
        finally:
            self.ends += 1
        return answer

    def _on_await(self) -> None:
        self.awaits += 1
        if self.awaits == self._at:
            self._cli.withdraw()


@pytest.mark.each_backend
@pytest.mark.parametrize("late", LATE)
async def test_a_handler_whose_question_is_withdrawn_at_any_await(late: int) -> None:
    at, is_withdrawn = 0, True
    while is_withdrawn:
        at += 1
        cli = Answers()
        handler = Withdrawn(cli, at, late)
        async with nothing_left(), Client(ClientOptions(can_use_tool=handler), transport=cli) as client:
            with anyio.fail_after(20):
                text = (await client.query("ask")).text
                assert (await client.query("still there?")).text == "re: still there?"
            assert not client.handler_errors
        is_withdrawn = handler.awaits >= at
        assert text == ("withdrawn" if is_withdrawn else "allowed")
        assert handler.ends == 1
        answered = [frame for frame in cli.received if frame["type"] == "control_response"]
        assert len(answered) == (not is_withdrawn)
    assert at > 4
