"""Child agents: subtasks that run in CLI processes of their own.

A subagent lives in its parent's process. A child agent has its own process and with it its own directory, model,
permissions, environment and tools; if it crashes, the parent continues.
"""

from claude_agent_py.children.agent import ChildAgent
from claude_agent_py.children.report import ChildReport, SubTaskStatus
from claude_agent_py.children.tool import child_tool

__all__ = ["ChildAgent", "ChildReport", "SubTaskStatus", "child_tool"]
