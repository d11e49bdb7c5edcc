"""A fleet on a real PostgreSQL server."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import anyio
import pytest
from cuttable import CuttableServer
from fleets import LEASE, PATIENCE, events_of, fleet_in, task_of

from claude_agent_py.testing import Reply, ScriptedModel

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.real_cli,
    pytest.mark.parametrize("anyio_backend", ["asyncio"]),
]


@pytest.fixture
def server(postgres_server: str) -> Iterator[tuple[str, CuttableServer]]:
    """Yield the URL of a new database, and the port in front of its server."""
    import psycopg

    parts = urlsplit(postgres_server)
    assert parts.port is not None
    front = CuttableServer(parts.port)
    name = f"fleet_{front.port}"
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    yield urlunsplit(parts._replace(netloc=f"tester@127.0.0.1:{front.port}", path=f"/{name}")), front
    front.cut()


async def test_sessions_outlive_a_worker_and_a_database_that_is_away(
    tmp_path: Path, server: tuple[str, CuttableServer]
) -> None:
    url, front = server
    with (
        ScriptedModel(lambda request: Reply(f"to {task_of(request)}", delay=1.0)) as model,
        fleet_in(tmp_path, model, url=url, store=url) as made,
    ):
        fleet = made.fleet()
        workers = [made.start_worker(sessions=2) for _ in range(2)]
        fleet.agent("worker")
        sessions = [await fleet.start("worker", f"task {i}", id=f"s{i}") for i in range(8)]
        await sessions[0].result(timeout=PATIENCE)
        workers[0].kill()
        await sessions[3].result(timeout=PATIENCE)
        front.cut()
        await anyio.sleep(LEASE + 2)  # longer than a lease
        front.open()
        for i, session in enumerate(sessions):
            result = await session.result(timeout=PATIENCE)
            assert result.text == f"to task {i}", made.logs()
            events = await events_of(session)
            assert [e.data["state"] for e in events if e.kind == "run"] == ["queued", "running", "done"]
        assert workers[1].poll() is None, made.logs()
        await fleet.drain_workers()
        assert workers[1].wait(60) == 0
