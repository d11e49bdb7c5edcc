"""The CLI's to-do list: from messages, and separate from tasks."""

from typing import Any

import anyio
import pytest
from folding import Frame, message
from recordings_loader import lines

from claude_agent_py.tasks import TaskList, TaskManager
from claude_agent_py.testing import frames
from claude_agent_py.wire import decode

pytestmark = pytest.mark.anyio


class Model:
    """Calls tools of the list, with the results of the CLI."""

    def __init__(self, tasks: TaskList | None = None) -> None:
        self.list = TaskList() if tasks is None else tasks
        self.changes: list[Any] = []
        self._count = 0

    def call(self, name: str, given: Frame, result: Any, text: str = "", **fields: Any) -> list[str]:
        self._count += 1
        call = frames.tool_use_block(name, given, id=f"toolu_{self._count}")
        self.list.track(message(frames.assistant([call], **fields)))
        said = frames.tool_result(f"toolu_{self._count}", text, tool_use_result=result, **fields)
        changes = self.list.track(message(said))
        self.changes += changes
        return [change.kind for change in changes]

    def create(self, item_id: str, subject: str, **given: Any) -> list[str]:
        given = {"subject": subject, "description": f"do {subject}"} | given
        return self.call("TaskCreate", given, {"task": {"id": item_id, "subject": subject}})

    def update(self, item_id: str, **given: Any) -> list[str]:
        return self.call("TaskUpdate", {"taskId": item_id, **given}, {"success": True, "taskId": item_id})


@pytest.fixture
def model() -> Model:
    model = Model()
    model.create("1", "First", activeForm="Doing it", metadata={"k": 1, "gone": 2})
    model.create("2", "Second")
    return model


def test_created_items(model: Model) -> None:
    first, second = model.list
    assert (first.id, first.subject, first.description, first.active_form) == ("1", "First", "do First", "Doing it")
    assert (first.status, first.owner, first.metadata) == ("pending", None, {"k": 1, "gone": 2})
    assert second.subject == "Second"
    assert [change.kind for change in model.changes] == ["created", "created"]
    assert repr(model.list) == "<TaskList 2 items, 2 open>"


def test_updated_items(model: Model) -> None:
    assert model.update("1", status="in_progress", owner="me", metadata={"gone": None, "new": 3}) == ["updated"]
    item = model.list["1"]
    assert (item.status, item.owner, item.metadata) == ("in_progress", "me", {"k": 1, "new": 3})
    assert model.changes[-1].old.status == "pending"
    assert model.update("1", status="in_progress") == []


def test_dependencies_stand_on_both_sides(model: Model) -> None:
    assert sorted(model.update("2", addBlockedBy=["1", "77"])) == ["updated", "updated"]
    assert (model.list["2"].blocked_by, model.list["1"].blocks) == (["1"], ["2"])
    assert [item.id for item in model.list.ready] == ["1"]
    assert [item.id for item in model.list.blockers(model.list["2"])] == ["1"]
    model.update("1", status="completed")
    assert [item.id for item in model.list.ready] == ["2"]
    model.create("3", "Third")
    model.update("1", addBlocks=["3"])
    assert model.list["3"].blocked_by == ["1"]


def test_deleted_items(model: Model) -> None:
    assert model.update("2", status="deleted") == ["deleted"]
    assert model.list.get("2") is None
    assert model.changes[-1].item.subject == "Second"
    assert model.update("2", status="deleted") == []


def test_a_failed_update_changes_nothing(model: Model) -> None:
    refused = {"success": False, "taskId": "1", "updatedFields": [], "error": "Task not found"}
    assert model.call("TaskUpdate", {"taskId": "1", "status": "completed"}, refused) == []
    assert model.list["1"].status == "pending"


def test_a_listing_replaces_what_was_known(model: Model) -> None:
    listed = {"tasks": [{"id": "1", "subject": "First", "status": "completed", "blockedBy": []}, {"id": "5"}]}
    assert sorted(model.call("TaskList", {}, listed)) == ["created", "deleted", "updated"]
    assert [item.id for item in model.list] == ["1", "5"]
    assert model.list["1"].description == "do First"  # which the listing does not tell


def test_looking_at_one_item(model: Model) -> None:
    found = {"task": {"id": "1", "subject": "First", "description": "new", "status": "completed", "blocks": ["2"]}}
    assert model.call("TaskGet", {"taskId": "1"}, found) == ["updated"]
    assert (model.list["1"].description, model.list["1"].blocks) == ("new", ["2"])
    assert model.call("TaskGet", {"taskId": "2"}, {"task": None}) == ["deleted"]


def test_a_subagents_calls_are_read_out_of_their_text(model: Model) -> None:
    agent = {"agent_id": "a1", "parent_tool_use_id": "toolu_a1"}
    given = {"subject": "Third", "description": "d"}
    assert model.call("TaskCreate", given, None, "Task #3 created successfully: Third", **agent) == ["created"]
    moved = {"taskId": "3", "status": "completed"}
    assert model.call("TaskUpdate", moved, None, "Updated task #3 status", **agent) == ["updated"]
    assert model.list["3"].status == "completed"
    assert model.call("TaskUpdate", moved | {"status": "pending"}, None, "Task not found", **agent) == []


def test_the_older_list() -> None:
    model = Model()
    todos = [{"content": "one", "status": "in_progress", "activeForm": "Doing one"}]
    assert model.call("TodoWrite", {"todos": todos}, {"oldTodos": [], "newTodos": todos}) == ["todos"]
    assert [todo.content for todo in model.list.todos] == ["one"]
    assert model.call("TodoWrite", {"todos": []}, None, "Todos have been modified") == ["todos"]
    assert model.list.todos == []


@pytest.mark.parametrize(
    ("name", "result"),
    [("TaskCreate", {}), ("TaskUpdate", {"success": "perhaps"}), ("TaskList", {"tasks": 5}), ("Bash", {"task": {}})],
)
def test_results_of_another_version_do_no_harm(model: Model, name: str, result: Any) -> None:
    assert model.call(name, {"taskId": "1"}, result) == []
    assert len(model.list) == 2


def test_other_messages_do_no_harm() -> None:
    tasks = TaskList()
    for odd in (None, 5, message(frames.result()), message(frames.task_started("1")), message(frames.user("hi"))):
        assert tasks.track(odd) == []
    assert len(tasks) == 0


async def test_changes_are_a_stream(model: Model) -> None:
    changes = model.list.changes()
    model.update("1", status="completed")
    model.list.close()
    with anyio.fail_after(60):
        assert [(change.kind, change.item.status) async for change in changes if change.item] == [
            ("updated", "completed")
        ]


def test_a_recorded_list() -> None:
    tasks, manager = TaskList(), TaskManager()
    seen = []
    for line in lines("tasks/s06_task_todo_tools"):
        frame = decode(line)
        seen += [(change.kind, change.item.id) for change in tasks.track(frame) if change.item]
        manager.track(frame)
    assert seen == [
        ("created", "1"),
        ("created", "2"),
        ("updated", "1"),
        ("updated", "2"),
        ("updated", "1"),
        ("updated", "1"),
        ("deleted", "2"),
    ]
    assert [(item.id, item.subject, item.status, item.blocks) for item in tasks] == [("1", "First", "completed", ["2"])]
    assert len(manager) == 0  # the two kinds of ids never meet


def test_another_session_has_another_list(model: Model) -> None:
    tasks = model.list
    assert tasks.track(message(frames.init() | {"session_id": "one"})) == []
    gone = tasks.track(message(frames.init() | {"session_id": "two"}))
    assert [change.kind for change in gone] == ["deleted", "deleted"]
    assert len(tasks) == 0


def test_a_shared_list_stays_in_another_session() -> None:
    model = Model(TaskList(is_shared=True))
    model.create("1", "First")
    for session in ("one", "two"):
        assert model.list.track(message(frames.init() | {"session_id": session})) == []
    assert [item.subject for item in model.list] == ["First"]


def test_items_are_ordered_by_number_and_others_come_last(model: Model) -> None:
    for item_id in ("10", "beta", "alpha", "9"):
        model.create(item_id, "More")
    assert [item.id for item in model.list.items] == ["1", "2", "9", "10", "alpha", "beta"]
