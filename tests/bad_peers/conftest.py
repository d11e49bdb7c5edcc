"""Peers that misbehave: each test gets them in memory or as a process, and may leave nothing behind."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from leftovers import nothing_left

from claude_agent_py import Client, ClientOptions
from claude_agent_py.testing import FakeCLI

MakeClient = Callable[..., Client]


@pytest.fixture(name="nothing_left")
async def _nothing_left() -> AsyncIterator[None]:
    async with nothing_left():
        yield


@pytest.fixture
def start_process(tmp_path: Path) -> MakeClient:
    """Make clients of peers that are programs."""
    made = 0

    def make(fake: FakeCLI, **options: Any) -> Client:
        nonlocal made
        made += 1
        program = fake.install(tmp_path / str(made))
        return Client(ClientOptions(cli_path=program, **options))

    return make


@pytest.fixture(params=["memory", "process"])
def start(request: pytest.FixtureRequest, start_process: MakeClient) -> MakeClient:
    """Make clients of peers in memory, and then of programs."""
    if request.param == "process":
        return start_process
    return lambda fake, **options: Client(ClientOptions(**options), transport=fake.transport())
