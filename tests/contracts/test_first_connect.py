"""The first connect of a process does not hold up the event loop with imports."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from claude_agent_py.testing import FakeCLI

PROGRAM = """
import importlib.abc, json, os, sys, threading
import anyio._backends._asyncio
from claude_agent_py import AgentDefinition, Client, ClientOptions, HookMatcher, tool

cli, cases = sys.argv[1:]
imported = {"loop": [], "threads": []}

class Watch(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.startswith("claude_agent_py."):
            imported["loop" if threading.current_thread() is threading.main_thread() else "threads"].append(name)
        return None

async def handler(*given):
    return None

@tool
async def add(a: int, b: int) -> int:
    "Add."
    return a + b

features = {
    "no features": {},
    "hooks": {"hooks": {"PreToolUse": [HookMatcher("Bash", handler)]}},
    "permissions": {"can_use_tool": handler},
    "an inbox": {"interactions": True},
    "tools": {"custom_tools": [add]},
    "agents": {"agents": {"one": AgentDefinition(description="d", prompt="p")}},
    "listeners": {"on_task_event": lambda event: None, "on_stderr": lambda line: None},
}
features["all"] = {name: value for feature in features.values() for name, value in feature.items()}
async def main():
    client = Client(options)
    sys.meta_path.insert(0, Watch())
    await client.connect()
    del sys.meta_path[0]
    await client.close()

for backend, kind in json.loads(cases):
    copy = os.fork()  # for each a process that has not connected yet
    if copy == 0:
        options = ClientOptions(cli_path=cli, **features[kind])
        anyio.run(main, backend=backend)
        print(json.dumps(imported))
        break
    if os.waitpid(copy, 0)[1]:
        sys.exit(f"{kind} on {backend} failed")
"""


KINDS = ["no features", "hooks", "permissions", "an inbox", "tools", "agents", "listeners", "all"]


@pytest.fixture(scope="module")
def imported_by(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], dict[str, list[str]]]:
    """What the first connect of a process imports of the package on the event loop, and in threads."""
    if not hasattr(os, "fork"):
        pytest.skip("needs fork")
    cases = [("asyncio", kind) for kind in KINDS]
    if importlib.util.find_spec("trio"):
        cases.append(("trio", "all"))
    cli = FakeCLI().install(tmp_path_factory.mktemp("cli"))
    command = [sys.executable, "-c", PROGRAM, str(cli), json.dumps(cases)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    return dict(zip(cases, found, strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_a_start_imports_nothing_on_the_event_loop(kind: str, imported_by: Any) -> None:
    found = imported_by["asyncio", kind]
    assert found["loop"] == []
    assert "claude_agent_py._connection.connection" in found["threads"]
    assert ("claude_agent_py.permissions.dispatcher" in found["threads"]) is (
        kind in ("permissions", "an inbox", "all")
    )


def test_nor_does_it_on_trio(imported_by: Any) -> None:
    pytest.importorskip("trio")
    found = imported_by["trio", "all"]
    assert found["loop"] == []
    assert {"claude_agent_py.hooks.live", "claude_agent_py.tools.host"} <= set(found["threads"])


CLOSED_EARLY = """
import sys, anyio
from claude_agent_py import Client, ClientOptions, ConnectionClosedError, LocalProtocolError

async def main():
    client = Client(ClientOptions(cli_path=sys.argv[1]))
    told = []

    async def connect():
        try:
            await client.connect()
        except (ConnectionClosedError, LocalProtocolError) as error:
            told.append(type(error).__name__)

    async with anyio.create_task_group() as workers:
        workers.start_soon(connect)
        workers.start_soon(connect)
        workers.start_soon(client.close)
    print(*sorted(told), client)

anyio.run(main, backend=sys.argv[2])
"""


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_first_connect_can_be_overtaken(backend: str, tmp_path: Path) -> None:
    pytest.importorskip(backend)
    command = [sys.executable, "-c", CLOSED_EARLY, str(FakeCLI().install(tmp_path)), backend]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.stderr == ""
    *errors, _, state, _, _ = done.stdout.split()
    assert (len(errors), "ConnectionClosedError" in errors, state) == (2, True, "closed,")
