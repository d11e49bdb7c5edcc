"""The CLI's to-do list, tracked from calls of TaskCreate, TaskUpdate, TaskGet, TaskList and TodoWrite.

Item ids ("1", "2", ...) are unrelated to the ids of background tasks. The CLI offers these tools to newer models only
if `TASK_LIST_ENVIRONMENT` is set.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeAlias, TypeVar, cast

from msgspec import Struct, field
from msgspec.structs import fields

from claude_agent_py._base.bounded_reading import read_bytes, read_json
from claude_agent_py._base.event_loop import run_file_work
from claude_agent_py._base.lazy_names import attach
from claude_agent_py._base.streams import Stream
from claude_agent_py._journal.views import View
from claude_agent_py.wire.base import JSONObject
from claude_agent_py.wire.fitting import Misfit, fit
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

if TYPE_CHECKING:
    from claude_agent_py._journal.facts import CallEnded, Fact

__all__ = ["TASK_LIST_ENVIRONMENT", "TODO_ENVIRONMENT", "TaskList", "TaskListChange", "TaskListItem"]

if not TYPE_CHECKING:
    __getattr__, _ = attach(__name__, {})

TASK_LIST_ENVIRONMENT: Final[Mapping[str, str]] = {"CLAUDE_CODE_ENABLE_TODO_TOOLS": "1"}
"""Switches TaskCreate, TaskGet, TaskUpdate and TaskList on."""
TODO_ENVIRONMENT: Final[Mapping[str, str]] = {"CLAUDE_CODE_ENABLE_TODO_TOOLS": "1", "CLAUDE_CODE_ENABLE_TASKS": "0"}
"""Switches the older TodoWrite on instead."""

_NOT_IN_NAME: Final = r"[^A-Za-z0-9_-]"
_ITEM_FILE: Final = r"(?P<id>[A-Za-z0-9_-]+)\.json"
_MAX_ITEM_BYTES: Final = 16 * 1024 * 1024
_MAX_LIST_BYTES: Final = 64 * 1024 * 1024
_MAX_ITEMS: Final = 10_000
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


class TaskList(View):
    """The to-do list of a session. Iterating yields the known items, ordered by number."""

    def __init__(self, config_dir: str | os.PathLike[str] | None = None, *, list_id: str | None = None) -> None:
        """Create a list.

        Args:
            config_dir: The CLI's configuration directory, where it keeps the list; None reads no files.
            list_id: The list's id (`CLAUDE_CODE_TASK_LIST_ID`); None means the session's own.
        """
        self.config_dir: str | os.PathLike[str] | None = config_dir
        """The CLI's configuration directory, if known."""
        self.uid: int | None = None
        """The user who has to own the files; None means any. Internal to this package."""
        self._list_id = list_id
        self._is_of_session = list_id is None
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

    # Files

    @property
    def directory(self) -> str | None:
        """The directory of the list; None while unknown."""
        return get_directory(os.fspath(self.config_dir), self._list_id) if self.config_dir and self._list_id else None

    async def read(self) -> list[TaskListItem]:
        """Read the list from the CLI's files and return its items. Changes are reported like those from messages.

        Returns the known items if the directory is unknown. If a file cannot be read, its item stays unchanged.
        """
        directory = self.directory
        if directory is not None:
            found, unreadable = await run_file_work(
                read_items, directory, TaskListItem, self.uid, abandon_on_cancel=True
            )
            gone = [item_id for item_id in self._items if item_id not in found and item_id not in unreadable]
            self._publish([*map(self._remove, gone), *map(self._put, found.values())])
        return self.items

    # The wire

    def track(self, message: object, /) -> list[TaskListChange]:
        """Update the list from a message of the session and return the changes. Unexpected content does not raise.

        A fact of its journal does the same as the messages that it is from. Pass one or the other.
        """
        if isinstance(message, InitMessage) and self._is_of_session:
            return self._switch_session(message.session_id)
        if getattr(message, "fact", None):
            facts = [cast("Fact", message)]
        elif isinstance(message, UserMessage | AssistantMessage) and (self._journal or calls_task_list(message)):
            facts = self._fold(message)
        else:
            return []
        return self._publish([change for fact in facts for change in self._read_fact(fact)])

    def add(self, facts: "Sequence[Fact]") -> None:
        """Update the list from facts of the session."""
        for fact in facts:
            self.track(fact)

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
        gone = list(self._items) if self._list_id not in (None, session_id) else []
        self._list_id = session_id or self._list_id
        return self._publish(map(self._remove, gone))

    def _read_fact(self, fact: "Fact") -> list[TaskListChange | None]:
        return self._read_result(fact) if fact.fact == "call_ended" else []

    def _read_result(self, fact: "CallEnded") -> list[TaskListChange | None]:
        name, given = fact.call.name, fact.call.input
        if name not in self._APPLY or fact.result.is_error:
            return []
        structured = fact.structured
        # Results of a subagent's calls have only text.
        if not isinstance(structured, dict):
            structured = _parse_text(name, given, fact.result.text)
        try:
            return self._APPLY[name](self, given, structured) if structured else []
        except Misfit:
            # Another version of the CLI sent the result. The files are authoritative.
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

    _APPLY: ClassVar[Mapping[str, Callable[[Any, JSONObject, JSONObject], list[TaskListChange | None]]]] = {
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
    return isinstance(message, AssistantMessage) and any(block.name in TaskList._APPLY for block in message.tool_uses)


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


# Files ---------------------------------------------------------------------------------------------------------------
#
# One JSON object for each item, `<config dir>/tasks/<list id>/<id>.json`. They are never written, because the CLI locks
# the list. Measured with CLI 2.1.328: the list's id is the session's unless `CLAUDE_CODE_TASK_LIST_ID` is set, other
# characters than `[A-Za-z0-9_-]` become hyphens, and deleting an item deletes its file. All calls block.


ItemT = TypeVar("ItemT", bound=TaskDetails)


def get_directory(config_dir: str, list_id: str) -> str:
    """Return the directory of a list."""
    return os.path.join(config_dir, "tasks", re.sub(_NOT_IN_NAME, "-", list_id))


def read_items(directory: str, model: type[ItemT], uid: int | None = None) -> tuple[dict[str, ItemT], set[str]]:
    """Return the items of a list by id, and the ids of the items whose files cannot be read."""
    items: dict[str, ItemT] = {}
    unreadable: set[str] = set()
    room = _MAX_LIST_BYTES
    for item_id in _list_item_ids(directory):
        try:
            path, most = os.path.join(directory, f"{item_id}.json"), min(room, _MAX_ITEM_BYTES)
            data, size = read_bytes(path, most_bytes=most, uid=uid)
            room -= size
            item, _ = fit(model, read_json(data))
        except (OSError, ValueError):
            # The CLI is writing the file, another version wrote it, or it exceeds the limit.
            unreadable.add(item_id)
        else:
            items[item.id] = item
    return items, unreadable


def _list_item_ids(directory: str) -> list[str]:
    try:
        names = os.listdir(directory)
    except (OSError, ValueError):
        # The CLI has not created the directory yet.
        return []
    return [found["id"] for name in sorted(names) if (found := re.fullmatch(_ITEM_FILE, name))][:_MAX_ITEMS]
