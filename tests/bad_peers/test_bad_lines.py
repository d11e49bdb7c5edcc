"""Lines that are no frames, or broken ones: each is one typed event, and the session goes on."""

import json
import logging
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from peers import MakeClient, read_into, start_in_memory

from claude_agent_py import AssistantMessage, CLIExitError, Limits, MalformedFrame, UnknownMessage
from claude_agent_py.errors import UnreadableResultError
from claude_agent_py.journal import TurnEnded, read_recording
from claude_agent_py.messages import UnknownBlock
from claude_agent_py.observe import watch
from claude_agent_py.testing import FakeCLI, frames, steps

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_left")]

MEBIBYTE = 1024 * 1024

WRONG: dict[str, bytes] = {
    "text": b"node:internal/process: something happened\n",
    "invalid UTF-8": b'{"type": "assistant", "x": "\xff\xfe"}\n',
    "only invalid UTF-8": b"\xff\xfe\xfd\n",
    "NUL bytes": b"\x00\x00\x00\n",
    "half an object": b'{"type": "assistant", "message"\n',
    "two objects": b'{"type": "keep_alive"}{"type": "keep_alive"}\n',
    "a number": b"42\n",
    "a text": b'"hello"\n',
    "null": b"null\n",
    "an array": b'[{"type": "keep_alive"}]\n',
    "no type": b'{"hello": 1}\n',
    "a type that is no text": b'{"type": 5}\n',
    "a system message without subtype": b'{"type": "system"}\n',
    "an assistant without message": b'{"type": "assistant"}\n',
    "a message that is no object": b'{"type": "assistant", "message": "hi"}\n',
    "content that is a number": b'{"type": "assistant", "message": {"role": "assistant", "content": 5}}\n',
    "a task without id": b'{"type": "system", "subtype": "task_started"}\n',
    "a result without subtype": b'{"type": "result"}\n',
    "a task that ends in no way": b'{"type": "system", "subtype": "task_updated", "task_id": "t", "patch": 1}\n',
    "nested too deeply": b'{"type": "assistant", "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n",
}


async def session_with(start: MakeClient, *said: Any, **options: Any) -> tuple[list[Any], str]:
    """Have a session say something between two turns; give all messages in between, and the text of the second."""
    before, after = frames.session_state("running"), frames.session_state("idle")
    fake = FakeCLI(steps.turn("one"), before, *said, after, steps.turn("two"))
    with anyio.fail_after(240):
        async with start(fake, **options) as client:
            messages = client.messages()
            await client.query("first")
            second = await client.query("second")
            seen: list[Any] = []
            async for message in messages:
                seen.append(message)
                if getattr(message, "state", None) == "idle":
                    break
    first = next(index for index, message in enumerate(seen) if getattr(message, "state", None) == "running")
    return seen[first + 1 : -1], second.text


@pytest.mark.parametrize("kind", WRONG)
async def test_a_wrong_line_is_an_event_and_the_session_continues(kind: str) -> None:
    [event], text = await session_with(start_in_memory, WRONG[kind])
    assert isinstance(event, MalformedFrame)
    assert event.line == WRONG[kind].rstrip(b"\n")
    assert event.error
    assert text == "two"


async def test_many_wrong_lines_are_as_many_events(start: MakeClient) -> None:
    events, text = await session_with(start, *WRONG.values())
    assert [event.line for event in events] == [line.rstrip(b"\n") for line in WRONG.values()]
    assert text == "two"


async def test_the_event_names_the_place(start: MakeClient) -> None:
    broken = frames.assistant([{"type": "text"}])
    [event], _ = await session_with(start, broken)
    assert event.location == ("message", "content", 0, "text")
    assert event.raw == broken


async def test_empty_lines_are_nothing(start: MakeClient) -> None:
    events, text = await session_with(start, b"\n\n   \n\r\n\t\n")
    assert events == []
    assert text == "two"


async def test_an_unknown_message_is_no_error(start: MakeClient) -> None:
    said = (
        frames.system("from_the_future", x=1),
        {"type": "telepathy"},
        frames.assistant([{"type": "hologram", "x": 1}]),
    )
    events, text = await session_with(start, *said)
    assert [type(event) for event in events] == [UnknownMessage, UnknownMessage, AssistantMessage]
    assert isinstance(events[2].message.content[0], UnknownBlock)
    assert text == "two"


@pytest.mark.parametrize("limit", [1, MEBIBYTE], ids=["on disk", "in memory"])
async def test_a_dropped_field_is_logged_once_however_long_its_message_waits(
    limit: int, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = {**frames.assistant("hi"), "context_usage": "none"}
    wrong["message"] = {**wrong["message"], "usage": {"input_tokens": "12"}}
    with caplog.at_level(logging.WARNING):
        told, second = await session_with(start_in_memory, wrong, limits=Limits(mailbox_bytes=limit))
    assert [message.text for message in told] == ["hi"]
    assert second == "two"
    warnings = [record.getMessage() for record in caplog.records if "dropped" in record.getMessage()]
    assert len(warnings) == len(set(warnings)) > 0


async def test_windows_line_ends_and_other_separators_do_no_harm(start: MakeClient) -> None:
    frame = frames.assistant("one\u2028two\u0085three")
    line = json.dumps(frame, ensure_ascii=False).encode() + b"\r\n"
    [event], _ = await session_with(start, line)
    assert event.text == "one\u2028two\u0085three"


async def test_a_line_in_many_pieces(start: MakeClient) -> None:
    line = frames.encode(frames.assistant("äöü " * 50))
    events, _ = await session_with(start, *[steps.emit_raw(line[i : i + 1]) for i in range(len(line))])
    assert [event.text for event in events] == ["äöü " * 50]


async def test_many_wrong_lines_in_one_turn_do_not_touch_its_result(start: MakeClient) -> None:
    wrong = [line for line in WRONG.values() if b'"result"' not in line]  # a malformed result would end the turn
    fake = FakeCLI(steps.wait_for_prompt(), *wrong, frames.of_prompt(frames.assistant("hi")), frames.result("hi"))
    with anyio.fail_after(60):
        async with start(fake) as client:
            result = await client.query("first")
    assert result.text == "hi"
    assert len([m for m in result.messages if isinstance(m, MalformedFrame)]) == len(wrong)


async def test_numbers_beyond_all_bounds_are_left_out() -> None:
    huge = 10**400
    retry = frames.system("api_retry", attempt=1, max_retries=2, retry_delay_ms=huge, error="overloaded")
    answer = frames.result("hi", total_cost_usd=huge, duration_ms=-huge, num_turns=huge)
    fake = FakeCLI(steps.wait_for_prompt(), frames.init(), retry, frames.assistant("hi"), answer, steps.turn("two"))
    with anyio.fail_after(60):
        async with start_in_memory(fake) as client:
            with watch(client) as watched:
                result = await client.query("first")
                assert (result.text, result.is_error) == ("hi", False)
                assert (await client.query("second")).text == "two"
    assert [span.status for span in watched.spans if span.kind == "turn"] == ["ok", "ok"]


@pytest.mark.parametrize("wrong", [{"is_error": 5}, {"result": "x" * 200_000}], ids=["a wrong field", "too long"])
async def test_a_turn_whose_result_cannot_be_read_has_ended_for_who_observes_it(wrong: dict[str, Any]) -> None:
    fake = FakeCLI(steps.wait_for_prompt(), frames.init(), frames.assistant("hi"), frames.result("hi", **wrong))
    with anyio.fail_after(60):
        async with start_in_memory(fake, limits=Limits(max_line_bytes=100_000)) as client:
            with watch(client) as watched:
                with pytest.raises(UnreadableResultError):
                    await client.query("first")
                [turn] = [span for span in watched.spans if span.kind == "turn"]
                assert (turn.status, turn.end is None) == ("error", False)


def nest(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("wrong", "status"),
    [
        ({"is_error": 5}, "error"),
        ({"structured_output": nest(300)}, "error"),
        ({"permission_denials": [{"tool_name": "Bash", "tool_use_id": "t", "tool_input": {"a": nest(300)}}]}, "ok"),
    ],
    ids=["a wrong field", "nested too deeply", "only a denied call that is nested too deeply"],
)
async def test_a_result_that_cannot_be_read_ends_its_turn_alike_live_and_in_a_recording(
    wrong: dict[str, Any], status: str, tmp_path: Path
) -> None:
    said = [frames.init(), frames.assistant("hi"), frames.result("hi", **wrong)]
    with anyio.fail_after(60):
        async with start_in_memory(FakeCLI(steps.wait_for_prompt(), *said)) as client:
            live = client.journal()
            with suppress(UnreadableResultError):
                await client.query("first")
        told = [fact async for fact in live]
    recording = tmp_path / "said.jsonl"
    plain = [{key: frame[key] for key in frame if key not in frames.PROMPT_FIELDS} for frame in said]
    recording.write_text("".join(json.dumps({"t": 0, "dir": "out", "m": frame}) + "\n" for frame in plain))
    ends = [
        [(fact.status, fact.error) for fact in facts if isinstance(fact, TurnEnded)]
        for facts in (told, read_recording(recording))
    ]
    assert ends[0] == ends[1]
    assert [end[0] for end in ends[0]] == [status]


# Long lines ------------------------------------------------------------------------------------------------------


@pytest.mark.one_backend
async def test_a_line_of_20_mebibytes_is_ordinary(start_process: MakeClient) -> None:
    [event], text = await session_with(start_process, frames.assistant("x" * (20 * MEBIBYTE)))
    assert isinstance(event, AssistantMessage)
    assert len(event.text) == 20 * MEBIBYTE
    assert text == "two"


async def test_a_line_over_the_limit_is_dropped_and_reported(start: MakeClient) -> None:
    [event], text = await session_with(
        start, frames.assistant("x" * (3 * MEBIBYTE)), limits=Limits(max_line_bytes=MEBIBYTE)
    )
    assert isinstance(event, MalformedFrame)
    assert isinstance(event.line, bytes)
    assert len(event.line) < 64 * 1024
    assert event.line.startswith(b'{"type": "assistant"')
    assert "max_line_bytes" in event.error
    assert text == "two"


async def test_a_line_over_the_limit_is_told_the_same_when_the_reader_is_late(start: MakeClient) -> None:
    """What does not fit into the mailbox waits on disk; the event must come back as what it was."""
    said = [frames.assistant("y" * 30_000), frames.assistant("x" * (3 * MEBIBYTE)), b"garbage\n", frames.assistant("z")]
    events, _ = await session_with(start, *said, limits=Limits(max_line_bytes=MEBIBYTE, mailbox_bytes=10_000))
    assert [type(event) for event in events] == [AssistantMessage, MalformedFrame, MalformedFrame, AssistantMessage]
    assert "max_line_bytes" in events[1].error
    assert events[2].line == b"garbage"
    assert "not JSON" in events[2].error


async def test_a_line_at_the_limit_is_taken(start: MakeClient) -> None:
    line = frames.encode(frames.assistant("x" * 5000))
    limits = Limits(max_line_bytes=len(line) - 1)
    [event], _ = await session_with(start, line, limits=limits)
    assert isinstance(event, AssistantMessage)


async def test_a_line_over_the_limit_that_never_ends(start: MakeClient) -> None:
    fake = FakeCLI(steps.turn("one"), b"x" * (3 * MEBIBYTE), steps.wait_for_prompt(), steps.exit(0))
    with anyio.fail_after(60):
        async with start(fake, limits=Limits(max_line_bytes=MEBIBYTE)) as client:
            messages, seen = client.messages(), list[Any]()
            await client.query("first")
            client.query("second")
            with pytest.raises(CLIExitError):
                await read_into(seen, messages)
    assert isinstance(seen[-1], MalformedFrame)
    assert str(3 * MEBIBYTE) in seen[-1].error
