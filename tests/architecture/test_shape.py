"""Naming and documentation rules of the source."""

import ast

import pytest
from package_source import Module, definitions, modules

MODULES = modules()
EMPTY_NAMES = {"utils", "util", "helpers", "helper", "common", "types", "misc", "tools_utils", "base_utils", "shared"}
OWN_WORDS = {"overload", "override"}
"""Functions with these decorators are documented at the implementation, or at the method that they override."""


def ids(module: Module) -> str:
    return module.name


def test_no_module_has_a_name_that_says_nothing() -> None:
    named = [module.name for module in MODULES if EMPTY_NAMES & set(module.name.split("."))]
    assert named == []


@pytest.mark.parametrize("module", MODULES, ids=ids)
def test_a_module_says_what_it_owns(module: Module) -> None:
    docstring = ast.get_docstring(module.tree)
    assert docstring
    assert docstring.splitlines()[0].strip().endswith((".", ":", "!"))


@pytest.mark.parametrize("module", MODULES, ids=ids)
def test_what_is_public_is_documented(module: Module) -> None:
    silent = [
        definition.where
        for definition in definitions(module)
        if definition.is_public and not definition.decorators & OWN_WORDS and not ast.get_docstring(definition.node)
    ]
    assert silent == []


@pytest.mark.parametrize("module", MODULES, ids=ids)
def test_no_type_carries_a_prefix_of_the_product(module: Module) -> None:
    """`Client`, not `ClaudeClient`; `MCPServer`, not `SDKMCPServer`."""
    prefixed = [
        definition.where
        for definition in definitions(module)
        if isinstance(definition.node, ast.ClassDef)
        and definition.node.name.lstrip("_").startswith(("SDK", "Sdk", "Claude"))
        and not definition.node.name.startswith(("ClaudeAgentError", "ClaudeDesign"))  # the latter is a product's name
    ]
    assert prefixed == []


def is_program(module: Module) -> bool:
    """Return whether a module is a command or a program."""
    return module.name.startswith("claude_agent_py.cli") or module.name == "claude_agent_py.testing.fake_player"


@pytest.mark.parametrize("module", [module for module in MODULES if not is_program(module)], ids=ids)
def test_no_module_prints_or_uses_the_root_logger(module: Module) -> None:
    """A library does not print."""
    calls = [node.func for node in ast.walk(module.tree) if isinstance(node, ast.Call)]
    printed = [call.lineno for call in calls if isinstance(call, ast.Name) and call.id == "print"]
    assert printed == []
    logged = [
        call.lineno
        for call in calls
        if isinstance(call, ast.Attribute)
        and isinstance(call.value, ast.Name)
        and call.value.id == "logging"
        and call.attr in ("debug", "info", "warning", "error", "exception", "basicConfig")
    ]
    assert logged == []
