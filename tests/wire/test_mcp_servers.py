"""MCP servers: seconds here, milliseconds there, and no secret in a repr."""

from typing import Any, TypeAlias

import pytest

from claude_agent_py import ClientOptions, MCPHTTPServer, MCPStdioServer
from claude_agent_py.errors import OptionsError
from claude_agent_py.options import MCPSSEServer, MCPToolPolicy

Server: TypeAlias = MCPStdioServer | MCPHTTPServer | MCPSSEServer

PAIRS: list[tuple[Server, dict[str, Any]]] = [
    (MCPStdioServer(command="npx"), {"type": "stdio", "command": "npx"}),
    (
        MCPStdioServer(command="npx", args=["-y", "x"], env={"K": "v"}, timeout=1.5, always_load=False),
        {
            "type": "stdio",
            "command": "npx",
            "args": ["-y", "x"],
            "env": {"K": "v"},
            "timeout": 1500,
            "alwaysLoad": False,
        },
    ),
    (
        MCPHTTPServer(url="https://x", headers={"A": "b"}, always_load=True),
        {"type": "http", "url": "https://x", "headers": {"A": "b"}, "alwaysLoad": True},
    ),
    (
        MCPSSEServer(url="https://x", tools=[MCPToolPolicy(name="t", permission_policy="always_ask")]),
        {"type": "sse", "url": "https://x", "tools": [{"name": "t", "permission_policy": "always_ask"}]},
    ),
]


def read_server(wire: dict[str, Any]) -> Any:
    """Return the server that options take from JSON."""
    servers: Any = ClientOptions(mcp_servers={"s": wire}).mcp_servers
    return servers["s"]


@pytest.mark.parametrize(("server", "wire"), PAIRS)
def test_a_server_is_encoded_and_read_back(server: Server, wire: dict[str, Any]) -> None:
    assert server.to_wire() == wire
    assert read_server(wire) == server


def test_a_server_without_a_type_is_a_program() -> None:
    assert read_server({"command": "x"}) == MCPStdioServer(command="x")
    assert read_server({"type": "streamable-http", "url": "u"}) == MCPHTTPServer(url="u")


@pytest.mark.parametrize(
    ("wire", "says"),
    [
        ({"comand": "x"}, "server 's': command is missing (also: comand is unknown; did you mean 'command'?)"),
        ({"command": ""}, "server 's': command String should have at least 1 character"),
        (
            {"type": "htp", "url": "x"},
            "server 's': unknown type 'htp'; use one of stdio, http, streamable-http, sse",
        ),
        ({"type": "http"}, "server 's': url is missing"),
        ({"command": "x", "timeout": 999}, "server 's': timeout must be greater than or equal to 1"),
        ({"command": "x", "timeout": "soon"}, "server 's': timeout must be a valid number"),
        ({"command": "x", "always_load": "x"}, "server 's': always_load must be a valid boolean"),
    ],
)
def test_a_wrong_server_is_refused_by_name(wire: dict[str, Any], says: str) -> None:
    with pytest.raises(OptionsError) as caught:
        read_server(wire)
    assert str(caught.value).startswith(f"mcp_servers: {says}")
    assert caught.value.option == "mcp_servers"


def test_a_server_takes_its_program_or_address_by_position() -> None:
    stdio: Any = MCPStdioServer
    http: Any = MCPHTTPServer

    assert stdio("npx", ["-y"], {"K": "v"}, timeout=2) == MCPStdioServer(
        command="npx", args=["-y"], env={"K": "v"}, timeout=2
    )
    assert http("https://x", {"A": "b"}) == MCPHTTPServer(url="https://x", headers={"A": "b"})
    with pytest.raises(OptionsError, match="MCPStdioServer: takes 3 positional arguments, not 4"):
        stdio("npx", [], {}, 2.0)
    with pytest.raises(OptionsError, match=r"MCPStdioServer\.command: is given twice"):
        stdio("npx", command="npx")


@pytest.mark.parametrize(
    "server",
    [
        MCPStdioServer(command="npx", args=["--token=SECRET"], env={"K": "SECRET"}),
        MCPHTTPServer(url="https://user:SECRET@host/SECRET?key=SECRET", headers={"Authorization": "SECRET"}),
        MCPHTTPServer(url="https://[SECRET"),
    ],
)
def test_a_repr_shows_no_secrets(server: Server) -> None:
    assert "SECRET" not in repr(server)
    assert "SECRET" not in str(server)
