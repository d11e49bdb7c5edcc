"""Naming and documentation rules of the source."""

import ast

from package_source import Module, definitions, modules

EMPTY_NAMES = {"utils", "util", "helpers", "helper", "common", "types", "misc", "tools_utils", "base_utils", "shared"}
OWN_WORDS = {"overload", "override"}
"""Functions with these decorators are documented at the implementation, or at the method that they override."""


def test_no_module_has_a_name_that_says_nothing() -> None:
    named = [module.name for module in modules() if EMPTY_NAMES & set(module.name.split("."))]
    assert named == ["claude_agent_py.compat.types"]  # the official SDK's name


def test_a_module_starts_with_its_purpose() -> None:
    docstrings = {module.name: ast.get_docstring(module.tree) or "" for module in modules()}
    silent = [
        name
        for name, docstring in docstrings.items()
        if not docstring.partition("\n")[0].strip().endswith((".", ":", "!"))
    ]
    assert silent == []


def test_public_definitions_have_docstrings() -> None:
    silent = [
        definition.where
        for module in modules()
        if not any(part.startswith("_") for part in module.name.split("."))
        for definition in definitions(module)
        if definition.is_public and not definition.decorators & OWN_WORDS and not ast.get_docstring(definition.node)
    ]
    assert silent == []


def test_no_type_carries_a_prefix_of_the_product() -> None:
    """`Client`, not `ClaudeClient`; `MCPServer`, not `SDKMCPServer`. The official SDK's own names excepted."""
    prefixed = [
        definition.where
        for module in modules()
        if not module.name.startswith("claude_agent_py.compat")
        for definition in definitions(module)
        if isinstance(definition.node, ast.ClassDef)
        and definition.node.name.lstrip("_").startswith(("SDK", "Sdk", "Claude"))
        and definition.node.name != "ClaudeAgentError"
    ]
    assert prefixed == []


def is_program(module: Module) -> bool:
    """Return whether a module is a command or a program."""
    return module.name.startswith("claude_agent_py.cli") or module.name == "claude_agent_py.testing.fake_player"


def test_no_module_prints_or_uses_the_root_logger() -> None:
    """A library is silent."""
    calls = [
        (f"{module.name}:{node.lineno}", node.func)
        for module in modules()
        if not is_program(module)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call)
    ]
    printed = [where for where, call in calls if isinstance(call, ast.Name) and call.id == "print"]
    assert printed == []
    logged = [
        where
        for where, call in calls
        if isinstance(call, ast.Attribute)
        and isinstance(call.value, ast.Name)
        and call.value.id == "logging"
        and call.attr in ("debug", "info", "warning", "error", "exception", "basicConfig")
    ]
    assert logged == []
