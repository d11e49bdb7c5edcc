"""What a session can be told before it starts: `ClientOptions` and the values that it holds.

`client_options` is the model, `values` what its options hold, `checks` how single values are read and what goes
together, `output_shape` how a type becomes a JSON Schema and back. What an option means to the CLI stands in
`launch/table.py`.
"""

from claude_agent_py.lazy_names import LazyNames

# fmt: off
with LazyNames(globals()):
    from claude_agent_py.options.client_options import (
        ClientOptions as ClientOptions, DIALOG_KINDS as DIALOG_KINDS, OptionsWarning as OptionsWarning,
    )
    from claude_agent_py.options.values import (
        Limits as Limits, PluginConfig as PluginConfig,
        SYSTEM_PROMPT_DYNAMIC_BOUNDARY as SYSTEM_PROMPT_DYNAMIC_BOUNDARY, SystemPrompt as SystemPrompt,
        SystemPromptFile as SystemPromptFile, SystemPromptPreset as SystemPromptPreset,
        SystemPromptText as SystemPromptText, ThinkingAdaptive as ThinkingAdaptive, ThinkingConfig as ThinkingConfig,
        ThinkingDisabled as ThinkingDisabled, ThinkingEnabled as ThinkingEnabled, Timeouts as Timeouts,
    )
    from claude_agent_py.wire.sandbox import SandboxSettings as SandboxSettings
    from claude_agent_py.wire.mcp import (
        MCPHTTPServer as MCPHTTPServer, MCPSSEServer as MCPSSEServer, MCPStdioServer as MCPStdioServer,
        MCPToolPolicy as MCPToolPolicy,
    )
    from claude_agent_py.wire.choices import SettingSource as SettingSource
    from claude_agent_py.wire.catalog import EffortLevel as EffortLevel
