"""Forward a child's questions to its parent's handlers and inbox."""

from dataclasses import replace
from typing import Any

from claude_agent_py._handler_context import HandlerContext
from claude_agent_py._runtime.answering.parent import PermissionAnswers
from claude_agent_py._runtime.session.current import running_client
from claude_agent_py.client import Client
from claude_agent_py.permissions.requests import PermissionContext
from claude_agent_py.wire.control.asks import CanUseToolRequest, ElicitationRequest, UserDialogRequest

Payload = dict[str, Any]


class Relay:
    """Answer a child's questions with its parent's handlers.

    Args:
        parent: The client with the handlers; it is the current client while they run.
        cwd: The child's directory, for path policies.
    """

    def __init__(self, parent: Client, cwd: str) -> None:
        self._parent = parent
        self._cwd = cwd

    async def answer_can_use_tool(self, request: CanUseToolRequest, context: HandlerContext) -> Payload:
        """Ask the parent to decide on a tool call."""
        with running_client(self._parent):
            return await self._answers.answer_can_use_tool(request, self._from_here(context))

    async def answer_elicitation(self, request: ElicitationRequest, context: HandlerContext) -> Payload:
        """Ask the parent to answer an MCP server."""
        with running_client(self._parent):
            return await self._answers.answer_elicitation(request, self._from_here(context))

    async def answer_user_dialog(self, request: UserDialogRequest, context: HandlerContext) -> Payload:
        """Ask the parent to answer a dialog."""
        with running_client(self._parent):
            return await self._answers.answer_user_dialog(request, self._from_here(context))

    @property
    def _answers(self) -> PermissionAnswers:
        return self._parent.session.answers.person

    def _from_here(self, context: HandlerContext) -> HandlerContext:
        """Add the child's directory, unless a child further down has added its own, and the parent's session."""
        session_id = self._parent.session_id
        if isinstance(context, PermissionContext):
            return replace(context, session_id=session_id)
        return PermissionContext(
            request_id=context.request_id,
            agent_id=context.agent_id,
            task=context.task,
            session_id=session_id,
            cancellation=context.cancellation,
            cwd=self._cwd,
        )
