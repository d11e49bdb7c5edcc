"""Combine a child's options from its definition, its own options and its parent's.

Without options that say otherwise, a child may do no more than its parent: restrictions, guards and handlers are
inherited; the conversation, tools and agents are not.
"""

import warnings
from collections.abc import Iterable
from typing import Any, Final, get_args

from claude_agent_py._errors import OptionsError, OptionsWarning
from claude_agent_py.agents.definition import AgentDefinition
from claude_agent_py.hooks.matcher import HookMatcher
from claude_agent_py.options.client_options import ClientOptions
from claude_agent_py.options.values import SystemPromptPreset
from claude_agent_py.wire.settings.choices import ChosenPermissionMode

INHERITED: Final = (
    "cli_path",
    "spawn",
    "cwd",
    "env",
    "inherit_env",
    "home",
    "login",
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
"""Options that a child without its own options inherits from its parent."""

ANSWERING: Final = ("can_use_tool", "on_question", "on_plan", "on_elicitation", "on_user_dialog", "interactions")
"""Options that answer for a person. A child with none of them uses its parent's."""

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
"""Events whose hooks a child without its own hooks inherits: those that the CLI also sends for subagents. The others
concern the parent's own turns."""

OF_DEFINITION: Final = ("effort", "max_turns", "permission_mode", "skills")
"""Definition fields that are also options; the CLI does not apply them when the main session is the agent."""

OF_SUBAGENTS: Final = (
    "isolation",
    "omit_claude_md",
    "auto_compact_window",
)
"""Definition fields that only affect subagents (CLI 2.1.328)."""

OF_OBSERVED: Final = ("observer", "observer_message", "observe_subagents", "observe_tool_results")
"""Definition fields that need the definition of an observer."""


def without_effect(definition: AgentDefinition, own: ClientOptions | None) -> list[str]:
    """Return the fields of a definition that have no effect in a separate process with these options."""
    is_observed = any(name in ((own and own.agents) or {}) for name in definition.observer or ())
    fields = OF_SUBAGENTS if is_observed else (*OF_SUBAGENTS, *OF_OBSERVED)
    return [field for field in fields if getattr(definition, field) is not None]


def process_options(
    name: str,
    definition: AgentDefinition,
    own: ClientOptions | None,
    parent: ClientOptions,
    *,
    mode: str | None = None,
    hooks: Iterable[tuple[str, HookMatcher]] = (),
) -> ClientOptions:
    """Return the options of a child's process.

    Args:
        name: The agent's name in its process.
        definition: The agent; takes precedence over options.
        own: The child's own options; None inherits `INHERITED` from the parent.
        parent: The options of its parent.
        mode: The parent's current permission mode, if known.
        hooks: The parent's current hooks.

    Raises:
        OptionsError: The options conflict.
    """
    with warnings.catch_warnings():  # the parent's options have already warned
        warnings.simplefilter("ignore", OptionsWarning)
        given = own or _inherited(parent, mode)
        changes = {
            **_of_definition(name, definition, given),
            **_servers(definition, given, parent),
            **_answering(given, parent),
            **_hooks(given, hooks),
        }
        if "verbatim_prompts" not in given.model_fields_set:
            changes["verbatim_prompts"] = True  # a model wrote the prompt, so `/clear` in it must not run
        return given.replace(**changes)


def _inherited(parent: ClientOptions, mode: str | None) -> ClientOptions:
    taken = {name: getattr(parent, name) for name in INHERITED if name in parent.model_fields_set}
    if mode in get_args(ChosenPermissionMode):  # it may have changed since the parent started
        taken["permission_mode"] = mode
    return ClientOptions(**taken)


def _of_definition(name: str, definition: AgentDefinition, given: ClientOptions) -> dict[str, Any]:
    """Return the changes that run the main session as the agent and keep it from starting itself as a subagent."""
    changes: dict[str, Any] = {
        field: value for field in OF_DEFINITION if (value := getattr(definition, field)) is not None
    }
    if definition.model not in (None, "inherit"):
        changes["model"] = definition.model
        changes["fallback_model"] = [one for one in given.fallback_model or () if one != definition.model] or None
    if not isinstance(given.system_prompt, SystemPromptPreset):
        changes["system_prompt"] = None  # the definition's prompt replaces it
    return changes | {
        "agents": {**(given.agents or {}), name: definition},
        "agent": name,
        "disallowed_tools": [*given.disallowed_tools, f"Agent({name})"],
    }


def _servers(definition: AgentDefinition, given: ClientOptions, parent: ClientOptions) -> dict[str, Any]:
    """Return the given MCP servers, those of the definition, and the parent's servers that the definition names."""
    if not definition.mcp_servers:
        return {}
    known = parent.mcp_servers if isinstance(parent.mcp_servers, dict) else {}
    if not isinstance(given.mcp_servers, dict):
        raise OptionsError("must be a dict: the definition adds servers, which a configuration file cannot hold",
                           option="mcp_servers")  # fmt: skip
    servers = dict(given.mcp_servers)
    for spec in definition.mcp_servers:
        if not isinstance(spec, str):
            servers |= spec
        elif spec in known:
            servers.setdefault(spec, known[spec])
    return {"mcp_servers": servers}


def answers_itself(options: ClientOptions) -> bool:
    """Return whether options have a handler of their own that answers for a person."""
    return any(getattr(options, name) is not None for name in (*ANSWERING, "permission_prompt_tool_name"))


def _answering(given: ClientOptions, parent: ClientOptions) -> dict[str, Any]:
    """Enable the questions that the parent can answer; `relay` forwards them."""
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
