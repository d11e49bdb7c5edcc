"""Extract code from Markdown and find names in it that the package does not have.

A fenced ```` ```python ```` block is code. With the comment `<!-- offline: ["Hi."] -->` above, it is a program that
runs against a scripted model with that script; a ```` ```text ```` block right below is its expected output. With
`<!-- fake: ["Hi."] -->` it runs with a fake CLI that gives these answers, texts or `steps.turn(...)`, as an example
makes the same calls on the real one.
"""

import ast
import dataclasses
import functools
import importlib
import inspect
import pkgutil
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic import BaseModel

import claude_agent_py
import claude_agent_py.testing
from claude_agent_py import control, hooks, messages, options, permissions, tasks, tools, wire

BLOCK = re.compile(
    r"(?:^<!-- (?P<runs_on>offline|fake): (?P<script>.*?) -->\n)?"
    r"^```python\n(?P<code>.*?)^```$(?:\n+^```text\n(?P<printed>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)

CONTROLS = ("mcp", "settings", "files", "conversation", "usage")
"""The properties of a client that group control requests."""


CONVENTIONAL: dict[str, Any] = {
    "client": claude_agent_py.Client,
    "client.tasks": claude_agent_py.TaskManager,
    **{f"client.{name}": type(getattr(claude_agent_py.Client(), name)) for name in CONTROLS},
    "task": claude_agent_py.Task,
    "outcome": claude_agent_py.TaskOutcome,
    "run": claude_agent_py.Run,
    "result": claude_agent_py.RunResult,
    "options": claude_agent_py.ClientOptions,
}
"""The types of these names in the docs, unless a block assigns them."""

PUBLIC_MODULES = [
    f"claude_agent_py.{found.name}"
    for found in pkgutil.iter_modules(claude_agent_py.__path__)
    if not found.name.startswith("_")
]

MAKES = {
    "Client": claude_agent_py.Client,
    "run": claude_agent_py.RunResult,
    "run_sync": claude_agent_py.RunResult,
    "client.query": claude_agent_py.Run,
    "query": claude_agent_py.Run,
}
"""The return types of these calls; awaiting a run returns its result."""


@dataclass(frozen=True)
class CodeBlock:
    page: Path
    line: int
    code: str
    script: str | None
    printed: str | None
    runs_on: str | None = None
    """`offline` or `fake`; None for code that is not run."""

    @property
    def name(self) -> str:
        return f"{self.page.name}:{self.line}"

    @property
    def tree(self) -> ast.Module:
        compile(self.code, self.name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        return ast.parse(self.code, self.name)


def blocks_of(page: Path) -> Iterator[CodeBlock]:
    text = page.read_text(encoding="utf-8")
    for found in BLOCK.finditer(text):
        line = text.count("\n", 0, found.start("code")) + 1
        yield CodeBlock(page, line, found["code"], found["script"], found["printed"], found["runs_on"])


# Types ------------------------------------------------------------------------------------------------------------

READERS_OWN = """
from collections.abc import Callable as _Callable
from pathlib import Path as _Path
from typing import Any as _Any

import anyio as _anyio

import claude_agent_py as _package
from claude_agent_py.sessions import SessionKey as _SessionKey, SessionStore as _SessionStore

client: _package.Client[_Any]
options: _package.ClientOptions[_Any]
outcome: _package.TaskOutcome
result: _package.RunResult[_Any]
run: _package.Run[_Any]
task: _package.Task

add: _Callable[[int, int], int]
calls: list[dict[str, _Any]]
divide: _Callable[[int, int], float]
draw: _Callable[[list[float]], bytes]
key: _SessionKey
other_store: _SessionStore
png: bytes
prompt_uuid: str
read_notes: _Callable[[], str]
ready: _anyio.Event
search: _Callable[[str], str]
session_id: str
steps: list[str]
tmp_path: _Path
token: str
"""
"""Names that blocks use without defining them: objects of the library under their usual names, and the reader's own."""


def program_of(blocks: list[CodeBlock]) -> str:
    """Return the blocks of a page as one module: each in an async function, inside of the function before it.

    So a block may use and redefine the names of the blocks above it.
    """
    program = READERS_OWN
    for depth, block in enumerate(blocks):
        body = textwrap.indent(f"{block.code}\n", "    " * (depth + 1))
        program += f"{'    ' * depth}async def line_{block.line}() -> None:\n{body}"
    return program


# Names ------------------------------------------------------------------------------------------------------------


def problems_of(block: CodeBlock) -> list[str]:
    """Return the names that a block uses and the package does not have."""
    tree = block.tree
    known = imported(tree)
    return [*bad_imports(tree), *bad_calls(tree, known), *bad_attributes(tree)]


def bad_imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "claude_agent_py":
            module = importlib.import_module(node.module or "")
            yield from (f"import {alias.name}" for alias in node.names if not has(module, alias.name))


def imported(tree: ast.Module) -> dict[str, Any]:
    """Return the public objects of the package by name, without those that the code defines itself."""
    made_here = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    return {
        name: value
        for module in (
            claude_agent_py,
            claude_agent_py.testing,
            messages,
            control,
            hooks,
            tools,
            permissions,
            tasks,
            options,
        )
        for name in module.__all__
        if name not in made_here and callable(value := getattr(module, name))
    }


def bad_calls(tree: ast.Module, known: dict[str, Any]) -> Iterator[str]:
    """Yield keyword arguments that the called class, function or method does not accept."""
    given = assigned(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            allowed = parameters(target(called, known, given))
            for keyword in node.keywords if allowed is not None else ():
                if keyword.arg is not None and keyword.arg not in (allowed or ()):
                    yield f"{called}({keyword.arg}=)"


def target(called: str, known: dict[str, Any], given: dict[str, Any]) -> Any:
    owner, _, name = called.rpartition(".")
    if not owner:
        return known.get(name)
    return getattr(owner_of(owner, given), name, None)


def bound(tree: ast.Module) -> set[str]:
    """Return the names that the code imports, defines or assigns anywhere."""
    names: set[str] = set(CONVENTIONAL)
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.alias):
            names.add(node.asname or node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.arg | ast.MatchAs) and (name := getattr(node, "arg", getattr(node, "name", None))):
            names.add(name)
    return names


def public_names(tree: ast.Module) -> set[str]:
    """Return the names in the code that the package exports."""
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    modules = [claude_agent_py, *map(importlib.import_module, PUBLIC_MODULES)]
    return used & {name for module in modules for name in getattr(module, "__all__", ())}


def parameters(function: Any) -> set[str] | None:
    """Return the names of the parameters, or None if any is accepted or they are unknown."""
    if function is None:
        return None
    if isinstance(function, type) and issubclass(function, BaseModel):
        if function.model_config.get("extra") == "allow":
            return None
        aliases = {field.alias for field in function.model_fields.values() if field.alias}
        return {*function.model_fields, *aliases}
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in signature.parameters.values()):
        return None
    return set(signature.parameters)


def bad_attributes(tree: ast.Module) -> Iterator[str]:
    """Yield attributes that the types of conventional names do not have."""
    given = assigned(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            owner = ast.unparse(node.value)
            kind = owner_of(owner, given)
            if kind is not None and not has(kind, node.attr):
                yield f"{owner}.{node.attr}"


def owner_of(owner: str, given: dict[str, Any]) -> Any:
    return given.get(owner, CONVENTIONAL.get(owner))


def assigned(tree: ast.Module) -> dict[str, Any]:
    """Return the types of the names that the code assigns, None for an unknown type."""
    given: dict[str, Any] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for name in node.targets:
                given[ast.unparse(name)] = kind_of(node.value)
        elif isinstance(node, ast.For | ast.comprehension | ast.arg) and not is_task_loop(node):
            given[node.arg if isinstance(node, ast.arg) else ast.unparse(node.target)] = None
    return given


def is_task_loop(node: ast.AST) -> bool:
    return isinstance(node, ast.For | ast.comprehension) and "tasks" in ast.unparse(node.iter)


def kind_of(value: ast.expr) -> Any:
    if isinstance(value, ast.Await):
        made = kind_of(value.value)
        return claude_agent_py.RunResult if made is claude_agent_py.Run else made
    return MAKES.get(ast.unparse(value.func)) if isinstance(value, ast.Call) else None


def has(owner: Any, name: str) -> bool:
    if isinstance(owner, type):
        if issubclass(owner, BaseModel) and name in owner.model_fields:
            return True
        if dataclasses.is_dataclass(owner) and name in {field.name for field in dataclasses.fields(owner)}:
            return True
        if any(f"self.{name} = " in source_of(base) for base in owner.__mro__ if is_ours(base)):
            return True
    if hasattr(owner, name):
        return True
    return isinstance(owner, ModuleType) and is_module(f"{owner.__name__}.{name}")


@functools.cache
def source_of(owner: type) -> str:
    return inspect.getsource(owner)


def is_ours(owner: type) -> bool:
    return owner.__module__.partition(".")[0] == "claude_agent_py"


def is_module(name: str) -> bool:
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True


# Names in the text ------------------------------------------------------------------------------------------------

CODE = re.compile(r"`([^`\n]+)`")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
ATTRIBUTE = re.compile(
    r"(client\.(?:tasks|mcp|settings|files|conversation|usage)|client|task|run|wire|messages|control|[A-Z]\w+)\.([a-zA-Z]\w*)\b"
)


def prose_problems(page: Path) -> list[str]:
    """Return the attributes mentioned in the text of a page that do not exist."""
    names = importlib.import_module("claude_agent_py").__all__
    public = {name: getattr(claude_agent_py, name) for name in names if not name.startswith("_")}
    owners = {**public, **CONVENTIONAL, "wire": wire, "messages": messages, "control": control}
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    said = [(found[0], owners.get(found[1]), found[2]) for found in map(ATTRIBUTE.match, CODE.findall(text)) if found]
    return [whole for whole, owner, name in said if owner is not None and name != "py" and not has(owner, name)]
