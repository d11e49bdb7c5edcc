"""Pauses, bounds and abilities of the package that tests change: the one place that knows the module of each.

A test of a bound needs it smaller than any user would set it, and a test of a grace cannot wait for it.
"""

import importlib
from collections.abc import Mapping

import pytest

BOUNDS = {
    "ANSWER_SECONDS": "sessions.stores.postgres.ANSWER_SECONDS",
    "BODY_SECONDS": "serve.web.BODY_SECONDS",
    "BUSY_SECONDS": "_base.shared_sqlite.BUSY_SECONDS",
    "CHECKSUMS": "transport.install.CHECKSUMS",
    "CHECK_EVERY": "pool.pooled_process.CHECK_EVERY",
    "CHECK_TIMEOUT": "pool.pooled_process.CHECK_TIMEOUT",
    "CONNECTION_IDLE": "_connection.running.DEFAULT_IDLE",
    "COPIED_BYTES": "sessions.lines.COPIED_BYTES",
    "DECODED_BYTES": "_connection.runs.mailbox.DECODED_BYTES",
    "DRAIN_GRACE": "_connection.shutdown.DRAIN_GRACE",
    "ENTRY_DELAY": "tasks.files.completion.ENTRY_DELAY",
    "EXIT_GRACE": "_connection.shutdown.EXIT_GRACE",
    "FETCH_TIMEOUT": "transport.install.FETCH_TIMEOUT",
    "FIRST_NOTICE": "_journal.open_runs.FIRST_NOTICE",
    "FIRST_ANSWER": "pool.core.FIRST_ANSWER",
    "FROZEN_SECONDS": "sessions.stores.postgres.FROZEN_SECONDS",
    "GENERATOR_GRACE": "_connection.runs.prompts.GENERATOR_GRACE",
    "GRACE": "hooks.dispatcher.GRACE",
    "HEARTBEAT_INTERVAL": "permissions.inbox_sqlite.HEARTBEAT_INTERVAL",
    "LEASE_SECONDS": "sessions.stores.leases.LEASE_SECONDS",
    "HAS_MUSL": "transport.install._has_musl",
    "HAS_PIDFDS": "transport.subprocess.has_pidfds",
    "KNOWN_TRANSCRIPTS": "sessions.stores.directory._KNOWN",
    "LINE_BYTES": "_base.bounded_reading.LINE_BYTES",
    "LISTED_WITHIN": "_connection.controls.mcp.LISTED_WITHIN",
    "LISTENER_GRACE": "_connection.shutdown.LISTENER_GRACE",
    "LOCK_SECONDS": "sessions.stores.directory.LOCK_SECONDS",
    "MAX_CONNECTIONS": "fleet._health.MAX_CONNECTIONS",
    "MIRROR_PAUSES": "sessions.stores.mirror.PAUSES",
    "MOST_CACHED": "sessions.index.MOST_CACHED",
    "MOST_SIDE_ENTRIES": "sessions.chain._MOST_SIDE_ENTRIES",
    "PATIENCE": "_base.callbacks.PATIENCE",
    "PROGRAM": "transport.locate.PROGRAM",
    "PROGRESS": "transport.install.PROGRESS",
    "QUEUE_LIMIT": "tasks.listeners.QUEUE_LIMIT",
    "QUIET": "testing.scripted_model.QUIET",
    "READ_CHUNK": "sessions.lines.CHUNK",
    "READ_LINE_BYTES": "sessions.lines.LINE_BYTES",
    "REDIS_ANSWER_SECONDS": "sessions.stores.redis.ANSWER_SECONDS",
    "REPORT_DELAY": "tasks.files.completion.REPORT_DELAY",
    "REQUEST_SECONDS": "fleet._health.REQUEST_SECONDS",
    "RUN_IDLE": "runs.DEFAULT_IDLE",
    "SLICE": "_connection.runs.mailbox.SLICE",
    "SLOW": "_base.listeners.SLOW",
    "USUAL_PLACES": "transport.locate.USUAL_PLACES",
    "VERSION_TIMEOUT": "_connection.startup.VERSION_TIMEOUT",
    "WAITING_BYTES": "_base.listeners.WAITING_BYTES",
    "WINDOWS": "transport.locate.WINDOWS",
}


def set_bound(monkeypatch: pytest.MonkeyPatch, name: str, value: object) -> None:
    """Change a constant of the package until the end of the test."""
    monkeypatch.setattr(f"claude_agent_py.{BOUNDS[name]}", value)


def add_to_bound(monkeypatch: pytest.MonkeyPatch, name: str, values: Mapping[str, object]) -> None:
    """Add to a mapping of the package until the end of the test."""
    module, _, constant = f"claude_agent_py.{BOUNDS[name]}".rpartition(".")
    for key, value in values.items():
        monkeypatch.setitem(getattr(importlib.import_module(module), constant), key, value)
