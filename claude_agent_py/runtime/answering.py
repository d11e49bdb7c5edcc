"""Answering what the CLI asks: one table from the kind of request to the feature that answers it.

Owns what is said where no handler was given (the safe answer) and who is told that a request comes from a subagent.
Does not know how a hook is run or a permission decided: the features do.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from claude_agent_py.errors import ClaudeAgentError
from claude_agent_py.handler_context import HandlerContext
from claude_agent_py.protocol.engine import UNSUPPORTED
from claude_agent_py.protocol.handlers import Cancellation
from claude_agent_py.wire.asks import (
    CanUseToolRequest,
    ElicitationRequest,
    HookCallbackRequest,
    MCPMessageRequest,
    UserDialogRequest,
)

Payload = dict[str, Any]


class UnsupportedRequestError(ClaudeAgentError):
    """The CLI asked something that this side does not know. Answered as such; the session goes on."""

    def __init__(self, message: str, error_code: str = UNSUPPORTED) -> None:
        self.error_code = error_code
        super().__init__(message)


class HookAnswers(Protocol):
    """What answers hooks."""

    async def answer(
        self, callback_id: str, data: Payload, tool_use_id: str | None, context: HandlerContext
    ) -> Payload:
        """Run the handler and give the wire reply."""
        ...


class PermissionAnswers(Protocol):
    """What answers permission prompts, questions, plans, elicitations and dialogs."""

    async def answer_can_use_tool(self, request: CanUseToolRequest, context: HandlerContext) -> Payload:
        """Decide on a tool call."""
        ...

    async def answer_elicitation(self, request: ElicitationRequest, context: HandlerContext) -> Payload:
        """Answer an MCP server's question."""
        ...

    async def answer_user_dialog(self, request: UserDialogRequest, context: HandlerContext) -> Payload:
        """Answer a dialog of the CLI."""
        ...


class MCPAnswers(Protocol):
    """What answers the messages to in-process MCP servers."""

    async def answer(self, server_name: str, message: Payload, context: HandlerContext) -> Payload:
        """Handle one JSON-RPC message and give the wire reply."""
        ...


class Answering:
    """Answers the control requests of the CLI.

    Args:
        hooks: Gives what answers hooks. Called when the CLI asks, so that it may be loaded then; so the other two.
        permissions: Gives what answers for a person: without handlers, safely.
        mcp: Gives what answers for servers in this process.
        find_task: Gives the `Task` of a subagent.
        on_hook: Is told the input of every hook callback: it names background tasks.
        main_agent_id: Who asks where the CLI names no subagent: the task of a child agent in its parent's session. None
            is nobody but the main agent.
    """

    def __init__(
        self,
        *,
        hooks: Callable[[], HookAnswers],
        permissions: Callable[[], PermissionAnswers],
        mcp: Callable[[], MCPAnswers],
        find_task: Callable[[str], Any],
        on_hook: Callable[[str, Payload], object],
        main_agent_id: str | None = None,
    ) -> None:
        self._hooks = hooks
        self._mcp = mcp
        self._find_task = find_task
        self._on_hook = on_hook
        self._main_agent_id = main_agent_id
        self._answers: dict[type, Callable[[Any, HandlerContext], Awaitable[Payload]]] = {
            HookCallbackRequest: self._hook,
            MCPMessageRequest: self._mcp_message,
            CanUseToolRequest: lambda request, context: permissions().answer_can_use_tool(request, context),
            ElicitationRequest: lambda request, context: permissions().answer_elicitation(request, context),
            UserDialogRequest: lambda request, context: permissions().answer_user_dialog(request, context),
        }

    async def answer(self, request_id: str, request: Any, cancellation: Cancellation) -> Payload:
        """Give the payload of the reply.

        Raises:
            UnsupportedRequestError: This side does not know the request.
        """
        answer = self._answers.get(type(request))
        if answer is None:
            raise UnsupportedRequestError(f"Unsupported control request subtype: {request.subtype}")
        if isinstance(request, HookCallbackRequest):
            self._note_hook(request)  # first: it may be the first that is heard of a subagent
        agent_id = _agent_of(request) or self._main_agent_id
        context = HandlerContext(
            request_id=request_id,
            agent_id=agent_id,
            task=self._find_task(agent_id) if agent_id else None,
            cancellation=cancellation,
        )
        return await answer(request, context)

    def _note_hook(self, request: HookCallbackRequest) -> None:
        event = request.input.get("hook_event_name")
        if isinstance(event, str):
            self._on_hook(event, request.input)

    async def _hook(self, request: HookCallbackRequest, context: HandlerContext) -> Payload:
        return await self._hooks().answer(request.callback_id, request.input, request.tool_use_id, context)

    async def _mcp_message(self, request: MCPMessageRequest, context: HandlerContext) -> Payload:
        return await self._mcp().answer(request.server_name, request.message, context)


def _agent_of(request: Any) -> str | None:
    """Give the subagent that asks: named on the request, or in a hook's input."""
    agent_id = getattr(request, "agent_id", None)
    if agent_id is None and isinstance(getattr(request, "input", None), dict):
        agent_id = request.input.get("agent_id") if isinstance(request, HookCallbackRequest) else None
    return agent_id if isinstance(agent_id, str) else None
