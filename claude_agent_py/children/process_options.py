"""Combine a child's options from its definition, its own options and the parent's options.

By default a child may do no more than its parent: it inherits restrictions, guards and handlers, but not the
conversation, tools and agents.
"""

import warnings
from typing import Final

from claude_agent_py._base.errors import OptionsError, OptionsWarning
from claude_agent_py.agents.definition import AgentDefinition
from claude_agent_py.hooks.matcher import HookMatcher
from claude_agent_py.hooks.registry import Hooks
from claude_agent_py.options.client_options import ClientOptions
from claude_agent_py.options.values import SystemPromptPreset

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
    "tool_aliases",
    "skills",
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
    "on_sampling",
    "max_subagent_depth",
    "max_concurrent_subagents",
    "forward_subagent_text",
    "forward_nested_subagent_tool_calls",
)
"""Options that a child without its own options inherits from its parent. The CLI (2.1.328) refuses the calls of a tool
whose alias is missing, and of skills that `skills` does not name."""

RESTRICTING_FLAGS: Final = frozenset({"bare", "disable-slash-commands", "restricted", "safe-mode"})
"""Flags of `extra_args` that restrict a session and have no option. A child without its own options inherits them."""

ANSWERING: Final = ("can_use_tool", "on_question", "on_plan", "on_elicitation", "on_user_dialog", "interactions")
"""Options that answer for a person. A child without any of them uses the parent's."""

INHERITED_HOOKS: Final = frozenset(
    {
        "PreToolUse",
        "PreSkillShellCommand",
        "PostToolUse",
        "PostToolUseFailure",
        "PostToolBatch",
        "PermissionRequest",
        "PermissionDenied",
        "SubagentStart",
        "SubagentStop",
    }
)
"""Events whose hooks a child without hooks inherits. The CLI also sends them for subagents; all other events concern
the parent's own turns."""

DEFINITION_OPTIONS: Final = ("effort", "max_turns", "permission_mode", "skills")
"""Definition fields that are also options; the CLI does not apply them when the main session is the agent."""

SUBAGENT_FIELDS: Final = (
    "isolation",
    "omit_claude_md",
    "auto_compact_window",
)
"""Definition fields that only affect subagents (CLI 2.1.328)."""

OBSERVER_FIELDS: Final = ("observer", "observer_message", "observe_subagents", "observe_tool_results")
"""Definition fields that need the definition of an observer."""


def find_ineffective_fields(definition: AgentDefinition, own: ClientOptions | None) -> list[str]:
    """Return the fields of a definition that have no effect in a separate process with these options."""
    is_observed = any(name in ((own and own.agents) or {}) for name in definition.observer or ())
    fields = SUBAGENT_FIELDS if is_observed else (*SUBAGENT_FIELDS, *OBSERVER_FIELDS)
    return [field for field in fields if getattr(definition, field) is not None]


def build_process_options(
    name: str,
    definition: AgentDefinition,
    own: ClientOptions | None,
    parent: ClientOptions,
) -> ClientOptions:
    """Return the options of a child's process.

    Args:
        name: The agent's name in its process.
        definition: The agent; takes precedence over options.
        own: The child's own options; None inherits `INHERITED` from the parent.
        parent: The options of its parent, with the model, the permission mode and the hooks that are in effect.

    Raises:
        OptionsError: The options conflict.
    """
    # The parent's options have already warned.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OptionsWarning)
        given = own or _inherit_options(parent)
        changes = {
            **_apply_definition(name, definition, given),
            **_merge_servers(definition, given, parent),
            **_inherit_handlers(given, parent),
            **_inherit_hooks(given, parent),
        }
        # A model wrote the prompt, so a command such as `/clear` in it must not run.
        if "verbatim_prompts" not in given.model_fields_set:
            changes["verbatim_prompts"] = True
        # The telemetry of the parent traces the child, whose CLI has to send what it needs.
        if "telemetry" not in given.model_fields_set:
            changes["telemetry"] = parent.telemetry
        return given.replace(**changes)


def _inherit_options(parent: ClientOptions) -> ClientOptions:
    given = {name: getattr(parent, name) for name in INHERITED if name in parent.model_fields_set}
    flags = {name: value for name, value in parent.extra_args.items() if name in RESTRICTING_FLAGS}
    options = ClientOptions(**given)
    return options.replace(extra_args=flags) if flags else options


def _apply_definition(name: str, definition: AgentDefinition, given: ClientOptions) -> dict[str, object]:
    """Return the changes that run the main session as the agent and keep it from starting itself as a subagent."""
    changes: dict[str, object] = {}
    for option in DEFINITION_OPTIONS:
        value = getattr(definition, option)
        if value is not None:
            changes[option] = value
    if definition.model not in (None, "inherit"):
        changes["model"] = definition.model
        changes["fallback_model"] = [model for model in given.fallback_model or () if model != definition.model] or None
    # The definition's prompt replaces the session's.
    if not isinstance(given.system_prompt, SystemPromptPreset):
        changes["system_prompt"] = None
    return changes | {
        "agents": {**(given.agents or {}), name: definition},
        "agent": name,
        "disallowed_tools": [*given.disallowed_tools, f"Agent({name})"],
    }


def _merge_servers(definition: AgentDefinition, given: ClientOptions, parent: ClientOptions) -> dict[str, object]:
    """Return the given MCP servers, the definition's servers, and the parent's servers that the definition names."""
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


def has_answering_handler(options: ClientOptions) -> bool:
    """Return whether options have a handler that answers for a person."""
    return any(getattr(options, name) is not None for name in (*ANSWERING, "permission_prompt_tool_name"))


def _inherit_handlers(given: ClientOptions, parent: ClientOptions) -> dict[str, object]:
    """Set the handlers that the parent has, so that the CLI sends these questions. `ChildRun` forwards them."""
    if has_answering_handler(given):
        return {}
    return {name: getattr(parent, name) for name in (*ANSWERING, "supported_dialog_kinds", "question_preview_format")}


def _inherit_hooks(given: ClientOptions, parent: ClientOptions) -> dict[str, object]:
    if "hooks" in given.model_fields_set:
        return {}
    by_event: dict[str, list[HookMatcher]] = {}
    for event, matcher in Hooks.of(parent.hooks):
        if event in INHERITED_HOOKS:
            by_event.setdefault(event, []).append(matcher)
    return {"hooks": by_event} if by_event else {}
