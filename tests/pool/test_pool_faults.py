"""Pools whose processes fail, and the end of pools."""

import sys
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import pytest
from anyio.lowlevel import checkpoint
from bounds import set_bound
from leftovers import is_alive, kill, until_gone
from pool_peers import PATIENCE, Peers, until, until_settled

from claude_agent_py import ClientOptions, CLIExitError, CLIStartError, ConnectionClosedError, Hooks, Timeouts
from claude_agent_py.errors import LocalProtocolError
from claude_agent_py.pool import Pool, PoolTimeoutError
from claude_agent_py.testing import FakeCLI, Gate, frames, steps
from claude_agent_py.transport import LaunchPlan, Transport

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_left")]

SESSION = "11111111-1111-4111-8111-111111111111"


async def test_the_error_of_a_start_reaches_who_waits_and_starts_are_not_repeated_at_once() -> None:
    peers = Peers(steps.exit(3), answers={"initialize": None})
    async with Pool(peers.options(), size=2, max_size=4) as pool:
        with pytest.raises(CLIStartError) as raised:
            await pool.ready()
        assert raised.value.exit_code == 3
        for _ in range(2):
            with anyio.fail_after(PATIENCE), pytest.raises(CLIStartError):
                await pool.run("hi")
        stats = await until(pool, lambda stats: not stats.processes)
        assert isinstance(stats.last_error, CLIStartError)
        started = len(peers.plans)
        await anyio.sleep(0.3)  # in which no spare is due
        assert len(peers.plans) == started


async def test_a_cli_that_hangs_at_its_start() -> None:
    peers = Peers(answers={"initialize": None})
    async with Pool(peers.options(timeouts=Timeouts(connect=0.2)), size=1, max_size=2) as pool:
        with anyio.fail_after(PATIENCE), pytest.raises(CLIStartError, match="did not answer 'initialize' within"):
            await pool.run("hi")
    with anyio.fail_after(PATIENCE):
        async with Pool(Peers(answers={"initialize": None}).options(), size=2) as pool:
            await until(pool, lambda stats: stats.starting == 2)


async def test_a_spare_that_dies_is_replaced(tmp_path: Path) -> None:
    fake = FakeCLI(steps.turn("done"))
    async with Pool(ClientOptions(cli_path=fake.install(tmp_path)), size=1, max_size=2) as pool:
        await pool.ready()
        [spare] = fake.starts
        kill(spare.pid)
        stats = await until(pool, lambda stats: stats.lost == 1 and stats.spares == 1)
        assert isinstance(stats.last_error, CLIExitError)
        assert (await pool.run("hi")).text == "done"
        assert not is_alive(spare.pid)


async def test_spares_that_keep_dying_are_started_ever_less() -> None:
    peers = Peers(steps.wait_for({"type": "control_request"}), steps.exit(1))
    async with Pool(peers.options(), size=1, max_size=2) as pool:
        await until(pool, lambda stats: len(peers.times) >= 3)
    first, second, third = peers.times[:3]
    assert second - first >= 0.75  # pauses of one and two seconds, or a quarter less
    assert third - second >= 1.5


async def test_a_spare_that_does_not_answer_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    set_bound(monkeypatch, "CHECK_EVERY", 0.05)
    set_bound(monkeypatch, "CHECK_TIMEOUT", 0.05)
    peers = Peers(answers={"get_binary_version": None})
    async with Pool(peers.options(), size=1, max_size=2) as pool:
        stats = await until(pool, lambda stats: stats.lost >= 1)
        assert isinstance(stats.last_error, TimeoutError)
        assert (await pool.run("hi")).text == "done"


async def test_a_cli_that_dies_in_use_ends_its_run_only() -> None:
    peers = Peers(steps.wait_for_prompt(), steps.exit(1))
    async with Pool(peers.options(), size=1, max_size=1) as pool:
        for _ in range(2):
            with anyio.fail_after(PATIENCE), pytest.raises(CLIExitError):
                await pool.run("hi")


async def test_a_spare_that_is_too_old_is_replaced() -> None:
    peers = Peers()
    async with Pool(peers.options(), size=1, max_size=2, idle=0.1) as pool:
        await until(pool, lambda stats: stats.expired >= 2 and len(peers.plans) >= 3)
        assert (await pool.run("hi")).text == "done"


async def test_memory_bounds_the_processes(tmp_path: Path) -> None:
    options = ClientOptions(cli_path=FakeCLI(steps.turn("done")).install(tmp_path))
    async with Pool(options, size=3, max_size=8, memory="1MiB", timeout=0.1) as pool:
        stats = await until(pool, lambda stats: stats.spares == 1 and bool(stats.memory_bytes))
        assert stats.memory_bytes is not None
        assert stats.memory_bytes > 1 << 20
        assert stats.processes == 1  # which always may
        async with pool.client():
            with pytest.raises(PoolTimeoutError):
                await pool.run("hi")
    async with Pool(options, size=3, max_size=8, memory="2GiB") as pool:
        await until_settled(pool, 3)


async def test_memory_counts_what_the_processes_start(tmp_path: Path) -> None:
    held = "import time; held = bytearray(b'x') * (150 << 20); time.sleep(600)"
    fake = FakeCLI(steps.spawn([sys.executable, "-c", held]), steps.turn("done"))
    options = ClientOptions(cli_path=fake.install(tmp_path))
    async with Pool(options, size=3, max_size=8, memory="250MiB") as pool:  # enough for three of them alone
        await until(
            pool, lambda stats: (stats.memory_bytes or 0) > 150 << 20 and stats.spares == 1 and stats.processes == 1
        )
    await until_gone(*fake.spawned)


# The end ---------------------------------------------------------------------------------------------------------


async def test_close_ends_everything_and_wakes_callers_that_wait() -> None:
    failures: list[Exception] = []
    pool = Pool(Peers().options(), size=1, max_size=1)
    with pytest.raises(ConnectionClosedError, match="not open"):
        await pool.run("hi")
    await pool.close()
    await pool.open()

    async def wait() -> None:
        try:
            await pool.run("hi")
        except ConnectionClosedError as error:
            failures.append(error)

    async with pool.client() as client, anyio.create_task_group() as group:
        group.start_soon(wait)
        await until(pool, lambda stats: stats.waiting == 1)
        await pool.close()
        assert not client.is_open
    assert len(failures) == 1
    await pool.close()
    with pytest.raises(ConnectionClosedError, match="closed"):
        await pool.run("hi")
    with pytest.raises(LocalProtocolError):
        await pool.open()


HOST = """
import sys, anyio
from claude_agent_py import ClientOptions
from claude_agent_py.pool import Pool
async def main():
    async with Pool(ClientOptions(cli_path=sys.argv[1]), size=2, max_size=4) as pool:
        async with pool.client():
            while pool.stats().spares < 2:
                await anyio.sleep(0.01)
            print("open", flush=True)
            await anyio.sleep_forever()
anyio.run(main, backend=sys.argv[2])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere processes see the end of their input only")
async def test_nothing_is_left_when_the_program_is_killed(tmp_path: Path, anyio_backend: str) -> None:
    fake = FakeCLI(steps.turn("done"), ignore_eof=True)
    command = [sys.executable, "-c", HOST, str(fake.install(tmp_path)), anyio_backend]
    async with await anyio.open_process(command, stderr=None) as host:
        assert host.stdout is not None
        with anyio.fail_after(PATIENCE):
            assert (await host.stdout.receive()).startswith(b"open")
        pids = [start.pid for start in fake.starts]
        assert len(pids) >= 3
        assert all(is_alive(pid) for pid in pids[-3:])
        host.kill()
        await host.wait()
    await until_gone(*pids)


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 5, 8, 13, 21, 34])
async def test_close_while_handing_out(turns: int) -> None:
    options, ended = Peers().options(model="sonnet"), list[object]()
    pool = Pool(options, size=2, max_size=3)
    await pool.open()

    async def use() -> None:
        try:
            ended.append((await pool.run("hi", options.replace(model="opus"))).text)
        except ConnectionClosedError as error:
            ended.append(error)

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            for _ in range(6):
                group.start_soon(use)
            for _ in range(turns):
                await checkpoint()
            await pool.close()
    assert len(ended) == 6
    assert pool.stats().processes == 0


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_hook_may_close_the_pool_but_not_drain_it(is_async: bool) -> None:
    told: list[str] = []

    async def close(*args: Any) -> None:
        with pytest.raises(LocalProtocolError, match="drained by a handler"):
            await pool.drain()
        await pool.close()
        told.append("closed")

    hooks = Hooks()
    hooks.add("PreToolUse", close if is_async else lambda *args: anyio.from_thread.run(close))
    asked = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {}, "tool_use_id": "t1"}
    peers = Peers(steps.wait_for_prompt(), frames.hook_callback("r1", "hook_0", asked))
    pool = Pool(peers.options(hooks=hooks), size=2, max_size=3)
    with anyio.fail_after(PATIENCE):
        async with pool:
            await pool.ready()
            with pytest.raises(ConnectionClosedError):
                await pool.run("hi")
    assert told == ["closed"]
    assert pool.stats().processes == 0


@pytest.mark.parametrize("lot", range(4))  # trio draws lots who wakes first: the drain, or who was promised a process
async def test_drain_serves_who_waits_and_refuses_who_comes(lot: int) -> None:
    pool, texts = Pool(Peers().options(), size=1, max_size=1), list[str]()
    await pool.open()

    async def use() -> None:
        texts.append((await pool.run("hi")).text)

    async with anyio.create_task_group() as group:
        async with pool.client() as client:
            group.start_soon(use)
            await until(pool, lambda stats: stats.waiting == 1)
            group.start_soon(pool.drain)
            for _ in range(3):
                await checkpoint()
            with pytest.raises(ConnectionClosedError, match="drain"):
                await pool.run("hi")
            assert (await client.query("hi")).text == "done"
    assert texts == ["done"]
    assert pool.stats().processes == 0


async def test_drain_while_handing_out() -> None:
    for turns in range(6):
        pool, ended = Pool(Peers().options(), size=1, max_size=1), list[str]()
        await pool.open()
        await pool.ready()

        async def use(pool: Pool[Any] = pool, ended: list[str] = ended) -> None:
            try:
                ended.append((await pool.run("hi")).text)
            except ConnectionClosedError as error:
                ended.append(str(error))

        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as group:
                group.start_soon(use)
                for _ in range(turns):
                    await checkpoint()
                await pool.drain()
        assert ended == ["done"] or ended[0].startswith("the pool "), (turns, ended)
        assert pool.stats().processes == 0


async def test_drain_within_a_limit() -> None:
    pool = Pool(Peers().options(), size=1, max_size=1)
    await pool.open()
    async with pool.client() as client:
        await pool.drain(timeout=0.05)
        assert not client.is_open


async def test_a_cancelled_close_continues() -> None:
    pool = Pool(Peers().options(), size=2)
    await pool.open()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await pool.close()
    await until(pool, lambda stats: not stats.processes)
    await pool.close()


@pytest.mark.parametrize("how", ["the pool closes", "the task ends"])
async def test_tasks_that_are_left_keep_their_process_until_the_pool_closes_or_they_end(
    how: str, tmp_path: Path
) -> None:
    gate = Gate()
    turn = steps.turn([frames.task_started("t1")])
    fake = FakeCLI(turn, steps.wait_gate(gate), steps.emit(*frames.task_end("t1")), answers={"stop_task": {}})
    options = ClientOptions(cli_path=fake.install(tmp_path), late_tasks="leave", timeouts=Timeouts(idle=0.05))
    async with Pool(options, size=0, max_size=1) as pool:
        await pool.run("hi")
        [process] = pool._core._processes
        await until(pool, lambda stats: process.client.session.state == "left")
        assert pool.stats().closing == 1
        [start] = fake.starts
        assert is_alive(start.pid)
        if how == "the task ends":
            gate.open()
            await until(pool, lambda stats: not stats.processes)
            assert not is_alive(start.pid)
    await until_gone(start.pid)


async def test_a_process_whose_end_fails_makes_room(caplog: pytest.LogCaptureFixture) -> None:
    class Failing(Peers):
        def spawn(self, plan: LaunchPlan) -> Transport:
            transport: Any = super().spawn(plan)
            close = transport.close

            async def fail(**more: Any) -> None:
                await close(**more)
                raise RuntimeError("on purpose")

            transport.close = fail
            return transport  # type: ignore[no-any-return]

    async with Pool(Failing().options(), size=0, max_size=1) as pool:
        for _ in range(2):
            with anyio.fail_after(PATIENCE):
                assert (await pool.run("hi")).text == "done"
    assert "on purpose" in caplog.text


async def test_a_process_for_one_session_ends_if_its_caller_is_gone() -> None:
    peers = Peers()
    async with Pool(peers.options(), size=0, max_size=1) as pool:
        async with anyio.create_task_group() as group:
            group.start_soon(pool.run, "hi", peers.options(resume=SESSION))
            while not pool.stats().starting:
                await checkpoint()
            group.cancel_scope.cancel()
        stats = await until(pool, lambda stats: not stats.processes)
        assert (stats.warm, stats.cold, len(peers.plans)) == (0, 0, 1)


async def test_a_parked_spare_that_does_not_start_fails_no_caller(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broken = ClientOptions(cli_path=FakeCLI(steps.exit(3), answers={"initialize": None}).install(tmp_path))
    async with Pool(broken, size=0, parked=1, max_size=2) as pool:
        stats = await until(pool, lambda stats: stats.failed == 1)
        assert isinstance(stats.last_error, CLIStartError)
    assert "a pool could not start a spare" in caplog.text


async def test_the_failure_of_other_options_delays_no_spare() -> None:
    peers, others = Peers(), Peers(steps.exit(3), answers={"initialize": None})
    async with Pool(peers.options(), size=1, max_size=3) as pool:
        await pool.ready()
        with pytest.raises(CLIStartError):
            await pool.run("hi", others.options())
        for _ in range(2):
            assert (await pool.run("hi")).text == "done"
        await until_settled(pool, 1)
        assert len(peers.plans) == 3


async def test_a_pool_that_outlives_its_event_loop_says_how_to_close_it(caplog: pytest.LogCaptureFixture) -> None:
    async def leave() -> Pool[Any]:
        pool = Pool(Peers().options(), size=1)
        await pool.open()
        await pool.ready()
        assert repr(pool) == "<Pool 1 spares, 0 used, 0 waiting>"
        return pool

    pool = await anyio.to_thread.run_sync(anyio.run, leave)
    assert "use `async with Pool(...)`" in caplog.text
    assert pool.stats().processes == 0


async def test_a_run_of_a_pool_ends_although_a_task_never_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_bound(monkeypatch, "RUN_IDLE", 0.05)
    fake = FakeCLI(steps.turn([frames.task_started("t1")]), answers={"stop_task": {}})
    async with Pool(ClientOptions(cli_path=fake.install(tmp_path)), size=1, max_size=1) as pool:
        result = await pool.run("hi")
    assert [task.id for task in result.unfinished_tasks] == ["t1"]
