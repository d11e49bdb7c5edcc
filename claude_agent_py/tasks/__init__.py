"""Background work of the CLI: subagents, shells, workflows, monitors.

`TaskManager` is `client.tasks`, `Task` one of them, `TaskOutcome` how a run of it ended. The other thing that the CLI
calls tasks, its to-do list, is `TaskList` here and everywhere.
"""

from claude_agent_py.lazy_names import LazyNames

# fmt: off
with LazyNames(globals()):
    from claude_agent_py.tasks.events import (
        TaskBackgrounded as TaskBackgrounded, TaskEvent as TaskEvent, TaskFinished as TaskFinished,
        TaskOutputAvailable as TaskOutputAvailable, TaskProgressed as TaskProgressed, TaskReopened as TaskReopened,
        TaskRevised as TaskRevised, TaskStarted as TaskStarted, TaskStatusChanged as TaskStatusChanged,
    )
    from claude_agent_py.tasks.history import TaskHistory as TaskHistory
    from claude_agent_py.tasks.listeners import TaskListener as TaskListener
    from claude_agent_py.tasks.manager import TaskManager as TaskManager
    from claude_agent_py.tasks.message_log import MessageGap as MessageGap
    from claude_agent_py.tasks.outcome import TaskOutcome as TaskOutcome
    from claude_agent_py.tasks.reading import TaskOutput as TaskOutput
    from claude_agent_py.tasks.rebuild import RecordedTask as RecordedTask, RecordedTree as RecordedTree
    from claude_agent_py.tasks.reconcile import Grace as Grace
    from claude_agent_py.tasks.record import (
        FinishedTask as FinishedTask, RecordKind as RecordKind, TaskRecord as TaskRecord,
    )
    from claude_agent_py.tasks.spending import ModelPrice as ModelPrice
    from claude_agent_py.tasks.state import Evidence as Evidence
    from claude_agent_py.tasks.task import Task as Task
    from claude_agent_py.tasks.task_list import (
        TaskList as TaskList, TaskListChange as TaskListChange, TaskListItem as TaskListItem,
    )
    from claude_agent_py.tasks.tree import TaskNode as TaskNode, TaskTree as TaskTree
    from claude_agent_py.wire.tasks import TaskStatus as TaskStatus, TaskUsage as TaskUsage
