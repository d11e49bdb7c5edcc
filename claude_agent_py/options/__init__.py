"""`ClientOptions` and its values, and `find_cli`. `_launch/table.py` maps the options to the CLI's flags and fields."""

from typing import TYPE_CHECKING

from claude_agent_py._base.lazy_names import attach

if TYPE_CHECKING:
    from claude_agent_py._base.errors import OptionsError as OptionsError, OptionsWarning as OptionsWarning
    from claude_agent_py._launch.locate import find_cli as find_cli
    from claude_agent_py.options.client_options import ClientOptions as ClientOptions
    from claude_agent_py.options.fields import DIALOG_KINDS as DIALOG_KINDS
    from claude_agent_py.options.values import (
        SYSTEM_PROMPT_DYNAMIC_BOUNDARY as SYSTEM_PROMPT_DYNAMIC_BOUNDARY,
        Limits as Limits,
        PluginConfig as PluginConfig,
        SystemPrompt as SystemPrompt,
        SystemPromptFile as SystemPromptFile,
        SystemPromptPreset as SystemPromptPreset,
        SystemPromptText as SystemPromptText,
        ThinkingAdaptive as ThinkingAdaptive,
        ThinkingConfig as ThinkingConfig,
        ThinkingDisabled as ThinkingDisabled,
        ThinkingEnabled as ThinkingEnabled,
        Timeouts as Timeouts,
    )
    from claude_agent_py.wire.messages.catalog import EffortLevel as EffortLevel
    from claude_agent_py.wire.settings.choices import SettingSource as SettingSource
    from claude_agent_py.wire.settings.mcp_servers import (
        MCPHTTPServer as MCPHTTPServer,
        MCPSSEServer as MCPSSEServer,
        MCPStdioServer as MCPStdioServer,
        MCPToolPolicy as MCPToolPolicy,
    )
    from claude_agent_py.wire.settings.sandbox import SandboxSettings as SandboxSettings
else:
    _NAMES = {
        "claude_agent_py._base.errors": "OptionsError OptionsWarning",
        "claude_agent_py._launch.locate": "find_cli",
        "claude_agent_py.options.client_options": "ClientOptions",
        "claude_agent_py.options.fields": "DIALOG_KINDS",
        "claude_agent_py.options.values": """
            SYSTEM_PROMPT_DYNAMIC_BOUNDARY Limits PluginConfig SystemPrompt SystemPromptFile SystemPromptPreset
            SystemPromptText ThinkingAdaptive ThinkingConfig ThinkingDisabled ThinkingEnabled Timeouts
        """,
        "claude_agent_py.wire.messages.catalog": "EffortLevel",
        "claude_agent_py.wire.settings.choices": "SettingSource",
        "claude_agent_py.wire.settings.mcp_servers": "MCPHTTPServer MCPSSEServer MCPStdioServer MCPToolPolicy",
        "claude_agent_py.wire.settings.sandbox": "SandboxSettings",
    }
    __getattr__, __dir__ = attach(__name__, _NAMES)
