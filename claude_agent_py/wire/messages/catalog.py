"""Commands, agents, models, plugins, MCP servers and accounts, as messages and control replies describe them."""

import re
from typing import ClassVar, Final, Literal, TypeAlias

from msgspec import field

from claude_agent_py.wire.base import CamelModel, DiscreetModel, JSONObject, Number, Open, WireModel

EffortLevel: TypeAlias = Open[Literal["low", "medium", "high", "xhigh", "max"]]
"""How much the model thinks."""
APIKeySource: TypeAlias = Open[
    Literal[
        "ANTHROPIC_API_KEY",
        "apiKeyHelper",
        "/login managed key",
        "none",
        "user",
        "project",
        "org",
        "temporary",
        "oauth",
    ]
]
"""Where the CLI found the login."""
MCPServerState: TypeAlias = Open[Literal["connected", "failed", "needs-auth", "pending", "disabled"]]
"""Whether an MCP server is connected."""


_TYPED: Final = re.compile(r"/(?P<name>[^\s\ufeff]*)")
"""A command at the beginning of a prompt. For the CLI, U+FEFF is a space."""


class SlashCommand(CamelModel):
    """A slash command or a skill."""

    name: str
    description: str = ""
    argument_hint: str = ""
    aliases: list[str] | None = None
    builtin: bool | None = None

    def is_run_by(self, prompt: str) -> bool:
        """Return whether the CLI runs this command for a prompt, which begins with `/` and its name or an alias."""
        typed = _TYPED.match(prompt)
        return typed is not None and typed["name"] in (self.name, *(self.aliases or ()))


class AgentInfo(WireModel):
    """An agent type that the model can start as a subagent."""

    name: str
    description: str = ""
    model: str | None = None


class ModelInfo(CamelModel):
    """A model available to the session."""

    value: str
    """The name to pass to `set_model`."""
    display_name: str = ""
    description: str = ""
    resolved_model: str | None = None
    supports_effort: bool | None = None
    supported_effort_levels: list[EffortLevel] | None = None
    supports_adaptive_thinking: bool | None = None
    supports_fast_mode: bool | None = None
    supports_auto_mode: bool | None = None
    supports_thinking_off: bool | None = None


APIProvider: TypeAlias = Open[
    Literal["firstParty", "bedrock", "vertex", "foundry", "anthropicAws", "anthropicGoogleCloud", "mantle", "gateway"]
]
"""Who serves the API."""


class AccountInfo(CamelModel):
    """The account or key that requests are made with."""

    email: str | None = None
    organization: str | None = None
    subscription_type: str | None = None
    token_source: str | None = None
    api_key_source: APIKeySource | None = None
    api_provider: APIProvider | None = None


class PluginInfo(WireModel):
    """A loaded plugin."""

    name: str
    path: str = ""
    source: str | None = None
    version: str | None = None


class PluginLock(WireModel):
    """A plugin enabled or disabled by managed settings."""

    name: str
    plugin_enabled: bool = False
    marketplace: str | None = None


class PluginError(WireModel):
    """A plugin that failed to load."""

    plugin: str
    type: str = ""
    message: str = ""
    path: str | None = None
    managed_lock: PluginLock | None = None


class MCPServerSummary(WireModel):
    """Name and state of an MCP server."""

    name: str
    status: MCPServerState = ""
    source: str | None = None


class MCPServerVersion(WireModel):
    """The name and version that an MCP server reports."""

    name: str = ""
    version: str = ""


class MCPToolAnnotations(CamelModel):
    """Hints from an MCP tool about its effects."""

    read_only: bool | None = None
    destructive: bool | None = None
    open_world: bool | None = None


class MCPToolInfo(WireModel):
    """A tool of an MCP server."""

    name: str
    description: str | None = None
    annotations: MCPToolAnnotations | None = None
    meta: JSONObject | None = field(default=None, name="_meta")


class MCPServerStatus(DiscreetModel, rename="camel"):
    """The state, configuration and tools of an MCP server."""

    HIDDEN: ClassVar[tuple[str, ...]] = ("config",)

    name: str
    status: MCPServerState
    server_info: MCPServerVersion | None = None
    error: str | None = None
    error_code: str | None = field(default=None, name="error_code")
    config: JSONObject | None = None
    transport: str | None = None
    scope: str | None = None
    source: str | None = None
    tools: list[MCPToolInfo] | None = None
    tool_count: Number | None = None


class SettingsError(WireModel):
    """An error in a settings file."""

    path: str
    message: str
    file: str | None = None
