"""What a person sees who prints something: what it is and how it stands, in one line, never an address or a secret."""

import re
from typing import Any

import anyio
import pytest
from peers import start_in_memory

from claude_agent_py import ClientOptions, query
from claude_agent_py.tasks import TaskFinished
from claude_agent_py.testing import FakeCLI, frames, steps

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_left")]


def check(shown: str, says: str) -> None:
    """Check that a repr says something and gives away nothing."""
    assert says in shown
    assert "\n" not in shown
    assert not re.search(r" at 0x[0-9a-f]+", shown)
    assert "a-secret" not in shown
    assert len(shown) < 500


async def test_a_client_and_its_runs_say_how_they_stand() -> None:
    fake = FakeCLI(
        steps.turn([frames.task_started("t1", "Review auth"), *frames.task_end("t1")]), steps.wait_for_prompt()
    )
    client = start_in_memory(fake, env={"KEY": "a-secret"})
    check(repr(client), "not connected")
    with anyio.fail_after(60):
        async with client:
            check(repr(client), "open")
            events = client.tasks.events(TaskFinished)
            one = client.query("hi")
            check(repr(one), "running")
            result = await one
            check(repr(one), "result, ")
            two = client.query("more")
            task = client.tasks["t1"]
            shown: list[tuple[Any, str]] = [
                (result, "1 results"),
                (result.messages, "messages"),
                (client.tasks, "1 tasks"),
                (task, "Review auth"),
                (await task.wait(), "completed"),
                (await anext(events), "t1"),
                (two, "running"),
                (two.text_stream(), "text of <Run running"),
                (aiter(two), "<Run running"),
                (two.tool_calls(), "tool calls of <Run running"),
                (client.messages(), "messages of a session"),
                (client.options, "KEY"),
                (client.connection, "<Connection open over <FakeTransport open>>"),
                (fake, "steps"),
            ]
            for value, says in shown:
                check(repr(value), says)
    check(repr(client), "closed")
    check(repr(two), "closed")
    check(repr(client.connection), "closed")


async def test_a_run_that_has_not_begun_says_so() -> None:
    run = query("hi", ClientOptions())
    check(repr(run), "not started")
    assert run.tasks == []
    with pytest.warns(RuntimeWarning, match="never awaited"):
        del run


async def test_a_transport_shows_no_arguments(start_process: Any) -> None:
    client = start_process(FakeCLI(), system_prompt="a-secret", env={"KEY": "a-secret"})
    with anyio.fail_after(60):
        async with client:
            check(repr(client.connection), f"pid={client.pid}")
