"""Delete old sessions with all their rows and conversations, and old events."""

import json
from typing import Final

from claude_agent_py._base.log import logger
from claude_agent_py.fleet._events import PROJECT
from claude_agent_py.fleet._local._file import FleetFile, Row, Transaction, as_list
from claude_agent_py.fleet._local._rows import record
from claude_agent_py.permissions import AnswerSource
from claude_agent_py.sessions import SessionStore, implements

BATCH: Final = 50
"""How many sessions one transaction deletes."""


async def prune(file: FleetFile, store: SessionStore | None, seconds: float) -> list[Row]:
    """Delete sessions that ended long ago, and their conversations if a store is given. Return the deleted sessions.

    Raises:
        FleetError: The database does not answer.
    """
    pruned: list[Row] = []
    while batch := await file.write(_prune_sessions, seconds):
        pruned += batch
    if store is None:
        return pruned
    done: list[str] = []
    for row in await file.read(lambda tx: tx.all("SELECT conversation FROM fleet_leftovers")):
        try:
            if implements(store, "delete"):
                await store.delete(  # type: ignore[attr-defined]
                    {"project_key": PROJECT, "session_id": row["conversation"]}
                )
            done.append(row["conversation"])
        except Exception as error:  # a store of any make
            logger.warning("the conversation %s could not be deleted yet: %s", row["conversation"], error)
    forget = "DELETE FROM fleet_leftovers WHERE conversation IN (SELECT value FROM json_each(?))"
    await file.write(lambda tx: tx.run(forget, as_list(done)))
    return pruned


def _prune_sessions(tx: Transaction, seconds: float) -> list[Row]:
    """Delete and return a batch of sessions that have not changed for `seconds`, oldest first."""
    old = "SELECT * FROM fleet_sessions WHERE state IN ('idle', 'failed', 'cancelled') AND updated_at <= ?"
    found = tx.all(f"{old} ORDER BY updated_at LIMIT {BATCH}", tx.now - seconds)
    for row in found:
        tx.insert("fleet_leftovers", {"conversation": row["cli_session"]})
        for table in ("events", "deltas", "interactions", "runs", "audit"):
            tx.run(f"DELETE FROM fleet_{table} WHERE session = ?", row["id"])  # noqa: S608 - our names
        tx.run("DELETE FROM fleet_sessions WHERE id = ?", row["id"])
    return found


async def prune_events(file: FleetFile, seconds: float, session: str | None, by: AnswerSource | None) -> int:
    """Delete old events of one session or of all, and return how many. Raises FleetError as `prune` does."""
    old = (
        "SELECT id FROM fleet_sessions s WHERE id = coalesce(?, id) AND created_at <= ? AND ? >= "
        "(SELECT at FROM fleet_events WHERE session = s.id AND kind != 'pruned' ORDER BY number LIMIT 1)"
    )
    found = await file.read(lambda tx: tx.all(old, session, tx.now - seconds, tx.now - seconds))
    return sum([await file.write(_prune_events, row["id"], seconds, by) for row in found])


def _prune_events(tx: Transaction, session: str, seconds: float, by: AnswerSource | None) -> int:
    """Replace the old events of a session by one that says so. Those of the current prompt are kept."""
    row = tx.one("SELECT events FROM fleet_sessions WHERE id = ?", session)
    kept = tx.value(
        "SELECT min(number) FROM fleet_events WHERE session = ?1 AND kind != 'pruned' AND (at > ?2 OR run >= "
        "(SELECT min(number) FROM fleet_runs WHERE session = ?1 AND state IN ('queued', 'running')))",
        *(session, tx.now - seconds),
    )
    if row is None:
        return 0
    last = row["events"] if kept is None else kept - 1
    is_old = "session = ? AND number <= ?"
    deleted = tx.run(f"DELETE FROM fleet_events WHERE {is_old} AND kind != 'pruned'", session, last)  # noqa: S608
    if deleted:
        tx.run(f"DELETE FROM fleet_events WHERE {is_old}", session, last)  # noqa: S608
        told = {"session": session, "number": last, "run": 0, "kind": "pruned", "at": tx.now}
        tx.insert("fleet_events", {**told, "data": json.dumps({"first": 1, "last": last})})
        if by is not None:
            record(tx, "prune_events", by, session, older_than=seconds, events=deleted)
    return deleted
