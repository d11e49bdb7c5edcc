"""`PackageSession`: a server of the `mcp` package in this process.

`host` imports this module on first use, because the package takes half a second and may be missing.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from anyio import BrokenResourceError, CancelScope, ClosedResourceError, Event
from mcp.shared.memory import create_client_server_memory_streams
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCMessage
from pydantic import TypeAdapter, ValidationError

from claude_agent_py._base.callbacks import log_failure, make_handler_error
from claude_agent_py._base.errors import OptionsError
from claude_agent_py._base.log import logger
from claude_agent_py.tasks.handler_context import HandlerContext, extend
from claude_agent_py.tools import jsonrpc
from claude_agent_py.tools.asking import ASKING, CAPABILITIES, Ask, read_request
from claude_agent_py.tools.context import ToolContext
from claude_agent_py.tools.jsonrpc import RequestID, RPCError
from claude_agent_py.tools.meta_schema import check_input_schema
from claude_agent_py.tools.results import failure_text
from claude_agent_py.tools.server import load_small_set
from claude_agent_py.tools.session import Send
from claude_agent_py.wire.base import JSONObject

Start: TypeAlias = Callable[..., object]
"""Starts a worker: an async function and its arguments."""

_MESSAGES: Final[TypeAdapter[Any]] = TypeAdapter(JSONRPCMessage)
"""A union in version 2 of the package, a root model in version 1."""


class PackageSession:
    """Serves one client with a low-level server. The first message starts it with `start`."""

    def __init__(self, server: Any, name: str, send: Send, start: Start, ask: Ask, *, samples: bool) -> None:
        self._server = server
        self._name = name
        self._ask = ask
        self._capabilities = {**CAPABILITIES, **({"sampling": {}} if samples else {})}
        self._questions: dict[RequestID, CancelScope] = {}
        """The server's requests that `ask` answers, by their ids."""
        self._send = send
        self._start_worker = start
        self._scope = CancelScope()
        self._pending: dict[RequestID, _PendingRequest] = {}
        self._inbox: Any = None
        self._started: Event | None = None

    async def handle(self, message: JSONObject, context: HandlerContext) -> JSONObject | None:
        """Handle a message and return the server's answer, or None if it needs none.

        Raises RPCError for a message that the server cannot answer.
        """
        if message.get("method") == "initialize":
            message = self._add_capabilities(message)
        request_id = jsonrpc.check_request_id(message) if "method" in message else None
        if request_id in self._pending:
            raise RPCError(jsonrpc.INVALID_REQUEST, "the id is that of a request that is not answered yet")
        try:
            parsed = _MESSAGES.validate_python(message)
        except ValidationError as error:
            raise RPCError(jsonrpc.INVALID_REQUEST, failure_text("reading the message", error)) from None
        await self._start()
        if message.get("method") == "notifications/cancelled":
            self._answer_cancelled((message.get("params") or {}).get("requestId"))
        if request_id is None:
            await self._send_to_server(parsed)
            return None
        answer = await self._answer(request_id, parsed, context)
        if message.get("method") == "tools/list":
            self._leave_out_unusable(answer.get("result") or {})
            _load_small_set(message, answer)
        return answer

    async def _answer(self, request_id: RequestID, parsed: object, context: HandlerContext) -> JSONObject:
        pending = self._pending[request_id] = _PendingRequest(context)
        try:
            if not await self._send_to_server(parsed):
                raise RPCError(jsonrpc.INTERNAL_ERROR, "the server has ended")
            await pending.done.wait()
        finally:
            del self._pending[request_id]
        if isinstance(pending.answer, RPCError):
            raise pending.answer
        return pending.answer

    async def _send_to_server(self, parsed: Any) -> bool:
        """Send a message to the server and return whether it accepted it."""
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

    def _leave_out_unusable(self, result: JSONObject) -> None:
        """Remove the tools that the CLI does not accept: it drops them, and perhaps the others, without a word."""
        for tool in list(result.get("tools") or ()):
            try:
                check_input_schema(tool["inputSchema"], tool["name"])
            except OptionsError as error:
                logger.error("The MCP server %s has a tool that the CLI does not accept: %s", self._name, error)
                result["tools"].remove(tool)

    def close(self) -> None:
        """End the server."""
        self._scope.cancel()
        for question in self._questions.values():
            question.cancel()
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
                elif message.get("method") in ASKING and "id" in message:
                    self._start_worker(self._answer_question, message)
                elif "method" in message:
                    self._withdraw(message)
                    self._send(message)
        except (ClosedResourceError, BrokenResourceError):
            # The server has ended.
            pass

    async def _answer_question(self, message: JSONObject) -> None:
        """Answer a request of the server. It does not say for which call; if it works on one only, it is that one."""
        calls = list(self._pending.values())
        request_id = message["id"]
        call = calls[0].context if len(calls) == 1 else HandlerContext(request_id=f"{self._name} {request_id}")
        context = extend(call, ToolContext, server_name=self._name)
        reply: JSONObject = {"jsonrpc": "2.0", "id": request_id}
        with CancelScope() as scope:
            self._questions[request_id] = scope
            try:
                reply["result"] = await self._ask(read_request(self._name, message), context)
            except Exception as error:
                problem = RPCError(jsonrpc.INTERNAL_ERROR, failure_text(message["method"], error))
                reply = (error if isinstance(error, RPCError) else problem).to_response(request_id)
            finally:
                self._questions.pop(request_id, None)
            await self._send_to_server(_MESSAGES.validate_python(reply))

    def _withdraw(self, message: JSONObject) -> None:
        """Withdraw the request that a message of the server cancels."""
        if message.get("method") == "notifications/cancelled":
            cancelled: Any = (message.get("params") or {}).get("requestId")
            scope = self._questions.pop(cancelled, None)
            if scope is not None:
                scope.cancel()

    def _add_capabilities(self, message: JSONObject) -> JSONObject:
        """Add to the handshake which requests are answered here, which the CLI does not say."""
        params = message.get("params") or {}
        capabilities = {**params.get("capabilities", {}), **self._capabilities}
        return {**message, "params": {**params, "capabilities": capabilities}}


def _load_small_set(request: JSONObject, answer: JSONObject) -> None:
    """Show the tools of a server to the model from the start if they are a small set and fit on one page."""
    result = answer.get("result") or {}
    if not (request.get("params") or {}).get("cursor") and not result.get("nextCursor"):
        load_small_set(result.get("tools") or [])


class _PendingRequest:
    """A request that the server has not answered yet."""

    def __init__(self, context: HandlerContext) -> None:
        self.context = context
        self.done = Event()
        self.answer: JSONObject | RPCError = RPCError(jsonrpc.CANCELLED, "the request was cancelled")


def _as_json(message: object) -> JSONObject:
    dumped: JSONObject = _MESSAGES.dump_python(message, mode="json", by_alias=True, exclude_none=True)
    return dumped
