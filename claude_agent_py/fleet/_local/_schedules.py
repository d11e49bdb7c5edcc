"""Schedules: cron expressions, each of whose times starts one session in the whole fleet."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from claude_agent_py._base.errors import OptionsError
from claude_agent_py._base.json_object import JSONMapping
from claude_agent_py._base.log import logger
from claude_agent_py.fleet._local._changes import start
from claude_agent_py.fleet._local._file import Row, Transaction
from claude_agent_py.fleet._local._rows import record
from claude_agent_py.fleet._state import SessionRecord
from claude_agent_py.permissions import AnswerSource

MADE_UP: Final = 20
"""How many times that were missed start a session later. Earlier ones are named in the audit log."""


def apply_schedules(tx: Transaction, wanted: Mapping[str, JSONMapping]) -> None:
    """Create or change schedules, by name. One that stays the same keeps the times that it has missed.

    Raises:
        OptionsError: A cron expression or a time zone is invalid, or croniter is not installed.
    """
    for name, given in wanted.items():
        row = {"name": name, **given, "prompt": json.dumps(given["prompt"])}
        old = tx.one("SELECT * FROM fleet_schedules WHERE name = ?", name)
        same = old is not None and all(old[key] == row[key] for key in ("cron", "timezone"))
        row["next_at"] = old["next_at"] if old is not None and same else find_next(row, tx.now)
        tx.insert("fleet_schedules", row, instead="INSERT OR REPLACE")


def find_next(schedule: JSONMapping, after: float) -> float:
    """Return the next time of a schedule. Raises OptionsError if it is invalid."""
    try:
        from croniter import CroniterError, croniter
    except ImportError as error:
        raise OptionsError("schedules need croniter: pip install croniter", option="schedule") from error
    try:
        zone = ZoneInfo(schedule["timezone"]) if schedule["timezone"] else UTC
    except Exception as error:  # KeyError, ValueError or OSError, by the name
        raise OptionsError(f"Invalid time zone: {schedule['timezone']!r}", option="schedule") from error
    try:
        times = croniter(schedule["cron"], datetime.fromtimestamp(after, zone), second_at_beginning=True)
        return float(times.get_next(datetime).timestamp())
    except CroniterError as error:
        raise OptionsError(f"Invalid cron expression: {error}", option="schedule") from error


def fire_due(tx: Transaction) -> None:
    """Start the sessions of all times that have come."""
    for row in tx.all("SELECT * FROM fleet_schedules WHERE next_at <= ?", tx.now):
        _fire(tx, row)


def _fire(tx: Transaction, schedule: Row) -> None:
    due = [schedule["next_at"]]
    while (following := find_next(schedule, due[-1])) <= tx.now:
        due.append(following)
    tx.update("fleet_schedules", {"name": schedule["name"]}, next_at=following)
    by = AnswerSource.here(f"schedule:{schedule['name']}")
    missed = [_name(schedule, at) for at in due[:-MADE_UP]]
    if missed:
        logger.warning("%d times of the schedule %s were missed", len(missed), schedule["name"])
        record(tx, "missed", by, schedule=schedule["name"], first=missed[0], last=missed[-1], count=len(missed))
    given = {name: schedule[name] for name in ("agent", "tenant", "priority", "timeout")}
    for at in due[-MADE_UP:]:
        new = SessionRecord.new(_name(schedule, at), prompt=json.loads(schedule["prompt"]), **given)
        try:
            start(tx, new, (), by)
        except OptionsError as error:
            logger.warning("the schedule %s cannot start a session: %s", schedule["name"], error)


def _name(schedule: Row, at: float) -> str:
    zone = ZoneInfo(schedule["timezone"]) if schedule["timezone"] else UTC
    shown = datetime.fromtimestamp(at, zone) + timedelta(microseconds=500_000)  # a float may be just below
    return f"{schedule['name']}@{shown.strftime('%Y-%m-%dT%H:%M:%S')}"


def unschedule(tx: Transaction, name: str, by: AnswerSource) -> bool:
    """Delete a schedule, and return whether it existed."""
    existed = tx.run("DELETE FROM fleet_schedules WHERE name = ?", name) > 0
    if existed:
        record(tx, "unschedule", by, schedule=name)
    return existed
