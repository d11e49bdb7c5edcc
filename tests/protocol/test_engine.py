"""The engine: bytes in, events out; and the states of a session."""

import json
import math
import random
from collections.abc import Iterable
from typing import Any, get_args

import pytest
from each import for_each
from hypothesis import given, strategies as st
from recordings_loader import lines, names

from claude_agent_py import AssistantMessage, MalformedFrame, ResultMessage, UnknownMessage, UserMessage
from claude_agent_py._journal.engine import REMEMBERED, Engine
from claude_agent_py._journal.events import (
    Event,
    PendingRequest,
    ReplyReceived,
    RequestTimedOut,
    RequestUnreadable,
    StreamEnded,
)
from claude_agent_py._journal.state import CAN_SEND, CLI_READS, TRANSITIONS, State, Step, advance
from claude_agent_py.control import CanUseToolRequest, ControlCancelRequest, ControlRequest, UnknownControlRequest
from claude_agent_py.errors import LocalProtocolError
from claude_agent_py.messages import UserContent
from claude_agent_py.testing import frames
from claude_agent_py.wire import decode
from claude_agent_py.wire.codec import line_of
from claude_agent_py.wire.control.frames import ControlFrame

ENDLESS: list[Any] = []
ENDLESS.append(ENDLESS)


class Driver:
    """An engine whose clock stands still."""

    def __init__(self, *, max_line_bytes: int = 1 << 20) -> None:
        self.engine = Engine(max_line_bytes=max_line_bytes)
        self.engine.advance(Step.START)
        self.requests: dict[str, PendingRequest] = {}

    def hear(self, *said: dict[str, Any]) -> list[Event]:
        """Receive frames of the CLI."""
        return self.engine.receive_data(frames.encode(*said))

    def ask(self, subtype: str = "interrupt", *, timeout: float | None = None, **fields: Any) -> str:
        request = self.engine.request(subtype, fields, now=0.0, timeout=timeout)
        self.requests[request.request_id] = request
        return request.request_id

    def sent(self) -> list[dict[str, Any]]:
        """Return the frames that are to be written."""
        data = self.engine.data_to_send()
        assert data == b"" or data.endswith(b"\n")
        return [json.loads(line) for line in data.splitlines()]


def test_no_control_frame_reaches_users_as_a_message() -> None:
    assert {*get_args(ControlFrame)} <= Engine._HANDLERS.keys()


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
        events = [event for chunk in chunks for event in driver.engine.receive_data(chunk)]
        return [*events, *driver.engine.receive_eof()]

    def check(name: str) -> None:
        recorded = lines(name)
        data = b"".join(recorded)
        chance = random.Random(name)
        cuts = sorted(chance.randrange(len(data) + 1) for _ in range(40))
        by_line = events_of(recorded)
        assert events_of(data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)) == by_line
        assert events_of([data]) == by_line
        assert kinds(by_line)[-1] is StreamEnded
        assert not [e for e in by_line if isinstance(e, MalformedFrame)]

    for_each(names(), check)


def test_a_message_is_reported_with_its_line() -> None:
    driver = Driver()
    line = frames.encode(frames.assistant("hi", user_message_uuid="p", user_message_uuids=["p"]))
    (event,) = driver.engine.receive_data(line)
    assert isinstance(event, AssistantMessage)
    assert line_of(event) == line[:-1]


@pytest.mark.parametrize("blank", [b"\n", b"  \n", b"\r\n", b"\t \r\n"])
def test_empty_lines_mean_nothing(blank: bytes) -> None:
    driver = Driver()
    assert driver.engine.receive_data(blank * 3) == []


def test_empty_lines_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[bytes] = []

    def counting(line: bytes) -> Any:
        decoded.append(line)
        return decode(line)

    monkeypatch.setattr("claude_agent_py._journal.engine.decode", counting)
    driver = Driver()
    assert driver.engine.receive_data(b"\n" * 100_000 + b" \t\r\n" * 1000 + b'{"type":"telepathy"}\n') != []
    assert decoded == [b'{"type":"telepathy"}']


def test_a_sign_of_life_means_nothing_else() -> None:
    assert Driver().hear({"type": "keep_alive"}) == []


def test_an_unknown_frame_is_a_message() -> None:
    (event,) = Driver().hear({"type": "brand_new", "n": 1})
    assert event == UnknownMessage({"type": "brand_new", "n": 1})


def test_a_line_that_is_no_json_is_a_message_and_the_next_one_is_fine() -> None:
    events = Driver().engine.receive_data(b"Segmentation fault\n" + frames.encode(frames.assistant("hi")))
    assert kinds(events) == [MalformedFrame, AssistantMessage]


def test_a_line_that_is_too_long_is_a_message_with_its_head_and_the_next_one_is_fine() -> None:
    driver = Driver(max_line_bytes=1000)
    big = frames.encode(frames.assistant("x" * 5000))
    events = [*driver.engine.receive_data(big[:900]), *driver.engine.receive_data(big[900:])]
    (event,) = events
    assert isinstance(event, MalformedFrame)
    assert line_of(event) == b""  # its head would not give the message again
    assert event.line == big[:4096]
    assert f"{len(big) - 1} bytes" in event.error
    assert not event.is_whole
    assert len(driver.hear({"type": "brand_new"})) == 1


def test_a_question_that_is_too_long_is_reported_once_with_the_fields_that_can_be_read() -> None:
    driver = Driver(max_line_bytes=1000)
    question = frames.can_use_tool("r1", input={"content": "x" * 5000, "request_id": "another"})
    message, event = driver.hear(question)
    assert isinstance(message, MalformedFrame)
    assert isinstance(event, RequestUnreadable)
    assert (event.request_id, event.request["subtype"], event.request["tool_name"]) == ("r1", "can_use_tool", "Bash")
    assert f"{len(frames.encode(question)) - 1} bytes" in event.problem
    assert "limits.max_line_bytes" in event.problem
    assert kinds(driver.hear(question)) == [MalformedFrame]


def test_a_line_that_is_too_long_fails_the_request_that_it_replies_to() -> None:
    driver = Driver(max_line_bytes=1000)
    request_id, other = driver.ask("get_settings", timeout=60.0), driver.ask("interrupt")
    driver.sent()
    message, failed = driver.hear(reply(request_id, {"text": "x" * 5000}))
    assert isinstance(message, MalformedFrame)
    assert isinstance(failed, ReplyReceived)
    assert (failed.request, failed.payload) == (driver.requests[request_id], {})
    assert failed.error is not None
    assert "limits.max_line_bytes" in failed.error
    assert driver.engine.next_deadline() == math.inf
    assert driver.hear(reply(other)) == [ReplyReceived(driver.requests[other], {})]
    assert driver.sent() == []


DEEP = "[" * 5000 + "]" * 5000
"""Deeper than any JSON parser for Python goes."""


def deep(frame: dict[str, Any]) -> bytes:
    """Return a frame as a line, with what is nested too deeply in the place of the string DEEP."""
    return frames.encode(frame).replace(b'"DEEP"', DEEP.encode())


def test_a_question_that_is_nested_too_deeply_is_reported_with_the_fields_that_can_be_read() -> None:
    driver = Driver()
    question = frames.can_use_tool("r1", input={"request_id": "r2", "tool_use_id": "t2", "a": "DEEP"})
    message, event = driver.engine.receive_data(deep(question))
    assert isinstance(message, MalformedFrame)
    assert isinstance(event, RequestUnreadable)
    assert (event.request_id, event.request["tool_use_id"]) == ("r1", "toolu_1")


def test_a_reply_that_is_nested_too_deeply_fails_its_request() -> None:
    driver = Driver()
    request_id = driver.ask("get_settings", timeout=60.0)
    _, failed = driver.engine.receive_data(deep(reply(request_id, {"a": "DEEP"})))
    assert isinstance(failed, ReplyReceived)
    assert (failed.request.request_id, bool(failed.error)) == (request_id, True)


@pytest.mark.parametrize("large", ["DEEP", "x" * 5000])
def test_a_result_is_readable_without_the_large_input_of_a_denied_call(large: str) -> None:
    driver = Driver(max_line_bytes=4000 if large != "DEEP" else 1 << 20)
    denial = {"tool_name": "Bash", "tool_use_id": "t1", "tool_input": {"a": large, "result": "from the model"}}
    ids: dict[str, Any] = {"user_message_uuid": "u1", "user_message_uuids": ["u1"]}
    result = {"permission_denials": [denial], **frames.result("hi"), **ids}  # the CLI does not write the type first
    result["permission_denials"] = [denial]
    (message,) = driver.engine.receive_data(deep(result))
    assert isinstance(message, ResultMessage)
    assert (message.result, message.user_message_uuids) == ("hi", ["u1"])
    assert message.usage is not None
    assert message.usage.input_tokens == 100


def test_a_result_is_readable_without_a_number_that_is_too_large() -> None:
    driver = Driver()
    denial = {"tool_name": "Bash", "tool_use_id": "t1", "tool_input": {"a": "DEEP"}}
    ids: dict[str, Any] = {"user_message_uuid": "u1", "user_message_uuids": ["u1"]}
    result = frames.result("hi") | ids | {"permission_denials": [denial], "ttft_ms": "HUGE"}
    (message,) = driver.engine.receive_data(deep(result).replace(b'"HUGE"', b"1e999"))
    assert isinstance(message, ResultMessage)
    assert message.result == "hi"


def test_a_result_whose_output_is_nested_too_deeply_is_reported_as_such() -> None:
    driver = Driver()
    result = {"structured_output": {"a": "DEEP"}, **frames.result("hi")}
    (message,) = driver.engine.receive_data(deep(result))
    assert isinstance(message, MalformedFrame)
    assert message.is_result


def test_a_result_that_is_too_long_or_malformed_is_reported_as_such() -> None:
    driver = Driver(max_line_bytes=1000)
    wrong = frames.result("hi") | {"is_error": "no"}
    for bad in frames.result("x" * 5000), wrong, wrong | {"permission_denials": ["x" * 5000]}:
        (message,) = driver.hear(bad)
        assert isinstance(message, MalformedFrame)
        assert message.is_result


@pytest.mark.parametrize(
    "line",
    [
        {"type": "control_request", "request": {"input": {"request_id": "r2", "a": "DEEP"}}},
        {"type": "control_request", "x": {"request_id": "r2"}, "a": "DEEP"},
        {"type": "control_request", "x": '"request_id": "r2",', "a": "DEEP"},
    ],
)
def test_the_id_of_a_request_is_not_read_from_the_input_of_a_tool(line: dict[str, Any]) -> None:
    driver = Driver()
    assert kinds(driver.engine.receive_data(deep(line))) == [MalformedFrame]
    assert driver.sent() == []


@pytest.mark.parametrize("kind", ["control_request", "control_response"])
def test_quoted_frames_in_a_long_message_are_ignored(kind: str) -> None:
    driver = Driver(max_line_bytes=1000)
    request_id = driver.ask("interrupt", timeout=60.0)
    driver.sent()
    quoted = json.dumps({"type": kind, "request_id": request_id})
    assert kinds(driver.hear(frames.assistant(quoted + "x" * 5000))) == [MalformedFrame]
    assert driver.sent() == []
    assert driver.engine.next_deadline() == 60.0


def test_a_long_tool_call_whose_input_looks_like_a_question_is_none() -> None:
    driver = Driver(max_line_bytes=1000)
    quoted = {"type": "control_request", "request_id": "r1", "text": "x" * 5000}
    driver.hear(frames.assistant([frames.tool_use_block("Write", quoted)]))
    assert driver.sent() == []
    assert kinds(driver.hear(frames.can_use_tool("r1"))) == [ControlRequest]


def test_half_a_line_at_the_end_is_reported() -> None:
    driver = Driver()
    driver.engine.receive_data(b'{"type": "resu')
    events = driver.engine.receive_eof()
    assert kinds(events) == [MalformedFrame, StreamEnded]
    half = events[0]
    assert isinstance(half, MalformedFrame)
    assert half.line == b'{"type": "resu'


def test_a_whole_frame_without_a_line_break_at_the_end_counts() -> None:
    driver = Driver()
    assert driver.engine.receive_data(frames.encode(result_of("p"))[:-1]) == []
    message, _ = driver.engine.receive_eof()
    assert isinstance(message, ResultMessage)


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
        ReplyReceived(driver.requests[second], {}, "no such model", "bad_model"),
        ReplyReceived(driver.requests[first], {"effective": {}}),
    ]


def test_a_reply_without_a_payload_has_an_empty_one() -> None:
    driver = Driver()
    request_id = driver.ask()
    said = {"type": "control_response", "response": {"subtype": "success", "request_id": request_id}}
    assert driver.hear(said) == [ReplyReceived(driver.requests[request_id], {})]


def test_replies_without_a_request_are_ignored() -> None:
    driver = Driver()
    answered = driver.ask()
    driver.hear(reply(answered))
    assert driver.hear(reply(answered), reply("who?")) == []
    malformed = {"type": "control_response", "response": {"subtype": "maybe", "request_id": answered}}
    assert kinds(driver.hear(malformed)) == [MalformedFrame]


def test_the_reply_that_nobody_waits_for_is_reported_once() -> None:
    driver = Driver()
    forgotten = driver.ask()
    driver.engine.forget_request(forgotten)
    assert driver.engine.waiters == []
    expected = ReplyReceived(driver.requests[forgotten], {}, "no")
    assert driver.hear(refusal(forgotten, "no"), reply(forgotten)) == [expected]


def test_a_request_times_out_once_and_its_late_reply_is_reported() -> None:
    driver = Driver()
    request_id = driver.ask("interrupt", timeout=5.0)
    assert driver.engine.next_deadline() == 5.0
    assert driver.engine.tick(4.9) == []
    assert driver.engine.tick(5.0) == [RequestTimedOut(driver.requests[request_id])]
    assert driver.engine.tick(6.0) == []
    assert driver.engine.next_deadline() == math.inf
    assert driver.hear(reply(request_id)) == [ReplyReceived(driver.requests[request_id], {})]


def test_a_malformed_reply_fails_its_request_at_once() -> None:
    driver = Driver()
    request_id = driver.ask("interrupt", timeout=60.0)
    events = driver.hear({"type": "control_response", "response": {"subtype": "maybe", "request_id": request_id}})
    assert kinds(events) == [MalformedFrame, ReplyReceived]
    answer = events[1]
    assert isinstance(answer, ReplyReceived)
    assert answer.error is not None
    assert answer.error.startswith("malformed reply: ")
    assert driver.engine.next_deadline() == math.inf


def test_fields_that_are_no_json_send_nothing_and_leave_nothing_behind() -> None:
    driver = Driver()
    with pytest.raises(TypeError):
        driver.ask("set_model", timeout=5.0, model=object())
    with pytest.raises(TypeError):
        driver.ask("set_model", timeout="soon")  # type: ignore[arg-type]
    assert driver.sent() == []
    assert driver.engine.next_deadline() == math.inf


# The CLI's requests


def test_a_request_of_the_cli_is_reported_and_answered_once() -> None:
    driver = Driver()
    (event,) = driver.hear(frames.can_use_tool("r1"))
    assert isinstance(event, ControlRequest)
    assert isinstance(event.request, CanUseToolRequest)
    assert driver.engine.answer("r1", {"behavior": "allow"})
    assert not driver.engine.answer_error("r1", "changed my mind")
    assert driver.sent() == [reply("r1", {"behavior": "allow"})]


def test_a_request_that_comes_twice_is_reported_once() -> None:
    driver = Driver()
    assert len(driver.hear(frames.can_use_tool("r1"), frames.can_use_tool("r1"))) == 1
    driver.engine.answer("r1", {})
    assert driver.hear(frames.can_use_tool("r1")) == []


def test_the_memory_for_settled_requests_is_bounded() -> None:
    driver = Driver()
    for number in range(REMEMBERED + 1):
        driver.hear(frames.can_use_tool(f"r{number}"))
        driver.engine.answer(f"r{number}", {})
    assert driver.hear(frames.can_use_tool("r1")) == []
    assert len(driver.hear(frames.can_use_tool("r0"))) == 1


def test_a_request_can_be_refused() -> None:
    driver = Driver()
    driver.hear(frames.can_use_tool("r1"), frames.can_use_tool("r2"))
    assert driver.engine.answer_error("r1", "boom")
    assert driver.engine.answer_error("r2", "what?", "unsupported_request")
    assert driver.sent() == [refusal("r1", "boom"), refusal("r2", "what?", error_code="unsupported_request")]


def test_a_request_of_a_newer_cli_is_reported_too() -> None:
    (event,) = Driver().hear(frames.control_request("r1", "brand_new", n=1))
    assert isinstance(event, ControlRequest)
    assert isinstance(event.request, UnknownControlRequest)


def test_a_request_taken_back_is_reported_and_wants_no_answer() -> None:
    driver = Driver()
    driver.hear(frames.can_use_tool("r1"))
    assert driver.hear(frames.control_cancel("r1"), frames.control_cancel("r1")) == [
        ControlCancelRequest(request_id="r1")
    ]
    assert not driver.engine.answer("r1", {})
    assert driver.sent() == []


def test_a_malformed_request_is_reported_once() -> None:
    driver = Driver()
    bad = {"type": "control_request", "request_id": "r1", "request": {"subtype": "can_use_tool"}}
    _, event, *more = driver.hear(bad, bad)
    assert kinds(more) == [MalformedFrame]
    assert isinstance(event, RequestUnreadable)
    assert (event.request_id, event.request) == ("r1", {"subtype": "can_use_tool"})
    assert event.problem.startswith("request: Object missing required field `")


@pytest.mark.parametrize("value", [object(), [None, math.nan], [None, math.inf], [None, -math.inf], ENDLESS])
def test_an_answer_that_is_no_json_leaves_the_request_open(value: object) -> None:
    driver = Driver()
    driver.hear(frames.can_use_tool("r1"))
    with pytest.raises((TypeError, ValueError), match=r"not JSON (serializable|compliant)|Circular"):
        driver.engine.answer("r1", {"behavior": value})
    assert driver.sent() == []
    assert driver.engine.answer_error("r1", "no JSON")


@given(
    st.recursive(
        st.none() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=5),
    )
)
def test_an_answer_comes_as_it_is(value: Any) -> None:
    driver = Driver()
    driver.hear(frames.can_use_tool("r1"))
    driver.engine.answer("r1", {"a": value})
    [sent] = driver.sent()
    assert sent["response"]["response"] == {"a": value}


def test_an_answer_is_one_line_of_valid_unicode() -> None:
    driver = Driver()
    driver.hear(frames.can_use_tool("r1"))
    driver.engine.answer("r1", {"a": "\ud800\u2028\n"})
    assert driver.engine.data_to_send().endswith(b'{"a":"\xef\xbf\xbd\\u2028\\n"}}}\n')


@pytest.mark.parametrize(
    "field", ["pending_permission_requests", "pending_user_dialog_requests", "pending_elicitation_requests"]
)
def test_requests_that_were_open_before_we_came_are_reported_after_the_reply(field: str) -> None:
    driver = Driver()
    request_id = driver.ask("initialize")
    open_before = [frames.can_use_tool("old1"), frames.can_use_tool("old2")]
    more: dict[str, Any] = {field: open_before}
    events = driver.hear(reply(request_id, **more), frames.can_use_tool("old1"))
    assert kinds(events) == [ReplyReceived, ControlRequest, ControlRequest]
    assert driver.engine.answer("old2", {})


# Prompts


def test_prompts_are_written_in_order() -> None:
    driver = Driver()
    driver.engine.send_prompt(prompt_message("p1"))
    driver.engine.send_prompt(prompt_message("p2"))
    assert [frame["uuid"] for frame in driver.sent()] == ["p1", "p2"]
    assert driver.sent() == []


def test_a_prompt_that_is_not_json_is_not_sent() -> None:
    driver = Driver()
    with pytest.raises(TypeError):
        driver.engine.send_prompt(
            UserMessage(message=UserContent(role="user", content="hi"), uuid="p", tool_use_result=object())
        )
    assert driver.sent() == []


# Time


def test_the_next_deadline_is_the_earliest() -> None:
    driver = Driver()
    driver.ask(timeout=30.0)
    driver.ask(timeout=10.0)
    assert driver.engine.next_deadline() == 10.0


def test_the_cli_waits_while_a_request_is_open() -> None:
    driver = Driver()
    assert not driver.engine.take_cli_waited()
    driver.hear(frames.can_use_tool("r1"))
    assert driver.engine.take_cli_waited()
    assert driver.engine.take_cli_waited()


@pytest.mark.parametrize("how", ["answered", "refused", "withdrawn"])
def test_the_cli_has_waited_until_its_request_was_closed(how: str) -> None:
    driver = Driver()
    driver.hear(frames.can_use_tool("r1"))
    if how == "answered":
        driver.engine.answer("r1", {})
    elif how == "refused":
        driver.engine.answer_error("r1", "no")
    else:
        driver.hear(frames.control_cancel("r1"))
    assert driver.engine.take_cli_waited()
    assert not driver.engine.take_cli_waited()


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
    engine = Engine(max_line_bytes=1000)
    for step in steps:
        engine.advance(step)
    assert (engine.state, engine.can_send) == (state, False)
    with pytest.raises(LocalProtocolError):
        engine.request("interrupt", {}, now=0.0, timeout=1.0)
    with pytest.raises(LocalProtocolError):
        engine.send_prompt(prompt_message("p"))
    assert not engine.has_data_to_send
    assert engine.next_deadline() == math.inf


@pytest.mark.parametrize("step", [Step.ASK_EXIT, Step.LEAVE, Step.CLOSE])
def test_a_cli_that_still_works_is_heard_and_answered(step: Step) -> None:
    driver = Driver()
    driver.engine.advance(step)
    assert ControlRequest in kinds(driver.hear(frames.can_use_tool("r1")))
    assert driver.engine.answer("r1", {})
    assert driver.sent() == [reply("r1")]
    assert kinds(driver.hear(result_of("p"))) == [ResultMessage]
    assert kinds(driver.engine.receive_eof()) == [StreamEnded]


def test_a_cli_that_is_gone_is_not_answered() -> None:
    driver = Driver()
    driver.hear(frames.can_use_tool("r1"))
    driver.engine.receive_eof()
    assert driver.engine.state is State.DIED
    assert not driver.engine.answer("r1", {})
    assert driver.sent() == []


def test_the_end_may_be_noticed_twice() -> None:
    driver = Driver()
    driver.engine.advance(Step.END_OF_STREAM)  # by the process
    assert kinds(driver.engine.receive_eof()) == [StreamEnded]
    assert kinds(driver.engine.receive_eof()) == [StreamEnded]
    assert driver.engine.state is State.DIED


STEPS = (Step.START, Step.SEND, Step.ASK_EXIT, Step.EXIT_REFUSED, Step.LEAVE, Step.CLOSE, Step.END_OF_STREAM)
TABLE = {
    #         START  SEND     ASK_EXIT EXIT_REF LEAVE    CLOSE    END_OF_STREAM
    "NEW": "  OPEN   -        -        -        -        CLOSED   -            ",
    "OPEN": " -      OPEN     EXITING  -        LEFT     CLOSING  DIED         ",
    "EXITING": "-    EXITING  EXITING  OPEN     LEFT     CLOSING  EXITED       ",
    "LEFT": " -      -        -        -        LEFT     CLOSING  CLOSED       ",
    "CLOSING": "-    -        -        -        CLOSING  CLOSING  CLOSED       ",
    "DIED": " -      -        -        -        CLOSED   CLOSED   DIED         ",
    "EXITED": "-     -        -        -        CLOSED   CLOSED   EXITED       ",
    "CLOSED": "-     -        -        -        CLOSED   CLOSED   CLOSED       ",
}


@pytest.mark.parametrize("state", State)
def test_a_step_leads_where_the_table_says_or_is_refused(state: State) -> None:
    assert set(STEPS) == set(Step)
    for step, target in zip(STEPS, TABLE[state.name].split(), strict=True):
        if target == "-":
            with pytest.raises(LocalProtocolError, match=f"cannot {step.value}: .*'{state.value}'"):
                advance(state, step)
        else:
            assert advance(state, step) is State[target]


def test_prompts_and_requests_go_to_a_cli_that_reads_them() -> None:
    assert {State.OPEN, State.EXITING} == CAN_SEND
    assert CAN_SEND <= CLI_READS
    assert {state for state in TRANSITIONS if state not in CLI_READS} == {
        State.NEW,
        State.DIED,
        State.EXITED,
        State.CLOSED,
    }


@given(st.lists(st.sampled_from(Step)))
def test_no_state_after_leaving_closing_or_dying_can_send(steps: list[Step]) -> None:
    state = State.NEW
    is_final = False
    for step in steps:
        if step not in TRANSITIONS[state]:
            continue
        state = advance(state, step)
        is_final = is_final or step in (Step.LEAVE, Step.CLOSE, Step.END_OF_STREAM)
        assert (state in CAN_SEND) == (not is_final)
        assert Step.CLOSE in TRANSITIONS[state]
