"""Parse the source of the package for the architecture tests."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeAlias

import claude_agent_py

PACKAGE = Path(claude_agent_py.__file__).parent
Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


class Module(NamedTuple):
    """A module of the package."""

    name: str
    """The dotted name, including `claude_agent_py`."""
    path: Path
    lines: int
    tree: ast.Module


class Definition(NamedTuple):
    """A function or a class, possibly nested."""

    where: str
    """`module.py:12 Class.method`"""
    node: Function | ast.ClassDef
    is_public: bool
    """Whether no part of its name begins with an underscore, and it is not inside a function."""

    @property
    def lines(self) -> int:
        """The number of lines, without decorators."""
        return (self.node.end_lineno or self.node.lineno) - self.node.lineno + 1

    @property
    def decorators(self) -> set[str]:
        """The names of its decorators."""
        return {part.id for each in self.node.decorator_list for part in ast.walk(each) if isinstance(part, ast.Name)}


@cache
def modules() -> list[Module]:
    """Return every module."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        name = ".".join(("claude_agent_py", *(part for part in parts if part != "__init__")))
        text = path.read_text(encoding="utf-8")
        found.append(Module(name, path, len(text.splitlines()), ast.parse(text)))
    return found


def definitions(module: Module) -> Iterator[Definition]:
    """Return every function and class of a module."""
    return _definitions(module, module.tree, "", is_public=True)


def _definitions(module: Module, node: ast.AST, outer: str, *, is_public: bool) -> Iterator[Definition]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{outer}{child.name}"
            public = is_public and not child.name.startswith("_")
            yield Definition(f"{module.path.relative_to(PACKAGE)}:{child.lineno} {name}", child, public)
            inner_public = public and isinstance(child, ast.ClassDef)
            yield from _definitions(module, child, f"{name}.", is_public=inner_public)
        else:
            yield from _definitions(module, child, outer, is_public=is_public)
