"""The tasks of many sessions, stored in an SQLite file."""

from claude_agent_py.tasks.history.recorded import RecordedTask, RecordedTree
from claude_agent_py.tasks.history.task_history import TaskHistory

__all__ = ["RecordedTask", "RecordedTree", "TaskHistory"]
