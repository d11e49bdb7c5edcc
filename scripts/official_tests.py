"""Run the official Python SDK's own tests on `claude_agent_py.compat`, and compare with the failures listed here.

python scripts/official_tests.py [PYTEST ARGUMENTS]

The tests are fetched from the package index; nothing of the official SDK is installed or imported. Of its tests, those
run that use only what programs can import, and those of the message parser. Those that need a server run if the
variables that they read (`SESSION_STORE_REDIS_URL`, ...) are set. Exits with 1 if a test fails that `EXPECTED` does not
list, or passes although it does.
"""

import ast
import contextlib
import functools
import importlib.abc
import importlib.machinery
import os
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest

from claude_agent_py import compat
from claude_agent_py.options import cache_folder

VERSION: Final = compat.__version__
NAME: Final = "claude_agent_sdk"
SDIST: Final = f"{NAME}-{VERSION}"

KEPT_UUIDS: Final = "a copy keeps the uuids of its entries, as a fork by the CLI does"
STORE: Final = "test_session_helpers_store.py"

EXPECTED: Final[Mapping[str, str]] = {
    f"{STORE}::TestForkSessionViaStore::test_content_replacement_entry_has_uuid_and_timestamp": KEPT_UUIDS,
    f"{STORE}::TestForkSessionViaStore::test_fork_preserves_chain_and_stamps_synthetic_entries": KEPT_UUIDS,
    f"{STORE}::TestForkSessionViaStore::test_round_trips_with_new_uuids": KEPT_UUIDS,
    f"{STORE}::TestGetSessionMessagesFromStore::test_parallel_tool_calls_keep_every_call_and_result": (
        "results of parallel calls are in the order of the transcript"
    ),
    "test_session_mutations.py::TestRenameSession::test_no_projects_dir_raises": (
        "an unknown session has one text, with and without a folder of sessions"
    ),
}
"""The tests that fail, by their id without parameters, and why."""

HELPERS: Final = ("fakeredis", "asyncpg")
"""Packages that only these tests need."""


def fetch() -> Path:
    """Return the sdist, from the package index unless it is in the cache."""
    folder = cache_folder() / "official-sdk"
    path = folder / f"{SDIST}.tar.gz"
    if not path.exists():
        command = ["-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
        subprocess.run([sys.executable, *command, f"claude-agent-sdk=={VERSION}", "--dest", str(folder)], check=True)
    return path


def install_helpers() -> None:
    """Make `HELPERS` importable, in a folder of the cache."""
    folder = cache_folder() / "official-sdk" / f"libs-{sys.version_info.major}.{sys.version_info.minor}"
    if not folder.exists():
        command = ["-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), *HELPERS]
        subprocess.run([sys.executable, *command], check=True)
    sys.path.append(str(folder))


# Selection ------------------------------------------------------------------------------------------------------------


def find_public_tests(path: Path) -> Iterator[str]:
    """Yield the ids of the tests in a file that use only names that programs can import."""
    tree = ast.parse(path.read_text())
    if NAME not in {module.partition(".")[0] for module, _ in _imports(tree)}:
        return  # a test of the repository's own scripts
    module = _Names(tree.body)
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            inner = _Names(node.body, outer=module)
            yield from (f"{path.name}::{node.name}::{each.name}" for each in _tests(node.body) if inner.is_public(each))
    yield from (f"{path.name}::{each.name}" for each in _tests(tree.body) if module.is_public(each))


def _tests(body: Iterable[ast.stmt]) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
            yield node


def _imports(tree: ast.AST) -> Iterator[tuple[str, ast.alias]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", alias) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name.rpartition(".")[0] or alias.name, alias) for alias in node.names)


class _Names:
    """The names that a module or a class defines, and what each of them uses."""

    def __init__(self, body: Iterable[ast.stmt], outer: "_Names | None" = None) -> None:
        self._outer = outer
        self._defined: dict[str, ast.AST] = {}
        self._private: set[str] = set()
        for node in body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                private = [alias for module, alias in _imports(node) if _is_private(module, alias.name)]
                self._private |= {alias.asname or alias.name for alias in private}
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                self._defined[node.name] = node
            else:
                targets = [name.id for name in ast.walk(node) if isinstance(name, ast.Name)]
                self._defined |= dict.fromkeys((name for name in targets if name not in self._defined), node)

    def is_public(self, node: ast.AST, seen: frozenset[str] = frozenset()) -> bool:
        """Return whether a piece of code, and what it uses, has only names that programs can import."""
        if any(_is_private(module, alias.name) for module, alias in _imports(node)):
            return False
        return all(self._is_public_name(name, seen) for name in set(_uses(node)))

    def _is_public_name(self, name: str, seen: frozenset[str]) -> bool:
        if name in self._private or _is_private_text(name):
            return False
        if name in self._defined and name not in seen:
            return self.is_public(self._defined[name], seen | {name})
        return self._outer is None or self._outer._is_public_name(name, seen)


def _uses(node: ast.AST) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            yield each.id
        elif isinstance(each, ast.Attribute):
            yield each.attr
        elif isinstance(each, ast.arg):  # a fixture, say
            yield each.arg
        elif isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield each.value


def _is_private(module: str, name: str) -> bool:
    if module.partition(".")[0] != NAME or f"{module}.{name}" in sys.modules:
        return False
    if name.startswith("_") or module not in sys.modules:
        return True
    return f"{NAME}._internal" in module and not hasattr(sys.modules[module], name)


def _is_private_text(text: str) -> bool:
    """Return whether a text is the path of a private name, as `patch` takes it."""
    return (text.startswith(f"{NAME}.") or f"{NAME}._internal." in text) and text not in sys.modules


# Running --------------------------------------------------------------------------------------------------------------


class _Unavailable(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Stands in for private modules, so that files that import them can be loaded for their other tests."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> importlib.machinery.ModuleSpec | None:
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if name.startswith(f"{NAME}.") else None

    def exec_module(self, module: ModuleType) -> None:
        module.__getattr__ = functools.partial(_find, None)  # type: ignore[method-assign]


def stand_in_for_private_names() -> None:
    """Give the modules of the official SDK a class for each name that they do not have."""
    sys.meta_path.insert(0, _Unavailable())
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == NAME:
            module.__path__ = module.__dict__.get("__path__", [])
            module.__getattr__ = functools.partial(_find, module.__dict__.get("__getattr__"))  # type: ignore[method-assign]


def _find(find: Callable[[str], Any] | None, name: str) -> Any:
    if find is not None:
        with contextlib.suppress(AttributeError, ImportError):
            return find(name)
    return type(name, (), {})


class _Outcomes:
    """A plugin of pytest that runs the selected tests and notes how they end."""

    def __init__(self, selected: Iterable[str]) -> None:
        self._selected = set(selected)
        self.by_test: dict[str, set[str]] = {}
        self.skipped_files: set[str] = set()

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self.skipped_files.add(_plain_id(report.nodeid))

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        kept = [item for item in items if _plain_id(item.nodeid) in self._selected]
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            self.by_test.setdefault(_plain_id(report.nodeid), set()).add(report.outcome)

    def with_outcome(self, outcome: str) -> set[str]:
        return {test for test, outcomes in self.by_test.items() if outcome in outcomes}


def _plain_id(node_id: str) -> str:
    return node_id.partition("[")[0].rpartition("/")[2]


def main(arguments: Sequence[str]) -> int:
    """Run the tests and print what differs from `EXPECTED`."""
    compat.install()
    install_helpers()
    archive_path = fetch()
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(archive_path) as archive:
            archive.extractall(folder, filter="data")
        root = Path(folder) / SDIST
        for name in ("HOME", "XDG_CACHE_HOME", "CLAUDE_AGENT_BUNDLED_DIR"):
            os.environ[name] = folder  # where no CLI is installed
        for unwanted in ("pyproject.toml", "src"):
            (root / unwanted).rename(root / f"{unwanted}.unused")
        (root / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib -p anyio\n")
        selected = [test for path in sorted((root / "tests").glob("test_*.py")) for test in find_public_tests(path)]
        stand_in_for_private_names()
        outcomes = _Outcomes(selected)
        options = ["-q", "--no-header", "-p", "no:cacheprovider", "-p", "no:asyncio", "--rootdir", str(root)]
        pytest.main([*options, *arguments, str(root / "tests")], plugins=[outcomes])
    return compare(selected, outcomes, whole=not arguments)


def compare(selected: Sequence[str], outcomes: _Outcomes, *, whole: bool) -> int:
    """Print the counts and what differs from `EXPECTED`; return 1 if anything does."""
    in_skipped_files = {test for test in selected if test.partition("::")[0] in outcomes.skipped_files}
    failed, skipped = outcomes.with_outcome("failed"), outcomes.with_outcome("skipped") | in_skipped_files
    passed = outcomes.with_outcome("passed") - failed
    new, fixed = failed - EXPECTED.keys(), passed & EXPECTED.keys()
    missing = set(selected) - outcomes.by_test.keys() - skipped if whole else set()
    print(f"\n{len(selected)} public tests of {SDIST}: {len(passed)} pass, {len(failed)} fail, {len(skipped)} skipped")
    for reason, count in Counter(EXPECTED.values()).most_common():
        print(f"  {count} expected to fail: {reason}")
    for name in sorted({test.partition("::")[0] for test in skipped}):
        print(f"  skipped: {name}, which needs a server")
    for title, tests in (("FAILS", new), ("PASSES NOW", fixed), ("DID NOT RUN", missing)):
        for test in sorted(tests):
            print(f"{title}: {test}")
    return 1 if new or fixed or missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
