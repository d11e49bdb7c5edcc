"""Connect MCP servers in this process to the CLI, which wraps each of their messages in a control request.

The CLI sends every message, including notifications, as a control request that needs a reply. It performs the MCP
handshake **before** it answers `initialize`, so messages must be answered while `initialize` is pending.
"""

import logging
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, TypeAlias

from anyio import BrokenResourceError, CancelScope, ClosedResourceError, Event
from pydantic import TypeAdapter, ValidationError

from claude_agent_py._base.callbacks import Report, log_failure, make_handler_error
from claude_agent_py._base.errors import HandlerError, OptionsError
from claude_agent_py._base.log import get_logger
from claude_agent_py.tasks.handler_context import HandlerContext
from claude_agent_py.tools import jsonrpc
from claude_agent_py.tools.jsonrpc import RequestID, RPCError
from claude_agent_py.tools.results import failure_text
from claude_agent_py.tools.server import ToolServer, load_small_set
from claude_agent_py.tools.session import Send, ServerSession
from claude_agent_py.wire.base import JSONObject

Start: TypeAlias = Callable[..., object]
"""Starts a worker: an async function and its arguments."""

INNER_SERVERS = ("_lowlevel_server", "_mcp_server")
"""Attributes where high-level servers keep the low-level one, in versions 2 and 1."""


def find_low_level(server: object) -> Any:
    """Return the low-level server of an `mcp` server object, or None for other objects. Does not import `mcp`."""
    for candidate in (server, *(getattr(server, name, None) for name in INNER_SERVERS)):
        if callable(getattr(candidate, "run", None)) and callable(
            getattr(candidate, "create_initialization_options", None)
        ):
            return candidate
    return None


def require_package() -> None:
    """Raise OptionsError if the package is not installed."""
    try:
        import mcp  # noqa: F401
    except ImportError as error:
        raise OptionsError("requires the mcp package: pip install mcp") from error


class PackageSession:
    """Serves one client with a server of the `mcp` package. The first message starts the server with `start`.

    Supports the low-level `Server`, `FastMCP` (version 1), `MCPServer` (version 2), and `FastMCP` of the package of
    that name. The package is imported on first use because that takes half a second.
    """

    def __init__(self, server: object, send: Send, start: Start) -> None:
        self._server = find_low_level(server)
        self._send = send
        self._start_worker = start
        self._scope = CancelScope()
        self._pending: dict[RequestID, _Pending] = {}
        self._inbox: Any = None
        self._started: Event | None = None

    async def handle(self, message: JSONObject, context: HandlerContext) -> JSONObject | None:
        """Handle a message and return the server's answer, or None if it needs none.

        Raises RPCError for a message that the server cannot answer.
        """
        # The server reads the message's `_meta` instead.
        del context
        request_id = jsonrpc.check_request_id(message) if "method" in message else None
        require_package()
        try:
            parsed = _message_adapter().validate_python(message)
        except ValidationError as error:
            raise RPCError(jsonrpc.INVALID_REQUEST, failure_text("reading the message", error)) from None
        await self._start()
        if message.get("method") == "notifications/cancelled":
            self._answer_cancelled((message.get("params") or {}).get("requestId"))
        if request_id is None:
            await self._send_to_server(parsed)
            return None
        answer = await self._answer(request_id, parsed)
        if message.get("method") == "tools/list":
            _load_small_set(message, answer)
        return answer

    async def _answer(self, request_id: RequestID, parsed: object) -> JSONObject:
        pending = self._pending[request_id] = _Pending()
        try:
            if not await self._send_to_server(parsed):
                raise RPCError(jsonrpc.INTERNAL_ERROR, "the server has ended")
            await pending.done.wait()
        finally:
            if self._pending.get(request_id) is pending:
                del self._pending[request_id]
        if isinstance(pending.answer, RPCError):
            raise pending.answer
        return pending.answer

    async def _send_to_server(self, parsed: Any) -> bool:
        """Send a message to the server and return whether it accepted it."""
        from mcp.shared.message import SessionMessage

        try:
            await self._inbox.send(SessionMessage(parsed))
        except (ClosedResourceError, BrokenResourceError):
            return False
        return True

    def _answer_cancelled(self, request_id: object) -> None:
        """Answer a cancelled request, because some versions of the package do not."""
        pending = self._pending.get(request_id) if isinstance(request_id, str | int) else None
        if pending is not None:
            pending.done.set()

    def close(self) -> None:
        """End the server."""
        self._scope.cancel()
        for pending in self._pending.values():
            pending.done.set()

    # The server

    async def _start(self) -> None:
        """Start the server if it is not running."""
        if self._started is not None:
            await self._started.wait()
            return
        self._started = Event()
        self._start_worker(self._serve, self._started)
        await self._started.wait()

    async def _serve(self, started: Event) -> None:
        """Run the server until it ends or is closed. Logs exceptions instead of raising them."""
        from mcp.shared.memory import create_client_server_memory_streams

        self._scope = CancelScope()
        with self._scope:
            try:
                async with create_client_server_memory_streams() as ((outbox, self._inbox), streams):
                    self._start_worker(self._forward, outbox)
                    started.set()
                    await self._server.run(*streams, self._server.create_initialization_options())
            except BaseException as error:
                log_failure(make_handler_error(f"MCP server {getattr(self._server, 'name', '')}", error))
        self._started = None
        started.set()
        for pending in self._pending.values():
            pending.answer = RPCError(jsonrpc.INTERNAL_ERROR, "the server has ended")
            pending.done.set()

    async def _forward(self, outbox: Any) -> None:
        """Route the server's messages: answers to their pending requests, other messages to the CLI."""
        try:
            async for item in outbox:
                message = _as_json(item.message)
                pending = self._pending.get(message.get("id", "")) if jsonrpc.is_response(message) else None
                if pending is not None:
                    pending.answer = message
                    pending.done.set()
                elif "method" in message:
                    self._send(message)
        except (ClosedResourceError, BrokenResourceError):
            # The server has ended.
            pass


def _load_small_set(request: JSONObject, answer: JSONObject) -> None:
    """Show the tools of a server to the model from the start if they are a small set and fit on one page."""
    result = answer.get("result") or {}
    if not (request.get("params") or {}).get("cursor") and not result.get("nextCursor"):
        load_small_set(result.get("tools") or [])


class _Pending:
    """A request that the server has not answered yet."""

    def __init__(self) -> None:
        self.done = Event()
        self.answer: JSONObject | RPCError = RPCError(jsonrpc.CANCELLED, "the request was cancelled")


@cache
def _message_adapter() -> TypeAdapter[Any]:
    from mcp.types import JSONRPCMessage  # a union in version 2, a root model in version 1

    return TypeAdapter(JSONRPCMessage)


def _as_json(message: object) -> JSONObject:
    dumped: JSONObject = _message_adapter().dump_python(message, mode="json", by_alias=True, exclude_none=True)
    return dumped


logger: logging.Logger = get_logger("claude_agent_py.tools")

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
        self, servers: Mapping[str, object], send: SendToCLI, *, report: Report | None = None, cwd: str | None = None
    ) -> None:
        self._send = send
        self._report = report
        self._cwd = cwd
        self._servers: dict[str, object] = {}
        self._sessions: dict[str, ServerSession | PackageSession] = {}
        for name, server in servers.items():
            self.add(name, server)

    def __bool__(self) -> bool:
        return bool(self._servers)

    @property
    def servers(self) -> Mapping[str, Any]:
        """The servers by name."""
        return dict(self._servers)

    async def answer(
        self, server_name: str, message: JSONObject, context: HandlerContext, start: Start | None = None
    ) -> JSONObject:
        """Handle a message for a server and return the payload of the reply. Never raises.

        `start` starts the workers of a server of the `mcp` package; without it, such a server answers with an error.
        Concurrent calls are safe. Cancelling cancels the running tool.
        """
        try:
            if server_name not in self._servers:
                raise RPCError(jsonrpc.METHOD_NOT_FOUND, f"unknown server {server_name!r}")
            reply = await self._get_session(server_name, start).handle(message, context)
        except RPCError as error:
            reply = error.to_response(jsonrpc.get_request_id(message))
        except Exception as error:
            logger.exception("the server %s failed", server_name)
            failure = RPCError(jsonrpc.INTERNAL_ERROR, failure_text(server_name, error))
            reply = failure.to_response(jsonrpc.get_request_id(message))
        return {"mcp_response": ACK if reply is None else reply}

    def fail(self, server_name: str, message: JSONObject, reason: str) -> JSONObject | None:
        """Report a server whose message could not be read. Return the payload of the reply, None if it has no id.

        `message` has the fields that could be read.
        """
        error = HandlerError(f"MCP server {server_name}", reason)
        (self._report or log_failure)(error)
        request_id = jsonrpc.get_request_id(message)
        if request_id is None:
            return None
        return {"mcp_response": RPCError(jsonrpc.INVALID_REQUEST, reason).to_response(request_id)}

    def _get_session(self, name: str, start: Start | None = None) -> ServerSession | PackageSession:
        """Return the session of a server, which its first message opens."""
        session = self._sessions.get(name)
        if session is None:
            server, send = self._servers[name], partial(self._send, name)
            if isinstance(server, ToolServer):
                session = ServerSession(server, send, self._report, cwd=self._cwd)
            elif start is not None:
                session = PackageSession(server, send, start)
            else:
                raise OptionsError("requires a running session", option=f"server {name!r}")
            self._sessions[name] = session
        return session

    def close(self) -> None:
        """Cancel the pending work of all servers. Call it in the event loop."""
        sessions, self._sessions = self._sessions, {}
        for session in sessions.values():
            session.close()

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
