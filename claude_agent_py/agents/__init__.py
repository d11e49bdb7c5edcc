"""Subagents: what they are (`AgentDefinition`), where they come from (files, presets), and when to use them.

What most sessions do not need loads on first use.
"""

from typing import TYPE_CHECKING, Final

from claude_agent_py.agents.definition import (
    AgentDefinition,
    AgentLike,
    AgentMCPServerSpec,
    AgentModel,
    validate_agents,
)
from claude_agent_py.agents.guide import DelegationGuide, agent_table
from claude_agent_py.lazy_names import loader

if TYPE_CHECKING:
    from claude_agent_py.agents.markdown import AgentFile, load_agents, read_agent, write_agent
    from claude_agent_py.agents.presets import PRESETS, Explore, GeneralPurpose, Plan, Shell
    from claude_agent_py.agents.reports import shorten_report

_NAMES: Final = {
    "markdown": "AgentFile load_agents read_agent write_agent",
    "presets": "PRESETS Explore GeneralPurpose Plan Shell",
    "reports": "shorten_report",
}
_HOME: Final = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = [
    "PRESETS",
    "AgentDefinition",
    "AgentFile",
    "AgentLike",
    "AgentMCPServerSpec",
    "AgentModel",
    "DelegationGuide",
    "Explore",
    "GeneralPurpose",
    "Plan",
    "Shell",
    "agent_table",
    "load_agents",
    "read_agent",
    "shorten_report",
    "validate_agents",
    "write_agent",
]
__getattr__ = loader(__name__, _HOME)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
