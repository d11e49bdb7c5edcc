"""`ClientOptions` and its values, what they mean for the CLI's process, and finding and installing the CLI.

`options/table.py` maps the options to the CLI's flags and fields.
"""

from typing import TYPE_CHECKING

from claude_agent_py._base.lazy_names import attach

if TYPE_CHECKING:
    from claude_agent_py._base.errors import OptionsError as OptionsError, OptionsWarning as OptionsWarning
    from claude_agent_py.options.client_options import (
        ClientOptions as ClientOptions,
        options_or_defaults as options_or_defaults,
        refuse_options as refuse_options,
    )
    from claude_agent_py.options.fields import DIALOG_KINDS as DIALOG_KINDS
    from claude_agent_py.options.secrets import find_secrets as find_secrets
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
    from claude_agent_py.options.variables import environment as environment
    from claude_agent_py.transport.install import find_installed as find_installed, install_cli as install_cli
    from claude_agent_py.transport.locate import (
        cache_folder as cache_folder,
        find_cli as find_cli,
        user_folder as user_folder,
    )
    from claude_agent_py.wire.messages.catalog import EffortLevel as EffortLevel
    from claude_agent_py.wire.settings.choices import (
        ChosenPermissionMode as ChosenPermissionMode,
        SettingSource as SettingSource,
    )
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
        "claude_agent_py.options.variables": "environment",
        "claude_agent_py.transport.install": "find_installed install_cli",
        "claude_agent_py.transport.locate": "cache_folder find_cli user_folder",
        "claude_agent_py.options.secrets": "find_secrets",
        "claude_agent_py.options.client_options": "ClientOptions options_or_defaults refuse_options",
        "claude_agent_py.options.fields": "DIALOG_KINDS",
        "claude_agent_py.options.values": """
            SYSTEM_PROMPT_DYNAMIC_BOUNDARY Limits PluginConfig SystemPrompt SystemPromptFile SystemPromptPreset
            SystemPromptText ThinkingAdaptive ThinkingConfig ThinkingDisabled ThinkingEnabled Timeouts
        """,
        "claude_agent_py.wire.messages.catalog": "EffortLevel",
        "claude_agent_py.wire.settings.choices": "ChosenPermissionMode SettingSource",
        "claude_agent_py.wire.settings.mcp_servers": "MCPHTTPServer MCPSSEServer MCPStdioServer MCPToolPolicy",
        "claude_agent_py.wire.settings.sandbox": "SandboxSettings",
    }
    __getattr__, __dir__ = attach(__name__, _NAMES)
