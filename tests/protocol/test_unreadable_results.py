"""Results that cannot be decoded end the runs that they answer."""

import json
from typing import Any, Final

import pytest
from scene import OpenRun, Scene, route

from claude_agent_py import MalformedFrame
from claude_agent_py.testing import frames
from claude_agent_py.wire import decode

WRONG: Final = {"is_error": "no"}
"""A field with a value of the wrong type."""


class SceneWithBadResults(Scene):
    def bad_result(self, frame: dict[str, Any]) -> dict[OpenRun, Any]:
        """Let the CLI send a malformed result. Return the frames by the runs that it ended."""
        message = decode(json.dumps(frame).encode())
        assert isinstance(message, MalformedFrame)
        return {run: bad.raw for run, bad in self.spoil(message).items()}

    def spoil(self, frame: MalformedFrame) -> dict[OpenRun, MalformedFrame]:
        before = set(self.ends)
        route(self.router, frame, self.now)
        self._note(self.router.settle(self.now))
        ended = {run: end.reason for run, end in self.ends.items() if run not in before}
        assert set(ended.values()) <= {"unreadable"}
        return {run: run.bad_result for run in ended if run.bad_result is not None}


def result_of(*prompts: str, **fields: Any) -> dict[str, Any]:
    return frames.result("done", user_message_uuid=prompts[-1], user_message_uuids=list(prompts), **fields)


def test_an_unreadable_result_ends_the_runs_whose_prompts_it_names() -> None:
    scene = SceneWithBadResults()
    one, two, three, other = (scene.ask(prompt, until="idle") for prompt in ("p1", "p2", "p3", "p4"))
    scene.cli(frames.lifecycle("started", "p1"), frames.assistant("hi", user_message_uuid="p1"))
    bad = result_of("p2", "p3", **WRONG) | {"user_message_uuid": "p1"}
    assert scene.bad_result(bad) == {one: bad, two: bad, three: bad}
    assert scene.router.open_runs == (other,)
    assert scene.router.turn_runs == ()
    scene.cli(result_of("p4"))
    assert scene.end_of(other) == "idle"


@pytest.mark.parametrize("field", ["user_message_uuid", "user_message_uuids"])
def test_an_unreadable_result_without_prompts_ends_the_runs_of_its_turn(field: str) -> None:
    scene = SceneWithBadResults()
    run = scene.ask("p")
    scene.cli(frames.lifecycle("started", "p"))
    bad = frames.result("done") | {"user_message_uuid": None, "user_message_uuids": None, field: 7}
    assert scene.bad_result(bad) == {run: bad}


@pytest.mark.parametrize("begins", [True, False])
def test_an_unreadable_result_ends_the_only_run_if_the_cli_names_no_prompts(begins: bool) -> None:
    scene = SceneWithBadResults()
    run = scene.ask("p")
    if begins:
        scene.cli(frames.init())
    bad = {"type": "result", **WRONG}
    assert scene.bad_result(bad) == {run: bad}


@pytest.mark.parametrize(("field", "value"), [("user_message_uuid", "p2"), ("user_message_uuids", ["p2"])])
def test_an_unreadable_result_ends_the_run_of_the_prompt_that_either_field_names(field: str, value: Any) -> None:
    scene = SceneWithBadResults()
    scene.ask("p1")
    named = scene.ask("p2")
    bad = {"type": "result", field: value, **WRONG}
    assert scene.bad_result(bad) == {named: bad}


def test_the_result_of_a_turn_that_the_cli_began_itself_is_not_taken_for_that_of_a_prompt() -> None:
    scene = SceneWithBadResults()
    run = scene.ask("p")
    assert scene.bad_result({"type": "result", "origin": frames.task_origin("t"), **WRONG}) == {}
    bad = {"type": "result", "origin": {"kind": "human"}, **WRONG}
    assert scene.bad_result(bad) == {run: bad}


def test_one_without_readable_content_ends_the_runs_of_its_turn() -> None:
    scene = SceneWithBadResults()
    run = scene.ask("p")
    scene.cli(frames.lifecycle("started", "p"))
    frame = MalformedFrame(line=b'{"type":"result"', error="too long", is_result=True)
    assert scene.spoil(frame) == {run: frame}
    assert scene.router.open_runs == ()


def test_an_unreadable_result_of_another_turn_ends_nothing() -> None:
    scene = SceneWithBadResults()
    run = scene.ask("p")
    scene.cli(frames.lifecycle("queued", "p"), frames.init())
    assert scene.bad_result({"type": "result", **WRONG}) == {}
    assert scene.bad_result({"type": "result", "user_message_uuid": "unknown", **WRONG}) == {}
    scene.cli(result_of("p"))
    assert scene.end_of(run) == "result"


def test_an_unreadable_message_is_one_of_the_turn_and_ends_nothing() -> None:
    scene = SceneWithBadResults()
    run, other = scene.ask("p"), scene.ask("q")
    scene.cli(frames.lifecycle("started", "p"))
    frame = MalformedFrame(line=b"{", error="not JSON")
    assert route(scene.router, frame, scene.now) == (run,)
    assert scene.router.settle(scene.now) == ()
    assert scene.router.open_runs == (run, other)
