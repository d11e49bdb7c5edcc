"""Many prompts: order, errors as values, retries, the journal, and stopping. With scripted peers."""

import asyncio
import gc
import json
import os
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from leftovers import until_workers, workers
from pool_peers import PATIENCE, Peers

from claude_agent_py import ClientOptions, ConnectionClosedError, OptionsError, RetryPolicy
from claude_agent_py.errors import CLINotFoundError, InvalidRequestError, OverloadedError
from claude_agent_py.pool import MapProgress, Pool, RunOutcome, map_runs
from claude_agent_py.testing import FakeCLI, Gate, steps
from claude_agent_py.transport import LaunchPlan, Transport

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_left")]

REFUSED: dict[str, Any] = {"is_error": True, "api_error_status": 400}
OVERLOADED: dict[str, Any] = {"is_error": True, "api_error_status": 529}
SOON = RetryPolicy(wait=0.001, attempts=3)


class InTurn(Peers):
    """Each process plays the next of these scripts."""

    def __init__(self, *scripts: Any) -> None:
        super().__init__()
        self._scripts = list(scripts)

    def spawn(self, plan: LaunchPlan) -> Transport:
        self.plans.append(plan)
        return FakeCLI(self._scripts.pop(0) if self._scripts else []).transport()


def summary(outcomes: list[RunOutcome[Any]]) -> list[Any]:
    """Return the answers, or the classes of the errors."""
    return [outcome.text if outcome.ok else type(outcome.error) for outcome in outcomes]


async def test_outcomes_come_in_order_with_errors_as_values() -> None:
    peers = InTurn(steps.turn("one"), steps.turn("no", **REFUSED), steps.turn("three"))
    outcomes = await map_runs(["a", "b", "c"], peers.options(), concurrency=1)
    assert summary(outcomes) == ["one", InvalidRequestError, "three"]
    assert [(outcome.index, outcome.prompt, outcome.attempts) for outcome in outcomes] == [
        (0, "a", 1),
        (1, "b", 1),
        (2, "c", 1),
    ]
    assert outcomes[0].result is not None
    assert outcomes[0].result.text == "one"


async def test_outcomes_as_they_complete() -> None:
    gate = Gate()
    peers = InTurn([steps.wait_gate(gate), steps.turn("slow")], *[steps.turn("fast") for _ in range(4)])
    seen: list[str] = []
    async with map_runs(["a", "b", "c"], peers.options(), concurrency=2, ordered=False) as runs:
        async for outcome in runs:
            seen.append(outcome.text)
            if len(seen) == 2:
                gate.open()
    assert seen == ["fast", "fast", "slow"]


async def test_a_retryable_failure_is_run_again() -> None:
    peers = InTurn(steps.turn("busy", **OVERLOADED), steps.turn("busy", **OVERLOADED), steps.turn("one"))
    [outcome] = await map_runs(["a"], peers.options(), retry=SOON)
    assert (outcome.text, outcome.attempts) == ("one", 3)
    peers = InTurn(*[steps.turn("busy", **OVERLOADED) for _ in range(3)])
    [outcome] = await map_runs(["a"], peers.options(), retry=SOON)
    assert (type(outcome.error), outcome.attempts) == (OverloadedError, 3)


async def test_a_rate_limit_is_waited_for_until_it_resets() -> None:
    now, waits = 1_000_000.0, list[float]()

    async def sleep(seconds: float) -> None:
        nonlocal now
        await checkpoint()
        waits.append(seconds)
        now += seconds

    notice = {
        "type": "rate_limit_event",
        "rate_limit_info": {"status": "rejected", "resetsAt": now + 3600},
        "uuid": "9d0a9c37-3f0b-4b0f-a1f6-000000000001",
        "session_id": "s",
    }
    limited = steps.turn([notice], is_error=True, api_error_status=429)
    policy = RetryPolicy(sleep=sleep, clock=lambda: now, chance=lambda: 0.0)
    [outcome] = await map_runs(["a"], InTurn(limited, steps.turn("one")).options(), retry=policy, concurrency=1)
    assert (outcome.text, outcome.attempts) == ("one", 2)
    assert waits == [pytest.approx(3600, abs=1)]


async def test_the_death_of_a_process_is_retried() -> None:
    peers = InTurn([steps.wait_for_prompt(), steps.exit(1)], steps.turn("one"))
    [outcome] = await map_runs(["a"], peers.options(), concurrency=1, retry=SOON)
    assert (outcome.text, outcome.attempts) == ("one", 2)


async def test_an_error_outside_the_runs_stops_everything() -> None:
    with anyio.fail_after(PATIENCE), pytest.raises(CLINotFoundError):
        await map_runs(["a", "b"], ClientOptions(cli_path="/nowhere/claude"))
    pool = Pool(Peers().options(), size=1, max_size=1)
    await pool.open()
    await pool.close()
    with anyio.fail_after(PATIENCE), pytest.raises(ConnectionClosedError):
        await map_runs(["a", "b"], pool=pool)


async def test_at_most_so_many_at_once_also_for_a_slow_reader() -> None:
    progress: list[MapProgress] = []
    prompts = [f"prompt {number}" for number in range(30)]
    async with map_runs(prompts, Peers().options(), concurrency=2, progress=progress.append) as runs:
        seen = [await anext(aiter(runs))]
        with anyio.fail_after(PATIENCE):
            while runs.progress.done < 9:
                await anyio.sleep(0.005)
        await anyio.sleep(0.1)  # in which nothing more begins
        assert runs.progress.done == 9
        seen += [outcome async for outcome in runs]
    assert [outcome.index for outcome in seen] == list(range(30))
    assert max(one.running for one in progress) <= 2
    assert (progress[-1].done, progress[-1].total, progress[-1].failed) == (30, 30, 0)


async def test_the_last_prompt_is_run_once_although_all_wait_for_the_reader() -> None:
    async with map_runs(["a"] * 10, Peers().options(), concurrency=2) as runs:
        seen = [await anext(aiter(runs))]
        with anyio.fail_after(PATIENCE):
            while runs.progress.done < 9:
                await anyio.sleep(0.005)
        seen += [outcome async for outcome in runs]
    assert [outcome.index for outcome in seen] == list(range(10))


async def test_leaving_early_stops_the_rest() -> None:
    before = workers()
    peers = Peers()
    async with map_runs(["a", "b", "c", "d", "e"], peers.options(), concurrency=1) as runs:
        async for _ in runs:
            break
    with pytest.raises(ConnectionClosedError):
        await runs
    dropped = map_runs(["a"] * 50, peers.options(), concurrency=1)
    async for _ in dropped:
        break
    del dropped
    gc.collect()
    await until_workers(before)
    never = map_runs(["a"], peers.options())
    assert repr(never) == "<MapRuns 0 of 1 done, 0 failed>"
    with pytest.warns(RuntimeWarning, match="map_runs.* was never awaited"):
        del never


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 5, 8, 13, 21, 34])
async def test_cancelling(turns: int, tmp_path: Path) -> None:
    journal = tmp_path / "runs.jsonl"

    async def work() -> None:
        await map_runs(["a", "b", "c", "d"], Peers().options(), concurrency=2, journal=journal)

    async with anyio.create_task_group() as group:
        group.start_soon(work)
        for _ in range(turns):
            await checkpoint()
        group.cancel_scope.cancel()
    outcomes = await map_runs(["a", "b", "c", "d"], Peers().options(), concurrency=2, journal=journal)
    assert summary(outcomes) == ["done"] * 4


# The journal -----------------------------------------------------------------------------------------------------


async def test_a_journal_keeps_answers_and_runs_failures_again(tmp_path: Path) -> None:
    journal = tmp_path / "runs.jsonl"
    peers = InTurn(steps.turn("one"), steps.turn("no", **REFUSED))
    outcomes = await map_runs(["a", "b"], peers.options(), concurrency=1, journal=journal)
    assert summary(outcomes) == ["one", InvalidRequestError]
    peers = InTurn(steps.turn("two"))
    outcomes = await map_runs(["a", "b"], peers.options(), concurrency=1, journal=journal)
    assert summary(outcomes) == ["one", "two"]
    assert [outcome.from_journal for outcome in outcomes] == [True, False]
    peers = InTurn()
    assert summary(await map_runs(["a", "b"], peers.options(), journal=journal)) == ["one", "two"]
    assert peers.plans == []
    assert journal.stat().st_mode & 0o077 == 0


async def test_answers_from_the_journal_leave_room_for_the_prompts_between_them(tmp_path: Path) -> None:
    journal = tmp_path / "runs.jsonl"
    prompts = [f"prompt {number}" for number in range(12)]
    await map_runs(prompts, Peers().options(), journal=journal)
    lines = journal.read_text().splitlines()
    journal.write_text("".join(f"{line}\n" for line in lines if '"index":2,' not in line))
    with anyio.fail_after(PATIENCE):
        async with map_runs(prompts, Peers().options(), concurrency=1, journal=journal) as runs:
            seen = [(outcome.index, outcome.from_journal) async for outcome in runs]
    assert seen == [(number, number != 2) for number in range(12)]


async def test_a_typed_output_comes_from_the_journal_as_its_type(tmp_path: Path) -> None:
    journal = tmp_path / "runs.jsonl"
    options = InTurn(steps.turn("x", structured_output={"1": "one"})).options(output_type=dict[int, str])
    [first] = await map_runs(["a"], options, journal=journal)
    [again] = await map_runs(["a"], options, journal=journal)
    assert first.output == again.output == {1: "one"}
    assert again.from_journal
    with pytest.raises(OptionsError, match="output_type"):
        await map_runs(["a"], options.replace(output_type=list[int]), journal=journal)


async def test_a_line_that_was_cut_off_is_survived(tmp_path: Path) -> None:
    journal = tmp_path / "runs.jsonl"
    await map_runs(["a", "b"], Peers().options(), journal=journal)
    content = journal.read_bytes()
    for cut in (1, 10, len(content.splitlines()[-1]), len(content) - 3, len(content)):
        journal.write_bytes(content[: len(content) - cut])
        peers = Peers()
        assert summary(await map_runs(["a", "b"], peers.options(), journal=journal)) == ["done", "done"]
        lines = [json.loads(line) for line in journal.read_bytes().splitlines()]
        assert len(lines) == 3


async def test_a_journal_of_other_prompts_is_refused(tmp_path: Path) -> None:
    journal = tmp_path / "runs.jsonl"
    options = Peers().options()
    await map_runs(["a", "b"], options, journal=journal)
    before = journal.read_bytes()
    with pytest.raises(OptionsError, match="journal of 2 other prompts"):
        await map_runs(["b", "a"], options, journal=journal)
    assert journal.read_bytes() == before
    for right, wrong in (
        (b'"ok":true', b'"ok":7'),
        (b'"attempts":1', b'"attempts":null'),
        (rb'"index":\d', b'"index":2'),
        (rb'"index":\d', b'"index":-1'),
    ):
        journal.write_bytes(re.sub(right, wrong, before, count=1))
        with pytest.raises(OptionsError, match="damaged in line 2"):
            await map_runs(["a", "b"], options, journal=journal)
    for damaged in (b'"\xff"', b"1" * 5000):
        journal.write_bytes(before.replace(b'"output":null', b'"output":' + damaged, 1))
        with pytest.raises(OptionsError, match=r"output of prompt \d in .* is damaged"):
            await map_runs(["a", "b"], options, journal=journal)
    for other in (b"my thesis", b"my thesis\n", b"{}\n"):
        journal.write_bytes(other)
        with pytest.raises(OptionsError, match="not a journal"):
            await map_runs(["a", "b"], options, journal=journal)
        assert journal.read_bytes() == other
    with pytest.raises(OptionsError, match="cannot be written"):
        await map_runs(["a"], options, journal=tmp_path / "missing" / "runs.jsonl")


@pytest.mark.skipif(os.name != "posix", reason="file modes and named pipes are POSIX's")
async def test_a_file_that_is_no_journal_is_left_as_it_is(tmp_path: Path) -> None:
    program, pipe = tmp_path / "program", tmp_path / "pipe"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    os.mkfifo(pipe)
    for other in (program, pipe):
        with anyio.fail_after(PATIENCE), pytest.raises(OptionsError, match="is not a "):
            await map_runs(["a"], Peers().options(), journal=other)
    assert program.stat().st_mode & 0o777 == 0o755


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="only POSIX knows owners")
async def test_a_journal_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal, own = tmp_path / "runs.jsonl", os.geteuid()
    await map_runs(["a"], Peers().options(), journal=journal)
    monkeypatch.setattr(os, "geteuid", lambda: own + 1)
    with pytest.raises(OptionsError, match=f"cannot be written: .*belongs to another user .{own}"):
        await map_runs(["a"], Peers().options(), journal=journal)


async def test_runs_that_resume_one_session_have_no_spares() -> None:
    peers = Peers()
    options = peers.options(resume="11111111-1111-4111-8111-111111111111", fork_session=True)
    assert summary(await map_runs(["a", "b", "c"], options, concurrency=2)) == ["done"] * 3
    assert len(peers.plans) == 3


async def test_runs_that_are_left_before_they_begin_send_nothing(recwarn: pytest.WarningsRecorder) -> None:
    peers = Peers()
    async with map_runs(["a"], peers.options()) as runs:
        assert repr(runs) == "<MapRuns 0 of 1 done, 0 failed>"
    del runs
    gc.collect()
    assert peers.plans == []
    assert list(recwarn) == []


async def test_runs_may_outlive_their_event_loop(recwarn: pytest.WarningsRecorder) -> None:
    async def begin() -> Any:
        runs = map_runs(["a", "b"], Peers().options(), concurrency=1)
        assert (await anext(aiter(runs))).ok
        return runs

    def run() -> None:
        loop = asyncio.new_event_loop()
        runs = loop.run_until_complete(begin())
        loop.close()
        del runs

    await anyio.to_thread.run_sync(run)
    gc.collect()
    assert list(recwarn) == []


async def test_two_calls_cannot_write_one_journal(tmp_path: Path) -> None:
    journal = tmp_path / "runs.jsonl"
    async with map_runs(["a"] * 20, Peers().options(), concurrency=1, journal=journal) as runs:
        await anext(aiter(runs))
        with pytest.raises(OptionsError, match="in use"):
            await map_runs(["a"] * 20, Peers().options(), journal=journal)


async def a_stream() -> Any:
    yield "a"


@pytest.mark.parametrize(
    ("prompts", "more"),
    [
        ("one text", {}),
        (["a", ""], {}),
        ([a_stream], {}),
        (["a"], {"concurrency": 0}),
        (["a"], {"progress": 3}),
        (["a"], {"until": "never"}),
        (["a"], {"memory": "1GiB", "pool": Pool()}),
    ],
    ids=["text", "empty", "stream", "concurrency", "progress", "until", "memory"],
)
async def test_contradictory_arguments_are_refused(prompts: Any, more: dict[str, Any]) -> None:
    given = [one() if callable(one) else one for one in prompts] if isinstance(prompts, list) else prompts
    with pytest.raises(OptionsError):
        map_runs(given, **more)


async def test_no_prompts() -> None:
    assert await map_runs([]) == []


async def test_progress_is_shown_in_a_bar(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("rich")
    async with map_runs(["a", "b"], Peers().options(), progress=True) as runs:
        outcomes = [outcome async for outcome in runs]
    assert [outcome.ok for outcome in outcomes] == [True, True]
    assert [repr(outcome).startswith(f"<RunOutcome {outcome.index} ") for outcome in outcomes] == [True, True]
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("found", [None, ModuleType("rich")], ids=["none", "without a spec"])
async def test_a_bar_needs_rich(found: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich", found)
    with pytest.raises(OptionsError, match="needs rich"):
        map_runs(["a"], Peers().options(), progress=True)
