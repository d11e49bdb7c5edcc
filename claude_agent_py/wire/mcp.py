"""MCP servers as users configure them and as the CLI wants them told.

Owns the three kinds of server that the CLI runs or connects to, the entry for a server that runs in our process, and
the translation between Python (snake_case, seconds) and the wire (camelCase, milliseconds), both ways. Status and tools
of a connected server are in `catalog`; the JSON-RPC of in-process servers is in `tools/`.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import Field

from claude_agent_py.configuration import ConfigModel, inner_text, suggest
from claude_agent_py.errors import OptionsError
from claude_agent_py.wire.base import JSONObject

MILLISECONDS: Final = 1000
ToolTimeout: TypeAlias = Annotated[float, Field(ge=1.0)]
"""Seconds, at least one: the CLI ignores less and uses its own limit."""


class MCPToolPolicy(ConfigModel):
    """Who decides on the calls of one tool of a server."""

    name: str
    """The tool's own name, without `mcp__server__`."""
    permission_policy: Literal["always_allow", "always_ask", "always_deny"] | None = None
    """For an in-process server, `always_allow` does nothing: use `allowed_tools`."""
    org_max_permission: Literal["allow", "ask", "blocked"] | None = None
    """The most that an organisation allows."""


class _Server(ConfigModel):
    TYPE: ClassVar[str]

    timeout: ToolTimeout | None = None
    """How long one tool call may take, in seconds. None is `MCP_TOOL_TIMEOUT`, or the CLI's own limit."""
    always_load: bool | None = None
    """True: the model sees every tool of the server from the start, and start-up waits for the server, at most 5 s.
    False: it has to search for them. None leaves it to the CLI."""

    def to_wire(self) -> JSONObject:
        """Give the JSON object that the CLI takes."""
        fields = self.model_dump(mode="json", exclude_none=True, exclude={"timeout", "always_load"})
        entry: JSONObject = {"type": self.TYPE} | {name: value for name, value in fields.items() if value}
        if self.timeout is not None:
            entry["timeout"] = round(self.timeout * MILLISECONDS)
        if self.always_load is not None:
            entry["alwaysLoad"] = self.always_load
        return entry


class MCPStdioServer(_Server):
    """An MCP server that the CLI starts as a program."""

    TYPE: ClassVar[str] = "stdio"

    command: Annotated[str, Field(min_length=1)]
    args: list[str] = Field(default_factory=list)
    env: dict[str, str] = Field(default_factory=dict)
    """Added to the environment that the CLI gives its servers."""

    def __repr_args__(self) -> Any:
        for name, value in self._given():
            yield name, f"<{len(value)}>" if name == "args" else sorted(value) if name == "env" else value


class _RemoteServer(_Server):
    url: Annotated[str, Field(min_length=1)]
    headers: dict[str, str] = Field(default_factory=dict)
    tools: list[MCPToolPolicy] = Field(default_factory=list)
    """Policies of single tools."""

    def __repr_args__(self) -> Any:
        for name, value in self._given():
            yield name, _origin(value) if name == "url" else sorted(value) if name == "headers" else value


def _origin(url: str) -> str:
    """Return what of an address holds no secret."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "?"
    return f"{parts.scheme}://{parts.hostname or ''}"


class MCPHTTPServer(_RemoteServer):
    """An MCP server that the CLI reaches over streamable HTTP."""

    TYPE: ClassVar[str] = "http"


class MCPSSEServer(_RemoteServer):
    """An MCP server that the CLI reaches over HTTP with server-sent events, the older way."""

    TYPE: ClassVar[str] = "sse"


class MCPSDKServer(ConfigModel):
    """What the CLI is told of a server that runs in our process. Made by whoever hosts it."""

    timeout: ToolTimeout | None = None
    """How long one tool call may take, in seconds."""
    tools: list[MCPToolPolicy] = Field(default_factory=list)
    """Policies of single tools; only `always_ask` and `always_deny` do anything."""
    manifest: JSONObject | None = None
    """`{initializeResult, toolsListResult}`: the handshake made in advance, which saves its round trips."""

    def to_wire(self) -> JSONObject:
        """Give the entry of `sdkMcpServerConfigs`."""
        entry: JSONObject = {}
        if self.timeout is not None:
            entry["timeout"] = round(self.timeout * MILLISECONDS)
        if self.tools:
            entry["tools"] = [policy.model_dump(mode="json", exclude_none=True) for policy in self.tools]
        return entry


MCPServerConfig: TypeAlias = MCPStdioServer | MCPHTTPServer | MCPSSEServer

KINDS: Final[Mapping[str, type[MCPServerConfig]]] = {
    "stdio": MCPStdioServer,
    "http": MCPHTTPServer,
    "streamable-http": MCPHTTPServer,
    "sse": MCPSSEServer,
}

_FROM_WIRE: Final[Mapping[str, tuple[str, Callable[[Any], Any]]]] = {
    "alwaysLoad": ("always_load", lambda value: value),
    "timeout": ("timeout", lambda value: value / MILLISECONDS if isinstance(value, int | float) else value),
}


def mcp_server_from_wire(config: Mapping[str, Any], *, name: str = "") -> MCPServerConfig:
    """Read a server as JSON files have it (`.mcp.json`, the official SDKs): camelCase, `timeout` in milliseconds.

    Raises:
        OptionsError: It is no such thing; the text names the server and the field.
    """
    kind = config.get("type", "stdio")
    if kind not in KINDS:
        raise _wrong(name, f"type {kind!r} is unknown; use one of {', '.join(KINDS)}{suggest(str(kind), KINDS)}")
    fields = dict(config)
    fields.pop("type", None)
    for wire_name, (field, convert) in _FROM_WIRE.items():
        if wire_name in fields:
            fields[field] = convert(fields.pop(wire_name))
    try:
        return KINDS[kind](**fields)
    except OptionsError as error:
        problem = _wrong(name, inner_text(error))
    raise problem


def _wrong(name: str, what: str) -> OptionsError:
    return OptionsError(f"server {name!r}: {what}" if name else what, option="mcp_servers")
