"""Delegation according to the options: whether the model can start agents, and the guide that describes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal, cast

from claude_agent_py import agents as agents_room, tools as tools_room  # load on first use
from claude_agent_py.options.fields import OptionFields
from claude_agent_py.wire.settings.rule_lists import AGENT_TOOLS, tool_of
from claude_agent_py.wire.tools.names import mcp_server_name, mcp_tool_name

CUSTOM_TOOLS_SERVER: Final = "tools"
"""The name of the server with `custom_tools`: the model sees `mcp__tools__<tool>`."""

NO_BACKGROUND: Final = "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS"


def why_no_agent_tool(options: OptionFields) -> str | None:
    """Return why the model does not have the tool `Agent`, or None if it has. Does not read settings files."""
    if isinstance(options.tools, list) and not AGENT_TOOLS & set(options.tools):
        return "tools does not contain Agent"
    if _denies(options.disallowed_tools, AGENT_TOOLS):
        return "disallowed_tools removes Agent"
    for name, settings in (("settings", options.settings), ("managed_settings", options.managed_settings)):
        if _denies(_read_denied(settings), AGENT_TOOLS):
            return f"{name} deny Agent"
    main = _get_main_agent(options)
    if main is not None:
        has_it = _has_all_tools(main) or any(tool_of(rule) in AGENT_TOOLS for rule in main.tools or ())
        # In a definition, `Agent(reviewer)` removes the whole tool, not only that agent.
        if not has_it or any(tool_of(rule) in AGENT_TOOLS for rule in main.disallowed_tools or ()):
            return f"the agent {options.agent!r}, which the session runs as, does not have the tool Agent"
    return None


def definitions(options: OptionFields) -> dict[str, agents_room.AgentDefinition]:
    """Return the definitions of the option `agents`."""
    return dict(cast("Mapping[str, agents_room.AgentDefinition]", options.agents or {}))  # the option reads mappings


def _get_guide(options: OptionFields) -> agents_room.DelegationGuide | None:
    return (
        cast("agents_room.DelegationGuide | Literal[False]", options.delegation_guide) or None
    )  # the option reads True


def guide_text(options: OptionFields) -> str:
    """Return the guide's text for the system prompt; empty without a guide, or if the model cannot start agents."""
    guide = _get_guide(options)
    if not guide:
        return ""
    agents = {
        name: _remove_missing_tools(agent, options)
        for name, agent in definitions(options).items()
        if is_offered(name, options)
    }
    return guide.text(
        agents,
        subtask_tools=dict(_find_subtask_tools(options)),
        has_agent_tool=why_no_agent_tool(options) is None,
        has_background=str(options.env.get(NO_BACKGROUND, "")).lower() not in ("1", "true", "yes", "on"),
    )


def is_offered(agent: str, options: OptionFields) -> bool:
    """Return whether the model may start an agent, by the rules and by the agent that the session runs as."""
    if {f"{tool}({agent})" for tool in AGENT_TOOLS} & set(_list_denied(options)):
        return False
    main = _get_main_agent(options)
    if main is None:
        return True
    offered: set[str] = set()
    for rule in main.tools or ():
        if tool_of(rule) in AGENT_TOOLS:
            offered |= _read_agent_names(rule)
    return not offered or agent in offered


def _read_agent_names(rule: str) -> set[str]:
    """Return the agents that a rule such as `Agent(reviewer, tester)` names; empty if it allows all."""
    names = rule.partition("(")[2].rstrip(") ").split(",")
    return {name.strip() for name in names} - {"", "*"}


def report_limit(options: OptionFields) -> int | None:
    """Return the maximum length of the reports of subagents, or None."""
    guide = _get_guide(options)
    return guide.max_report_chars if guide and why_no_agent_tool(options) is None else None


def reminders(options: OptionFields) -> dict[str, str]:
    """Return the `critical_system_reminder` of each agent that has one."""
    return {
        name: agent.critical_system_reminder
        for name, agent in definitions(options).items()
        if agent.critical_system_reminder
    }


def depends_on_hooks(options: OptionFields) -> bool:
    """Return whether an option does not work without hooks."""
    return options.hooks is not None or report_limit(options) is not None or bool(reminders(options))


def _find_subtask_tools(options: OptionFields) -> Iterator[tuple[str, agents_room.AgentDefinition]]:
    servers = _list_custom_tools(options)
    if not servers:
        return
    main = _get_main_agent(options)
    denied = [*_list_denied(options), *((main.disallowed_tools if main else None) or ())]
    for server, tools in servers.items():
        for tool in tools:
            if not isinstance(tool.agent, agents_room.AgentDefinition):
                continue
            name = mcp_tool_name(server, tool.name)
            rules = {name, mcp_server_name(server), f"{mcp_server_name(server)}__*"}
            is_left = main is None or _has_all_tools(main) or rules & set(main.tools or ())
            if is_left and not _denies(denied, rules):
                yield name, tool.agent


def find_unreachable_tools(options: OptionFields) -> list[str]:
    """Return the full names of the custom tools that no agent of the session may call, as their definitions say."""
    main = _get_main_agent(options)
    agents = definitions(options).values()
    if main is None or not options.custom_tools or any(map(_has_all_tools, agents)):
        return []
    server = mcp_server_name(CUSTOM_TOOLS_SERVER)
    listed = {rule for agent in agents for rule in agent.tools or ()}
    if listed & {server, f"{server}__*"}:
        return []
    named = (mcp_tool_name(CUSTOM_TOOLS_SERVER, tool.name) for tool in options.custom_tools if hasattr(tool, "name"))
    return [name for name in named if name not in listed]


def find_custom_names(options: OptionFields, name: str) -> list[str]:
    """Return the full names of the custom tools that a short name may mean: `mcp__tools__add` for `add`."""
    return [
        mcp_tool_name(server, tool.name)
        for server, tools in _list_custom_tools(options).items()
        for tool in tools
        if tool.name == name
    ]


def _list_custom_tools(options: OptionFields) -> dict[str, list[tools_room.Tool]]:
    """Return the tools that this process serves, by the name of their server."""
    servers = {name: getattr(server, "tools", ()) for name, server in options.hosted_mcp_servers.items()}
    if options.custom_tools:
        servers[CUSTOM_TOOLS_SERVER] = options.custom_tools
    return {
        name: [tool for tool in tools if isinstance(tool, tools_room.Tool)]
        for name, tools in servers.items()
        if isinstance(tools, Iterable)
    }


def _get_main_agent(options: OptionFields) -> agents_room.AgentDefinition | None:
    """Return the agent that the session runs as, or None if it is not one of the option `agents`."""
    return definitions(options).get(options.agent or "")


def _has_all_tools(agent: agents_room.AgentDefinition) -> bool:
    return agent.tools is None or "*" in agent.tools


def _list_denied(options: OptionFields) -> list[str]:
    """Return the deny rules of the options. Does not read settings files."""
    return [*options.disallowed_tools, *_read_denied(options.settings), *_read_denied(options.managed_settings)]


def _remove_missing_tools(agent: agents_room.AgentDefinition, options: OptionFields) -> agents_room.AgentDefinition:
    """Return the definition without tools that do not exist in the session."""
    if agent.tools is None:
        return agent
    built_in = options.tools if isinstance(options.tools, list) else None
    kept = [
        rule
        for rule in agent.tools
        if (built_in is None or tool_of(rule) in built_in or rule.startswith("mcp__"))
        and not _denies(options.disallowed_tools, {tool_of(rule)})
    ]
    return agent if kept == agent.tools else agent.replace(tools=kept)


def _denies(rules: Iterable[str], names: Iterable[str]) -> bool:
    """Return whether rules remove a whole tool, not only some of its calls."""
    given = set(rules)
    return any(name in given or f"{name}(*)" in given for name in names)


def _read_denied(settings: object) -> list[str]:
    permissions: object = settings.get("permissions") if isinstance(settings, Mapping) else None
    denied = permissions.get("deny") if isinstance(permissions, Mapping) else None
    if not isinstance(denied, list):
        return []
    return [rule for rule in denied if isinstance(rule, str)]
