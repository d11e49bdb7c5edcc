"""The engine: bytes in, events out; intents in, bytes out."""

import json
import random
from collections.abc import Iterable
from typing import Any, Final

import pytest
from each import for_each
from recordings_loader import lines, names

from claude_agent_py._protocol.engine import Engine
from claude_agent_py._protocol.events import (
    Event,
    MessageReceived,
    ReplyReceived,
    RequestCancelled,
    RequestReceived,
    RequestTimedOut,
    StrayReply,
    StreamEnded,
)
from claude_agent_py._protocol.open_runs import RunEnded, RunLimits, Until
from claude_agent_py._protocol.state import State, Step
from claude_agent_py.errors import LocalProtocolError
from claude_agent_py.tasks import TaskIntake
from claude_agent_py.testing import frames
from claude_agent_py.wire.codec import decode
from claude_agent_py.wire.control.asks import CanUseToolRequest
from claude_agent_py.wire.control.frames import UnknownControlRequest
from claude_agent_py.wire.messages.conversation import ResultMessage, UserContent, UserMessage
from claude_agent_py.wire.messages.tasks import TaskStartedMessage
from claude_agent_py.wire.unknown import MalformedFrame, UnknownMessage


class Tasks:
    """The tasks of a session, without a clock."""

    def __init__(self) -> None:
        self.intake = TaskIntake(clock=lambda: 0.0)
        self.tracked: list[Any] = []

    def track(self, message: Any, line: bytes = b"", /) -> None:
        self.tracked.append(message)
        self.intake.track(message)

    def live_ids(self) -> frozenset[str]:
        return self.intake.registry.live_ids()


RUN: Final = ()
"""What the engine knows the run by: any value that can be hashed, also one that is false."""


class Driver:
    """An engine whose clock stands still unless it is moved."""

    def __init__(self, *, max_line_bytes: int = 1 << 20) -> None:
        self.tasks = Tasks()
        self.engine = Engine(self.tasks, max_line_bytes=max_line_bytes)
        self.engine.advance(Step.START)
        self.now = 0.0

    def hear(self, *said: dict[str, Any]) -> list[Event]:
        """Receive frames of the CLI."""
        return self.engine.receive_data(frames.encode(*said), self.now)

    def ask(self, subtype: str = "interrupt", *, timeout: float | None = None, **fields: Any) -> str:
        return self.engine.request(subtype, fields, now=self.now, timeout=timeout).request_id

    def run(self, *prompts: str, until: Until = "result", limits: RunLimits | None = None) -> None:
        self.engine.open_run(RUN, until, limits or RunLimits(), self.now)
        for prompt in prompts:
            self.engine.send_prompt(RUN, prompt_message(prompt), self.now)
        self.engine.seal_run(RUN, self.now)

    def sent(self) -> list[dict[str, Any]]:
        """Give the frames that are to be written."""
        data = self.engine.data_to_send()
        assert data == b"" or data.endswith(b"\n")
        return [json.loads(line) for line in data.splitlines()]


def prompt_message(uuid: str) -> UserMessage:
    return UserMessage(message=UserContent(role="user", content="hi"), uuid=uuid)


def reply(request_id: str, payload: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    body = {"subtype": "success", "request_id": request_id, "response": payload or {}}
    return {"type": "control_response", "response": body | more}


def refusal(request_id: str, error: str, **more: Any) -> dict[str, Any]:
    return {
        "type": "control_response",
        "response": {"subtype": "error", "request_id": request_id, "error": error} | more,
    }


def result_of(*prompts: str, **fields: Any) -> dict[str, Any]:
    return frames.result("done", user_message_uuid=prompts[-1], user_message_uuids=list(prompts), **fields)


def kinds(events: Iterable[Event]) -> list[type]:
    return [type(event) for event in events]


# Bytes to events


def test_a_recording_means_the_same_in_any_chunking() -> None:
    def events_of(chunks: Iterable[bytes]) -> list[Event]:
        driver = Driver()
        driver.run("11111111-1111-4111-8111-111111111111", until="idle")
        events = [event for chunk in chunks for event in driver.engine.receive_data(chunk, 0.0)]
        return [*events, *driver.engine.receive_eof(0.0)]

    def check(name: str) -> None:
        recorded = lines(name)
        data = b"".join(recorded)
        chance = random.Random(name)
        cuts = sorted(chance.randrange(len(data) + 1) for _ in range(40))
        by_line = events_of(recorded)
        assert events_of(data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)) == by_line
        assert events_of([data]) == by_line
        assert kinds(by_line)[-1] is StreamEnded
        assert not [e for e in by_line if isinstance(e, MessageReceived) and isinstance(e.message, MalformedFrame)]

    for_each(names(), check)


def test_a_message_is_reported_with_its_line_and_its_runs() -> None:
    driver = Driver()
    driver.run("p")
    line = frames.encode(frames.assistant("hi", user_message_uuid="p", user_message_uuids=["p"]))
    (event,) = driver.engine.receive_data(line, 0.0)
    assert isinstance(event, MessageReceived)
    assert (event.line, event.runs) == (line[:-1], (RUN,))


def test_a_run_ends_after_its_result_was_reported() -> None:
    driver = Driver()
    driver.run("p")
    events = driver.hear(frames.lifecycle("started", "p"), result_of("p"), frames.lifecycle("completed", "p"))
    assert kinds(events) == [MessageReceived, MessageReceived, RunEnded, MessageReceived]
    ended = events[2]
    assert isinstance(ended, RunEnded)
    assert (ended.run_id, ended.reason) == (RUN, "result")


def test_the_tasks_hear_a_message_before_it_is_routed() -> None:
    driver = Driver()
    driver.run("p", until="idle")
    events = driver.hear(
        frames.lifecycle("started", "p"), frames.task_started("a1"), result_of("p"), frames.background_tasks("a1")
    )
    assert RunEnded not in kinds(events)
    assert driver.tasks.live_ids() == {"a1"}
    assert [type(message) for message in driver.tasks.tracked][1:3] == [TaskStartedMessage, ResultMessage]


@pytest.mark.parametrize("blank", [b"\n", b"  \n", b"\r\n", b"\t \r\n"])
def test_empty_lines_mean_nothing(blank: bytes) -> None:
    driver = Driver()
    assert driver.engine.receive_data(blank * 3, 0.0) == []
    assert driver.tasks.tracked == []


def test_empty_lines_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[bytes] = []

    def counting(line: bytes) -> Any:
        decoded.append(line)
        return decode(line)

    monkeypatch.setattr("claude_agent_py._protocol.engine.decode", counting)
    driver = Driver()
    assert driver.engine.receive_data(b"\n" * 100_000 + b" \t\r\n" * 1000 + b'{"type":"telepathy"}\n', 0.0) != []
    assert decoded == [b'{"type":"telepathy"}']


def test_a_sign_of_life_means_nothing_else() -> None:
    assert Driver().hear({"type": "keep_alive"}) == []


def test_what_nobody_knows_is_a_message() -> None:
    (event,) = Driver().hear({"type": "brand_new", "n": 1})
    assert isinstance(event, MessageReceived)
    assert event.message == UnknownMessage({"type": "brand_new", "n": 1})


def test_a_line_that_is_no_json_is_a_message_and_the_next_one_is_fine() -> None:
    events = Driver().engine.receive_data(b"Segmentation fault\n" + frames.encode(frames.assistant("hi")), 0.0)
    assert [type(event.message).__name__ for event in events if isinstance(event, MessageReceived)] == [
        "MalformedFrame",
        "AssistantMessage",
    ]


def test_a_line_that_is_too_long_is_a_message_with_its_head_and_the_next_one_is_fine() -> None:
    driver = Driver(max_line_bytes=1000)
    big = frames.encode(frames.assistant("x" * 5000))
    events = [*driver.engine.receive_data(big[:900], 0.0), *driver.engine.receive_data(big[900:], 0.0)]
    (event,) = events
    assert isinstance(event, MessageReceived)
    assert event.line == b""  # it would not give the message again
    assert event.message.line == big[:4096]
    assert f"{len(big) - 1} bytes" in event.message.error
    assert len(driver.hear({"type": "brand_new"})) == 1


def test_a_line_that_is_too_long_refuses_its_question() -> None:
    driver = Driver(max_line_bytes=1000)
    question = frames.can_use_tool("r1", input={"content": "x" * 5000, "request_id": "another"})
    (event,) = driver.hear(question)
    assert isinstance(event, MessageReceived)
    assert isinstance(event.message, MalformedFrame)
    (answer,) = driver.sent()
    assert (answer["response"]["request_id"], answer["response"]["subtype"]) == ("r1", "error")
    assert f"{len(frames.encode(question)) - 1} bytes" in answer["response"]["error"]
    assert "limits.max_line_bytes" in answer["response"]["error"]
    assert kinds(driver.hear(question)) == [MessageReceived]
    assert driver.sent() == []


def test_a_line_that_is_too_long_fails_the_request_that_it_replies_to() -> None:
    driver = Driver(max_line_bytes=1000)
    request_id, other = driver.ask("get_settings", timeout=60.0), driver.ask("interrupt")
    driver.sent()
    message, failed = driver.hear(reply(request_id, {"text": "x" * 5000}))
    assert isinstance(message, MessageReceived)
    assert isinstance(failed, ReplyReceived)
    assert (failed.request_id, failed.subtype, failed.payload) == (request_id, "get_settings", {})
    assert failed.error is not None
    assert "limits.max_line_bytes" in failed.error
    assert driver.engine.next_deadline() is None
    assert driver.hear(reply(other)) == [ReplyReceived(other, "interrupt", {})]
    assert driver.sent() == []


DEEP = "[" * 5000 + "]" * 5000
"""Deeper than any JSON parser for Python goes."""


def deep(frame: dict[str, Any]) -> bytes:
    """Return a frame as a line, with what is nested too deeply in the place of the string DEEP."""
    return frames.encode(frame).replace(b'"DEEP"', DEEP.encode())


def test_a_question_that_is_nested_too_deeply_is_refused() -> None:
    driver = Driver()
    (event,) = driver.engine.receive_data(deep(frames.can_use_tool("r1", input={"request_id": "r2", "a": "DEEP"})), 0.0)
    assert isinstance(event, MessageReceived)
    assert isinstance(event.message, MalformedFrame)
    (answer,) = driver.sent()
    assert (answer["response"]["request_id"], answer["response"]["subtype"]) == ("r1", "error")


def test_a_reply_that_is_nested_too_deeply_fails_its_request() -> None:
    driver = Driver()
    request_id = driver.ask("get_settings", timeout=60.0)
    _, failed = driver.engine.receive_data(deep(reply(request_id, {"a": "DEEP"})), 0.0)
    assert isinstance(failed, ReplyReceived)
    assert (failed.request_id, bool(failed.error)) == (request_id, True)


def test_a_result_that_is_nested_too_deeply_ends_its_run() -> None:
    driver = Driver()
    driver.run("p")
    result = {"permission_denials": "DEEP", **frames.result("hi")}  # the CLI does not write the type first
    events = driver.engine.receive_data(deep(result), 0.0)
    assert [event.reason for event in events if isinstance(event, RunEnded)] == ["unreadable"]


@pytest.mark.parametrize(
    "line",
    [
        {"type": "control_request", "request": {"input": {"request_id": "r2", "a": "DEEP"}}},
        {"type": "control_request", "x": {"request_id": "r2"}, "a": "DEEP"},
        {"type": "control_request", "x": '"request_id": "r2",', "a": "DEEP"},
    ],
)
def test_the_id_of_a_question_is_not_taken_from_what_a_tool_is_told(line: dict[str, Any]) -> None:
    driver = Driver()
    assert kinds(driver.engine.receive_data(deep(line), 0.0)) == [MessageReceived]
    assert driver.sent() == []


@pytest.mark.parametrize("kind", ["control_request", "control_response"])
def test_what_a_long_message_only_quotes_is_no_question_and_no_reply(kind: str) -> None:
    driver = Driver(max_line_bytes=1000)
    request_id = driver.ask("interrupt", timeout=60.0)
    driver.sent()
    quoted = json.dumps({"type": kind, "request_id": request_id})
    assert kinds(driver.hear(frames.assistant(quoted + "x" * 5000))) == [MessageReceived]
    assert driver.sent() == []
    assert driver.engine.next_deadline() == 60.0


def test_a_long_tool_call_whose_input_looks_like_a_question_is_none() -> None:
    driver = Driver(max_line_bytes=1000)
    quoted = {"type": "control_request", "request_id": "r1", "text": "x" * 5000}
    driver.hear(frames.assistant([frames.tool_use_block("Write", quoted)]))
    assert driver.sent() == []
    assert kinds(driver.hear(frames.can_use_tool("r1"))) == [RequestReceived]


def test_half_a_line_at_the_end_is_reported_and_then_every_run_ends() -> None:
    driver = Driver()
    driver.run("p", until="idle")
    driver.engine.receive_data(b'{"type": "resu', 0.0)
    events = driver.engine.receive_eof(0.0)
    assert kinds(events) == [MessageReceived, RunEnded, StreamEnded]
    half, ended, _ = events
    assert isinstance(half, MessageReceived)
    assert isinstance(ended, RunEnded)
    assert half.message.line == b'{"type": "resu'
    assert ended.reason == "closed"


def test_a_whole_frame_without_a_line_break_at_the_end_counts() -> None:
    driver = Driver()
    driver.run("p")
    driver.engine.receive_data(frames.encode(result_of("p"))[:-1], 0.0)
    events = driver.engine.receive_eof(0.0)
    assert [event.reason for event in events if isinstance(event, RunEnded)] == ["result"]


# Our requests


def test_a_request_is_written_as_one_line() -> None:
    driver = Driver()
    request_id = driver.ask("set_model", model="opus")
    assert driver.sent() == [
        {"type": "control_request", "request_id": request_id, "request": {"subtype": "set_model", "model": "opus"}}
    ]
    assert driver.sent() == []


def test_replies_find_their_requests_in_any_order() -> None:
    driver = Driver()
    first, second = driver.ask("get_settings"), driver.ask("set_model", model="nope")
    events = driver.hear(refusal(second, "no such model", error_code="bad_model"), reply(first, {"effective": {}}))
    assert events == [
        ReplyReceived(second, "set_model", {}, "no such model", "bad_model"),
        ReplyReceived(first, "get_settings", {"effective": {}}),
    ]


def test_a_reply_without_a_payload_has_an_empty_one() -> None:
    driver = Driver()
    request_id = driver.ask()
    said = {"type": "control_response", "response": {"subtype": "success", "request_id": request_id}}
    assert driver.hear(said) == [ReplyReceived(request_id, "interrupt", {})]


def test_stray_replies_are_told_apart() -> None:
    driver = Driver()
    answered, forgotten = driver.ask(), driver.ask()
    driver.hear(reply(answered))
    driver.engine.forget_request(forgotten)
    assert driver.hear(reply(answered), refusal(forgotten, "no"), reply("who?")) == [
        StrayReply(answered, "duplicate"),
        StrayReply(forgotten, "late"),
        StrayReply("who?", "unknown"),
    ]


def test_a_request_times_out_once_and_its_reply_is_late() -> None:
    driver = Driver()
    request_id = driver.ask("interrupt", timeout=5.0)
    assert driver.engine.next_deadline() == 5.0
    assert driver.engine.tick(4.9) == []
    assert driver.engine.tick(5.0) == [RequestTimedOut(request_id, "interrupt", 5.0)]
    assert driver.engine.tick(6.0) == []
    assert driver.engine.next_deadline() is None
    assert driver.hear(reply(request_id)) == [StrayReply(request_id, "late")]


def test_a_malformed_reply_fails_its_request_at_once() -> None:
    driver = Driver()
    request_id = driver.ask("interrupt", timeout=60.0)
    events = driver.hear({"type": "control_response", "response": {"subtype": "maybe", "request_id": request_id}})
    assert kinds(events) == [MessageReceived, ReplyReceived]
    answer = events[1]
    assert isinstance(answer, ReplyReceived)
    assert answer.error is not None
    assert answer.error.startswith("malformed reply: ")
    assert driver.engine.next_deadline() is None


def test_fields_that_are_no_json_send_nothing_and_leave_nothing_behind() -> None:
    driver = Driver()
    with pytest.raises(TypeError):
        driver.ask("set_model", timeout=5.0, model=object())
    assert driver.sent() == []
    assert driver.engine.next_deadline() is None


# The CLI's requests


def test_a_request_of_the_cli_is_reported_and_answered_once() -> None:
    driver = Driver()
    (event,) = driver.hear(frames.can_use_tool("r1"))
    assert isinstance(event, RequestReceived)
    assert isinstance(event.request, CanUseToolRequest)
    assert driver.engine.answer("r1", {"behavior": "allow"})
    assert not driver.engine.answer_error("r1", "changed my mind")
    assert driver.sent() == [reply("r1", {"behavior": "allow"})]


def test_a_request_that_comes_twice_is_reported_once() -> None:
    driver = Driver()
    assert len(driver.hear(frames.can_use_tool("r1"), frames.can_use_tool("r1"))) == 1
    driver.engine.answer("r1", {})
    assert driver.hear(frames.can_use_tool("r1")) == []


def test_a_request_can_be_refused() -> None:
    driver = Driver()
    driver.hear(frames.can_use_tool("r1"), frames.can_use_tool("r2"))
    assert driver.engine.answer_error("r1", "boom")
    assert driver.engine.answer_error("r2", "what?", "unsupported_request")
    assert driver.sent() == [refusal("r1", "boom"), refusal("r2", "what?", error_code="unsupported_request")]


def test_a_request_of_a_newer_cli_is_reported_too() -> None:
    (event,) = Driver().hear(frames.control_request("r1", "brand_new", n=1))
    assert isinstance(event, RequestReceived)
    assert isinstance(event.request, UnknownControlRequest)


def test_a_request_taken_back_is_reported_and_wants_no_answer() -> None:
    driver = Driver()
    driver.hear(frames.can_use_tool("r1"))
    assert driver.hear(frames.control_cancel("r1"), frames.control_cancel("r1")) == [RequestCancelled("r1")]
    assert not driver.engine.answer("r1", {})
    assert driver.sent() == []


def test_a_malformed_request_is_reported_and_refused_on_the_wire() -> None:
    driver = Driver()
    bad = {"type": "control_request", "request_id": "r1", "request": {"subtype": "can_use_tool"}}
    assert kinds(driver.hear(bad, bad)) == [MessageReceived, MessageReceived]
    (answer,) = driver.sent()
    assert answer["response"]["request_id"] == "r1"
    assert answer["response"]["subtype"] == "error"
    assert answer["response"]["error"].startswith("malformed request: request: Object missing required field `")


def test_an_answer_that_is_no_json_leaves_the_request_open() -> None:
    driver = Driver()
    driver.hear(frames.can_use_tool("r1"))
    with pytest.raises(TypeError):
        driver.engine.answer("r1", {"behavior": object()})
    assert driver.sent() == []
    assert driver.engine.answer_error("r1", "no JSON")


@pytest.mark.parametrize(
    "field", ["pending_permission_requests", "pending_user_dialog_requests", "pending_elicitation_requests"]
)
def test_requests_that_were_open_before_we_came_are_reported_after_the_reply(field: str) -> None:
    driver = Driver()
    request_id = driver.ask("initialize")
    open_before = [frames.can_use_tool("old1"), frames.can_use_tool("old2")]
    more: dict[str, Any] = {field: open_before}
    events = driver.hear(reply(request_id, **more), frames.can_use_tool("old1"))
    assert kinds(events) == [ReplyReceived, RequestReceived, RequestReceived]
    assert driver.engine.answer("old2", {})


# Runs


def test_prompts_are_written_in_order_and_only_for_a_run_that_is_open() -> None:
    driver = Driver()
    driver.run("p1", "p2")
    assert [frame["uuid"] for frame in driver.sent()] == ["p1", "p2"]
    assert driver.engine.drop_run(RUN) == ("p1", "p2")
    assert not driver.engine.send_prompt(RUN, prompt_message("p3"), 0.0)
    assert driver.sent() == []


def test_a_prompt_that_is_no_json_is_not_waited_for() -> None:
    driver = Driver()
    driver.engine.open_run(RUN, "result", RunLimits(), 0.0)
    bad = UserMessage(message=UserContent(role="user", content="hi"), uuid="p", tool_use_result=object())
    with pytest.raises(TypeError):
        driver.engine.send_prompt(RUN, bad, 0.0)
    assert driver.sent() == []
    assert driver.engine.turns.queued_prompts(RUN) == ()


def test_a_run_without_prompts_is_over_when_it_is_sealed() -> None:
    engine = Driver().engine
    engine.open_run(RUN, "result", RunLimits(), 0.0)
    (event,) = engine.seal_run(RUN, 0.0)
    assert isinstance(event, RunEnded)
    assert event.reason == "cancelled"


WRONG: Final = {"is_error": "no"}
"""A field of a result that says how the turn ended, and does not."""


def unreadable_ends(events: list[Event]) -> dict[Any, Any]:
    """Return the result that could not be read by the run that ended with it."""
    ends = [event for event in events if isinstance(event, RunEnded)]
    assert {end.reason for end in ends} <= {"unreadable"}
    return {end.run_id: end.frame and end.frame.raw for end in ends}


def test_a_result_that_cannot_be_read_ends_the_runs_whose_prompts_it_names() -> None:
    driver = Driver()
    for run_id, prompt in ("one", "p1"), ("two", "p2"), ("other", "p3"):
        driver.engine.open_run(run_id, "idle", RunLimits(), 0.0)
        driver.engine.send_prompt(run_id, prompt_message(prompt), 0.0)
        driver.engine.seal_run(run_id, 0.0)
    driver.hear(frames.lifecycle("started", "p1"), frames.assistant("hi", user_message_uuid="p1"))
    bad = result_of("p1", "p2", **WRONG)
    events = driver.hear(bad)
    assert kinds(events) == [MessageReceived, RunEnded, RunEnded]
    assert unreadable_ends(events) == {"one": bad, "two": bad}
    assert driver.engine.turns.open_runs == ("other",)
    assert driver.engine.turns.turn_runs == ()
    ended = [event for event in driver.hear(result_of("p3")) if isinstance(event, RunEnded)]
    assert [(end.run_id, end.reason) for end in ended] == [("other", "idle")]


@pytest.mark.parametrize("field", ["user_message_uuid", "user_message_uuids"])
def test_a_result_whose_prompts_cannot_be_read_ends_the_runs_of_its_turn(field: str) -> None:
    driver = Driver()
    driver.run("p")
    driver.hear(frames.lifecycle("started", "p"))
    bad = frames.result("done") | {"user_message_uuid": None, "user_message_uuids": None, field: 7}
    assert unreadable_ends(driver.hear(bad)) == {RUN: bad}


@pytest.mark.parametrize(
    "begins",
    [True, False],
)
def test_a_result_that_cannot_be_read_ends_the_run_where_the_cli_names_nobody(begins: bool) -> None:
    driver = Driver()
    driver.run("p")
    if begins:
        assert driver.hear(frames.init()) != []
    bad = {"type": "result", **WRONG}
    assert unreadable_ends(driver.hear(bad)) == {RUN: bad}


def test_a_result_that_is_too_long_ends_the_runs_of_its_turn() -> None:
    driver = Driver(max_line_bytes=1000)
    driver.run("p")
    driver.hear(frames.lifecycle("started", "p"))
    events = driver.hear(frames.result("x" * 5000, user_message_uuid="p", user_message_uuids=["p"]))
    assert [event.reason for event in events if isinstance(event, RunEnded)] == ["unreadable"]
    assert driver.engine.turns.open_runs == ()


def test_the_result_of_somebody_elses_turn_that_cannot_be_read_ends_nothing() -> None:
    driver = Driver()
    driver.run("p")
    driver.hear(frames.lifecycle("queued", "p"), frames.init())
    assert unreadable_ends(driver.hear({"type": "result", **WRONG})) == {}
    assert [e.reason for e in driver.hear(result_of("p")) if isinstance(e, RunEnded)] == ["result"]


def test_tasks_that_ended_without_a_message_are_noticed_by_settling() -> None:
    driver = Driver()
    driver.run("p", until="idle")
    driver.hear(frames.lifecycle("started", "p"), frames.task_started("b1", task_type="local_bash"), result_of("p"))
    assert not driver.engine.settle(0.0)
    driver.tasks.intake.registry.lose_all("gone", 0.0)
    (event,) = driver.engine.settle(0.0)
    assert isinstance(event, RunEnded)
    assert event.reason == "idle"
    assert event.tasks == {"b1"}


# Time


def test_the_next_deadline_is_the_earliest_of_all() -> None:
    driver = Driver()
    driver.run("p", limits=RunLimits(run=30.0))
    assert driver.engine.next_deadline() == 30.0
    driver.ask(timeout=10.0)
    assert driver.engine.next_deadline() == 10.0


def test_a_run_that_takes_too_long_is_over() -> None:
    driver = Driver()
    driver.run("p", limits=RunLimits(run=30.0))
    assert driver.engine.tick(29.0) == []
    (event,) = driver.engine.tick(30.0)
    assert isinstance(event, RunEnded)
    assert (event.reason, event.kind, event.limit) == ("timeout", "run", 30.0)
    assert driver.engine.next_deadline() is None


def test_while_somebody_is_asked_the_cli_is_not_silent() -> None:
    driver = Driver()
    driver.run("p", limits=RunLimits(silence=10.0))
    driver.hear(frames.lifecycle("started", "p"), frames.can_use_tool("r1"))
    assert driver.engine.tick(10.0) == []
    assert driver.engine.next_deadline() == 20.0


@pytest.mark.parametrize("how", ["answered", "refused", "taken back"])
def test_the_time_in_which_somebody_was_asked_does_not_count(how: str) -> None:
    driver = Driver()
    driver.run("p", limits=RunLimits(silence=10.0))
    driver.hear(frames.lifecycle("started", "p"), frames.can_use_tool("r1"))
    driver.now = 9.0
    if how == "answered":
        driver.engine.answer("r1", {})
    elif how == "refused":
        driver.engine.answer_error("r1", "no")
    else:
        driver.hear(frames.control_cancel("r1"))
    assert driver.engine.tick(10.0) == []
    assert kinds(driver.engine.tick(20.0)) == [RunEnded]


# The end


@pytest.mark.parametrize(
    ("state", "steps"),
    [
        (State.NEW, []),
        (State.LEFT, [Step.START, Step.LEAVE]),
        (State.CLOSING, [Step.START, Step.CLOSE]),
        (State.DIED, [Step.START, Step.END_OF_STREAM]),
        (State.EXITED, [Step.START, Step.ASK_EXIT, Step.END_OF_STREAM]),
        (State.CLOSED, [Step.START, Step.CLOSE, Step.END_OF_STREAM]),
    ],
)
def test_nothing_is_sent_but_to_a_cli_that_is_there_for_it(state: State, steps: list[Step]) -> None:
    engine = Engine(Tasks(), max_line_bytes=1000)
    for step in steps:
        engine.advance(step)
    assert (engine.state, engine.can_send) == (state, False)
    with pytest.raises(LocalProtocolError):
        engine.request("interrupt", {}, now=0.0, timeout=1.0)
    with pytest.raises(LocalProtocolError):
        engine.open_run(RUN, "result", RunLimits(), 0.0)
    with pytest.raises(LocalProtocolError):
        engine.send_prompt(RUN, prompt_message("p"), 0.0)
    assert not engine.has_data_to_send
    assert engine.next_deadline() is None


@pytest.mark.parametrize("step", [Step.ASK_EXIT, Step.LEAVE, Step.CLOSE])
def test_a_cli_that_still_works_is_heard_and_answered(step: Step) -> None:
    driver = Driver()
    driver.run("p")
    driver.sent()
    driver.engine.advance(step)
    assert RequestReceived in kinds(driver.hear(frames.can_use_tool("r1")))
    assert driver.engine.answer("r1", {})
    assert driver.sent() == [reply("r1")]
    assert RunEnded in kinds(driver.hear(result_of("p")))
    assert kinds(driver.engine.receive_eof(0.0)) == [StreamEnded]


def test_a_cli_that_is_gone_is_not_answered() -> None:
    driver = Driver()
    driver.hear(frames.can_use_tool("r1"))
    driver.engine.receive_eof(0.0)
    assert driver.engine.state is State.DIED
    assert not driver.engine.answer("r1", {})
    assert driver.sent() == []


def test_the_end_may_be_noticed_twice() -> None:
    driver = Driver()
    driver.run("p")
    driver.engine.advance(Step.END_OF_STREAM)  # by the process
    assert kinds(driver.engine.receive_eof(0.0)) == [RunEnded, StreamEnded]
    assert kinds(driver.engine.receive_eof(0.0)) == [StreamEnded]
    assert driver.engine.state is State.DIED
