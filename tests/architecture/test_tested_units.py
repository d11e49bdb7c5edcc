"""Tests import what users import, so that a module can move without breaking them.

`PURE` and `OTHERS` are the files that import internal modules nevertheless, with these modules, by the reason. Some
of them import what the tests of a unit need, so that there is one place for it.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from package_source import modules

TESTS = Path(__file__).parents[1]

PURE = {
    "lines and frames: values in, values out": {
        "protocol/test_engine.py": "_journal.engine _journal.events _journal.state wire.codec wire.control.frames",
        "protocol/test_lines.py": "_base.lines _journal.skimming",
    },
    "the turns of a session, with the time as an argument": {
        "protocol/scene.py": "_journal.open_runs _journal.router _journal.routes",
    },
    "the tasks of a session, with the time as an argument, and what is read of their files": {
        "tasks/folding.py": """
            _base.bounded_reading _base.growing_files _journal.requests _journal.tasks.announcements
            _journal.tasks.events _journal.tasks.outcome _journal.tasks.record _journal.tasks.spending
            _journal.tasks.state tasks.files.follow
        """,
    },
    "facts to the views of a session": {
        "observe/live.py": "_journal.live _journal.views acp.updates cli._chat.conversation",
    },
    "whatever a CLI may write, through everything that reads it": {
        "fuzzing.py": """
            _journal.engine _journal.events _journal.open_runs _journal.router _journal.routes _journal.state
            acp.updates cli._chat.conversation
        """,
    },
    "values to texts without secrets": {
        "runtime/test_redaction.py": "_base.display _base.redaction",
    },
    "what a server keeps of so many sessions and users that no test can have them": {
        "serve/test_kept_in_memory.py": "serve.event_log serve.recent_use",
    },
    "scripts of fakes, with the time as an argument": {
        "testing/test_fake_player.py": "testing.fake_player",
    },
    "tables in which every option has to stand": {
        "options/test_option_tables.py": "children.process_options options.table pool.compatibility",
    },
}
"""Files that test units which are functions of their arguments: a test of them needs no session."""

OTHERS = {
    "the base of everything async, whose races no user can bring about": {
        "test_callbacks.py": "_base.callbacks _base.cancellation _base.event_loop _base.listeners",
        "test_event_loop.py": "_base.coalescing _base.event_loop",
        "runtime/test_workers.py": "_base.listeners _connection.workers",
    },
    "processes that end, hang or are not ours at a given moment": {
        "transport/test_subprocess.py": """
            transport.anyio_process transport.at_exit transport.pidfd_process transport.processes
            transport.subprocess
        """,
    },
    "the pipe between the pump and the readers of a run, which are slow at a given moment": {
        "runtime/test_mailbox.py": """
            _connection.mirror_check _connection.runs.mailbox _connection.runs.message_log _connection.runs.readers
            _connection.runs.run_state _journal.open_runs wire.codec
        """,
    },
    "what a session sends to a store that fails at a given moment, and what a killed process left of it": {
        "sessions/test_mirror.py": """
            sessions.stores.access sessions.stores.base sessions.stores.mirror sessions.stores.protocol
        """,
        "sessions/test_copies.py": """
            _base.locks sessions.stores.access sessions.stores.mirror sessions.stores.private_folder
            sessions.stores.protocol
        """,
        "sessions/test_private_folders_of_others.py": "sessions.stores.private_folder",
    },
    "transcripts of subagents that other programs wrote, which a session reads only if it doubts an end": {
        "tasks/test_task_transcripts.py": """
            tasks.files.paths tasks.files.task_file tasks.files.transcript tasks.reconcile
        """,
    },
    "statements of a fleet that run at certain times, workflows that are replayed, and the server of a demo": {
        "fleet/inside.py": """
            _base.checks cli.program cli.temporal_server fleet._health fleet._local._changes fleet._local._file
            fleet._local._retention fleet._temporal.limits fleet._temporal.workflow
        """,
    },
}
"""Files that test what is not pure, but what users import cannot bring into the tested state. Shorten this list."""


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
    """Return the internal modules that each test file imports, if it imports any."""
    found: dict[str, set[str]] = {}
    for path in TESTS.rglob("*.py"):
        names = internal_modules(ast.parse(path.read_text(encoding="utf-8")))
        if inside := {name.removeprefix("claude_agent_py.") for name in names}:
            found[str(path.relative_to(TESTS).as_posix())] = inside
    return found


def listed() -> dict[str, set[str]]:
    """Return the internal modules that each file may import."""
    return {file: set(names.split()) for files in (*PURE.values(), *OTHERS.values()) for file, names in files.items()}


def test_only_the_listed_files_import_internal_modules() -> None:
    assert {file: names for file, names in imported().items() if file not in listed()} == {}


def test_the_listed_files_import_the_listed_modules_and_no_others() -> None:
    assert {file: imported().get(file, set()) for file in listed()} == listed()


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
