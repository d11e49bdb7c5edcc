"""The table of a history: the facts about tasks as JSON, one in a row."""

import sqlite3
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from claude_agent_py._journal.encoding import decode_fact, encode_fact
from claude_agent_py._journal.tasks.events import TaskEvent, TaskFinished, TaskRevised

VERSION: Final = 2
SCHEMA: Final = (
    """CREATE TABLE IF NOT EXISTS facts (
        session_id TEXT NOT NULL, number INTEGER NOT NULL, key TEXT NOT NULL UNIQUE, task_id TEXT NOT NULL,
        run_id TEXT NOT NULL, kind TEXT NOT NULL, at REAL NOT NULL, status TEXT, ended_at REAL, agent TEXT,
        fact TEXT NOT NULL, writer TEXT,
        PRIMARY KEY (session_id, number)
    )""",
    "CREATE INDEX IF NOT EXISTS facts_by_task ON facts (session_id, task_id, run_id, number)",
    "CREATE INDEX IF NOT EXISTS facts_by_end ON facts (ended_at) WHERE status IS NOT NULL",
    "CREATE INDEX IF NOT EXISTS facts_by_writer ON facts (writer)",
    "CREATE TABLE IF NOT EXISTS sessions (session_id TEXT PRIMARY KEY, last INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS writers (writer TEXT PRIMARY KEY)",
)
"""`sessions.last` is the number of the last fact; `writers` contains the processes that are recording."""

LATEST: Final = """status IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM facts later WHERE later.session_id = facts.session_id
    AND later.task_id = facts.task_id AND later.run_id = facts.run_id AND later.status IS NOT NULL
    AND later.number > facts.number)"""
"""The condition of the last end of each run: the end, or its last correction."""
HAS_ENDED: Final = """SELECT status FROM facts WHERE session_id = ? AND task_id = ? AND run_id != ''
    AND (status IS NOT NULL OR kind IN ('task_started', 'task_reopened')) ORDER BY number DESC LIMIT 1"""
"""The final status of a task whose last run with a known id has ended."""


class FactRow(NamedTuple):
    """A fact to store, with the columns that queries use. The session and the number follow when it is stored."""

    task_id: str
    run_id: str
    """Empty if unknown."""
    kind: str
    at: float
    status: str | None
    """The final status of a run; None unless the fact is its end, or a correction of the end."""
    ended_at: float | None
    agent: str | None
    """The name of the agent definition."""
    fact: str
    """JSON."""
    step: str
    """Tells facts of the same kind about the same run apart: a fact that is recorded again has the same step."""


def build_row(fact: TaskEvent, step: object, agent: str | None) -> FactRow:
    """Return the row of a fact. Raises ValueError, TypeError or RecursionError if it has no JSON form."""
    line = encode_fact(fact.replace(number=0)).decode()
    status = ended_at = None
    if isinstance(fact, TaskFinished | TaskRevised):
        status, ended_at = fact.outcome.status.value, fact.outcome.ended_at or fact.at
    run_id = fact.run_id or ""
    return FactRow(fact.task_id, run_id, fact.fact, fact.at or 0.0, status, ended_at, agent, line, str(step))


def put_rows(cursor: sqlite3.Cursor, session_id: str, rows: Iterable[FactRow], writer: str | None) -> None:
    """Store facts with the next numbers of their session. A fact that is already stored keeps its number."""
    if not cursor.connection.in_transaction:
        cursor.execute("BEGIN IMMEDIATE")  # so that no other process assigns the same numbers
    for row in rows:
        cursor.execute("INSERT OR IGNORE INTO sessions VALUES (?, 0)", (session_id,))
        (last,) = cursor.execute("SELECT last FROM sessions WHERE session_id = ?", (session_id,)).fetchone()
        key = "\x1f".join((session_id, row.task_id, row.run_id, row.kind, row.step))
        values = (session_id, last + 1, key, *row[:-1], writer)
        cursor.execute(f"INSERT OR IGNORE INTO facts VALUES ({', '.join('?' * len(values))})", values)  # noqa: S608
        if cursor.rowcount == 1:
            cursor.execute("UPDATE sessions SET last = ? WHERE session_id = ?", (last + 1, session_id))


def read_fact(number: object, line: object) -> TaskEvent:
    """Return the fact in a row. Raises ValueError if the row is invalid."""
    if not isinstance(number, int) or not isinstance(line, str):
        raise ValueError(f"the fact {number!r} is not text")
    try:
        fact: Any = decode_fact(line)
    except RecursionError as error:
        raise ValueError(f"the fact {number} is nested too deeply") from error
    if not isinstance(fact, TaskEvent):
        raise ValueError(f"the fact {number} is not about a task, but {fact.fact}")
    return fact.replace(number=number)


def select(
    cursor: sqlite3.Cursor, where: str, values: Iterable[object], columns: str = ""
) -> Iterator[tuple[Any, ...]]:
    """Yield the numbers and lines of the facts with this condition, in order, and further columns."""
    rows = cursor.execute(f"SELECT number, fact{columns} FROM facts WHERE {where} ORDER BY number", tuple(values))  # noqa: S608
    return iter(rows.fetchall())
