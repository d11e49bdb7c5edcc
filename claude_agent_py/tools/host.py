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
from claude_agent_py.tools.mcp_package import PackageSession, find_low_level
from claude_agent_py.tools.results import failure_text
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
    return isinstance(server, ToolServer) or find_low_level(server) is not None


class MCPHost:
    """Answers the CLI for the in-process servers of one client.

    Args:
        servers: Servers by name.
        send: Sends a server's message to the CLI.
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
        """The task group for servers of the `mcp` package. Without it, they answer with an error."""
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

        Concurrent calls are safe. Cancelling cancels the running tool.
        """
        reply: JSONObject | None
        if server_name not in self._servers:
            problem = f"unknown server {server_name!r}"
            reply = jsonrpc.error(jsonrpc.get_request_id(message), jsonrpc.METHOD_NOT_FOUND, problem)
        else:
            try:
                reply = await self._get_session(server_name).handle(message, context)
            except Exception as error:
                logger.exception("the server %s failed", server_name)
                problem = failure_text(server_name, error)
                reply = jsonrpc.error(jsonrpc.get_request_id(message), jsonrpc.INTERNAL_ERROR, problem)
        return {"mcp_response": ACK if reply is None else reply}

    def _get_session(self, name: str) -> ServerSession | PackageSession:
        if name not in self._sessions:
            self._sessions[name] = self._open_session(name, self._servers[name])
        return self._sessions[name]

    def _open_session(self, name: str, server: Any) -> ServerSession | PackageSession:
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
        """Add a server. Does not notify the CLI, which needs `initialize` or `mcp_set_servers`.

        Raises OptionsError if the server cannot run in this process.
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
            # Open the session now: with a manifest the CLI may send no message before the server announces a change.
            self._get_session(name)

    def remove(self, name: str) -> None:
        """Remove a server and cancel its pending work."""
        self._servers.pop(name, None)
        session = self._sessions.pop(name, None)
        if session is not None:
            session.close()

    def initialize_fields(self) -> JSONObject:
        """Return the `initialize` fields about the servers. Their manifests let the CLI skip the handshakes."""
        if not self._servers:
            return {}
        own = {name: server for name, server in self._servers.items() if isinstance(server, ToolServer)}
        fields: JSONObject = {"sdkMcpServers": list(self._servers)}
        if own:
            fields["sdkMcpServerConfigs"] = {name: server.config() for name, server in own.items()}
            fields["sdkMcpServerManifests"] = {name: server.manifest() for name, server in own.items()}
        return fields
