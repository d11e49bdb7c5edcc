"""Tools that come with a prompt. A call is a question at the desk, which whoever sent the prompt answers.

So a call outlives its process like any question: the model of the next one repeats it, and gets the answer.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from claude_agent_py._base.json_object import JSONMapping, JSONObject
from claude_agent_py.errors import OptionsError, ToolError
from claude_agent_py.options import ClientOptions
from claude_agent_py.permissions import QuestionRecord
from claude_agent_py.tools import Tool, ToolServer, current_tool, mcp_server_name

PROMPT_TOOLS: Final = "frontend"
"""The name of their server: the model sees `mcp__frontend__<tool>`."""


@dataclass(frozen=True)
class CallResult:
    """The form that answers a call."""

    result: str
    is_error: bool = False


def check_tools(tools: Sequence[JSONMapping]) -> None:
    """Raise OptionsError if a tool is not valid."""
    _make_server(tools)


def add_tools(options: ClientOptions, tools: Sequence[JSONMapping]) -> ClientOptions:
    """Return options with these tools. They need no permission: whoever answers decides what a call does.

    Raises:
        OptionsError: There is a server of their name, or `mcp_servers` is a file.
    """
    if not tools:
        return options
    servers = options.mcp_servers
    if not isinstance(servers, Mapping) or PROMPT_TOOLS in servers:
        problem = f"must be a mapping without {PROMPT_TOOLS!r}, the server of the tools of prompts"
        raise OptionsError(problem, option="mcp_servers")
    allowed = [*options.allowed_tools, mcp_server_name(PROMPT_TOOLS)]
    return options.replace(mcp_servers={**servers, PROMPT_TOOLS: _make_server(tools)}, allowed_tools=allowed)


def find_unrun_call(question: QuestionRecord) -> str | None:
    """Return the call that has done nothing but wait for the answer to a question; None if there is none."""
    if question.request.get("mcp_server_name") == PROMPT_TOOLS:
        return (question.request.get("call") or {}).get("id")
    return question.tool_use_id  # another tool that asks may have run in part


def _make_server(tools: Sequence[JSONMapping]) -> ToolServer:
    return ToolServer(PROMPT_TOOLS, [_make_tool(each) for each in tools], always_load=True)


def _make_tool(given: JSONMapping) -> Tool[..., Any]:
    name, schema = given.get("name"), given.get("inputSchema")
    if not isinstance(name, str) or not isinstance(schema, Mapping):
        raise OptionsError("must have a `name` and an `inputSchema`, as MCP defines tools", option="tools")
    # Read-only tools are called at the same time.
    return Tool.from_schema(name, str(given.get("description", "")), schema, partial(_ask, name), read_only=True)


async def _ask(name: str, arguments: JSONObject) -> str:
    """Ask for the result of a call."""
    context = current_tool()
    if context is None or context.agent_id is not None:
        raise ToolError(f"{name} is for the main agent only")
    # Whoever repeats the call asks the same.
    question = f"{name} {json.dumps(arguments, ensure_ascii=False, sort_keys=True)}"
    found = await context.elicit(question, CallResult)
    if found is None:
        raise ToolError(f"nobody has answered {name}")
    if found.is_error:
        raise ToolError(found.result)
    return found.result
