"""Lower layers never import higher ones: the contracts in `pyproject.toml`, and rules that these cannot express."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from package_source import PACKAGE, Module, modules

ROOT = PACKAGE.parent


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


@pytest.mark.skipif(not (ROOT / "pyproject.toml").exists(), reason="the contracts are not installed with the package")
def test_the_layers_and_packages_stay_few() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = config["tool"]["importlinter"]["contracts"][0]["layers"]
    assert len(layers) <= 12
    assert len([path for path in PACKAGE.iterdir() if (path / "__init__.py").exists()]) <= 25


COLLECTORS = {"control", "errors", "history", "journal", "messages", "todo"}
"""Modules that only collect public names."""


def rows_of_the_page() -> list[set[str]]:
    """Return the layers of `docs/architecture.md`, highest first."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = page.partition("## Layers\n")[2].partition("\n## ")[0]
    return [set(re.findall(r"`(\w+)`", row)) for row in re.findall(r"^\| (`[^|]+) \|", section, re.MULTILINE)]


@pytest.mark.skipif(not (ROOT / "docs").exists(), reason="the page is not installed with the package")
def test_the_layers_on_the_page_are_those_of_the_imports() -> None:
    level = {name: number for number, row in enumerate(rows_of_the_page()) for name in row}
    names = {module.name for module in modules()}
    rooms = {name.split(".")[1] for name in names if "." in name}
    assert rooms - level.keys() == {*COLLECTORS, "__main__", "_version"}
    pairs = {
        (module.name.split(".")[1], target.split(".")[1])
        for module in modules()
        for target in _targets(module, names)
        if "." in module.name and "." in target
    }
    known = {(room, other) for room, other in pairs if room != other and {room, other} <= level.keys()}
    assert {(room, other) for room, other in known if level[room] >= level[other]} == set()


@pytest.mark.skipif(not (ROOT / "docs").exists(), reason="the page is not installed with the package")
def test_the_layers_on_the_page_are_those_of_the_contract() -> None:
    """A layer of the contract may be several rows of the page: imports through the package itself hide their order."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = config["tool"]["importlinter"]["contracts"][0]["layers"]
    rows = rows_of_the_page()
    for layer in layers:
        expected = set(re.findall(r"\w+", layer))
        found: set[str] = set()
        while rows and rows[0] <= expected:
            found |= rows.pop(0)
        assert found == expected
    assert rows == []


@pytest.mark.skipif(not (ROOT / "docs").exists(), reason="the page is not installed with the package")
def test_the_page_names_the_parts_of_a_session() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = page.partition("### The parts of a session\n")[2].partition("\n## ")[0]
    named = set(re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (.+?) \|", section, re.MULTILINE))))
    parts = {
        module.name.split(".")[2] for module in modules() if module.name.startswith("claude_agent_py._connection.")
    }
    assert named == parts - {"connection"}


def test_imports_are_absolute() -> None:
    relative = [
        f"{module.name}:{node.lineno}"
        for module in modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert relative == []


PURE = ("claude_agent_py.wire", "claude_agent_py._journal", "claude_agent_py.formatting")
IO_MODULES = {"anyio", "asyncio", "trio", "subprocess", "socket", "threading", "time", "os", "pathlib", "tempfile"}
ALLOWED = {
    ("claude_agent_py.formatting.media", "pathlib"),  # media may be given as files
    ("claude_agent_py.formatting.media", "os"),
    ("claude_agent_py.formatting.encoders", "pathlib"),  # a path is a value to show
}


def test_the_pure_parts_import_nothing_that_does_io() -> None:
    pure = [module for module in modules() if module.name.startswith(PURE)]
    assert pure
    used = {(module.name, name.partition(".")[0]) for module in pure for name in imported(module)}
    assert {pair for pair in used if pair[1] in IO_MODULES} - ALLOWED == set()


def test_the_player_of_the_fake_needs_nothing_but_python() -> None:
    """The player is copied next to a program that must start without the package."""
    path = Path(PACKAGE / "testing" / "fake_player.py")
    [player] = [module for module in modules() if module.path == path]
    assert {name.partition(".")[0] for name in imported(player)} <= set(sys.stdlib_module_names)


def test_only_one_module_distinguishes_the_event_loops() -> None:
    """asyncio and trio are named where something cannot be done with anyio, and nowhere else."""
    named = {module.name for module in modules() if {"asyncio", "trio"} & imported(module)}
    # The package for editors and Temporal run on asyncio only.
    only_asyncio = {f"claude_agent_py.{name}" for name in ("acp.agent", "acp.editor_tools", "acp.transport")}
    only_asyncio |= {f"claude_agent_py.fleet._temporal.{name}" for name in ("worker", "workflow")}
    assert named == {"claude_agent_py._base.event_loop", *only_asyncio}


def test_no_imports_go_in_a_circle() -> None:
    """Those for type checkers and those inside functions included."""
    names = {module.name for module in modules()}
    graph = {module.name: _targets(module, names) - {"claude_agent_py", module.name} for module in modules()}
    with pytest.raises(CycleError):
        TopologicalSorter({**graph, "claude_agent_py.wire.base": {"claude_agent_py.client"}}).prepare()
    TopologicalSorter(graph).prepare()


def _targets(module: Module, names: set[str]) -> set[str]:
    """Return the modules of the package that a module imports anywhere, also as `from package import module`."""
    lines = [node for node in ast.walk(module.tree) if isinstance(node, ast.ImportFrom) and node.module]
    pairs = {(node.module or "", alias.name) for node in lines for alias in node.names}
    return {f"{where}.{name}" if f"{where}.{name}" in names else where for where, name in pairs} & names
