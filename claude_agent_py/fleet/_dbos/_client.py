"""The engine, DBOS, for every process: a client that puts workflows into its queues, and its tables."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from dbos import DBOSClient, DBOSPortableJSONSerializer
from sqlalchemy import Engine, text

from claude_agent_py.fleet._dbos._tables import DBOS_SCHEMA

NAME: Final = "claude-agent-py-fleet"
LAUNCH_LOCK: Final = 7_236_111
"""The advisory lock of PostgreSQL for starting DBOS."""
PAUSE: Final = 0.05
"""Seconds between attempts to get it."""


def open_client(engine: Engine) -> DBOSClient:
    """Return a client of the engine on the fleet's connections. It does not connect yet."""
    return DBOSClient(
        system_database_engine=engine,
        dbos_system_schema=DBOS_SCHEMA,
        application_name=NAME,
        serializer=DBOSPortableJSONSerializer(),
        lazy=True,
        retry_connection_errors=False,
    )


def make_tables(engine: Engine, client: DBOSClient) -> None:
    """Create or update the engine's tables. Blocks."""
    with _launching(engine):
        client._sys_db.run_migrations()


@contextmanager
def _launching(engine: Engine) -> Iterator[None]:
    """Create the tables of DBOS in PostgreSQL in this context: one process at a time does. Blocks.

    The lock of DBOS is one of the session, which excludes nobody behind a pooler in transaction mode.
    """
    with engine.connect() as connection:
        try:
            # To wait in the statement would be a deadlock: DBOS creates indexes, which waits for other statements.
            while not connection.scalar(text(f"SELECT pg_try_advisory_xact_lock({LAUNCH_LOCK})")):
                connection.rollback()
                time.sleep(PAUSE)
            yield
        finally:
            # The server may have closed it, if DBOS took long.
            connection.invalidate()
