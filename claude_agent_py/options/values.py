"""The values that options hold: timeouts, limits, system prompts, thinking, plugins.

They also accept the dicts of the official SDKs.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field, StrictBool

from claude_agent_py._base.configuration import ConfigModel, snake_case
from claude_agent_py._base.json_object import JSONObject
from claude_agent_py.options.readers import items

SYSTEM_PROMPT_DYNAMIC_BOUNDARY: Final = "__SYSTEM_PROMPT_DYNAMIC_BOUNDARY__"
"""A separator block in a system prompt: the blocks before it are the same for all sessions, so that they can be cached;
the blocks after it are specific to this session."""

Seconds: TypeAlias = Annotated[float, Field(gt=0, strict=True)]
Bytes: TypeAlias = Annotated[int, Field(gt=0, strict=True)]
Count: TypeAlias = Annotated[int, Field(ge=0, strict=True)]
MEBIBYTE: Final = 1024 * 1024


class Timeouts(ConfigModel):
    """Time limits, in seconds; None means no limit."""

    connect: Seconds | None = 60.0
    """From the start of the program to its reply to `initialize`. A program that exits earlier fails immediately."""
    first_message: Seconds | None = None
    """From the prompt to the first output of the model. Status messages of the CLI do not count."""
    silence: Seconds | None = None
    """Without progress in a run: content, tool calls and results, task events. Status pings do not count."""
    run: Seconds | None = None
    """From the prompt to the end of its run."""
    idle: Seconds | None = None
    """With `until="idle"`: how long a run waits for background tasks without progress, such as a turn, a task event or
    a question to a person. Unless set, 600 for `query`, `run`, `run_sync`, pools and child agents, and no limit for a
    `Client`. On expiry the run ends without an error; `ClientOptions.late_tasks` decides what happens to the remaining
    tasks."""
    control: Seconds | None = 60.0
    """From a control request to its reply."""
    close: Seconds = 10.0
    """How long `close()` waits for the program before killing it."""


class Limits(ConfigModel):
    """Limits on memory and on child processes."""

    max_line_bytes: Bytes = 256 * MEBIBYTE
    """A longer line of the CLI is dropped and reported as a `MalformedFrame`; the session continues. Lines of many
    megabytes are normal: a file that the model writes is one line."""
    mailbox_bytes: Bytes = 64 * MEBIBYTE
    """How many bytes of messages may wait in memory for one reader. Beyond 4 MiB they wait in a temporary file; this is
    the limit for those that the file cannot take."""
    unclaimed_messages: Count = 1000
    """How many messages outside of runs are kept for the first reader of `client.messages()`."""
    stderr_bytes: Bytes = 64 * 1024
    """How many bytes of the end of the CLI's stderr are kept for error messages."""
    child_depth: Count = 3
    """How deep child agents may be nested: 0 allows none, 1 allows children, 2 allows their children."""
    child_processes: Annotated[int, Field(gt=0, strict=True)] = 4
    """How many child processes run at once in each generation; others wait. (Per generation, because a child that waits
    for its children must not keep them from starting.) A process takes 100 to 200 MB."""
    child_total: Count = 100
    """How many child agents a client may start in total, over all generations."""


# The system prompt ----------------------------------------------------------------------------------------------------


class SystemPromptText(ConfigModel):
    """A custom system prompt, instead of the CLI's."""

    text: Annotated[str | list[str], Field(repr=False)]
    """The prompt, or its blocks. One block may be `SYSTEM_PROMPT_DYNAMIC_BOUNDARY`."""
    snapshot: StrictBool | None = None
    """False: a resumed session uses this prompt. By default it keeps its original prompt."""


class SystemPromptPreset(ConfigModel):
    """The CLI's own system prompt, with additions."""

    append: Annotated[str | None, Field(repr=False)] = None
    """Text appended to the prompt."""
    exclude_dynamic_sections: StrictBool | None = None
    """True: move the parts that differ between machines (directory, git status, memory) into the first user message, so
    that the prompt can be cached for many users."""
    snapshot: StrictBool | None = None
    """See `SystemPromptText`."""


class SystemPromptFile(ConfigModel):
    """A custom system prompt that the CLI reads from a file."""

    path: Path
    snapshot: StrictBool | None = None
    """See `SystemPromptText`."""


SystemPrompt: TypeAlias = SystemPromptText | SystemPromptPreset | SystemPromptFile
"""The forms of the option `system_prompt`; a text is a `SystemPromptText`."""
_PROMPT_KINDS: Final[Mapping[str, type[SystemPrompt]]] = {
    "custom": SystemPromptText,
    "preset": SystemPromptPreset,
    "file": SystemPromptFile,
}
_ONLY_PRESET: Final = "claude_code"


def read_system_prompt(value: object) -> SystemPrompt:
    """Read a system prompt from text, blocks or an official SDK's dict."""
    if isinstance(value, str):
        return SystemPromptText(text=value)
    if isinstance(value, Mapping):
        return _prompt_from_dict(dict(value))
    if isinstance(value, Sequence):
        return SystemPromptText(text=list(value))
    if isinstance(value, SystemPrompt):
        return value
    raise ValueError(f"must be text, blocks of text or a SystemPrompt..., not {type(value).__name__}")


def _prompt_from_dict(value: JSONObject) -> SystemPrompt:
    kind = value.pop("type", None)
    if not isinstance(kind, str) or kind not in _PROMPT_KINDS:  # not shown: it may be the text of the prompt
        raise ValueError(f"must have a type: {', '.join(_PROMPT_KINDS)}")
    if kind == "preset" and value.pop("preset", _ONLY_PRESET) != _ONLY_PRESET:
        raise ValueError(f"must be {_ONLY_PRESET!r}, the only preset")
    if kind == "custom" and "prompt" in value:
        value["text"] = value.pop("prompt")
    return _PROMPT_KINDS[kind](**{snake_case(name): field for name, field in value.items()})


# Thinking -------------------------------------------------------------------------------------------------------------

ThinkingDisplay: TypeAlias = Literal["summarized", "omitted"]


class ThinkingAdaptive(ConfigModel):
    """The model decides how much it thinks, guided by `effort`. The default of models that support it."""

    display: ThinkingDisplay | None = None


class ThinkingEnabled(ConfigModel):
    """The model thinks within a budget. For older models."""

    budget_tokens: Annotated[int, Field(ge=1, strict=True)] | None = None
    """None is the same as `ThinkingAdaptive`."""
    display: ThinkingDisplay | None = None


class ThinkingDisabled(ConfigModel):
    """The model does not think before it answers."""


ThinkingConfig: TypeAlias = ThinkingAdaptive | ThinkingEnabled | ThinkingDisabled
"""The forms of the option `thinking`."""
_THINKING_KINDS: Final[Mapping[str, type[ThinkingConfig]]] = {
    "adaptive": ThinkingAdaptive,
    "enabled": ThinkingEnabled,
    "disabled": ThinkingDisabled,
}


def read_thinking(value: object) -> ThinkingConfig:
    """Read a thinking configuration: from its name, from an official SDK's dict, or as is."""
    if isinstance(value, ThinkingConfig):
        return value
    fields: JSONObject = dict(value) if isinstance(value, Mapping) else {"type": value}
    kind = fields.pop("type", None)
    if not isinstance(kind, str) or kind not in _THINKING_KINDS:
        raise ValueError("must be ThinkingAdaptive(), ThinkingEnabled() or ThinkingDisabled()")
    return _THINKING_KINDS[kind](**{snake_case(name): field for name, field in fields.items()})


# Other values ---------------------------------------------------------------------------------------------------------


class PluginConfig(ConfigModel):
    """A plugin on this machine."""

    path: Path
    """Its directory or `.zip`."""
    skip_mcp_discovery: StrictBool = False
    """Do not start the MCP servers of the plugin."""


def read_plugins(value: object) -> list[PluginConfig]:
    """Read a list of plugins: values, paths, or an official SDK's dicts."""
    return [_plugin(plugin) for plugin in items(value)]


def _plugin(value: object) -> PluginConfig:
    if isinstance(value, PluginConfig):
        return value
    if isinstance(value, Mapping):
        fields = {snake_case(name): field for name, field in value.items()}
        if fields.pop("type", "local") != "local":
            raise ValueError("must hold plugins of type 'local', the only supported type")
        return PluginConfig(**fields)
    if isinstance(value, str | Path) and str(value).strip():
        return PluginConfig(path=Path(value))
    raise ValueError("must hold paths of plugins")
