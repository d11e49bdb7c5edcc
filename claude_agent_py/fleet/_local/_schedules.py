"""Schedules: cron expressions, each of whose times starts one session in the whole fleet."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, Literal
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


ROUNDING: Final = 0.5
"""By how many seconds two numbers for the same time may differ."""


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
    return _find_time(schedule, after, "get_next")


def _find_time(schedule: JSONMapping, at: float, which: Literal["get_next", "get_prev"]) -> float:
    try:
        from croniter import CroniterError, croniter
    except ImportError as error:
        raise OptionsError("schedules need croniter: pip install croniter", option="schedule") from error
    try:
        zone = ZoneInfo(schedule["timezone"]) if schedule["timezone"] else UTC
    except Exception as error:  # KeyError, ValueError or OSError, by the name
        raise OptionsError(f"Invalid time zone: {schedule['timezone']!r}", option="schedule") from error
    try:
        times = croniter(schedule["cron"], datetime.fromtimestamp(at, zone), second_at_beginning=True)
        return float(getattr(times, which)(datetime).timestamp())
    except CroniterError as error:
        raise OptionsError(f"Invalid cron expression: {error}", option="schedule") from error


def follow_clock(tx: Transaction) -> None:
    """Bring forward the schedules whose next time is late, because the clock was set back."""
    for row in tx.all("SELECT * FROM fleet_schedules WHERE next_at > ?", tx.now):
        try:
            following = find_next(row, tx.now)
        except OptionsError:  # `fire_due` says so once it matters
            continue
        if following < row["next_at"] - ROUNDING:
            tx.update("fleet_schedules", {"name": row["name"]}, next_at=following)


def fire_due(tx: Transaction) -> None:
    """Start the sessions of all times that have come. A process without croniter leaves them to others."""
    for row in tx.all("SELECT * FROM fleet_schedules WHERE next_at <= ?", tx.now):
        try:
            _fire(tx, row)
        except OptionsError as error:
            logger.warning("the schedule %s cannot be followed here: %s", row["name"], error)


def _fire(tx: Transaction, schedule: Row) -> None:
    first, following = schedule["next_at"], find_next(schedule, tx.now)
    tx.update("fleet_schedules", {"name": schedule["name"]}, next_at=following)
    by = AnswerSource.here(f"schedule:{schedule['name']}")
    due, at = list[float](), _find_time(schedule, following, "get_prev")
    while at > first - ROUNDING and len(due) < MADE_UP:  # back from now: the first may be long ago
        due.append(at)
        at = _find_time(schedule, at, "get_prev")
    if at > first - ROUNDING:
        missed = {"first": _name(schedule, first), "last": _name(schedule, at)}
        logger.warning("the times from %(first)s to %(last)s were missed", missed)
        record(tx, "missed", by, schedule=schedule["name"], **missed)
    given = {name: schedule[name] for name in ("agent", "tenant", "priority", "timeout")}
    for at in reversed(due):
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
