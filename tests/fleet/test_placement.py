"""Which sessions a worker takes: limits, priorities, weights, memory, versions; schedules. With a stand-in CLI."""

import gc
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import anyio
import pytest
from fleets import PATIENCE, execute, fleet_url as fleet_url, until
from forks import FLEET, Program

from claude_agent_py import ClientOptions
from claude_agent_py.errors import FleetError, FleetRunError, OptionsError
from claude_agent_py.fleet import Copy, Fleet
from claude_agent_py.sessions import MemoryStore
from claude_agent_py.testing import FakeCLI, Gate, steps


def on_asyncio(test: Any) -> Any:
    """Run a test on asyncio."""
    return pytest.mark.anyio(pytest.mark.parametrize("anyio_backend", ["asyncio"])(test))


class Held:
    """A fleet whose processes answer when the gate opens."""

    def __init__(self, folder: Path, *, url: str | None = None, **more: Any) -> None:
        self.gate = Gate()
        program = FakeCLI(steps.wait_gate(self.gate), steps.turn("ok")).install(folder / "cli")
        self.options = ClientOptions(cli_path=program, cwd=folder)
        self.url = url or f"sqlite:///{folder / 'fleet.db'}"
        self.fleet = Fleet(self.url, store=MemoryStore(), poll=0.1, **more)

    async def running(self, count: int) -> list[Any]:
        """Wait until so many run, and return them; that no more do shows the next look for work."""

        async def are_running() -> bool:
            return len(await self.fleet.list(state="running")) >= count

        await until(are_running, f"{count} run")
        await anyio.sleep(3 * self.fleet.poll)
        found = await self.fleet.list(state="running")
        assert len(found) == count
        return list(found)

    async def finish(self) -> None:
        self.gate.open()
        await self.fleet.drain()
        assert {info.state for info in await self.fleet.list()} == {"idle"}


Hold: TypeAlias = Callable[..., Held]


@pytest.fixture
def hold(tmp_path: Path) -> Iterator[Hold]:
    """Return a function that makes a fleet with an agent `one`, and close what it made."""
    made: list[Held] = []

    def make(*, is_open: bool = False, agent: Mapping[str, Any] | None = MappingProxyType({}), **more: Any) -> Held:
        held = Held(tmp_path, **more)
        made.append(held)
        if is_open:
            held.gate.open()
        if agent is not None:
            held.fleet.agent("one", held.options, **agent)
        return held

    yield make
    for held in made:
        held.fleet.close()


@on_asyncio
async def test_priorities_and_the_limits_of_an_agent(hold: Hold) -> None:
    held = hold(agent={"limit": 2})
    for i, priority in enumerate([0, 5, 1, 9, 0]):
        await held.fleet.start("one", "hi", id=f"{i}", priority=priority)
    async with held.fleet.worker(sessions=10):
        assert {info.id for info in await held.running(2)} == {"1", "3"}
        await held.finish()


@on_asyncio
async def test_the_limit_of_a_tenant(hold: Hold, fleet_url: str) -> None:
    held = hold(agent=None, tenant_limit=4, url=fleet_url)
    for agent in ("heavy", "light"):
        held.fleet.agent(agent, held.options)
    for i in range(6):
        await held.fleet.start("heavy", "hi", tenant="a", id=f"h{i}")
        await held.fleet.start("light", "hi", tenant="a", id=f"l{i}")
    await held.fleet.start("light", "hi", tenant="b")
    async with held.fleet.worker(sessions=10):
        running = await held.running(5)
        assert Counter(info.tenant for info in running) == {"a": 4, "b": 1}
        reasons = {info.reason for info in await held.fleet.list(state="queued")}
        assert "the tenant 'a' has reached its limit of 4 running sessions" in reasons
        await held.finish()


@on_asyncio
async def test_a_tenant_with_few_sessions_does_not_wait_for_one_with_many(hold: Hold) -> None:
    held = hold()
    for tenant, count in (("many", 30), ("few", 3)):
        for _ in range(count):
            await held.fleet.start("one", "hi", tenant=tenant)
    urgent = await held.fleet.start("one", "hi", tenant="many", priority=1)
    async with held.fleet.worker(sessions=5):
        running = await held.running(5)
        assert urgent.id in {info.id for info in running}
        assert {info.tenant for info in running} == {"many", "few"}
        for info in await held.fleet.list(state="queued"):
            await held.fleet.session(info.id).cancel()
        held.gate.open()
        await held.fleet.drain()


@on_asyncio
async def test_shares_of_tenants_hold_where_one_session_runs_at_a_time(hold: Hold, fleet_url: str) -> None:
    held = hold(is_open=True, url=fleet_url)
    await held.fleet.tenant("many", weight=3)
    for tenant, count in (("many", 8), ("few", 3)):
        for _ in range(count):
            await held.fleet.start("one", "hi", tenant=tenant)
    async with held.fleet.worker(sessions=1):
        await held.finish()
    begun = {info.tenant: [] for info in await held.fleet.list()}  # type: dict[str, list[float]]
    for info in await held.fleet.list():
        begun[info.tenant].append((await held.fleet.session(info.id).outcome()).started_at or 0.0)
    order = [tenant for _, tenant in sorted((at, tenant) for tenant, times in begun.items() for at in times)]
    assert order == [*["many"] * 3, "few", *["many"] * 3, "few", *["many"] * 2, "few"]


@on_asyncio
async def test_a_tenant_has_its_own_limit_and_share(hold: Hold) -> None:
    held = hold(tenant_limit=3)
    async with Fleet(held.url) as outside:  # any process sets it, and all workers keep to it
        await outside.tenant("small", limit=1)
        await outside.tenant("large", limit=9, weight=6)
        with pytest.raises(OptionsError, match="limit: must be more than 0"):
            await outside.tenant("small", limit=0)
        for wrong in (0.0, float("nan"), float("inf")):
            with pytest.raises(OptionsError, match="weight: must be more than 0"):
                await outside.tenant("small", weight=wrong)
            with pytest.raises(OptionsError, match="limit: must be more than 0"):
                await outside.tenant("small", limit=wrong)  # type: ignore[arg-type]
    for tenant, count in (("small", 3), ("other", 3), ("large", 9)):
        for _ in range(count):
            await held.fleet.start("one", "hi", tenant=tenant)
    async with held.fleet.worker(sessions=8):
        running = await held.running(8)
        assert Counter(info.tenant for info in running) == {"small": 1, "other": 1, "large": 6}
        told = {info.name: (info.limit, info.weight, info.sessions) for info in await held.fleet.tenants()}
        assert told == {
            "small": (1, 1.0, {"running": 1, "queued": 2}),
            "other": (None, 1.0, {"running": 1, "queued": 2}),
            "large": (9, 6.0, {"running": 6, "queued": 3}),
        }
        await held.fleet.tenant("large", limit=1)  # those that run go on
        await held.fleet.tenant("small", limit=2)
        await held.finish()


@on_asyncio
async def test_the_workspace_of_a_session_that_is_cancelled_while_idle_is_removed(hold: Hold, tmp_path: Path) -> None:
    held = hold(is_open=True, agent={"workspace": Copy()}, lease=0.6)
    kept, gone = [await held.fleet.start("one", "hi", id=name) for name in ("kept", "gone")]
    async with held.fleet.worker(folder=tmp_path / "ws"):
        await held.fleet.drain()
        stays, goes = [Path((await session.info()).workspace or "none") for session in (kept, gone)]
        assert goes.is_dir()
        assert await gone.cancel()
        await until(lambda: not goes.exists(), "it is removed")
        assert stays.is_dir()

        async def is_forgotten() -> bool:
            return (await gone.info()).machine is None

        await until(is_forgotten, "nobody looks for it again")
        assert (await kept.info()).machine is not None


LIMITED = """
import sys, anyio
from claude_agent_py import ClientOptions
from claude_agent_py.fleet import Fleet
from claude_agent_py.sessions import MemoryStore
url, program, folder = sys.argv[1:]
fleet = Fleet(url, store=MemoryStore(), poll=0.05, tenant_limit=3)
fleet.agent("one", ClientOptions(cli_path=program, cwd=folder), limit=4)
fleet.agent("two", ClientOptions(cli_path=program, cwd=folder))
async def main():
    async with fleet.worker(sessions=8):
        await fleet.drain_forever()
anyio.run(main)
"""


@on_asyncio
async def test_limits_hold_when_many_workers_take_sessions_at_once(hold: Hold, tmp_path: Path, fleet_url: str) -> None:
    held = hold(agent=None, url=fleet_url)
    for agent in ("one", "two"):
        held.fleet.agent(agent)
    await held.fleet.tenant("c", limit=1)
    for i in range(18):
        await held.fleet.start(("one", "two")[i % 2], "hi", tenant="abc"[i % 3])
    command = [sys.executable, "-c", LIMITED, fleet_url, str(held.options.cli_path), str(tmp_path)]
    most: Counter[str] = Counter()

    async def look() -> bool:
        running = await held.fleet.list(state="running")
        for kind in ("tenant", "agent"):
            for name, count in Counter(getattr(info, kind) for info in running).items():
                most[name] = max(most[name], count)
        return not await held.fleet.list(state="queued") and not running

    processes = [Program(command, preloaded=FLEET) for _ in range(4)]
    try:
        await held.running(7)
        held.gate.open()
        await until(look, "all have run")
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert (most["a"], most["b"], most["c"]) == (3, 3, 1)
    assert most["one"] <= 4


@on_asyncio
async def test_memory_bounds_what_a_worker_takes(hold: Hold) -> None:
    held = hold()
    for _ in range(4):
        await held.fleet.start("one", "hi")
    with pytest.raises(OptionsError, match="size"):
        held.fleet.worker(memory="much")
    async with held.fleet.worker(memory="700MiB"):
        await held.running(2)
        await held.finish()
    await held.fleet.start("one", "hi")
    async with held.fleet.worker(memory="1MiB"):  # runs one at a time, rather than none for ever
        await held.finish()


@on_asyncio
async def test_after_a_rollback_sessions_that_cannot_run_name_the_reason(tmp_path: Path, fleet_url: str) -> None:
    program = FakeCLI(steps.turn("ok")).install(tmp_path / "cli")
    options = ClientOptions(cli_path=program, cwd=tmp_path)
    fleets = {version: Fleet(fleet_url, store=MemoryStore(), poll=0.1) for version in ("1", "2")}
    for version, fleet in fleets.items():
        fleet.agent("one", options, version=version)
    async with Fleet(fleet_url) as outside:
        for version in ("1", "2"):
            async with fleets[version].worker():
                await fleets[version].drain()
        left = await outside.start("one", "hi")
        why = f"no live worker has the agent 'one' of version '{(await left.info()).version}'"
        assert ((await left.info()).version, (await left.info()).reason) == ("2", why)
        async with fleets["1"].worker():
            session = await outside.start("one", "hi")
            assert (await session.info()).version == "1"
            assert (await session.result(timeout=PATIENCE)).text == "ok"
            assert {info.id: info.reason for info in await outside.list()} == {left.id: why, session.id: None}
        async with fleets["2"].worker():
            assert (await left.result(timeout=PATIENCE)).text == "ok"
            assert (await left.info()).reason is None
    for fleet in fleets.values():
        fleet.close()


@on_asyncio
async def test_versions_live_side_by_side(hold: Hold) -> None:
    held = hold(is_open=True)
    old = await held.fleet.start("one", "hi")
    newer = Fleet(held.url, store=MemoryStore(), poll=0.1)
    newer.agent("one", held.options, version="2")
    new = await newer.start("one", "hi")
    async with newer.worker():
        assert (await new.result(timeout=PATIENCE)).text == "ok"
        assert ((await old.info()).state, (await old.info()).version) == ("queued", "1")
    newer.agent("one", held.options, version="1")
    async with newer.worker():
        assert (await old.result(timeout=PATIENCE)).text == "ok"
        latest = await newer.start("one", "hi")
        assert (await latest.info()).version == "2"
        await newer.drain()
    newer.close()


@on_asyncio
async def test_a_worker_that_drains_takes_nothing_more(hold: Hold) -> None:
    held = hold(lease=0.9)
    first = await held.fleet.start("one", "hi")
    async with held.fleet.worker() as worker:
        await held.running(1)
        assert await held.fleet.drain_workers("another") == 0
        assert await held.fleet.drain_workers(worker.id) == 1

        async def drains() -> bool:
            return "draining" in repr(worker)

        await until(drains, "it drains")
        second = await held.fleet.start("one", "hi")
        held.gate.open()
        await held.fleet.drain_forever()
        assert (await first.info()).state == "idle"
        assert (await second.info()).state == "queued"


@on_asyncio
async def test_a_worker_is_opened_once(hold: Hold) -> None:
    worker = hold().fleet.worker()
    async with worker:
        pass
    with pytest.raises(FleetError, match="this worker has ended: open another one"):
        async with worker:
            pass


@on_asyncio
async def test_leaving_the_worker_gives_its_sessions_back(hold: Hold) -> None:
    held = hold()
    session = await held.fleet.start("one", "hi")
    async with held.fleet.worker():
        await held.running(1)
    info = await session.info()
    assert (info.state, info.worker) == ("queued", None)
    held.gate.open()
    async with held.fleet.worker():
        result = await session.result(timeout=PATIENCE)
    assert (result.text, result.crashes) == ("ok", 0)


@on_asyncio
async def test_a_prompt_that_takes_too_long_is_ended(hold: Hold) -> None:
    held = hold()
    async with held.fleet.worker():
        session = await held.fleet.start("one", "hi", timeout=0.4)
        with pytest.raises(FleetRunError, match="RunTimeoutError"):
            await session.result(timeout=PATIENCE)
        held.gate.open()
        await session.send("again")  # revives a dead letter
        assert (await session.result(timeout=PATIENCE)).text == "ok"


@on_asyncio
async def test_the_timeout_of_an_agent_holds_for_prompts_from_processes_that_do_not_know_it(
    hold: Hold, tmp_path: Path
) -> None:
    held = hold(agent={"timeout": 0.4})
    async with held.fleet.worker(), Fleet(f"sqlite:///{tmp_path / 'fleet.db'}") as outside:
        session = await outside.start("one", "hi")
        with pytest.raises(FleetRunError, match="RunTimeoutError"):
            await session.result(timeout=PATIENCE)
        await session.send("again")
        with pytest.raises(FleetRunError, match="RunTimeoutError"):
            await session.result(timeout=PATIENCE)
        for wrong in (0, -1, float("nan")):
            with pytest.raises(OptionsError, match="timeout: must be more than 0"):
                await session.send("again", timeout=wrong)
            with pytest.raises(OptionsError, match="timeout: must be more than 0"):
                await outside.start("one", "hi", timeout=wrong)
        held.gate.open()


@on_asyncio
async def test_a_schedule_starts_a_session_at_each_time_once(hold: Hold) -> None:
    held = hold(is_open=True)
    held.fleet.schedule("tick", "* * * * * *", "one", "hi", tenant="clock")
    async with held.fleet.worker():

        async def have_fired() -> bool:
            return len(await held.fleet.list(tenant="clock", state="idle")) >= 2

        await until(have_fired, "it fired twice")
        names = [info.id for info in await held.fleet.list(tenant="clock")]
        async with Fleet(held.url) as outside:
            assert await outside.unschedule("tick")
            assert not await outside.unschedule("tick")
    assert len(set(names)) == len(names)
    assert all(name.startswith("tick@2") for name in names)


@on_asyncio
@pytest.mark.parametrize(("cron", "zone"), [("at noon", None), ("0 3 * * *", "Mars/Olympus")], ids=["cron", "zone"])
async def test_an_invalid_schedule_is_refused(tmp_path: Path, cron: str, zone: str | None) -> None:
    fleet = Fleet(f"sqlite:///{tmp_path / 'fleet.db'}", store=MemoryStore())
    fleet.agent("one")
    assert not await fleet.unschedule("wrong")
    fleet.schedule("wrong", cron, "one", "hi", timezone=zone)
    with pytest.raises(OptionsError, match="schedule: Invalid"):
        async with fleet.worker(folder=tmp_path / "ws"):
            pass
    assert await fleet.workers() == []
    assert not await fleet.unschedule("wrong")
    async with fleet.worker(folder=tmp_path / "ws"):  # nothing is left of the first
        pass
    fleet.close()


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_workers_and_other_processes_run_on_any_event_loop(tmp_path: Path, fleet_url: str) -> None:
    program = FakeCLI(steps.turn("ok")).install(tmp_path / "cli")
    fleet = Fleet(fleet_url, store=MemoryStore(), poll=0.1)
    fleet.agent("one", ClientOptions(cli_path=program, cwd=tmp_path))
    session = await fleet.start("one", "hi")
    assert (await session.info()).state == "queued"
    async with fleet.worker():
        assert (await session.result(timeout=PATIENCE)).text == "ok"
    assert await session.cancel()
    assert [event.kind async for event in session.events()][:2] == ["run", "state"]
    async for _ in session.events(follow=True):
        break
    gc.collect()  # trio warns about a generator that was not closed
    fleet.close()


@on_asyncio
async def test_times_of_a_schedule_that_were_missed_are_made_up_or_named(hold: Hold) -> None:
    held = hold(is_open=True)
    held.fleet.schedule("tick", "0 * * * * *", "one", "hi", tenant="clock")
    async with held.fleet.worker():
        pass
    hour = "UPDATE fleet_schedules SET next_at = next_at - 3600"
    execute(held.fleet, hour)  # nobody was there for an hour
    async with held.fleet.worker():
        await until(held.fleet.list, "they are started")
        await held.fleet.drain()
    names = {info.id for info in await held.fleet.list(tenant="clock")}
    [missed] = [entry async for entry in held.fleet.audit() if entry.action == "missed"]
    assert len(names) in (20, 21)
    assert (missed.actor, missed.details["schedule"]) == ("schedule:tick", "tick")
    assert missed.details["first"] < missed.details["last"] < min(names)


@on_asyncio
async def test_a_schedule_that_missed_a_year_of_seconds_holds_up_nobody(hold: Hold) -> None:
    held = hold(is_open=True)
    held.fleet.schedule("tick", "* * * * * *", "one", "hi", tenant="clock")
    async with held.fleet.worker():
        pass
    execute(held.fleet, "UPDATE fleet_schedules SET next_at = next_at - 365 * 86400")
    async with held.fleet.worker():
        with anyio.fail_after(PATIENCE / 2):
            await held.fleet.start("one", "hi")
            await until(partial(held.fleet.list, tenant="clock"), "the last times are made up")


@on_asyncio
async def test_a_schedule_goes_on_although_the_clock_was_set_back(hold: Hold) -> None:
    held = hold(is_open=True, lease=0.6)
    held.fleet.schedule("tick", "* * * * * *", "one", "hi", tenant="clock")
    async with held.fleet.worker():
        execute(held.fleet, "UPDATE fleet_schedules SET next_at = next_at + 365 * 86400")
        before = {info.id for info in await held.fleet.list()}

        async def has_fired() -> bool:
            return not {info.id for info in await held.fleet.list()} <= before

        await until(has_fired, "it fires again")
        names = {info.id for info in await held.fleet.list()}
        assert max(names) < f"tick@{datetime.now(UTC).year + 1}"


@on_asyncio
@pytest.mark.parametrize("is_due", [True, False])
async def test_a_worker_without_croniter_leaves_the_schedules_of_others_alone(
    hold: Hold, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, is_due: bool
) -> None:
    held = hold(is_open=True)
    held.fleet.schedule("yearly", "0 0 1 1 *", "one", "hi", tenant="clock")
    async with held.fleet.worker():
        pass
    if is_due:
        execute(held.fleet, "UPDATE fleet_schedules SET next_at = next_at - 366 * 86400")
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "croniter", None)
        other = Fleet(held.url, store=MemoryStore(), poll=0.1, lease=0.6)
        other.agent("one", held.options)
        async with other, other.worker():
            session = await other.start("one", "hi")
            assert (await session.result(timeout=PATIENCE)).text == "ok"
            [before] = await other.workers()

            async def has_beaten() -> bool:
                return [worker for worker in await other.workers() if worker.expires_at > before.expires_at + 0.6] != []

            await until(has_beaten, "it sends heartbeats")
    assert "cannot be kept" not in caplog.text
    assert ("the schedule yearly cannot be followed here: schedule: schedules need croniter" in caplog.text) == is_due
    async with held.fleet.worker():
        if is_due:
            await until(partial(held.fleet.list, tenant="clock"), "a worker with croniter starts the session")
        else:
            assert await held.fleet.list(tenant="clock") == []


@on_asyncio
async def test_a_prompt_that_killed_two_workers_runs_alone(hold: Hold) -> None:
    held = hold()
    suspect = await held.fleet.start("one", "hi", id="suspect")
    execute(held.fleet, "UPDATE fleet_runs SET crashes = 2")
    async with held.fleet.worker(sessions=5), held.fleet.worker(sessions=5):
        await held.running(1)
        others = [await held.fleet.start("one", "hi", priority=9) for _ in range(3)]
        assert [info.id for info in await held.running(1)] == ["suspect"]
        held.gate.open()
        for session in (suspect, *others):
            await session.result(timeout=PATIENCE)


@on_asyncio
async def test_new_sessions_get_no_version_whose_worker_was_killed(hold: Hold) -> None:
    held = hold(is_open=True, lease=1000.0)
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        pass
    async with held.fleet.worker():
        newer = Fleet(held.url)
        newer.agent("one", held.options, version="2")
        cancelled = await newer.start("one", "hi", version="2")
        await cancelled.cancel()
        row = "'w', 'here', :pid, 1, 0, 0, 0, 9e9, 1000"
        columns = "id, machine, pid, slots, memory_used, is_draining, started_at, expires_at, lease"
        execute(held.fleet, f"INSERT INTO fleet_workers ({columns}) VALUES ({row})", pid=gone.pid)
        execute(held.fleet, "INSERT INTO fleet_abilities VALUES ('w', 'one', '2')")
        async with Fleet(held.url) as outside:
            session = await outside.start("one", "hi")
            assert (await session.result(timeout=PATIENCE)).text == "ok"
        newer.close()
