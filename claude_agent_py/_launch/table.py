"""The table of options: the CLI flag, environment variable or field of `initialize` that each becomes.

Long or secret values are a `Field`, never a `Flag`: the command line is limited in length and readable by every user of
the machine. Options that are only used in this process are listed, too (`Here`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar

from claude_agent_py._version import __version__
from claude_agent_py.options.client_options import DIALOG_KINDS, ClientOptions, is_any_given
from claude_agent_py.options.delegation import guide_text
from claude_agent_py.options.output_shape import OutputShape
from claude_agent_py.options.values import (
    PluginConfig,
    SystemPrompt,
    SystemPromptFile,
    SystemPromptPreset,
    SystemPromptText,
    ThinkingConfig,
    ThinkingDisabled,
    ThinkingEnabled,
)

if TYPE_CHECKING:
    from claude_agent_py.wire.base import JSONObject

AnyRow = TypeVar("AnyRow", bound="Row")
Encode: TypeAlias = Callable[..., Any]
"""Converts the values of a row's options for the CLI. None and empty collections are left out."""


def _same(value: Any) -> Any:
    return value


def _join(values: Sequence[str]) -> str | None:
    return ",".join(values) or None


def _if_on(switch: object) -> bool | None:
    return bool(switch) or None


class Row:
    """A flag, variable or field of the CLI, and the options that it depends on.

    `options` names one option, or several separated by commas; `encode` is called with their values. With one option
    it is not called for None.
    """

    def __init__(self, name: str, options: str, encode: Encode = _same) -> None:
        self.name = name
        self.option_names: list[str] = options.split(",")
        """The options that it depends on; the first is the one that errors name."""
        self.encode = encode
        self._read: Callable[[ClientOptions], Any] = attrgetter(*self.option_names)

    def value(self, options: ClientOptions) -> Any:
        """Return the value for the CLI, or None to leave it out."""
        given = self._read(options)
        if given is None:
            return None
        encoded = self.encode(given) if len(self.option_names) == 1 else self.encode(*given)
        return None if encoded in ([], (), {}) else encoded


class Flag(Row):
    """A command line flag. True is a bare flag, False leaves it out, a list repeats the flag for each item."""

    def __init__(self, name: str, options: str, encode: Encode = _same, *, when_long: str | None = None) -> None:
        super().__init__(name, options, encode)
        self.when_long = when_long
        """The destination of lists that are too long for the command line: a field of `initialize`, or `settings`."""

    def value(self, options: ClientOptions) -> Any:
        """Return the value of the flag, or None to leave it out."""
        flag = super().value(options)
        return None if flag is False else flag


class Variable(Row):
    """A variable of the environment."""


class Field(Row):
    """A field of `initialize`, which is sent through stdin."""


class PromptAddition(Field):
    """The text appended to the system prompt. Its delegation guide depends on the available tools."""

    def value(self, options: ClientOptions) -> Any:
        """Return the text, or None to leave it out."""
        prompt = options.system_prompt
        appended = prompt.append if isinstance(prompt, SystemPromptPreset) else None
        return "\n\n".join(text for text in (appended, guide_text(options)) if text) or None


class Settings(Row):
    """A part of the settings, which are passed in a file that only this user can read."""


class Here(Row):
    """An option that is used in this process. `name` says what for."""


class Start(Row):
    """An option that only matters for starting the program. `name` says what for."""


class Awaited(NamedTuple):
    """The requirements of a field that the CLI has to read before it starts up."""

    confirmed_by: str
    """The field of the reply that confirms it."""
    flags: tuple[str, ...] = ()
    """Flags in addition to `--await-initialize`."""


AWAITED: Final[Mapping[str, Awaited]] = {
    "mcpServers": Awaited("mcp_servers_applied"),
    "managedSettings": Awaited("managed_settings_applied", ("--managed-settings-in-initialize",)),
    "disallowedTools": Awaited("disallowed_tools_applied", ("--initialize-fields=disallowedTools",)),
}

ALWAYS_FLAGS: Final = ("--output-format=stream-json", "--verbose", "--input-format=stream-json")

ALWAYS_VARIABLES: Final[Mapping[str, str]] = {
    "CLAUDE_CODE_ENTRYPOINT": "sdk-py",
    "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS": "1",  # reports when a run has ended; see `_protocol/turns.py`
}


REMINDER: Final = "criticalSystemReminder_EXPERIMENTAL"
"""A field of agents that the CLI (2.1.328) accepts and never delivers. Hooks deliver it, see `DelegationHooks`."""


# Encoders -------------------------------------------------------------------------------------------------------------


def _asker(
    can_use_tool: Any, on_question: Any, on_plan: Any, interactions: Any, prompts: str | None, tool_name: str | None
) -> str | None:
    """Return what the CLI asks for permissions: a tool, this process (`stdio`), or None for nobody."""
    if tool_name:
        return tool_name
    if prompts == "none":
        return None
    is_host_asked = prompts == "host" or is_any_given(can_use_tool, on_question, on_plan, interactions)
    return "stdio" if is_host_asked else None


def _tools_to_disallow(
    disallowed: Iterable[str], can_use_tool: Any, on_question: Any, on_plan: Any, interactions: Any, prompts: str | None
) -> str | None:
    """Return the disallowed tools, plus the asking tools without a handler.

    The CLI offers its three asking tools as soon as it can send the host any question.
    """
    refused = list(disallowed)
    if prompts == "host" or is_any_given(can_use_tool, on_question, on_plan):
        # An allowed question still lacks its answer, so `can_use_tool` is not enough.
        if not is_any_given(on_question, interactions):
            refused.append("AskUserQuestion")
        # A plan is only allowed or denied, which `can_use_tool` can do as well.
        if not is_any_given(on_plan, can_use_tool, interactions):
            refused += ["EnterPlanMode", "ExitPlanMode"]
    return _join(list(dict.fromkeys(refused)))


def _tools_to_allow(allowed: Iterable[str], skills: Sequence[str] | str | None) -> str | None:
    by_skill = ["Skill"] if skills == "all" else [f"Skill({name})" for name in skills or ()]
    return _join(list(dict.fromkeys([*allowed, *by_skill])))


def _tools(tools: Sequence[str] | str) -> str:
    return tools if isinstance(tools, str) else ",".join(tools)  # empty means no tools


def _thinking(thinking: ThinkingConfig) -> str | None:
    if isinstance(thinking, ThinkingEnabled) and thinking.budget_tokens is not None:
        return None
    return "disabled" if isinstance(thinking, ThinkingDisabled) else "adaptive"


def _thinking_tokens(thinking: ThinkingConfig | None, older: int | None) -> int | None:
    return thinking.budget_tokens if isinstance(thinking, ThinkingEnabled) else older


def _thinking_display(thinking: ThinkingConfig) -> str | None:
    return None if isinstance(thinking, ThinkingDisabled) else thinking.display


def _prompt_text(prompt: SystemPrompt) -> list[str] | None:
    if not isinstance(prompt, SystemPromptText):
        return None
    return [prompt.text] if isinstance(prompt.text, str) else prompt.text or [""]


def _prompt_file(prompt: SystemPrompt) -> str | None:
    return str(prompt.path.expanduser().absolute()) if isinstance(prompt, SystemPromptFile) else None


def _excludes_dynamic(prompt: SystemPrompt) -> bool | None:
    return prompt.exclude_dynamic_sections if isinstance(prompt, SystemPromptPreset) else None


def _snapshot(prompt: SystemPrompt) -> bool | None:
    return prompt.snapshot


def _schema(output_format: JSONObject | None, output_type: Any) -> JSONObject | None:
    return output_format if output_type is None else OutputShape(output_type).schema


def _skill_names(skills: Sequence[str] | str) -> list[str] | None:
    return None if isinstance(skills, str) else list(skills)


def _agents(agents: Mapping[str, Any]) -> JSONObject:
    wire_agents = {name: agent.to_wire() for name, agent in agents.items()}
    for agent in wire_agents.values():
        agent.pop(REMINDER, None)
    return wire_agents


def _observes(agents: Mapping[str, Any]) -> str | None:
    return "1" if any(agent.observer for agent in agents.values()) else None


def _servers(servers: Mapping[str, Any] | Path) -> JSONObject:
    given = {} if isinstance(servers, Path) else servers
    return {name: server.to_wire() for name, server in given.items() if hasattr(server, "to_wire")}


def _dialog_kinds(kinds: Sequence[str] | None, on_user_dialog: Any) -> list[str] | None:
    return list(DIALOG_KINDS if kinds is None else kinds) if is_any_given(on_user_dialog) else None


def _setting_sources(sources: Sequence[str] | None, home: Path | bool | None) -> str | None:
    """Return the sources; none with a private home.

    The CLI would treat the user's `.claude` as a project's there.
    """
    return ",".join(sources or ()) if sources is not None or home else None


def _path(path: Path) -> str:
    return str(path.expanduser().absolute())


def _plugins_with_mcp(plugins: Iterable[PluginConfig]) -> list[str]:
    return [_path(plugin.path) for plugin in plugins if not plugin.skip_mcp_discovery]


def _plugins_without_mcp(plugins: Iterable[PluginConfig]) -> list[str]:
    return [_path(plugin.path) for plugin in plugins if plugin.skip_mcp_discovery]


def _paths(paths: Iterable[Path]) -> list[str]:
    return [str(path) for path in paths]


# The table ------------------------------------------------------------------------------------------------------------

TABLE: Final[tuple[Row, ...]] = (
    # The program
    Start("finds the program", "cli_path"),
    Start("starts the program there", "cwd"),
    Start("makes the environment", "env"),
    Start("makes the environment", "inherit_env"),
    Start("makes the environment", "home"),
    Start("makes the environment", "login"),
    Start("starts the program as", "user"),
    Start("starts the program", "spawn"),
    Variable("CLAUDE_AGENT_SDK_CLIENT_APP", "client_app", _same),
    Flag("--debug", "debug"),
    Flag("--debug-file", "debug_file", _path),
    Start("your own flags", "extra_args"),
    Here("time limits", "timeouts"),
    Here("handling of late tasks", "late_tasks"),
    Here("memory and process limits", "limits"),
    # The model
    Flag("--model", "model"),
    Flag("--fallback-model", "fallback_model", _join),
    Flag("--thinking", "thinking", _thinking),
    Flag("--max-thinking-tokens", "thinking,max_thinking_tokens", _thinking_tokens),
    Flag("--thinking-display", "thinking", _thinking_display),
    Flag("--effort", "effort"),
    Flag("--max-turns", "max_turns"),
    Flag("--max-budget-usd", "max_budget_usd"),
    Flag("--task-budget", "task_budget"),
    Flag("--betas", "betas", _join),
    # Prompts and instructions
    Field("systemPrompt", "system_prompt", _prompt_text),
    Flag("--system-prompt-file", "system_prompt", _prompt_file),
    PromptAddition("appendSystemPrompt", "system_prompt,delegation_guide,agents"),
    Field("excludeDynamicSections", "system_prompt", _excludes_dynamic),
    Field("systemPromptSnapshot", "system_prompt", _snapshot),
    Field("planModeInstructions", "plan_mode_instructions"),
    Field("title", "title"),
    # Tools
    Flag("--tools", "tools", _tools),
    Flag("--allowedTools", "allowed_tools,skills", _tools_to_allow, when_long="settings"),
    Flag(
        "--disallowedTools",
        "disallowed_tools,can_use_tool,on_question,on_plan,interactions,permission_prompts",
        _tools_to_disallow,
        when_long="disallowedTools",
    ),
    Field("toolAliases", "tool_aliases"),
    Field("skills", "skills", _skill_names),
    Here("a server in this process", "custom_tools"),
    Field("mcpServers", "mcp_servers", _servers),
    Flag("--mcp-config", "mcp_servers", lambda servers: _path(servers) if isinstance(servers, Path) else None),
    Flag("--strict-mcp-config", "strict_mcp_config"),
    Variable("CLAUDE_CODE_ENABLE_TODO_TOOLS", "task_list_tools", _if_on),
    Variable("CLAUDE_CODE_QUESTION_PREVIEW_FORMAT", "question_preview_format"),
    Flag("--plugin-dir", "plugins", _plugins_with_mcp),
    Flag("--plugin-dir-no-mcp", "plugins", _plugins_without_mcp),
    # Permissions and hooks
    Flag("--permission-mode", "permission_mode"),
    Flag(
        "--permission-prompt-tool",
        "can_use_tool,on_question,on_plan,interactions,permission_prompts,permission_prompt_tool_name",
        _asker,
    ),
    Flag("--permission-prompts", "permission_prompts"),
    Flag("--allow-dangerously-skip-permissions", "allow_dangerously_skip_permissions"),
    Here("answers MCP servers", "on_elicitation"),
    Field("supportedDialogKinds", "supported_dialog_kinds,on_user_dialog", _dialog_kinds),
    Here("`hooks` of `initialize`, made when the session starts", "hooks"),
    Flag("--add-dir", "additional_directories", _paths),
    Settings("sandbox", "sandbox"),
    # Subagents and background tasks
    Field("agents", "agents", _agents),
    # Without this variable the CLI (2.1.328) ignores the field `observer` of an agent.
    Variable("CLAUDE_CODE_EXPERIMENTAL_OBSERVER_AGENTS", "agents", _observes),
    Flag("--agent", "agent"),
    Field("forwardSubagentText", "forward_subagent_text", _if_on),
    Field("forwardNestedSubagentToolCalls", "forward_nested_subagent_tool_calls", _if_on),
    Field("agentProgressSummaries", "agent_progress_summaries", _if_on),
    Field("appendSubagentSystemPrompt", "append_subagent_system_prompt"),
    # Without this variable the CLI (2.1.328) ignores the text.
    Variable("CLAUDE_CODE_ENABLE_APPEND_SUBAGENT_PROMPT", "append_subagent_system_prompt", _if_on),
    Variable("CLAUDE_CODE_MAX_SUBAGENT_SPAWN_DEPTH", "max_subagent_depth", str),
    Variable("CLAUDE_CODE_MAX_CONCURRENT_SUBAGENTS", "max_concurrent_subagents", str),
    Field("perTaskStopAffordance", "per_task_stop_affordance", _if_on),
    # Listeners
    Here("callback", "on_task_notification"),
    Here("callback", "on_task_event"),
    Here("callback", "on_stderr"),
    Here("OpenTelemetry", "telemetry"),
    # Output
    Field("jsonSchema", "output_format,output_type", _schema),
    Flag("--include-partial-messages", "include_partial_messages"),
    Flag("--include-hook-events", "include_hook_events"),
    Field("promptSuggestions", "prompt_suggestions", _if_on),
    Here("`client_composed` of every prompt", "verbatim_prompts"),
    # Sessions and settings
    Flag("--resume", "resume"),
    Flag("--continue", "continue_conversation"),
    Flag("--session-id", "session_id"),
    Flag("--fork-session", "fork_session"),
    Flag("--resume-session-at", "resume_session_at"),
    Flag("--resume-drops-turn", "resume_drops_turn"),
    Variable("CLAUDE_CODE_RESUME_INTERRUPTED_TURN", "resume_interrupted_turn", _if_on),
    Variable(
        "CLAUDE_CODE_RESUME_SHOWS_CUT_OFF_CALLS",
        "resume_interrupted_turn,show_cut_off_calls",
        lambda resumes, shows: _if_on(resumes and shows),
    ),
    Flag("--no-session-persistence", "persist_session", lambda persists: not persists),
    Flag("--session-mirror", "session_mirror,session_store", lambda on, store: on or store is not None or None),
    Here("the project in the store", "session_store_project"),
    Here("mirrors to the store", "session_store_flush"),
    Here("calls of the store", "load_timeout"),
    Here("callback", "on_store_error"),
    Variable(
        "CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING", "enable_file_checkpointing", lambda on: "true" if on else None
    ),
    Flag("--setting-sources", "setting_sources,home", _setting_sources),
    Settings("settings", "settings"),
    Field("managedSettings", "managed_settings"),
    Flag("--project-config-root", "project_config_root", _path),
)


BY_DEFAULT: Final = frozenset({"perTaskStopAffordance"})
"""The names of the rows that have a value for the CLI although their options are at their defaults."""


def rows_with_values(kind: type[AnyRow], options: ClientOptions) -> Iterator[tuple[AnyRow, Any]]:
    """Yield the rows of a kind that have a value for the CLI, with their values."""
    for row in _rows(kind, frozenset(options.model_fields_set)):  # type: ignore[arg-type]
        value = row.value(options)
        if value is not None:
            yield row, value


@lru_cache
def _rows(kind: type[Row], given: frozenset[str]) -> list[Any]:
    """Return the rows of a kind that may have a value when these options are given."""
    rows = [row for row in TABLE if isinstance(row, kind)]
    return [row for row in rows if not given.isdisjoint(row.option_names) or row.name in BY_DEFAULT]


def options_of_the_start(options: ClientOptions) -> list[str]:
    """Return the options set here that the CLI can only have from its command line, environment or settings file."""
    default = ClientOptions()
    changed = {name for name in options.model_fields_set if getattr(options, name) != getattr(default, name)}
    rows = [row for row in TABLE if not isinstance(row, Field | Here)]
    rows = [row for row in rows if isinstance(row, Start) or row.value(options) is not None]
    return list(dict.fromkeys(name for row in rows for name in row.option_names if name in changed))


DEFAULT_CLIENT_APP: Final = f"claude-agent-py/{__version__}"
