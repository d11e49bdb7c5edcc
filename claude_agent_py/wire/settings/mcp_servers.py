"""Configuration of MCP servers, and its conversion between Python (seconds) and the wire (milliseconds)."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import Field

from claude_agent_py._base.configuration import ConfigModel, inner_text, suggest
from claude_agent_py._base.errors import OptionsError
from claude_agent_py._base.json_object import JSONMapping
from claude_agent_py.wire.base import JSONObject

MILLISECONDS: Final = 1000
ToolTimeout: TypeAlias = Annotated[float, Field(ge=1.0)]
"""Seconds, at least 1. The CLI ignores shorter timeouts and uses its default."""


class MCPToolPolicy(ConfigModel):
    """The permission policy for one tool of an MCP server."""

    name: str
    """The tool's name without the prefix `mcp__server__`."""
    permission_policy: Literal["always_allow", "always_ask", "always_deny"] | None = None
    """`always_allow` has no effect for an in-process server; use `allowed_tools` instead."""
    org_max_permission: Literal["allow", "ask", "blocked"] | None = None
    """The highest permission that the organization allows."""


class _Server(ConfigModel):
    TYPE: ClassVar[str]

    timeout: ToolTimeout | None = None
    """Time limit for a tool call in seconds. None uses `MCP_TOOL_TIMEOUT` or the CLI's default."""
    always_load: bool | None = None
    """If True, the model sees all of the server's tools from the start, and startup waits up to 5 s for the server.
    If False, the model has to search for them. None uses the CLI's default."""

    def to_wire(self) -> JSONObject:
        """Return the configuration as the CLI expects it."""
        fields = self.model_dump(mode="json", exclude_none=True, exclude={"timeout", "always_load"})
        entry: JSONObject = {"type": self.TYPE} | {name: value for name, value in fields.items() if value}
        if self.timeout is not None:
            entry["timeout"] = round(self.timeout * MILLISECONDS)
        if self.always_load is not None:
            entry["alwaysLoad"] = self.always_load
        return entry

    def __repr_args__(self) -> Any:
        for name, value in self._iter_set_fields():
            yield name, _SHOWN[name](value) if name in _SHOWN else value


def _origin(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return "?"
    return f"{parts.scheme}://{parts.hostname or ''}"


_SHOWN: Final[Mapping[str, Callable[..., object]]] = {
    "args": lambda args: f"<{len(args)}>",
    "env": sorted,
    "headers": sorted,
    "url": _origin,
}
"""Shortens fields that may hold secrets, for reprs."""


class MCPStdioServer(_Server):
    """An MCP server that the CLI starts as a subprocess."""

    TYPE: ClassVar[str] = "stdio"

    command: str = Field(min_length=1, kw_only=False)
    args: list[str] = Field(default_factory=list, kw_only=False)
    env: dict[str, str] = Field(default_factory=dict, kw_only=False)
    """Environment variables, in addition to those the CLI passes to its servers."""


class _RemoteServer(_Server):
    url: str = Field(min_length=1, kw_only=False)
    headers: dict[str, str] = Field(default_factory=dict, kw_only=False)
    tools: list[MCPToolPolicy] = Field(default_factory=list)
    """Permission policies for individual tools."""


class MCPHTTPServer(_RemoteServer):
    """An MCP server that the CLI reaches over streamable HTTP."""

    TYPE: ClassVar[str] = "http"


class MCPSSEServer(_RemoteServer):
    """An MCP server that the CLI reaches over HTTP with server-sent events, the older transport."""

    TYPE: ClassVar[str] = "sse"


MCPServerConfig: TypeAlias = MCPStdioServer | MCPHTTPServer | MCPSSEServer

KINDS: Final[Mapping[str, type[MCPServerConfig]]] = {
    "stdio": MCPStdioServer,
    "http": MCPHTTPServer,
    "streamable-http": MCPHTTPServer,
    "sse": MCPSSEServer,
}


def mcp_server_from_wire(config: JSONMapping, *, name: str = "") -> MCPServerConfig:
    """Create a server from its JSON configuration (`.mcp.json`, the official SDKs), with `timeout` in milliseconds.

    Raises:
        OptionsError: The configuration is invalid. The message names the server and the field.
    """
    kind = config.get("type", "stdio")
    if kind not in KINDS:
        raise _invalid(name, f"unknown type {kind!r}; use one of {', '.join(KINDS)}{suggest(str(kind), KINDS)}")
    fields = {"always_load" if field == "alwaysLoad" else field: value for field, value in config.items()}
    fields.pop("type", None)
    if isinstance(fields.get("timeout"), int | float):
        fields["timeout"] /= MILLISECONDS
    try:
        return KINDS[kind](**fields)
    except OptionsError as error:
        problem = _invalid(name, inner_text(error))
    raise problem


def _invalid(name: str, what: str) -> OptionsError:
    return OptionsError(f"server {name!r}: {what}" if name else what, option="mcp_servers")
