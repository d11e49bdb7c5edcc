"""The network between a store and its database forwards nothing more, and nobody hears of it: no reset, no end."""

import inspect
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import anyio
import psycopg
import pytest
from bounds import set_bound
from poolers import Proxy, behind
from stoppable_postgres import PostgresServer, new_database

from claude_agent_py.errors import StoreError
from claude_agent_py.sessions import PostgresStore, RedisStore, SessionKey

PATIENCE = 100.0
"""For how long a test waits, in seconds."""
FROZEN = 2.0
"""After how many seconds another connection ends a statement that was cut."""
pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]


@pytest.fixture
def proxy(postgres: PostgresServer) -> Iterator[Proxy]:
    """Yield a proxy before the PostgreSQL of the tests."""
    port = urlsplit(postgres.url).port
    assert port is not None
    made = Proxy(port)
    yield made
    made.close()


async def test_a_call_of_a_store_that_gets_no_answer_fails_in_time_and_the_next_one_connects_again(
    postgres: PostgresServer, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = PostgresStore(behind(new_database(postgres), proxy.port))
    key: SessionKey = {"project_key": "p", "session_id": "s"}
    await store.append(key, [{"type": "user", "uuid": "1"}])
    proxy.stall()
    with anyio.fail_after(PATIENCE), monkeypatch.context() as impatient:
        set_bound(impatient, "ANSWER_SECONDS", 0.5)  # only where nothing answers, however slow the machine
        with pytest.raises(StoreError, match=r"cannot append to p/s: no answer within 0\.5 s"):
            await store.append(key, [{"type": "user", "uuid": "2"}])
    proxy.heal()
    await store.append(key, [{"type": "user", "uuid": "2"}])
    assert len(await store.load(key) or ()) == 2
    store.close()


async def test_a_call_of_redis_that_gets_no_answer_fails_in_time(
    redis_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = Proxy(int(urlsplit(redis_server).port or 0))
    set_bound(monkeypatch, "REDIS_ANSWER_SECONDS", 0.2)
    store = RedisStore(f"redis://127.0.0.1:{proxy.port}/0", prefix="stalled:")
    key: SessionKey = {"project_key": "p", "session_id": "s"}
    await store.append(key, [{"type": "user", "uuid": "1"}])
    proxy.stall()
    with anyio.fail_after(4), pytest.raises(StoreError, match="RedisStore cannot find s: TimeoutError"):
        await store.find_session("s")
    proxy.heal()
    await store.append(key, [{"type": "user", "uuid": "2"}])
    assert len(await store.load(key) or ()) == 2
    store.close()
    proxy.close()


async def test_connections_that_the_server_has_ended_meanwhile_are_replaced(postgres: PostgresServer) -> None:
    url = new_database(postgres)
    store = PostgresStore(url)
    key: SessionKey = {"project_key": "p", "session_id": "s"}
    async with anyio.create_task_group() as calls:
        for _ in range(8):
            calls.start_soon(store.load, key)
    others = "FROM pg_stat_activity WHERE datname = current_database() AND pid != pg_backend_pid()"
    with anyio.fail_after(PATIENCE), psycopg.connect(url, autocommit=True) as server:
        while server.execute(f"SELECT pg_terminate_backend(pid) {others}").fetchall():
            await anyio.sleep(0.01)
    await store.append(key, [{"type": "user", "uuid": "1"}])
    assert len(await store.load(key) or ()) == 1
    store.close()


def threads_in(part: str) -> list[str]:
    """Return where threads of this process are that are in a function of some files."""
    stacks = [traceback.extract_stack(frame) for frame in sys._current_frames().values()]
    return [str(stack[-1]) for stack in stacks if any(part in line.filename for line in stack)]


async def test_a_store_whose_connection_stalls_while_it_opens_fails_in_time_and_leaves_no_thread(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_bound(monkeypatch, "ANSWER_SECONDS", 1.0)
    port = urlsplit(postgres.url).port
    assert port is not None
    proxy = Proxy(port, stall_at=b"CREATE SCHEMA")
    store = PostgresStore(behind(new_database(postgres), proxy.port))
    with anyio.fail_after(PATIENCE):
        with pytest.raises(StoreError, match="no answer within 1 s"):
            await store.append({"project_key": "p", "session_id": "s"}, [{"type": "user", "uuid": "1"}])
        while threads_in("psycopg"):
            await anyio.sleep(0.01)
    proxy.close()


async def test_a_connection_that_opens_after_its_call_was_given_up_leaves_no_thread(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_bound(monkeypatch, "ANSWER_SECONDS", 0.2)
    port = urlsplit(postgres.url).port
    assert port is not None
    proxy = Proxy(port, stall_at=b"CREATE SCHEMA")
    store = PostgresStore(behind(new_database(postgres), proxy.port))
    connect, may_open = store._connect, threading.Event()

    def connect_late(**settings: Any) -> Any:
        may_open.wait(PATIENCE)
        return connect(**settings)

    monkeypatch.setattr(store, "_connect", connect_late)
    with pytest.raises(StoreError, match=r"no answer within 0\.2 s"):
        await store.append({"project_key": "p", "session_id": "s"}, [{"type": "user", "uuid": "1"}])
    may_open.set()
    with anyio.fail_after(PATIENCE):
        while threads_in(inspect.getfile(PostgresStore)):
            await anyio.sleep(0.01)
    proxy.close()


def wait_until_cut(url: str, seconds: float) -> None:
    """Wait until the server has waited for the rest of a statement for some seconds."""
    query = """SELECT 1 FROM pg_stat_activity WHERE state = 'active' AND wait_event = 'ClientRead'
        AND datname = current_database() AND state_change < clock_timestamp() - make_interval(secs => %s)"""
    with psycopg.connect(url, autocommit=True) as connection:
        while not connection.execute(query, (seconds,)).fetchall():
            time.sleep(0.05)


async def test_a_statement_that_was_cut_holds_no_row_once_another_connection_opens(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = urlsplit(postgres.url).port
    assert port is not None
    proxy, direct = Proxy(port, stall_at=b"cut here"), new_database(postgres)
    cut, other = PostgresStore(behind(direct, proxy.port)), PostgresStore(direct)
    key: SessionKey = {"project_key": "p", "session_id": "s"}
    await cut.append(key, [{"type": "user", "uuid": "1"}])
    last: Any = {"type": "user", "uuid": "2", "text": "cut here"}
    with monkeypatch.context() as impatient:
        set_bound(impatient, "ANSWER_SECONDS", 1.0)
        with pytest.raises(StoreError, match="no answer within 1 s"):
            await cut.append(key, [last])
    set_bound(monkeypatch, "FROZEN_SECONDS", FROZEN)
    with anyio.fail_after(PATIENCE):
        await anyio.to_thread.run_sync(wait_until_cut, direct, FROZEN, abandon_on_cancel=True)
        await other.append(key, [{"type": "user", "uuid": "3"}])
    assert [entry.get("uuid") for entry in await other.load(key) or ()] == ["1", "3"]
    proxy.close()
    other.close()
