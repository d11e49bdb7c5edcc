"""Sessions of which everything goes wrong in some order: whatever happens, all calls return and nothing is left.

Each seed makes a peer that misbehaves at random and workers that use a client at random, cancelling each other. Nothing
is said about what they get: only that every call ends, with a result or an error of the documented tree.
"""

import logging
import random
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from peers import MakeClient, start_in_memory

from claude_agent_py import Allow, ClaudeAgentError, Client, Timeouts
from claude_agent_py.testing import FakeCLI, frames, steps

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.usefixtures("nothing_left"),
    pytest.mark.filterwarnings("ignore:client.query.* was never awaited"),
    pytest.mark.filterwarnings("ignore:query.* was never awaited"),
]

TASKS = [f"t{number}" for number in range(4)]


def misbehaviour(chance: random.Random) -> list[Any]:
    """Make one thing that a peer does."""
    task = chance.choice(TASKS)
    request = f"r{chance.randrange(6)}"
    return chance.choice(
        [
            steps.turn("an answer"),
            steps.turn([frames.task_started(task)]),
            [steps.wait_for_prompt(), frames.init()],
            [frames.init(), frames.assistant("unasked"), frames.result("unasked", origin=frames.task_origin(task))],
            frames.task_end(task, chance.choice(["completed", "failed", "stopped"])),
            [frames.task_started(task), frames.task_progress(task)],
            [frames.background_tasks(*chance.sample(TASKS, 2))],
            [frames.session_state(chance.choice(["idle", "running", "requires_action"]))],
            [frames.can_use_tool(request)],
            [frames.control_cancel(request)],
            [frames.hook_callback(request, "hook_0", {"hook_event_name": "Stop", "stop_hook_active": False})],
            [frames.control_request(request, "something_new")],
            [frames.lifecycle(chance.choice(["queued", "cancelled", "completed"]))],
            [frames.result("nobody's", user_message_uuid="x", user_message_uuids=["x", "y"])],
            [b"garbage\n"],
            [b'{"type": "result"}\n'],
            [b'{"type": "control_response", "response": {"subtype": "success", "request_id": "req_2"}}\n'],
            [steps.emit(*frames.text_stream("a", "b"))],
            [frames.system("something_new")],
            [steps.pause(0.01)],
            [steps.wait_for_request("slow"), steps.answer({"x": 1})],
        ]
    )


def peer(chance: random.Random) -> FakeCLI:
    """Make a peer that does a dozen such things, and then perhaps dies."""
    script = [misbehaviour(chance) for _ in range(chance.randrange(3, 15))]
    end: Any = chance.choice([[], [], steps.exit(1), steps.die(9), steps.close_output(), b'{"half a li'])
    answers: Any = chance.choice([{}, {"slow": None}, {"*": None}, {"stop_task": None}, {"interrupt": {"error": "no"}}])
    return FakeCLI(*script, end, answers=answers, ignore_eof=chance.random() < 0.2)


async def iterate(source: Any, most: int) -> None:
    async for _ in source:
        most -= 1
        if most == 0:
            return


def use(chance: random.Random, client: Client) -> Callable[[], Awaitable[Any]]:
    """Choose something to do with a client."""
    until: Any = chance.choice(["result", "idle"])
    timeout = chance.choice([None, 0.05])
    most = chance.randrange(1, 20)

    async def prompts() -> Any:
        for number in range(3):
            yield f"prompt {number}"
            await checkpoint()

    async def in_a_block() -> None:
        async with client.query("hi", until=until) as run:
            await iterate(run, most)

    async def two_readers() -> None:
        run = client.query("hi", until=until, timeout=timeout)
        async with anyio.create_task_group() as group:
            group.start_soon(run.result)
            await iterate(run, most)
            group.cancel_scope.cancel()

    async def awaited() -> None:
        await client.query("hi", until=until, timeout=timeout)

    return chance.choice(
        [
            awaited,
            lambda: client.query(prompts(), until=until, timeout=timeout).result(),
            lambda: iterate(client.query("hi", until=until), most),
            lambda: iterate(client.query("hi").text_stream(), most),
            lambda: iterate(client.messages(), most),
            in_a_block,
            two_readers,
            lambda: client.query("hi").interrupt(stop_tasks=True),
            lambda: client.control("slow", timeout=0.05),
            lambda: client.set_model("opus"),
            lambda: client.tasks.wait_all(timeout=0.1),
            lambda: client.tasks.stop_all(timeout=0.1),
            lambda: iterate(client.tasks.events(), most),
            lambda: client.close(),
        ]
    )


async def worker(chance: random.Random, client: Client) -> None:
    """Use a client a few times; each call is cancelled after a while."""
    for _ in range(4):
        with anyio.move_on_after(chance.choice([0.0, 0.01, 0.1])):
            try:
                await use(chance, client)()
            except (ClaudeAgentError, TimeoutError):
                pass
            except BaseExceptionGroup as group:
                if group.split((ClaudeAgentError, TimeoutError))[1] is not None:
                    raise
        await checkpoint()


async def anything_goes(start: MakeClient, seed: int, *, connect: float) -> None:
    chance = random.Random(seed)

    async def answers(*args: Any) -> Any:
        if chance.random() < 0.3:
            raise LookupError
        await anyio.sleep(chance.choice([0, 0.01]))
        return Allow() if len(args) == 2 and chance.random() < 0.8 else None

    client = start(
        peer(chance),
        can_use_tool=answers,
        hooks={"Stop": [answers]},
        on_task_notification=answers,
        on_task_event=answers,
        timeouts=Timeouts(close=chance.choice([0.2, 1.0]), control=0.2, connect=connect),
    )
    with anyio.fail_after(60):
        try:
            await client.connect()
        except ClaudeAgentError:
            return
        async with anyio.create_task_group() as group:
            for _ in range(chance.randrange(1, 5)):
                group.start_soon(worker, random.Random(chance.random()), client)
        await client.close(tasks=chance.choice(["stop", "wait"]))
        assert not client.is_open
        await client.connection.shutdown.wait_closed()  # on a busy machine the time limit is over before all has ended
        assert client.tasks.running == []


@pytest.mark.parametrize("seed", range(60))
async def test_in_memory(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.CRITICAL):
        await anything_goes(start_in_memory, seed, connect=0.5)


@pytest.mark.parametrize("seed", range(1000, 1010))
async def test_with_a_process(seed: int, start_process: MakeClient, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.CRITICAL):
        await anything_goes(start_process, seed, connect=2)
