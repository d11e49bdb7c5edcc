"""The CLI's to-do list, tracked from calls of TaskCreate, TaskUpdate, TaskGet, TaskList and TodoWrite.

Item ids ("1", "2", ...) are unrelated to the ids of background tasks. The CLI offers these tools to newer models only
if `TASK_LIST_ENVIRONMENT` is set.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import ClassVar, Final, Literal, TypeAlias

from msgspec import Struct, field
from msgspec.structs import fields

from claude_agent_py._base.streams import Stream
from claude_agent_py._journal.facts import CallEnded
from claude_agent_py._journal.tool_calls import ToolCallRecord, ToolTraffic
from claude_agent_py.wire.base import JSONObject
from claude_agent_py.wire.fitting import Misfit, fit
from claude_agent_py.wire.messages.content import ToolUseBlock
from claude_agent_py.wire.messages.conversation import AssistantMessage, UserMessage
from claude_agent_py.wire.messages.system import InitMessage
from claude_agent_py.wire.tools.task_list import (
    TaskCreateOutput,
    TaskDetails,
    TaskGetOutput,
    TaskListItem as ListedItem,
    TaskListOutput,
    TaskUpdateInput,
    TaskUpdateOutput,
    TodoItem,
    TodoWriteOutput,
)

TASK_LIST_ENVIRONMENT: Final[Mapping[str, str]] = {"CLAUDE_CODE_ENABLE_TODO_TOOLS": "1"}
"""Switches TaskCreate, TaskGet, TaskUpdate and TaskList on."""
TODO_ENVIRONMENT: Final[Mapping[str, str]] = {"CLAUDE_CODE_ENABLE_TODO_TOOLS": "1", "CLAUDE_CODE_ENABLE_TASKS": "0"}
"""Switches the older TodoWrite on instead."""

_CREATED: Final = r"Task #(\d+) created"
_UPDATED: Final = "Updated task #"

ChangeKind: TypeAlias = Literal["created", "updated", "deleted", "todos"]


class TaskListItem(TaskDetails):
    """An item of the list, with its status, its owner and the items that block it."""

    active_form: str | None = None
    """The text to show while the item is in progress."""
    metadata: JSONObject = field(default_factory=dict)

    @property
    def is_open(self) -> bool:
        """Whether the item is not completed."""
        return self.status != "completed"


class TaskListChange(Struct, frozen=True):
    """A change of the list."""

    kind: ChangeKind
    item: TaskListItem | None = None
    """The item now (before, if it was deleted); None for `todos`."""
    old: TaskListItem | None = None
    """The item before, if known."""
    todos: tuple[TodoItem, ...] = ()
    """The whole older list, for `todos`."""


class TaskList:
    """The to-do list of a session. Iterating yields the known items, ordered by number."""

    def __init__(self, *, is_shared: bool = False) -> None:
        """Create a list.

        Args:
            is_shared: Whether sessions share the list (`CLAUDE_CODE_TASK_LIST_ID`), so that a new session keeps it.
        """
        self._is_shared = is_shared
        self._traffic = ToolTraffic()
        self._session_id: str | None = None
        self._items: dict[str, TaskListItem] = {}
        self._todos: tuple[TodoItem, ...] = ()
        self._streams: list[Stream[TaskListChange]] = []

    def __repr__(self) -> str:
        return f"<TaskList {len(self._items)} items, {sum(item.is_open for item in self)} open>"

    def __iter__(self) -> Iterator[TaskListItem]:
        return iter(sorted(self._items.values(), key=_sort_key))

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, item_id: str) -> TaskListItem:
        """Return an item. Raises KeyError."""
        return self._items[item_id]

    def get(self, item_id: str) -> TaskListItem | None:
        """Return an item, or None if the id is unknown."""
        return self._items.get(item_id)

    @property
    def items(self) -> list[TaskListItem]:
        """All items, ordered by number."""
        return list(self)

    @property
    def todos(self) -> list[TodoItem]:
        """The items of the older list, written by TodoWrite."""
        return list(self._todos)

    def blockers(self, item: TaskListItem) -> list[TaskListItem]:
        """Return the open items that an item waits for."""
        known = (self._items.get(item_id) for item_id in item.blocked_by)
        return [other for other in known if other is not None and other.is_open]

    @property
    def ready(self) -> list[TaskListItem]:
        """The pending items that wait for nothing."""
        return [item for item in self if item.status == "pending" and not self.blockers(item)]

    # The wire

    def track(self, message: object, /) -> list[TaskListChange]:
        """Update the list from a message of the session and return the changes. Unexpected content does not raise.

        A fact of its journal does the same as the messages that it is from. Pass one or the other.
        """
        if isinstance(message, InitMessage) and not self._is_shared:
            return self._switch_session(message.session_id)
        done: Iterable[ToolCallRecord] = ()
        if isinstance(message, CallEnded):
            done = [ToolCallRecord.of(message)]
        elif isinstance(message, UserMessage | AssistantMessage) and (
            self._traffic.pending or calls_task_list(message)
        ):
            done = self._traffic.fold(message)
            for call in done:
                self._traffic.forget(call.id)
        return self._publish(change for call in done for change in self._read_result(call))

    def changes(self) -> Stream[TaskListChange]:
        """Return a stream of all further changes, to iterate with `async for`. It ends with `close`."""
        stream: Stream[TaskListChange] = Stream()
        self._streams.append(stream)
        return stream

    def close(self) -> None:
        """End the streams of changes."""
        for stream in self._streams:
            stream.close()
        self._streams.clear()

    def _switch_session(self, session_id: str) -> list[TaskListChange]:
        """Switch to the list of this session. After `/clear` the session has a new id and an empty list."""
        gone = list(self._items) if self._session_id not in (None, session_id) else []
        self._session_id = session_id or self._session_id
        return self._publish(map(self._remove, gone))

    def _read_result(self, call: ToolCallRecord) -> list[TaskListChange | None]:
        if call.name not in self._APPLY or call.is_error:
            return []
        structured = call.tool_use_result
        # Results of a subagent's calls have only text.
        if not isinstance(structured, dict):
            structured = _parse_text(call.name, call.input, call.text)
        try:
            return self._APPLY[call.name](self, call.input, structured) if structured else []
        except Misfit:
            # Another version of the CLI sent the result.
            return []

    def _apply_create(self, given: JSONObject, result: JSONObject) -> list[TaskListChange | None]:
        made = fit(TaskCreateOutput, result)[0].task
        fields = {key: given[key] for key in ("description", "activeForm", "metadata") if given.get(key) is not None}
        return [self._put(fit(TaskListItem, {**fields, "id": made.id, "subject": made.subject})[0])]

    def _apply_update(self, given: JSONObject, result: JSONObject) -> list[TaskListChange | None]:
        done = fit(TaskUpdateOutput, result)[0]
        asked = fit(TaskUpdateInput, given)[0]
        if not done.success:
            return []
        if asked.status == "deleted":
            return [self._remove(done.task_id)]
        item = self._items.get(done.task_id) or TaskListItem(id=done.task_id)
        links = self._add_links(item.id, asked.add_blocks or [], asked.add_blocked_by or [])
        return [self._put(_apply_fields(links.pop(item.id, item), asked)), *map(self._put, links.values())]

    def _add_links(self, item_id: str, blocks: list[str], blocked_by: list[str]) -> dict[str, TaskListItem]:
        """Return the items that change when links are added. Both ends store a link."""
        changed: dict[str, TaskListItem] = {}

        def link(one: str, side: str, other: str) -> None:
            item = changed.get(one) or self._items.get(one)
            if item is not None and other in self._items and other not in getattr(item, side):
                changed[one] = item.replace(**{side: [*getattr(item, side), other]})

        for other in blocks:
            link(item_id, "blocks", other)
            link(other, "blocked_by", item_id)
        for other in blocked_by:
            link(other, "blocks", item_id)
            link(item_id, "blocked_by", other)
        return changed

    def _apply_get(self, given: JSONObject, result: JSONObject) -> list[TaskListChange | None]:
        found = fit(TaskGetOutput, result)[0].task
        if found is None:
            return [self._remove(str(given.get("taskId")))]
        return [self._put(self._update_item(found, result["task"]))]

    def _apply_list(self, given: JSONObject, result: JSONObject) -> list[TaskListChange | None]:
        found = fit(TaskListOutput, result)[0].tasks
        gone = set(self._items) - {item.id for item in found}
        kept = [self._update_item(item, data) for item, data in zip(found, result["tasks"], strict=True)]
        return [*map(self._remove, gone), *map(self._put, kept)]

    def _apply_todos(self, given: JSONObject, result: JSONObject) -> list[TaskListChange | None]:
        self._todos = tuple(fit(TodoWriteOutput, result)[0].new_todos)
        return [TaskListChange("todos", todos=self._todos)]

    _APPLY: ClassVar[Mapping[str, Callable[..., list[TaskListChange | None]]]] = {
        "TaskCreate": _apply_create,
        "TaskUpdate": _apply_update,
        "TaskGet": _apply_get,
        "TaskList": _apply_list,
        "TodoWrite": _apply_todos,
    }
    """Applies the result of each tool, given its input."""

    # Keeping

    def _update_item(self, found: ListedItem, data: JSONObject) -> TaskListItem:
        """Return an item updated with the fields of a tool's result."""
        changes = {field.name: getattr(found, field.name) for field in fields(found) if field.encode_name in data}
        return (self._items.get(found.id) or TaskListItem(id=found.id)).replace(**changes)

    def _put(self, item: TaskListItem) -> TaskListChange | None:
        old = self._items.get(item.id)
        self._items[item.id] = item
        if old is None:
            return TaskListChange("created", item)
        return TaskListChange("updated", item, old) if item != old else None

    def _remove(self, item_id: str) -> TaskListChange | None:
        old = self._items.pop(item_id, None)
        return None if old is None else TaskListChange("deleted", old, old)

    def _publish(self, changes: Iterable[TaskListChange | None]) -> list[TaskListChange]:
        published = [change for change in changes if change is not None]
        for stream in self._streams:
            for change in published:
                stream.put(change)
        return published


def calls_task_list(message: AssistantMessage | UserMessage) -> bool:
    """Return whether a message calls a tool of the list."""
    if isinstance(message, AssistantMessage):
        for block in message.message.content:  # most messages: without a generator it takes half the time
            if type(block) is ToolUseBlock and block.name in TaskList._APPLY:
                return True
    return False


def _apply_fields(item: TaskListItem, asked: TaskUpdateInput) -> TaskListItem:
    """Return an item with the fields that an update sets. A null in the metadata removes a key."""
    names = ("subject", "description", "active_form", "status", "owner")
    fields: dict[str, object] = {name: getattr(asked, name) for name in names if getattr(asked, name) is not None}
    if asked.metadata is not None:
        fields["metadata"] = {
            key: value for key, value in (item.metadata | asked.metadata).items() if value is not None
        }
    return item.replace(**fields)


def _parse_text(name: str, given: JSONObject, text: str) -> JSONObject | None:
    """Parse the result of a call from its text, or return None if the text is not enough."""
    created = re.match(_CREATED, text)
    if name == "TaskCreate" and created:
        return {"task": {"id": created[1], "subject": given.get("subject", "")}}
    if name == "TaskUpdate" and text.startswith(_UPDATED):
        return {"success": True, "taskId": given.get("taskId")}
    if name == "TodoWrite":
        return {"oldTodos": [], "newTodos": given.get("todos")}
    return None


def _sort_key(item: TaskListItem) -> tuple[int, str]:
    if item.id.isdecimal() and len(item.id) < 10:
        return int(item.id), ""
    return 10**9, item.id
