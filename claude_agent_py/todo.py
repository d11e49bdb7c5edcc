"""The CLI's to-do list, whose items the CLI calls tasks, and what switches its tools on."""

from typing import TYPE_CHECKING

from claude_agent_py._base.lazy_names import attach
from claude_agent_py.tasks.task_list import (
    TASK_LIST_ENVIRONMENT,
    TODO_ENVIRONMENT,
    TaskList,
    TaskListChange,
    TaskListItem,
)

if not TYPE_CHECKING:
    __getattr__, __dir__ = attach(__name__, {})  # a hint for what other modules have

__all__ = ["TASK_LIST_ENVIRONMENT", "TODO_ENVIRONMENT", "TaskList", "TaskListChange", "TaskListItem"]
