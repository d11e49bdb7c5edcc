"""Count imports for type checkers only, imports inside functions, and `Any` in annotations.

Modules that collect public names list them in `if TYPE_CHECKING:`; their imports are counted separately. Annotations
that are written as strings count like the others.

Run `python scripts/count_types.py [FOLDER] [--files]`.
"""

import argparse
import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

TABLES = {"client.py", "control.py", "errors.py", "messages.py"}
"""Modules at the top of the package that collect public names, as every `__init__` does."""

CHECKING, NAMES, LATE, ANY = (
    "imports for type checkers",
    "imports of public names",
    "imports in functions",
    "Any in annotations",
)


def count_types(path: Path, *, table: bool) -> Counter[str]:
    """Return the counts of a file. `table`: it collects public names."""
    tree = ast.parse(path.read_bytes())
    checking = {id(node): node for block in ast.walk(tree) if _is_checking(block) for node in _imports(block)}
    late = {id(node): node for block in ast.walk(tree) if _is_function(block) for node in _imports(block)}
    uses = [use for node in ast.walk(tree) for place in _annotations(node) for use in _uses_of_any(place)]
    return Counter({NAMES if table else CHECKING: len(checking), LATE: len(late.keys() - checking), ANY: len(uses)})


def _is_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).removeprefix("typing.") == "TYPE_CHECKING"


def _is_function(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)


def _imports(block: ast.AST) -> Iterator[ast.AST]:
    return (node for node in ast.walk(block) if isinstance(node, ast.Import | ast.ImportFrom))


def _annotations(node: ast.AST) -> Iterator[ast.AST]:
    found = [getattr(node, name, None) for name in ("annotation", "returns")]
    return (place for place in found if isinstance(place, ast.AST))


def _uses_of_any(annotation: ast.AST) -> Iterator[ast.AST]:
    for node in ast.walk(annotation):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                yield from _uses_of_any(ast.parse(node.value, mode="eval"))
            except SyntaxError:  # a text in Annotated or Literal
                continue
        elif (isinstance(node, ast.Name) and node.id == "Any") or (
            isinstance(node, ast.Attribute) and node.attr == "Any"
        ):
            yield node


def main() -> None:
    """Print the counts of a folder, and of each file that has any."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", default="claude_agent_py", type=Path)
    parser.add_argument("--files", action="store_true", help="print a line for each file, the one with the most first")
    arguments = parser.parse_args()
    folder: Path = arguments.folder
    files = {
        path.relative_to(folder): count_types(
            path, table=path.name == "__init__.py" or str(path.relative_to(folder)) in TABLES
        )
        for path in folder.rglob("*.py")
    }
    if arguments.files:
        for path, counts in sorted(files.items(), key=lambda item: -item[1].total()):
            if counts.total():
                print("; ".join(f"{number:4} {what}" for what, number in counts.items() if number), path)
    total = sum(files.values(), Counter[str]())
    for what in (CHECKING, NAMES, LATE, ANY):
        print(f"{total[what]:7} {what}")


if __name__ == "__main__":
    main()
