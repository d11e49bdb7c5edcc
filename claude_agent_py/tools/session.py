"""One conversation with an in-process MCP server: JSON-RPC messages in and out.

Every request gets an answer, because an unanswered handshake blocks the CLI's first turn for a minute.
"""

import json
import logging
import threading
from collections.abc import Callable
from typing import Any, TypeAlias

from anyio import CancelScope

from claude_agent_py._base.callbacks import Report, make_handler_error
from claude_agent_py._base.cancellation import Cancellation
from claude_agent_py._base.errors import ToolError, ToolInputError
from claude_agent_py._base.event_loop import from_any_thread
from claude_agent_py._base.log import get_logger
from claude_agent_py.tasks.handler_context import HandlerContext, extend
from claude_agent_py.tools import jsonrpc
from claude_agent_py.tools.asking import Ask, ServerRequest
from claude_agent_py.tools.context import ToolContext
from claude_agent_py.tools.definition import build_failure, run_tool
from claude_agent_py.tools.jsonrpc import RequestID, RPCError
from claude_agent_py.tools.results import call_tool_result, failure_text
from claude_agent_py.tools.sampling import SamplingRequest
from claude_agent_py.tools.server import ToolServer
from claude_agent_py.wire.base import JSONObject
from claude_agent_py.wire.codec import encode_json
from claude_agent_py.wire.control.asks import ElicitationRequest
from claude_agent_py.wire.messages.content import ToolUseBlock
from claude_agent_py.wire.tools.names import TOOL_USE_ID, mcp_tool_name

logger: logging.Logger = get_logger("claude_agent_py.tools")

LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")

Send: TypeAlias = Callable[[JSONObject], None]
"""Sends a message to the CLI. Called in the event loop's thread; must not block."""


class ServerSession:
    """Serves one client. Needs no handshake: with a manifest, the CLI skips it."""

    def __init__(
        self,
        server: ToolServer,
        send: Send,
        report: Report,
        *,
        find_cwd: Callable[[], str | None],
        ask: Ask,
        name: str,
    ) -> None:
        self._server = server
        self._name = name
        self._send = send
        self._report = report
        self._find_cwd = find_cwd
        self.ask = ask
        self._home = threading.get_ident()
        self._send_soon: Callable[[JSONObject], object] | None = None
        """Sends a message from another thread. Set by the first message, before which no tool runs."""
        self._running: dict[RequestID, tuple[CancelScope, HandlerContext]] = {}
        self._asking: dict[Cancellation, set[CancelScope]] = {}
        """The questions of each call that wait for an answer."""
        self._log_level = LOG_LEVELS.index("info")
        server.connect(self)

    # In

    async def handle(self, message: JSONObject, context: HandlerContext) -> JSONObject | None:
        """Handle a message and return the answer, or None if it needs none.

        Concurrent calls are safe. Cancelling cancels the request's work. Raises RPCError for a request that fails.
        """
        self._home = threading.get_ident()
        self._send_soon = from_any_thread(self._send_logged)
        if jsonrpc.is_response(message):
            return None
        method = message.get("method")
        if not isinstance(method, str):
            raise RPCError(jsonrpc.INVALID_REQUEST, "a message must have a method, a result or an error")
        request_id = jsonrpc.check_request_id(message)
        params = message.get("params")
        if request_id is None:
            if method == "notifications/cancelled" and isinstance(params, dict):
                self.cancel(params.get("requestId"), params.get("reason"))
            return None
        with CancelScope() as scope:
            self._running[request_id] = scope, context
            try:
                return {"jsonrpc": "2.0", "id": request_id, "result": await self._dispatch(method, params, context)}
            except RPCError:
                raise
            except BaseException as error:
                # The function of a resource or a prompt raised.
                self._report(make_handler_error(f"{self._server.name} {method}", error))
                raise RPCError(jsonrpc.INTERNAL_ERROR, failure_text(method, error)) from None
            finally:
                if self._running.get(request_id, (None,))[0] is scope:
                    del self._running[request_id]
                if context.cancellation:
                    for asking in self._asking.pop(context.cancellation, ()):
                        asking.cancel()
        raise RPCError(jsonrpc.CANCELLED, "the request was cancelled")

    async def _dispatch(self, method: str, params: object, context: HandlerContext) -> JSONObject:
        given: object = {} if params is None else params
        if not isinstance(given, dict):
            raise RPCError(jsonrpc.INVALID_PARAMS, "params must be an object")
        match method:
            case "tools/call":
                return await self._call_tool(given, context)
            case "tools/list" | "resources/list" | "prompts/list":
                return self._build_page(method.removesuffix("/list"), given.get("cursor"))
            case "resources/templates/list":
                return {"resourceTemplates": self._server.definitions("templates")}
            case "resources/read":
                return await self._read_resource(given)
            case "prompts/get":
                return await self._get_prompt(given)
            case "initialize":
                return self._server.initialize_result(given.get("protocolVersion"))
            case "ping":
                return {}
            case "logging/setLevel":
                return self._set_level(given)
            case _:
                raise RPCError(jsonrpc.METHOD_NOT_FOUND, f"unknown method {method!r}")

    def cancel(self, request_id: object, reason: object = None) -> None:
        """Cancel the work for a request, if it is running."""
        running = self._running.get(request_id) if isinstance(request_id, str | int) else None
        if running is not None:
            scope, context = running
            context.cancellation.set(reason if isinstance(reason, str) else "")
            scope.cancel()

    async def ask_for_call(self, request: ServerRequest, context: "_CallContext") -> JSONObject:
        """Ask a person or a model for a call. With the call, the question is withdrawn.

        Under trio, cancelling the call of a plain tool does not cancel what its thread has started.

        Raises:
            ToolError: The call was cancelled.
        """
        with CancelScope() as scope:
            waiting = self._asking.setdefault(context.cancellation, set())
            waiting.add(scope)
            try:
                if not context.cancelled:
                    return await self.ask(request, context)
            finally:
                waiting.discard(scope)
                if not waiting:
                    self._asking.pop(context.cancellation, None)
        raise ToolError("the call was cancelled")

    def close(self) -> None:
        """Cancel all pending work, and stop announcing changes."""
        self._server.disconnect(self)
        for request_id in list(self._running):
            self.cancel(request_id)

    # Out

    def notify(self, method: str, params: JSONObject) -> None:
        """Send a notification, from any thread, without waiting for the event loop.

        Raises TypeError or ValueError for what JSON cannot represent.
        """
        level = params.get("level") if method == "notifications/message" else None
        if level in LOG_LEVELS and LOG_LEVELS.index(level) < self._log_level:
            return
        message = {"jsonrpc": "2.0", "method": method, **({"params": params} if params else {})}
        if threading.get_ident() == self._home:
            self._send(message)
            return
        copy = json.loads(encode_json(message))  # the thread may change its data before the event loop sends it
        try:
            if self._send_soon is not None:
                self._send_soon(copy)
        except RuntimeError:
            logger.debug("a notification was dropped, because the event loop has ended: %s", method)

    def _send_logged(self, message: JSONObject) -> None:
        """Send a message. An error is logged: nobody waits for it."""
        try:
            self._send(message)
        except Exception:
            logger.exception("a notification of the server %s could not be sent", self._name)

    # Methods

    def _set_level(self, params: JSONObject) -> JSONObject:
        level = params.get("level")
        if level not in LOG_LEVELS:
            raise RPCError(jsonrpc.INVALID_PARAMS, f"unknown log level {level!r}")
        self._log_level = LOG_LEVELS.index(level)
        return {}

    async def _call_tool(self, params: JSONObject, context: HandlerContext) -> JSONObject:
        name = params.get("name")
        meta = params.get("_meta")
        if not isinstance(name, str):
            raise RPCError(jsonrpc.INVALID_PARAMS, "a call must name a tool")
        tool = self._server.get(name)
        if tool is None:
            raise RPCError(jsonrpc.INVALID_PARAMS, f"unknown tool {name!r}")
        arguments = {} if params.get("arguments") is None else params["arguments"]
        if not isinstance(arguments, dict):
            problem = ToolInputError(name, [("", "the arguments must be an object")])
            return call_tool_result(build_failure(name, problem))
        own_context = self._build_context(name, arguments, meta if isinstance(meta, dict) else {}, context)
        timeout, report = self._server.timeout, self._report
        return call_tool_result(await run_tool(tool, arguments, own_context, timeout=timeout, report=report))

    def _build_context(
        self, tool_name: str, arguments: JSONObject, meta: JSONObject, context: HandlerContext
    ) -> ToolContext:
        tool_use_id = meta.get(TOOL_USE_ID)
        token = meta.get("progressToken")
        return extend(
            context,
            _CallContext,
            tool_name=tool_name,
            server_name=self._name,
            tool_use_id=tool_use_id if isinstance(tool_use_id, str) else None,
            cwd=self._find_cwd(),
            progress_token=token if isinstance(token, str | int) else None,
            _session=self,
            _arguments=arguments,
        )

    async def _read_resource(self, params: JSONObject) -> JSONObject:
        uri = str(params.get("uri"))
        for resource in self._server.resources.values():
            variables = resource.match(uri)
            if variables is not None:
                return {"contents": [await resource.read(uri, variables)]}
        raise RPCError(jsonrpc.RESOURCE_NOT_FOUND, "resource not found", {"uri": params.get("uri")})

    async def _get_prompt(self, params: JSONObject) -> JSONObject:
        prompt = self._server.prompts.get(str(params.get("name")))
        if prompt is None:
            raise RPCError(jsonrpc.INVALID_PARAMS, f"unknown prompt {params.get('name')!r}")
        try:
            return await prompt.get(params.get("arguments") or {})
        except ToolInputError as error:
            raise RPCError(jsonrpc.INVALID_PARAMS, str(error)) from None

    def _build_page(self, kind: str, cursor: object) -> JSONObject:
        """Return a page of the tools, resources or prompts. The cursor is the index of its first entry."""
        items = self._server.definitions(kind)
        if cursor is None:
            cursor = "0"
        if not isinstance(cursor, str) or not cursor.isdecimal() or int(cursor) > len(items):
            raise RPCError(jsonrpc.INVALID_PARAMS, f"invalid cursor {cursor!r}")
        begin = int(cursor)
        end = begin + (self._server.page_size or len(items))
        page: JSONObject = {kind: items[begin:end]}
        return page | ({"nextCursor": str(end)} if end < len(items) else {})


class _CallContext(ToolContext, frozen=True, kw_only=True, eq=False):
    """The context of a call in a session, whose notifications go to the CLI."""

    _session: ServerSession
    _arguments: JSONObject

    def notify(self, method: str, params: JSONObject) -> None:
        self._session.notify(method, params)

    async def _sample(self, request: SamplingRequest) -> JSONObject:
        return await self._session.ask_for_call(request, self)

    async def _ask(self, message: str, **fields: Any) -> JSONObject:
        name, call = mcp_tool_name(self.server_name, self.tool_name), None
        if self.tool_use_id is not None:
            call = ToolUseBlock(id=self.tool_use_id, name=name, input=self._arguments)
        request = ElicitationRequest(server_name=self.server_name, message=message, call=call, **fields)
        return await self._session.ask_for_call(request, self)
