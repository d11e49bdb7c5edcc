"""The values that options hold: limits, system prompts, thinking, plugins.

Owns their fields and the official SDKs' dict shapes of the same things, which are read as well. Their twin `options`
has the options themselves; what becomes of a value on the command line is in `launch/`.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import Field, StrictBool

from claude_agent_py.configuration import ConfigModel, snake_case

SYSTEM_PROMPT_DYNAMIC_BOUNDARY: Final = "__SYSTEM_PROMPT_DYNAMIC_BOUNDARY__"
"""A block of a system prompt of its own: what stands before it is the same for all sessions and can be cached for all
of them; what stands after it is this session's."""

Seconds: TypeAlias = Annotated[float, Field(gt=0, strict=True)]
Bytes: TypeAlias = Annotated[int, Field(gt=0, strict=True)]
Count: TypeAlias = Annotated[int, Field(ge=0, strict=True)]
MEBIBYTE: Final = 1024 * 1024


class Timeouts(ConfigModel):
    """How long things may take, in seconds; None is without limit."""

    connect: Seconds | None = 60.0
    """From the start of the program to its answer to `initialize`. A program that ends earlier fails at once."""
    first_message: Seconds | None = None
    """From the prompt to the first that the model says or does. What the CLI says of itself does not count."""
    silence: Seconds | None = None
    """How long a run may make no progress: content, tool traffic, task events. Status pings do not count."""
    run: Seconds | None = None
    """From the prompt to the end of its run."""
    idle: Seconds | None = None
    """With `until="idle"`: from the run's own result on, how long to wait for background tasks. Then the run ends,
    without an error; `ClientOptions.late_tasks` says what becomes of those that still run."""
    control: Seconds | None = 60.0
    """How long the CLI may take to answer a control request."""
    close: Seconds = 10.0
    """How long `close()` waits for the program before it ends it by force."""


class Limits(ConfigModel):
    """How much memory things may take, and how many processes."""

    max_line_bytes: Bytes = 256 * MEBIBYTE
    """A longer line of the CLI is dropped and reported as a `MalformedFrame`; the session goes on. Lines of many
    megabytes are ordinary: a file that the model wrote is one line."""
    mailbox_bytes: Bytes = 64 * MEBIBYTE
    """How much may wait in memory for one reader. More goes to a temporary file, and nothing is lost; while that cannot
    be written, as much again stays in memory."""
    unclaimed_messages: Count = 1000
    """How many messages that belong to no run are kept for the first reader of `client.messages()`."""
    stderr_bytes: Bytes = 64 * 1024
    """How much of the end of the CLI's stderr is kept for errors."""
    child_depth: Count = 3
    """How deep child agents may be nested: 1 allows children, 2 their children, 0 none."""
    child_processes: Annotated[int, Field(gt=0, strict=True)] = 4
    """How many child processes run at once, in each generation; further ones wait for their turn. (A child that waits
    for its children must not keep them from starting.) A process takes 100 to 200 MB."""
    child_total: Count = 100
    """How many children a client may start in its life, all generations together."""


# The system prompt ----------------------------------------------------------------------------------------------------


class SystemPromptText(ConfigModel):
    """A system prompt of your own, instead of the CLI's."""

    text: str | list[str]
    """The prompt, or its blocks. One block may be `SYSTEM_PROMPT_DYNAMIC_BOUNDARY`."""
    snapshot: StrictBool | None = None
    """False: a resumed session uses this prompt. By default it goes on with the one that it began with."""


class SystemPromptPreset(ConfigModel):
    """The CLI's own system prompt, with additions."""

    append: str | None = None
    """Text at its end."""
    exclude_dynamic_sections: StrictBool | None = None
    """True: what differs between machines (directory, git status, memory) goes into the first user message instead, so
    that the prompt can be cached for many users."""
    snapshot: StrictBool | None = None
    """See `SystemPromptText`."""


class SystemPromptFile(ConfigModel):
    """A system prompt of your own, read by the CLI from a file."""

    path: Path
    snapshot: StrictBool | None = None
    """See `SystemPromptText`."""


SystemPrompt: TypeAlias = SystemPromptText | SystemPromptPreset | SystemPromptFile
_PROMPT_KINDS: Final[Mapping[str, type[SystemPrompt]]] = {
    "custom": SystemPromptText,
    "preset": SystemPromptPreset,
    "file": SystemPromptFile,
}
_ONLY_PRESET: Final = "claude_code"


def read_system_prompt(value: Any) -> SystemPrompt:
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


def _prompt_from_dict(value: dict[str, Any]) -> SystemPrompt:
    kind = value.pop("type", None)
    if not isinstance(kind, str) or kind not in _PROMPT_KINDS:  # the text of the prompt may stand there by mistake
        raise ValueError(f"must have a type: {', '.join(_PROMPT_KINDS)}")
    if kind == "preset" and value.pop("preset", _ONLY_PRESET) != _ONLY_PRESET:
        raise ValueError(f"must be the preset {_ONLY_PRESET!r}, the only one there is")
    if kind == "custom" and "prompt" in value:
        value["text"] = value.pop("prompt")
    return _PROMPT_KINDS[kind](**{snake_case(name): field for name, field in value.items()})


# Thinking -------------------------------------------------------------------------------------------------------------

ThinkingDisplay: TypeAlias = Literal["summarized", "omitted"]


class ThinkingAdaptive(ConfigModel):
    """The model decides how much it thinks; `effort` guides it. The default of models that can."""

    display: ThinkingDisplay | None = None


class ThinkingEnabled(ConfigModel):
    """The model thinks within a budget. For older models."""

    budget_tokens: Annotated[int, Field(ge=1, strict=True)] | None = None
    """None is the same as `ThinkingAdaptive`."""
    display: ThinkingDisplay | None = None


class ThinkingDisabled(ConfigModel):
    """The model does not think before it answers."""


ThinkingConfig: TypeAlias = ThinkingAdaptive | ThinkingEnabled | ThinkingDisabled
_THINKING_KINDS: Final[Mapping[str, type[ThinkingConfig]]] = {
    "adaptive": ThinkingAdaptive,
    "enabled": ThinkingEnabled,
    "disabled": ThinkingDisabled,
}


def read_thinking(value: Any) -> ThinkingConfig:
    """Read how to think, also from a word or an official SDK's dict."""
    if isinstance(value, ThinkingConfig):
        return value
    fields: dict[str, Any] = {"type": value} if isinstance(value, str) else {}
    if isinstance(value, Mapping):
        fields = dict(value)
    kind = fields.pop("type", None)
    if not isinstance(kind, str) or kind not in _THINKING_KINDS:
        raise ValueError("must be ThinkingAdaptive(), ThinkingEnabled() or ThinkingDisabled()")
    return _THINKING_KINDS[kind](**{snake_case(name): field for name, field in fields.items()})


# The rest -------------------------------------------------------------------------------------------------------------


class PluginConfig(ConfigModel):
    """A plugin on this machine."""

    path: Path
    """Its directory or `.zip`."""
    skip_mcp_discovery: StrictBool = False
    """Do not start the MCP servers that it brings along."""


def read_plugins(value: Any) -> list[PluginConfig]:
    """Read a list of plugins: values, paths, or an official SDK's dicts."""
    if isinstance(value, str | Mapping) or not isinstance(value, Iterable):
        raise ValueError(f"must be a list, not {type(value).__name__}")
    return [_plugin(one) for one in value]


def _plugin(value: Any) -> PluginConfig:
    if isinstance(value, PluginConfig):
        return value
    if isinstance(value, Mapping):
        fields = {snake_case(name): field for name, field in value.items()}
        if fields.pop("type", "local") != "local":
            raise ValueError("must hold plugins of type 'local', the only one there is")
        return PluginConfig(**fields)
    if isinstance(value, str | Path) and str(value).strip():
        return PluginConfig(path=Path(value))
    raise ValueError("must hold paths of plugins")
