"""What an import loads, and that every public name is there."""

import ast
import importlib
import json
import os
import subprocess
import sys
from importlib.metadata import packages_distributions

import pytest
from package_source import PACKAGE

import claude_agent_py

RUNTIME = {"anyio", "msgspec", "pydantic", "pydantic-core", "typing-extensions"}
BELOW = {"annotated-types", "typing-inspection", "idna", "sniffio", "exceptiongroup"}
"""What those need themselves."""


def loaded_by(statement: str) -> set[str]:
    """Give the modules that a statement loads in a fresh interpreter."""
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


def distributions(modules: set[str]) -> set[str]:
    """Give the third-party distributions that modules come from."""
    where = packages_distributions()
    tops = {name.partition(".")[0] for name in modules} - set(sys.stdlib_module_names) - {"claude_agent_py"}
    return {name.lower().replace("_", "-") for top in tops for name in where.get(top, [])}


def test_importing_the_package_loads_next_to_nothing() -> None:
    loaded = loaded_by("import claude_agent_py")
    assert distributions(loaded) == set()
    assert {name for name in loaded if name.startswith("claude_agent_py")} == {
        "claude_agent_py",
        "claude_agent_py._version",
    }
    assert "asyncio" not in loaded


def test_the_client_loads_the_dependencies_and_nothing_else() -> None:
    found = distributions(loaded_by("from claude_agent_py import Client, ClientOptions, query, run, run_sync"))
    assert found <= RUNTIME | BELOW


@pytest.mark.parametrize(
    "name", ["testing", "children", "cli", "wire", "hooks", "permissions", "tools", "tasks", "todo", "history"]
)
def test_no_namespace_needs_an_extra(name: str) -> None:
    """Extras are imported where they are used, so that their lack is one clear error there."""
    assert distributions(loaded_by(f"import claude_agent_py.{name}")) <= RUNTIME | BELOW


def test_what_a_name_loads_is_its_own() -> None:
    """An error class must not load the models of all messages."""
    loaded = loaded_by("from claude_agent_py import CLIExitError")
    assert {name for name in loaded if name.startswith("claude_agent_py.")} <= {
        "claude_agent_py._version",
        "claude_agent_py.errors",
    }


# Public names ----------------------------------------------------------------------------------------------------


def declared() -> dict[str, str]:
    """Give the names that the root module imports for type checkers, with their modules."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            for line in node.body:
                if isinstance(line, ast.ImportFrom) and line.module:
                    found.update({alias.asname or alias.name: line.module for alias in line.names})
    return found


def test_the_names_for_type_checkers_are_those_that_are_there() -> None:
    assert {name: f"claude_agent_py.{home}" for name, home in claude_agent_py._HOME.items()} == declared()
    assert set(claude_agent_py.__all__) == {"__version__", *declared()}


@pytest.mark.parametrize("name", sorted(declared()))
def test_a_public_name_resolves_to_what_its_module_has(name: str) -> None:
    module = importlib.import_module(declared()[name])
    assert getattr(claude_agent_py, name) is getattr(module, name)
    assert name in dir(claude_agent_py)


def test_no_name_is_listed_twice() -> None:
    names = [name for listed in claude_agent_py._NAMES.values() for name in listed.split()]
    assert len(names) == len(set(names))


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="Nonsense"):
        _ = claude_agent_py.Nonsense  # type: ignore[attr-defined]


def test_the_contract_names_are_public() -> None:
    """What design and documentation promise to be importable from the root."""
    promised = """
        Client ClientOptions query run run_sync Run RunResult AgentDefinition TaskManager Task TaskStatus TaskOutcome
        TaskNotificationMessage HookMatcher Allow Deny PermissionRequest tool ToolServer ToolResult ToolChain
        ToolChainResult TextFormat MarkdownFormat XMLFormat UnknownMessage UnknownBlock MalformedFrame Timeouts Limits
        Transport ClaudeAgentError OptionsError CLIError CLINotFoundError CLIVersionError CLIStartError CLIExitError
        ProtocolError LocalProtocolError RemoteProtocolError ControlError ControlTimeoutError ControlRejectedError
        ConnectionClosedError RunError AuthenticationError RateLimitedError OverloadedError MaxTurnsError
        BudgetExceededError InvalidRequestError TaskError TaskNotFoundError TaskTimeoutError SessionError
        TaskInput TaskOutputInput TaskStopInput AgentOutput BashOutput SubagentStopInput SubagentStopOutput
        PermissionUpdate
    """
    assert [name for name in promised.split() if not hasattr(claude_agent_py, name)] == []
