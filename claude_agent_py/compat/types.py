"""The types of the official SDK: `claude_agent_sdk.types`."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from claude_agent_py.compat.hook_types import *
from claude_agent_py.compat.hook_types import HookEvent, HookMatcher
from claude_agent_py.compat.message_types import *
from claude_agent_py.compat.option_types import *
from claude_agent_py.compat.option_types import (
    AgentDefinition,
    CanUseTool,
    EffortLevel,
    McpServerConfig,
    PermissionMode,
    SandboxSettings,
    SdkBeta,
    SdkPluginConfig,
    SessionStoreFlushMode,
    SettingSource,
    SystemPromptCustom,
    SystemPromptFile,
    SystemPromptPreset,
    TaskBudget,
    ThinkingConfig,
    ToolsPreset,
)
from claude_agent_py.compat.sessions import SDKSessionInfo as SDKSessionInfo, SessionMessage as SessionMessage
from claude_agent_py.sessions import (
    SessionKey as SessionKey,
    SessionListSubkeysKey as SessionListSubkeysKey,
    SessionStoreEntry as SessionStoreEntry,
    SessionStoreListEntry as SessionStoreListEntry,
    SessionSummaryEntry as SessionSummaryEntry,
)
from claude_agent_py.wire import JSONObject


class CanUseToolShadowedWarning(UserWarning):
    """Other options decide about tools before `can_use_tool` is asked."""


@runtime_checkable
class SessionStore(Protocol):
    """A store of transcripts. `append` and `load` are required."""

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Append entries to a transcript."""
        ...

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """Return the entries of a transcript, or None."""
        ...

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """Return the sessions of a project."""
        raise NotImplementedError

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """Return the summaries of a project's sessions."""
        raise NotImplementedError

    async def delete(self, key: SessionKey) -> None:
        """Delete a session or one of its transcripts."""
        raise NotImplementedError

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """Return the subpaths of a session's other transcripts."""
        raise NotImplementedError


@dataclass
class ClaudeAgentOptions:
    """The options of a session. Nothing is checked before the session starts.

    A repr shows no prompts, settings, servers and variables.
    """

    tools: list[str] | ToolsPreset | None = None
    allowed_tools: list[str] = field(default_factory=list)
    system_prompt: str | SystemPromptPreset | SystemPromptCustom | SystemPromptFile | None = field(
        default=None, repr=False
    )
    mcp_servers: dict[str, McpServerConfig] | str | Path = field(default_factory=dict, repr=False)
    strict_mcp_config: bool = False
    permission_mode: PermissionMode | None = None
    continue_conversation: bool = False
    resume: str | None = None
    session_id: str | None = None
    max_turns: int | None = None
    max_budget_usd: float | None = None
    disallowed_tools: list[str] = field(default_factory=list)
    model: str | None = None
    fallback_model: str | None = None
    betas: list[SdkBeta] = field(default_factory=list)
    permission_prompt_tool_name: str | None = None
    cwd: str | Path | None = None
    cli_path: str | Path | None = None
    settings: str | None = field(default=None, repr=False)
    add_dirs: list[str | Path] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict, repr=False)
    extra_args: dict[str, str | None] = field(default_factory=dict, repr=False)
    max_buffer_size: int | None = None
    debug_stderr: Any = sys.stderr
    stderr: Callable[[str], None] | None = None
    can_use_tool: CanUseTool | None = None
    hooks: dict[HookEvent, list[HookMatcher]] | None = None
    user: str | None = None
    include_partial_messages: bool = False
    include_hook_events: bool = False
    forward_subagent_text: bool = False
    verbatim_prompts: bool = False
    fork_session: bool = False
    resume_session_at: str | None = None
    resume_drops_turn: str | None = None
    agents: dict[str, AgentDefinition] | None = None
    setting_sources: list[SettingSource] | None = None
    skills: list[str] | Literal["all"] | None = None
    sandbox: SandboxSettings | None = None
    plugins: list[SdkPluginConfig] = field(default_factory=list)
    max_thinking_tokens: int | None = None
    thinking: ThinkingConfig | None = None
    effort: EffortLevel | None = None
    output_format: JSONObject | None = None
    enable_file_checkpointing: bool = False
    session_store: SessionStore | None = None
    session_store_flush: SessionStoreFlushMode = "batched"
    load_timeout_ms: int = 60000
    task_budget: TaskBudget | None = None
    client_app: str | None = None
