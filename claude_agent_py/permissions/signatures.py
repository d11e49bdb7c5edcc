"""The signatures of handlers that answer for a person. Async or plain; plain ones run in a worker thread."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from claude_agent_py.permissions.contexts import PermissionContext
from claude_agent_py.permissions.decisions import Allow, Decision
from claude_agent_py.permissions.elicitation import ElicitationAnswer
from claude_agent_py.permissions.prompts import DialogAnswer, Plan
from claude_agent_py.permissions.questions import AnswerToQuestions, Question
from claude_agent_py.permissions.requests import PermissionRequest
from claude_agent_py.wire.control.asks import ElicitationRequest, UserDialogRequest

CanUseTool: TypeAlias = Callable[[PermissionRequest, PermissionContext], Decision | Awaitable[Decision | None] | None]
"""Answers a permission prompt. None denies."""

QuestionHandler: TypeAlias = Callable[
    [tuple[Question, ...], PermissionContext], AnswerToQuestions | Allow | Awaitable[AnswerToQuestions | Allow]
]
"""Answers the questions of one call."""

PlanHandler: TypeAlias = Callable[[Plan, PermissionContext], Decision | Awaitable[Decision | None] | None]
"""Approves or rejects a plan. None denies."""

ElicitationHandler: TypeAlias = Callable[
    [ElicitationRequest, PermissionContext],
    ElicitationAnswer | Mapping[str, object] | Awaitable[ElicitationAnswer | Mapping[str, object] | None | None],
]
"""Answers an MCP server that asks for input; a dict has MCP form. None cancels."""

DialogHandler: TypeAlias = Callable[
    [UserDialogRequest, PermissionContext], DialogAnswer | Awaitable[DialogAnswer | None] | None
]
"""Answers a dialog of the CLI. None dismisses it."""
