"""A store behind PgBouncer in transaction mode: each transaction may run on another connection to the server."""

import anyio
import pytest
from poolers import behind, pooler_port as pooler_port
from stoppable_postgres import PostgresServer, new_database

from claude_agent_py.sessions import PostgresStore, SessionKey

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]


@pytest.fixture
def url(postgres: PostgresServer, pooler_port: int) -> str:
    """Return the URL of a new database, through PgBouncer."""
    return behind(new_database(postgres), pooler_port)


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
