"""The fold from messages to spans: the same for a recording, the messages alone and a transcript."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import recordings_loader as recordings
from comparing import common
from hypothesis import given, settings
from hypothesis.strategies import integers, lists

from claude_agent_py.messages import UserMessage
from claude_agent_py.observe import Span, SpanFold, Timeline
from claude_agent_py.observe.collecting import SpanLog
from claude_agent_py.observe.sources import fold_frame
from claude_agent_py.sessions import get_session
from claude_agent_py.wire import decode
from claude_agent_py.wire.timestamps import seconds

SESSION = "11111111-1111-4111-8111-111111111111"


def path_of(name: str) -> Path:
    return recordings.FOLDER / f"{name}.jsonl"


def messages_alone(name: str) -> list[Span]:
    """The spans of the frames in their order, but without the times at which they came."""
    spans: list[Span] = []
    fold = SpanFold(spans.append)
    for record in recordings.records(name):
        if record.direction in ("in", "out"):
            fold_frame(fold, decode(recordings.as_line(record.value)), None, is_sent=record.direction == "in")
    fold.finish()
    return spans


@pytest.mark.parametrize("name", recordings.names())
def test_a_recording_and_its_messages_alone_give_the_same_spans(name: str) -> None:
    recorded, alone = Timeline.from_recording(path_of(name)), messages_alone(name)
    assert common(recorded.spans) == common(alone)
    ids = [span.id for span in recorded.spans]
    assert len(ids) == len(set(ids))
    assert all(span.end is None or span.end >= span.start for span in recorded.spans)
    known = {*ids, None}
    calls = {span.id for span in recorded.spans if span.kind in ("hook", "waiting")}
    assert [
        span for span in recorded.spans if span.parent not in known and span.id not in calls and not span.agent
    ] == []


@pytest.mark.parametrize("name", recordings.names())
def test_messages_alone_begin_when_the_session_did(name: str) -> None:
    """The CLI's first messages have no time, and neither have prompts."""
    frames = [decode(recordings.as_line(frame)) for frame in recordings.frames(name, "out")]
    known = [at for frame in frames if (at := seconds(getattr(frame, "timestamp", None)))]
    sent = [
        prompt
        for frame in recordings.frames(name, "in")
        if type(prompt := decode(recordings.as_line(frame))) is UserMessage
    ]
    estimated = Timeline.from_messages(frames, sent).spans
    answered = {span.parent for span in messages_alone(name) if span.kind == "model"}
    streamed = [span for span in messages_alone(name) if span.kind == "model" or span.id in answered]
    for span in (*estimated, *streamed):
        assert not known or min(known) - 60 <= span.start <= max(known) + 60, span


def test_the_first_model_call_takes_as_long_as_the_turn_says() -> None:
    answer = {"type": "assistant", "uuid": "a", "session_id": SESSION, "timestamp": "2026-01-01T00:00:10.000Z"}
    said = {"id": "m", "role": "assistant", "model": "opus", "content": [{"type": "text", "text": "hi"}]}
    result = {"type": "result", "subtype": "success", "session_id": SESSION, "duration_ms": 4000, "is_error": False}
    messages = [
        decode(recordings.as_line(frame))
        for frame in ({"type": "system", "subtype": "init"}, answer | {"message": said}, result)
    ]
    spans = Timeline.from_messages(iter(messages)).spans
    assert [(span.kind, span.duration) for span in spans] == [("run", 4.0), ("turn", 4.0), ("model", 4.0)]


# A transcript of the same session --------------------------------------------------------------------------------


def entries_of(name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the entries, with their agents, that the CLI would write to disk in a session like this recording."""
    prompts = {frame["uuid"]: frame for frame in recordings.frames(name, "in") if frame.get("type") == "user"}
    at = "2026-01-01T00:00:00.000Z"
    taken: set[str] = set()
    is_in_turn = False
    ended: str | None = None
    for frame in recordings.frames(name):
        kind, subtype = frame.get("type"), frame.get("subtype")
        if kind == "system" and subtype == "init":
            mine = [uuid for uuid in frame.get("user_message_uuids") or () if uuid in prompts and uuid not in taken]
            taken |= set(mine)
            is_in_turn = bool(mine)
            if mine:
                yield "", {"type": "user", "uuid": mine[0], "message": prompts[mine[0]]["message"], "timestamp": at}
        elif kind == "system" and subtype == "task_notification":
            ended = frame["task_id"]
        elif kind == "result":
            is_in_turn = False
        elif kind in ("user", "assistant") and not frame.get("isReplay"):
            at = frame.get("timestamp", at)
            if kind == "assistant" and not is_in_turn and not frame.get("agent_id"):
                is_in_turn = True
                text = f"<task-notification>\n<task-id>{ended}</task-id>\n</task-notification>"
                told = {"role": "user", "content": text}
                yield (
                    "",
                    {
                        "type": "user",
                        "uuid": f"n-{at}",
                        "message": told,
                        "timestamp": at,
                        "origin": {"kind": "task-notification"},
                    },
                )
            entry: dict[str, Any] = {key: frame[key] for key in ("type", "uuid", "message") if key in frame}
            names = {"tool_use_result": "toolUseResult", "isSynthetic": "isMeta", "error": "error"}
            entry |= {names[key]: frame[key] for key in names if key in frame}
            if kind == "assistant":
                calls = any(block["type"] == "tool_use" for block in entry["message"]["content"])
                entry["message"] = {**entry["message"], "stop_reason": "tool_use" if calls else "end_turn"}
            for meta in frame.get("tool_result_meta") or ():
                entry["permissionDecision"] = meta.get("permission_decision")
            yield frame.get("agent_id") or "", entry | {"timestamp": at}


def write(folder: Path, name: str) -> Path:
    """Write the transcripts and return the configuration folder."""
    main = folder / "projects" / "-work" / f"{SESSION}.jsonl"
    last: dict[str, str | None] = {}
    for agent, entry in entries_of(name):
        path = main if not agent else main.with_suffix("") / "subagents" / f"agent-{agent}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        links = {"parentUuid": last.get(agent), "isSidechain": bool(agent), "sessionId": SESSION, "cwd": "/work"}
        last[agent] = entry["uuid"]
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**links, **({"agentId": agent} if agent else {}), **entry}) + "\n")
    return folder


PLAIN = ("two_shells", "three_agents", "many_folded", "foreground_tasks", "nested_agents", "api_error", "agent_stopped")
"""Recordings of ordinary sessions whose prompts have uuids."""


@pytest.mark.parametrize("name", PLAIN)
def test_a_transcript_gives_the_spans_of_the_recording(name: str, tmp_path: Path) -> None:
    recorded = Timeline.from_recording(path_of(f"turns/{name}")).spans
    stored = Timeline.from_session(get_session(SESSION, config_dir=write(tmp_path, f"turns/{name}"))).spans
    kinds = ("run", "turn", "model", "tool")  # tasks need the CLI's files: see the test with the real one
    here = {span_id: known for span_id, known in common(recorded).items() if known[0] in kinds}
    there = {span_id: known for span_id, known in common(stored).items() if known[0] in kinds}
    assert there == here
    assert here


def test_a_recording_with_any_numbers_gives_spans_that_can_be_shown(tmp_path: Path) -> None:
    path = tmp_path / "odd.jsonl"
    odd = (-1e300, 1e308, 0, -0.0, 1e-300)
    frames = [{k: v for k, v in frame.items() if k != "timestamp"} for frame in recordings.frames("turns/two_shells")]
    lines = [{"t": odd[i % 5], "dir": "out", "m": frame} for i, frame in enumerate(frames)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"t": "x"}\nnot json\n[1]\n\n')
    timeline = Timeline.from_recording(path)
    assert {span.kind for span in timeline.spans} == {"run", "turn", "model", "tool", "task"}
    json.dumps([timeline.to_chrome_trace(), timeline.to_otlp()], allow_nan=False)
    assert "Infinity" not in timeline.to_html()


FRAMES = [(direction, decode(recordings.as_line(frame))) for _, direction, frame in recordings.all_frames()]


@settings(max_examples=60)
@given(picked=lists(integers(0, len(FRAMES) - 1), max_size=80))
def test_frames_in_any_order_never_break_the_fold(picked: list[int]) -> None:
    log = SpanLog()
    fold = SpanFold(log.add)
    for number, index in enumerate(picked):
        direction, frame = FRAMES[index]
        fold_frame(fold, frame, float(number), is_sent=direction == "in")
    fold.finish()
    ids = [span.id for span in log.spans]
    assert len(ids) == len(set(ids))
    assert all(span.end is None or span.end >= span.start for span in log.spans)
    assert all((span.end is None) == (span.status == "running") for span in log.spans)
    timeline = Timeline(log)
    json.dumps([timeline.to_chrome_trace(), timeline.to_otlp()])
    assert timeline.to_html()
