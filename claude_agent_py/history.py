"""The tasks of many sessions, stored in an SQLite file."""

from typing import TYPE_CHECKING

from claude_agent_py._base.lazy_names import attach

if TYPE_CHECKING:
    from claude_agent_py.tasks.history.recorded import RecordedTask as RecordedTask, RecordedTree as RecordedTree
    from claude_agent_py.tasks.history.task_history import TaskHistory as TaskHistory
else:
    _NAMES = {
        "claude_agent_py.tasks.history.recorded": "RecordedTask RecordedTree",
        "claude_agent_py.tasks.history.task_history": "TaskHistory",
    }
    __getattr__, __dir__ = attach(__name__, _NAMES)
