"""Every frame that was ever recorded has a model, and comes back as the same JSON value."""

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from recordings_loader import all_frames, as_line, frames, names, records
from reply_models import REPLIES
from wire_values import as_json

from claude_agent_py import MalformedFrame, UnknownMessage
from claude_agent_py.control import ControlRequest, ControlResponse, ControlSuccess, UnknownControlRequest
from claude_agent_py.messages import UnknownBlock, UnknownDelta, UnknownStreamEvent
from claude_agent_py.wire import decode, encode

WRONG_ON_PURPOSE = {
    ("control/03_control_requests", "request.tool_use_id"): "can_use_tool in the wrong direction",
    ("control/03_control_requests", "request"): "a request without a body",
    ("control/03_control_requests", "request.subtype"): "a body without a subtype",
    ("control/03_control_requests", "request_id"): "a request without an id",
    ("control/03_odd_no_request", "request"): "a request without a body",
    ("control/03_odd_request_no_subtype", "request.subtype"): "a body without a subtype",
}
"""What we wrote to see how the CLI takes it. The CLI itself never wrote a malformed frame."""

INTERNAL = {
    "agents_killed",
    "api_error",
    "away_summary",
    "code_change_published",
    "file_attachments_missing",
    "file_snapshot",
    "inherited_asks_settled",
    "instruction_size_warning",
    "late_allow_not_run",
    "memory_saved",
    "model_consent_fallback",
    "model_fallback",
    "peer_message_hold",
    "per_turn_effort_changed",
    "permission_check_status",
    "permission_retry",
    "post_turn_summary",
    "scheduled_task_fire",
    "session_metadata",
    "shell_cwd",
    "stop_hook_summary",
    "task_list_statuses",
    "task_summary",
    "thinking",
    "turn_duration",
    "turn_preempted",
    "vcs_state_changed",
    "update_environment_variables",
}
"""Messages that the CLI marks as internal: they have no model."""


def unknowns(value: Any) -> Iterator[Any]:
    """Find the unknown parts of a frame."""
    if isinstance(value, UnknownBlock | UnknownStreamEvent | UnknownDelta | UnknownControlRequest):
        yield value
    elif isinstance(value, msgspec.Struct):
        yield from (found for name in value.__struct_fields__ for found in unknowns(getattr(value, name)))
    elif isinstance(value, list):
        yield from (found for item in value for found in unknowns(item))


def read_alike(said: Any, came: Any) -> bool:
    """Return whether everything that a model says came so, beside what came and the model does not know."""
    if isinstance(said, dict):
        return isinstance(came, dict) and all(key in came and read_alike(said[key], came[key]) for key in said)
    if isinstance(said, list):
        return isinstance(came, list) and len(said) == len(came) and all(map(read_alike, said, came))
    return type(said) is type(came) and bool(said == came)


def test_there_is_something_to_test() -> None:
    assert len(names()) > 250
    assert sum(1 for _ in all_frames()) > 4500


@pytest.mark.parametrize("direction", ["in", "out"])
def test_every_frame_has_a_model(direction: str) -> None:
    wrong: dict[tuple[str, str], str] = {}
    unknown: set[str] = set()
    for name, way, frame in all_frames():
        if way == direction:
            decoded = decode(as_line(frame))
            if isinstance(decoded, UnknownMessage):
                unknown.add(decoded.subtype or decoded.type)
            if isinstance(decoded, MalformedFrame):
                wrong[name, ".".join(map(str, decoded.location))] = decoded.error
    assert wrong.keys() == (WRONG_ON_PURPOSE.keys() if direction == "in" else set())
    assert unknown <= INTERNAL


def test_every_part_of_every_frame_of_the_cli_has_a_model() -> None:
    written = [frame for _, direction, frame in all_frames() if direction == "out"]
    assert [part for frame in written for part in unknowns(decode(as_line(frame)))] == []


def without_attribute(model: Any, raw: Any) -> Iterator[str]:
    """Find the fields of a frame that its model does not declare."""
    if isinstance(model, msgspec.Struct) and isinstance(raw, dict):
        declared = {field.encode_name: field.name for field in msgspec.structs.fields(type(model))}
        for name, value in raw.items():
            if name in declared:
                yield from without_attribute(getattr(model, declared[name]), value)
            elif not isinstance(getattr(model, name, None), str):  # the tags are attributes of the class
                yield f"{type(model).__name__}.{name}"
    elif isinstance(model, list) and isinstance(raw, list):
        for item, value in zip(model, raw, strict=True):
            yield from without_attribute(item, value)


def test_every_field_of_the_newest_recorded_cli_has_an_attribute() -> None:
    """A session of CLI 2.1.332 with thinking, a subagent and its shell, a title, slash commands and a compaction."""
    newest = frames("turns/every_field_2_1_332")
    assert {name for frame in newest for name in without_attribute(decode(as_line(frame)), frame)} == set()


def test_every_frame_comes_back_as_the_same_json_value() -> None:
    for name, direction, frame in all_frames():
        decoded = decode(as_line(frame))
        assert json.loads(encode(decoded)) == frame, (name, direction)
        assert decoded.raw == frame, (name, direction)


def test_recorded_raw_lines_are_decoded_without_raising() -> None:
    raw = [record.value for name in names() for record in records(name) if record.direction == "in_raw"]
    assert len(raw) > 30
    for line in raw:
        decode(line)
        decode(line.encode("utf-8", "surrogatepass"))


def test_every_answer_of_the_cli_fits_its_model() -> None:
    asked: dict[tuple[str, str], str] = {}
    typed: set[str] = set()
    for name, direction, frame in all_frames():
        decoded = decode(as_line(frame))
        if direction == "in" and isinstance(decoded, ControlRequest):
            asked[name, decoded.request_id] = decoded.subtype
    for name, direction, frame in all_frames():
        decoded = decode(as_line(frame))
        if direction == "out" and isinstance(decoded, ControlResponse) and isinstance(decoded.response, ControlSuccess):
            subtype = asked.get((name, decoded.request_id), "")
            if subtype in REPLIES and decoded.response.response is not None:
                reply = msgspec.convert(decoded.response.response, REPLIES[subtype])
                assert read_alike(as_json(reply), decoded.response.response), (name, subtype)
                typed.add(subtype)
    assert len(typed) > 20
