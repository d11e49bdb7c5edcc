"""The CLI's to-do list: the model's notes for itself. The items are unrelated to background tasks."""

from claude_agent_py.todo.task_list import (
    TASK_LIST_ENVIRONMENT,
    TODO_ENVIRONMENT,
    TaskList,
    TaskListChange,
    TaskListItem,
)

__all__ = ["TASK_LIST_ENVIRONMENT", "TODO_ENVIRONMENT", "TaskList", "TaskListChange", "TaskListItem"]
