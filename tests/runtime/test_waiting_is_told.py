"""Who waits for a background task that never ends is told so: on a clock that jumps, so that no test waits."""

import logging
from typing import Any

import anyio
import pytest
from trio.testing import MockClock

from claude_agent_py import Client, ClientOptions, Timeouts
from claude_agent_py.testing import FakeCLI, frames, steps

pytestmark = pytest.mark.anyio


CLOCK = MockClock()


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "trio", {"clock": CLOCK}


async def test_a_warning_names_the_tasks_after_a_minute_and_then_ten_later(caplog: pytest.LogCaptureFixture) -> None:
    fake = FakeCLI(
        steps.wait_for_prompt(),
        frames.task_started("b1", "A server", task_type="local_bash"),
        frames.result("It is up."),
        steps.hang(),
    )
    options = ClientOptions(timeouts=Timeouts(close=0.2))
    began = anyio.current_time()
    with caplog.at_level(logging.WARNING, "claude_agent_py"):
        async with Client(options, transport=fake.transport()) as client:
            CLOCK.autojump_threshold = 0.002  # not before: while a start waits for a thread, its time limit would pass
            with anyio.move_on_after(700):
                await client.query("go", until="idle")
            told = [record.getMessage() for record in caplog.records]
    assert anyio.current_time() - began >= 700
    assert [text.split(" waiting ")[1].split(" s ")[0] for text in told] == ["60", "660"]
    assert all("'A server'" in text and "Timeouts(idle=...)" in text for text in told)
