"""Memory is bounded, whatever a session has done; and a watch never disturbs its session."""

import logging
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import pytest
from peers import MakeClient
from stored import Stored, call

from claude_agent_py.journal import Fact
from claude_agent_py.observe import Span, SpanFold, Timeline, watch
from claude_agent_py.observe.observer import LiveJournal, Observer
from claude_agent_py.observe.spans import SpanLog
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
async def test_an_observer_that_fails_is_logged_and_disturbs_nothing(
    start: MakeClient, caplog: pytest.LogCaptureFixture
) -> None:
    class Failing(Observer):
        def add(self, facts: Sequence[Fact]) -> None:
            raise ZeroDivisionError

    async with start(FakeCLI(steps.turn("Hi."))) as client:
        other = watch(client)
        LiveJournal.of(client.connection).observe(Failing())
        with caplog.at_level(logging.ERROR):
            assert (await client.query("hello")).text == "Hi."
    logged = [record.message for record in caplog.records]
    assert logged == ["an observer of the session failed and ignores further events"]
    assert "model" in {span.kind for span in other.spans}
