"""A program that is killed with SIGKILL: its CLIs, their shells and its child agents end within seconds."""

import json
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest
from forks import Program
from leftovers import is_alive, kill, processes_with

from claude_agent_py.testing import Gate, Reply, ScriptedModel, tool_use

pytestmark = [
    pytest.mark.real_cli,
    pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the CLI finishes its turn"),
]

PATIENCE = 240.0
"""How long the end may take, in seconds. Measured: up to 3.6 s (CLI 2.1.328)."""

PROGRAM = """
    import json, sys
    import anyio
    from claude_agent_py import AgentDefinition, Client, ClientOptions
    from claude_agent_py.children import ChildAgent, child_tool

    async def main():
        adder = ChildAgent(AgentDefinition(description="Adds", prompt="You add."), id="adder")
        options = ClientOptions(
            inherit_env=False, env=json.loads(sys.argv[2]), cwd=sys.argv[3], permission_mode="bypassPermissions",
            include_partial_messages=True, custom_tools=[child_tool(adder)]
        )
        client = Client(options)
        await client.connect()
        print("connected", flush=True)
        if sys.argv[4] == "idle":
            await anyio.sleep_forever()
        async for message in client.query("go"):
            print(type(message).__name__, flush=True)
        print("done", flush=True)
        await anyio.sleep_forever()

    anyio.run(main, backend=sys.argv[1])
"""

COUNTING = {"command": "for i in $(seq 999); do echo counting $i; sleep 0.5; done", "description": "count"}


@dataclass
class Case:
    """What the program is in when it is killed."""

    script: list[Any]
    until: str
    """The line that it prints when it is there."""
    shells: int = 0
    """How many shells count by then."""
    clis: int = 1
    sessions: dict[str, Any] = field(default_factory=dict)


def cases(gate: Gate) -> dict[str, Case]:
    """Return the cases; the gate is never opened."""
    in_background = tool_use("Bash", {**COUNTING, "run_in_background": True})
    subtask = tool_use("mcp__tools__create_subtask_adder", {"title": "one", "intent": "Do it"})
    return {
        "idle": Case([], "connected"),
        "the model does not answer": Case([Reply("late", after=gate)], "connected"),
        "a streamed answer": Case([Reply("word " * 9999, chunk_chars=5, chunk_delay=0.02)], "StreamEventMessage"),
        "a shell": Case([tool_use("Bash", COUNTING)], "AssistantMessage", 1),
        "a background shell": Case([in_background, "It counts."], "done", 1),
        "a child agent": Case([subtask], "AssistantMessage", 1, 2, {"one": [in_background, Reply("late", after=gate)]}),
    }


@pytest.mark.parametrize(
    ("name", "backend"),
    [
        pytest.param("idle", "asyncio", marks=pytest.mark.long),
        pytest.param("the model does not answer", "trio", marks=pytest.mark.long),
        pytest.param("a streamed answer", "trio", marks=pytest.mark.long),
        pytest.param("a shell", "asyncio", marks=pytest.mark.long),
        ("a background shell", "trio"),
        pytest.param("a child agent", "asyncio", marks=pytest.mark.long),
    ],
)
def test_all_of_a_killed_program_ends(name: str, backend: str) -> None:
    gate = Gate()
    case = cases(gate)[name]

    def is_counting(model: ScriptedModel) -> bool:
        return len(processes_with(f"HOME={model.sandbox.home}", "counting")) >= case.shells

    with ScriptedModel(case.script, sessions=case.sessions) as model:
        home = f"HOME={model.sandbox.home}"
        argv = [sys.executable, "-c", textwrap.dedent(PROGRAM), backend, json.dumps(model.environment())]
        program = Program([*argv, str(model.sandbox.cwd), name], stdout=subprocess.PIPE, text=True)
        with program:
            assert program.stdout is not None
            stuck = threading.Timer(3 * PATIENCE, program.kill)
            stuck.start()
            try:
                assert any(line.strip() == case.until for line in program.stdout)
                anyio.run(until, lambda: is_counting(model))
                if gate in [getattr(answer, "after", None) for answer in case.script]:
                    anyio.run(gate.wait_reached)
                clis = processes_with(home, "--output-format=stream-json")
                assert len(clis) == case.clis
                assert all(map(is_alive, clis))
            finally:
                stuck.cancel()
                program.kill()
        try:
            anyio.run(until, lambda: not processes_with(home))
        finally:
            kill(*processes_with(home))
            gate.open()


async def until(is_so: Callable[[], bool]) -> None:
    """Wait until something is so. Raises TimeoutError."""
    with anyio.fail_after(PATIENCE):
        while not is_so():
            await anyio.sleep(0.05)
