"""The library decodes every frame of `testing.frames` to a known type."""

from typing import Any

import pytest

from claude_agent_py import MalformedFrame, UnknownMessage, wire
from claude_agent_py.testing import frames

BUILT: list[dict[str, Any]] = [
    frames.init(),
    frames.assistant("hi"),
    frames.assistant([frames.tool_use_block("Bash", {"command": "ls"})], parent_tool_use_id="toolu_1"),
    frames.user("hi"),
    frames.tool_result("toolu_1", "found"),
    frames.result("hi"),
    frames.result("too many", subtype="error_max_turns"),
    frames.result("", origin=frames.task_origin("a1")),
    *frames.api_error("API Error: 500", "server_error"),
    *frames.text_stream("he", "llo"),
    frames.task_started("a1"),
    frames.task_progress("a1"),
    frames.task_updated("a1", "killed", end_time=1),
    frames.task_notification("a1", "stopped"),
    frames.background_tasks("a1", "a2"),
    *frames.task_end("a1", "stopped"),
    frames.session_state("idle"),
    frames.lifecycle("queued", "u1"),
    frames.can_use_tool("r1"),
    frames.hook_callback("r1", "hook_0", {"hook_event_name": "Stop", "stop_hook_active": False}),
    frames.mcp_message("r1", "calc", "tools/list"),
    frames.control_cancel("r1"),
]


@pytest.mark.parametrize("frame", BUILT, ids=lambda frame: f"{frame['type']}-{frame.get('subtype', '')}")
def test_a_built_frame_decodes_to_a_known_type(frame: dict[str, Any]) -> None:
    frame = {key: value for key, value in frame.items() if not key.startswith("user_message_uuid")}
    decoded = wire.decode(frames.encode(frame))
    assert not isinstance(decoded, MalformedFrame | UnknownMessage), decoded
    assert type(decoded).__name__ not in {"UnknownSystemMessage", "SystemMessage", "UnknownControlRequest"}


def test_every_frame_has_its_own_uuid() -> None:
    uuids = [frame["uuid"] for frame in BUILT if "uuid" in frame]
    assert len(set(uuids)) == len(uuids)


def test_fields_can_be_added_and_replaced() -> None:
    assert frames.result("x", num_turns=7, extra=1)["num_turns"] == 7
    assert frames.task_started("a1", task_type="local_bash")["task_type"] == "local_bash"
    assert frames.init(model="m", extra=1)["model"] == "m"
    assert frames.background_tasks("a1", tasks=[])["tasks"] == []
    assert frames.result("x", user_message_uuids=["u"])["user_message_uuids"] == ["u"]


def test_a_failed_result_has_errors_and_no_text() -> None:
    failed = frames.result("boom", subtype="error_during_execution")
    assert (failed["errors"], failed["is_error"]) == (["boom"], True)
    assert "result" not in failed


def test_a_tool_result_says_is_error_only_of_an_error() -> None:
    [block] = frames.tool_result("t", "x")["message"]["content"]
    [failed] = frames.tool_result("t", "x", is_error=True)["message"]["content"]
    assert block == {"type": "tool_result", "tool_use_id": "t", "content": "x"}
    assert failed == {**block, "is_error": True}
