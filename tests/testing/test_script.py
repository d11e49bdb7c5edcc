"""The values of a script: conversion of loose forms, and immediate errors."""

from typing import Any

import pytest

from claude_agent_py.testing import (
    CutStream,
    Failure,
    FakeCLI,
    RawBlock,
    Reply,
    ScriptedModel,
    Text,
    Thinking,
    ToolCall,
    text,
    tool_use,
)


@pytest.mark.parametrize(
    ("loose", "blocks"),
    [
        ("hi", (Text("hi"),)),
        (text("hi"), (Text("hi"),)),
        (Thinking("hm"), (Thinking("hm"),)),
        (tool_use("Bash", {"a": 1}), (ToolCall("Bash", {"a": 1}),)),
        (["hi", tool_use("Bash")], (Text("hi"), ToolCall("Bash"))),
        ([], ()),
        (RawBlock({"type": "odd"}), (RawBlock({"type": "odd"}),)),
    ],
)
def test_values_that_make_a_reply(loose: Any, blocks: Any) -> None:
    assert Reply(loose).blocks == blocks


def test_replies_are_values() -> None:
    assert Reply("x", delay=1.0) == Reply(["x"], delay=1.0)
    assert Reply("x") != Reply("y")
    with pytest.raises(AttributeError):
        Reply("x").delay = 2.0  # type: ignore[misc]


@pytest.mark.parametrize("wrong", [3, [3], {"type": "text"}, [None]])
def test_an_invalid_block_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError, match="a block of a reply must be"):
        Reply(wrong)


def test_contradictions_are_refused() -> None:
    with pytest.raises(ValueError, match="mutually exclusive"):
        CutStream("x", after_blocks=1, after_chars=1)
    with pytest.raises(ValueError, match="chunk_chars"):
        Reply("x", chunk_chars=0)


@pytest.mark.parametrize(
    ("status", "kind", "retried"),
    [(400, "invalid_request_error", False), (429, "rate_limit_error", True), (529, "overloaded_error", True)],
)
def test_failures_know_their_kind(status: int, kind: str, retried: bool) -> None:
    assert (Failure(status).error_type, Failure(status).is_retried) == (kind, retried)
    assert Failure(status, type="odd").error_type == "odd"


@pytest.mark.parametrize(
    "given",
    [{"main": ["fine", 5]}, {"agents": {"x": [None]}}, {"sessions": {"x": 5}}, {"agents": {5: "x"}}, {"side": [[5]]}],
)
def test_an_invalid_script_of_a_model_is_refused_at_its_creation(given: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=r"not .*(5|None)"):
        ScriptedModel(**given)


@pytest.mark.parametrize("wrong", ["text", 5, ["text"], None])
def test_an_invalid_script_of_a_fake_is_refused_at_its_creation(wrong: Any) -> None:
    with pytest.raises(TypeError, match="must be a step"):
        FakeCLI(wrong)
