"""The CLI's to-do list, whose items the CLI calls tasks, and what switches its tools on."""

from typing import TYPE_CHECKING

from claude_agent_py._base.lazy_names import attach

if TYPE_CHECKING:
    from claude_agent_py.tasks.task_list import (
        TASK_LIST_ENVIRONMENT as TASK_LIST_ENVIRONMENT,
        TODO_ENVIRONMENT as TODO_ENVIRONMENT,
        TaskList as TaskList,
        TaskListChange as TaskListChange,
        TaskListItem as TaskListItem,
    )
else:
    _NAMES = {
        "claude_agent_py.tasks.task_list": """
            TASK_LIST_ENVIRONMENT TODO_ENVIRONMENT TaskList TaskListChange TaskListItem
        """
    }
    __getattr__, __dir__ = attach(__name__, _NAMES)
