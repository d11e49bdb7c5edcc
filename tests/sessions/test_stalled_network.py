"""The network between a store and its database forwards nothing more, and nobody hears of it: no reset, no end."""

import sys
import traceback
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import anyio
import pytest
from poolers import Proxy, behind
from stoppable_postgres import PostgresServer, new_database

from claude_agent_py.errors import StoreError
from claude_agent_py.sessions import PostgresStore, SessionKey
from claude_agent_py.sessions.stores import postgres as postgres_store

PATIENCE = 100.0
"""For how long a test waits, in seconds."""
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
    monkeypatch.setattr(postgres_store, "ANSWER_SECONDS", 0.5)
    store = PostgresStore(behind(new_database(postgres), proxy.port))
    key: SessionKey = {"project_key": "p", "session_id": "s"}
    await store.append(key, [{"type": "user", "uuid": "1"}])
    proxy.stall()
    with anyio.fail_after(10):
        with pytest.raises(StoreError, match=r"cannot append to p/s: no answer within 0\.5 s"):
            await store.append(key, [{"type": "user", "uuid": "2"}])
    proxy.heal()
    await store.append(key, [{"type": "user", "uuid": "2"}])
    assert len(await store.load(key) or ()) == 2
    store.close()


def threads_in_psycopg() -> list[str]:
    """Return where threads of this process wait for a database."""
    stacks = [traceback.extract_stack(frame) for frame in sys._current_frames().values()]
    return [str(stack[-1]) for stack in stacks if any("psycopg" in line.filename for line in stack)]


async def test_a_store_whose_connection_stalls_while_it_opens_fails_in_time_and_leaves_no_thread(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_store, "ANSWER_SECONDS", 1.0)
    port = urlsplit(postgres.url).port
    assert port is not None
    proxy = Proxy(port, stall_at=b"CREATE SCHEMA")
    store = PostgresStore(behind(new_database(postgres), proxy.port))
    with anyio.fail_after(PATIENCE):
        with pytest.raises(StoreError, match="no answer within 1 s"):
            await store.append({"project_key": "p", "session_id": "s"}, [{"type": "user", "uuid": "1"}])
        while threads_in_psycopg():
            await anyio.sleep(0.01)
    proxy.close()


async def test_a_statement_that_was_cut_holds_no_row_once_another_connection_opens(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_store, "ANSWER_SECONDS", 1.0)
    monkeypatch.setattr(postgres_store, "FROZEN_SECONDS", 1.0)
    port = urlsplit(postgres.url).port
    assert port is not None
    proxy, direct = Proxy(port, stall_at=b"cut here"), new_database(postgres)
    cut, other = PostgresStore(behind(direct, proxy.port)), PostgresStore(direct)
    key: SessionKey = {"project_key": "p", "session_id": "s"}
    await cut.append(key, [{"type": "user", "uuid": "1"}])
    last: Any = {"type": "user", "uuid": "2", "text": "cut here"}
    with pytest.raises(StoreError, match="no answer within 1 s"):
        await cut.append(key, [last])
    attempts = 0
    with anyio.fail_after(PATIENCE):
        while True:
            attempts += 1
            try:
                await other.append(key, [{"type": "user", "uuid": "3"}])
                break
            except StoreError:
                continue  # as the mirror does
    assert attempts <= 3
    assert [entry.get("uuid") for entry in await other.load(key) or ()] == ["1", "3"]
    proxy.close()
    other.close()
