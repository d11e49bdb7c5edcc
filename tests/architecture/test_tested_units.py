"""Tests import what users import, so that a module can move without breaking them.

`PURE` and `OTHERS` are the internal modules that tests import nevertheless, by the reason.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from package_source import modules

TESTS = Path(__file__).parents[1]

PURE = {
    "lines, frames and messages: values in, values out": """
        _base.lines wire.codec wire.control.frames wire.hooks.parsing wire.settings.rule_lists
    """,
    "the protocol, the turns and the tasks of a session, with the time as an argument": """
        _journal.engine _journal.events _journal.open_runs _journal.requests _journal.skimming _journal.state
        _journal.tasks.announcements _journal.tasks.events _journal.tasks.outcome _journal.tasks.record
        _journal.tasks.spending _journal.tasks.state _journal.router _journal.routes _connection.control_bodies
        _connection.runs.prompts
    """,
    "options to the command line and the environment of a program": """
        options.table children.assignment children.process_options pool.compatibility
    """,
    "values to texts, and texts to values": "_base.checks _base.display _base.official_names _base.redaction",
    "answers and patterns to what the CLI reads": "hooks.patterns",
    "frames and events to facts, and facts to views": "_journal.live _journal.views",
    "records and messages to views": "acp.updates serve.agui_messages serve.event_log serve.recent_use",
    "the parser of what tasks write": "tasks.files.follow tasks.files.output_file tasks.files.paths",
    "scripts of tests": "testing.fake_player",
}
"""Units that are functions of their arguments: what a test of them needs no session for."""

OTHERS = {
    "the base of everything async, whose races no user can bring about": """
        _base.callbacks _base.cancellation _base.coalescing _base.event_loop _base.listeners _connection.workers
    """,
    "the base class of all configuration, whose rules hold for classes that do not exist yet": "_base.configuration",
    "files that any program may have changed": """
        _base.bounded_reading _base.growing_files _base.shared_sqlite tasks.files.task_file tasks.files.transcript
        tasks.reconcile
    """,
    "processes that end, hang or are not ours at a given moment": """
        transport.anyio_process transport.at_exit transport.pidfd_process transport.processes transport.subprocess
    """,
    "the pipes between the pump and its readers, and the requests of a client without a CLI": """
        _connection.runs.mailbox _connection.runs.message_log _connection.runs.readers _connection.runs.run_state
        permissions.dispatcher
    """,
    "what a session sends to a store, and what a killed process left of it": """
        _base.locks _connection.mirror_check sessions.stores.access sessions.stores.base sessions.stores.mirror
        sessions.stores.private_folder sessions.stores.protocol
    """,
    "statements of a fleet that run at certain times, workflows that are replayed, and limits of a server": """
        fleet._health fleet._local._changes fleet._local._file fleet._local._retention fleet._temporal.limits
        fleet._temporal.workflow
    """,
    "a server that the demo starts, too": "cli.temporal_server",
    "applications in a terminal, whose only public name is a command": "cli._chat.conversation cli.program",
}
"""Units that are not pure, but cannot be brought into the tested state by what users import. Shorten this list."""


@cache
def known() -> set[str]:
    """Return the modules of the package."""
    return {module.name for module in modules()}


@cache
def public() -> set[str]:
    """Return the modules that users import: those at the top, the official SDK's, and the vocabulary of fakes."""
    top = {
        name
        for name in known()
        if (name.count(".") <= 1 or name.startswith("claude_agent_py.compat.")) and "._" not in name
    }
    return top | {"claude_agent_py.testing.frames", "claude_agent_py.testing.steps"}


def internal_modules(tree: ast.AST) -> Iterator[str]:
    """Yield the internal modules that a test file imports, or changes by their name.

    Only sources are read, so that the answer does not depend on what this process has imported. No module has the name
    of something public, so `from package import name` names a module if there is one.
    """
    for node in ast.walk(tree):
        named = []
        if isinstance(node, ast.Import):
            named = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            inside = [f"{node.module}.{alias.name}" for alias in node.names]
            named = [name if name in known() else node.module for name in inside]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "setattr":
            named = [str(arg.value).rpartition(".")[0] for arg in node.args[:1] if isinstance(arg, ast.Constant)]
        yield from (name for name in named if name in known() - public())


@cache
def imported() -> dict[str, set[str]]:
    """Return the test files that import each internal module."""
    found: dict[str, set[str]] = {}
    for path in TESTS.rglob("*.py"):
        where = str(path.relative_to(TESTS))
        for name in internal_modules(ast.parse(path.read_text(encoding="utf-8"))):
            found.setdefault(name.removeprefix("claude_agent_py."), set()).add(where)
    return found


def listed() -> set[str]:
    """Return the internal modules that tests may import."""
    return {name for names in (*PURE.values(), *OTHERS.values()) for name in names.split()}


def test_tests_import_no_internal_module_but_the_listed_units() -> None:
    assert {name: files for name, files in imported().items() if name not in listed()} == {}


def test_every_listed_unit_is_imported_by_a_test() -> None:
    assert listed() - imported().keys() == set()


def test_an_internal_module_is_found_however_it_is_imported() -> None:
    source = """
from claude_agent_py import Client, client
from claude_agent_py._base import locks
from claude_agent_py.hooks import HookMatcher, patterns
from claude_agent_py.hooks.matcher import HookMatcher
from claude_agent_py.testing import FakeCLI, frames, steps
import claude_agent_py.pool.core
monkeypatch.setattr("claude_agent_py.runs.DEFAULT_IDLE", 1)
monkeypatch.setattr("claude_agent_py._journal.turns.X", 1)
"""
    found = [name.removeprefix("claude_agent_py.") for name in internal_modules(ast.parse(source))]
    assert sorted(found) == ["_base.locks", "_journal.turns", "hooks.matcher", "hooks.patterns", "pool.core"]
