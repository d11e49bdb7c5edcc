"""What an import loads, and that every public name exists and can be inspected."""

import ast
import compileall
import contextlib
import importlib
import inspect
import json
import operator
import os
import pkgutil
import pydoc
import re
import shutil
import subprocess
import sys
import typing
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from package_source import PACKAGE

import claude_agent_py
from claude_agent_py import compat

RUNTIME = {"anyio", "msgspec", "pydantic", "pydantic-core", "typing-extensions"}
BELOW = {"annotated-types", "typing-inspection", "idna", "sniffio", "exceptiongroup"}
"""The dependencies of those."""


def loaded_by(statement: str) -> set[str]:
    """Return the modules that a statement loads in a fresh interpreter."""
    seen = "print(json.dumps(sorted(set(sys.modules) - before)))"
    program = f"import sys; before = set(sys.modules); {statement}; import json; {seen}"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return set(json.loads(done.stdout))


installed = cache(packages_distributions)


def distributions(modules: set[str]) -> set[str]:
    """Return the third-party distributions of modules."""
    where = installed()
    tops = {name.partition(".")[0] for name in modules} - set(sys.stdlib_module_names) - {"claude_agent_py"}
    return {name.lower().replace("_", "-") for top in tops for name in where.get(top, [])}


def test_importing_the_package_loads_next_to_nothing() -> None:
    loaded = loaded_by("import claude_agent_py")
    assert distributions(loaded) == set()
    assert {name for name in loaded if name.startswith("claude_agent_py")} == {
        "claude_agent_py",
        "claude_agent_py._version",
        "claude_agent_py._base",
        "claude_agent_py._base.lazy_names",
    }
    assert "asyncio" not in loaded


def test_the_client_loads_the_dependencies_and_nothing_else() -> None:
    found = distributions(loaded_by("from claude_agent_py import Client, ClientOptions, query, run, run_sync"))
    assert found <= RUNTIME | BELOW


def test_the_client_loads_only_what_every_session_needs() -> None:
    """An event loop loads asyncio; the first options let pydantic look for its plugins; other models load on use."""
    loaded = loaded_by("from claude_agent_py import Client, ClientOptions")
    late = {"asyncio", "importlib.metadata", "msgspec"}
    late |= {f"claude_agent_py.{name}" for name in ("agents.definition", "agents.guide", "_connection.controls.mcp")}
    late |= {f"claude_agent_py.wire.{name}" for name in ("base", "settings.mcp_servers", "settings.sandbox")}
    assert loaded & late == set()


def test_a_start_loads_only_what_every_session_needs() -> None:
    loaded = loaded_by("import claude_agent_py._connection.startup")
    late = {
        f"claude_agent_py.{name}" for name in ("_base.redaction", "agents.definition", "hooks.matcher", "tools.server")
    }
    assert loaded & (late | {"claude_agent_py.wire.settings.mcp_servers"}) == set()


WITHOUT_EXTRAS = ["testing", "children", "cli", "wire", "hooks", "permissions", "tools", "tasks", "todo", "history"]
WITHOUT_EXTRAS += ["formatting", "sessions", "pool", "fleet"]


def test_no_namespace_needs_an_extra() -> None:
    """Extras are imported on use, so that a missing one raises a clear error there."""
    loaded = loaded_by(f"import {', '.join(f'claude_agent_py.{name}' for name in WITHOUT_EXTRAS)}")
    assert distributions(loaded) <= RUNTIME | BELOW


def test_a_name_loads_only_its_own_modules() -> None:
    """An error class must not load the models of all messages."""
    loaded = loaded_by("from claude_agent_py import CLIExitError")
    assert {name for name in loaded if name.startswith("claude_agent_py.")} <= {
        "claude_agent_py._version",
        "claude_agent_py._base.errors",
        "claude_agent_py._base.display",
        "claude_agent_py._base",
        "claude_agent_py._base.lazy_names",
    }


# Public names ----------------------------------------------------------------------------------------------------

NAMESPACES = [
    "messages",
    "control",
    "tools",
    "hooks",
    "permissions",
    "tasks",
    "agents",
    "options",
    "sessions",
    "errors",
    "wire",
]
NAMESPACES += ["formatting", "observe", "pool", "fleet", "testing"]
MODULES = ["claude_agent_py", *(f"claude_agent_py.{name}" for name in NAMESPACES)]
"""The modules that load their names on first use."""

EVERY_MODULE = ["claude_agent_py"]
EVERY_MODULE += [
    f"claude_agent_py.{found.name}"
    for found in pkgutil.iter_modules(claude_agent_py.__path__)
    if not found.name.startswith("_")
]


@pytest.fixture
def module(request: pytest.FixtureRequest) -> ModuleType:
    """Import the module that a test is about: an import while tests are collected would cost every worker."""
    return importlib.import_module(request.param)


@cache
def exported() -> dict[str, Any]:
    """Return the classes and functions that the public modules export."""
    return {
        f"{value.__module__}.{name}": value
        for module in map(importlib.import_module, EVERY_MODULE)
        for name in getattr(module, "__all__", ())
        if callable(value := getattr(module, name)) and hasattr(value, "__module__")
    }


def imported(module: ModuleType) -> dict[str, str]:
    """Return the names that type checkers see a module import, with their modules."""
    tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
    [block] = [node for node in tree.body if isinstance(node, ast.If)]
    lines = [line for line in block.body if isinstance(line, ast.ImportFrom)]
    assert len(lines) == len(block.body)
    names: dict[str, str] = {}
    for line in lines:
        if [alias.name for alias in line.names] == ["*"]:
            names |= dict.fromkeys(defined(str(line.module)), str(line.module))
        else:
            assert all(alias.name == alias.asname for alias in line.names)
            names |= {alias.name: str(line.module) for alias in line.names}
    return names


def defined(module: str) -> Iterator[str]:
    """Yield the public names that a module defines."""
    for node in ast.parse(Path(str(importlib.import_module(module).__file__)).read_text(encoding="utf-8")).body:
        found = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", node)
        name = getattr(found, "name", getattr(found, "id", "_"))
        if not name.startswith("_"):
            yield name


@pytest.mark.parametrize("module", MODULES, indirect=True)
def test_every_public_name_is_exported_from_its_module(module: ModuleType) -> None:
    for name, home in imported(module).items():
        there = importlib.import_module(f"{home}.{name}") if home == module.__name__ else None
        assert getattr(module, name) is (there or getattr(importlib.import_module(home), name))
        assert name in dir(module)
        assert (name in module.__all__) == (there is None)
    assert set(module.__all__) <= imported(module).keys()


@pytest.mark.parametrize("module", MODULES, indirect=True)
def test_no_public_name_is_listed_twice(module: ModuleType) -> None:
    assert len(module.__all__) == len(set(module.__all__))


@pytest.mark.parametrize("module", EVERY_MODULE, indirect=True)
def test_help_shows_every_public_module(module: ModuleType) -> None:
    assert pydoc.render_doc(module).startswith(f"Python Library Documentation: {pydoc.describe(module)}")


def test_every_public_class_and_function_can_be_inspected() -> None:
    for value in exported().values():
        if inspect.isclass(value) or inspect.isfunction(value):
            typing.get_type_hints(value)
        with contextlib.suppress(ValueError):  # Python has none for aliases, dicts and exceptions without parameters
            inspect.signature(value)


def test_the_package_works_without_its_sources(tmp_path: Path) -> None:
    """As in programs that are shipped compiled."""
    copy = tmp_path / "claude_agent_py"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    assert compileall.compile_dir(copy, quiet=1, legacy=True)
    for source in copy.rglob("*.py"):
        source.unlink()
    program = """if True:
        import sys
        from claude_agent_py import ClientOptions, hooks, testing
        from claude_agent_py.hooks import *
        PreToolUseInput, hooks.PreToolUseInput
        ClientOptions(model="opus")
        testing.FakeCLI().install(sys.argv[1])
    """
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    version = subprocess.run(
        [tmp_path / "claude", "--version"], capture_output=True, text=True, timeout=60, check=False
    )
    assert version.returncode == 0, version.stderr


FEATURES = {
    "control": ("ControlError",),
    "fleet": ("FleetError",),
    "formatting": ("TextFormatError", "EncodingError"),
    "options": ("OptionsError",),
    "permissions": ("FormError",),
    "pool": ("PoolTimeoutError",),
    "sessions": ("SessionError",),
    "tasks": ("TaskError",),
    "tools": ("ToolError",),
}
"""The base classes of the errors of each feature."""


def test_every_fact_is_in_journal_and_those_about_tasks_in_tasks() -> None:
    for fact in typing.get_args(claude_agent_py.journal.Fact):
        assert getattr(claude_agent_py.journal, fact.__name__) is fact
        if issubclass(fact, claude_agent_py.tasks.TaskEvent):
            assert getattr(claude_agent_py.tasks, fact.__name__) is fact


def test_errors_are_in_errors_and_with_their_feature() -> None:
    public = [value for value in exported().values() if inspect.isclass(value) and issubclass(value, Exception)]
    public = [error for error in public if not error.__module__.startswith("claude_agent_py.compat.")]
    raised = [error for error in public if not issubclass(error, Warning | AssertionError)]
    assert [error for error in raised if error.__name__ not in dir(claude_agent_py.errors)] == []
    for feature, bases in FEATURES.items():
        names = dir(getattr(claude_agent_py, feature))
        family = tuple(getattr(claude_agent_py.errors, base) for base in bases)
        assert [error for error in raised if issubclass(error, family) and error.__name__ not in names] == []


def test_the_package_has_at_most_100_names() -> None:
    assert len(importlib.import_module("claude_agent_py").__all__) <= 100


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"has no attribute 'Nonsense'$"):
        _ = claude_agent_py.Nonsense  # type: ignore[attr-defined]
    with pytest.raises(ImportError, match="Nonsense"):
        exec("from claude_agent_py import Nonsense")
    assert not hasattr(claude_agent_py.hooks, "Nonsense")


HINTS = [
    ("claude_agent_py", "ToolProgressMessage", r"ToolProgressMessage is in claude_agent_py\.messages$"),
    ("claude_agent_py", "Pool", r"Pool is in claude_agent_py\.pool$"),
    ("claude_agent_py.hooks", "BashInput", r"BashInput is in claude_agent_py\.tools$"),
    ("claude_agent_py.children", "Client", r"Client is in claude_agent_py$"),
    ("claude_agent_py.todo", "HookMatcher", r"HookMatcher is in claude_agent_py$"),
    ("claude_agent_py", "ClaudeSDKClient", r"the official SDK's ClaudeSDKClient is Client in claude_agent_py$"),
    ("claude_agent_py.permissions", "PermissionResultAllow", r"PermissionResultAllow is Allow in claude_agent_py$"),
    ("claude_agent_py", "StopHookInput", r"StopHookInput is StopInput in claude_agent_py\.hooks$"),
    ("claude_agent_py", "McpServerStatus", r"McpServerStatus is MCPServerStatus in claude_agent_py\.control$"),
    ("claude_agent_py", "WeatherHookInput", r"(attribute 'WeatherHookInput'|\(.*\))$"),
    ("claude_agent_py", "Clent", r"did you mean Client in claude_agent_py\?$"),
    ("claude_agent_py.tools", "WriteInput", r"did you mean .*FileWriteInput in claude_agent_py\.tools\?$"),
    ("claude_agent_py", "StreamEvent", r"the official SDK's StreamEvent is StreamEventMessage in claude_agent_py$"),
    ("claude_agent_py", "TaskBudget", r"instead of the official SDK's TaskBudget, use an int$"),
]


@pytest.mark.parametrize(("where", "name", "hint"), HINTS)
def test_a_missing_name_says_where_it_is_in_both_forms(where: str, name: str, hint: str) -> None:
    module = importlib.import_module(where)
    with pytest.raises(AttributeError, match=hint):
        getattr(module, name)
    with pytest.raises(ImportError, match=hint):
        exec(f"from {where} import {name}")
    assert not hasattr(module, name)
    assert getattr(module, name, None) is None


def complaint(owner: object, name: str) -> str | None:
    """Return what a missing name says, or None if it is there."""
    try:
        getattr(owner, name)
    except AttributeError as error:
        return str(error)
    return None


GUIDE = (PACKAGE.parent / "docs" / "coming-from-the-official-sdk.md").read_text(encoding="utf-8")
OTHERWISE = re.compile(
    r": (?:the official SDK's \w+ is (?P<here>\w+) in |instead of the official SDK's \w+, use |\w+ is in )"
)


def test_every_name_of_the_official_sdk_says_what_stands_for_it_here_and_so_does_the_guide() -> None:
    official = {*importlib.import_module("claude_agent_py.compat").__all__} - {"install", "types"}
    assert len(official) > 150
    for name in sorted({*official, "ClaudeCodeOptions"}):
        if (says := complaint(claude_agent_py, name)) is None:
            continue
        found = OTHERWISE.search(says)
        assert found, says
        regular = re.sub("Hook(SpecificOutput|Input)$", lambda end: end[1].removeprefix("Specific"), name)
        if "the official SDK's" in says and found["here"] not in (regular, name.replace("Mcp", "MCP")):
            assert f"`{name}" in GUIDE, name
            assert found["here"] is None or f"`{found['here']}" in GUIDE, name


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("receive_response", r"instead of the official SDK's receive_response, use client\.query\(\.\.\.\), which you"),
        ("disconnect", r"instead of the official SDK's disconnect, use client\.close\(\)$"),
        ("mcpServerStatus", r"instead of the official SDK's mcpServerStatus, use client\.mcp\.status\(\)$"),
        ("nonsense", r"'Client' object has no attribute 'nonsense'$"),
    ],
)
def test_a_method_of_the_official_client_says_where_it_is(name: str, hint: str) -> None:
    with pytest.raises(AttributeError, match=hint):
        getattr(claude_agent_py.Client(), name)
    assert not hasattr(claude_agent_py.Client(), name)


def test_every_method_of_the_official_clients_is_here_or_says_what_stands_for_it() -> None:
    client = claude_agent_py.Client()
    table, _, _ = GUIDE.partition("## Missing features")
    rows = [line for line in table.splitlines() if re.match(r"\| `\w+\(", line) and "| `client." in line]
    typescript = {name: row for row in rows for name in re.findall(r"`(\w+)\(", row.split("|")[1])}
    python = {name: GUIDE for name in dir(compat.ClaudeSDKClient) if not name.startswith("_")}
    assert len(typescript) > 25
    for name, place in {**python, **typescript}.items():
        if (says := complaint(client, name)) is None:
            continue
        found = re.search(r"instead of the official SDK's \w+, use client\.([\w.]+)", says)
        assert found, says
        path = found[1].rstrip(".")
        assert f"client.{path}" in place, name
        group, _, field = path.partition(".")
        if group == "info":  # a client that is not connected has no `info`
            assert not field or hasattr(claude_agent_py.control.InitializeReply, field), name
        else:
            operator.attrgetter(path)(client)


def packages(package: ModuleType) -> Iterator[ModuleType]:
    """Yield a package and its public subpackages."""
    yield package
    for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        if found.ispkg and not found.name.rpartition(".")[2].startswith("_"):
            yield from packages(importlib.import_module(found.name))


def test_no_submodule_has_the_name_of_a_public_class_or_function() -> None:
    """Otherwise `from package import name` returns one or the other, depending on what was imported earlier."""
    for package in packages(claude_agent_py):
        names = {*getattr(package, "__all__", ()), *importlib.import_module("claude_agent_py").__all__}
        assert names.isdisjoint(found.name for found in pkgutil.iter_modules(package.__path__)), package


def test_the_contract_names_are_public() -> None:
    """The names that design and documentation promise at the top level."""
    promised = """
        Client ClientOptions query run run_sync Run RunResult AgentDefinition TaskManager Task TaskStatus TaskOutcome
        TaskNotificationMessage HookMatcher Allow Deny PermissionRequest tool ToolServer ToolResult ToolChain
        ToolChainResult TextFormat MarkdownFormat XMLFormat UnknownMessage MalformedFrame Timeouts Limits
        Transport ClaudeAgentError OptionsError CLIError CLINotFoundError CLIStartError CLIExitError
        ProtocolError ControlError ControlTimeoutError ControlRejectedError
        ConnectionClosedError RunError AuthenticationError RateLimitedError MaxTurnsError
        BudgetExceededError TaskError TaskNotFoundError TaskTimeoutError SessionError
        TaskInput TaskOutputInput SubagentStopInput SubagentStopOutput
        PermissionMode EffortLevel SettingSource HookEvent
    """
    assert [name for name in promised.split() if not hasattr(claude_agent_py, name)] == []
