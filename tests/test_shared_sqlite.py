"""SQLite files that several threads and processes share."""

import gc
import os
import queue
import sqlite3
import sys
import threading
import weakref
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from forks import run_program

from claude_agent_py._base.shared_sqlite import SharedConnection, open_shared, transact

SCHEMA = ["CREATE TABLE IF NOT EXISTS things (id INTEGER PRIMARY KEY, text TEXT)"]
PUT = "INSERT OR REPLACE INTO things VALUES (?, ?)"


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX")
def test_only_the_user_can_read_a_new_file_and_its_journal(tmp_path: Path) -> None:
    with closing(open_shared(tmp_path / "a.db", SCHEMA)) as connection:
        transact(connection, partial(_put, 1))
        modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == dict.fromkeys(("a.db", "a.db-wal", "a.db-shm"), 0o600)


def _put(number: int, cursor: sqlite3.Cursor) -> sqlite3.Cursor:
    return cursor.executemany(PUT, [(number, "text")])


@pytest.mark.usefixtures("eager_switching")
def test_a_cursor_collected_by_another_thread_resets_no_statement_in_use() -> None:
    connection = open_shared(":memory:", SCHEMA)
    dropped: queue.SimpleQueue[sqlite3.Cursor | None] = queue.SimpleQueue()

    def collect() -> None:
        while dropped.get() is not None:
            pass

    collector = threading.Thread(target=collect)
    collector.start()
    try:
        for number in range(20_000):
            dropped.put(transact(connection, partial(_put, number % 5)))
    finally:
        dropped.put(None)
        collector.join()
    assert connection.execute("SELECT count(*) FROM things").fetchone() == (5,)
    connection.close()


def test_many_make_the_same_file_at_once(tmp_path: Path) -> None:
    failures: list[BaseException] = []
    start = threading.Barrier(8)

    def make(number: int) -> None:
        try:
            start.wait(60)
            connection = open_shared(tmp_path / "shared.sqlite", SCHEMA)
            transact(connection, lambda cursor: cursor.execute(PUT, (number, "text")))
            connection.close()
        except BaseException as error:
            failures.append(error)

    makers = [threading.Thread(target=make, args=(number,)) for number in range(8)]
    for maker in makers:
        maker.start()
    for maker in makers:
        maker.join(60)
    assert failures == []
    connection = open_shared(tmp_path / "shared.sqlite", SCHEMA)
    assert connection.execute("SELECT count(*) FROM things").fetchone() == (8,)
    connection.close()


def test_a_file_that_is_no_database_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("This is not a database. " * 100)
    with pytest.raises(sqlite3.DatabaseError):
        open_shared(tmp_path / "text", SCHEMA)


def test_work_that_fails_leaves_nothing_behind() -> None:
    connection = open_shared(":memory:", SCHEMA)

    def work(cursor: sqlite3.Cursor) -> None:
        cursor.execute(PUT, (1, "text"))
        raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        transact(connection, work)
    assert connection.execute("SELECT count(*) FROM things").fetchone() == (0,)
    connection.close()


def test_opening_what_is_made_waits_for_no_writer(tmp_path: Path) -> None:
    writer = open_shared(tmp_path / "shared.sqlite", SCHEMA)
    writer.execute("BEGIN IMMEDIATE")
    reader = open_shared(tmp_path / "shared.sqlite", SCHEMA)  # a lock would make this fail after 30 s
    assert reader.execute("SELECT count(*) FROM things").fetchone() == (0,)
    reader.close()
    writer.close()


def test_a_connection_that_was_closed_is_forgotten(tmp_path: Path) -> None:
    class Connection(sqlite3.Connection):
        """One that can be referred to weakly."""

    opened = list[weakref.ref[Connection]]()

    def open_file() -> Connection:
        connection = sqlite3.connect(tmp_path / "a.db", factory=Connection)
        opened.append(weakref.ref(connection))
        return connection

    shared = SharedConnection(open_file)
    for _ in range(3):
        with shared.borrow():
            pass
        shared.close()
    gc.collect()
    assert [reference() for reference in opened] == [None, None, None]


FORK = """
import gc, os, sqlite3, sys
from claude_agent_py._base.shared_sqlite import SharedConnection

shared = SharedConnection(lambda: sqlite3.connect(sys.argv[1]))
with shared.borrow() as connection:
    pass
if child := os.fork():
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
else:
    del shared
    gc.collect()
    connection.execute("SELECT 1")  # an error if it is closed
    os._exit(5)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_copy_of_the_process_that_drops_a_connection_does_not_close_it(tmp_path: Path) -> None:
    """SQLite asks not to carry a connection across a fork: closing it would change files that the original uses."""
    assert run_program([sys.executable, "-W", "ignore", "-c", FORK, str(tmp_path / "a.db")]).stdout == "5\n"
