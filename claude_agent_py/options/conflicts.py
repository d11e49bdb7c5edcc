"""Conflicts between options, and warnings about options with no effect or a surprising one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from claude_agent_py import sessions  # loads on first use
from claude_agent_py._base.errors import OptionsError
from claude_agent_py.options.delegation import (
    definitions,
    depends_on_hooks,
    find_custom_names,
    find_unreachable_tools,
    guide_text,
    why_no_agent_tool,
)
from claude_agent_py.options.fields import OptionFields, is_any_given
from claude_agent_py.wire.settings.rule_lists import describe_whole_tools, tool_of

HOME_VARIABLES: Final = frozenset({"HOME", "USERPROFILE", "CLAUDE_CONFIG_DIR", "CLAUDE_SECURESTORAGE_CONFIG_DIR"})
"""The variables of a private home. The last one (measured with CLI 2.1.328) names the folder of the login."""

HOOKS_OFF: Final = "CLAUDE_CODE_SIMPLE"
"""The variable of the CLI's bare mode. In this mode it calls no hooks, whatever it replies to `initialize`."""

WHAT_NEEDS_HOOKS: Final = "the hooks (max_report_chars and critical_system_reminder are also hooks)"

TRUE_WORDS: Final = frozenset({"1", "true", "yes", "on"})


def turns_hooks_off(variables: object) -> bool:
    """Return whether these variables disable all hooks."""
    if not isinstance(variables, Mapping):
        return False
    words = {str(value).strip().lower() for name, value in variables.items() if str(name).upper() == HOOKS_OFF}
    return not words.isdisjoint(TRUE_WORDS)


def _lists_sessions(store: object) -> bool:
    return sessions.implements(store, "list_sessions")


CONFLICTS: Final[Sequence[tuple[str, Callable[[OptionFields], object], str]]] = (
    (
        "supported_dialog_kinds",
        lambda o: o.supported_dialog_kinds and o.on_user_dialog is None,
        "needs on_user_dialog, which answers the dialogs",
    ),
    (
        "env",
        lambda o: turns_hooks_off(o.env) and depends_on_hooks(o),
        f"{HOOKS_OFF} disables all hooks; remove it, or {WHAT_NEEDS_HOOKS}",
    ),
    (
        "settings",
        lambda o: isinstance(o.settings, dict) and turns_hooks_off(o.settings.get("env")) and depends_on_hooks(o),
        f"{HOOKS_OFF} in their env disables all hooks; remove it, or {WHAT_NEEDS_HOOKS}",
    ),
    (
        "extra_args",
        lambda o: "bare" in o.extra_args and depends_on_hooks(o),
        f"--bare disables all hooks; remove it, or {WHAT_NEEDS_HOOKS}",
    ),
    (
        "env",
        lambda o: o.home is not None and HOME_VARIABLES & o.env.keys(),
        f"sets a variable that home sets: {', '.join(sorted(HOME_VARIABLES))}; use only one of them",
    ),
    (
        "home",
        lambda o: o.home is True and (o.resume or o.continue_conversation) and o.session_store is None,
        "must be a path to continue a session: a new home has none",
    ),
    (
        "continue_conversation",
        lambda o: o.continue_conversation and o.resume,
        "conflicts with resume: one continues the newest session, the other a named one",
    ),
    (
        "session_id",
        lambda o: o.session_id and (o.resume or o.continue_conversation) and not o.fork_session,
        "can be combined with resume or continue_conversation only with fork_session=True",
    ),
    (
        "fallback_model",
        lambda o: o.model is not None and o.model in (o.fallback_model or ()),
        "must differ from model",
    ),
    (
        "max_thinking_tokens",
        lambda o: o.max_thinking_tokens is not None and o.thinking is not None,
        "is the older form of thinking; use only one of them",
    ),
    (
        "output_format",
        lambda o: o.output_format is not None and o.output_type is not None,
        "and output_type both define the output; use only one of them",
    ),
    (
        "permission_prompt_tool_name",
        lambda o: o.permission_prompt_tool_name and o.asks_host,
        "names a tool that answers permission prompts, and so does a handler; use only one of them",
    ),
    (
        "session_store",
        lambda o: o.session_store is not None and o.enable_file_checkpointing,
        "cannot be combined with enable_file_checkpointing: the states of files are not in the transcript",
    ),
    (
        "session_store",
        lambda o: (
            o.session_store is not None
            and o.continue_conversation
            and not o.resume
            and not _lists_sessions(o.session_store)
        ),
        "needs list_sessions() for continue_conversation",
    ),
)
"""Option, whether it conflicts in these options, and the problem."""

CONTINUES: Final = ("resume", "continue_conversation")

NEEDS: Final[Sequence[tuple[str, Sequence[str], str]]] = (
    ("login", ["home"], "needs home; the CLI uses your login anyway"),
    ("fork_session", CONTINUES, "needs resume or continue_conversation, which name the session to copy"),
    ("resume_session_at", ["resume"], "needs resume"),
    ("resume_interrupted_turn", CONTINUES, "needs resume or continue_conversation, which name the session"),
    ("resume_drops_turn", ["resume_session_at"], "needs resume_session_at"),
    ("session_mirror", ["persist_session"], "needs persist_session=True: the CLI mirrors what it writes to disk"),
    ("session_store", ["persist_session"], "needs persist_session=True: the store gets what the CLI writes to disk"),
    ("session_store_project", ["session_store"], "needs session_store"),
)
"""Option, the options of which it needs one, and the problem without them."""


def check_conflicts(options: OptionFields) -> None:
    """Raise OptionsError for the first conflict between options."""
    given = options.model_fields_set  # at its default, no option conflicts with another
    for option, holds, problem in CONFLICTS:
        if option in given and holds(options):
            raise OptionsError(problem, option=option)
    for option, needed, problem in NEEDS:
        if option in given and _gives(options, [option]) and not _gives(options, needed):
            raise OptionsError(problem, option=option)
    if "custom_tools" in given and (names := find_unreachable_tools(options)):
        raise OptionsError(
            f"the agent {options.agent!r}, which the session runs as, has a list of tools without {', '.join(names)}: "
            "add them to its tools, or mcp__tools for all custom tools",
            option="custom_tools",
        )


def _gives(options: OptionFields, names: Sequence[str]) -> bool:
    return is_any_given(*(getattr(options, name) for name in names))


PROMPTING_TOOLS: Final = frozenset({"Bash", "PowerShell", "Write", "Edit", "NotebookEdit", "WebFetch", "WebSearch"})
"""Built-in tools that ask for permission, as tools of MCP servers do."""

_NEVER_ASKS: Final = {
    "bypassPermissions": (
        ", except for ask rules of the settings: permission_mode='bypassPermissions' allows everything without asking "
        "otherwise"
    ),
    "dontAsk": ": permission_mode='dontAsk' denies all prompts",
}


IDLE_LIMIT: Final = "CLAUDE_CODE_SDK_MCP_TOOL_IDLE_TIMEOUT"
"""The only limit of the CLI for calls of our servers that a server's own settings cannot raise."""


def find_warnings(options: OptionFields) -> Iterator[str]:
    """Yield warnings about options with no effect, or a surprising one."""
    yield from _find_unknown_tools(options)
    yield from _find_whole_tools(options)
    has_monitor = not isinstance(options.tools, list) or "Monitor" in options.tools
    is_handled = "Monitor" in (*options.tool_aliases, *options.disallowed_tools)
    if "Bash" in options.tool_aliases and has_monitor and not is_handled:
        yield "tool_aliases: Monitor also runs shell commands, but not through Bash: give it an alias, or disallow it"
    if options.delegation_guide and not guide_text(options):
        yield f"delegation_guide is left out: {why_no_agent_tool(options)}"
    if options.env.get(IDLE_LIMIT):
        yield f"env: {IDLE_LIMIT} ends calls of tools in this process that report no progress"
    if options.can_use_tool is None:
        return
    is_asked = options.permission_mode == "bypassPermissions" and _has_ask_rules(options)
    if options.permission_mode in _NEVER_ASKS and not is_asked:
        mode = options.permission_mode
        yield f"can_use_tool will not be called{_NEVER_ASKS[mode]}"
    if options.permission_prompts == "none":
        yield "can_use_tool will not be called: permission_prompts='none' denies all prompts"
    shadowed = [rule for rule in options.allowed_tools if _approves_prompting_tool(rule)]
    if shadowed:
        yield (
            f"can_use_tool will not be asked about {', '.join(shadowed)}: allowed_tools approves them beforehand "
            "(to restrict the available tools, use tools)"
        )


def _has_ask_rules(options: OptionFields) -> bool:
    """Return whether the options have rules that ask in any mode but `dontAsk`. Does not read files."""
    for settings in (options.settings, options.managed_settings):
        permissions = settings.get("permissions") if isinstance(settings, Mapping) else None
        if isinstance(permissions, Mapping) and permissions.get("ask"):
            return True
    return False


def _find_unknown_tools(options: OptionFields) -> Iterator[str]:
    given = (options.tools, options.disallowed_tools, options.allowed_tools, options.agents, options.tool_aliases)
    if not any(given):
        return
    from claude_agent_py.wire.tools.registry import is_misspelt, suggested_tool

    def suggest(name: str) -> str:
        custom = find_custom_names(options, name)
        return f"; the custom tool is {' or '.join(map(repr, custom))}" if custom else suggested_tool(name)

    tools = () if isinstance(options.tools, str | None) else options.tools
    for name in filter(is_misspelt, tools):
        served = "; custom tools are always available, so leave it out" if find_custom_names(options, name) else ""
        yield f"tools: {name!r} is not a known built-in tool, so the CLI may ignore it{served or suggested_tool(name)}"
    for option in ("disallowed_tools", "allowed_tools", "tool_aliases"):
        for name in filter(is_misspelt, map(tool_of, getattr(options, option))):
            yield f"{option}: {name!r} is not a known tool, so it may have no effect{suggest(name)}"
    for agent, definition in (options.agents or {}).items():
        for option in ("tools", "disallowed_tools"):
            for name in filter(is_misspelt, map(tool_of, getattr(definition, option, None) or ())):
                yield f"agents: {option} of {agent!r}: {name!r} is not a known tool{suggest(name)}"


def _find_whole_tools(options: OptionFields) -> Iterator[str]:
    for agent, definition in definitions(options).items():
        if wider := describe_whole_tools(definition.tools or ()):
            yield f"agents: {agent!r}: {wider}"


def _approves_prompting_tool(rule: str) -> bool:
    """Return whether a rule approves every call of a tool that would otherwise ask."""
    return tool_of(rule) == rule and (rule in PROMPTING_TOOLS or rule.startswith("mcp__"))
