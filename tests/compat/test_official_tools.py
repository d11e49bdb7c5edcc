"""Tools in this process with the names of the official SDK, compared with the installed one."""

import logging
from typing import Any

import pytest
from later import Later
from mcp_client import Connect, connect as connect

import claude_agent_py.compat as compat

official: Any = Later("claude_agent_sdk")

pytestmark = pytest.mark.anyio

CONTENT: list[dict[str, Any]] = [
    {"type": "text", "text": "read"},
    {"type": "image", "data": "aGk=", "mimeType": "image/png"},
    {"type": "resource", "resource": {"uri": "file:///a", "text": "of a resource"}},
    {"type": "resource_link", "name": "a", "uri": "file:///a", "description": "A file."},
    {"type": "resource_link"},
    {"type": "resource", "resource": {"uri": "file:///b", "blob": "aGk="}},
    {"type": "hologram"},
]
CALLS: dict[str, dict[str, Any]] = {
    "every kind of content": {"name": "show", "arguments": {"count": len(CONTENT)}},
    "nothing": {"name": "show", "arguments": {"count": 0}},
    "an error": {"name": "fail", "arguments": {}},
    "wrong arguments": {"name": "show", "arguments": {"count": "many"}},
    "a tool that there is not": {"name": "hide", "arguments": {}},
}


def make_server(sdk: Any) -> Any:
    """Return a server of two tools."""

    async def show(args: dict[str, Any]) -> dict[str, Any]:
        return {"content": CONTENT[: args["count"]]}

    async def fail(args: dict[str, Any]) -> dict[str, Any]:
        return {"content": CONTENT[:1], "is_error": True}

    hints = sdk.ToolAnnotations(readOnlyHint=True)
    tools = [sdk.tool("show", "Show it", {"count": int}, annotations=hints)(show), sdk.tool("fail", "Fail", {})(fail)]
    return sdk.create_sdk_mcp_server("shows", tools=tools)["instance"]


async def ask(connect: Connect, sdk: Any, method: str, params: dict[str, Any]) -> Any:
    """Return what a server answers, as the CLI gets it."""
    client = await connect(make_server(sdk), "shows")
    await client.shake_hands()
    return (await client.ask(method, params))["result"]


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_a_call_has_the_result_that_the_official_sdk_gives_it(
    call: dict[str, Any], connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    ours, theirs = [await ask(connect, sdk, "tools/call", call) for sdk in (compat, official)]
    assert ours == theirs


async def test_tools_are_listed_as_by_the_official_sdk(connect: Connect) -> None:
    ours, theirs = [await ask(connect, sdk, "tools/list", {}) for sdk in (compat, official)]
    assert ours["tools"] == theirs["tools"]


@pytest.mark.parametrize("hints", [{"read_only_hint": True}, {"readOnlyHint": True}, {"title": "t"}])
def test_hints_about_a_tool_have_either_spelling(hints: dict[str, Any]) -> None:
    made = [sdk.ToolAnnotations(maxResultSizeChars=5, **hints) for sdk in (compat, official)]
    ours, theirs = [each.model_dump(by_alias=True, exclude_none=True) for each in made]
    assert ours == theirs
    assert ours["maxResultSizeChars"] == 5
