"""What a permission handler is asked, and what it is told beside.

Owns the user's view of a `can_use_tool` request. Text in it was written by others (the model, a repository, a server):
it may hold terminal escapes, so clean it before you show it (`displayable`).
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from claude_agent_py.handler_context import HandlerContext
from claude_agent_py.wire.asks import CanUseToolRequest, MatchedAskRule, MCPServerProvenance
from claude_agent_py.wire.base import WireModel
from claude_agent_py.wire.permissions import PermissionUpdate, read_update
from claude_agent_py.wire.tools.registry import typed_input

if TYPE_CHECKING:
    from claude_agent_py.tasks.task import Task


def _nobody(told: Any) -> None:
    """Take the place of a listener."""


@dataclass(frozen=True, kw_only=True)
class PermissionContext(HandlerContext):
    """What a handler of permissions, questions, plans, elicitations and dialogs is told beside its question."""

    tool_use_id: str | None = None
    """The tool call that it is about, where there is one."""
    cwd: str | None = None
    """Where the session was started, or for a guard, where its shell is by now; None where it is not known."""
    on_waiting: Callable[[bool], object] = field(default=_nobody, repr=False, compare=False)
    on_interaction: Callable[[Any], object] = field(default=_nobody, repr=False, compare=False)
    """For inboxes: tell it `InteractionOpened` and `InteractionSettled`, in the event loop. It does not raise."""

    @contextlib.contextmanager
    def awaiting_user(self) -> Iterator[None]:
        """Say for as long as it lasts that a person is waited for: the task shows the status `awaiting_user`."""
        self.on_waiting(True)
        try:
            yield
        finally:
            self.on_waiting(False)


@dataclass(frozen=True)
class PermissionRequest:
    """The CLI asks whether a tool may run."""

    wire: CanUseToolRequest = field(repr=False)
    """The request as it came; it has more fields than are given here."""
    context: HandlerContext | None = field(default=None, repr=False, compare=False)

    def __repr__(self) -> str:
        return f"PermissionRequest({self.tool_name}, tool_use_id={self.tool_use_id!r}, agent_id={self.agent_id!r})"

    @property
    def tool_name(self) -> str:
        """The tool; one of an MCP server is called `mcp__<server>__<tool>`."""
        return self.wire.tool_name

    @property
    def raw_input(self) -> dict[str, Any]:
        """The input as the model wrote it."""
        return self.wire.input

    @cached_property
    def input(self) -> WireModel | dict[str, Any]:
        """The input as the tool's model (`BashInput`, ...); the dict where there is none that it fits."""
        return typed_input(self.tool_name, self.raw_input)

    @property
    def tool_use_id(self) -> str:
        """The tool call."""
        return self.wire.tool_use_id

    @cached_property
    def suggestions(self) -> tuple[PermissionUpdate, ...]:
        """Changes of the rules after which the CLI would not ask again. Pick; one of them may change the mode."""
        return tuple(read_update(data) for data in self.wire.permission_suggestions or ())

    @property
    def blocked_path(self) -> str | None:
        """The path because of which it asks."""
        return self.wire.blocked_path

    @property
    def decision_reason(self) -> str | None:
        """Why it asks, in words."""
        return self.wire.decision_reason

    @property
    def decision_reason_type(self) -> str | None:
        """Why it asks: `rule`, `mode`, `hook`, `safetyCheck`, `workingDir`, ..."""
        return self.wire.decision_reason_type

    @property
    def matched_ask_rule(self) -> MatchedAskRule | None:
        """The user's own rule that wants a person to be asked; do not approve such a call by machine."""
        return self.wire.matched_ask_rule

    @property
    def mcp_server(self) -> MCPServerProvenance | None:
        """The MCP server of the tool. Trust its `source`, not its name."""
        return self.wire.mcp_server

    @property
    def requires_user_interaction(self) -> bool:
        """Whether only a person may answer, who has seen the whole question."""
        return bool(self.wire.requires_user_interaction)

    @property
    def title(self) -> str | None:
        """A sentence that asks the question."""
        return self.wire.title

    @property
    def display_name(self) -> str | None:
        """A short name of the action."""
        return self.wire.display_name

    @property
    def description(self) -> str | None:
        """What the tool says of this call."""
        return self.wire.description

    @property
    def agent_id(self) -> str | None:
        """The subagent or child agent that asks; None for the main agent."""
        return self.wire.agent_id or (None if self.context is None else self.context.agent_id)

    @property
    def task(self) -> "Task | None":
        """The `Task` of that subagent; None for the main agent, or where it is not known."""
        return self.context.task if self.context is not None else None


def displayable(text: str, limit: int = 2000) -> str:
    """Give text that a terminal can show: control characters replaced, and cut after `limit` characters."""
    cut = text if len(text) <= limit else f"{text[:limit]}… [+{len(text) - limit} characters]"
    return "".join(char if char.isprintable() or char in "\n\t" else "\N{REPLACEMENT CHARACTER}" for char in cut)
