"""What is over is deleted after a time, and nothing else. With a stand-in CLI."""

from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from fleets import PATIENCE, execute, fleet_url as fleet_url, until, until_state
from inside import retention

from claude_agent_py import ClientOptions
from claude_agent_py.errors import FleetError, OptionsError, StoreError
from claude_agent_py.fleet import Copy, Fleet, FleetSession
from claude_agent_py.sessions import SQLiteStore
from claude_agent_py.testing import FakeCLI, Gate, steps

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]


def names_in(fleet: Fleet, table: str, column: str) -> set[str]:
    """Return the values in a column of a table."""
    return {name for (name,) in execute(fleet, f"SELECT {column} FROM {table}")}


async def test_ended_sessions_are_deleted_while_a_worker_runs(
    tmp_path: Path, fleet_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "BATCH", 2)
    gate = Gate()
    quick = FakeCLI(steps.turn("ok")).install(tmp_path / "quick")
    slow = FakeCLI(steps.wait_gate(gate), steps.turn("ok")).install(tmp_path / "slow")
    fleet = Fleet(fleet_url, store=SQLiteStore(tmp_path / "store.db"), poll=0.1)
    for name, program in (("quick", quick), ("slow", slow)):
        fleet.agent(name, ClientOptions(cli_path=program, cwd=tmp_path))
    async with fleet.worker():
        for i in range(5):
            await (await fleet.start("quick", "hi", id=f"done-{i}")).result(timeout=PATIENCE)
        await (await fleet.start("quick", "hi", id="waits")).result(timeout=PATIENCE)
        execute(fleet, "UPDATE fleet_sessions SET state = 'waiting' WHERE id = 'waits'")
        other = Fleet(fleet_url)
        other.agent("quick", version="of no worker")
        await other.start("quick", "hi", id="queued", version="of no worker")
        cancelled = await other.start("quick", "hi", id="cancelled", version="of no worker")
        await cancelled.cancel()
        runs = await fleet.start("slow", "hi", id="runs")
        await until_state(runs, "running")
        assert await fleet.prune(timedelta(hours=1)) == 0
        async with Fleet(fleet_url) as outside:
            assert await outside.prune(0) == 6
        left = {"waits", "queued", "runs"}
        assert {info.id for info in await fleet.list()} == left
        assert names_in(fleet, "fleet_events", "session") == names_in(fleet, "fleet_runs", "session") == left
        with pytest.raises(FleetError, match="has no session 'done-1'"):
            await fleet.session("done-1").info()
        gate.open()
        assert (await runs.result(timeout=PATIENCE)).text == "ok"
        assert (await (await fleet.start("quick", "hi", id="done-1", version="1")).result(timeout=PATIENCE)).run == 1
    other.close()
    with pytest.raises(OptionsError, match="older_than: must not be negative"):
        await fleet.prune(-1)
    fleet.close()


async def test_a_worker_deletes_what_is_older_than_the_retention(tmp_path: Path) -> None:
    program = FakeCLI(steps.turn("ok")).install(tmp_path / "cli")
    store = SQLiteStore(tmp_path / "store.db")
    kept: dict[str, Any] = {"project_key": "fleet", "session_id": str(uuid4())}
    fleet = Fleet(f"sqlite:///{tmp_path / 'fleet.db'}", store=store, poll=0.1, retention=timedelta(seconds=1))
    fleet.agent("one", ClientOptions(cli_path=program), workspace=Copy())
    async with fleet.worker(folder=tmp_path / "ws"):
        session = await fleet.start("one", "hi", id="old")
        info = await session.info()
        said: Any = {**kept, "session_id": info.cli_session_id}
        for key in (said, kept):
            await store.append(key, [{"type": "user", "uuid": str(uuid4())}])  # type: ignore[arg-type]
        assert (await session.result(timeout=PATIENCE)).text == "ok"

        async def is_gone() -> bool:
            return await fleet.list() == [] and not [*(tmp_path / "ws").glob("*/*")]

        await until(is_gone, "it is deleted")
        assert await store.load(said) is None
        assert await store.load(kept) is not None  # type: ignore[arg-type]
    fleet.close()


@pytest.mark.parametrize("is_cancelled", [True, False])
async def test_no_workspace_is_forgotten_by_a_worker_that_does_not_run_its_agent(
    tmp_path: Path, is_cancelled: bool
) -> None:
    program, url = FakeCLI(steps.turn("ok")).install(tmp_path / "cli"), f"sqlite:///{tmp_path / 'fleet.db'}"
    given: dict[str, Any] = {"store": SQLiteStore(tmp_path / "store.db"), "poll": 0.1, "lease": 0.6}
    own, other = Fleet(url, **given), Fleet(url, retention=None if is_cancelled else 0.5, **given)
    async with own, other:
        for fleet, name in ((own, "one"), (other, "two")):
            fleet.agent(name, ClientOptions(cli_path=program), workspace=Copy())
        session = await own.start("one", "hi")
        async with own.worker(folder=tmp_path / "ws"):
            await session.result(timeout=PATIENCE)
        [folder] = [path for path in (tmp_path / "ws").glob("*/*") if path.is_dir()]
        async with other.worker(folder=tmp_path / "ws"):
            if is_cancelled:
                await session.cancel()
                last = await other.start("two", "hi")
                await last.result(timeout=PATIENCE)
                assert await last.cancel()
                await until(partial(is_forgotten, last), "the worker removes what its own agent has left")
            else:
                await until(lambda: not folder.exists(), "it is removed with its session")
        if is_cancelled:
            assert (await session.info()).workspace == str(folder / "work")
            async with own.worker(folder=tmp_path / "ws"):
                await until(partial(is_forgotten, session), "its own worker removes it")
        assert not folder.exists()


async def is_forgotten(session: FleetSession) -> bool:
    return (await session.info()).workspace is None


class Locked(SQLiteStore):
    """A store that deletes nothing until it is opened."""

    is_open = False

    async def delete(self, key: Any) -> None:
        if not self.is_open:
            raise StoreError("locked")
        await super().delete(key)


async def test_a_conversation_that_could_not_be_deleted_is_deleted_the_next_time(
    tmp_path: Path, fleet_url: str
) -> None:
    store = Locked(tmp_path / "store.db")
    async with Fleet(fleet_url, store=store) as fleet, Fleet(fleet_url) as without_store:
        fleet.agent("one")
        keys: list[Any] = []
        for pruner in (fleet, without_store):
            session = await fleet.start("one", "hi", id="same")
            await session.cancel()
            keys.append({"project_key": "fleet", "session_id": (await session.info()).cli_session_id})
            await store.append(keys[-1], [{"type": "user", "uuid": str(uuid4())}])
            assert await pruner.prune(0) == 1
        assert [await store.load(key) is None for key in keys] == [False, False]
        store.is_open = True
        assert await fleet.prune(0) == 0
        assert [await store.load(key) is None for key in keys] == [True, True]
