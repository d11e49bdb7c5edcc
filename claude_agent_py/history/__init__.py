"""The tasks of many sessions, stored in an SQLite file."""

from claude_agent_py.history.records import FinishedTask, RecordedTask, RecordedTree, RecordKind, TaskRecord
from claude_agent_py.history.task_history import TaskHistory

__all__ = ["FinishedTask", "RecordKind", "RecordedTask", "RecordedTree", "TaskHistory", "TaskRecord"]
