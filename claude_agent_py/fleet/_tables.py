"""The tables of a fleet, for SQLite and PostgreSQL. Times are in seconds since the epoch, by the clock of the database.

Beside them, DBOS keeps its own tables, which this package does not touch.
"""

from typing import Final

from sqlalchemy import Column, Float, Index, Integer, LargeBinary, MetaData, Table, Text, text

VERSION: Final = 1
"""The version of this schema."""
DBOS_SCHEMA: Final = "fleet_dbos"
"""Of DBOS's tables in PostgreSQL."""
DBOS_WORKFLOWS: Final = ("claude-agent-py-fleet.step", "claude-agent-py-fleet.scheduled")
"""The workflows of a fleet, by DBOS's names."""

metadata: Final = MetaData()

meta: Final = Table("fleet_meta", metadata, Column("version", Integer, nullable=False))

sessions: Final = Table(
    "fleet_sessions",
    metadata,
    Column("id", Text, primary_key=True),
    Column("agent", Text, nullable=False),
    Column("version", Text, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("state", Text, nullable=False),
    Column("wanted", Text),  # what the worker that runs it is to do: interrupt, cancel
    Column("worker", Text),
    Column("epoch", Integer, nullable=False),  # grows with every claim; a worker with an earlier one writes nothing
    Column("step", Integer, nullable=False),  # the workflow of the current claim is `<id>:<step>`
    Column("is_orphan", Integer, nullable=False),  # the worker died; its workflow is resumed
    Column("queued_at", Float, nullable=False),
    Column("not_before", Float, nullable=False),
    Column("machine", Text),  # has the workspace
    Column("cli_session", Text, nullable=False),
    Column("runs", Integer, nullable=False),
    Column("events", Integer, nullable=False),
    Column("last_batch", Text),  # of events, so that none comes twice
    Column("reason", Text),
    Column("created_at", Float, nullable=False),
    Column("updated_at", Float, nullable=False),
    Index("fleet_sessions_queued", "state", "agent", "version", "tenant", text("priority DESC"), "queued_at"),
    Index("fleet_sessions_worker", "worker"),
)

runs: Final = Table(
    "fleet_runs",
    metadata,
    Column("session", Text, primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("key", Text),  # makes `send` idempotent
    Column("prompt", Text, nullable=False),
    Column("uuid", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("timeout", Float),
    Column("deadline", Float),
    Column("attempts", Integer, nullable=False),  # that ended with an error
    Column("claims", Integer, nullable=False),
    Column("crashes", Integer, nullable=False),  # workers that died at it
    Column("result", Text),
    Column("created_at", Float, nullable=False),
    Column("started_at", Float),
    Column("ended_at", Float),
    Index("fleet_runs_deadline", "state", "deadline"),
)

events: Final = Table(
    "fleet_events",
    metadata,
    Column("session", Text, primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("run", Integer, nullable=False),
    Column("kind", Text, nullable=False),
    Column("at", Float, nullable=False),
    Column("data", Text, nullable=False),
)

interactions: Final = Table(
    "fleet_interactions",
    metadata,
    Column("id", Text, primary_key=True),
    Column("session", Text, nullable=False),
    Column("run", Integer, nullable=False),
    Column("kind", Text, nullable=False),
    Column("digest", Text, nullable=False),  # of what is asked, to know it again
    Column("request", Text, nullable=False),
    Column("agent_id", Text),
    Column("state", Text, nullable=False),
    Column("reply", Text),
    Column("answered_by", Text),
    Column("answered_from", Text),
    Column("created_at", Float, nullable=False),
    Index("fleet_interactions_session", "session", "state"),
)

workers: Final = Table(
    "fleet_workers",
    metadata,
    Column("id", Text, primary_key=True),
    Column("machine", Text, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("slots", Integer, nullable=False),
    Column("memory", Integer),
    Column("memory_used", Integer, nullable=False),
    Column("is_draining", Integer, nullable=False),
    Column("started_at", Float, nullable=False),
    Column("expires_at", Float, nullable=False),
)

agents: Final = Table(
    "fleet_agents",
    metadata,
    Column("name", Text, primary_key=True),
    Column("version", Text, primary_key=True),
    Column("timeout", Float),
    Column("registered_at", Float, nullable=False),
)

tenants: Final = Table(
    "fleet_tenants",
    metadata,
    Column("name", Text, primary_key=True),
    Column("session_limit", Integer),
    Column("weight", Float, nullable=False),
    Column("began", Float),  # its last turn; see `_choosing`
)

archives: Final = Table(
    "fleet_archives",
    metadata,
    Column("session", Text, primary_key=True),
    Column("part", Integer, primary_key=True),
    Column("data", LargeBinary, nullable=False),
)
