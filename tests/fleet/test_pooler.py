"""A fleet behind PgBouncer in transaction mode: each transaction may run on another connection to the server."""

from functools import partial
from pathlib import Path

import anyio
import pytest
from fleets import PATIENCE, built, database_of, fleet_in, new_database, until_state
from poolers import behind, pooler_port as pooler_port
from stoppable_postgres import PostgresServer

from claude_agent_py.fleet import Fleet
from claude_agent_py.sessions import PostgresStore, SessionKey
from claude_agent_py.testing import ScriptedModel

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]


@pytest.fixture
def url(postgres: PostgresServer, pooler_port: int) -> str:
    """Return the URL of a new database, through PgBouncer."""
    return behind(new_database(postgres), pooler_port)


@pytest.mark.real_cli
async def test_sessions_of_two_workers_run_through_pgbouncer(tmp_path: Path, url: str) -> None:
    with ScriptedModel(built) as model, fleet_in(tmp_path, model, url=url, store=url) as made:
        fleet = made.fleet()
        for _ in range(2):
            made.start_worker(sessions=3, options={"permission_mode": "default"}, agent={"patience": 0.2})
        fleet.agent("worker")
        sessions = [await fleet.start("worker", f"build {number}", id=f"s{number}") for number in range(6)]
        for session in sessions:
            await until_state(session, "waiting")
            [question] = await session.interactions()
            await question.answer({"Which target?": "release"})
        for session in sessions:
            outcome = await session.result(timeout=PATIENCE)
            assert (outcome.text, outcome.crashes) == ("built release", 0), made.logs()
        await fleet.prune(0)
        assert await fleet.list() == []
        await fleet.drain_workers()
        assert [process.wait(60) for process in made.processes] == [0, 0], made.logs()
        assert "Traceback" not in made.logs()


async def test_several_make_the_tables_at_the_same_time(url: str) -> None:
    fleets = [Fleet(url) for _ in range(4)]
    for fleet in fleets:
        fleet.agent("one")
    async with anyio.create_task_group() as group:
        for number, fleet in enumerate(fleets):
            group.start_soon(partial(fleet.start, "one", "hi", id=f"s{number}"))
    assert {info.id for info in await fleets[0].list()} == {"s0", "s1", "s2", "s3"}
    assert len({database_of(fleet).identity for fleet in fleets}) == 1
    for fleet in fleets:
        fleet.close()


async def test_a_store_works_through_pgbouncer(url: str) -> None:
    store = PostgresStore(url)
    key: SessionKey = {"project_key": "p", "session_id": "s"}

    async def append(writer: int) -> None:
        for number in range(20):
            await store.append(key, [{"type": "user", "uuid": f"{writer}-{number}"}])

    async with anyio.create_task_group() as group:
        for writer in range(8):
            group.start_soon(append, writer)
    assert len(await store.load(key) or ()) == 160
    store.close()
