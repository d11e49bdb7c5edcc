"""Child agents: subtasks that are executed by CLI processes of their own.

A subagent lives in its parent's process; a child has its own, and with it its own directory, model, permissions,
environment and tools, and a crash of it stays its own. `agent` says what a child is, `tool` lets a model start one,
`run` is one at work, `family` counts and limits them.
"""

from claude_agent_py.children.agent import ChildAgent
from claude_agent_py.children.report import ChildReport, SubTaskStatus
from claude_agent_py.children.tool import child_tool

__all__ = ["ChildAgent", "ChildReport", "SubTaskStatus", "child_tool"]
