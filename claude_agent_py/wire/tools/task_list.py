"""Tools of the to-do list: TaskCreate, TaskGet, TaskUpdate, TaskList, TodoWrite.

These are items of a list, with ids "1", "2", ...; background tasks are another thing, with ids of their own.
"""

from typing import Any, Literal, TypeAlias

from msgspec import field

from claude_agent_py.wire.base import CamelModel, FrameModel, Open, WireModel

ItemStatus: TypeAlias = Open[Literal["pending", "in_progress", "completed"]]


class TaskCreateInput(FrameModel, rename="camel"):
    """Add an item."""

    subject: str
    description: str
    active_form: str | None = None
    metadata: dict[str, Any] | None = None


class CreatedItem(WireModel):
    """The item as it was added."""

    id: str
    subject: str = ""
    description: str | None = None


class TaskCreateOutput(FrameModel):
    """The item was added."""

    task: CreatedItem


class TaskGetInput(FrameModel, rename="camel"):
    """Look at an item."""

    task_id: str


class TaskListItem(CamelModel):
    """An item of the list."""

    id: str
    subject: str = ""
    status: ItemStatus = "pending"
    owner: str | None = None
    blocked_by: list[str] = field(default_factory=list)


class TaskDetails(TaskListItem):
    """An item with all there is to know of it."""

    description: str = ""
    blocks: list[str] = field(default_factory=list)


class TaskGetOutput(FrameModel):
    """The item, or None where there is none."""

    task: TaskDetails | None


class TaskUpdateInput(FrameModel, rename="camel"):
    """Change an item. The status `deleted` removes it."""

    task_id: str
    subject: str | None = None
    description: str | None = None
    active_form: str | None = None
    status: Open[Literal["pending", "in_progress", "completed", "deleted"]] | None = None
    add_blocks: list[str] | None = None
    add_blocked_by: list[str] | None = None
    owner: str | None = None
    metadata: dict[str, Any] | None = None


class StatusChange(WireModel):
    """From which status to which."""

    from_: str = field(name="from")
    to: str


class TaskUpdateOutput(FrameModel, rename="camel"):
    """Whether the item was changed, and in what."""

    success: bool
    task_id: str
    updated_fields: list[str] = field(default_factory=list)
    error: str | None = None
    status_change: StatusChange | None = None


class TaskListInput(FrameModel):
    """List all items."""


class TaskListOutput(FrameModel):
    """All items."""

    tasks: list[TaskListItem]


class TodoItem(CamelModel):
    """An item of the older list."""

    content: str
    status: ItemStatus
    active_form: str = ""


class TodoWriteInput(FrameModel):
    """Replace the older list."""

    todos: list[TodoItem]


class TodoWriteOutput(FrameModel, rename="camel"):
    """The older list before and after."""

    old_todos: list[TodoItem]
    new_todos: list[TodoItem]
