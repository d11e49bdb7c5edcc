"""Replacing the output of a tool, and withholding it when that fails."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from asking_cli import asking

from claude_agent_py import HookMatcher
from claude_agent_py.errors import HandlerError
from claude_agent_py.hooks import PostToolUseOutput
from claude_agent_py.tools import BashOutput

pytestmark = pytest.mark.anyio

SHELL = {"stdout": "sk-secret", "stderr": "sk-secret", "interrupted": False, "isImage": False}
FILE: dict[str, Any] = {
    "type": "text",
    "file": {"filePath": "/f", "content": "sk-secret", "numLines": 1, "startLine": 1, "totalLines": 1},
}
WRITTEN: dict[str, Any] = {
    "type": "create",
    "filePath": "/f",
    "content": "sk-secret",
    "structuredPatch": [],
    "originalFile": None,
}
DEEP: Any = json.loads("[" * 190 + '"sk-secret"' + "]" * 190)
"""Deeper than pydantic serializes, and than a recursive function of Python gets."""
FOUND: dict[str, Any] = {"mode": "content", "numFiles": 0, "filenames": ["sk-secret"], "content": "sk-secret"}
MCP = [{"type": "text", "text": "sk-secret"}]


def raises(input: Any, context: Any) -> None:
    raise RuntimeError


def replaces(value: Any) -> Any:
    return lambda input, context: PostToolUseOutput(updated_tool_output=value)


async def answer(tool: str, response: Any, handler: Any, **how: Any) -> tuple[dict[str, Any], Sequence[HandlerError]]:
    """Return the hook's reply about an output, and what failed."""
    data = {"hook_event_name": "PostToolUse", "tool_name": tool, "tool_input": {}, "tool_response": response}
    async with asking(hooks={"PostToolUse": [HookMatcher(None, handler, **how)]}) as cli:
        [group] = cli.hooks["PostToolUse"]
        assert "onFailure" not in group
        reply = await cli.call_hook(data, group["hookCallbackIds"][0], "t1")
    return reply, cli.client.handler_errors


@pytest.mark.parametrize(
    ("tool", "response", "value", "sent"),
    [
        ("Bash", SHELL, "gone", {**SHELL, "stdout": "gone", "stderr": ""}),
        ("Bash", {**SHELL, "persistedOutputPath": "/p"}, "gone", {**SHELL, "stdout": "gone", "stderr": ""}),
        (
            "Bash",
            SHELL,
            BashOutput(stdout="x", stderr="", interrupted=False, is_image=False),
            {**SHELL, "stdout": "x", "stderr": ""},
        ),
        ("Read", FILE, "gone", {**FILE, "file": {**FILE["file"], "content": "gone"}}),
        ("mcp__s__t", MCP, "gone", "gone"),
        ("Odd", {"a": 1}, {"a": 2, "b": 3}, {"a": 2, "b": 3}),
        ("Odd", ["a"], ["gone"], ["gone"]),
    ],
)
async def test_a_replacement_is_sent_in_the_shape_of_the_tool(tool: str, response: Any, value: Any, sent: Any) -> None:
    reply, errors = await answer(tool, response, replaces(value))
    assert errors == []
    new = reply["hookSpecificOutput"]["updatedToolOutput"]
    assert new == sent


@pytest.mark.parametrize(
    ("tool", "response", "value"),
    [
        ("Bash", SHELL, {"stdout": "gone"}),
        ("Bash", SHELL, ["gone"]),
        ("Read", FILE, {"type": "text"}),
        ("Bash", {**SHELL, "rawOutputPath": "sk-secret"}, {**SHELL, "stdout": "", "stderr": "", "rawOutputPath": None}),
        ("Write", WRITTEN, "gone"),
        ("Write", WRITTEN, {"type": "create", "filePath": "/f", "content": "gone", "structuredPatch": []}),
        ("Grep", FOUND, {**FOUND, "content": "gone", "mode": "gone"}),
        ("mcp__s__t", MCP, {"text": "gone"}),
        ("Odd", {"a": "sk-secret"}, {"b": 3}),
        ("Odd", ["sk-secret"], {"b": 3}),
        ("Bash", "sk-secret", BashOutput(stdout="gone", stderr="", interrupted=False)),
    ],
)
async def test_a_replacement_that_the_cli_would_ignore_withholds_the_output(
    tool: str, response: Any, value: Any
) -> None:
    reply, [error] = await answer(tool, response, replaces(value))
    assert "must have the shape" in error.reason
    assert "Output withheld" in str(reply["hookSpecificOutput"])
    assert "sk-secret" not in str(reply)


@pytest.mark.parametrize(
    ("tool", "response", "ends_the_turn"),
    [
        ("Bash", SHELL, False),
        ("Read", FILE, False),
        ("Write", WRITTEN, False),
        ("Grep", FOUND, False),
        ("Grep", {**FOUND, "mode": "sk-secret"}, False),
        ("Odd", {"mode": "sk-secret", "status": "sk-secret"}, True),
        ("mcp__s__t", MCP, False),
        ("Odd", {"a": ["sk-secret"], "n": 1}, True),
        ("Odd", "sk-secret", False),
        ("Odd", DEEP, True),
    ],
)
async def test_a_redaction_that_fails_withholds_the_output(tool: str, response: Any, ends_the_turn: bool) -> None:
    reply, [error] = await answer(tool, response, raises, on_failure="block")
    assert "RuntimeError" in error.reason
    assert "Output withheld" in str(reply["hookSpecificOutput"])
    assert "sk-secret" not in str(reply)
    assert (reply.get("continue") is False) == ends_the_turn


async def test_a_hook_that_may_fail_leaves_the_output() -> None:
    assert (await answer("Bash", SHELL, raises))[0] == {}
    assert (await answer("Bash", SHELL, replaces({"stdout": ""}), on_failure="continue"))[0] == {}
