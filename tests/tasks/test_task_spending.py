"""The usage of subagents, summed from frames in any order: every message counts once, and no count falls."""

import json
import math
import pickle
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from folding import Clock, Desk, intake_of, track_hook, tracking
from task_host import Host

from claude_agent_py import TaskManager
from claude_agent_py.messages import TaskUsage
from claude_agent_py.tasks import EndedBy, ModelPrice, TaskFinished, TaskIntake, TaskRevised
from claude_agent_py.testing import frames

MODEL = "claude-x"


def said(message_id: str, tokens: int, agent_id: str = "a1") -> dict[str, Any]:
    """One frame of a message."""
    frame = frames.assistant("x", agent_id=agent_id, parent_tool_use_id="toolu_1")
    frame["message"] |= {"id": message_id, "model": MODEL, "usage": {"input_tokens": tokens, "output_tokens": 1}}
    return frame


def used(manager: TaskManager, task_id: str = "a1") -> float:
    usage = manager[task_id].usage
    return 0 if usage is None else usage.total_tokens


def test_the_frames_of_a_message_count_once_also_when_others_come_between() -> None:
    manager = tracking(TaskManager(), frames.task_started("a1"))
    tracking(manager, said("m1", 100), said("m2", 50), said("m1", 100), said("m2", 50), said("m1", 120))
    assert used(manager) == 121 + 51


def test_thousands_of_messages_are_all_counted() -> None:
    manager = tracking(TaskManager(), frames.task_started("a1"))
    tracking(manager, *(said(f"m{n // 2}", 9) for n in range(6000)))
    assert used(manager) == 30_000


def test_a_pickled_task_has_its_cost() -> None:
    manager = TaskManager(intake=TaskIntake(host=Host()))  # nobody has seen the outcome before
    manager.prices[MODEL] = ModelPrice(input=1, output=1)
    tracking(manager, frames.task_started("a1"), said("m1", 999), *frames.task_end("a1"))
    tracking(manager, frames.task_started("a2"), said("m2", 1999, "a2"))
    copied = pickle.loads(pickle.dumps(manager))
    outcome, usage = copied["a1"].outcome, copied["a2"].usage
    assert outcome is not None
    assert outcome.usage is not None
    assert usage is not None
    assert (outcome.usage.cost_usd, usage.cost_usd) == (0.001, 0.002)
    assert outcome == manager["a1"].outcome


@pytest.mark.parametrize(
    ("tokens", "counted"),
    [
        (-5, 10),  # no message says so, so none of its counts is believed
        (10**30, 11),  # the codec leaves the number out, and the prompt of the message counts
    ],
)
def test_absurd_counts_are_ignored(tokens: int, counted: int) -> None:
    manager = tracking(TaskManager(), frames.task_started("a1"), said("m1", 9), said("m2", tokens))
    assert used(manager) == counted


def test_the_count_never_falls() -> None:
    """The CLI reports the tokens of the latest request, which may be less."""
    manager = tracking(TaskManager(), frames.task_started("a1"))
    seen = []
    for frame in (
        said("m1", 100),
        frames.task_progress("a1", usage={"total_tokens": 400, "tool_uses": 2, "duration_ms": 50}),
        frames.task_progress("a1", usage={"total_tokens": 30, "tool_uses": 1, "duration_ms": 40}),
        said("m2", 500),
        frames.task_notification("a1", usage={"total_tokens": 20, "tool_uses": 2, "duration_ms": 60}),
        said("m3", 7),
    ):
        tracking(manager, frame)
        seen.append(used(manager))
    assert seen == [101, 400, 400, 602, 602, 610]


def test_a_cost_is_derived_once_a_price_is_known_and_for_known_models_only() -> None:
    manager = tracking(TaskManager(), frames.task_started("a1"), said("m1", 1_000_000))
    tracking(manager, frames.task_notification("a1"))
    usage = manager["a1"].usage
    assert usage is not None
    assert (usage.cost_usd, usage.cost_is_derived) == (None, False)
    spent = {"inputTokens": 500_000, "outputTokens": 100_000, "costUSD": 3.0}
    tracking(manager, frames.result(modelUsage={MODEL: spent}, user_message_uuid="p", user_message_uuids=[]))
    usage, outcome = manager["a1"].usage, manager["a1"].outcome
    assert usage is not None
    assert outcome is not None
    assert usage.cost_usd == pytest.approx(3.000015)
    assert usage.cost_is_derived
    assert outcome.usage == usage


def test_a_derived_cost_has_no_rounding_errors_of_the_totals() -> None:
    manager = tracking(TaskManager(), frames.task_started("a1"), said("m1", 60), *frames.task_end("a1"))
    costs = set()
    for requests in range(1, 100):
        spent = {"inputTokens": 100 * requests, "outputTokens": 20 * requests, "costUSD": sum([0.0008] * requests)}
        tracking(manager, frames.result(modelUsage={MODEL: spent}, user_message_uuid="p", user_message_uuids=[]))
        usage = manager["a1"].usage
        assert usage is not None
        costs.add(usage.cost_usd)
    assert len(costs) == 1


EVERY_KIND = {
    "input_tokens": 1_000_000,
    "output_tokens": 2_000_000,
    "cache_creation_input_tokens": 4_000_000,
    "cache_creation": {"ephemeral_5m_input_tokens": 1_000_000, "ephemeral_1h_input_tokens": 3_000_000},
    "cache_read_input_tokens": 5_000_000,
}


@pytest.mark.parametrize(
    ("price", "cost"),
    [
        (ModelPrice(input=10, output=70), 10 + 2 * 70 + 12.5 + 3 * 20 + 5 * 1),
        (ModelPrice(input=10, output=70, cache_write=11, cache_read=2), 10 + 2 * 70 + 11 + 3 * 20 + 5 * 2),
        (None, 10 + 2 * 50 + 12.5 + 3 * 20 + 5 * 1),  # by what the CLI's totals say of the same model
    ],
)
def test_each_kind_of_tokens_has_its_price(price: ModelPrice | None, cost: float) -> None:
    frame = said("m1", 0)
    frame["message"]["usage"] = EVERY_KIND
    manager = tracking(TaskManager(), frames.task_started("a1"), frame)
    if price is not None:
        manager.prices[MODEL] = price
    else:
        spent = {"inputTokens": 400_000, "outputTokens": 100_000, "cacheReadInputTokens": 1_000_000}
        total = 4 + 5 + 1 + 2 * 0.01
        given = {"full-name": {**spent, "webSearchRequests": 2, "costUSD": total, "canonicalModel": MODEL}}
        tracking(manager, frames.result(modelUsage=given, user_message_uuid="p", user_message_uuids=[]))
    usage = manager["a1"].usage
    assert usage is not None
    assert usage.total_tokens == 12_000_000
    assert usage.cost_usd == pytest.approx(cost)


@pytest.mark.parametrize("absurd", [2**60, 2**64])
def test_absurd_figures_of_a_report_count_for_nothing(absurd: int) -> None:
    manager = tracking(TaskManager(), frames.task_started("a1"))
    tracking(manager, frames.task_progress("a1", usage={"total_tokens": 40, "tool_uses": 2, "duration_ms": 50}))
    tracking(manager, frames.task_progress("a1", usage={"total_tokens": 41, "tool_uses": absurd, "duration_ms": 60}))
    usage = manager["a1"].usage
    assert usage is not None
    assert (usage.total_tokens, usage.tool_uses, usage.duration_ms) == (41, 2, 60)


@pytest.mark.parametrize("absurd", [{"costUSD": 1e308, "inputTokens": 1e-9}, {"costUSD": 1e12}, {"inputTokens": 0.5}])
def test_no_price_is_derived_from_absurd_figures(absurd: dict[str, float]) -> None:
    manager = tracking(TaskManager(), frames.task_started("a1"), said("m1", 1_000_000), *frames.task_end("a1"))
    spent = {"inputTokens": 500_000, "outputTokens": 0, "costUSD": 3.0} | absurd
    tracking(manager, frames.result(modelUsage={MODEL: spent}, user_message_uuid="p", user_message_uuids=[]))
    usage = manager["a1"].usage
    assert usage is not None
    assert usage.cost_usd is None


def test_an_outcome_is_revised_once_a_price_is_known() -> None:
    desk = Desk()
    desk.fold(frames.task_started("a1"), said("m1", 1_000_000), *frames.task_end("a1"))
    spent = {"inputTokens": 500_000, "outputTokens": 100_000, "costUSD": 3.0}
    result = frames.result(modelUsage={MODEL: spent}, user_message_uuid="p", user_message_uuids=[])
    [revised] = desk.fold(result, result)
    assert isinstance(revised, TaskRevised)
    assert revised.old.usage is not None
    assert revised.outcome.usage is not None
    assert revised.old.usage.cost_usd is None
    assert revised.outcome.usage.cost_usd == pytest.approx(3.000015)
    assert revised.outcome.models[MODEL].cost_usd == revised.outcome.usage.cost_usd


@pytest.mark.anyio
async def test_a_usage_that_arrives_after_the_end_is_counted_without_a_transcript_too() -> None:
    clock = Clock()
    manager = tracking(TaskManager(clock=clock), frames.task_started("a1"), frames.task_notification("a1", "stopped"))
    tracking(manager, frames.task_progress("a1", usage={"total_tokens": 40, "tool_uses": 2, "duration_ms": 50}))
    clock.now += 1
    await intake_of(manager).reconciler.check()
    outcome = manager["a1"].outcome
    assert outcome is not None
    assert outcome.usage == TaskUsage(total_tokens=40, tool_uses=2, duration_ms=50, uncounted_tokens=40)


@pytest.mark.anyio
async def test_a_run_that_was_not_counted_before_the_next_one_ended_is_counted_apart(tmp_path: Path) -> None:
    """On a busy machine a transcript is read when a later run is over, too."""
    began = datetime(2026, 11, 22, 2, 0, tzinfo=UTC)
    runs = [("m1", began, 1000), ("m2", began + timedelta(seconds=1), 300), ("m3", began + timedelta(seconds=2), 7)]
    path = tmp_path / "agent-a1.jsonl"
    path.write_text("".join(json.dumps(answered(*run)) + "\n" for run in runs))
    manager = TaskManager()
    track_hook(intake_of(manager), "SubagentStart", {"agent_id": "a1", "agent_transcript_path": str(path)})
    for _, start, tokens in runs:
        of_run: dict[str, Any] = {
            "run_id": run_id(start),
            "usage": {"total_tokens": tokens, "tool_uses": 0, "duration_ms": 50},
        }
        tracking(manager, frames.task_started("a1", run_id=run_id(start)), frames.task_notification("a1", **of_run))
    with anyio.fail_after(30):
        await manager.wait("a1")
    outcomes = manager["a1"].outcomes
    assert [outcome.usage and outcome.usage.total_tokens for outcome in outcomes] == [1000, 300, 7]
    assert [outcome.models[MODEL].tokens.input for outcome in outcomes] == [1000, 300, 7]


@pytest.mark.anyio
async def test_without_the_times_of_runs_the_last_one_has_what_the_others_leave(tmp_path: Path) -> None:
    began = datetime(2026, 11, 22, 2, 0, tzinfo=UTC)
    path, manager = tmp_path / "agent-a1.jsonl", TaskManager()
    lines = [answered("m1", began, 1000), answered("m2", began, 300)]
    for line in lines:
        line["message"]["usage"] |= {"output_tokens": 1, "cache_read_input_tokens": 50}
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    track_hook(intake_of(manager), "SubagentStart", {"agent_id": "a1", "agent_transcript_path": str(path)})
    first = said("m1", 1000)
    first["message"]["usage"] |= {"cache_read_input_tokens": 50}
    tracking(manager, frames.task_started("a1"), first, frames.task_notification("a1"))
    tracking(manager, frames.task_started("a1", run_id="1-a1"), frames.task_notification("a1", run_id="1-a1"))
    with anyio.fail_after(30):
        await manager.wait("a1")
    spent = [outcome.models[MODEL].tokens for outcome in manager["a1"].outcomes]
    assert [(tokens.input, tokens.output, tokens.cache_read) for tokens in spent] == [(1000, 1, 50), (300, 1, 50)]


@pytest.mark.anyio
@pytest.mark.parametrize("with_folder", [True, False])
async def test_a_transcript_that_is_gone_takes_nothing_away(with_folder: bool, tmp_path: Path) -> None:
    began = datetime(2026, 11, 22, 2, 0, tzinfo=UTC)
    folder, clock = tmp_path / "subagents", Clock()
    path, manager = folder / "agent-a1.jsonl", TaskManager(clock=clock)
    folder.mkdir()
    path.write_text(json.dumps(answered("m1", began, 1000)) + "\n")
    intake = intake_of(manager)
    track_hook(intake, "SubagentStart", {"agent_id": "a1", "agent_transcript_path": str(path)})
    used_last = {"total_tokens": 300, "tool_uses": 0, "duration_ms": 50}
    of_run: dict[str, Any] = {"run_id": run_id(began)}
    tracking(manager, frames.task_started("a1", **of_run), frames.task_notification("a1", usage=used_last, **of_run))
    await intake.reconciler.check()  # the last request is not in the transcript yet
    assert used(manager) == 1300
    path.unlink()
    if with_folder:
        folder.rmdir()
    clock.now += 20
    await intake.reconciler.check()
    outcome = manager["a1"].outcome
    assert outcome is not None
    assert outcome.usage == manager["a1"].usage
    assert used(manager) == 1300


@pytest.mark.anyio
@pytest.mark.parametrize(("has_ended", "counted"), [(False, 1300), (True, 1000)])
async def test_the_last_entries_of_a_transcript_are_awaited_for_seconds_unless_the_cli_has_ended(
    has_ended: bool, counted: int, tmp_path: Path
) -> None:
    """On a busy machine the CLI writes them seconds after it reports the end."""
    began = datetime(2026, 11, 22, 2, 0, tzinfo=UTC)
    path, clock = tmp_path / "agent-a1.jsonl", Clock()
    call, report = answered("m1", began, 1000), answered("m2", began + timedelta(seconds=1), 300)
    call["message"]["stop_reason"] = None
    path.write_text(json.dumps(call) + "\n")
    manager = TaskManager(clock=clock)
    manager.prices[MODEL] = ModelPrice(input=1, output=1)
    intake = intake_of(manager)
    track_hook(intake, "SubagentStart", {"agent_id": "a1", "agent_transcript_path": str(path)})
    of_run: dict[str, Any] = {
        "run_id": run_id(began),
        "usage": {"total_tokens": 300, "tool_uses": 0, "duration_ms": 50},
    }
    tracking(manager, frames.task_started("a1", run_id=run_id(began)), frames.task_notification("a1", **of_run))
    if has_ended:
        intake.process_exited("it exited", EndedBy.PROCESS)
    corrections = manager.events(TaskRevised)
    clock.now += 4
    await intake.reconciler.check()
    path.write_text(json.dumps(call) + "\n" + json.dumps(report) + "\n")
    await intake.reconciler.check()
    outcome = manager["a1"].outcome
    assert outcome is not None
    assert outcome.usage is not None
    if not has_ended:
        correction = corrections.take()
        assert (correction.at, correction.outcome) == (clock.now, outcome)
    assert outcome.usage.total_tokens == 1300  # the CLI reports the last request
    assert outcome.usage.cost_usd == pytest.approx(counted / 1e6)
    assert outcome.models[MODEL].tokens.total == counted
    assert outcome.usage.uncounted_tokens == 1300 - counted


@pytest.mark.anyio
async def test_a_request_whose_answer_is_half_in_the_transcript_counts_once(tmp_path: Path) -> None:
    began = datetime(2026, 11, 22, 2, 0, tzinfo=UTC)
    path, manager = tmp_path / "agent-a1.jsonl", TaskManager(clock=Clock())
    manager.prices[MODEL] = ModelPrice(input=1, output=1)
    half = answered("m1", began, 1000)
    half["message"]["stop_reason"] = None
    path.write_text(json.dumps(half) + "\n")
    intake = intake_of(manager)
    track_hook(intake, "SubagentStart", {"agent_id": "a1", "agent_transcript_path": str(path)})
    used_last = {"total_tokens": 1000, "tool_uses": 0, "duration_ms": 50}
    of_run: dict[str, Any] = {"run_id": run_id(began)}
    tracking(manager, frames.task_started("a1", **of_run), frames.task_notification("a1", usage=used_last, **of_run))
    corrections = manager.events(TaskRevised)
    await intake.reconciler.check()
    assert used(manager) == 1000
    intake.process_exited("it exited", EndedBy.PROCESS)
    [correction] = [event async for event in corrections]
    assert correction.outcome.usage == TaskUsage(
        total_tokens=1000, duration_ms=50, cost_usd=0.001, cost_is_derived=True
    )


@pytest.mark.anyio
async def test_the_last_event_has_the_usage_so_far_if_the_process_ends_before_the_transcript(tmp_path: Path) -> None:
    began = datetime(2026, 11, 22, 2, 0, tzinfo=UTC)
    path, clock = tmp_path / "agent-a1.jsonl", Clock()
    call = answered("m1", began, 1000)
    call["message"]["stop_reason"] = None
    path.write_text(json.dumps(call) + "\n")
    manager = TaskManager(clock=clock)
    intake = intake_of(manager)
    track_hook(intake, "SubagentStart", {"agent_id": "a1", "agent_transcript_path": str(path)})
    of_run: dict[str, Any] = {"run_id": run_id(began)}
    used_last = {"total_tokens": 300, "tool_uses": 0, "duration_ms": 50}
    corrections = manager.events(TaskRevised)
    tracking(manager, frames.task_started("a1", **of_run))
    tracking(manager, frames.task_notification("a1", usage=used_last, **of_run))
    await intake.reconciler.check()  # the answer is not in the transcript yet
    intake.process_exited("it exited", EndedBy.PROCESS)
    [correction] = [event async for event in corrections]
    assert correction.outcome.usage == manager["a1"].usage
    assert used(manager) == 1300


def running_agent(folder: Path) -> TaskManager:
    """Return the tasks of a session with a running subagent, whose transcript has 1000 tokens."""
    began = datetime(2026, 11, 22, 2, 0, tzinfo=UTC)
    path, manager = folder / "agent-a1.jsonl", TaskManager(clock=Clock())
    path.write_text(json.dumps(answered("m1", began, 1000)) + "\n")
    track_hook(intake_of(manager), "SubagentStart", {"agent_id": "a1", "agent_transcript_path": str(path)})
    return tracking(manager, frames.task_started("a1", run_id=run_id(began)))


@pytest.mark.anyio
async def test_a_subagent_that_ends_with_the_process_is_counted_before(tmp_path: Path) -> None:
    manager = running_agent(tmp_path)
    intake, ends = intake_of(manager), manager.events(TaskFinished)
    await intake.reconciler.count_last(math.inf)
    intake.process_exited("it exited", EndedBy.PROCESS)
    [end] = [event async for event in ends]
    assert end.outcome.models[MODEL].tokens.total == 1000
    assert end.outcome.usage == TaskUsage(total_tokens=1000)


@pytest.mark.anyio
async def test_the_last_count_does_not_outlast_the_time_to_close(tmp_path: Path) -> None:
    manager = running_agent(tmp_path)
    intake = intake_of(manager)
    await intake.reconciler.count_last(anyio.current_time())
    intake.process_exited("it exited", EndedBy.PROCESS)
    assert (manager["a1"].status, manager["a1"].usage) == ("failed", None)


@pytest.mark.anyio
async def test_a_last_count_that_fails_keeps_no_subagent_from_ending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def refuse(*_arguments: object, **_keywords: object) -> None:
        raise RuntimeError("can't start new thread")

    manager = TaskManager(clock=Clock())
    intake = intake_of(manager)
    track_hook(intake, "SubagentStart", {"agent_id": "a1", "agent_transcript_path": str(tmp_path / "agent-a1.jsonl")})
    tracking(manager, frames.task_started("a1"))
    monkeypatch.setattr(anyio.to_thread, "run_sync", refuse)
    await intake.reconciler.count_last(math.inf)
    assert "Cannot count" in caplog.text
    intake.process_exited("it exited", EndedBy.PROCESS)
    assert (manager["a1"].status, manager["a1"].done) == ("failed", True)


@pytest.mark.anyio
async def test_counting_the_last_time_ends_no_subagent() -> None:
    manager = tracking(TaskManager(clock=Clock()), frames.task_started("a1"))
    intake = intake_of(manager)
    await intake.reconciler.count_last(math.inf)  # there is no transcript
    assert not manager["a1"].done
    intake.process_exited("it exited", EndedBy.PROCESS)
    assert (manager["a1"].status, manager["a1"].done) == ("failed", True)


def answered(message_id: str, at: datetime, tokens: int) -> dict[str, Any]:
    """A line of a transcript, half a second after its run began."""
    usage = {"input_tokens": tokens, "output_tokens": 0}
    message = {"id": message_id, "model": MODEL, "content": [], "stop_reason": "end_turn", "usage": usage}
    time = (at + timedelta(seconds=0.5)).isoformat()
    return {"type": "assistant", "uuid": message_id, "timestamp": time, "message": message | {"role": "assistant"}}


def run_id(at: datetime) -> str:
    """Name a run as the CLI does: by the time in milliseconds, in base 36."""
    digits, rest = "", round(at.timestamp() * 1000)
    while rest:
        rest, digit = divmod(rest, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return f"{digits:0>9}-01234567"
