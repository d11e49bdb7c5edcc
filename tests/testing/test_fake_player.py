"""The player of scenarios, with time and gates as arguments."""

import json
from typing import Any

import pytest

from claude_agent_py.testing import FakeCLI, Gate, frames, steps
from claude_agent_py.testing.fake_player import Player, contains, get_field
from claude_agent_py.testing.steps import LooseStep

PROMPT = {"type": "user", "message": {"role": "user", "content": "hi"}, "uuid": "u1"}


def request(subtype: str, request_id: str = "r1") -> dict[str, Any]:
    return {"type": "control_request", "request_id": request_id, "request": {"subtype": subtype}}


class Play:
    """A player with its clock."""

    def __init__(self, *script: LooseStep, **options: Any) -> None:
        self.open: set[int] = set()
        self.now = 0.0
        self.player = Player(FakeCLI(*script, **options).scenario, self.open.__contains__)

    def __call__(self, *heard: dict[str, Any] | bytes) -> list[tuple[str, Any]]:
        for part in heard:
            self.player.feed(part if isinstance(part, bytes) else frames.encode(part))
        return [
            (kind, [json.loads(line) for line in value.splitlines()] if kind == "out" and value[:1] == b"{" else value)
            for kind, value in self.player.advance(self.now)
        ]

    def said(self, *heard: dict[str, Any] | bytes) -> list[Any]:
        return [frame for kind, value in self(*heard) if kind == "out" for frame in value]


def test_steps_are_played_in_order() -> None:
    play = Play({"a": 1}, steps.wait_for({"type": "user"}), steps.emit({"b": 2}, {"c": 3}), steps.stderr("oh"))
    assert play() == [("out", [{"a": 1}])]
    assert play() == []
    assert play(PROMPT) == [("out", [{"b": 2}, {"c": 3}]), ("err", b"oh")]
    assert play(b"") == [("exit", 0)]


def test_input_may_come_in_any_pieces() -> None:
    play = Play(steps.wait_for_prompt(), {"ok": 1})
    line = frames.encode(PROMPT)
    assert [play(line[i : i + 1]) for i in range(len(line) - 1)] == [[]] * (len(line) - 1)
    assert play(line[-1:]) == [("out", [{"ok": 1}])]


def test_frames_that_arrive_before_their_step_count() -> None:
    play = Play(steps.wait_for({"type": "b"}), steps.wait_for({"type": "a"}), {"ok": 1})
    assert play({"type": "a"}, {"type": "b"}) == [("out", [{"ok": 1}])]


def test_requests_are_answered_by_themselves() -> None:
    answers = {"set_model": {"error": "no"}, "mcp_status": {"response": {"x": 1}}, "interrupt": None}
    play = Play(initialize={"pid": 7}, answers=answers)
    replies = {
        subtype: [frame["response"] for frame in play.said(request(subtype))]
        for subtype in ("initialize", "set_model", "mcp_status", "interrupt", "whatever")
    }
    assert replies == {
        "initialize": [{"subtype": "success", "request_id": "r1", "response": {"pid": 7}}],
        "set_model": [{"subtype": "error", "request_id": "r1", "error": "no"}],
        "mcp_status": [{"subtype": "success", "request_id": "r1", "response": {"x": 1}}],
        "interrupt": [],
        "whatever": [{"subtype": "success", "request_id": "r1"}],
    }


def test_a_request_that_a_step_waits_for_is_left_to_it() -> None:
    play = Play(steps.wait_for_prompt(), steps.wait_for_request("interrupt"), steps.answer({"still_queued": []}))
    assert play(request("interrupt", "r9")) == []
    [reply] = play.said(PROMPT)
    assert reply["response"] == {"subtype": "success", "request_id": "r9", "response": {"still_queued": []}}
    [reply] = play.said(request("interrupt", "r10"))
    assert "response" not in reply["response"]


def test_nothing_is_answered_while_it_hangs() -> None:
    play = Play(steps.hang())
    assert play(request("initialize"), PROMPT) == []


def test_references() -> None:
    play = Play(
        steps.wait_for_prompt(),
        steps.wait_for_reply("p1"),
        {"uuid": frames.prompt_field("uuid"), "id": frames.heard_field("response.request_id")},
        {"gone": frames.prompt_field("no.such"), "list": [frames.prompt_field("uuid"), 1], "none": []},
        {"all_gone": [frames.heard_field("nothing")], "kept": {"$prompt": "uuid", "more": 1}},
    )
    said = play.said(PROMPT, {"type": "control_response", "response": {"request_id": "p1"}})
    assert said == [
        {"uuid": "u1", "id": "p1"},
        {"list": ["u1", 1], "none": []},
        {"kept": {"$prompt": "uuid", "more": 1}},
    ]


@pytest.mark.parametrize("uuid", [True, False])
def test_a_turn_looks_like_one_of_the_cli(uuid: bool) -> None:
    prompt = dict(PROMPT) if uuid else {**PROMPT, "uuid": None}
    said = Play(steps.turn("hello")).said(prompt)
    kinds = [(frame["type"], frame.get("subtype") or frame.get("state")) for frame in said]
    conversation = [("system", "init"), ("assistant", None), ("result", "success")]
    around = ("command_lifecycle", "started"), ("command_lifecycle", "completed")
    assert kinds == ([around[0], *conversation, around[1]] if uuid else conversation)
    result = next(frame for frame in said if frame["type"] == "result")
    assert result["result"] == "hello"
    assert result.get("user_message_uuids") == (["u1"] if uuid else None)


def test_gates_and_pauses_are_looked_at() -> None:
    play = Play(steps.wait_gate(Gate()), {"open": 1}, steps.pause(2.0), {"late": 1})
    assert play() == []
    assert play.player.polls
    play.open.add(0)
    assert play() == [("out", [{"open": 1}])]
    play.now = 1.9
    assert play() == []
    assert play.player.polls
    play.now = 2.0
    assert play() == [("out", [{"late": 1}])]
    assert not play.player.polls


def test_ends() -> None:
    assert Play(steps.exit(3))() == [("exit", 3)]
    assert Play(steps.die(9))() == [("signal", 9)]
    assert Play(steps.close_output())() == [("close_out", None)]
    assert Play(steps.spawn(["sleep", "1"]))() == [("spawn", ["sleep", "1"])]
    assert Play(steps.wait_for_prompt(), {"never": 1})(b"") == [("exit", 0)]
    assert Play(steps.wait_for_prompt(), ignore_eof=True)(b"") == []
    assert Play()(b"no json\n") == [("err", b"Error parsing streaming input line\n"), ("exit", 1)]


def test_raw_bytes_are_sent_as_they_are() -> None:
    assert Play(b"\xff\x00{half")() == [("out", b"\xff\x00{half")]


def test_after_its_end_it_does_nothing() -> None:
    play = Play(steps.exit(1), {"never": 1})
    play()
    assert play(request("initialize"), PROMPT, b"") == []


@pytest.mark.parametrize(
    ("frame", "match", "matches"),
    [
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, True),
        ({"a": {"b": 1}}, {"a": {"b": 2}}, False),
        ({"a": 1}, {"b": 1}, False),
        ({"a": [1]}, {"a": [1, 2]}, False),
        ({}, {}, True),
        ("x", {"a": 1}, False),
    ],
)
def test_contains(frame: Any, match: Any, matches: bool) -> None:
    assert contains(frame, match) is matches


def test_field() -> None:
    assert get_field({"a": {"b": 1}}, "a.b") == 1
    assert get_field({"a": 3}, "a.b") is get_field({}, "x") is get_field({"x": None}, "x")
