"""The fold from messages to spans: the same for a recording, the messages alone and a transcript."""

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import anyio
import pytest
import recordings_loader as recordings
from comparing import common
from each import for_each
from hypothesis import given
from hypothesis.strategies import integers, lists
from live import LiveJournal, View
from task_host import Host

from claude_agent_py.control import ControlResponse
from claude_agent_py.journal import (
    CallStarted,
    ProcessEnd,
    PromptSent,
    RequestOpened,
    TaskReopened,
    TaskStarted,
    TurnStarted,
    decode_fact,
    read_recording,
)
from claude_agent_py.messages import InitMessage, UserContent, UserMessage
from claude_agent_py.observe import Span, SpanFold, SpanLog, Summary, Timeline
from claude_agent_py.sessions import MemoryStore, get_session, import_session
from claude_agent_py.tasks import TaskIntake
from claude_agent_py.testing import frames
from claude_agent_py.wire import decode

SESSION = "11111111-1111-4111-8111-111111111111"


def path_of(name: str) -> Path:
    return recordings.FOLDER / f"{name}.jsonl"


def frames_of(name: str) -> Iterator[tuple[float, Any, bool]]:
    """Yield the frames of a recording, with their times in it and whether they were sent to the CLI."""
    for record in recordings.records(name):
        if record.direction in ("in", "out"):
            yield record.at, decode(recordings.as_line(record.value)), record.direction == "in"
        elif record.direction == "exit":
            yield record.at, ProcessEnd(), False


@cache
def spans_of(name: str) -> list[Span]:
    """The spans of a recording."""
    return Timeline.from_recording(path_of(name)).spans


@cache
def messages_alone(name: str) -> list[Span]:
    """The spans of the frames in their order, but without the times at which they came."""
    spans: list[Span] = []
    fold = SpanFold(spans.append)
    for _, frame, is_sent in frames_of(name):
        fold.feed(frame, sent=is_sent)
    fold.finish()
    return spans


def test_a_recording_and_its_messages_alone_give_the_same_spans() -> None:
    def check(name: str) -> None:
        recorded, alone = spans_of(name), messages_alone(name)
        assert common(recorded) == common(alone)
        ids = [span.id for span in recorded]
        assert len(ids) == len(set(ids))
        assert all(span.end is None or span.end >= span.start for span in recorded)
        known = {*ids, None}
        calls = {span.id for span in recorded if span.kind in ("hook", "waiting")}
        assert [span for span in recorded if span.parent not in known and span.id not in calls and not span.agent] == []

    for_each(recordings.names(), check)


def live_journal(name: str, observer: View, begin: Callable[[TaskIntake], object] = lambda tasks: None) -> None:
    """Observe a session that does what is recorded, at the recorded times. `begin` gets its tasks."""
    origin, now = next((at - t for at, t in times_of(name)), 0.0), 0.0
    tasks = TaskIntake(clock=lambda: now)
    journal = LiveJournal(tasks.ledger, clock=tasks.clock)
    tasks.host = Host(journal.feed)
    journal.observe(observer)
    begin(tasks)
    for at, frame, is_sent in frames_of(name):
        now = origin + at
        if isinstance(frame, ProcessEnd):
            tasks.process_exited("the CLI process ended before the task")
            journal.end("the CLI process ended before the turn")
            continue
        if not is_sent or isinstance(frame, ControlResponse):
            tasks.update(frame)
        journal.feed(frame, sent=is_sent)
        tasks.publish()
    journal.remove(observer)


def seconds(time: object) -> float | None:
    """Return a time that the CLI writes in seconds since the epoch, None if there is none."""
    return datetime.fromisoformat(time).timestamp() if isinstance(time, str) else None


def times_of(name: str) -> Iterator[tuple[float, float]]:
    """Yield the times that frames have of their own, with those of their arrival."""
    for record in recordings.records(name):
        own = seconds(record.value.get("timestamp")) if isinstance(record.value, dict) else None
        if own is not None and record.direction in ("in", "out"):
            yield own, record.at


def test_every_recording_has_the_same_spans_live() -> None:
    for name in recordings.names():
        log = SpanLog()
        live_journal(name, SpanFold(log.add, on_correction=log.revise))
        assert log.spans == spans_of(name), name


def test_calls_before_the_first_known_time_begin_then() -> None:
    spans: list[Span] = []
    fold = SpanFold(spans.append)
    call = {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {}}
    said = {"type": "message", "role": "assistant", "id": "msg_1", "model": "m", "content": [call]}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "read"}
    heard = {"role": "user", "content": [result]}
    fold.feed(InitMessage())
    fold.feed(decode(json.dumps({"type": "assistant", "message": said, "uuid": "a"}).encode()))
    fold.feed(decode(json.dumps({"type": "user", "message": heard, "timestamp": "2026-01-01T00:00:00Z"}).encode()))
    fold.finish()
    assert {span.kind: span.start for span in spans} == dict.fromkeys(("tool", "model", "turn", "run"), fold.now)
    assert fold.now == seconds("2026-01-01T00:00:00Z")


def test_messages_alone_begin_when_the_session_did() -> None:
    """The CLI's first messages have no time, and neither have prompts."""

    def check(name: str) -> None:
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

    for_each(recordings.names(), check)


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
    sent = [frame for frame in recordings.frames(name, "in") if frame.get("type") == "user"]
    prompts = {frame.get("uuid") or f"prompt {number}": frame for number, frame in enumerate(sent)}
    at = "2026-01-01T00:00:00.000Z"
    taken: set[str] = set()
    is_in_turn = False
    ended: str | None = None
    for frame in recordings.frames(name):
        kind, subtype = frame.get("type"), frame.get("subtype")
        if kind == "system" and subtype == "init":
            unnamed = [uuid for uuid in prompts if uuid.startswith("prompt ") and uuid not in taken][:1]
            named = frame.get("user_message_uuids") or unnamed
            mine = [uuid for uuid in named if uuid in prompts and uuid not in taken]
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


UNLIKE = {
    # The frames do not tell which prompts a turn took up, left out, or answered without the model.
    "control/04_queue_later", "control/04_queue_now", "control/04_queue_textonly", "control/05_empty_response",
    "control/06_bad_image", "control/06_bad_session", "control/06_bad_uuid", "control/06_crlf",
    "control/06_empty_str", "control/06_invalid_utf8", "control/06_lone_surrogate", "control/06_minimal",
    "control/06_nul", "control/06_null_content", "control/06_should_query_false", "control/06_slash_clear",
    "control/06_slash_compact", "control/06_slash_cost", "control/06_slash_unknown", "control/06_u2028",
    "control/06_user_20mb", "control/06_ws_content", "tasks/s01_agent_definitions", "tasks/s02_bg_api_retry",
    "tasks/s05_background_tasks_control", "tasks/s06_monitor", "tasks/s06_sendmessage_running",
    "tasks/s06_subagent_sendmessage_main", "tasks/s08_agent_teams_try", "tasks/s08_all_hook_events",
    "tasks/s08_matchers", "tasks/s08_prompt_stop_responses", "tasks/s10_bg_tasks_report_running_0",
    "tasks/s10_bg_tasks_report_running_1", "tasks/s10_resume_after_kill2", "tasks/s10_sdk_reads_session_state",
    "turns/every_field_2_1_332", "turns/prompt_blocked", "turns/slash_commands", "turns/text_without_query",
    # The CLI notes on disk how a turn was stopped; the frames tell it otherwise, and it is not made up here.
    "control/01_schema_flag", "control/01_schema_init", "control/01_schema_two_turns", "control/05_max_budget",
    "control/05_max_turns", "tasks/s08_pretooluse_responses", "tasks/s09_pending_prompt_interrupt",
    "turns/max_turns_with_queued",
    # The recording does not have the end of the process.
    "control/08_eof_bash", "control/08_eof_bash_ceiling", "control/08_eof_then_sigterm", "control/08_sighup_bash",
    "control/08_sigkill_bash", "control/08_sigterm_stream",
}  # fmt: skip
"""Recordings from which no transcript like the CLI's can be made."""


def shape(spans: Sequence[Span]) -> dict[Any, Any]:
    """Return what has to be equal on disk. Tasks need the CLI's files: see the test with the real one."""
    runs = [span.id for span in spans if span.kind == "run"]
    numbers = {run: f"run {number}" for number, run in enumerate(runs)}

    def named(span_id: str | None) -> str | None:
        run, slash, turn = (span_id or "").partition("/")
        return f"{numbers[run]}{slash}{turn}" if run in numbers else span_id

    kinds = ("run", "turn", "model", "tool")
    return {named(key): (one[0], named(one[1]), *one[2:]) for key, one in common(spans).items() if one[0] in kinds}


async def in_a_store(config: Path) -> list[Span]:
    store = MemoryStore()
    await import_session(store, SESSION, config_dir=config)
    return (await Timeline.from_store(store, SESSION)).spans


def test_every_recording_has_the_same_spans_on_disk_and_in_a_store(tmp_path: Path) -> None:
    compared = 0
    for number, name in enumerate(recordings.names()):
        if name in UNLIKE or not list(entries_of(name)):
            continue
        config = write(tmp_path / str(number), name)
        stored = Timeline.from_session(get_session(SESSION, config_dir=config)).spans
        assert shape(stored) == shape(spans_of(name)), name
        if compared % 10 == 0:  # copying takes long
            assert anyio.run(in_a_store, config) == stored, name
        compared += 1
    assert compared >= 200


def test_a_recording_with_any_numbers_gives_spans_that_can_be_shown(tmp_path: Path) -> None:
    path = tmp_path / "odd.jsonl"
    odd = (-1e300, 1e308, 0, -0.0, 1e-300)
    frames = [{k: v for k, v in frame.items() if k != "timestamp"} for frame in recordings.frames("turns/two_shells")]
    lines = [{"t": odd[i % 5], "dir": "out", "m": frame} for i, frame in enumerate(frames)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"t": "x"}\nnot json\n[1]\n\n')
    timeline = Timeline.from_recording(path)
    assert {span.kind for span in timeline.spans} == {"run", "turn", "model", "tool", "task"}
    json.dumps(timeline.to_chrome_trace(), allow_nan=False)
    assert "Infinity" not in timeline.to_html()


@cache
def every_frame() -> list[tuple[str, Any]]:
    return [(direction, decode(recordings.as_line(frame))) for _, direction, frame in recordings.all_frames()]


@given(picked=lists(integers(0, 100_000), max_size=80))
def test_frames_in_any_order_never_break_the_fold(picked: list[int]) -> None:
    log = SpanLog()
    fold = SpanFold(log.add)
    for number, index in enumerate(picked):
        direction, frame = every_frame()[index % len(every_frame())]
        fold.feed(frame, float(number), sent=direction == "in")
    fold.finish()
    ids = [span.id for span in log.spans]
    assert len(ids) == len(set(ids))
    assert all(span.end is None or span.end >= span.start for span in log.spans)
    assert all((span.end is None) == (span.status == "running") for span in log.spans)
    timeline = Timeline(log)
    json.dumps(timeline.to_chrome_trace())
    assert timeline.to_html()


BEGINNINGS = TurnStarted | CallStarted | TaskStarted | TaskReopened | RequestOpened | PromptSent


def test_what_began_before_the_first_fact_makes_no_spans(caplog: pytest.LogCaptureFixture) -> None:
    def check(name: str) -> None:
        spans: list[Span] = []
        fold = SpanFold(spans.append)
        fold.add([fact for fact in read_recording(path_of(name)) if not isinstance(fact, BEGINNINGS)])
        fold.finish()
        assert not [
            span for span in spans if span.kind in ("turn", "tool", "waiting", "hook", "subagent", "task", "child")
        ]

    for_each(recordings.names(), check)
    assert caplog.records == []


def test_a_child_agent_is_a_span_of_its_own_kind() -> None:
    spans: list[Span] = []
    fold = SpanFold(spans.append)
    started = frames.task_started("c1", "look", task_type="child_agent", subagent_type="helper")
    for frame in (started, *frames.task_end("c1")):
        fold.feed(decode(json.dumps(frame).encode()))
    fold.finish()
    assert [(span.kind, span.status) for span in spans if span.id.startswith("c1")] == [("child", "ok")]


def test_the_reason_of_a_failed_task_is_not_its_output_too() -> None:
    tasks = [
        span.attributes for name in recordings.names() for span in spans_of(name) if span.kind in ("task", "subagent")
    ]
    reasons = {attributes["error"] for attributes in tasks if "error" in attributes}
    assert 'Background command "failing" failed with exit code 3' in reasons
    assert not reasons.intersection(attributes.get("output") for attributes in tasks)


def test_a_corrected_outcome_replaces_all_that_the_span_of_the_task_tells() -> None:
    def end(**usage: float) -> dict[str, Any]:
        used = {"total_tokens": 220, "tool_uses": 1, "duration_ms": 5} | usage
        return {"task_id": "c1", "evidence": "process_exit", "usage": used}

    guessed = end(uncounted_tokens=9) | {"status": "failed", "failure_reason": "it died", "summary": "half"}
    reported = end(cost_usd=0.25) | {"status": "completed", "evidence": "notification", "summary": "whole"}
    about: dict[str, Any] = {"task_id": "c1", "id": "c1", "agent": "", "at": 5.0}
    facts: list[dict[str, Any]] = [
        {"fact": "task_started", "type": "child_agent"},
        {"fact": "task_finished", "outcome": guessed},
        {"fact": "task_revised", "old": guessed, "outcome": reported},
    ]

    def fold(*facts: dict[str, Any]) -> tuple[Span, Summary]:
        numbered = [about | {"number": number} | fact for number, fact in enumerate(facts, 1)]
        timeline = Timeline.from_facts([decode_fact(json.dumps(fact).encode()) for fact in numbered])
        return timeline.spans[0], timeline.summary

    span, summary = fold(*facts)
    assert span == fold(facts[0], facts[1] | {"outcome": reported})[0]
    assert "uncounted_tokens" in fold(*facts[:2])[0].attributes
    assert (summary.cost_usd, summary.failed) == (0.25, [])

    because = guessed | {"failure_reason": "it was killed"}
    second_guess = {"fact": "task_revised", "old": guessed, "outcome": because}
    span, summary = fold(*facts[:2], second_guess)
    assert summary.failed == [span]
    assert span.attributes["error"] == "it was killed"
    assert fold(*facts[:2], second_guess, facts[2] | {"old": because})[1].failed == []


def test_the_corrected_outcome_of_a_run_is_not_the_end_of_the_next_run() -> None:
    outcome: dict[str, Any] = {"task_id": "c1", "evidence": "notification", "status": "completed"}
    exact = outcome | {"usage": {"total_tokens": 220, "tool_uses": 1, "duration_ms": 5}}
    facts: list[dict[str, Any]] = [
        {"fact": "task_started", "id": "c1", "type": "local_agent"},
        {"fact": "task_finished", "id": "c1", "outcome": outcome},
        {"fact": "task_reopened", "id": "c1#2", "type": "local_agent"},
        {"fact": "task_revised", "id": "c1", "old": outcome, "outcome": exact},
        {"fact": "task_finished", "id": "c1#2", "outcome": outcome | {"status": "failed"}},
    ]
    lines = [
        json.dumps({"task_id": "c1", "agent": "", "number": n, "at": float(n), **f}) for n, f in enumerate(facts, 1)
    ]
    first, second = Timeline.from_facts(map(decode_fact, lines)).spans
    assert (first.id, first.status, first.attributes.get("total_tokens")) == ("c1", "ok", 220)
    assert (second.id, second.status, second.end) == ("c1#2", "error", 5.0)
    assert "total_tokens" not in second.attributes


def test_a_secret_at_the_limit_of_a_text_is_hidden_wherever_it_is_cut() -> None:
    secret = "hunter2" * 12
    spellings = [
        f"ghp_{secret}",
        f"https://me:{secret}@host/",
        f'\'{{"token": "{secret}"}}\'',
        f"<password>{secret}</password>",
    ]
    for spelling in spellings:
        for before in range(40, 360, 3):
            prompt = f"{'ghp_' + secret + ' '}{'x' * before} {spelling}{' y' * 300}"
            spans: list[Span] = []
            fold = SpanFold(spans.append, max_chars=300)
            fold.feed(UserMessage(message=UserContent(role="user", content=prompt), uuid="u1"), 1.0, sent=True)
            for frame in (frames.init(), frames.assistant(prompt), frames.result(prompt, user_message_uuids=["u1"])):
                fold.feed(decode(recordings.as_line(frame)), 2.0)
            fold.finish()
            assert {span.kind for span in spans} == {"run", "turn", "model"}
            assert "hunter2" not in str([(span.name, span.attributes) for span in spans])
