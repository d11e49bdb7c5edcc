"""The values that options of the official SDK hold, and the replies about servers and the context window."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NotRequired, TypeAlias, TypedDict

from claude_agent_py.wire import JSONObject

PermissionMode: TypeAlias = Literal["default", "acceptEdits", "plan", "bypassPermissions", "dontAsk", "auto"]
"""What runs without asking."""


SdkBeta: TypeAlias = Literal["context-1m-2025-08-07"]
"""A beta feature of the API."""


SettingSource: TypeAlias = Literal["user", "project", "local"]
"""A settings file that a session reads."""


EffortLevel: TypeAlias = Literal["low", "medium", "high", "xhigh", "max"]
"""How much the model thinks."""


class SystemPromptPreset(TypedDict):
    """The CLI's own system prompt, with additions."""

    type: Literal["preset"]
    preset: Literal["claude_code"]
    append: NotRequired[str]
    exclude_dynamic_sections: NotRequired[bool]
    snapshot: NotRequired[bool]


class SystemPromptCustom(TypedDict):
    """A custom system prompt."""

    type: Literal["custom"]
    prompt: str
    snapshot: NotRequired[bool]


class SystemPromptFile(TypedDict):
    """A system prompt in a file."""

    type: Literal["file"]
    path: str


class TaskBudget(TypedDict):
    """A number of tokens that the model sees."""

    total: int


class ToolsPreset(TypedDict):
    """The CLI's default tools."""

    type: Literal["preset"]
    preset: Literal["claude_code"]


@dataclass
class AgentDefinition:
    """A subagent that the model can start."""

    description: str
    prompt: str = field(repr=False)
    tools: list[str] | None = None
    disallowedTools: list[str] | None = None
    model: str | None = None
    skills: list[str] | None = None
    memory: Literal["user", "project", "local"] | None = None
    mcpServers: list[str | JSONObject] | None = field(default=None, repr=False)
    initialPrompt: str | None = field(default=None, repr=False)
    maxTurns: int | None = None
    background: bool | None = None
    effort: EffortLevel | int | None = None
    permissionMode: PermissionMode | None = None


PermissionUpdateDestination: TypeAlias = Literal["userSettings", "projectSettings", "localSettings", "session"]
"""The settings that an update of permissions changes."""


PermissionBehavior: TypeAlias = Literal["allow", "deny", "ask"]
"""What a permission rule does."""


@dataclass
class PermissionRuleValue:
    """A rule about a tool; without content, about all its calls."""

    tool_name: str
    rule_content: str | None = None


_NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    "addRules": ("rules", "behavior"),
    "replaceRules": ("rules", "behavior"),
    "removeRules": ("rules", "behavior"),
    "setMode": ("mode",),
    "addDirectories": ("directories",),
    "removeDirectories": ("directories",),
}
"""The fields that each type of update has on the wire."""


@dataclass
class PermissionUpdate:
    """A change of the permission rules, the mode or the directories."""

    type: Literal["addRules", "replaceRules", "removeRules", "setMode", "addDirectories", "removeDirectories"]
    rules: list[PermissionRuleValue] | None = None
    behavior: PermissionBehavior | None = None
    mode: PermissionMode | None = None
    directories: list[str] | None = None
    destination: PermissionUpdateDestination | None = None

    def to_dict(self) -> JSONObject:
        """Return the update as it is on the wire. Without a destination it is for this session.

        Raises:
            ValueError: The type is unknown, or a field that it needs is None. The CLI would drop all updates.
        """
        if self.type not in _NEEDED:
            raise ValueError(
                f"PermissionUpdate has the type {self.type!r}, which this version cannot send; "
                f"it must be one of {', '.join(_NEEDED)}"
            )
        wire: JSONObject = {"type": self.type, "destination": self.destination or "session"}
        for name in _NEEDED[self.type]:
            wire[name] = getattr(self, name)
            if wire[name] is None:
                raise ValueError(f"PermissionUpdate(type={self.type!r}) has no {name}")
        if self.rules is not None and "rules" in wire:
            wire["rules"] = [_rule_to_wire(rule) for rule in self.rules]
        return wire

    @classmethod
    def from_dict(cls, data: JSONObject) -> "PermissionUpdate":
        """Return the update that a dict of the wire describes."""
        fields = {name: data.get(name) for name in ("behavior", "mode", "directories", "destination")}
        rules = data.get("rules")
        if rules is not None:
            rules = [PermissionRuleValue(rule["toolName"], rule.get("ruleContent")) for rule in rules]
        return cls(type=data["type"], rules=rules, **fields)


def _rule_to_wire(rule: PermissionRuleValue) -> dict[str, str]:
    content = {} if rule.rule_content is None else {"ruleContent": rule.rule_content}
    return {"toolName": rule.tool_name, **content}


@dataclass
class ToolPermissionContext:
    """The third argument of `can_use_tool`. `signal` is None."""

    signal: Any | None = None
    suggestions: list[PermissionUpdate] = field(default_factory=list)
    tool_use_id: str | None = None
    agent_id: str | None = None
    blocked_path: str | None = None
    decision_reason: str | None = None
    title: str | None = None
    display_name: str | None = None
    description: str | None = None


@dataclass
class PermissionResultAllow:
    """Let the tool run."""

    behavior: Literal["allow"] = "allow"
    updated_input: JSONObject | None = None
    updated_permissions: list[PermissionUpdate] | None = None


@dataclass
class PermissionResultDeny:
    """Do not let the tool run."""

    behavior: Literal["deny"] = "deny"
    message: str = ""
    interrupt: bool = False


PermissionResult: TypeAlias = PermissionResultAllow | PermissionResultDeny
"""The decision on a tool call."""


CanUseTool: TypeAlias = Callable[[str, JSONObject, ToolPermissionContext], Awaitable[PermissionResult]]
"""Decides on a tool call: the tool's name, its input, and the context."""


class McpStdioServerConfig(TypedDict):
    """A server that the CLI starts."""

    type: NotRequired[Literal["stdio"]]
    command: str
    args: NotRequired[list[str]]
    env: NotRequired[dict[str, str]]


class McpSSEServerConfig(TypedDict):
    """A server that the CLI reaches with SSE."""

    type: Literal["sse"]
    url: str
    headers: NotRequired[dict[str, str]]


class McpHttpServerConfig(TypedDict):
    """A server that the CLI reaches with HTTP."""

    type: Literal["http"]
    url: str
    headers: NotRequired[dict[str, str]]


class McpSdkServerConfig(TypedDict):
    """A server in this process."""

    type: Literal["sdk"]
    name: str
    instance: Any


McpServerConfig: TypeAlias = McpStdioServerConfig | McpSSEServerConfig | McpHttpServerConfig | McpSdkServerConfig
"""The configuration of an MCP server."""


class McpSdkServerConfigStatus(TypedDict):
    """A server in this process, as the CLI reports it."""

    type: Literal["sdk"]
    name: str


class McpClaudeAIProxyServerConfig(TypedDict):
    """A connector of claude.ai."""

    type: Literal["claudeai-proxy"]
    url: str
    id: str


McpServerStatusConfig: TypeAlias = (
    McpStdioServerConfig
    | McpSSEServerConfig
    | McpHttpServerConfig
    | McpSdkServerConfigStatus
    | McpClaudeAIProxyServerConfig
)
"""The configuration of an MCP server, as the CLI reports it."""


class McpToolAnnotations(TypedDict, total=False):
    """Hints about a server's tool."""

    readOnly: bool
    destructive: bool
    openWorld: bool


class McpToolInfo(TypedDict):
    """A server's tool."""

    name: str
    description: NotRequired[str]
    annotations: NotRequired[McpToolAnnotations]


class McpServerInfo(TypedDict):
    """The name and version that a server gives."""

    name: str
    version: str


McpServerConnectionStatus: TypeAlias = Literal["connected", "failed", "needs-auth", "pending", "disabled"]
"""Whether an MCP server is connected."""


class McpServerStatus(TypedDict):
    """The state of a server."""

    name: str
    status: McpServerConnectionStatus
    serverInfo: NotRequired[McpServerInfo]
    error: NotRequired[str]
    config: NotRequired[McpServerStatusConfig]
    scope: NotRequired[str]
    tools: NotRequired[list[McpToolInfo]]


class McpStatusResponse(TypedDict):
    """The states of all servers."""

    mcpServers: list[McpServerStatus]


class ContextUsageCategory(TypedDict):
    """A part of the context window."""

    name: str
    tokens: int
    color: str
    isDeferred: NotRequired[bool]


class ContextUsageResponse(TypedDict):
    """What fills the context window."""

    categories: list[ContextUsageCategory]
    totalTokens: int
    maxTokens: int
    rawMaxTokens: int
    percentage: float
    model: str
    isAutoCompactEnabled: bool
    memoryFiles: list[JSONObject]
    mcpTools: list[JSONObject]
    agents: list[JSONObject]
    gridRows: list[list[JSONObject]]
    autoCompactThreshold: NotRequired[int]
    deferredBuiltinTools: NotRequired[list[JSONObject]]
    systemTools: NotRequired[list[JSONObject]]
    systemPromptSections: NotRequired[list[JSONObject]]
    slashCommands: NotRequired[JSONObject]
    skills: NotRequired[JSONObject]
    messageBreakdown: NotRequired[JSONObject]
    apiUsage: NotRequired[JSONObject | None]


class SdkPluginConfig(TypedDict):
    """A plugin on this machine."""

    type: Literal["local"]
    path: str


class SandboxNetworkConfig(TypedDict, total=False):
    """The network of the sandbox."""

    allowedDomains: list[str]
    deniedDomains: list[str]
    allowManagedDomainsOnly: bool
    allowUnixSockets: list[str]
    allowAllUnixSockets: bool
    allowLocalBinding: bool
    allowMachLookup: list[str]
    httpProxyPort: int
    socksProxyPort: int


SandboxIgnoreViolations: TypeAlias = dict[str, list[str]]
"""Violations of the sandbox that are not reported, by command."""


class SandboxSettings(TypedDict, total=False):
    """The sandbox that shell commands run in."""

    enabled: bool
    autoAllowBashIfSandboxed: bool
    excludedCommands: list[str]
    allowUnsandboxedCommands: bool
    network: SandboxNetworkConfig
    ignoreViolations: SandboxIgnoreViolations
    enableWeakerNestedSandbox: bool


SessionStoreFlushMode: TypeAlias = Literal["batched", "eager"]
"""When entries are written to a session store: at the end of a turn, or at once."""


ThinkingDisplay: TypeAlias = Literal["summarized", "omitted"]
"""Whether thinking is returned as a summary or left out."""


class ThinkingConfigAdaptive(TypedDict):
    """The model decides how much it thinks."""

    type: Literal["adaptive"]
    display: NotRequired[ThinkingDisplay]


class ThinkingConfigEnabled(TypedDict):
    """The model thinks within a budget."""

    type: Literal["enabled"]
    budget_tokens: int
    display: NotRequired[ThinkingDisplay]


class ThinkingConfigDisabled(TypedDict):
    """The model does not think."""

    type: Literal["disabled"]


ThinkingConfig: TypeAlias = ThinkingConfigAdaptive | ThinkingConfigEnabled | ThinkingConfigDisabled
"""Whether and how much the model thinks."""
