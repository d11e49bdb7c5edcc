"""The table of options: the CLI flag, environment variable or field of `initialize` that each becomes.

Long or secret values are a field, never a flag: the command line is limited in length and readable by every user of
the machine. Options that are only used in this process are listed, too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from claude_agent_py._base.json_object import JSONObject
from claude_agent_py._version import __version__
from claude_agent_py.observe.telemetry import resolve_telemetry
from claude_agent_py.options.client_options import ClientOptions
from claude_agent_py.options.delegation import definitions, guide_text
from claude_agent_py.options.fields import DIALOG_KINDS, is_any_given
from claude_agent_py.options.output_shape import OutputShape
from claude_agent_py.options.values import (
    SystemPromptFile,
    SystemPromptPreset,
    SystemPromptText,
    ThinkingDisabled,
    ThinkingEnabled,
)

Kind: TypeAlias = Literal["flag", "variable", "field", "settings", "start", "here"]
"""What an option becomes: a command line flag, a variable of the environment, a field of `initialize` (sent through
stdin) or a part of the settings (passed in a file that only this user can read). `start`: it only matters for starting
the program. `here`: it is used in this process."""


class Row:
    """A flag, variable or field of the CLI, or another use of an option."""

    def __init__(
        self,
        kind: Kind,
        name: str,
        *reads: str,
        value: Callable[[ClientOptions], object] | None = None,
        when_long: str | None = None,
    ) -> None:
        self.kind = kind
        self.name = name
        """Its name in the CLI, or what the option is used for."""
        self.reads = reads
        """The options that it depends on; the first is the one that errors name."""
        self.value: Callable[[ClientOptions], Any] = value or (lambda options: getattr(options, reads[0]) or None)
        """Returns the value for the CLI, or None to leave it out. True is a bare flag; a list repeats the flag for each
        item. The default is the option itself, left out if it is False or empty."""
        self.when_long = when_long
        """The destination of lists that are too long for the command line: a field of `initialize`, or `settings`."""


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
    "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS": "1",  # reports when a run has ended; see `_journal/router.py`
}


REMINDER: Final = "criticalSystemReminder_EXPERIMENTAL"
"""A field of agents that the CLI (2.1.328) accepts and never delivers. Hooks deliver it, see `DelegationHooks`."""


# Values ---------------------------------------------------------------------------------------------------------------


def _join(names: Iterable[str] | None) -> str | None:
    return ",".join(names or ()) or None


def _path(path: str | os.PathLike[str] | None) -> str | None:
    return None if path is None else str(Path(path).expanduser().absolute())


def _asker(options: ClientOptions) -> str | None:
    """Return whom the CLI asks for permission: a tool, this process (`stdio`), or None for its default."""
    if options.permission_prompt_tool_name:
        return options.permission_prompt_tool_name
    return "stdio" if options.asks_host and options.permission_prompts != "none" else None


def _tools_to_disallow(options: ClientOptions) -> str | None:
    """Return the disallowed tools, plus the asking tools without a handler.

    The CLI offers its three asking tools as soon as it can send the host any question.
    """
    refused = list(options.disallowed_tools)
    if options.asks_host:
        # An allowed question still lacks its answer, so `can_use_tool` is not enough.
        if not is_any_given(options.on_question, options.interactions):
            refused.append("AskUserQuestion")
        # A plan is only allowed or denied, which `can_use_tool` can do as well.
        if not is_any_given(options.on_plan, options.can_use_tool, options.interactions):
            refused += ["EnterPlanMode", "ExitPlanMode"]
    return _join(dict.fromkeys(refused))


def _tools_to_allow(options: ClientOptions) -> str | None:
    by_skill = ["Skill"] if options.skills == "all" else [f"Skill({name})" for name in options.skills or ()]
    return _join(dict.fromkeys([*options.allowed_tools, *by_skill]))


def _tools(options: ClientOptions) -> str | None:
    tools = options.tools
    if tools is None or isinstance(tools, str):
        return tools
    return ",".join(tools)  # empty means no tools


def _thinking(options: ClientOptions) -> str | None:
    thinking = options.thinking
    if thinking is None or (isinstance(thinking, ThinkingEnabled) and thinking.budget_tokens is not None):
        return None
    return "disabled" if isinstance(thinking, ThinkingDisabled) else "adaptive"


def _thinking_tokens(options: ClientOptions) -> int | None:
    thinking = options.thinking
    return thinking.budget_tokens if isinstance(thinking, ThinkingEnabled) else options.max_thinking_tokens


def _part(option: str, field: str) -> Callable[[ClientOptions], object]:
    """Return a function that reads a field of an option whose value has it."""
    return lambda options: getattr(getattr(options, option), field, None)


def _prompt_text(options: ClientOptions) -> list[str] | None:
    if not isinstance(options.system_prompt, SystemPromptText):
        return None
    text = options.system_prompt.text
    return [text] if isinstance(text, str) else text or [""]


def _prompt_file(options: ClientOptions) -> str | None:
    return _path(options.system_prompt.path) if isinstance(options.system_prompt, SystemPromptFile) else None


def _prompt_addition(options: ClientOptions) -> str | None:
    appended = options.system_prompt.append if isinstance(options.system_prompt, SystemPromptPreset) else None
    return "\n\n".join(text for text in (appended, guide_text(options)) if text) or None


def _schema(options: ClientOptions) -> Mapping[str, object] | None:
    if options.output_type is None:
        return options.output_format or None
    return OutputShape(options.output_type).schema


def _agents(options: ClientOptions) -> JSONObject | None:
    agents = {name: agent.to_wire() for name, agent in definitions(options).items()}
    for agent in agents.values():
        agent.pop(REMINDER, None)
    return agents or None


def _servers(options: ClientOptions) -> JSONObject | None:
    given = options.mcp_servers if isinstance(options.mcp_servers, Mapping) else {}
    return {name: server.to_wire() for name, server in given.items() if hasattr(server, "to_wire")} or None


def _forwards_text(options: ClientOptions) -> bool | None:
    """Telemetry shows each answer of a subagent. The session hides those that the user did not ask for."""
    return options.forward_subagent_text or resolve_telemetry(options.telemetry) is not None or None


def _dialog_kinds(options: ClientOptions) -> list[str] | None:
    if options.on_user_dialog is None:
        return None
    kinds = options.supported_dialog_kinds
    return list(DIALOG_KINDS if kinds is None else kinds) or None


def _setting_sources(options: ClientOptions) -> str | None:
    """Return the sources; none with a private home, where the CLI would treat the user's `.claude` as a project's."""
    if options.setting_sources is None and not options.home:
        return None
    return ",".join(options.setting_sources or ())


def _plugins(plugins: Iterable[Any], *, skip_mcp: bool) -> list[str | None] | None:
    return [_path(plugin.path) for plugin in plugins if plugin.skip_mcp_discovery is skip_mcp] or None


# The table ------------------------------------------------------------------------------------------------------------

HANDLERS: Final = ("can_use_tool", "on_question", "on_plan", "interactions", "permission_prompts")
"""The options on which `ClientOptions.asks_host` depends."""

TABLE: Final[tuple[Row, ...]] = (
    # The program
    Row("start", "finds the program", "cli_path"),
    Row("start", "starts the program there", "cwd"),
    Row("start", "makes the environment", "env"),
    Row("start", "makes the environment", "inherit_env"),
    Row("start", "makes the environment", "home"),
    Row("start", "makes the environment", "login"),
    Row("start", "starts the program as", "user"),
    Row("start", "starts the program", "spawn"),
    Row("variable", "CLAUDE_AGENT_SDK_CLIENT_APP", "client_app"),
    Row("flag", "--debug", "debug"),
    Row("flag", "--debug-file", "debug_file", value=lambda o: _path(o.debug_file)),
    Row("start", "your own flags", "extra_args"),
    Row("here", "time limits", "timeouts"),
    Row("here", "handling of late tasks", "late_tasks"),
    Row("here", "memory and process limits", "limits"),
    # The model
    Row("flag", "--model", "model"),
    Row("flag", "--fallback-model", "fallback_model", value=lambda o: _join(o.fallback_model)),
    Row("flag", "--thinking", "thinking", value=_thinking),
    Row("flag", "--max-thinking-tokens", "thinking", "max_thinking_tokens", value=_thinking_tokens),
    Row("flag", "--thinking-display", "thinking", value=_part("thinking", "display")),
    Row("flag", "--effort", "effort"),
    Row("flag", "--max-turns", "max_turns"),
    Row("flag", "--max-budget-usd", "max_budget_usd"),
    Row("flag", "--task-budget", "task_budget"),
    Row("flag", "--betas", "betas", value=lambda o: _join(o.betas)),
    # Prompts and instructions
    Row("field", "systemPrompt", "system_prompt", value=_prompt_text),
    Row("flag", "--system-prompt-file", "system_prompt", value=_prompt_file),
    Row("field", "appendSystemPrompt", "system_prompt", "delegation_guide", "agents", value=_prompt_addition),
    Row("field", "excludeDynamicSections", "system_prompt", value=_part("system_prompt", "exclude_dynamic_sections")),
    Row("field", "systemPromptSnapshot", "system_prompt", value=_part("system_prompt", "snapshot")),
    Row("field", "planModeInstructions", "plan_mode_instructions"),
    Row("field", "title", "title"),
    # Tools
    Row("flag", "--tools", "tools", value=_tools),
    Row("flag", "--allowedTools", "allowed_tools", "skills", value=_tools_to_allow, when_long="settings"),
    Row(
        "flag",
        "--disallowedTools",
        "disallowed_tools",
        *HANDLERS,
        value=_tools_to_disallow,
        when_long="disallowedTools",
    ),
    Row("field", "toolAliases", "tool_aliases"),
    Row("field", "skills", "skills", value=lambda o: None if o.skills == "all" else o.skills),
    Row("here", "a server in this process", "custom_tools"),
    Row("field", "mcpServers", "mcp_servers", value=_servers),
    Row(
        "flag",
        "--mcp-config",
        "mcp_servers",
        value=lambda o: _path(o.mcp_servers) if isinstance(o.mcp_servers, Path) else None,
    ),
    Row("flag", "--strict-mcp-config", "strict_mcp_config"),
    Row("variable", "CLAUDE_CODE_ENABLE_TODO_TOOLS", "task_list_tools"),
    Row("variable", "CLAUDE_CODE_QUESTION_PREVIEW_FORMAT", "question_preview_format"),
    Row("flag", "--plugin-dir", "plugins", value=lambda o: _plugins(o.plugins, skip_mcp=False)),
    Row("flag", "--plugin-dir-no-mcp", "plugins", value=lambda o: _plugins(o.plugins, skip_mcp=True)),
    # Permissions and hooks
    Row("flag", "--permission-mode", "permission_mode"),
    Row("flag", "--permission-prompt-tool", *HANDLERS, "permission_prompt_tool_name", value=_asker),
    Row("flag", "--permission-prompts", "permission_prompts"),
    Row("flag", "--allow-dangerously-skip-permissions", "allow_dangerously_skip_permissions"),
    Row("here", "answers MCP servers", "on_elicitation"),
    Row("here", "answers MCP servers in this process", "on_sampling"),
    Row("field", "supportedDialogKinds", "supported_dialog_kinds", "on_user_dialog", value=_dialog_kinds),
    Row("here", "`hooks` of `initialize`, made when the session starts", "hooks"),
    Row(
        "flag", "--add-dir", "additional_directories", value=lambda o: list(map(str, o.additional_directories)) or None
    ),
    Row("settings", "sandbox", "sandbox"),
    # Subagents and background tasks
    Row("field", "agents", "agents", value=_agents),
    # Without this variable the CLI (2.1.328) ignores the field `observer` of an agent.
    Row(
        "variable",
        "CLAUDE_CODE_EXPERIMENTAL_OBSERVER_AGENTS",
        "agents",
        value=lambda o: any(agent.observer for agent in definitions(o).values()) or None,
    ),
    Row("flag", "--agent", "agent"),
    Row("field", "forwardSubagentText", "forward_subagent_text", "telemetry", value=_forwards_text),
    Row("field", "forwardNestedSubagentToolCalls", "forward_nested_subagent_tool_calls"),
    Row("field", "agentProgressSummaries", "agent_progress_summaries"),
    Row("field", "appendSubagentSystemPrompt", "append_subagent_system_prompt"),
    # Without this variable the CLI (2.1.328) ignores the text.
    Row(
        "variable",
        "CLAUDE_CODE_ENABLE_APPEND_SUBAGENT_PROMPT",
        "append_subagent_system_prompt",
        value=lambda o: bool(o.append_subagent_system_prompt) or None,
    ),
    Row("variable", "CLAUDE_CODE_MAX_SUBAGENT_SPAWN_DEPTH", "max_subagent_depth"),
    Row("variable", "CLAUDE_CODE_MAX_CONCURRENT_SUBAGENTS", "max_concurrent_subagents"),
    Row("field", "perTaskStopAffordance", "per_task_stop_affordance"),
    # Listeners
    Row("here", "callback", "on_task_notification"),
    Row("here", "callback", "on_task_event"),
    Row("here", "callback", "on_stderr"),
    Row("here", "OpenTelemetry", "telemetry"),
    # Output
    Row("field", "jsonSchema", "output_format", "output_type", value=_schema),
    Row("flag", "--include-partial-messages", "include_partial_messages"),
    Row("flag", "--include-hook-events", "include_hook_events"),
    Row("field", "promptSuggestions", "prompt_suggestions"),
    Row("here", "`client_composed` of every prompt", "verbatim_prompts"),
    # Sessions and settings
    Row("flag", "--resume", "resume"),
    Row("flag", "--continue", "continue_conversation"),
    Row("flag", "--session-id", "session_id"),
    Row("flag", "--fork-session", "fork_session"),
    Row("flag", "--resume-session-at", "resume_session_at"),
    Row("flag", "--resume-drops-turn", "resume_drops_turn"),
    Row("variable", "CLAUDE_CODE_RESUME_INTERRUPTED_TURN", "resume_interrupted_turn"),
    Row(
        "variable",
        "CLAUDE_CODE_RESUME_SHOWS_CUT_OFF_CALLS",
        "resume_interrupted_turn",
        "show_cut_off_calls",
        value=lambda o: (o.resume_interrupted_turn and o.show_cut_off_calls) or None,
    ),
    Row("flag", "--no-session-persistence", "persist_session", value=lambda o: not o.persist_session or None),
    Row(
        "flag",
        "--session-mirror",
        "session_mirror",
        "session_store",
        value=lambda o: o.session_mirror or o.session_store is not None or None,
    ),
    Row("here", "the project in the store", "session_store_project"),
    Row("here", "mirrors to the store", "session_store_flush"),
    Row("here", "calls of the store", "load_timeout"),
    Row("here", "callback", "on_store_error"),
    Row(
        "variable",
        "CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING",
        "enable_file_checkpointing",
        value=lambda o: "true" if o.enable_file_checkpointing else None,
    ),
    Row("flag", "--setting-sources", "setting_sources", "home", value=_setting_sources),
    Row("settings", "settings", "settings"),
    Row("field", "managedSettings", "managed_settings"),
    Row("flag", "--project-config-root", "project_config_root", value=lambda o: _path(o.project_config_root)),
)


BY_DEFAULT: Final = frozenset({"perTaskStopAffordance", "forwardSubagentText"})
"""The names of the rows that may have a value for the CLI although their options are at their defaults."""


def rows_with_values(kind: Kind, options: ClientOptions) -> Iterator[tuple[Row, Any]]:
    """Yield the rows of a kind that have a value for the CLI, with their values."""
    for row in _rows(kind, frozenset(options.model_fields_set)):
        value = row.value(options)
        if value is not None:
            yield row, value


@lru_cache
def _rows(kind: Kind, given: frozenset[str]) -> list[Row]:
    """Return the rows of a kind that may have a value when these options are given."""
    rows = [row for row in TABLE if row.kind == kind]
    return [row for row in rows if not given.isdisjoint(row.reads) or row.name in BY_DEFAULT]


def options_of_the_start(options: ClientOptions) -> list[str]:
    """Return the options set here that the CLI can only have from its command line, environment or settings file."""
    default = ClientOptions()
    changed = {name for name in options.model_fields_set if getattr(options, name) != getattr(default, name)}
    rows = [
        row
        for row in TABLE
        if row.kind == "start" or (row.kind not in ("field", "here") and row.value(options) is not None)
    ]
    return list(dict.fromkeys(name for row in rows for name in row.reads if name in changed))


DEFAULT_CLIENT_APP: Final = f"claude-agent-py/{__version__}"
