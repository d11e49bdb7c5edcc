"""Tools that whoever sends a prompt brings and runs. The model sees them as one server; a call waits for its result.

`run_turn` asks for results at its desk, so a call outlives its process like any question: the model of the next one
repeats it, and gets the answer.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

from claude_agent_py._base.json_object import JSONMapping, JSONObject
from claude_agent_py.errors import OptionsError, ToolError
from claude_agent_py.messages import ToolUseBlock
from claude_agent_py.options import ClientOptions
from claude_agent_py.permissions import ElicitationRequest, QuestionRecord
from claude_agent_py.tools import Tool, ToolContext, ToolServer, current_tool, mcp_server_name, mcp_tool_name

PROMPT_TOOLS: Final = "frontend"
"""The name of their server: the model sees `mcp__frontend__<tool>`."""
_FORM: Final[JSONObject] = {
    "type": "object",
    "properties": {"result": {"type": "string"}, "is_error": {"type": "boolean", "default": False}},
    "required": ["result"],
}
"""The form that answers a call: a `CallResult`."""


class CallResult(NamedTuple):
    """The result of a call."""

    result: str
    is_error: bool = False


FindResult: TypeAlias = Callable[[ToolContext, JSONObject], Awaitable[CallResult | None]]
"""Waits for the result of a call with these arguments; None if nobody answers."""


def check_tools(tools: Sequence[JSONMapping]) -> None:
    """Raise OptionsError if a tool is not valid."""
    _make_server(tools, _answer_nothing)


def add_tools(options: ClientOptions, tools: Sequence[JSONMapping], find_result: FindResult) -> ClientOptions:
    """Return options with these tools. Raises OptionsError if one is not valid, or the server cannot be added."""
    return add_prompt_server(options, _make_server(tools, find_result)) if tools else options


def add_prompt_server(options: ClientOptions, server: ToolServer) -> ClientOptions:
    """Return options with the server of such tools. They need no permission: who runs them decides what a call does.

    Raises:
        OptionsError: There is a server of their name, or `mcp_servers` is a file.
    """
    servers = options.mcp_servers
    if not isinstance(servers, Mapping) or PROMPT_TOOLS in servers:
        problem = f"must be a mapping, not a file, without {PROMPT_TOOLS!r}, the server of the tools of prompts"
        raise OptionsError(problem, option="mcp_servers")
    allowed = [*options.allowed_tools, mcp_server_name(PROMPT_TOOLS)]
    return options.replace(mcp_servers={**servers, PROMPT_TOOLS: server}, allowed_tools=allowed)


def make_prompt_tool(given: JSONMapping, find_result: FindResult) -> Tool[..., Any]:
    """Return a tool, which MCP defines as given."""
    name, schema = given.get("name"), given.get("inputSchema")
    if not isinstance(name, str) or not isinstance(schema, Mapping):
        raise OptionsError("must have a `name` and an `inputSchema`, as MCP defines tools", option="tools")
    call = partial(_call, name, find_result)
    # Read-only tools are called at the same time.
    return Tool.from_schema(name, str(given.get("description", "")), schema, call, read_only=True)


def record_call(context: ToolContext, arguments: JSONObject, session_id: str) -> QuestionRecord:
    """Return a call as a question. Whoever repeats the call asks the same."""
    name = mcp_tool_name(context.server_name, context.tool_name)
    request = ElicitationRequest(
        server_name=context.server_name,
        message=f"{context.tool_name} {json.dumps(arguments, ensure_ascii=False, sort_keys=True)}",
        requested_schema=_FORM,
        call=ToolUseBlock(id=context.tool_use_id or "", name=name, input=arguments),
    )
    return QuestionRecord.of("elicitation", request, session_id=session_id)


def find_unrun_call(question: QuestionRecord) -> str | None:
    """Return the call that has done nothing but wait for the answer to a question; None if there is none."""
    if question.request.get("mcp_server_name") == PROMPT_TOOLS:
        return (question.request.get("call") or {}).get("id")
    return question.tool_use_id  # another tool that asks may have run in part


def read_result(reply: JSONMapping) -> CallResult | None:
    """Return the result in the reply to the question of a call; None if it was declined."""
    if reply.get("action") != "accept":
        return None
    return CallResult(reply["content"]["result"], is_error=bool(reply["content"].get("is_error")))


def _make_server(tools: Sequence[JSONMapping], find_result: FindResult) -> ToolServer:
    return ToolServer(PROMPT_TOOLS, [make_prompt_tool(each, find_result) for each in tools], always_load=True)


async def _call(name: str, find_result: FindResult, arguments: JSONObject) -> str:
    context = current_tool()
    if context is None or context.tool_use_id is None or context.agent_id is not None:
        raise ToolError(f"{name} is for the main agent only")
    found = await find_result(context, arguments)
    if found is None:
        raise ToolError(f"nobody has answered {name}")
    if found.is_error:
        raise ToolError(found.result)
    return found.result


async def _answer_nothing(context: ToolContext, arguments: JSONObject) -> None:
    """Find no result: the tools are only checked."""
