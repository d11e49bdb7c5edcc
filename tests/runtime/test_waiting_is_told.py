"""How long a run waits for a background task that never ends: on a clock that jumps, so that no test waits."""

import logging
from typing import Any

import anyio
import pytest
from bounds import set_bound
from trio.testing import MockClock

from claude_agent_py import Client, ClientOptions, Run, Timeouts, query
from claude_agent_py.testing import FakeCLI, Gate, frames, steps

pytestmark = pytest.mark.anyio

BRIEF = Timeouts(close=0.2)


@pytest.fixture
def clock() -> MockClock:
    return MockClock()


@pytest.fixture
def anyio_backend(clock: MockClock) -> tuple[str, dict[str, Any]]:
    return "trio", {"clock": clock}


def jump(clock: MockClock) -> None:
    """Let the time pass. Not before a session has started: while it waits for a thread, its time limit would pass."""
    clock.autojump_threshold = 0.002


def with_server(timeouts: Timeouts = BRIEF) -> Run[Any]:
    shell = frames.task_started("b1", "A server", task_type="local_bash")
    fake = FakeCLI(steps.turn([shell], text="It is up."), answers={"stop_task": {}})
    return query("go", ClientOptions(timeouts=timeouts), transport=fake.transport())


async def test_a_warning_names_the_tasks_after_a_minute_and_then_ten_later(
    caplog: pytest.LogCaptureFixture, clock: MockClock
) -> None:
    fake = FakeCLI(
        steps.wait_for_prompt(),
        frames.task_started("b1", "A server", task_type="local_bash"),
        frames.result("It is up."),
        steps.hang(),
    )
    began = anyio.current_time()
    with caplog.at_level(logging.WARNING, "claude_agent_py"):
        async with Client(ClientOptions(timeouts=BRIEF), transport=fake.transport()) as client:
            jump(clock)
            with anyio.move_on_after(700):
                await client.query("go", until="idle")
            told = [record.getMessage() for record in caplog.records]
    assert anyio.current_time() - began >= 700
    assert [text.split(" waiting ")[1].split(" s ")[0] for text in told] == ["60", "660"]
    assert all("'A server'" in text and "Timeouts(idle=...)" in text for text in told)


async def test_one_prompt_waits_ten_minutes_for_a_task_without_progress_and_names_it(clock: MockClock) -> None:
    async with with_server() as run:
        jump(clock)
        began = anyio.current_time()
        with anyio.fail_after(700):
            result = await run
    assert anyio.current_time() - began >= 600
    assert (result.text, result.is_error) == ("It is up.", False)
    assert [task.description for task in result.unfinished_tasks] == ["A server"]


async def test_one_prompt_waits_without_a_limit_if_the_options_say_so(clock: MockClock) -> None:
    async with with_server(Timeouts(close=0.2, idle=None)) as run:
        jump(clock)
        with anyio.move_on_after(700) as scope:
            await run
    assert scope.cancelled_caught


async def test_a_run_that_waits_for_a_follow_up_turn_alone_is_not_warned_of(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, clock: MockClock
) -> None:
    """The last task ends just before the time of the warning."""
    set_bound(monkeypatch, "FIRST_NOTICE", 0.2)
    ends = Gate()
    fake = FakeCLI(
        steps.wait_for_prompt(),
        frames.task_started("b1", "A build", task_type="local_bash"),
        frames.result("It runs."),
        steps.wait_gate(ends),
        *frames.task_end("b1"),
    )
    async with Client(ClientOptions(timeouts=BRIEF), transport=fake.transport()) as client:
        run = client.query("go", until="idle")
        await client.tasks.until(lambda: "b1" in client.tasks)
        jump(clock)
        await anyio.sleep(0.15)
        ends.open()
        with anyio.move_on_after(0.2) as limit:
            await run
        assert (limit.cancelled_caught, client.tasks["b1"].done) == (True, True)
        assert "has been waiting" not in caplog.text
