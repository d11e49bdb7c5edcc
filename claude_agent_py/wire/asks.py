"""What the CLI asks us: the bodies of control requests from it to us.

Owns one model per request. Knows neither the frame around them (`control`) nor the answers (`permissions`, `hooks`).
The input of a hook stays a dict here: `hooks` has its models. The twin of `requests`, which has the other direction.
"""

from typing import ClassVar, Literal

from msgspec import field

from claude_agent_py.wire.base import JSONObject, Number, Open, WireModel

# Permissions ----------------------------------------------------------------------------------------------------------


class MCPServerProvenance(WireModel):
    """Which MCP server a tool belongs to, and who configured that server."""

    name: str
    source: str = ""
    """For example `sdk`, `plugin`, `user`, `project`, `managed`."""


class MatchedAskRule(WireModel):
    """The permission rule because of which the CLI asks."""

    source: str = ""
    tool_name: str = ""
    rule_content: str | None = None


class CanUseToolRequest(WireModel):
    """A tool call needs your permission."""

    subtype: ClassVar[Literal["can_use_tool"]] = "can_use_tool"
    tool_name: str
    tool_use_id: str
    input: JSONObject = field(default_factory=dict)
    mcp_server: MCPServerProvenance | None = None
    permission_suggestions: list[JSONObject] | None = None
    """Permission updates to choose from. Never give all of them back: one may change the permission mode."""
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
    """A question to a person (`AskUserQuestion`), not a permission."""
    agent_id: str | None = None
    """The task id of the subagent that asks; None for the main conversation."""


# Hooks and MCP --------------------------------------------------------------------------------------------------------


class HookCallbackRequest(WireModel):
    """An event has a hook of ours."""

    subtype: ClassVar[Literal["hook_callback"]] = "hook_callback"
    callback_id: str
    input: JSONObject
    tool_use_id: str | None = None
    """A tool call only for tool events; else some other id."""
    issued_at: Number | None = None
    deadline_ms: Number | None = None


class MCPMessageRequest(WireModel):
    """A JSON-RPC message for an MCP server of ours, or (from us) of such a server."""

    subtype: ClassVar[Literal["mcp_message"]] = "mcp_message"
    server_name: str
    message: JSONObject


# Questions to a person ------------------------------------------------------------------------------------------------


class ElicitationRequest(WireModel):
    """An MCP server asks the user something."""

    subtype: ClassVar[Literal["elicitation"]] = "elicitation"
    mcp_server_name: str
    message: str = ""
    mode: Open[Literal["form", "url"]] | None = None
    url: str | None = None
    elicitation_id: str | None = None
    requested_schema: JSONObject | None = None
    property_order: list[str] | None = None
    title: str | None = None
    display_name: str | None = None
    description: str | None = None


class UserDialogRequest(WireModel):
    """The CLI wants a dialog shown."""

    subtype: ClassVar[Literal["request_user_dialog"]] = "request_user_dialog"
    dialog_kind: str
    payload: JSONObject = field(default_factory=dict)
    tool_use_id: str | None = None


# Credentials ----------------------------------------------------------------------------------------------------------


class OAuthTokenRefreshRequest(WireModel):
    """The login's token is about to end."""

    subtype: ClassVar[Literal["oauth_token_refresh"]] = "oauth_token_refresh"
    kind: str | None = None
    token_state: str | None = None
    refused_call: str | None = None


class HostAuthTokenRefreshRequest(WireModel):
    """The host's own token was refused."""

    subtype: ClassVar[Literal["host_auth_token_refresh"]] = "host_auth_token_refresh"
    status: Number | None = None
    token_state: str | None = None
