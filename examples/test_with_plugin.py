"""Test an agent with pytest: a scripted model, a recorded one, and assertions about tool calls.

`pytest examples/test_with_plugin.py` runs it; the package provides the fixtures. `--cassette-mode=once`
records the real model. The recording next to this file contains the answers of a `ScriptedModel`, whose URL
`--cassette-upstream` named.
"""

import re
import subprocess
import sys

import pytest

from claude_agent_py import Client, ClientOptions, RunResult
from claude_agent_py.testing import MakeClient, MakeOptions, MakeScriptedModel, assert_agent, call, task, tool_use

pytestmark = pytest.mark.anyio


async def review(base: ClientOptions) -> "RunResult[None]":
    """The agent under test: it takes options from outside and adds its own."""
    options = base.replace(model="claude-sonnet-4-5", system_prompt="You review code.", permission_mode="dontAsk")
    async with Client(options) as client:
        return await client.query("Which files are here? Answer with a number.", until="idle")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_it_looks_before_it_answers(scripted_model: MakeScriptedModel, claude_options: MakeOptions) -> None:
    model = scripted_model([tool_use("Bash", {"command": "ls"}), "None."], on_exhausted="fail")
    result = await review(claude_options(allowed_tools=["Bash(ls)"]))
    assert_agent(result).called_only(call("Bash", {"command": "ls"}, status="succeeded")).said("None.")
    assert "You review code." in model.requests[0].system


async def test_a_subagent_reports(scripted_model: MakeScriptedModel, claude_client: MakeClient) -> None:
    look = {"description": "Look", "prompt": "Look at the tests", "subagent_type": "general-purpose"}
    scripted_model([tool_use("Agent", look), "It is looking.", "They pass."], agents={"Look at": "All 12 pass."})
    async with claude_client() as client:
        result = await client.query("How are the tests?", until="idle")
    assert_agent(result).ran_only(task("Look", by="main", status="completed", summary=re.compile("12")))


@pytest.mark.cassette
async def test_the_recorded_model_counts(claude_options: MakeOptions) -> None:
    result = await review(claude_options(allowed_tools=["Bash(ls:*)"]))
    assert_agent(result).called("Bash").said(re.compile(r"\b0\b"))


if __name__ == "__main__":
    sys.exit(subprocess.call([sys.executable, "-m", "pytest", __file__, "-q", "-p", "no:cacheprovider"]))
