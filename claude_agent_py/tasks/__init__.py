"""Background work of the CLI: subagents, shells, workflows, monitors.

`client.tasks` is a `TaskManager`, which holds a `Task` for each. The items of the CLI's to-do list, which the CLI calls
tasks too, are in `claude_agent_py.todo`.
"""

from typing import TYPE_CHECKING

from claude_agent_py._base.lazy_names import attach

if TYPE_CHECKING:
    from claude_agent_py._base.errors import (
        TaskError as TaskError,
        TaskNotFoundError as TaskNotFoundError,
        TaskOutputError as TaskOutputError,
        TaskTimeoutError as TaskTimeoutError,
    )
    from claude_agent_py._journal.tasks.events import (
        Answered as Answered,
        Asked as Asked,
        TaskAnswered as TaskAnswered,
        TaskAsked as TaskAsked,
        TaskBackgrounded as TaskBackgrounded,
        TaskChanged as TaskChanged,
        TaskEvent as TaskEvent,
        TaskFinished as TaskFinished,
        TaskOutputAvailable as TaskOutputAvailable,
        TaskProgressed as TaskProgressed,
        TaskReopened as TaskReopened,
        TaskRevised as TaskRevised,
        TaskStarted as TaskStarted,
        TaskStatusChanged as TaskStatusChanged,
    )
    from claude_agent_py._journal.tasks.ledger import Grace as Grace
    from claude_agent_py._journal.tasks.outcome import EndedBy as EndedBy, TaskOutcome as TaskOutcome
    from claude_agent_py._journal.tasks.spending import ModelPrice as ModelPrice
    from claude_agent_py._journal.tasks.state import Evidence as Evidence
    from claude_agent_py.tasks.files.output_reader import TaskOutput as TaskOutput
    from claude_agent_py.tasks.history.recorded import RecordedTask as RecordedTask, RecordedTree as RecordedTree
    from claude_agent_py.tasks.history.task_history import TaskHistory as TaskHistory
    from claude_agent_py.tasks.intake import TaskIntake as TaskIntake
    from claude_agent_py.tasks.listeners import TaskListener as TaskListener
    from claude_agent_py.tasks.manager import TaskManager as TaskManager
    from claude_agent_py.tasks.messages import MessageGap as MessageGap
    from claude_agent_py.tasks.task import Task as Task, TaskNode as TaskNode, TaskTree as TaskTree
    from claude_agent_py.tasks.task_list import (
        TaskList as TaskList,
        TaskListChange as TaskListChange,
        TaskListItem as TaskListItem,
    )
    from claude_agent_py.wire.messages.tasks import TaskStatus as TaskStatus, TaskUsage as TaskUsage
else:
    _NAMES = {
        "claude_agent_py._base.errors": "TaskError TaskNotFoundError TaskOutputError TaskTimeoutError",
        "claude_agent_py._journal.tasks.events": """
            Answered Asked TaskAnswered TaskAsked TaskBackgrounded TaskChanged TaskEvent TaskFinished
            TaskOutputAvailable TaskProgressed TaskReopened TaskRevised TaskStarted TaskStatusChanged
        """,
        "claude_agent_py.tasks.files.output_reader": "TaskOutput",
        "claude_agent_py.tasks.history.recorded": "RecordedTask RecordedTree",
        "claude_agent_py.tasks.history.task_history": "TaskHistory",
        "claude_agent_py.tasks.intake": "TaskIntake",
        "claude_agent_py._journal.tasks.ledger": "Grace",
        "claude_agent_py._journal.tasks.spending": "ModelPrice",
        "claude_agent_py._journal.tasks.state": "Evidence",
        "claude_agent_py.tasks.listeners": "TaskListener",
        "claude_agent_py.tasks.manager": "TaskManager",
        "claude_agent_py.tasks.messages": "MessageGap",
        "claude_agent_py._journal.tasks.outcome": "EndedBy TaskOutcome",
        "claude_agent_py.tasks.task": "Task TaskNode TaskTree",
        "claude_agent_py.tasks.task_list": "TaskList TaskListChange TaskListItem",
        "claude_agent_py.wire.messages.tasks": "TaskStatus TaskUsage",
    }
    __getattr__, __dir__ = attach(__name__, _NAMES)
