"""Child agents: subtasks that run in separate CLI processes.

A subagent runs in its parent's process. A child agent has a separate process, and so a separate directory, model,
permissions, environment and tools. If it crashes, the parent continues.
"""

from typing import TYPE_CHECKING

from claude_agent_py._base.lazy_names import attach
from claude_agent_py.children.agent import ChildAgent, child_tool
from claude_agent_py.children.assignment import ChildReport, SubTaskStatus

__all__ = ["ChildAgent", "ChildReport", "SubTaskStatus", "child_tool"]

if not TYPE_CHECKING:
    __getattr__, _ = attach(__name__, {})
