"""The CLI's to-do list: the items that the model writes down for itself. Another thing than background tasks."""

from claude_agent_py.todo.task_list import (
    TASK_LIST_ENVIRONMENT,
    TODO_ENVIRONMENT,
    TaskList,
    TaskListChange,
    TaskListItem,
)

__all__ = ["TASK_LIST_ENVIRONMENT", "TODO_ENVIRONMENT", "TaskList", "TaskListChange", "TaskListItem"]
