"""What a session can be told before it starts: `ClientOptions` and the values that it holds.

`client_options` is the model, `values` what its options hold, `checks` how single values are read and what goes
together, `output_shape` how a type becomes a JSON Schema and back. What an option means to the CLI stands in
`launch/table.py`.
"""

from claude_agent_py.options.client_options import (
    DIALOG_KINDS,
    ClientOptions,
    OptionsWarning,
    is_any_given,
    options_or_defaults,
)
from claude_agent_py.options.values import (
    SYSTEM_PROMPT_DYNAMIC_BOUNDARY,
    Limits,
    PluginConfig,
    SystemPrompt,
    SystemPromptFile,
    SystemPromptPreset,
    SystemPromptText,
    ThinkingAdaptive,
    ThinkingConfig,
    ThinkingDisabled,
    ThinkingEnabled,
    Timeouts,
)
from claude_agent_py.wire.sandbox import SandboxSettings

__all__ = [
    "DIALOG_KINDS",
    "SYSTEM_PROMPT_DYNAMIC_BOUNDARY",
    "ClientOptions",
    "Limits",
    "OptionsWarning",
    "PluginConfig",
    "SandboxSettings",
    "SystemPrompt",
    "SystemPromptFile",
    "SystemPromptPreset",
    "SystemPromptText",
    "ThinkingAdaptive",
    "ThinkingConfig",
    "ThinkingDisabled",
    "ThinkingEnabled",
    "Timeouts",
    "is_any_given",
    "options_or_defaults",
]
