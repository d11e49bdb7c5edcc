"""The tables of a local fleet. Times are in seconds since the epoch, by the clock of the file."""

from typing import Final

VERSION: Final = 9
"""The version of the tables. Files of earlier ones are refused."""

SCHEMA: Final = (
    # Its only row. `turn` is the turn of the tenant that had one last.
    """CREATE TABLE IF NOT EXISTS fleet_meta (
        identity TEXT NOT NULL, tenant_limit INTEGER, turn REAL NOT NULL DEFAULT 0)""",
    # `epoch` grows with every claim: a worker with an older one has lost the session. `wanted` is interrupt or cancel.
    """CREATE TABLE IF NOT EXISTS fleet_sessions (
        id TEXT PRIMARY KEY, agent TEXT NOT NULL, version TEXT NOT NULL, title TEXT NOT NULL, tenant TEXT NOT NULL,
        priority INTEGER NOT NULL, state TEXT NOT NULL, wanted TEXT, worker TEXT, epoch INTEGER NOT NULL DEFAULT 0,
        queued_at REAL NOT NULL, not_before REAL NOT NULL DEFAULT 0, machine TEXT, folder TEXT, workspace TEXT,
        cli_session TEXT NOT NULL, runs INTEGER NOT NULL DEFAULT 0, events INTEGER NOT NULL DEFAULT 0, reason TEXT,
        created_at REAL NOT NULL, updated_at REAL NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS fleet_sessions_turns ON fleet_sessions (state, agent, tenant)",
    "CREATE INDEX IF NOT EXISTS fleet_sessions_worker ON fleet_sessions (worker)",
    "CREATE INDEX IF NOT EXISTS fleet_sessions_created ON fleet_sessions (created_at)",
    "CREATE INDEX IF NOT EXISTS fleet_sessions_state ON fleet_sessions (state, created_at)",
    "CREATE INDEX IF NOT EXISTS fleet_sessions_agent ON fleet_sessions (agent, created_at)",
    "CREATE INDEX IF NOT EXISTS fleet_sessions_tenant ON fleet_sessions (tenant, created_at)",
    # `key` makes `send` idempotent. `attempts` failed and `crashes` killed a worker.
    """CREATE TABLE IF NOT EXISTS fleet_runs (
        session TEXT NOT NULL, number INTEGER NOT NULL, key TEXT, prompt TEXT NOT NULL, uuid TEXT NOT NULL,
        state TEXT NOT NULL, timeout REAL, deadline REAL, attempts INTEGER NOT NULL DEFAULT 0,
        crashes INTEGER NOT NULL DEFAULT 0, result TEXT, created_at REAL NOT NULL, started_at REAL, ended_at REAL,
        PRIMARY KEY (session, number)) WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS fleet_runs_deadline ON fleet_runs (state, deadline)",
    """CREATE TABLE IF NOT EXISTS fleet_events (
        session TEXT NOT NULL, number INTEGER NOT NULL, run INTEGER NOT NULL, kind TEXT NOT NULL, at REAL NOT NULL,
        data TEXT NOT NULL, PRIMARY KEY (session, number))""",
    # What the model of a running session writes. Once an event has it, `whole` is the number of that or a later one.
    """CREATE TABLE IF NOT EXISTS fleet_deltas (
        number INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT NOT NULL, kind TEXT NOT NULL, id TEXT NOT NULL,
        text TEXT NOT NULL, whole INTEGER, whole_at REAL)""",
    "CREATE INDEX IF NOT EXISTS fleet_deltas_session ON fleet_deltas (session, number)",
    "CREATE INDEX IF NOT EXISTS fleet_deltas_whole ON fleet_deltas (whole_at) WHERE whole_at IS NOT NULL",
    # A question is pending, answered, taken or withdrawn.
    """CREATE TABLE IF NOT EXISTS fleet_interactions (
        id TEXT PRIMARY KEY, session TEXT NOT NULL, digest TEXT NOT NULL, record TEXT NOT NULL, state TEXT NOT NULL,
        reply TEXT, created_at REAL NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS fleet_interactions_session ON fleet_interactions (session, state)",
    "CREATE INDEX IF NOT EXISTS fleet_interactions_state ON fleet_interactions (state, created_at)",
    # A worker whose `beats` stay the same for its lease is dead. `expires_at` only says so to people.
    """CREATE TABLE IF NOT EXISTS fleet_workers (
        id TEXT PRIMARY KEY, machine TEXT NOT NULL, pid INTEGER NOT NULL, slots INTEGER NOT NULL, memory INTEGER,
        memory_used INTEGER NOT NULL DEFAULT 0, is_draining INTEGER NOT NULL DEFAULT 0, release_at REAL,
        started_at REAL NOT NULL, expires_at REAL NOT NULL, lease REAL NOT NULL, beats INTEGER NOT NULL DEFAULT 0)""",
    """CREATE TABLE IF NOT EXISTS fleet_abilities (
        worker TEXT NOT NULL, agent TEXT NOT NULL, version TEXT NOT NULL, PRIMARY KEY (worker, agent, version))""",
    """CREATE TABLE IF NOT EXISTS fleet_agents (
        name TEXT NOT NULL, version TEXT NOT NULL, timeout REAL, after_failure TEXT NOT NULL,
        registered_at REAL NOT NULL, PRIMARY KEY (name, version))""",
    "CREATE TABLE IF NOT EXISTS fleet_tenants (name TEXT PRIMARY KEY, session_limit INTEGER, weight REAL NOT NULL)",
    # Tenants with a lower turn are first. Each claim raises it by 1 / weight.
    "CREATE TABLE IF NOT EXISTS fleet_turns (tenant TEXT PRIMARY KEY, turn REAL NOT NULL)",
    """CREATE TABLE IF NOT EXISTS fleet_schedules (
        name TEXT PRIMARY KEY, cron TEXT NOT NULL, timezone TEXT, agent TEXT NOT NULL, prompt TEXT NOT NULL,
        tenant TEXT NOT NULL, priority INTEGER NOT NULL, timeout REAL, next_at REAL NOT NULL)""",
    # A conversation of a deleted session, until the store has deleted it too.
    "CREATE TABLE IF NOT EXISTS fleet_leftovers (conversation TEXT PRIMARY KEY)",
    # Sums that outlive the sessions.
    """CREATE TABLE IF NOT EXISTS fleet_totals (
        tenant TEXT NOT NULL, name TEXT NOT NULL, value REAL NOT NULL, PRIMARY KEY (tenant, name))""",
    """CREATE TABLE IF NOT EXISTS fleet_audit (
        number INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, actor TEXT NOT NULL, origin TEXT NOT NULL,
        action TEXT NOT NULL, session TEXT, details TEXT NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS fleet_audit_session ON fleet_audit (session, number)",
)
