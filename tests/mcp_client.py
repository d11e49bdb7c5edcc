"""The CLI's side of a conversation with an MCP server in this process."""

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

import anyio
import pytest
from asking_cli import AskingCLI

from claude_agent_py import Client, ClientOptions

ACK = {"jsonrpc": "2.0", "result": {}}
"""The answer to a message that needs none."""


class ServerClient:
    """Talks to a server of a session, as the CLI does."""

    def __init__(self, cli: AskingCLI, name: str) -> None:
        self.cli = cli
        self.name = name
        self._ids = itertools.count()

    @property
    def heard(self) -> list[dict[str, Any]]:
        """The messages of the server."""
        sent = self.cli.requests("mcp_message")
        return [request["message"] for request in sent if request["server_name"] == self.name]

    def start(self, method: str, params: Any) -> str:
        """Send a request, and return the id of the frame that has it."""
        return self._start({"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": params})

    def _start(self, message: dict[str, Any]) -> str:
        return self.cli.start_asking({"subtype": "mcp_message", "server_name": self.name, "message": message})

    async def send(self, message: dict[str, Any]) -> dict[str, Any]:
        """Send any message and return the answer."""
        answer: dict[str, Any] = (await self.cli.reply_to(self._start(message)))["mcp_response"]
        return answer

    async def ask(self, method: str, params: Any = None) -> dict[str, Any]:
        """Send a request and return its whole answer."""
        message = {"jsonrpc": "2.0", "id": next(self._ids), "method": method}
        reply = await self.send(message if params is None else {**message, "params": params})
        assert (reply["jsonrpc"], reply["id"]) == ("2.0", message["id"])
        return reply

    async def call(self, name: str, arguments: Any = None, **meta: Any) -> dict[str, Any]:
        """Call a tool and return the result."""
        reply = await self.ask("tools/call", {"name": name, "arguments": arguments or {}, "_meta": meta})
        result: dict[str, Any] = reply["result"]
        return result

    async def tell(self, method: str, params: Any = None) -> None:
        """Send a notification."""
        message = {"jsonrpc": "2.0", "method": method}
        assert await self.send(message if params is None else {**message, "params": params}) == ACK

    async def shake_hands(self) -> dict[str, Any]:
        """Begin a session as the CLI does, and return what the server says."""
        info = {"name": "claude-code", "version": "2"}
        reply = await self.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info})
        await self.tell("notifications/initialized")
        result: dict[str, Any] = reply["result"]
        return result


Connect: TypeAlias = Callable[..., Awaitable[ServerClient]]
"""Opens a session with a server, and returns the CLI's side of it: `await connect(server, **options)`."""


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    """Return a function that opens sessions, which end with the test."""
    made: list[Client] = []

    async def open_session(server: Any, name: str = "", **options: Any) -> ServerClient:
        cli, name = AskingCLI(), name or server.name
        cli.client = Client(ClientOptions(mcp_servers={name: server}, **options), transport=cli)
        made.append(cli.client)
        await cli.client.connect()
        return ServerClient(cli, name)

    yield open_session
    with anyio.fail_after(60):
        for client in made:
            await client.close()


def text_of(result: dict[str, Any]) -> str:
    """Return the first text of a result."""
    text: str = result["content"][0]["text"]
    return text
