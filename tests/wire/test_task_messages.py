"""The messages of a task's life, and the words for its state."""

import pickle
from typing import Any

import pytest
from msgspec import Struct
from recordings_loader import all_frames, as_line

from claude_agent_py import (
    TaskNotificationMessage,
    TaskProgressMessage,
    TaskStartedMessage,
    TaskStatus,
    TaskUpdatedMessage,
)
from claude_agent_py.messages import BackgroundTasksChangedMessage, TaskMessage, TaskPatch
from claude_agent_py.wire import decode

TASK_SUBTYPES: dict[str, type[TaskMessage]] = {
    "task_started": TaskStartedMessage,
    "task_progress": TaskProgressMessage,
    "task_updated": TaskUpdatedMessage,
    "task_notification": TaskNotificationMessage,
    "background_tasks_changed": BackgroundTasksChangedMessage,
}


def unknown_fields(model: type[Struct], data: dict[str, Any]) -> set[str]:
    """Return the fields of a JSON object that its model does not know."""
    return data.keys() - set(model.__struct_encode_fields__) - {"type", "subtype"}


def test_the_words_of_the_state() -> None:
    assert [str(status) for status in TaskStatus] == [
        "pending",
        "running",
        "paused",
        "awaiting_user",
        "completed",
        "failed",
        "stopped",
    ]
    assert {status for status in TaskStatus if status.is_terminal} == {
        TaskStatus.COMPLETED,
        TaskStatus.FAILED,
        TaskStatus.STOPPED,
    }


def test_killed_reads_as_stopped() -> None:
    assert TaskStatus("killed") is TaskStatus.STOPPED
    assert TaskStatus.read("killed") is TaskStatus.STOPPED
    assert pickle.loads(pickle.dumps(TaskStatus("killed"))) is TaskStatus.STOPPED


def test_a_new_word_is_no_status() -> None:
    with pytest.raises(ValueError, match="hibernating"):
        TaskStatus("hibernating")
    assert TaskStatus.read("hibernating") is None
    assert TaskStatus.read(None) is None


def test_the_wire_keeps_its_own_word() -> None:
    patch = TaskPatch(status="killed")
    assert (patch.status, patch.task_status) == ("killed", TaskStatus.STOPPED)
    assert TaskPatch().task_status is None


@pytest.mark.parametrize(
    ("word", "status", "is_success"),
    [
        ("completed", TaskStatus.COMPLETED, True),
        ("failed", TaskStatus.FAILED, False),
        ("stopped", TaskStatus.STOPPED, False),
        ("of a newer CLI", None, False),
    ],
)
def test_a_notification_says_how_it_ended(word: str, status: TaskStatus | None, is_success: bool) -> None:
    message = TaskNotificationMessage(task_id="a", status=word)
    assert (message.task_status, message.is_success) == (status, is_success)


def test_every_field_of_a_recorded_task_message_is_known() -> None:
    seen: set[str] = set()
    for _, direction, frame in all_frames():
        if direction == "out" and frame.get("subtype") in TASK_SUBTYPES:
            message = decode(as_line(frame))
            assert type(message) is TASK_SUBTYPES[frame["subtype"]]
            assert unknown_fields(type(message), frame) == set()
            seen.add(frame["subtype"])
    assert seen == TASK_SUBTYPES.keys()
