"""A child's questions, asked of its parent: the same handlers and inbox, with the child's task on them.

Owns nothing but the way up. Who answers, and how, is the parent's `PermissionDispatcher`; a parent that is a child
itself passes them on.
"""

from typing import Any

from claude_agent_py.client import Client
from claude_agent_py.handler_context import HandlerContext
from claude_agent_py.permissions.requests import PermissionContext
from claude_agent_py.runtime.answers import PermissionAnswers
from claude_agent_py.runtime.current import running_client
from claude_agent_py.wire.asks import CanUseToolRequest, ElicitationRequest, UserDialogRequest

Payload = dict[str, Any]


class Relay:
    """Answers for a child by asking its parent's.

    Args:
        parent: Whose handlers they are: the current client while one runs.
        cwd: Where the child works, which policies about paths have to know.
    """

    def __init__(self, parent: Client, cwd: str) -> None:
        self._parent = parent
        self._cwd = cwd

    async def answer_can_use_tool(self, request: CanUseToolRequest, context: HandlerContext) -> Payload:
        """Decide on a tool call of the child."""
        with running_client(self._parent):
            return await self._answers.answer_can_use_tool(request, self._from_here(context))

    async def answer_elicitation(self, request: ElicitationRequest, context: HandlerContext) -> Payload:
        """Answer a question of one of the child's MCP servers."""
        with running_client(self._parent):
            return await self._answers.answer_elicitation(request, self._from_here(context))

    async def answer_user_dialog(self, request: UserDialogRequest, context: HandlerContext) -> Payload:
        """Answer a dialog of the child's CLI."""
        with running_client(self._parent):
            return await self._answers.answer_user_dialog(request, self._from_here(context))

    @property
    def _answers(self) -> PermissionAnswers:
        return self._parent.session.answers.person

    def _from_here(self, context: HandlerContext) -> HandlerContext:
        """Say where the child works, unless a child further down has said so."""
        if isinstance(context, PermissionContext):
            return context
        return PermissionContext(
            request_id=context.request_id,
            agent_id=context.agent_id,
            task=context.task,
            cancellation=context.cancellation,
            cwd=self._cwd,
        )
