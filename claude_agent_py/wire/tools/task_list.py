"""Tools for the to-do list: TaskCreate, TaskGet, TaskUpdate, TaskList, TodoWrite.

Items have the ids "1", "2", ... and are unrelated to background tasks.
"""

from typing import Literal, TypeAlias

from msgspec import field

from claude_agent_py.wire.base import CamelModel, FrameModel, JSONObject, Open, WireModel

ItemStatus: TypeAlias = Open[Literal["pending", "in_progress", "completed"]]
"""The status of an item of the to-do list."""


class TaskCreateInput(FrameModel, rename="camel"):
    """Add an item to the to-do list."""

    subject: str
    description: str
    active_form: str | None = None
    metadata: JSONObject | None = None


class CreatedItem(WireModel):
    """The new item."""

    id: str
    subject: str = ""
    description: str | None = None


class TaskCreateOutput(FrameModel):
    """The output of `TaskCreate`: the new item."""

    task: CreatedItem


class TaskGetInput(FrameModel, rename="camel"):
    """Get an item of the to-do list."""

    task_id: str


class TaskListItem(CamelModel):
    """An item of the to-do list."""

    id: str
    subject: str = ""
    status: ItemStatus = "pending"
    owner: str | None = None
    blocked_by: list[str] = field(default_factory=list)


class TaskDetails(TaskListItem):
    """An item with its description and dependencies."""

    description: str = ""
    blocks: list[str] = field(default_factory=list)


class TaskGetOutput(FrameModel):
    """The output of `TaskGet`: the item, or None if it does not exist."""

    task: TaskDetails | None


class TaskUpdateInput(FrameModel, rename="camel"):
    """Change an item of the to-do list. The status `deleted` removes it."""

    task_id: str
    subject: str | None = None
    description: str | None = None
    active_form: str | None = None
    status: Open[Literal["pending", "in_progress", "completed", "deleted"]] | None = None
    add_blocks: list[str] | None = None
    add_blocked_by: list[str] | None = None
    owner: str | None = None
    metadata: JSONObject | None = None


class StatusChange(WireModel):
    """A change of an item's status."""

    from_: str = field(name="from")
    to: str


class TaskUpdateOutput(FrameModel, rename="camel"):
    """The output of `TaskUpdate`: whether the item was changed, and which fields."""

    success: bool
    task_id: str
    updated_fields: list[str] = field(default_factory=list)
    error: str | None = None
    status_change: StatusChange | None = None


class TaskListInput(FrameModel):
    """List all items of the to-do list."""


class TaskListOutput(FrameModel):
    """The output of `TaskList`: all items of the to-do list."""

    tasks: list[TaskListItem]


class TodoItem(CamelModel):
    """An item of the `TodoWrite` list."""

    content: str
    status: ItemStatus
    active_form: str = ""


class TodoWriteInput(FrameModel):
    """Replace the `TodoWrite` list."""

    todos: list[TodoItem]


class TodoWriteOutput(FrameModel, rename="camel"):
    """The output of `TodoWrite`: the list before and after the change."""

    old_todos: list[TodoItem]
    new_todos: list[TodoItem]
