"""Sessions in the tables: `changing` loads one, and stores what a block has changed, with events."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Final

from claude_agent_py._base.errors import FleetError
from claude_agent_py.fleet._events import NewDeltas, NewEvent
from claude_agent_py.fleet._local._file import Row, Transaction, decode
from claude_agent_py.fleet._state import FleetPrompt, FleetQuestion, SessionRecord
from claude_agent_py.permissions import AnswerSource

DELTA_SECONDS: Final = 5.0
"""Seconds during which the deltas of what is whole are kept, for those who read them one after the other."""
SESSION_COLUMNS: Final = (
    *("id", "agent", "version", "tenant", "priority", "state", "wanted", "reason", "worker", "epoch"),
    *("machine", "workspace", "not_before", "runs", "created_at", "updated_at"),
)
RUN_COLUMNS: Final = (
    *("number", "uuid", "timeout", "deadline", "state", "attempts", "crashes", "started_at", "ended_at"),
)


def record(tx: Transaction, action: str, by: AnswerSource, session: str | None = None, **details: object) -> None:
    """Add an entry to the audit log."""
    entry = {"at": tx.now, "actor": by.by, "origin": by.origin, "action": action, "session": session}
    tx.insert("fleet_audit", {**entry, "details": json.dumps(details)})


def add_to_total(tx: Transaction, tenant: str, name: str, amount: float) -> None:
    """Add to a sum that outlives the sessions."""
    statement = "INSERT INTO fleet_totals VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET value = value + excluded.value"
    tx.run(statement, tenant, name, amount)


def add_events(tx: Transaction, session: str, new: Sequence[tuple[int, NewEvent]]) -> None:
    """Append events, each with the number of its prompt."""
    number = tx.value("SELECT events FROM fleet_sessions WHERE id = ?", session)
    tx.update("fleet_sessions", {"id": session}, events=number + len(new))
    rows = [
        {"session": session, "number": number + i, "run": run, "kind": kind, "at": at, "data": json.dumps(data)}
        for i, (run, (kind, at, data)) in enumerate(new, 1)
    ]
    if rows:
        tx.insert("fleet_events", *rows)


def add_deltas(tx: Transaction, session: str, new: NewDeltas) -> None:
    """Append deltas, after what is whole is marked."""
    for part in new.whole:
        close_deltas(tx, session, part)
    events = tx.value("SELECT events FROM fleet_sessions WHERE id = ?", session)
    written = [(delta, events, tx.now) for delta in new.last] + [(delta, None, None) for delta in new.open]
    rows = [{"session": session, **delta._asdict(), "whole": whole, "whole_at": at} for delta, whole, at in written]
    if rows:
        tx.insert("fleet_deltas", *rows)


def close_deltas(tx: Transaction, session: str, part: str | None = None) -> None:
    """Mark the deltas of a message or a call, or all, as whole. Those who read them now still get them."""
    tx.run(
        "UPDATE fleet_deltas SET whole = (SELECT events FROM fleet_sessions WHERE id = ?1), whole_at = ?2 "
        "WHERE session = ?1 AND whole IS NULL AND id = coalesce(?3, id)",
        *(session, tx.now, part),
    )


def delete_old_deltas(tx: Transaction) -> None:
    """Delete the deltas of what has been whole for some time, of all sessions: their workers may have ended."""
    tx.run("DELETE FROM fleet_deltas WHERE whole_at < ?", tx.now - DELTA_SECONDS)


def load_session(tx: Transaction, session: str) -> Row:
    """Return the row of a session. Raises FleetError if it does not exist."""
    row = tx.one("SELECT * FROM fleet_sessions WHERE id = ?", session)
    if row is None:
        raise FleetError(f"the fleet has no session {session!r}", session_id=session)
    return row


@contextmanager
def changing(tx: Transaction, session: str) -> Iterator[SessionRecord]:
    """Load a session with its open prompts and questions, and store what the block changes, with events.

    Raises:
        FleetError: The session does not exist.
    """
    row = load_session(tx, session)
    rules = "SELECT timeout, after_failure FROM fleet_agents WHERE name = ? AND version = ?"
    s = SessionRecord(
        conversation=row["cli_session"],
        prompts=_load_prompts(tx, session),
        questions=load_questions(tx, session),
        **{name: row[name] for name in SESSION_COLUMNS},
        **(tx.one(rules, row["agent"], row["version"]) or {}),
    )
    before = deepcopy(s)
    yield s
    changed, events = _store_prompts(tx, before, s)
    run = changed or (s.runs if s.current is None else s.current.number)
    events = [(run, event) for event in _store_questions(tx, before, s, run)] + events
    if s.state != before.state:
        if before.state == "running":  # what was not written to its end stays so
            close_deltas(tx, session)
        if s.state == "queued":
            _queue(tx, s)
        events.append((run, ("state", tx.now, {"state": s.state, **({"reason": s.reason} if s.reason else {})})))
    if events:
        s.updated_at = tx.now
        add_events(tx, session, events)
    changes = {name: value for name in SESSION_COLUMNS if (value := getattr(s, name)) != getattr(before, name)}
    if changes:
        tx.update("fleet_sessions", {"id": session}, **changes)


def _load_prompts(tx: Transaction, session: str) -> list[FleetPrompt]:
    """Return the prompts that have not ended, and before them those that failed last."""
    query = (
        "SELECT * FROM fleet_runs WHERE session = ?1 AND number > coalesce((SELECT number FROM fleet_runs "
        "WHERE session = ?1 AND state IN ('done', 'cancelled') ORDER BY number DESC LIMIT 1), 0) ORDER BY number"
    )
    return [
        FleetPrompt(content=row["prompt"], result=decode(row["result"]), **{name: row[name] for name in RUN_COLUMNS})
        for row in tx.all(query, session)
    ]


def _store_prompts(
    tx: Transaction, before: SessionRecord, s: SessionRecord
) -> tuple[int | None, list[tuple[int, NewEvent]]]:
    """Store changed prompts. Return the number of the first one, and the events."""
    old = {prompt.number: prompt for prompt in before.prompts}
    keys = {number: key for key, number in s.keys.items()}
    changed = [prompt for prompt in s.prompts if prompt != old.get(prompt.number)]
    events: list[tuple[int, NewEvent]] = []
    for prompt in changed:
        columns: Row = {name: getattr(prompt, name) for name in RUN_COLUMNS}
        columns["result"] = json.dumps(prompt.result) if prompt.result else None
        was = old.get(prompt.number)
        told: Row = {"run": prompt.number, "state": prompt.state}
        if was is None:
            given = {"key": keys.get(prompt.number), "prompt": prompt.content, "created_at": tx.now}
            tx.insert("fleet_runs", {"session": s.id, **columns, **given})
        else:
            tx.update("fleet_runs", {"session": s.id, "number": prompt.number}, **columns)
            if prompt.ended_at is not None:
                told |= {"text": prompt.result.get("text", ""), "reason": prompt.result.get("reason", "")}
            elif was.started_at is None and prompt.started_at is not None:
                told["worker"] = s.worker
            else:
                continue
        events.append((prompt.number, ("run", tx.now, told)))
    return (changed[0].number if changed else None), events


def load_questions(tx: Transaction, session: str) -> list[FleetQuestion]:
    """Return the open questions of a session."""
    query = "SELECT * FROM fleet_interactions WHERE session = ? AND state IN ('pending', 'answered')"
    return [read_question(row) for row in tx.all(f"{query} ORDER BY created_at", session)]


def read_question(row: Row) -> FleetQuestion:
    """Return a question of the table."""
    reply = None if row["reply"] is None else decode(row["reply"])
    return FleetQuestion(row["id"], row["digest"], decode(row["record"]), row["created_at"], reply)


def _store_questions(tx: Transaction, before: SessionRecord, s: SessionRecord, run: int) -> list[NewEvent]:
    """Store changed questions, and return the events."""
    events: list[Row] = []
    old, new = ({question.id: question for question in each.questions} for each in (before, s))
    for name in old.keys() - new.keys():
        was_answered = old[name].reply is not None
        tx.update("fleet_interactions", {"id": name}, state="taken" if was_answered else "withdrawn")
        if not was_answered:
            events.append({"id": name, "state": "withdrawn"})
    for name, question in new.items():
        kind, request = question.record["kind"], question.record["request"]
        if name not in old:
            stored = {"session": s.id, "digest": question.key, "record": json.dumps(question.record)}
            row = {"id": name, "state": "pending", "created_at": question.created_at}
            tx.insert("fleet_interactions", {**row, **stored})
            events.append({"id": name, "kind": kind, "state": "pending", "request": request})
        elif question.reply is not None and old[name].reply is None:
            tx.update("fleet_interactions", {"id": name}, state="answered", reply=json.dumps(question.reply))
            events.append({"id": name, "state": "answered", "kind": kind, "by": question.by})
    return [("interaction", tx.now, data) for data in events]


def _queue(tx: Transaction, s: SessionRecord) -> None:
    """Note since when a session is queued."""
    waits = "SELECT 1 FROM fleet_sessions WHERE state = 'queued' AND tenant = ? AND id != ? LIMIT 1"
    if tx.value(waits, s.tenant, s.id) is None:
        # A tenant that had nothing to run has saved no turns.
        tx.run(
            "INSERT INTO fleet_turns SELECT ?, turn FROM fleet_meta WHERE true "
            "ON CONFLICT DO UPDATE SET turn = max(turn, excluded.turn)",
            s.tenant,
        )
    tx.update("fleet_sessions", {"id": s.id}, queued_at=tx.now)
