"""Run a server built with the `mcp` package in this process. Requires the extra `mcp`.

Supports the low-level `Server`, `FastMCP` (version 1), `MCPServer` (version 2), and `FastMCP` of the package of that
name. The package is imported on first use because that takes half a second.
"""

from functools import cache
from typing import Any

from anyio import TASK_STATUS_IGNORED, BrokenResourceError, CancelScope, ClosedResourceError, Event
from anyio.abc import TaskGroup, TaskStatus
from pydantic import TypeAdapter, ValidationError

from claude_agent_py._callbacks import log_failure, make_handler_error
from claude_agent_py._errors import OptionsError
from claude_agent_py._event_loop import worker
from claude_agent_py._handler_context import HandlerContext
from claude_agent_py.tools import jsonrpc
from claude_agent_py.tools.jsonrpc import RequestID
from claude_agent_py.tools.results import failure_text
from claude_agent_py.tools.session import Send
from claude_agent_py.wire.base import JSONObject

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
    """Serves one client with a server of the `mcp` package. The first message starts the server in `workers`."""

    def __init__(self, server: object, send: Send, workers: TaskGroup) -> None:
        self._server = find_low_level(server)
        self._send = send
        self._workers = workers
        self._scope = CancelScope()
        self._pending: dict[RequestID, _Pending] = {}
        self._inbox: Any = None
        self._started: Event | None = None

    async def handle(self, message: JSONObject, context: HandlerContext | None = None) -> JSONObject | None:
        """Handle a message and return the server's answer, or None if it needs none."""
        # The server reads the message's `_meta` instead.
        del context
        request_id = jsonrpc.get_request_id(message) if "method" in message else None
        if request_id is None and "method" in message and "id" in message:
            return jsonrpc.error(None, jsonrpc.INVALID_REQUEST, "an id must be a string or an integer")
        require_package()
        try:
            parsed = _message_adapter().validate_python(message)
        except ValidationError as error:
            return jsonrpc.error(request_id, jsonrpc.INVALID_REQUEST, failure_text("reading the message", error))
        await self._start()
        if message.get("method") == "notifications/cancelled":
            self._answer_cancelled((message.get("params") or {}).get("requestId"))
        if request_id is None:
            await self._send_to_server(parsed)
            return None
        return await self._answer(request_id, parsed)

    async def _answer(self, request_id: RequestID, parsed: Any) -> JSONObject:
        pending = self._pending[request_id] = _Pending()
        try:
            if not await self._send_to_server(parsed):
                return jsonrpc.error(request_id, jsonrpc.INTERNAL_ERROR, "the server has ended")
            await pending.done.wait()
        finally:
            if self._pending.get(request_id) is pending:
                del self._pending[request_id]
        return pending.answer or jsonrpc.error(request_id, jsonrpc.CANCELLED, "the request was cancelled")

    async def _send_to_server(self, parsed: Any) -> bool:
        """Send a message to the server and return whether it accepted it."""
        from mcp.shared.message import SessionMessage

        try:
            await self._inbox.send(SessionMessage(parsed))
        except (ClosedResourceError, BrokenResourceError):
            return False
        return True

    def _answer_cancelled(self, request_id: Any) -> None:
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
        started = self._started = Event()
        try:
            await self._workers.start(self._serve)
        except BaseException:
            self._started = None
            raise
        finally:
            started.set()

    @worker
    async def _serve(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Run the server until it ends or is closed. Logs exceptions instead of raising them."""
        from mcp.shared.memory import create_client_server_memory_streams

        self._scope = CancelScope()
        with self._scope:
            try:
                async with create_client_server_memory_streams() as ((outbox, self._inbox), streams):
                    self._workers.start_soon(self._forward, outbox)
                    task_status.started()
                    await self._server.run(*streams, self._server.create_initialization_options())
            except BaseException as error:
                log_failure(make_handler_error(f"MCP server {getattr(self._server, 'name', '')}", error))
        self._started = None
        for request_id, pending in self._pending.items():
            pending.answer = jsonrpc.error(request_id, jsonrpc.INTERNAL_ERROR, "the server has ended")
            pending.done.set()

    @worker
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


class _Pending:
    """A request that the server has not answered yet."""

    def __init__(self) -> None:
        self.done = Event()
        self.answer: JSONObject | None = None


@cache
def _message_adapter() -> TypeAdapter[Any]:
    from mcp.types import JSONRPCMessage  # a union in version 2, a root model in version 1

    return TypeAdapter(JSONRPCMessage)


def _as_json(message: Any) -> JSONObject:
    dumped: JSONObject = _message_adapter().dump_python(message, mode="json", by_alias=True, exclude_none=True)
    return dumped
