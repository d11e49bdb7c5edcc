"""The reply to `initialize`, apart from the other `replies` because every session needs it."""

from typing import Literal

from msgspec import field

from claude_agent_py.wire.base import FrameModel, Number, Open
from claude_agent_py.wire.messages.catalog import AccountInfo, AgentInfo, ModelInfo, SlashCommand
from claude_agent_py.wire.messages.modes import PermissionMode
from claude_agent_py.wire.messages.usage import FastModeState


class InitializeReply(FrameModel):
    """The CLI's version and state, and the commands, agents and models that it offers."""

    commands: list[SlashCommand] = field(default_factory=list)
    agents: list[AgentInfo] = field(default_factory=list)
    """Compare these with the agents you sent: the CLI drops all of them if one is invalid."""
    models: list[ModelInfo] = field(default_factory=list)
    unavailable_models: list[ModelInfo] | None = None
    account: AccountInfo | None = None
    output_style: str = ""
    available_output_styles: list[str] = field(default_factory=list)
    user_output_styles_dir: str | None = None
    current_model: str | None = None
    current_permission_mode: PermissionMode | None = None
    session_state: Open[Literal["idle", "running", "requires_action"]] | None = None
    claude_code_version: str | None = None
    pid: Number | None = None
    """Process id of the CLI."""
    capabilities: list[str] | None = None
    """Names of features that this CLI supports, for example `background_tasks_moves_bash_v1`."""
    fast_mode_state: FastModeState | None = None
    fast_mode_disabled_reason: str | None = None
    hooks_applied: bool | None = None
    hook_on_failure_supported: bool | None = None
    plugins_applied: bool | None = None
    mcp_servers_applied: bool | None = None
    settings_applied: bool | None = None
    managed_settings_applied: bool | None = None
    disallowed_tools_applied: bool | None = None
    workspace_trust_recorded: bool | None = None
    sdk_mcp_manifests_parked: dict[str, str] | None = None
