"""Memory is bounded, whatever a session has done; and a watch never disturbs its session."""

import json
import logging
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from bounds import set_bound
from live import View
from peers import MakeClient
from stored import Stored, call

from claude_agent_py import UserMessage
from claude_agent_py.journal import CallStarted, Fact, MessageAdded, TurnStarted, read_recording
from claude_agent_py.messages import TextBlock, ToolUseBlock
from claude_agent_py.observe import Span, SpanFold, SpanLog, Timeline, watch
from claude_agent_py.sessions import get_session
from claude_agent_py.testing import FakeCLI, frames, steps
from claude_agent_py.wire import decode


def test_a_long_transcript_takes_bounded_memory(tmp_path: Path) -> None:
    stored = Stored(tmp_path)
    for number in range(1500):
        stored.user(f"prompt {number}") if number % 50 == 0 else None
        stored.assistant(call(f"t{number}", command="echo"), id=f"m{number}")
        stored.result(f"t{number}", "x" * 8000)
    size = stored.path.stat().st_size
    session = get_session(stored.id, config_dir=tmp_path)
    tracemalloc.start()
    timeline = Timeline.from_session(session, max_spans=400, max_chars=200)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(timeline.spans) <= 400
    assert timeline.summary.count == 1500 * 2 + 30 * 2
    assert timeline.dropped == timeline.summary.count - len(timeline.spans)
    assert timeline.summary.counts == {"run": 30, "turn": 30, "model": 1500, "tool": 1500}
    assert {"run", "turn"} <= {span.kind for span in timeline.spans}
    assert size > 12_000_000
    assert peak < 6_000_000


def test_no_secret_of_a_transcript_is_in_its_timeline(tmp_path: Path) -> None:
    stored = Stored(tmp_path)
    token = "ghp_" + "aB3d" * 9
    stored.user(f"use {token}")
    stored.assistant(call("t1", command=f"echo\n{token}"), id="m1")
    stored.result("t1", json.dumps({"stdout": f"\n{token}"}))
    session = get_session(stored.id, config_dir=tmp_path)
    timeline = Timeline.from_session(session)
    assert timeline.title == "use ***"
    assert "aB3daB3d" not in timeline.to_html() + json.dumps(timeline.to_chrome_trace())
    assert Timeline.from_session(session, max_chars=0).title == stored.id


def test_failures_runs_and_the_longest_stay_when_spans_are_left_out() -> None:
    log = SpanLog(100)
    for number in range(1000):
        status = "error" if number == 10 else "ok"
        log.add(Span(id=str(number), kind="tool", name="t", start=number, end=number + number % 7, status=status))  # type: ignore[arg-type]
        if number % 100 == 0:
            log.add(Span(id=f"run{number}", kind="run", name="r", start=number, end=number + 1.0, status="ok"))
    kept = {span.id for span in log.spans}
    assert len(kept) <= 100
    assert "10" in kept
    assert {f"run{number}" for number in range(0, 1000, 100)} <= kept
    assert log.dropped + len(kept) == log.summary.count == 1010


def test_an_id_that_comes_again_and_again_costs_the_same_each_time() -> None:
    log = SpanLog()
    fold = SpanFold(log.add)
    called = decode(frames.encode(frames.assistant([frames.tool_use_block("Bash", {}, id="same")], id="m")))
    returned = decode(frames.encode(frames.tool_result("same", "")))
    for _ in range(20_000):  # some 20 minutes if each looked at all before it
        fold.feed(called, 1.0)
        fold.feed(returned, 1.0)
    fold.finish()
    assert log.summary.counts["tool"] == 20_000
    ids = [span.id for span in log.spans]
    assert len(ids) == len(set(ids))


@pytest.mark.anyio
async def test_an_observer_misses_only_the_facts_with_which_it_fails(
    start: MakeClient, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[str] = []

    class Failing(View):
        def sent(self, prompt: UserMessage) -> None:
            raise ZeroDivisionError

        def add(self, facts: Sequence[Fact]) -> None:
            for fact in facts:
                if isinstance(fact, TurnStarted):
                    raise RecursionError
                seen.append(type(fact).__name__)

    async with start(FakeCLI(steps.turn("Hi."), steps.turn("Ho."))) as client:
        other = watch(client)
        client.session.observe(Failing())
        with caplog.at_level(logging.ERROR):
            assert (await client.query("hello")).text == "Hi."
            assert (await client.query("hello")).text == "Ho."
    [logged] = caplog.records
    assert logged.message == "an observer of the session drops an item of the type UserMessage and continues"
    assert seen.count("TurnEnded") == 2
    assert "model" in {span.kind for span in other.spans}


def test_a_frame_that_cannot_be_folded_costs_only_itself(
    caplog: pytest.LogCaptureFixture, swallowed_faults: list[str]
) -> None:
    broken = decode(frames.encode(frames.assistant("odd")))
    msgspec.structs.force_setattr(broken, "message", None)
    messages = [decode(frames.encode(frame)) for frame in (frames.init(), frames.assistant("a"), frames.result("a"))]
    with caplog.at_level(logging.ERROR):
        timeline = Timeline.from_messages([broken, messages[0], broken, *messages[1:], broken])
    assert "turn" in {span.kind for span in timeline.spans}
    [logged] = caplog.records
    assert logged.message == "the journal of a session drops an item of the type AssistantMessage and continues"
    assert len(swallowed_faults) == 1
    swallowed_faults.clear()


def test_a_recording_with_a_deeply_nested_value_is_read_without_it(tmp_path: Path) -> None:
    deep = "[" * 100_000 + "]" * 100_000
    lines = [frames.encode(frame).decode() for frame in (frames.init(), frames.assistant("a"), frames.result("a"))]
    lines.insert(2, f'{{"type": "assistant", "uuid": "u", "message": {{"content": {deep}}}}}\n')
    path = tmp_path / "recording.jsonl"
    path.write_text("".join(lines))
    assert "turn" in {span.kind for span in Timeline.from_recording(path).spans}


@pytest.mark.parametrize("has_times", [True, False])
def test_a_line_of_a_recording_with_half_a_character_is_read(tmp_path: Path, has_times: bool) -> None:
    said = [frames.assistant("whole"), frames.assistant("half \ud83d")]
    lines = [{"t": 1, "dir": "out", "m": each} if has_times else each for each in said]
    path = tmp_path / "recording.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    added = [fact for fact in read_recording(path) if isinstance(fact, MessageAdded)]
    texts = [block.text for fact in added for block in fact.content or () if isinstance(block, TextBlock)]
    assert texts == ["whole", "half \ufffd"]


def test_a_span_that_cannot_be_reported_costs_only_itself() -> None:
    seen: list[str] = []

    def on_end(span: Span) -> None:
        if span.kind == "model":
            raise ValueError("odd")
        seen.append(span.kind)

    fold = SpanFold(on_end)
    for frame in (frames.init(), frames.assistant("a"), frames.result("a")):
        fold.feed(decode(frames.encode(frame)), 1.0)
    fold.finish()
    assert "turn" in seen


def test_runs_are_left_out_if_there_is_nothing_else() -> None:
    log = SpanLog(100)
    for number in range(250):
        log.add(Span(id=str(number), kind="run", name="r", start=number, end=number + 1.0, status="ok"))
    kept = [int(span.id) for span in log.spans]
    assert kept == list(range(250 - len(kept), 250))
    assert 75 <= len(kept) <= 100
    assert log.dropped + len(kept) == log.summary.count == 250


def test_a_fact_that_cannot_be_folded_costs_only_itself(
    caplog: pytest.LogCaptureFixture, swallowed_faults: list[str]
) -> None:
    spans: list[Span] = []
    fold = SpanFold(spans.append)
    block = ToolUseBlock(id="t1", name="Bash", input={})
    odd = CallStarted(id="t0", call=block)
    msgspec.structs.force_setattr(odd, "call", None)
    fold.add([odd, CallStarted(id="t1", call=block, message="of another answer"), odd])
    fold.finish()
    assert [(span.id, span.kind, span.status) for span in spans] == [("t1", "tool", "running")]
    [logged] = caplog.records
    assert "drops an item of the type CallStarted and continues" in logged.message
    assert len(swallowed_faults) == 1
    swallowed_faults.clear()


@pytest.mark.anyio
async def test_a_slow_reader_of_the_facts_among_the_messages_misses_only_progress(
    start: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_bound(monkeypatch, "QUEUE_LIMIT", 5)
    progress = [frames.task_progress("a1", f"step {number}") for number in range(20)]
    events = [frames.task_started("a1"), *progress, *frames.task_end("a1")]
    shown = steps.emit(frames.init(**frames.prompt_field("uuid")), *events, frames.result("Done."))
    fake = FakeCLI(steps.wait_for_prompt(), shown)
    async with start(fake) as client:
        stream = client.events(facts=True)
        await client.query("hello")
        await client.close()
        found = [type(item).__name__ async for item in stream]
        assert [item async for item in client.events(facts=True) if hasattr(item, "fact")] == []
    assert found.count("TaskProgressed") < 20
    assert {"TurnStarted", "TaskStarted", "TaskFinished", "TurnEnded"} <= set(found)


def of(spans: list[Span]) -> Timeline:
    log = SpanLog()
    for span in spans:
        log.add(span)
    return Timeline(log)


def test_long_texts_are_cut_in_a_page_that_would_be_too_large() -> None:
    text = "x" * 200_000
    spans = [
        Span(
            id=str(number),
            kind="tool",
            name="Bash",
            start=1.0,
            end=2.0,
            status="ok",
            attributes={"input": text, "n": 1},
        )
        for number in range(100)
    ]
    page = of(spans).to_html()
    assert 2_000_000 < len(page) < 6_000_000
    assert "x..." in page
    assert "x..." not in of(spans[:10]).to_html()
