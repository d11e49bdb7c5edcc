"""Subagents: what they are (`AgentDefinition`), where they come from (files, presets), and when to use them.

What most sessions do not need loads on first use.
"""

import importlib
from typing import TYPE_CHECKING, Any, Final

from claude_agent_py.agents.definition import (
    AgentDefinition,
    AgentLike,
    AgentMCPServerSpec,
    AgentModel,
    validate_agents,
)
from claude_agent_py.agents.guide import DelegationGuide, agent_table

if TYPE_CHECKING:
    from claude_agent_py.agents.markdown import AgentFile, load_agents, read_agent, write_agent
    from claude_agent_py.agents.presets import PRESETS, Explore, GeneralPurpose, Plan, Shell
    from claude_agent_py.agents.reports import shorten_report

_LATER: Final = {
    "markdown": ("AgentFile", "load_agents", "read_agent", "write_agent"),
    "presets": ("PRESETS", "Explore", "GeneralPurpose", "Plan", "Shell"),
    "reports": ("shorten_report",),
}

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


def __getattr__(name: str) -> Any:
    for module, names in _LATER.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
