"""`PermissionRequest`: what a permission handler decides about.

Text in requests comes from the model, a repository or a server and may contain terminal escapes; clean it with
`displayable` before showing it.
"""

from dataclasses import dataclass, field
from functools import cached_property

from claude_agent_py._base.callbacks import PORT_PERMISSIONS
from claude_agent_py._base.display import displayable as displayable
from claude_agent_py.tasks.handler_context import HandlerContext
from claude_agent_py.tasks.task import Task
from claude_agent_py.wire.base import JSONObject, WireModel
from claude_agent_py.wire.control.asks import CanUseToolRequest, MatchedAskRule, MCPServerProvenance
from claude_agent_py.wire.control.permissions import PermissionUpdate, read_update
from claude_agent_py.wire.tools.registry import typed_input


@dataclass(frozen=True)
class PermissionRequest:
    """A request of the CLI to run a tool."""

    wire: CanUseToolRequest = field(repr=False)
    """The request as received, with all fields."""
    context: HandlerContext | None = field(default=None, repr=False, compare=False)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):  # as a callback of the official SDK does that `*args` or a lambda hides
            raise TypeError(f"a PermissionRequest is compared with {other!r}, a text. {PORT_PERMISSIONS}")
        return self.wire == other.wire if isinstance(other, PermissionRequest) else NotImplemented

    def __repr__(self) -> str:
        ids = f"tool_use_id={self.tool_use_id!r}, agent_id={self.agent_id!r}"
        return f"PermissionRequest({displayable(self.tool_name)}, {ids})"

    @property
    def tool_name(self) -> str:
        """The tool's name; MCP tools are named `mcp__<server>__<tool>`."""
        return self.wire.tool_name

    @property
    def raw_input(self) -> JSONObject:
        """The input as the model wrote it."""
        return self.wire.input

    @cached_property
    def input(self) -> WireModel | JSONObject:
        """The input as the tool's model (`BashInput`, ...), or the dict if no model fits."""
        return typed_input(self.tool_name, self.raw_input)

    @property
    def tool_use_id(self) -> str:
        """The tool call."""
        return self.wire.tool_use_id

    @cached_property
    def suggestions(self) -> tuple[PermissionUpdate, ...]:
        """Rule changes after which the CLI would not ask again. Pick some; one may change the permission mode."""
        return tuple(read_update(data) for data in self.wire.permission_suggestions or ())

    @property
    def blocked_path(self) -> str | None:
        """The path that caused the request."""
        return self.wire.blocked_path

    @property
    def decision_reason(self) -> str | None:
        """Why the CLI asks, in words."""
        return self.wire.decision_reason

    @property
    def decision_reason_type(self) -> str | None:
        """Why the CLI asks: `rule`, `mode`, `hook`, `safetyCheck`, `workingDir`, ..."""
        return self.wire.decision_reason_type

    @property
    def matched_ask_rule(self) -> MatchedAskRule | None:
        """The user's rule that requires asking a person. Do not approve the call automatically."""
        return self.wire.matched_ask_rule

    @property
    def mcp_server(self) -> MCPServerProvenance | None:
        """The tool's MCP server. Trust its `source`, not its name."""
        return self.wire.mcp_server

    @property
    def requires_user_interaction(self) -> bool:
        """Whether only a person who has seen the full question may answer."""
        return bool(self.wire.requires_user_interaction)

    @property
    def suppress_always_allow_rule(self) -> bool:
        """Whether not to offer "don't ask again": its rule would allow more than this call."""
        return bool(self.wire.suppress_always_allow_rule)

    @property
    def default_to_no(self) -> bool:
        """Whether a dialog should have "no" selected, so that a stray key does not approve the call."""
        return bool(self.wire.default_to_no)

    @property
    def title(self) -> str | None:
        """The question as a sentence."""
        return self.wire.title

    @property
    def display_name(self) -> str | None:
        """A short name of the action."""
        return self.wire.display_name

    @property
    def description(self) -> str | None:
        """The tool's description of this call."""
        return self.wire.description

    @property
    def agent_id(self) -> str | None:
        """The asking subagent or child agent; None for the main agent."""
        return self.wire.agent_id or (None if self.context is None else self.context.agent_id)

    @property
    def task(self) -> "Task | None":
        """The `Task` of the asking agent; None for the main agent, or if unknown."""
        return self.context.task if self.context is not None else None
