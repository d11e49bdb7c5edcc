"""The tables of a fleet, in PostgreSQL. Times are in seconds since the epoch, by the clock of the database.

DBOS has separate tables, which this package does not touch.
"""

from typing import Final

from sqlalchemy import Column, Dialect, Float, Index, Integer, LargeBinary, MetaData, Table, Text, TypeDecorator, text

VERSION: Final = 6
"""The version of this schema."""
DBOS_SCHEMA: Final = "fleet_dbos"
"""The schema of DBOS's tables in PostgreSQL."""
DBOS_WORKFLOWS: Final = ("claude-agent-py-fleet.step", "claude-agent-py-fleet.scheduled")
"""The names of the fleet's workflows in DBOS."""
APPLICATION_VERSION: Final = "claude-agent-py-fleet-2"
"""Pinned: DBOS would derive it from the source, and workers of two releases could not run each other's workflows.
Change it when the arguments of the workflows change."""

ADDED: Final = (
    (2, "fleet_meta", "identity TEXT"),
    (2, "fleet_sessions", "workspace TEXT"),
    (3, "fleet_agents", "after_failure TEXT"),
    (4, "fleet_meta", "tenant_limit INTEGER"),
    (4, "fleet_sessions", "line INTEGER NOT NULL DEFAULT 0"),
    (4, "fleet_sessions", "place TEXT NOT NULL DEFAULT '*'"),
    (5, "fleet_workers", "release_at FLOAT"),
)
"""The columns that tables of an older version lack, and the version that brought them."""


class Prose(TypeDecorator[str]):
    """Text that somebody wrote, such as an error: the characters that a database refuses are replaced."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Replace NULs, which PostgreSQL refuses, and lone surrogates."""
        if value is None:
            return None
        return value.replace("\0", "\ufffd").encode("utf-8", "surrogatepass").decode("utf-8", "replace")


metadata: Final = MetaData()

meta: Final = Table(
    "fleet_meta",
    metadata,
    Column("version", Integer, nullable=False),
    # Identifies the fleet: a machine keeps the workspaces of each fleet apart.
    Column("identity", Text),
    # The limit of tenants without one of their own, as the last worker set it.
    Column("tenant_limit", Integer),
)

sessions: Final = Table(
    "fleet_sessions",
    metadata,
    Column("id", Text, primary_key=True),
    Column("agent", Text, nullable=False),
    Column("version", Text, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("state", Text, nullable=False),
    # The requested action for the worker: interrupt or cancel.
    Column("wanted", Text),
    Column("worker", Text),
    # Grows with every claim, so that a worker with an older epoch can write nothing.
    Column("epoch", Integer, nullable=False, default=0),
    # The current workflow is `<cli_session>:<step>`; the engine may still have earlier ones, which do nothing.
    Column("step", Integer, nullable=False, default=0),
    # Whether a queued session has a workflow; see `_line`.
    Column("line", Integer, nullable=False, default=0),
    # The machine that may run it, or `*`.
    Column("place", Text, nullable=False, default="*"),
    # Its last worker died.
    Column("is_orphan", Integer, nullable=False, default=0),
    Column("queued_at", Float, nullable=False),
    Column("not_before", Float, nullable=False, default=0.0),
    # The machine with the workspace.
    Column("machine", Text),
    # The path of the workspace there.
    Column("workspace", Text),
    Column("cli_session", Text, nullable=False),
    Column("runs", Integer, nullable=False, default=0),
    Column("events", Integer, nullable=False, default=0),
    # The last written batch of events, so that a retry does not write it twice.
    Column("last_batch", Text),
    Column("reason", Prose),
    Column("created_at", Float, nullable=False),
    Column("updated_at", Float, nullable=False),
    Index("fleet_sessions_turns", "state", "tenant", "line", text("priority DESC"), "queued_at"),
    Index("fleet_sessions_work", "state", "line", "not_before"),
    Index("fleet_sessions_worker", "worker"),
    Index("fleet_sessions_machine", "machine", "state"),
    # For metrics.
    Index("fleet_sessions_counts", "state", "agent", "tenant"),
    # For lists, newest first.
    Index("fleet_sessions_created", "created_at"),
    Index("fleet_sessions_state", "state", "created_at"),
    Index("fleet_sessions_agent", "agent", "created_at"),
    Index("fleet_sessions_tenant", "tenant", "created_at"),
)

runs: Final = Table(
    "fleet_runs",
    metadata,
    Column("session", Text, primary_key=True),
    Column("number", Integer, primary_key=True),
    # Makes `send` idempotent.
    Column("key", Text),
    Column("prompt", Text, nullable=False),
    Column("uuid", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("timeout", Float),
    Column("deadline", Float),
    # Attempts that ended with an error.
    Column("attempts", Integer, nullable=False, default=0),
    Column("claims", Integer, nullable=False, default=0),
    # Workers that died while running it.
    Column("crashes", Integer, nullable=False, default=0),
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
    # Identifies a repeated question.
    Column("digest", Text, nullable=False),
    Column("request", Text, nullable=False),
    Column("agent_id", Text),
    Column("state", Text, nullable=False),
    Column("reply", Text),
    Column("answered_by", Prose),
    Column("answered_from", Text),
    Column("created_at", Float, nullable=False),
    Index("fleet_interactions_session", "session", "state"),
    Index("fleet_interactions_state", "state", "created_at"),
)

workers: Final = Table(
    "fleet_workers",
    metadata,
    Column("id", Text, primary_key=True),
    Column("machine", Text, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("slots", Integer, nullable=False),
    Column("memory", Integer),
    Column("memory_used", Integer, nullable=False, default=0),
    Column("is_draining", Integer, nullable=False, default=0),
    # When a worker that drains releases what still runs.
    Column("release_at", Float),
    Column("started_at", Float, nullable=False),
    Column("expires_at", Float, nullable=False),
)

abilities: Final = Table(
    "fleet_abilities",
    metadata,
    # An agent that a worker runs.
    Column("worker", Text, primary_key=True),
    Column("agent", Text, primary_key=True),
    Column("version", Text, primary_key=True),
)

agents: Final = Table(
    "fleet_agents",
    metadata,
    Column("name", Text, primary_key=True),
    Column("version", Text, primary_key=True),
    Column("timeout", Float),
    # What happens to the prompts behind one that failed.
    Column("after_failure", Text),
    Column("registered_at", Float, nullable=False),
)

tenants: Final = Table(
    "fleet_tenants",
    metadata,
    Column("name", Text, primary_key=True),
    Column("session_limit", Integer),
    Column("weight", Float, nullable=False),
)

leftovers: Final = Table(
    "fleet_leftovers",
    metadata,
    # A conversation of a deleted session, until the store has deleted it too.
    Column("conversation", Text, primary_key=True),
)

archives: Final = Table(
    "fleet_archives",
    metadata,
    Column("session", Text, primary_key=True),
    Column("part", Integer, primary_key=True),
    Column("data", LargeBinary, nullable=False),
)

totals: Final = Table(
    "fleet_totals",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("value", Float, nullable=False),
)

audit: Final = Table(
    "fleet_audit",
    metadata,
    # Rows are never changed, and only deleted with their session.
    Column("number", Integer, primary_key=True),
    # Identifies the command, so that a retry does not record it twice.
    Column("key", Text, nullable=False, unique=True),
    Column("at", Float, nullable=False),
    Column("actor", Prose, nullable=False),
    Column("origin", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("session", Text),
    Column("details", Text, nullable=False),
    Index("fleet_audit_session", "session", "number"),
)
