"""Forward a child's questions to its parent's handlers and inbox."""

from typing import Any

from claude_agent_py._handler_context import HandlerContext
from claude_agent_py._runtime.session.current import running_client
from claude_agent_py.client import Client
from claude_agent_py.permissions.prompts import WireRequest
from claude_agent_py.permissions.requests import PermissionContext


class Relay:
    """Answer a child's questions with its parent's handlers.

    Args:
        parent: The client with the handlers; it is the current client while they run.
        cwd: The child's directory, for path policies.
    """

    def __init__(self, parent: Client, cwd: str) -> None:
        self._parent = parent
        self._cwd = cwd

    async def answer(self, request: WireRequest, context: HandlerContext) -> dict[str, Any]:
        """Forward a request to the parent. A nested child has already added its directory to the context."""
        own = PermissionContext(**{"cwd": self._cwd, **vars(context), "session_id": self._parent.session_id})
        with running_client(self._parent):
            return await self._parent.session.handlers.permission_answers.answer(request, own)
