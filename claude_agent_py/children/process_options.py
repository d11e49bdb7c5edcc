"""The options of a child's process: what its definition says, what it was given, and what it takes from its parent.

Owns the tables of what comes from where. A child may do no more than its parent unless it was given options that say
so: restrictions, guards and who is asked are inherited, the conversation, the tools and the agents are not. Pure.
"""

import warnings
from collections.abc import Iterable
from typing import Any, Final, get_args

from claude_agent_py.agents.definition import AgentDefinition
from claude_agent_py.errors import OptionsError
from claude_agent_py.hooks.matcher import HookMatcher
from claude_agent_py.options.client_options import ClientOptions, OptionsWarning
from claude_agent_py.options.values import SystemPromptPreset
from claude_agent_py.wire.choices import ChosenPermissionMode

INHERITED: Final = (
    "cli_path",
    "cwd",
    "env",
    "inherit_env",
    "user",
    "client_app",
    "timeouts",
    "limits",
    "model",
    "fallback_model",
    "thinking",
    "max_thinking_tokens",
    "effort",
    "betas",
    "max_budget_usd",
    "tools",
    "disallowed_tools",
    "allowed_tools",
    "permission_mode",
    "permission_prompts",
    "allow_dangerously_skip_permissions",
    "additional_directories",
    "sandbox",
    "settings",
    "setting_sources",
    "managed_settings",
    "project_config_root",
    "persist_session",
    "strict_mcp_config",
    "max_subagent_depth",
    "max_concurrent_subagents",
    "forward_subagent_text",
    "forward_nested_subagent_tool_calls",
)
"""What a child without options of its own takes from its parent: where and how it works, and what it may do."""

ANSWERING: Final = ("can_use_tool", "on_question", "on_plan", "on_elicitation", "on_user_dialog", "interactions")
"""The options that answer for a person. A child that has none of them asks its parent's."""

INHERITED_HOOKS: Final = frozenset(
    {
        "PreToolUse",
        "PostToolUse",
        "PostToolUseFailure",
        "PostToolBatch",
        "PermissionRequest",
        "PermissionDenied",
        "SubagentStart",
        "SubagentStop",
    }
)
"""The events whose hooks a child without hooks of its own takes from its parent: those that the CLI sends for
subagents, too. The others are about the parent's own turns."""

OF_DEFINITION: Final = ("effort", "max_turns", "permission_mode", "skills")
"""Fields of a definition that the CLI does not apply to a session that *is* the agent, and that are options as well."""

OF_SUBAGENTS: Final = (
    "isolation",
    "omit_claude_md",
    "critical_system_reminder",
    "auto_compact_window",
    "observer",
    "observer_message",
    "observe_subagents",
    "observe_tool_results",
)
"""Fields of a definition that mean something for subagents only (CLI 2.1.328)."""


def without_effect(definition: AgentDefinition) -> list[str]:
    """Give the fields of a definition that will do nothing in a process of its own."""
    unused = [field for field in OF_SUBAGENTS if getattr(definition, field) is not None]
    return [*unused, "effort"] if isinstance(definition.effort, int) else unused


def process_options(
    name: str,
    definition: AgentDefinition,
    own: ClientOptions | None,
    parent: ClientOptions,
    *,
    mode: str | None = None,
    hooks: Iterable[tuple[str, HookMatcher]] = (),
) -> ClientOptions:
    """Put the options of a child together.

    Args:
        name: What the agent is called in its process.
        definition: What it is; what it says wins.
        own: What it was given; None takes what `INHERITED` names from the parent.
        parent: The options of its parent.
        mode: The permission mode that the parent is in now, where that is known.
        hooks: The hooks that the parent has now.

    Raises:
        OptionsError: They do not go together.
    """
    with warnings.catch_warnings():  # what is doubtful about the parent's options was said when they were made
        warnings.simplefilter("ignore", OptionsWarning)
        given = own or _inherited(parent, mode)
        changes = {
            **_of_definition(name, definition, given),
            **_servers(definition, given, parent),
            **_answering(given, parent),
            **_hooks(given, hooks),
        }
        if "verbatim_prompts" not in given.model_fields_set:
            changes["verbatim_prompts"] = True  # a model wrote the prompt: `/clear` in it is no command
        return given.replace(**changes)


def _inherited(parent: ClientOptions, mode: str | None) -> ClientOptions:
    taken = {name: getattr(parent, name) for name in INHERITED if name in parent.model_fields_set}
    if mode in get_args(ChosenPermissionMode):  # it may have changed since the start
        taken["permission_mode"] = mode
    return ClientOptions(**taken)


def _of_definition(name: str, definition: AgentDefinition, given: ClientOptions) -> dict[str, Any]:
    """Make the whole session the agent; it cannot start itself as a subagent."""
    changes: dict[str, Any] = {
        field: value for field in OF_DEFINITION if (value := getattr(definition, field)) is not None
    }
    if isinstance(definition.effort, int):
        del changes["effort"]  # a session has only words for it
    if definition.model not in (None, "inherit"):
        changes["model"] = definition.model
        changes["fallback_model"] = [one for one in given.fallback_model or () if one != definition.model] or None
    if not isinstance(given.system_prompt, SystemPromptPreset):
        changes["system_prompt"] = None  # the definition has the prompt
    return changes | {
        "agents": {**(given.agents or {}), name: definition},
        "agent": name,
        "disallowed_tools": [*given.disallowed_tools, f"Agent({name})"],
    }


def _servers(definition: AgentDefinition, given: ClientOptions, parent: ClientOptions) -> dict[str, Any]:
    """Give the MCP servers: those that were given, those that the definition has, and those of the parent it names."""
    if not definition.mcp_servers:
        return {}
    known = parent.mcp_servers if isinstance(parent.mcp_servers, dict) else {}
    if not isinstance(given.mcp_servers, dict):
        raise OptionsError("give the servers by name: the definition adds some, which a file has no place for",
                           option="mcp_servers")  # fmt: skip
    servers = dict(given.mcp_servers)
    for spec in definition.mcp_servers:
        if not isinstance(spec, str):
            servers |= spec
        elif spec in known:
            servers.setdefault(spec, known[spec])
    return {"mcp_servers": servers}


def answers_itself(options: ClientOptions) -> bool:
    """Tell whether options have anything of their own that answers for a person."""
    return any(getattr(options, name) is not None for name in (*ANSWERING, "permission_prompt_tool_name"))


def _answering(given: ClientOptions, parent: ClientOptions) -> dict[str, Any]:
    """Ask for what the parent can answer; the questions themselves go to it (`relay`)."""
    if answers_itself(given):
        return {}
    return {name: getattr(parent, name) for name in (*ANSWERING, "supported_dialog_kinds", "question_preview_format")}


def _hooks(given: ClientOptions, hooks: Iterable[tuple[str, HookMatcher]]) -> dict[str, Any]:
    if "hooks" in given.model_fields_set:
        return {}
    by_event: dict[str, list[HookMatcher]] = {}
    for event, matcher in hooks:
        if event in INHERITED_HOOKS:
            by_event.setdefault(event, []).append(matcher)
    return {"hooks": by_event} if by_event else {}
