"""The client of the examples, on `@ag-ui/client` from npm, against a real server."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from serving import TOKEN, served

from claude_agent_py import AgentDefinition
from claude_agent_py.serve import Sessions, make_agui_app
from claude_agent_py.testing import Gate, Reply, ScriptedModel, tool_use

ROOT = Path(__file__).parent.parent.parent
CLIENT = "@ag-ui/client@1.0.0"
TEXT = "A long text. " * 20 + "the end."


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the client, the example and the program of this test."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed")
    folder = tmp_path_factory.mktemp("npm")
    (folder / "package.json").write_text("{}")
    command = [npm, "install", "--ignore-scripts", "--no-audit", "--no-fund", CLIENT]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240)
    if done.returncode:
        pytest.skip(f"npm cannot install {CLIENT}: {done.stderr[-300:]}")
    shutil.copy(ROOT / "examples" / "thread_agent.mjs", folder)
    shutil.copy(Path(__file__).parent / "npm_client.mjs", folder)
    return folder


def test_the_example_is_short() -> None:
    assert len((ROOT / "examples" / "thread_agent.mjs").read_text().splitlines()) <= 60


@pytest.mark.long
@pytest.mark.real_cli
def test_a_page_has_follow_ups_lost_answers_and_its_own_tools(folder: Path) -> None:
    ends = Gate()
    watch = {"description": "Look", "prompt": "watch", "subagent_type": "worker", "run_in_background": True}
    script = [
        Reply([tool_use("Agent", watch)]),
        Reply("Begun."),
        Reply("It has ended."),
        Reply(TEXT, chunk_chars=10, chunk_delay=0.02),
        Reply([tool_use("mcp__frontend__pickColor", {})]),
        Reply("Blue it is."),
    ]
    worker = AgentDefinition(description="Works", prompt="You work.")
    with ScriptedModel(script, agents={"watch": [Reply("I watched.", after=ends)]}) as model:
        sessions = Sessions(model.options(agents={"worker": worker}), frontend_tools=True)
        with served(sessions, make_agui_app) as url:
            program = ["node", str(folder / "npm_client.mjs"), f"{url}/", TOKEN]
            with subprocess.Popen(program, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as page:
                try:
                    check(read(page), ends)
                    assert page.wait(60) == 0
                finally:
                    page.kill()


def check(told: Iterator[object], ends: Gate) -> None:
    assert next(told) == ["Go", "Begun."]
    ends.open()
    so_far = ["Go", "Begun.", "It has ended."]
    assert next(told) == so_far
    so_far += ["Write", TEXT]
    assert next(told) == so_far
    assert next(told) == ["pickColor", "Blue it is."]
    assert next(told) == [*so_far, "Ask", "Blue it is."]
    assert next(told) == ["terminated"]


def read(page: "subprocess.Popen[bytes]") -> Iterator[object]:
    """Yield what the page prints."""
    assert page.stdout is not None
    assert page.stderr is not None
    for line in page.stdout:
        yield json.loads(line)
    raise AssertionError(page.stderr.read().decode())
