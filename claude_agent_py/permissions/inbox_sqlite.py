"""An inbox in an SQLite file that other processes can read and answer.

The asking session writes a row, polls for an answer and updates a heartbeat; the first process to update the pending
row answers. Write access to the file allows approving tool calls, so only one user may have it.
"""

import contextlib
import json
import os
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import anyio

from claude_agent_py._base.errors import OptionsError
from claude_agent_py._base.event_loop import run_file_work, run_to_its_end
from claude_agent_py._base.kept_alive import KeptAlive
from claude_agent_py._base.private_files import WRITERS, check_parent, make_private
from claude_agent_py._base.shared_sqlite import MAGIC, open_shared, transact
from claude_agent_py._base.streams import Polling
from claude_agent_py.permissions.inbox import WaitingInbox
from claude_agent_py.permissions.interactions import AnswerSource, Interaction
from claude_agent_py.permissions.prompts import Kind
from claude_agent_py.permissions.question_records import QuestionRecord
from claude_agent_py.wire.base import JSONObject

ALIVE_FOR: Final = 15.0
"""Seconds without a heartbeat after which a question counts as abandoned."""
HEARTBEAT_INTERVAL: Final = 3.0
KEPT_FOR: Final = 24 * 3600.0
"""Seconds that settled questions stay in the file."""

_WORKER: Final = "claude_agent_py question"
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS interactions (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    request TEXT NOT NULL,
    agent_id TEXT,
    task_description TEXT,
    created_at REAL NOT NULL,
    deadline REAL,
    seen_at REAL NOT NULL,
    state TEXT NOT NULL DEFAULT 'pending',
    reply TEXT,
    answered_by TEXT,
    answered_from TEXT,
    session_id TEXT
)
"""
_VERSION: Final = 2
_ATTRIBUTES: Final = ("id", "created_at", "deadline", "session_id", "agent_id", "task_description")
"""Columns with the attributes of an `Interaction`."""
_IS_PENDING: Final = "state = 'pending' AND seen_at > ?"

Result = TypeVar("Result")


class SQLiteInbox(WaitingInbox["StoredInteraction"]):
    """An inbox in a file, for the asking session and for answering processes.

    Args:
        path: The file; created if missing, readable and writable by this user only.
        timeout: Seconds after which a question is refused; None means never.
        poll: Seconds between checks for an answer.

    Raises:
        OptionsError: Other users can write or replace the file, or it is not an inbox.
    """

    def __init__(self, path: str | os.PathLike[str], *, timeout: float | None = None, poll: float = 0.2) -> None:
        self.path: Path = Path(path).expanduser()
        super().__init__(timeout=timeout)
        self._poll = poll
        _make_private(self.path)
        try:
            with contextlib.closing(open_shared(self.path, [_SCHEMA], version=_VERSION)) as database:
                transact(database, _delete_old)
        except sqlite3.DatabaseError as error:
            raise OptionsError(f"{self.path} cannot be used as an inbox: {error}", option="interactions") from error

    def __iter__(self) -> Iterator[Interaction]:
        """Iterate over pending questions, oldest first. Reads the file."""
        pending = f"SELECT * FROM interactions WHERE {_IS_PENDING} ORDER BY created_at"  # noqa: S608 - a constant
        return iter([StoredInteraction.read(self, row) for row in self._execute(pending, (time.time() - ALIVE_FOR,))])

    def arrivals(self) -> AsyncIterator[Interaction]:
        """Iterate over pending questions, then new ones. Never ends. Checks the file every `poll` seconds."""
        seen: set[str] = set()

        async def read() -> list[Interaction]:
            waiting = await run_file_work(list, self)
            seen.intersection_update(interaction.id for interaction in waiting)
            # Only one: the others may be settled before the next is wanted.
            new = [interaction for interaction in waiting if interaction.id not in seen][:1]
            seen.update(interaction.id for interaction in new)
            return new

        return Polling(read, (self._poll, self._poll))

    # Asking ------------------------------------------------------------------------------------------------------

    def _make(self, kind: Kind, wire: object, **about: object) -> "StoredInteraction":
        return StoredInteraction(self, kind, wire, **about)

    async def _open(self, question: "StoredInteraction") -> None:
        row = {name: getattr(question, name) for name in ("kind", *_ATTRIBUTES)}
        record = QuestionRecord.of(question.kind, question.wire)
        row |= {"request": json.dumps(record.request), "seen_at": question.created_at}
        values = ", ".join(f":{column}" for column in row)
        insert = f"INSERT INTO interactions ({', '.join(row)}) VALUES ({values})"  # noqa: S608 - our names
        try:
            await run_to_its_end(lambda: run_file_work(self._execute, insert, row), name=_WORKER)
        except anyio.get_cancelled_exc_class():
            await self._close(question)
            raise

    async def _wait(self, question: "StoredInteraction") -> None:
        sign = partial(self._sign, question.id)
        async with KeptAlive(lambda: run_file_work(sign), HEARTBEAT_INTERVAL, "a question"):
            while await run_file_work(self._read_state, question.id) == "pending":  # noqa: ASYNC110
                await anyio.sleep(self._poll)

    def _sign(self, interaction_id: str) -> None:
        self._execute("UPDATE interactions SET seen_at = ? WHERE id = ?", (time.time(), interaction_id))

    def _read_state(self, interaction_id: str) -> str | None:
        rows = self._execute("SELECT state FROM interactions WHERE id = ?", (interaction_id,))
        return rows[0]["state"] if rows else None

    async def _close(self, question: "StoredInteraction") -> tuple[JSONObject | None, AnswerSource | None]:
        withdraw = "UPDATE interactions SET state = 'withdrawn' WHERE id = ? AND state = 'pending'"
        row: Any = None

        def close(cursor: sqlite3.Cursor) -> None:
            nonlocal row
            cursor.execute(withdraw, (question.id,))
            row = cursor.execute("SELECT * FROM interactions WHERE id = ?", (question.id,)).fetchone()

        await run_to_its_end(lambda: run_file_work(self._run, close), name=_WORKER)
        if row is None or row["reply"] is None:
            return None, None
        source = AnswerSource(str(row["answered_by"] or ""), str(row["answered_from"] or ""))
        return QuestionRecord.of(question.kind, question.wire).check(row["reply"]), source

    # Answering ---------------------------------------------------------------------------------------------------

    def _settle(self, interaction_id: str, reply: JSONObject, source: AnswerSource) -> bool:
        """Record an answer and return whether the question was still pending."""
        answer = "state = 'answered', reply = ?, answered_by = ?, answered_from = ?"
        values = (json.dumps(reply), source.by, source.origin, interaction_id, time.time() - ALIVE_FOR)
        update = f"UPDATE interactions SET {answer} WHERE id = ? AND {_IS_PENDING}"  # noqa: S608 - constants
        return self._run(lambda cursor: cursor.execute(update, values).rowcount == 1)

    def _execute(self, statement: str, values: Any) -> list[sqlite3.Row]:
        return self._run(lambda cursor: cursor.execute(statement, values).fetchall())

    def _run(self, work: Callable[[sqlite3.Cursor], Result]) -> Result:
        with contextlib.closing(sqlite3.connect(self.path, timeout=10)) as database:
            database.row_factory = sqlite3.Row
            return transact(database, work)


class StoredInteraction(Interaction):
    """A question in a file."""

    def __init__(self, inbox: SQLiteInbox, kind: Kind, wire: Any, **about: Any) -> None:
        super().__init__(kind, wire, **about)
        self._inbox = inbox

    @classmethod
    def read(cls, inbox: SQLiteInbox, row: sqlite3.Row | JSONObject) -> "StoredInteraction":
        """Return the question in a row of the file."""
        record = QuestionRecord(kind=row["kind"], request=json.loads(row["request"]))
        return cls(inbox, record.kind, record.wire, **{name: row[name] for name in _ATTRIBUTES})

    @property
    def done(self) -> bool:
        """Whether the question was answered, refused or withdrawn. Reads the file."""
        return self._inbox._read_state(self.id) != "pending"

    def _settle(self, reply: JSONObject, source: AnswerSource) -> bool:
        return self._inbox._settle(self.id, reply, source)


def _delete_old(cursor: sqlite3.Cursor) -> None:
    long_ago = time.time() - KEPT_FOR
    cursor.execute("DELETE FROM interactions WHERE created_at < ? AND seen_at < ?", (long_ago, long_ago))


def _make_private(path: Path) -> None:
    """Create the file for this user only. Reject another file, and one that other users may write or replace."""
    try:
        check_parent(path.parent, writers=WRITERS)
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR | getattr(os, "O_NOFOLLOW", 0), 0o600)
        try:
            os.lseek(descriptor, 0, os.SEEK_SET)  # raises for a pipe, which would have to be waited for
            if os.read(descriptor, len(MAGIC)) not in (MAGIC, b""):
                raise OptionsError(f"{path} is not an inbox: it is not a database", option="interactions")
            make_private(descriptor, is_trusted=True)
        finally:
            os.close(descriptor)
    except OSError as error:
        reason = error.strerror or str(error)
        raise OptionsError(f"the inbox {path} cannot be opened: {reason}", option="interactions") from error
