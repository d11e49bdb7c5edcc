"""Connect MCP servers in this process to the CLI, which wraps each of their messages in a control request.

The CLI sends every message, including notifications, as a control request that needs a reply. It performs the MCP
handshake **before** it answers `initialize`, so messages must be answered while `initialize` is pending.
"""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from claude_agent_py._base.callbacks import Report
from claude_agent_py._base.errors import HandlerError, OptionsError
from claude_agent_py._base.log import get_logger
from claude_agent_py.tasks.handler_context import HandlerContext
from claude_agent_py.tools import jsonrpc
from claude_agent_py.tools.asking import Ask
from claude_agent_py.tools.jsonrpc import RPCError
from claude_agent_py.tools.results import failure_text
from claude_agent_py.tools.server import ToolServer
from claude_agent_py.tools.session import Send, ServerSession
from claude_agent_py.wire.base import JSONObject
from claude_agent_py.wire.control.asks import MCPMessageRequest

if TYPE_CHECKING:
    from claude_agent_py.tools.package_session import PackageSession

Start: TypeAlias = Callable[..., object]
"""Starts a worker: an async function and its arguments."""

INNER_SERVERS = ("_lowlevel_server", "_mcp_server")
"""Attributes where high-level servers keep the low-level one, in versions 2 and 1."""


def find_low_level(server: object) -> Any:
    """Return the low-level server of an `mcp` server object, or None for other objects. Does not import `mcp`.

    Knows the low-level `Server`, `FastMCP` (version 1), `MCPServer` (version 2), and `FastMCP` of the package of that
    name.
    """
    for candidate in (server, *(getattr(server, name, None) for name in INNER_SERVERS)):
        if callable(getattr(candidate, "run", None)) and callable(
            getattr(candidate, "create_initialization_options", None)
        ):
            return candidate
    return None


logger: logging.Logger = get_logger("claude_agent_py.tools")

ACK: JSONObject = {"jsonrpc": "2.0", "result": {}}
"""The reply to a message that needs no answer, such as a notification."""

SendToCLI: TypeAlias = Callable[[str, JSONObject], None]
"""Sends a server's message (server name, message) as an `mcp_message` control request. Called in the event loop's
thread; must not block and need not wait for the reply."""


def is_hosted(server: object) -> bool:
    """Return whether an object is a server that can run in this process. Does not import `mcp`."""
    return isinstance(server, ToolServer) or find_low_level(server) is not None


def _open_package_session(
    server: object, name: str, send: Send, start: Start, ask: Ask, *, samples: bool
) -> "PackageSession":
    try:
        from claude_agent_py.tools.package_session import PackageSession
    except ImportError as error:
        raise OptionsError("requires the mcp package: pip install mcp") from error
    return PackageSession(server, name, send, start, ask, samples=samples)


class MCPHost:
    """Answers the CLI for the in-process servers of one client.

    Args:
        servers: Servers by name.
        send: Sends a server's message to the CLI.
        report: Called with each unexpected tool failure; must not raise.
        find_cwd: Returns the session's directory, for `ToolContext.cwd`.
        ask: Asks a person or a model for a server.
        samples: Whether servers are told that a model can be asked.
        start: Starts the workers of a server of the `mcp` package.

    Raises:
        OptionsError: A server cannot run in this process.
    """

    def __init__(
        self,
        servers: Mapping[str, object],
        send: SendToCLI,
        *,
        report: Report,
        find_cwd: Callable[[], str | None],
        ask: Ask,
        samples: bool,
        start: Start,
    ) -> None:
        self._send = send
        self._ask = ask
        self._samples = samples
        self._start = start
        self._report = report
        self._find_cwd = find_cwd
        self._servers: dict[str, object] = {}
        self._sessions: dict[str, ServerSession | PackageSession] = {}
        for name, server in servers.items():
            self.add(name, server)

    @property
    def servers(self) -> Mapping[str, Any]:
        """The servers by name."""
        return dict(self._servers)

    async def answer(self, request: MCPMessageRequest, context: HandlerContext) -> JSONObject:
        """Handle a message for a server and return the payload of the reply. Never raises.

        Concurrent calls are safe. Cancelling cancels the running tool.
        """
        server_name, message = request.server_name, request.message
        try:
            if server_name not in self._servers:
                raise RPCError(jsonrpc.METHOD_NOT_FOUND, f"unknown server {server_name!r}")
            reply = await self._get_session(server_name).handle(message, context)
        except RPCError as error:
            reply = error.to_response(jsonrpc.get_request_id(message))
        except Exception as error:
            logger.exception("the server %s failed", server_name)
            failure = RPCError(jsonrpc.INTERNAL_ERROR, failure_text(server_name, error))
            reply = failure.to_response(jsonrpc.get_request_id(message))
        return {"mcp_response": ACK if reply is None else reply}

    def fail(self, fields: Mapping[str, object], reason: str, cause: BaseException | None = None) -> JSONObject | None:
        """Report a server whose message could not be read or answered. Return the reply, None if the message has no id.

        `fields` are those of the request that can be read.
        """
        given = fields.get("message")
        message: JSONObject = given if isinstance(given, dict) else {}
        failure = HandlerError(f"MCP server {fields.get('server_name')}", reason)
        failure.__cause__ = cause
        self._report(failure)
        request_id = jsonrpc.get_request_id(message)
        if request_id is None:
            return None
        return {"mcp_response": RPCError(jsonrpc.INVALID_REQUEST, reason).to_response(request_id)}

    def _get_session(self, name: str) -> "ServerSession | PackageSession":
        """Return the session of a server, which its first message opens."""
        session = self._sessions.get(name)
        if session is None:
            server, send = self._servers[name], partial(self._send, name)
            if isinstance(server, ToolServer):
                session = ServerSession(server, send, self._report, find_cwd=self._find_cwd, ask=self._ask, name=name)
            else:
                low_level = find_low_level(server)
                session = _open_package_session(low_level, name, send, self._start, self._ask, samples=self._samples)
            self._sessions[name] = session
        return session

    def close(self) -> None:
        """Cancel the pending work of all servers. Call it in the event loop."""
        sessions, self._sessions = self._sessions, {}
        for session in sessions.values():
            session.close()

    # The servers

    def add(self, name: str, server: object) -> None:
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
        own = {name: server for name, server in self._servers.items() if isinstance(server, ToolServer)}
        fields: JSONObject = {"sdkMcpServers": list(self._servers)}
        if own:
            fields["sdkMcpServerConfigs"] = {name: server.config() for name, server in own.items()}
            fields["sdkMcpServerManifests"] = {name: server.manifest() for name, server in own.items()}
        return fields
