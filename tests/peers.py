"""Fixtures of tests against scripted peers: clients of a fake in memory or as a program, and the check of what is left.

A conftest imports those that its tests use.
"""

import sys
from collections.abc import AsyncIterable, AsyncIterator, Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from leftovers import nothing_left as check_nothing_left

from claude_agent_py import Client, ClientOptions
from claude_agent_py.testing import FakeCLI

MakeClient: TypeAlias = Callable[..., Client]
"""Makes a client of a fake: `start(fake, **options)`."""


@pytest.fixture
async def nothing_left() -> AsyncIterator[None]:
    """Check that the test leaves no worker, no process and no open pipe."""
    async with check_nothing_left():
        yield


@pytest.fixture
def start_process(tmp_path: Path) -> MakeClient:
    """Make clients of peers that are programs."""
    if sys.platform == "win32":
        pytest.skip("an installed fake is a shell script")
    made = 0

    def make(fake: FakeCLI, **options: Any) -> Client:
        nonlocal made
        made += 1
        program = fake.install(tmp_path / str(made))
        return Client(ClientOptions(cli_path=program, **options))

    return make


def start_in_memory(fake: FakeCLI, **options: Any) -> Client:
    """Make a client of a peer in memory."""
    return Client(ClientOptions(**options), transport=fake.transport())


@pytest.fixture(params=["memory", "process"])
def start(request: pytest.FixtureRequest) -> MakeClient:
    """Make clients of peers in memory, and then of programs."""
    if request.param == "memory":
        return start_in_memory
    make: MakeClient = request.getfixturevalue("start_process")
    return make


async def read_into(seen: list[Any], source: AsyncIterable[Any]) -> None:
    """Iterate something to its end, also where that is an error."""
    async for one in source:
        seen.append(one)  # noqa: PERF401 - so that what was seen before an error stays
