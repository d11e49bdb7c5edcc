"""Lower layers never import higher ones: the contracts in `pyproject.toml`, and rules that these cannot express."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
from package_source import PACKAGE, Module, modules

ROOT = PACKAGE.parent
MODULES = modules()


def imported(module: Module) -> set[str]:
    """Return the modules that a module imports anywhere."""
    names: set[str] = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return names


@pytest.mark.skipif(not (ROOT / "pyproject.toml").exists(), reason="the contracts are not installed with the package")
def test_the_import_contracts_are_kept() -> None:
    program = [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"}
    done = subprocess.run(
        [*program, "--no-cache"], cwd=ROOT, env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
def test_imports_are_absolute(module: Module) -> None:
    relative = [node.lineno for node in ast.walk(module.tree) if isinstance(node, ast.ImportFrom) and node.level]
    assert relative == []


PURE = ("claude_agent_py.wire", "claude_agent_py.protocol", "claude_agent_py.formatting")
IO_MODULES = {"anyio", "asyncio", "trio", "subprocess", "socket", "threading", "time", "os", "pathlib", "tempfile"}
ALLOWED = {
    ("claude_agent_py.protocol.handlers", "threading"),  # a flag that handlers may read from any thread
    ("claude_agent_py.formatting.media", "pathlib"),  # media may be given as files
    ("claude_agent_py.formatting.media", "os"),
    ("claude_agent_py.formatting.encoders", "pathlib"),  # a path is a value to show
}


@pytest.mark.parametrize("module", [m for m in MODULES if m.name.startswith(PURE)], ids=lambda module: module.name)
def test_the_pure_parts_import_nothing_that_does_io(module: Module) -> None:
    used = {(module.name, name.partition(".")[0]) for name in imported(module)}
    assert {pair for pair in used if pair[1] in IO_MODULES} - ALLOWED == set()


def test_the_player_of_the_fake_needs_nothing_but_python() -> None:
    """The player is copied next to a program that must start without the package."""
    path = Path(PACKAGE / "testing" / "fake_player.py")
    [player] = [module for module in MODULES if module.path == path]
    assert {name.partition(".")[0] for name in imported(player)} <= set(sys.stdlib_module_names)


def test_only_one_module_tells_the_event_loops_apart() -> None:
    """Only modules that need more than anyio name asyncio or trio."""
    named = {module.name for module in MODULES if {"asyncio", "trio"} & imported(module)}
    assert named == {"claude_agent_py.event_loop"}
