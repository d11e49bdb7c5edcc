"""Connect MCP servers in this process to the CLI, which wraps each of their messages in a control request.

The CLI sends every message, including notifications, as a control request that needs a reply. It performs the MCP
handshake **before** it answers `initialize`, so messages must be answered while `initialize` is pending.
"""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

from anyio.abc import TaskGroup

from claude_agent_py._callbacks import Report
from claude_agent_py._errors import OptionsError
from claude_agent_py._handler_context import HandlerContext
from claude_agent_py.tools import jsonrpc
from claude_agent_py.tools.failures import failure_text
from claude_agent_py.tools.mcp_package import PackageSession, low_level
from claude_agent_py.tools.server import ToolServer
from claude_agent_py.tools.session import ServerSession
from claude_agent_py.wire.base import JSONObject

logger: logging.Logger = logging.getLogger("claude_agent_py.tools")

ACK: JSONObject = {"jsonrpc": "2.0", "result": {}}
"""The reply to a message that needs no answer, such as a notification."""

SendToCLI: TypeAlias = Callable[[str, JSONObject], None]
"""Sends a server's message (server name, message) as an `mcp_message` control request. Called in the event loop's
thread; must not block and need not wait for the reply."""


def is_hosted(server: object) -> bool:
    """Return whether an object is a server that can run in this process. Does not import `mcp`."""
    return isinstance(server, ToolServer) or low_level(server) is not None


class MCPHost:
    """Answers the CLI for the in-process servers of one client.

    Args:
        servers: Servers by name.
        send: How servers reach the CLI.
        report: Called with each unexpected tool failure; must not raise. None logs them.
        cwd: The session's directory, for `ToolContext.cwd`.

    Raises:
        OptionsError: A server cannot run in this process.
    """

    def __init__(
        self, servers: Mapping[str, Any], send: SendToCLI, *, report: Report | None = None, cwd: str | None = None
    ) -> None:
        self._send = send
        self._report = report
        self._cwd = cwd
        self._servers: dict[str, Any] = {}
        self._sessions: dict[str, ServerSession | PackageSession] = {}
        self.workers: TaskGroup | None = None
        """Where servers of the `mcp` package run; without it, they answer with an error."""
        for name, server in servers.items():
            self.add(name, server)

    def __bool__(self) -> bool:
        return bool(self._servers)

    @property
    def servers(self) -> Mapping[str, Any]:
        """The servers by name."""
        return dict(self._servers)

    async def answer(self, server_name: str, message: JSONObject, context: HandlerContext) -> JSONObject:
        """Handle a message for a server and return the payload of the reply. Never raises.

        Concurrent calls are safe. Cancelling cancels the tool that runs.
        """
        reply: JSONObject | None
        if server_name not in self._servers:
            told = f"unknown server {server_name!r}"
            reply = jsonrpc.error(jsonrpc.request_id_of(message), jsonrpc.METHOD_NOT_FOUND, told)
        else:
            try:
                reply = await self._session(server_name).handle(message, context)
            except Exception as error:
                logger.exception("the server %s failed", server_name)
                told = failure_text(server_name, error)
                reply = jsonrpc.error(jsonrpc.request_id_of(message), jsonrpc.INTERNAL_ERROR, told)
        return {"mcp_response": ACK if reply is None else reply}

    def _session(self, name: str) -> ServerSession | PackageSession:
        if name not in self._sessions:
            self._sessions[name] = self._opened(name, self._servers[name])
        return self._sessions[name]

    def _opened(self, name: str, server: Any) -> ServerSession | PackageSession:
        send = partial(self._send, name)
        if isinstance(server, ToolServer):
            return ServerSession(server, send, self._report, cwd=self._cwd)
        if self.workers is None:
            raise OptionsError("requires a running session", option=f"server {name!r}")
        return PackageSession(server, send, self.workers)

    def close(self) -> None:
        """Cancel the pending work of all servers. Call it in the event loop."""
        sessions, self._sessions = self._sessions, {}
        for session in sessions.values():
            session.close()
        self.workers = None

    # The servers

    def add(self, name: str, server: Any) -> None:
        """Add a server. The CLI only learns of it through `initialize` or `mcp_set_servers`.

        Raises OptionsError if it cannot run in this process.
        """
        if not is_hosted(server):
            raise OptionsError(
                f"an in-process server must be a ToolServer, or a Server, FastMCP or MCPServer of the mcp package, "
                f"not {type(server).__qualname__}",
                option=f"server {name!r}",
            )
        self.remove(name)
        self._servers[name] = server
        if isinstance(server, ToolServer):
            self._session(name)  # so that it can announce changes: with a manifest no message opens it

    def remove(self, name: str) -> None:
        """Remove a server and cancel its pending work."""
        self._servers.pop(name, None)
        session = self._sessions.pop(name, None)
        if session is not None:
            session.close()

    def initialize_fields(self) -> JSONObject:
        """Return the `initialize` fields about the servers, with manifests, so that the CLI skips the handshakes."""
        if not self._servers:
            return {}
        own = {name: server for name, server in self._servers.items() if isinstance(server, ToolServer)}
        fields: JSONObject = {"sdkMcpServers": list(self._servers)}
        if own:
            fields["sdkMcpServerConfigs"] = {name: server.config() for name, server in own.items()}
            fields["sdkMcpServerManifests"] = {name: server.manifest() for name, server in own.items()}
        return fields
