"""The messages of the official SDK, as mutable dataclasses in its field order."""

from dataclasses import dataclass, field
from typing import Any, Literal, NotRequired, Required, TypeAlias, TypedDict

from claude_agent_py.compat.option_types import PermissionMode
from claude_agent_py.sessions import SessionKey
from claude_agent_py.wire import JSONObject


@dataclass
class TextBlock:
    """Text."""

    text: str


@dataclass
class ThinkingBlock:
    """A thought."""

    thinking: str
    signature: str


@dataclass
class ToolUseBlock:
    """A call of a tool."""

    id: str
    name: str
    input: JSONObject


@dataclass
class ToolResultBlock:
    """The result of a call, as on the wire."""

    tool_use_id: str
    content: str | list[JSONObject] | None = None
    is_error: bool | None = None


ServerToolName: TypeAlias = Literal[
    "advisor",
    "web_search",
    "web_fetch",
    "code_execution",
    "bash_code_execution",
    "text_editor_code_execution",
    "tool_search_tool_regex",
    "tool_search_tool_bm25",
]
"""A tool that the API runs."""


@dataclass
class ServerToolUseBlock:
    """A call of a tool of the API."""

    id: str
    name: ServerToolName
    input: JSONObject


@dataclass
class ServerToolResultBlock:
    """The result of such a call."""

    tool_use_id: str
    content: JSONObject


ContentBlock: TypeAlias = (
    TextBlock | ThinkingBlock | ToolUseBlock | ToolResultBlock | ServerToolUseBlock | ServerToolResultBlock
)
"""A block of a message."""


AssistantMessageError: TypeAlias = Literal[
    "authentication_failed", "billing_error", "rate_limit", "invalid_request", "server_error", "unknown"
]
"""Why the API did not answer."""


MessageOriginKind: TypeAlias = Literal[
    "human",
    "channel",
    "peer",
    "task-notification",
    "coordinator",
    "unclassified",
    "observer",
    "auto-continuation",
    "observer-activity",
]
"""Who or what sent a user message."""


TaskNotificationOriginSubkind: TypeAlias = Literal["scheduled-trigger", "peer-send-message"]
"""What caused the notification of a task."""


MessageOrigin = TypedDict(
    "MessageOrigin",
    {
        "kind": Required[MessageOriginKind],
        "server": str,
        "from": str,
        "name": str,
        "fromSession": str,
        "senderTaskId": str,
        "body": str,
        "verifiedPeerPid": int,
        "subkind": TaskNotificationOriginSubkind,
    },
    total=False,
)
"""Where a user message comes from. Each kind has some of the fields."""


@dataclass
class UserMessage:
    """A prompt, or the results of calls."""

    content: str | list[ContentBlock]
    uuid: str | None = None
    parent_tool_use_id: str | None = None
    tool_use_result: JSONObject | None = None
    origin: MessageOrigin | None = None


@dataclass
class AssistantMessage:
    """A part of an answer."""

    content: list[ContentBlock]
    model: str
    parent_tool_use_id: str | None = None
    error: AssistantMessageError | None = None
    usage: JSONObject | None = None
    message_id: str | None = None
    stop_reason: str | None = None
    session_id: str | None = None
    uuid: str | None = None
    user_message_uuid: str | None = None
    user_message_uuids: list[str] | None = None


@dataclass
class SystemMessage:
    """A message of the CLI; `data` is the whole frame."""

    subtype: str
    data: JSONObject


class SystemInitMcpServer(TypedDict):
    """A server, as `init` reports it."""

    name: str
    status: str
    source: NotRequired[str]


class SystemInitPlugin(TypedDict):
    """A plugin, as `init` reports it."""

    name: str
    path: str
    version: NotRequired[str]


class SystemInitPluginError(TypedDict):
    """A plugin that failed, as `init` reports it."""

    plugin: str
    type: str
    message: str
    path: NotRequired[str]


FastModeState: TypeAlias = Literal["off", "cooldown", "on"]
"""Whether fast mode is on."""


FastModeDisabledReason: TypeAlias = Literal[
    "free",
    "preference",
    "extra_usage_disabled",
    "network_error",
    "unknown",
    "not_first_party",
    "disabled_by_env",
    "model_not_allowed",
    "sdk_opt_in_required",
    "pending",
]
"""Why fast mode is not available."""


class SystemInitData(TypedDict):
    """The `data` of the message with the subtype `init`."""

    type: Literal["system"]
    subtype: Literal["init"]
    uuid: str
    session_id: str
    agents: NotRequired[list[str]]
    apiKeySource: str
    betas: NotRequired[list[str]]
    claude_code_version: str
    cwd: str
    tools: list[str]
    mcp_servers: list[SystemInitMcpServer]
    model: str
    permissionMode: PermissionMode
    slash_commands: list[str]
    terminal_slash_commands: NotRequired[list[str]]
    output_style: str
    skills: list[str]
    plugins: list[SystemInitPlugin]
    plugin_errors: NotRequired[list[SystemInitPluginError]]
    fast_mode_state: NotRequired[FastModeState]
    fast_mode_disabled_reason: NotRequired[FastModeDisabledReason]
    capabilities: NotRequired[list[str]]


class TaskUsage(TypedDict):
    """What a task has used."""

    total_tokens: int
    tool_uses: int
    duration_ms: int


TaskNotificationStatus: TypeAlias = Literal["completed", "failed", "stopped"]
"""How a task ended, in its notification."""


TaskUpdatedStatus: TypeAlias = Literal["pending", "running", "paused", "completed", "failed", "killed"]
"""The status of a task, in an update."""


TERMINAL_TASK_STATUSES: frozenset[str] = frozenset({"completed", "failed", "stopped", "killed"})
"""The statuses of a task that has ended."""


@dataclass
class TaskStartedMessage(SystemMessage):
    """A background task started."""

    task_id: str
    description: str
    uuid: str
    session_id: str
    tool_use_id: str | None = None
    task_type: str | None = None


@dataclass
class TaskProgressMessage(SystemMessage):
    """A background task made progress."""

    task_id: str
    description: str
    usage: TaskUsage
    uuid: str
    session_id: str
    tool_use_id: str | None = None
    last_tool_name: str | None = None


@dataclass
class TaskNotificationMessage(SystemMessage):
    """A background task ended."""

    task_id: str
    status: TaskNotificationStatus
    output_file: str
    summary: str
    uuid: str
    session_id: str
    tool_use_id: str | None = None
    usage: TaskUsage | None = None


@dataclass
class TaskUpdatedMessage(SystemMessage):
    """A background task changed; `patch` has what changed."""

    task_id: str
    patch: JSONObject
    status: TaskUpdatedStatus | None = None
    session_id: str | None = None
    uuid: str | None = None


@dataclass
class MirrorErrorMessage(SystemMessage):
    """The session store failed."""

    key: SessionKey | None = None
    error: str = ""


@dataclass
class DeferredToolUse:
    """A call that a hook left to the program."""

    id: str
    name: str
    input: JSONObject


class ModelUsage(TypedDict):
    """What one model has used."""

    inputTokens: int
    outputTokens: int
    cacheReadInputTokens: int
    cacheCreationInputTokens: int
    webSearchRequests: int
    costUSD: float
    contextWindow: int
    maxOutputTokens: int
    canonicalModel: NotRequired[str]
    provider: NotRequired[str]


@dataclass
class ResultMessage:
    """The end of a turn."""

    subtype: str
    duration_ms: int
    duration_api_ms: int
    is_error: bool
    num_turns: int
    session_id: str
    stop_reason: str | None = None
    total_cost_usd: float | None = None
    usage: JSONObject | None = None
    result: str | None = None
    structured_output: Any = None
    model_usage: dict[str, ModelUsage] | None = None
    permission_denials: list[Any] | None = None
    deferred_tool_use: DeferredToolUse | None = None
    errors: list[str] | None = None
    api_error_status: int | None = None
    uuid: str | None = None
    terminal_reason: str | None = None
    origin: MessageOrigin | None = None
    user_message_uuid: str | None = None
    user_message_uuids: list[str] | None = None


@dataclass
class StreamEvent:
    """An event of the API, while the answer is made."""

    uuid: str
    session_id: str
    event: JSONObject
    parent_tool_use_id: str | None = None
    user_message_uuid: str | None = None
    user_message_uuids: list[str] | None = None


RateLimitStatus: TypeAlias = Literal["allowed", "allowed_warning", "rejected"]
"""Whether requests pass a rate limit."""


RateLimitType: TypeAlias = Literal["five_hour", "seven_day", "seven_day_opus", "seven_day_sonnet", "overage"]
"""The window of a rate limit."""


@dataclass
class RateLimitInfo:
    """A limit of the account; `raw` has all fields."""

    status: RateLimitStatus
    resets_at: int | None = None
    rate_limit_type: RateLimitType | None = None
    utilization: float | None = None
    overage_status: RateLimitStatus | None = None
    overage_resets_at: int | None = None
    overage_disabled_reason: str | None = None
    raw: JSONObject = field(default_factory=dict)


@dataclass
class RateLimitEvent:
    """The state of a limit changed."""

    rate_limit_info: RateLimitInfo
    uuid: str
    session_id: str


@dataclass
class ConversationResetMessage:
    """The conversation began anew."""

    new_conversation_id: str
    uuid: str
    session_id: str


@dataclass
class HookEventMessage(SystemMessage):
    """A hook of the settings started or ended."""

    hook_event_name: str = ""
    session_id: str | None = None
    uuid: str | None = None


Message: TypeAlias = (
    UserMessage
    | AssistantMessage
    | SystemMessage
    | ResultMessage
    | StreamEvent
    | RateLimitEvent
    | ConversationResetMessage
)
"""Everything that a session yields."""
