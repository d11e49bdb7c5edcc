"""Chrome traces are what viewers read."""

import asyncio
import json
import pickle
import time
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
import recordings_loader as recordings
from peers import MakeClient

from claude_agent_py import Client
from claude_agent_py.errors import OptionsError
from claude_agent_py.observe import Span, Timeline
from claude_agent_py.testing import FakeCLI, frames, steps
from claude_agent_py.wire import decode


def recorded(name: str) -> Timeline:
    return Timeline.from_recording(recordings.FOLDER / f"{name}.jsonl")


FIELDS: dict[str, set[str]] = {
    "X": {"ph", "name", "cat", "pid", "tid", "ts", "dur", "args"},
    "M": {"ph", "name", "pid", "tid", "args"},
    "s": {"ph", "name", "cat", "id", "pid", "tid", "ts"},
    "f": {"ph", "name", "cat", "id", "pid", "tid", "ts", "bp"},
}
"""What the Trace Event format wants of the phases that are used."""
METADATA = {"process_name": "name", "process_sort_index": "sort_index"} | {
    "thread_name": "name",
    "thread_sort_index": "sort_index",
}


def is_in(flow: dict[str, Any], bar: dict[str, Any]) -> bool:
    """Return whether an arrow begins in a bar; viewers drop others."""
    place = (flow["pid"], flow["tid"]) == (bar["pid"], bar["tid"])
    return place and bar["ts"] <= flow["ts"] <= bar["ts"] + bar["dur"]


def check_trace(trace: dict[str, Any], spans: list[Span]) -> None:
    events: list[dict[str, Any]] = json.loads(json.dumps(trace, allow_nan=False))["traceEvents"]
    for event in events:
        assert set(event) == FIELDS[event["ph"]], event
        assert all(type(event[key]) is int and event[key] >= 0 for key in ("pid", "tid", "ts", "dur") if key in event)
        if event["ph"] == "M":
            assert set(event["args"]) == {METADATA[event["name"]]}
    bars = [event for event in events if event["ph"] == "X"]
    assert sorted(event["args"]["id"] for event in bars) == sorted(span.id for span in spans)
    named = {(event["pid"], event["tid"]) for event in events if event["name"] == "thread_name"}
    assert {(event["pid"], event["tid"]) for event in bars} == named
    starts = {event["id"]: event for event in events if event["ph"] == "s"}
    ends = {event["id"]: event for event in events if event["ph"] == "f"}
    assert set(starts) == set(ends)
    assert all(starts[flow]["ts"] <= ends[flow]["ts"] for flow in starts)  # viewers drop others
    assert all(any(is_in(flow, bar) for bar in bars) for flow in starts.values())
    open_until: dict[tuple[int, int], int] = {}
    for event in sorted((event for event in bars if event["tid"] > 1), key=lambda event: event["ts"]):
        place = (event["pid"], event["tid"])
        assert event["ts"] + 1 >= open_until.get(place, 0)  # no bar hides another
        open_until[place] = event["ts"] + event["dur"]


def test_every_recording_is_a_trace() -> None:
    linked = 0
    for name in recordings.names():
        timeline = recorded(name)
        trace = timeline.to_chrome_trace()
        check_trace(trace, timeline.spans)
        linked += sum(event["ph"] == "s" for event in trace["traceEvents"])
    assert linked > 100


def test_thousands_of_calls_at_once_get_a_thread_each_in_time() -> None:
    calls = [{"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": {}} for number in range(12_000)]
    frame = {"type": "assistant", "uuid": "u", "session_id": "s", "message": {"role": "assistant", "content": calls}}
    timeline = Timeline.from_messages([decode(json.dumps(frame))])
    began = time.process_time()
    events = timeline.to_chrome_trace()["traceEvents"]
    assert time.process_time() - began < 5  # a search for the thread of each call takes twice as long
    assert len({event["tid"] for event in events if event["name"] == "Bash"}) == len(calls)


def test_a_timeline_says_in_short_what_it_sums_up() -> None:
    timeline = recorded("control/03_set_model_then_404")
    shown = repr(timeline.summary)
    assert shown.startswith(f"<Summary of {timeline.summary.count} spans, {timeline.summary.failures} failed or denied")
    assert f"{timeline.summary.cost_usd:.4f} USD>" in shown
    assert repr(timeline) == f"<Timeline {timeline.title!r} from recording, {len(timeline.spans)} spans>"


def test_a_recording_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(OptionsError, match="cannot read the recording"):
        Timeline.from_recording(tmp_path / "missing.jsonl")
    path = tmp_path / "notes.jsonl"
    path.write_text('\n{"note": 1}\nno JSON\n')
    with pytest.raises(OptionsError, match="none of its lines is a frame"):
        Timeline.from_recording(path)


@pytest.mark.anyio
async def test_the_timeline_of_a_run_stays_when_its_result_is_pickled(start: MakeClient) -> None:
    call = frames.assistant([frames.tool_use_block("Bash", {"command": "ls"}, id="t1")])
    async with start(
        FakeCLI(steps.turn([call, frames.tool_result("t1", "a.py"), frames.assistant("Done.")]))
    ) as client:
        result = await client.query("hello there")
    timelines = [result.timeline(), pickle.loads(pickle.dumps(result)).timeline()]
    live, read = ({(span.kind, span.id, span.name, span.status) for span in each.spans} for each in timelines)
    assert read == live
    assert {(kind, name) for kind, _, name, _ in read} >= {("run", "hello there"), ("tool", "Bash")}


class LateClockLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock is late for a while: uvloop reads the time only at the begin of a turn."""

    behind = 5.0

    def time(self) -> float:
        return super().time() - self.behind


def test_the_timeline_of_a_run_has_its_prompt_also_if_the_clock_of_the_event_loop_was_late() -> None:
    async def main() -> Timeline:
        async with Client(transport=FakeCLI(steps.turn("Done.")).transport()) as client:
            run = client.query("hello there")
            async for _ in run:
                pass
            cast("LateClockLoop", asyncio.get_running_loop()).behind = 0.0
            return (await run).timeline()

    spans = anyio.run(main, backend_options={"loop_factory": LateClockLoop}).spans
    assert {(span.kind, span.name) for span in spans} >= {("run", "hello there"), ("turn", "hello there")}
