"""Background work of the CLI: subagents, shells, workflows, monitors.

`TaskManager` is `client.tasks`, `Task` one of them, `TaskOutcome` how a run of it ended. The CLI's to-do list, which it
calls tasks too, is `claude_agent_py.todo`.
"""

from typing import TYPE_CHECKING

from claude_agent_py.lazy_names import loader
from claude_agent_py.tasks.events import (
    TaskBackgrounded,
    TaskEvent,
    TaskFinished,
    TaskOutputAvailable,
    TaskProgressed,
    TaskReopened,
    TaskRevised,
    TaskStarted,
    TaskStatusChanged,
)
from claude_agent_py.tasks.files.reading import TaskOutput
from claude_agent_py.tasks.intake import TaskIntake
from claude_agent_py.tasks.ledger.registry import Grace
from claude_agent_py.tasks.ledger.spending import ModelPrice
from claude_agent_py.tasks.ledger.state import Evidence
from claude_agent_py.tasks.manager import TaskManager
from claude_agent_py.tasks.messages import MessageGap
from claude_agent_py.tasks.outcome import TaskOutcome
from claude_agent_py.tasks.task import Task
from claude_agent_py.tasks.tree import TaskNode, TaskTree
from claude_agent_py.wire.tasks import TaskStatus, TaskUsage

if TYPE_CHECKING:
    from claude_agent_py.history import FinishedTask, RecordedTask, RecordedTree, RecordKind, TaskHistory, TaskRecord
    from claude_agent_py.todo import TaskList, TaskListChange, TaskListItem

_ELSEWHERE = {
    **dict.fromkeys(
        ("FinishedTask", "RecordKind", "RecordedTask", "RecordedTree", "TaskHistory", "TaskRecord"),
        "claude_agent_py.history",
    ),
    **dict.fromkeys(("TaskList", "TaskListChange", "TaskListItem"), "claude_agent_py.todo"),
}
"""Names of other packages that can be imported from here, too."""

__all__ = [
    "Evidence",
    "FinishedTask",
    "Grace",
    "MessageGap",
    "ModelPrice",
    "RecordKind",
    "RecordedTask",
    "RecordedTree",
    "Task",
    "TaskBackgrounded",
    "TaskEvent",
    "TaskFinished",
    "TaskHistory",
    "TaskIntake",
    "TaskList",
    "TaskListChange",
    "TaskListItem",
    "TaskManager",
    "TaskNode",
    "TaskOutcome",
    "TaskOutput",
    "TaskOutputAvailable",
    "TaskProgressed",
    "TaskRecord",
    "TaskReopened",
    "TaskRevised",
    "TaskStarted",
    "TaskStatus",
    "TaskStatusChanged",
    "TaskTree",
    "TaskUsage",
]
__getattr__ = loader(__name__, _ELSEWHERE)
