"""Background work of the CLI: subagents, shells, workflows, monitors.

`TaskManager` is `client.tasks`, `Task` one of them, `TaskOutcome` how a run of it ended. The other thing that the CLI
calls tasks, its to-do list, is `TaskList` here and everywhere.
"""

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
from claude_agent_py.tasks.state import Evidence
from claude_agent_py.tasks.task import Task
from claude_agent_py.tasks.tree import TaskNode, TaskTree
from claude_agent_py.wire.tasks import TaskStatus, TaskUsage

__all__ = [
    "Evidence",
    "Grace",
    "MessageGap",
    "Task",
    "TaskBackgrounded",
    "TaskEvent",
    "TaskFinished",
    "TaskManager",
    "TaskNode",
    "TaskOutcome",
    "TaskOutput",
    "TaskOutputAvailable",
    "TaskProgressed",
    "TaskReopened",
    "TaskRevised",
    "TaskStarted",
    "TaskStatus",
    "TaskStatusChanged",
    "TaskTree",
    "TaskUsage",
]
