"""Child agents: subtasks that run in separate CLI processes.

A subagent runs in its parent's process. A child agent has a separate process, and so a separate directory, model,
permissions, environment and tools. If it crashes, the parent continues.
"""

from claude_agent_py.children.agent import ChildAgent, child_tool
from claude_agent_py.children.assignment import ChildReport, SubTaskStatus

__all__ = ["ChildAgent", "ChildReport", "SubTaskStatus", "child_tool"]
