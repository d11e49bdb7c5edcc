"""Bodies of the control requests that the CLI sends to the SDK; `requests` has the other direction.

A hook's input stays a dict here; `wire.hooks` has its models.
"""

from typing import TYPE_CHECKING, ClassVar, Literal

import msgspec
from msgspec import field

from claude_agent_py.wire.base import JSONObject, Number, Open, WireModel
from claude_agent_py.wire.messages.content import ToolUseBlock
from claude_agent_py.wire.tools.names import TOOL_USE_ID

if TYPE_CHECKING:
    from claude_agent_py.wire.control.forms import Form

# Permissions ----------------------------------------------------------------------------------------------------------


class MCPServerProvenance(WireModel):
    """The MCP server that provides a tool, and where that server was configured."""

    name: str
    source: str = ""
    """For example `sdk`, `plugin`, `user`, `project`, `managed`."""


class MatchedAskRule(WireModel):
    """The permission rule that made the CLI ask."""

    source: str = ""
    tool_name: str = ""
    rule_content: str | None = None


class CanUseToolRequest(WireModel):
    """A request for permission to run a tool."""

    subtype: ClassVar[Literal["can_use_tool"]] = "can_use_tool"
    tool_name: str
    tool_use_id: str
    input: JSONObject = field(default_factory=dict)
    mcp_server: MCPServerProvenance | None = None
    permission_suggestions: list[JSONObject] | None = None
    """Permission updates to choose from. Never return all of them: one may change the permission mode."""
    blocked_path: str | None = None
    decision_reason: str | None = None
    decision_reason_type: (
        Open[
            Literal[
                "rule",
                "mode",
                "subcommandResults",
                "permissionPromptTool",
                "hook",
                "asyncAgent",
                "sandboxOverride",
                "workingDir",
                "safetyCheck",
                "classifier",
                "other",
            ]
        ]
        | None
    ) = None
    decision_reason_code: str | None = None
    decision_reason_rule_source: str | None = None
    decision_reason_hook_event: str | None = None
    decision_reason_hook_source: str | None = None
    classifier_approvable: bool | None = None
    suppress_always_allow_rule: bool | None = None
    default_to_no: bool | None = None
    matched_ask_rule: MatchedAskRule | None = None
    server_policy_ask_only: bool | None = None
    title: str | None = None
    display_name: str | None = None
    description: str | None = None
    requires_user_interaction: bool | None = None
    """True when the tool asks the user a question (`AskUserQuestion`) rather than needing a permission."""
    agent_id: str | None = None
    """Task id of the subagent that called the tool; None in the main conversation."""


# Hooks and MCP --------------------------------------------------------------------------------------------------------


class HookCallbackRequest(WireModel):
    """A call of a hook callback that the SDK registered."""

    subtype: ClassVar[Literal["hook_callback"]] = "hook_callback"
    callback_id: str
    input: JSONObject
    tool_use_id: str | None = None
    """The tool call's id for tool events, an unrelated id for others."""
    issued_at: Number | None = None
    deadline_ms: Number | None = None


class MCPMessageRequest(WireModel):
    """A JSON-RPC message to, or from, an MCP server that runs in this process."""

    subtype: ClassVar[Literal["mcp_message"]] = "mcp_message"
    server_name: str
    message: JSONObject

    @property
    def tool_use_id(self) -> str | None:
        """The tool call that a message of the CLI is about, if any."""
        call = self._meta.get(TOOL_USE_ID)
        return call if isinstance(call, str) else None

    @property
    def progress_token(self) -> str | int | None:
        """What the CLI wants named in reports about the progress of the call; None if it wants none."""
        token = self._meta.get("progressToken")
        return token if isinstance(token, str | int) else None

    @property
    def _meta(self) -> JSONObject:
        params = self.message.get("params")
        meta = params.get("_meta") if isinstance(params, dict) else None
        return meta if isinstance(meta, dict) else {}


# Questions to a person ------------------------------------------------------------------------------------------------


class ElicitationRequest(WireModel):
    """A question of an MCP server to the user. Answer with `Accept(...)`, `Decline()` or `Cancel()`."""

    subtype: ClassVar[Literal["elicitation"]] = "elicitation"
    server_name: str = field(name="mcp_server_name")
    """The asking server."""
    message: str = ""
    """The text of the question."""
    mode: Open[Literal["form", "url"]] = ""
    """`form`: fill in `form`. `url`: open `url`, and accept if the person agrees."""
    url: str | None = None
    """The page to open. It comes from the server: show the full URL before opening it."""
    elicitation_id: str | None = None
    """The server's id of a question with a page."""
    requested_schema: JSONObject | None = None
    property_order: list[str] | None = None
    title: str | None = None
    """The heading of the question."""
    display_name: str | None = None
    """A short name for the server or its tool."""
    description: str | None = None
    """The text below the title."""
    call: ToolUseBlock | None = None
    """The call of the tool that asks, if it is one of this process; the CLI does not say it."""

    def __post_init__(self) -> None:
        if not self.mode:
            msgspec.structs.force_setattr(self, "mode", "url" if self.url else "form")

    @property
    def form(self) -> "Form":
        """The form to fill in; it may have no fields."""
        from claude_agent_py.wire.control.forms import Form  # few sessions need it

        return Form.of(self.requested_schema, self.property_order)


class UserDialogRequest(WireModel):
    """A request to show the user a dialog."""

    subtype: ClassVar[Literal["request_user_dialog"]] = "request_user_dialog"
    dialog_kind: str
    payload: JSONObject = field(default_factory=dict)
    tool_use_id: str | None = None
