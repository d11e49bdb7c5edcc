"""`create_sdk_mcp_server` and `ToolAnnotations` of the official SDK, which need the package `mcp`, version 1 or 2."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from claude_agent_py.compat.option_types import McpSdkServerConfig
from claude_agent_py.compat.tools import SdkMcpTool, build_schema, convert_content
from claude_agent_py.wire import JSONObject

try:
    import jsonschema  # type: ignore[import-untyped, unused-ignore]
    import mcp.types
    from mcp.server import Server
except ImportError as _missing:
    raise ImportError("tools in this process need the package mcp: pip install mcp", name=_missing.name) from _missing

_Server: Any = Server  # its arguments depend on the version

_HINTS: Final[Mapping[str, str]] = {
    "read_only_hint": "readOnlyHint",
    "destructive_hint": "destructiveHint",
    "idempotent_hint": "idempotentHint",
    "open_world_hint": "openWorldHint",
    "max_result_size_chars": "maxResultSizeChars",
}


class ToolAnnotations(mcp.types.ToolAnnotations, extra="allow"):
    """Hints about a tool, in camelCase or snake_case."""

    maxResultSizeChars: int | None = None  # noqa: N815 - the name of the wire
    """How many characters of a result the CLI shows the model, instead of storing it in a file."""

    def __init__(self, **hints: Any) -> None:
        camel = {_HINTS[name]: value for name, value in hints.items() if name in _HINTS}
        super().__init__(**{**camel, **{name: value for name, value in hints.items() if name not in _HINTS}})


def create_sdk_mcp_server(
    name: str, version: str = "1.0.0", tools: list[SdkMcpTool[Any]] | None = None
) -> McpSdkServerConfig:
    """Return the value for `mcp_servers` of a server in this process. Its `instance` is an `mcp.server.Server`.

    Each error of a call is a result that the model reads.
    """
    return {"type": "sdk", "name": name, "instance": _build_server(name, version, tools or [])}


def _build_server(name: str, version: str, tools: Sequence[SdkMcpTool[Any]]) -> Any:
    by_name = {each.name: each for each in tools}
    schemas = {each.name: build_schema(each.input_schema) for each in tools}
    listed = [_definition(each, schemas[each.name]) for each in tools]

    async def call(tool_name: str, arguments: JSONObject) -> mcp.types.CallToolResult:
        if tool_name not in by_name:
            return _failure(f"Tool '{tool_name}' not found")
        try:
            jsonschema.validate(arguments, schemas[tool_name])
            result = await by_name[tool_name].handler(arguments)
            fields = {"content": convert_content(result.get("content", [])), "isError": result.get("is_error", False)}
            return mcp.types.CallToolResult.model_validate(fields)
        except jsonschema.ValidationError as error:
            return _failure(f"Input validation error: {error.message}")
        except Exception as error:
            return _failure(str(error))

    if hasattr(mcp.types, "jsonrpc_message_adapter"):  # version 2

        async def on_list_tools(context: object, params: object) -> mcp.types.ListToolsResult:
            return mcp.types.ListToolsResult(tools=listed)

        async def on_call_tool(context: Any, params: Any) -> mcp.types.CallToolResult:
            return await call(params.name, params.arguments or {})

        return _Server(name, version=version, on_list_tools=on_list_tools, on_call_tool=on_call_tool)

    async def list_tools() -> list[mcp.types.Tool]:
        return listed

    server = _Server(name, version=version)
    server.list_tools()(list_tools)
    server.call_tool(validate_input=False)(call)
    return server


def _definition(given: SdkMcpTool[Any], schema: JSONObject) -> mcp.types.Tool:
    size = getattr(given.annotations, "maxResultSizeChars", None)
    return mcp.types.Tool.model_validate(
        {
            "name": given.name,
            "description": given.description,
            "inputSchema": schema,
            "annotations": given.annotations,
            "_meta": None if size is None else {"anthropic/maxResultSizeChars": size},
        }
    )


def _failure(text: str) -> mcp.types.CallToolResult:
    fields = {"content": [{"type": "text", "text": text}], "isError": True}
    return mcp.types.CallToolResult.model_validate(fields)
