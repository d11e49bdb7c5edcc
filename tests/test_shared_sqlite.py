"""SQLite files that several threads and processes share: here that of a session store."""

import gc
import os
import sqlite3
import sys
import threading
from contextlib import closing
from pathlib import Path

import anyio
import pytest
from bounds import set_bound
from forks import run_program

from claude_agent_py.errors import StoreError
from claude_agent_py.sessions import SessionKey, SessionStoreEntry, SQLiteStore


def key(number: int) -> SessionKey:
    return {"project_key": "p", "session_id": f"session-{number}"}


def put(store: SQLiteStore, number: int) -> None:
    entries: list[SessionStoreEntry] = [{"type": "user", "uuid": "a"}, {"type": "user", "uuid": "b"}]
    anyio.run(store.append, key(number), entries)


def stored(store: SQLiteStore) -> set[str]:
    return {listed["session_id"] for listed in anyio.run(store.list_sessions, "p")}


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX")
def test_only_the_user_can_read_a_new_file_and_its_journal(tmp_path: Path) -> None:
    with closing(SQLiteStore(tmp_path / "a.db")) as store:
        put(store, 1)
        modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == dict.fromkeys(("a.db", "a.db-wal", "a.db-shm"), 0o600)


def test_many_make_the_same_file_at_once(tmp_path: Path) -> None:
    failures: list[BaseException] = []
    start = threading.Barrier(8)

    def make(number: int) -> None:
        try:
            start.wait(60)
            with closing(SQLiteStore(tmp_path / "shared.sqlite")) as store:
                put(store, number)
        except BaseException as error:
            failures.append(error)

    makers = [threading.Thread(target=make, args=(number,)) for number in range(8)]
    for maker in makers:
        maker.start()
    for maker in makers:
        maker.join(60)
    assert failures == []
    with closing(SQLiteStore(tmp_path / "shared.sqlite")) as store:
        assert len(stored(store)) == 8


def test_a_write_that_fails_half_way_leaves_nothing_behind(tmp_path: Path) -> None:
    with closing(SQLiteStore(tmp_path / "a.db")) as store:
        with closing(sqlite3.connect(store.path)) as other:
            refuse = "BEGIN SELECT RAISE(ABORT, 'half way'); END"
            other.execute(f"CREATE TRIGGER refuse BEFORE INSERT ON entries WHEN NEW.uuid = 'b' {refuse}")
        with pytest.raises(StoreError, match="half way"):
            put(store, 1)
        assert anyio.run(store.load, key(1)) is None
        assert stored(store) == set()


def test_opening_what_is_made_waits_for_no_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "shared.sqlite"
    with closing(SQLiteStore(path)) as store:
        put(store, 1)
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        set_bound(monkeypatch, "BUSY_SECONDS", 0.0)  # a lock makes this fail
        with closing(SQLiteStore(path)) as reader:
            assert stored(reader) == {"session-1"}


def connections() -> int:
    gc.collect()
    return sum(isinstance(each, sqlite3.Connection) for each in gc.get_objects())


def test_a_connection_that_was_closed_is_forgotten(tmp_path: Path) -> None:
    store, before = SQLiteStore(tmp_path / "a.db"), connections()
    for number in range(3):
        put(store, number)
        store.close()
    assert connections() == before - 1


FORK = """
import gc, os, sqlite3, sys
from claude_agent_py.sessions import SQLiteStore

store = SQLiteStore(sys.argv[1])
[connection] = [each for each in gc.get_objects() if isinstance(each, sqlite3.Connection)]
if child := os.fork():
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
else:
    del store
    gc.collect()
    connection.execute("SELECT 1")  # an error if it is closed
    os._exit(5)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_copy_of_the_process_that_drops_a_connection_does_not_close_it(tmp_path: Path) -> None:
    """SQLite asks not to carry a connection across a fork: closing it would change files that the original uses."""
    assert run_program([sys.executable, "-W", "ignore", "-c", FORK, str(tmp_path / "a.db")]).stdout == "5\n"
