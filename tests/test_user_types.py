"""What a type checker lets users write: their programs pass mypy strict and pyright, without plugins."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

OPTIONS = """
from claude_agent_py import AgentDefinition, ClientOptions

reviewer = AgentDefinition(description="d", prompt="p")
definitions = {"a": reviewer}
dicts = {"b": {"description": "d", "prompt": "p", "tools": ["Read"]}}
ClientOptions(
    agents={"a": {"description": "d", "prompt": "p"}, "b": reviewer},
    system_prompt={"type": "preset", "append": "x"},
    thinking={"type": "enabled", "budget_tokens": 5},
    plugins=["a", {"type": "local", "path": "b"}],
    tools={"type": "preset", "preset": "claude_code"},
)
ClientOptions(agents=definitions, system_prompt=["a", "b"], thinking="adaptive", tools=["Read"])

env = {"A": "b"}
unset = {"A": None}
flags = {"some-flag": "1"}
aliases = {"Bash": "mcp__tools__shell"}
names = ["Read"]
servers = {"a": {"command": "x", "args": ["y"]}}
settings = {"env": {"A": "b"}}
shape = {"type": "json_schema", "schema": {"type": "object"}}
thinking = {"type": "enabled", "budget_tokens": 5}
options = ClientOptions(
    env=env, extra_args=flags, agents=dicts, tools=names, allowed_tools=names, mcp_servers=servers, settings=settings,
    output_format=shape, plugins=names, tool_aliases=aliases, betas=names, thinking=thinking, skills=names,
    additional_directories=names, fallback_model=names,
)
env["A"] = "changed"
assert options.env == {"A": "b"}
ClientOptions(env=unset, extra_args=unset)
"""

SCRIPTS = """
from claude_agent_py.testing import (
    Answer, Failure, FakeCLI, RecordedRequest, Reply, Script, ScriptedModel, frames, steps, text, thinking, tool_use,
)

blocks = [thinking("hm"), "yes"]
script = [tool_use("Bash", {"command": "ls"}), "There are no files.", Reply(blocks), Failure(429)]
agents = {"auth": "fine", "billing": [tool_use("Bash", {"command": "ls"}), "fine"], "docs": ["fine"]}
sessions = {"hi": "fine"}
ScriptedModel(script, agents=agents, sessions=sessions)
ScriptedModel("hi", agents={lambda request: request.agent_type == "Explore": "looked"})


def by_request(request: RecordedRequest) -> Answer:
    return Reply(text(request.prompt))


def test_script() -> Script:
    return ["a", tool_use("Bash"), [text("b"), "c"]]


checked: Script = ["a", Failure(500)]
wrong: Script = ["a", 5]  # type: ignore[list-item]
ScriptedModel(by_request, agents={"x": by_request})
ScriptedModel(checked, side=test_script())

played = [steps.turn("hello"), frames.assistant("one mom"), b"x"]
answers = {"set_model": {"error": "no"}, "get_plan": {"response": {"a": 1}}, "interrupt": None}
FakeCLI(played, answers=answers, initialize={"pid": 1})
FakeCLI(steps.turn("hello"), played, b"x")
"""

SIGNATURES = """
from claude_agent_py import AssistantMessage, Client, MalformedFrame, Message, query
from claude_agent_py.hooks import HookRun
from claude_agent_py.messages import HandlerFailed, RunMessage, SessionMessage
from claude_agent_py.wire import Frame, decode
from claude_agent_py.messages import ContentBlock


def show_run(message: RunMessage) -> None: ...


def show_session(message: SessionMessage) -> None: ...


def show_frame(frame: Frame) -> None: ...


def show_message(message: Message) -> None: ...


def show_block(block: ContentBlock) -> None: ...


async def main(client: Client) -> None:
    run = client.query("hi")
    async for message in run:
        show_run(message)
        if not isinstance(message, MalformedFrame):
            show_message(message)
    async for message in query("hi"):
        show_run(message)
    seen: list[RunMessage] = list((await run).messages)
    async for heard in client.messages():
        show_session(heard)
        if isinstance(heard, AssistantMessage):
            for block in heard.content:
                show_block(block)
        if not isinstance(heard, HandlerFailed | HookRun):
            show_run(heard)
    show_frame(decode(b"{}"))
"""

PROGRAMS = {"options": OPTIONS, "scripts": SCRIPTS, "signatures": SIGNATURES}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("programs")
    for name, program in PROGRAMS.items():
        (folder / f"{name}.py").write_text(program)
    return folder


def test_mypy_takes_them(folder: Path) -> None:
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={folder}", "."]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout


def test_pyright_takes_them(folder: Path) -> None:
    pytest.importorskip("pyright")
    (folder / "pyrightconfig.json").write_text(json.dumps({"typeCheckingMode": "standard"}))
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", PROGRAMS)
def test_they_run(name: str) -> None:
    exec(compile(PROGRAMS[name], f"{name}.py", "exec"), {})
