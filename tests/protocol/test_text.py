"""The text of a run: each piece once, however often and in whatever pieces the wire brings it."""

import itertools
import json
import tracemalloc
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, strategies as st
from recordings_loader import lines
from scene import result

from claude_agent_py import MalformedFrame
from claude_agent_py.messages import TextFold
from claude_agent_py.testing import frames
from claude_agent_py.wire import decode

Frame = dict[str, Any]
RESTART = "\n\n"
"""Stands between an abandoned answer and the one that replaces it."""


def fold(said: Iterable[Frame | bytes]) -> list[str]:
    """Return the pieces of text that frames bring."""
    text = TextFold()
    pieces: list[str] = []
    for frame in said:
        pieces += text.feed(read(frame))
    return pieces


def read(frame: Frame | bytes) -> object:
    message = decode(frame if isinstance(frame, bytes) else json.dumps(frame).encode())
    assert not isinstance(message, MalformedFrame), message
    return message


def begins(message_id: str) -> Frame:
    message = frames.assistant([])["message"] | {"id": message_id}
    return frames.stream_event({"type": "message_start", "message": message}, api_message_id=message_id)


def delta(message_id: str, text: str, index: int = 0) -> Frame:
    event = {"type": "content_block_delta", "index": index, "delta": {"type": "text_delta", "text": text}}
    return frames.stream_event(event, api_message_id=message_id)


def block(message_id: str, text: str, **fields: Any) -> Frame:
    frame = frames.assistant(text, **fields)
    frame["message"]["id"] = message_id
    return frame


def stops(message_id: str) -> Frame:
    return frames.stream_event({"type": "message_stop"}, api_message_id=message_id)


def breaks(message_id: str, from_block: int = 0) -> Frame:
    void = {"api_message_id": message_id, "from_block_index": from_block}
    return frames.stream_event({"type": "message_stop"}, api_message_id=message_id, abandoned_blocks=void)


def answer(message_id: str, *parts: str) -> list[Frame]:
    """A whole answer with partial messages."""
    deltas = [delta(message_id, part) for part in parts]
    return [begins(message_id), *deltas, block(message_id, "".join(parts)), stops(message_id)]


def attempt(message_id: str, *parts: str) -> list[Frame]:
    """An answer that broke off."""
    return [begins(message_id), *(delta(message_id, part) for part in parts), breaks(message_id)]


# Once each -------------------------------------------------------------------------------------------------------


def test_without_partial_messages_the_blocks_are_the_pieces() -> None:
    said = [block("m1", "let me look"), frames.tool_result("t", "found"), block("m2", "done"), result("done")]
    assert fold(said) == ["let me look", "done"]


def test_with_partial_messages_the_deltas_are_the_pieces() -> None:
    assert fold([*answer("m1", "hel", "lo"), *answer("m2", " again"), result("hello")]) == [
        "hel",
        "lo",
        " again",
    ]


def test_some_messages_may_come_with_deltas_and_others_without() -> None:
    assert fold([*answer("m1", "a", "b"), block("m2", "c"), *answer("m3", "d")]) == ["a", "b", "c", "d"]


def test_blocks_of_one_message_come_in_order() -> None:
    said = [
        begins("m"),
        delta("m", "one. ", 0),
        block("m", "one. "),
        delta("m", "two", 2),
        block("m", "two"),
        stops("m"),
    ]
    assert fold(said) == ["one. ", "two"]


def test_a_stream_event_without_the_id_of_its_message_belongs_to_the_one_under_way() -> None:
    event = frames.stream_event(
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hi"}}
    )
    assert fold([begins("m"), event, block("m", "hi")]) == ["hi"]


def test_empty_pieces_are_left_out() -> None:
    assert fold([block("m1", ""), *answer("m2", "", "a", "")]) == ["a"]


def test_texts_of_subagents_are_left_out() -> None:
    said = [
        block("m1", "from main"),
        block("m2", "from a subagent", agent_id="t", parent_tool_use_id="toolu_t"),
        block("m3", "from a subagent of an older CLI", parent_tool_use_id="toolu_t"),
        frames.stream_event(delta("m4", "deltas too")["event"], parent_tool_use_id="toolu_t"),
    ]
    assert fold(said) == ["from main"]


def test_only_text_is_text() -> None:
    thinking = {"type": "thinking", "thinking": "hm", "signature": ""}
    said = [
        frames.stream_event(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}}
        ),
        frames.assistant([thinking]),
        frames.assistant([frames.tool_use_block("Bash", {"command": "ls"})]),
        frames.user("Stop hook feedback", isSynthetic=True),
        result("the end"),
    ]
    assert fold(said) == []


def test_complete_answers_take_no_memory() -> None:
    text = TextFold()
    said = [frames.encode(frame) for number in range(100) for frame in answer(f"m{number}", "x" * 20_000)]
    tracemalloc.start()
    try:
        pieces = sum(len(list(text.feed(read(line)))) for line in said)
        grown = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert pieces == 100
    assert grown < 200_000  # of 2 MB
    assert list(text.feed(read(block("m1", "x")))) == []  # what came as deltas is still known
    list(text.feed(read(result("done"))))
    assert list(text.feed(read(block("m1", "x")))) == ["x"]


# Attempts that broke ---------------------------------------------------------------------------------------------


def test_text_repeated_by_a_new_attempt_is_yielded_once() -> None:
    assert fold([*attempt("m1", "hel", "lo w"), *answer("m2", "hello", " world")]) == ["hel", "lo w", "orld"]


def test_an_attempt_may_repeat_in_other_pieces() -> None:
    assert "".join(fold([*attempt("m1", "hello w"), *answer("m2", *"hello world")])) == "hello world"


def test_several_attempts_may_break_and_each_later_than_the_one_before() -> None:
    said = [*attempt("m1", "he"), *attempt("m2", "hello"), *answer("m3", "hello world")]
    assert "".join(fold(said)) == "hello world"


def test_several_attempts_may_break_and_each_earlier_than_the_one_before() -> None:
    said = [*attempt("m1", "hello w"), *attempt("m2", "he"), *attempt("m3"), *answer("m4", "hel", "lo wor", "ld")]
    assert "".join(fold(said)) == "hello world"


def test_an_attempt_that_says_something_else_stands_apart_and_is_whole() -> None:
    said = [*attempt("m1", "hello wide"), *answer("m2", "hello ", "small", " planet")]
    assert "".join(fold(said)) == "hello wide" + RESTART + "hello small planet"


def test_a_broken_attempt_that_diverged_counts_for_the_next_one() -> None:
    said = [*attempt("m1", "hello wide"), *attempt("m2", "hello small"), *answer("m3", "hello small planet")]
    assert "".join(fold(said)) == "hello wide" + RESTART + "hello small planet"


def test_an_answer_without_a_stream_repeats_too() -> None:
    assert fold([*attempt("m1", "hello w"), block("m2", "hello world")]) == ["hello w", "orld"]


def test_blocks_that_were_complete_stay_said() -> None:
    said = [
        begins("m1"),
        delta("m1", "one. ", 0),
        block("m1", "one. "),
        delta("m1", "tw", 1),
        breaks("m1", from_block=1),
        block("m1", "one. "),  # told late: it was given already
        *answer("m2", "two", " three"),
    ]
    assert "".join(fold(said)) == "one. two three"


def test_blocks_that_a_later_attempt_completed_are_not_expected_again() -> None:
    said = [
        *attempt("m1", "one. tw"),
        begins("m2"),
        delta("m2", "one. ", 0),
        breaks("m2", from_block=1),
        *answer("m3", "two"),
    ]
    assert "".join(fold(said)) == "one. two"


def test_a_broken_tool_call_says_nothing() -> None:
    said = [begins("m1"), breaks("m1"), *answer("m2", "hello")]
    assert fold(said) == ["hello"]


def test_once_an_attempt_is_through_nothing_is_expected_any_more() -> None:
    said = [*attempt("m1", "hello"), begins("m2"), stops("m2"), *answer("m3", "help is here")]
    assert "".join(fold(said)) == "hello" + "help is here"


def test_the_next_turn_repeats_nothing() -> None:
    said = [*attempt("m1", "hello"), result("stopped", subtype="error_during_execution"), *answer("m2", "hello")]
    assert fold(said) == ["hello", "hello"]


def test_the_report_of_a_failure_is_not_the_models_text() -> None:
    failed = block("synthetic", "API Error: connection lost", error="server_error")
    assert fold([failed]) == []
    assert fold([begins("m1"), delta("m1", "hello"), failed, breaks("m1"), result("API Error")]) == ["hello"]


@given(st.lists(st.integers(0, 11), max_size=5), st.lists(st.integers(1, 11), max_size=4))
def test_however_often_it_breaks_the_same_answer_is_said_once(broken_after: list[int], cuts: list[int]) -> None:
    whole = "hello world"

    def pieces(length: int) -> list[str]:
        bounds = [0, *sorted({cut for cut in cuts if cut < length}), length]
        return [whole[a:b] for a, b in itertools.pairwise(bounds)]

    said = [frame for number, length in enumerate(broken_after) for frame in attempt(f"m{number}", *pieces(length))]
    assert "".join(fold([*said, *answer("last", *pieces(len(whole)))])) == whole


# Recordings ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("control/05_sse_truncated_mid_gap_partialmsgs", "slow partial text then the cut 1795147090.7109897"),
        ("control/05_sse_truncated_tool_partialmsgs", "fin"),
        ("control/05_sse_truncated_mid", None),
        ("control/05_sse_truncated_after_block", None),
        ("control/05_sse_error_event", None),
        ("turns/stream_broken_twice", "hello wide world"),
        ("turns/stream_fallback", "hello wide world"),
        ("turns/stream_error_event", "hello wide world"),
        ("turns/stream_diverging", "hello wid" + RESTART + "hello small planet"),
        ("turns/stream_cut_after_block", "one. rest"),
        ("turns/stream_cut_in_second_block", "one. two " + RESTART + "rest"),
        ("turns/stream_fails_for_good", "hello wid"),
        ("turns/stream_with_thinking_and_tool", "let me lookdone"),
        ("turns/stream_interrupted", "abcdefghijtwo"),
        ("turns/nested_agents", "startedn1"),
    ],
)
def test_recordings_of_broken_and_whole_streams(name: str, text: str | None) -> None:
    recorded = [json.loads(line) for line in lines(name)]
    blocks = "".join(
        part.get("text", "")
        for frame in recorded
        if frame["type"] == "assistant" and frame.get("parent_tool_use_id") is None
        for part in frame["message"]["content"]
    )
    assert "".join(fold(lines(name))) == (blocks if text is None else text)
