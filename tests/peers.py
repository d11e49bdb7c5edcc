"""Fixtures for tests against scripted peers: clients of a fake, in memory or as a program, and the leftovers check."""

import shlex
import sys
from collections.abc import AsyncIterable, AsyncIterator, Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from leftovers import nothing_left as check_nothing_left

from claude_agent_py import Client, ClientOptions, CLIExitError
from claude_agent_py.testing import FakeCLI

UVLOOP = pytest.param(
    ("asyncio", {"use_uvloop": True}),
    id="uvloop",
    marks=pytest.mark.skipif(find_spec("uvloop") is None, reason="uvloop does not exist for this platform"),
)
"""A backend for async tests."""
MakeClient: TypeAlias = Callable[..., Client]
"""Returns a client of a fake: `start(fake, **options)`."""


@pytest.fixture
async def nothing_left() -> AsyncIterator[None]:
    """Assert that the test leaves no worker, process or open pipe."""
    async with check_nothing_left():
        yield


@pytest.fixture
def start_process(tmp_path: Path) -> MakeClient:
    """Return a function that makes clients of installed fakes."""
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
    """Return a client of a fake in memory."""
    return Client(ClientOptions(**options), transport=fake.transport())


@pytest.fixture(params=["memory", "process"])
def start(request: pytest.FixtureRequest) -> MakeClient:
    """Return a function that makes clients of fakes, once in memory and once installed."""
    if request.param == "memory":
        return start_in_memory
    make: MakeClient = request.getfixturevalue("start_process")
    return make


def install_in_turn(folder: Path, *fakes: FakeCLI) -> Path:
    """Write a program that is each of these fakes in turn, once each, and return its path."""
    programs = [fake.install(folder / f"cli{number}") for number, fake in enumerate(fakes)]
    begun = shlex.quote(str(folder / "begun"))
    tries = [f'mkdir {begun}{number} 2>/dev/null && exec {each} "$@"' for number, each in enumerate(programs)]
    program = folder / "claude"
    program.write_text("\n".join(["#!/bin/sh", *tries]))
    program.chmod(0o755)
    return program


def client_in_turn(folder: Path, *fakes: FakeCLI, **options: Any) -> Client:
    """Return a client whose processes, and those of its children, are these fakes in turn; a single one is each."""
    program = install_in_turn(folder, *fakes) if len(fakes) > 1 else fakes[0].install(folder)
    env = {"CLAUDE_CONFIG_DIR": str(folder / "config")}
    return Client(ClientOptions(**({"cli_path": program, "cwd": folder, "env": env} | options)))


async def crash(client: Client) -> None:
    """Let the CLI crash, and wait until the client knows."""
    messages = client.messages()
    client.kill()
    with pytest.raises(CLIExitError):
        async for _ in messages:
            pass


async def read_into(seen: list[Any], source: AsyncIterable[Any]) -> None:
    """Append the items of an iterable to `seen`, until it ends or raises."""
    async for one in source:
        seen.append(one)  # noqa: PERF401 - keeps the items before an error
