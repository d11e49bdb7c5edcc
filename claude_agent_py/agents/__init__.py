"""Subagents: definitions, agent files, and the guide for delegation."""

from typing import TYPE_CHECKING

from claude_agent_py._base.lazy_names import attach

if TYPE_CHECKING:
    from claude_agent_py.agents.definition import (
        AgentDefinition as AgentDefinition,
        AgentLike as AgentLike,
        AgentMCPServerSpec as AgentMCPServerSpec,
        AgentModel as AgentModel,
    )
    from claude_agent_py.agents.files import (
        AgentFile as AgentFile,
        load_agents as load_agents,
        read_agent as read_agent,
    )
    from claude_agent_py.agents.guide import (
        DelegationGuide as DelegationGuide,
        agent_table as agent_table,
        shorten_report as shorten_report,
    )
else:
    _NAMES = {
        "claude_agent_py.agents.definition": "AgentDefinition AgentLike AgentMCPServerSpec AgentModel",
        "claude_agent_py.agents.files": "AgentFile load_agents read_agent",
        "claude_agent_py.agents.guide": "DelegationGuide agent_table shorten_report",
    }
    __getattr__, __dir__ = attach(__name__, _NAMES)
