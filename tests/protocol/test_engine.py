"""The engine: bytes in, events out; intents in, bytes out."""

import json
import random
from collections.abc import Iterable
from typing import Any

import pytest
from recordings_loader import lines, names

from claude_agent_py.errors import LocalProtocolError
from claude_agent_py.protocol.engine import Engine
from claude_agent_py.protocol.events import (
    Event,
    MessageReceived,
    ReplyReceived,
    RequestCancelled,
    RequestReceived,
    RequestTimedOut,
    RunEnded,
    StrayReply,
    StreamEnded,
)
from claude_agent_py.protocol.state import State
from claude_agent_py.protocol.turns import RunLimits, Until
from claude_agent_py.tasks.ledger.ledger import Ledger
from claude_agent_py.testing import frames
from claude_agent_py.wire.asks import CanUseToolRequest
from claude_agent_py.wire.codec import decode
from claude_agent_py.wire.control import ControlCancelRequest, UnknownControlRequest
from claude_agent_py.wire.messages import ResultMessage, UserContent, UserMessage
from claude_agent_py.wire.tasks import TaskStartedMessage
from claude_agent_py.wire.unknown import MalformedFrame, UnknownMessage


class Tasks:
    """The tasks of a session, without a clock."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.tracked: list[Any] = []

    def track(self, message: Any, line: bytes = b"", /) -> None:
        self.tracked.append(message)
        self.ledger.fold(message, 0.0)

    def live_ids(self) -> frozenset[str]:
        return self.ledger.live_ids()


class Driver:
    """An engine whose clock stands still unless it is moved."""

    def __init__(self, *, max_line_bytes: int = 1 << 20) -> None:
        self.tasks = Tasks()
        self.engine = Engine(self.tasks, max_line_bytes=max_line_bytes)
        self.now = 0.0

    def hear(self, *said: dict[str, Any]) -> list[Event]:
        """Receive frames of the CLI."""
        return self.engine.receive_data(frames.encode(*said), self.now)

    def ask(self, subtype: str = "interrupt", *, timeout: float | None = None, **fields: Any) -> str:
        return self.engine.request(subtype, fields, now=self.now, timeout=timeout).request_id

    def run(self, *prompts: str, until: Until = "result", limits: RunLimits | None = None) -> None:
        self.engine.open_run(1, until, limits or RunLimits(), self.now)
        for prompt in prompts:
            self.engine.send_prompt(1, prompt_message(prompt), self.now)
        self.engine.seal_run(1, self.now)

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


@pytest.mark.parametrize("name", names())
def test_a_recording_means_the_same_in_any_chunking(name: str) -> None:
    def events_of(chunks: Iterable[bytes]) -> list[Event]:
        driver = Driver()
        driver.run("11111111-1111-4111-8111-111111111111", until="idle")
        events = [event for chunk in chunks for event in driver.engine.receive_data(chunk, 0.0)]
        return [*events, *driver.engine.receive_eof(0.0)]

    recorded = lines(name)
    data = b"".join(recorded)
    chance = random.Random(name)
    cuts = sorted(chance.randrange(len(data) + 1) for _ in range(40))
    by_line = events_of(recorded)
    assert events_of(data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)) == by_line
    assert events_of([data]) == by_line
    assert kinds(by_line)[-1] is StreamEnded
    assert not [e for e in by_line if isinstance(e, MessageReceived) and isinstance(e.message, MalformedFrame)]


def test_a_message_is_reported_with_the_length_of_its_line_and_its_runs() -> None:
    driver = Driver()
    driver.run("p")
    line = frames.encode(frames.assistant("hi", user_message_uuid="p", user_message_uuids=["p"]))
    (event,) = driver.engine.receive_data(line, 0.0)
    assert isinstance(event, MessageReceived)
    assert (event.size, event.runs) == (len(line) - 1, (1,))


def test_a_run_ends_after_its_result_was_reported() -> None:
    driver = Driver()
    driver.run("p")
    events = driver.hear(frames.lifecycle("started", "p"), result_of("p"), frames.lifecycle("completed", "p"))
    assert kinds(events) == [MessageReceived, MessageReceived, RunEnded, MessageReceived]
    ended = events[2]
    assert isinstance(ended, RunEnded)
    assert (ended.end.run_id, ended.end.reason) == (1, "result")


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
    assert event.size == len(big) - 1
    assert event.message.line == big[:4096]
    assert f"{len(big) - 1} bytes" in event.message.error
    assert len(driver.hear({"type": "brand_new"})) == 1


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
    assert ended.end.reason == "closed"


def test_a_whole_frame_without_a_line_break_at_the_end_counts() -> None:
    driver = Driver()
    driver.run("p")
    driver.engine.receive_data(frames.encode(result_of("p"))[:-1], 0.0)
    events = driver.engine.receive_eof(0.0)
    assert [event.end.reason for event in events if isinstance(event, RunEnded)] == ["result"]


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
    assert driver.engine.drop_run(1) == ("p1", "p2")
    assert not driver.engine.send_prompt(1, prompt_message("p3"), 0.0)
    assert driver.sent() == []


def test_a_prompt_that_is_no_json_is_not_waited_for() -> None:
    driver = Driver()
    driver.engine.open_run(1, "result", RunLimits(), 0.0)
    bad = UserMessage(message=UserContent(role="user", content="hi"), uuid="p", tool_use_result=object())
    with pytest.raises(TypeError):
        driver.engine.send_prompt(1, bad, 0.0)
    assert driver.sent() == []
    assert driver.engine.turns.queued_prompts(1) == ()


def test_a_run_without_prompts_is_over_when_it_is_sealed() -> None:
    engine = Driver().engine
    engine.open_run(1, "result", RunLimits(), 0.0)
    (event,) = engine.seal_run(1, 0.0)
    assert isinstance(event, RunEnded)
    assert event.end.reason == "cancelled"


def test_tasks_that_ended_without_a_message_are_noticed_by_settling() -> None:
    driver = Driver()
    driver.run("p", until="idle")
    driver.hear(frames.lifecycle("started", "p"), frames.task_started("b1", task_type="local_bash"), result_of("p"))
    assert driver.engine.settle(0.0) == []
    driver.tasks.ledger.book.lose_all("gone", 0.0)
    (event,) = driver.engine.settle(0.0)
    assert isinstance(event, RunEnded)
    assert event.end.reason == "idle"
    assert event.end.tasks == {"b1"}


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
    assert (event.end.reason, event.end.kind, event.end.limit) == ("timeout", "run", 30.0)
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


def test_a_closed_engine_refuses_to_send() -> None:
    driver = Driver()
    driver.hear(frames.can_use_tool("r1"))
    driver.engine.receive_eof(0.0)
    assert driver.engine.state is State.CLOSED
    with pytest.raises(LocalProtocolError):
        driver.ask()
    with pytest.raises(LocalProtocolError):
        driver.engine.open_run(1, "result", RunLimits(), 0.0)
    with pytest.raises(LocalProtocolError):
        driver.engine.send_prompt(1, prompt_message("p"), 0.0)
    with pytest.raises(LocalProtocolError):
        driver.engine.send(ControlCancelRequest(request_id="r1"))
    assert not driver.engine.answer("r1", {})
    assert driver.sent() == []


def test_after_the_end_of_our_input_the_cli_is_still_heard() -> None:
    driver = Driver()
    driver.run("p")
    driver.engine.end_input()
    assert driver.engine.state is State.INPUT_ENDED
    with pytest.raises(LocalProtocolError):
        driver.ask()
    assert RunEnded in kinds(driver.hear(result_of("p")))
    assert kinds(driver.engine.receive_eof(0.0)) == [StreamEnded]


def test_any_other_frame_can_be_sent() -> None:
    driver = Driver()
    driver.engine.send(ControlCancelRequest(request_id="r1"))
    assert driver.sent() == [{"type": "control_cancel_request", "request_id": "r1"}]


def test_empty_lines_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[bytes] = []

    def counting(line: bytes) -> Any:
        decoded.append(line)
        return decode(line)

    monkeypatch.setattr("claude_agent_py.protocol.engine.decode", counting)
    driver = Driver()
    assert driver.engine.receive_data(b"\n" * 100_000 + b" \t\r\n" * 1000 + b'{"type":"telepathy"}\n', 0.0) != []
    assert decoded == [b'{"type":"telepathy"}']
