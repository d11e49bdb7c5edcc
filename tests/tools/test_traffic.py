"""Pairing calls and results, on recordings of the real CLI and on messages made here."""

import json
from dataclasses import replace
from typing import Any

import pytest
from each import for_each
from recordings_loader import lines, names
from wire_values import read_frame

from claude_agent_py import AssistantMessage, ResultMessage, RunResult, ToolResultBlock, ToolUseBlock, UserMessage, wire
from claude_agent_py.testing import frames
from claude_agent_py.tools import BashInput, ToolCallRecord, ToolCallStatus, ToolTraffic


def folded(name: str) -> tuple[ToolTraffic, list[ToolCallRecord]]:
    """Fold a recording; give the traffic, and the calls in the order of their results."""
    traffic = ToolTraffic()
    done = [record for line in lines(name) for record in traffic.fold(wire.decode(line))]
    return traffic, done


def called(call_id: str, name: str = "Bash", data: dict[str, Any] | None = None, **fields: Any) -> AssistantMessage:
    block = {"type": "tool_use", "id": call_id, "name": name, "input": data or {}}
    message = {"id": "m", "role": "assistant", "model": "x", "content": [block]}
    read: AssistantMessage = read_frame({"type": "assistant", "message": message, **fields})
    return read


def returned(call_id: str, content: Any = "done", **fields: Any) -> UserMessage:
    block = {"type": "tool_result", "tool_use_id": call_id, "content": content}
    read: UserMessage = read_frame({"type": "user", "message": {"role": "user", "content": [block]}, **fields})
    return read


def test_the_denials_of_a_run_are_its_denied_calls() -> None:
    def check(name: str) -> None:
        messages: list[Any] = [wire.decode(line) for line in lines(name)]
        results = [message for message in messages if isinstance(message, ResultMessage)]
        if results:
            run = RunResult(message=results[-1], results=results, messages=messages)
            denied = {call.id for call in run.tool_calls if call.status is ToolCallStatus.DENIED}
            seen = {call.id for call in run.tool_calls}
            assert {denial.tool_use_id for denial in run.permission_denials} & seen == denied

    for_each(names(), check)


def test_every_kind_of_mcp_result() -> None:
    traffic, done = folded("control/02_mcp_content_kinds")

    calls = {record.tool_name: record for record in traffic.calls}
    assert done == traffic.calls
    assert {record.server_name for record in done} == {"calc"}
    assert all(record.done for record in done)
    assert calls["text"].text == "plain:{'x': '1'}"
    assert calls["text"].input == {"x": "1"}
    assert calls["text"].display_name == "Text"
    assert [block.type for block in calls["image"].blocks] == ["text", "image", "text"]
    assert (calls["structured"].structured, calls["structured"].text) == ({"a": 1}, '{"a":1}')
    assert calls["text"].structured is None
    assert {name for name, record in calls.items() if record.is_error} == {"iserr", "rpcerr", "unknownblock", "ctlerr"}
    assert calls["empty"].text == "(mcp__calc__empty completed with no output)"


@pytest.mark.parametrize(
    ("shown", "is_kept"),
    [
        ('{"a":1}', True),
        ([{"type": "text", "text": '{"a":1}'}, {"type": "text", "text": "[Image]"}], True),
        ("<persisted-output>\nOutput too large (54.7KB).", True),
        ("Error: result (150,008 characters) exceeds maximum allowed tokens.", True),
        ("withheld", False),
        ('{"a":2}', False),
        ([], False),
    ],
)
def test_what_a_hook_replaced_is_replaced_for_programs_too(shown: Any, is_kept: bool) -> None:
    traffic = ToolTraffic()
    traffic.fold(called("toolu_1", "mcp__shop__buy"))
    [record] = traffic.fold(
        returned("toolu_1", shown, tool_use_result={"content": shown, "structuredContent": {"a": 1}})
    )
    assert record.structured == ({"a": 1} if is_kept else None)
    assert is_kept or record.tool_use_result == shown


def test_results_come_in_another_order_than_calls_and_take_time() -> None:
    traffic, _ = folded("control/02_mcp_parallel_mixed")

    assert [record.tool_name for record in traffic.calls] == ["slow_ro", "slow_de", "slow_ro"]
    assert [round(record.duration or 0, 1) for record in traffic.calls] == [0.6, 0.9, 1.1]


def test_the_permission_decision() -> None:
    traffic, _ = folded("control/02_mcp_policy")

    decisions = [record.permission for record in traffic.calls]

    assert [decision.source if decision else None for decision in decisions] == ["user_temporary", None]


def test_an_interrupted_call() -> None:
    traffic, _ = folded("tasks/s09_pending_prompt_interrupt")

    kinds = {record.non_execution_kind for record in traffic.calls if record.non_execution_kind}
    assert kinds == {"user-rejected"}


def test_the_calls_of_subagents_name_them() -> None:
    traffic, _ = folded("tasks/s03_parallel_fg")

    parents = {record.id for record in traffic.calls if record.agent_id is None}
    children = [record for record in traffic.calls if record.agent_id is not None]
    assert children
    assert all(record.parent_tool_use_id in parents and record.subagent_type for record in children)


def test_built_in_tools_are_typed() -> None:
    traffic, _ = folded("tasks/s10_long_foreground_bash")

    record = next(record for record in traffic.calls if record.name == "Bash")
    assert isinstance(record.typed_input, BashInput)
    assert type(record.structured).__name__ == "BashOutput"
    assert (record.server_name, record.tool_name) == (None, "Bash")


def test_every_result_of_every_recording_finds_its_call() -> None:
    def check(name: str) -> None:
        traffic, done = folded(name)

        results = {
            block.tool_use_id
            for line in lines(name)
            if isinstance(message := wire.decode(line), UserMessage)
            for block in message.tool_results
        }
        known = {record.id for record in traffic.calls}
        assert {record.id for record in done if not record.was_cut_off} == results & known
        assert len(done) == len({record.id for record in done})
        for record in traffic.calls:
            assert record.text is not None
            assert record.typed_input is not None
            _ = record.structured

    for_each(names(), check)


def test_a_clock_measures_where_messages_have_no_time() -> None:
    traffic = ToolTraffic()
    traffic.fold(called("a"), now=10.0)

    [record] = traffic.fold(returned("a"), now=12.5)

    assert (record.duration, record.started_at, record.ended_at) == (2.5, None, None)


def test_timestamps_win_over_the_clock() -> None:
    traffic = ToolTraffic()
    traffic.fold(called("a", timestamp="2026-01-01T00:00:00.000Z"), now=10.0)

    [record] = traffic.fold(returned("a", timestamp="2026-01-01T00:00:01.250Z"), now=20.0)

    assert record.duration == 1.25
    assert (record.ended_at or 0) - (record.started_at or 0) == 1.25


def test_bad_timestamps_are_no_times() -> None:
    traffic = ToolTraffic()
    traffic.fold(called("a", timestamp="yesterday"))

    [record] = traffic.fold(returned("a", timestamp=""))

    assert record.duration is None


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({}, "succeeded"),
        ({"permission_decision": {"decision": "accept", "source": "config"}}, "succeeded"),
        ({"permission_decision": {"decision": "reject", "source": "hook"}}, "denied"),
        ({"non_execution_kind": "permission-rule"}, "denied"),
        ({"non_execution_kind": "user-rejected"}, "cancelled"),
        ({"non_execution_kind": "user-rejected", "permission_decision": {"decision": "reject"}}, "denied"),
        ({"non_execution_kind": "of a new kind"}, "denied"),
        ({"non_execution_kind": "interrupted", "permission_decision": {"decision": "accept"}}, "cancelled"),
        ({"permission_decision": {"decision": "cancelled"}}, "cancelled"),
    ],
)
def test_the_status_of_a_call_that_has_ended(fields: dict[str, Any], status: str) -> None:
    traffic = ToolTraffic()
    traffic.fold(called("a"))

    [record] = traffic.fold(returned("a", tool_result_meta=[{"id": "a", **fields}]))

    assert record.status is ToolCallStatus(status)
    assert record.status.is_terminal


def test_the_status_follows_what_the_messages_show() -> None:
    traffic = ToolTraffic()
    for call_id in ("launch", "report", "beat", "speak", "wait"):
        traffic.fold(called(call_id))
    assert {record.status for record in traffic.calls} == {ToolCallStatus.PENDING}

    traffic.fold(wire.decode(b'{"type":"system","subtype":"task_started","task_id":"t","tool_use_id":"launch"}'))
    traffic.fold(wire.decode(b'{"type":"tool_progress","tool_use_id":"report","tool_name":"Bash"}'))
    for beat in "beat-heartbeat-0", "hook-PreToolUse-wait-heartbeat-0":
        parent = beat.split("-")[-3]
        heartbeat = {"type": "tool_progress", "tool_use_id": beat, "parent_tool_use_id": parent, "heartbeat": True}
        traffic.fold(wire.decode(json.dumps(heartbeat).encode()))
    traffic.fold(called("inner", parent_tool_use_id="speak"))

    assert {record.id: str(record.status) for record in traffic.calls} == {
        "launch": "running",
        "report": "running",
        "beat": "running",
        "speak": "running",
        "wait": "pending",
        "inner": "pending",
    }
    traffic.fold(returned("launch"))
    traffic.fold(wire.decode(b'{"type":"tool_progress","tool_use_id":"launch","tool_name":"Bash"}'))
    launched = traffic.get("launch")
    assert launched is not None
    assert launched.status is ToolCallStatus.SUCCEEDED


@pytest.mark.parametrize(
    ("recording", "status"),
    [
        ("tasks/s09_no_prompt_tool", "denied"),
        ("tasks/s09_pending_prompt_interrupt", "cancelled"),
        ("tasks/s07_stdin_closed_permission", "cancelled"),
        ("control/02_mcp_content_kinds", "failed"),
    ],
)
def test_statuses_on_recordings(recording: str, status: str) -> None:
    traffic, _ = folded(recording)

    assert status in {str(record.status) for record in traffic.calls}
    assert all(record.status.is_terminal == record.done for record in traffic.calls)


def test_pending_calls() -> None:
    traffic = ToolTraffic()
    traffic.fold(called("a"))
    traffic.fold(called("b"))
    traffic.fold(returned("b", [{"type": "text", "text": "x"}]))

    assert [record.id for record in traffic.pending] == ["a"]
    assert (traffic.pending[0].blocks, traffic.pending[0].text, traffic.pending[0].is_error) == ([], "", False)
    assert traffic.get("b") == traffic.calls[1]
    assert traffic.get("c") is None
    assert repr(traffic) == "<ToolTraffic 2 calls, 1 pending>"


def test_a_forgotten_call_and_its_result_are_ignored() -> None:
    traffic = ToolTraffic()
    for call in ("a", "b"):
        traffic.fold(called(call), 1.0)
    traffic.forget("a")
    traffic.forget("unknown")
    assert traffic.fold(returned("a"), 2.0) == []
    [record] = traffic.fold(returned("b"), 3.0)
    assert (record.id, record.duration) == ("b", 2.0)
    assert [record.id for record in traffic.calls] == ["b"]


def test_repeated_calls_count_once() -> None:
    traffic = ToolTraffic()
    traffic.fold(called("a"))
    traffic.fold(called("a"))

    assert len(traffic.fold(returned("a"))) == 1
    assert traffic.fold(returned("a")) == []
    assert traffic.fold(returned("unknown")) == []
    assert len(traffic.calls) == 1


def test_a_denial_without_a_meta_is_a_decision() -> None:
    traffic = ToolTraffic()
    traffic.fold(called("a"))
    denied = b'{"type":"system","subtype":"permission_denied","tool_use_id":"a","decision_reason_type":"rule"}'
    traffic.fold(wire.decode(denied))

    [record] = traffic.fold(returned("a"))

    assert record.permission is not None
    assert (record.permission.decision, record.permission.reason_type) == ("reject", "rule")


def test_a_result_shared_by_two_calls_belongs_to_none() -> None:
    traffic = ToolTraffic()
    traffic.fold(called("a"))
    traffic.fold(called("b"))
    both = [{"type": "tool_result", "tool_use_id": call_id, "content": "x"} for call_id in "ab"]
    message = read_frame({"type": "user", "message": {"role": "user", "content": both}, "tool_use_result": {"x": 1}})

    assert [record.tool_use_result for record in traffic.fold(message)] == [None, None]


def test_the_repr_of_a_call_shows_input_and_result_in_short() -> None:
    call = ToolUseBlock(id="t1", name="Bash", input={"command": "x" * 500})
    record = ToolCallRecord(call=call, id="t1", name="Bash", agent_id="a1")
    assert repr(record).startswith("<ToolCallRecord t1 Bash({'command': 'xxx")
    assert repr(record).endswith("...) by a1 pending>")
    done = replace(record, result=ToolResultBlock(tool_use_id="t1", content="one\ntwo " + "y" * 500))
    assert "succeeded -> one two yyy" in repr(done)
    assert len(repr(done)) < 250


def test_calls_without_a_result_end_with_the_turn_or_when_the_next_one_begins() -> None:
    for end in (frames.result(user_message_uuid=None, user_message_uuids=[]), frames.init()):
        traffic = ToolTraffic()
        traffic.fold(called("t1"))
        traffic.fold(called("t2", agent_id="a1", parent_tool_use_id="t9"))
        assert [record.id for record in traffic.fold(read_frame(end))] == ["t1"]
        assert [record.id for record in traffic.pending] == ["t2"]  # of a subagent
        assert (traffic.calls[0].status, traffic.calls[0].was_cut_off) == (ToolCallStatus.CANCELLED, True)
