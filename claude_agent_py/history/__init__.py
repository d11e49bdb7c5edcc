"""The tasks of many sessions, stored in an SQLite file."""

from claude_agent_py.history.recorded import RecordedTask, RecordedTree
from claude_agent_py.history.task_history import TaskHistory

__all__ = ["RecordedTask", "RecordedTree", "TaskHistory"]
