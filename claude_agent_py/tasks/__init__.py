"""Background work of the CLI: subagents, shells, workflows, monitors.

`TaskManager` is `client.tasks`, `Task` one of them, `TaskOutcome` how a run of it ended. The other thing that the CLI
calls tasks, its to-do list, is `TaskList` here and everywhere.
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
from claude_agent_py.tasks.manager import TaskManager
from claude_agent_py.tasks.message_log import MessageGap
from claude_agent_py.tasks.outcome import TaskOutcome
from claude_agent_py.tasks.reading import TaskOutput
from claude_agent_py.tasks.reconcile import Grace
from claude_agent_py.tasks.spending import ModelPrice
from claude_agent_py.tasks.state import Evidence
from claude_agent_py.tasks.task import Task
from claude_agent_py.tasks.tree import TaskNode, TaskTree
from claude_agent_py.wire.tasks import TaskStatus, TaskUsage

if TYPE_CHECKING:
    from claude_agent_py.tasks.history import TaskHistory
    from claude_agent_py.tasks.rebuild import RecordedTask, RecordedTree
    from claude_agent_py.tasks.record import FinishedTask, RecordKind, TaskRecord
    from claude_agent_py.tasks.task_list import TaskList, TaskListChange, TaskListItem

_ON_FIRST_USE = {
    "TaskHistory": "history",
    "FinishedTask": "record",
    "RecordKind": "record",
    "TaskRecord": "record",
    "RecordedTask": "rebuild",
    "RecordedTree": "rebuild",
    "TaskList": "task_list",
    "TaskListChange": "task_list",
    "TaskListItem": "task_list",
}
"""What most programs do not need: loaded when it is asked for."""

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
__getattr__ = loader(__name__, _ON_FIRST_USE)
