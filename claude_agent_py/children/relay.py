"""A child's questions, asked of its parent: the same handlers and inbox, with the child's task on them.

Owns nothing but the way up. Who answers, and how, is the parent's `PermissionDispatcher`.
"""

from dataclasses import replace
from typing import Any

from claude_agent_py.protocol.handlers import HandlerContext
from claude_agent_py.runtime.answering import PermissionAnswers
from claude_agent_py.tasks import Task
from claude_agent_py.wire.asks import CanUseToolRequest, ElicitationRequest, UserDialogRequest

Payload = dict[str, Any]


class Relay:
    """Answers for a child by asking its parent's."""

    def __init__(self, parent: PermissionAnswers, task: Task) -> None:
        self._parent = parent
        self._task = task

    def _with_task(self, context: HandlerContext) -> HandlerContext:
        return replace(context, agent_id=self._task.id, task=self._task)

    async def answer_can_use_tool(self, request: CanUseToolRequest, context: HandlerContext) -> Payload:
        """Decide on a tool call of the child."""
        return await self._parent.answer_can_use_tool(request, self._with_task(context))

    async def answer_elicitation(self, request: ElicitationRequest, context: HandlerContext) -> Payload:
        """Answer a question of one of the child's MCP servers."""
        return await self._parent.answer_elicitation(request, self._with_task(context))

    async def answer_user_dialog(self, request: UserDialogRequest, context: HandlerContext) -> Payload:
        """Answer a dialog of the child's CLI."""
        return await self._parent.answer_user_dialog(request, self._with_task(context))
