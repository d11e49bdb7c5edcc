"""`Statements`: counts what SQLAlchemy does in this process, by the fleet and by DBOS alike."""

import threading
import time
from typing import Any, NamedTuple

from sqlalchemy import Engine, event
from sqlalchemy.pool import Pool

WRITES = ("INSERT", "UPDATE", "DELETE")


class Counts(NamedTuple):
    """What was done so far."""

    statements: int
    writes: int
    """Statements that write."""
    transactions: int
    """That wrote something."""
    seconds: float
    """For which connections were in use."""


class Statements:
    """Listens to all engines, from its construction on."""

    def __init__(self) -> None:
        self._statements = self._writes = self._transactions = 0
        self._seconds = 0.0
        self._lock = threading.Lock()
        event.listen(Engine, "before_cursor_execute", self._on_statement)
        event.listen(Engine, "commit", self._on_commit)
        event.listen(Pool, "checkout", self._on_checkout)
        event.listen(Pool, "checkin", self._on_checkin)

    def counts(self) -> Counts:
        """Return what was done so far."""
        with self._lock:
            return Counts(self._statements, self._writes, self._transactions, self._seconds)

    def _on_statement(self, connection: Any, cursor: Any, statement: str, *rest: Any) -> None:
        is_write = statement.lstrip().upper().startswith(WRITES)
        with self._lock:
            self._statements += 1
            self._writes += is_write
        if is_write:
            connection.info["writes"] = True

    def _on_commit(self, connection: Any) -> None:
        with self._lock:
            self._transactions += bool(connection.info.pop("writes", False))

    def _on_checkout(self, dbapi: Any, record: Any, fairy: Any) -> None:
        record.info["since"] = time.perf_counter()

    def _on_checkin(self, dbapi: Any, record: Any) -> None:
        since = record.info.pop("since", None)
        if since is not None:
            with self._lock:
                self._seconds += time.perf_counter() - since
