"""Count the lines of code of the package: not blank, and not part of a comment, a docstring or an import.

Run `python scripts/count_code.py [FOLDER] [--rooms]`.
"""

import argparse
import ast
import tokenize
from collections import Counter
from pathlib import Path

_NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def count_code(path: Path) -> int:
    """Return the number of lines of a file that hold code. A string that stands alone is a docstring."""
    with tokenize.open(path) as file:
        lines = {
            line
            for token in tokenize.generate_tokens(file.readline)
            if token.type not in _NO_CODE
            for line in range(token.start[0], token.end[0] + 1)
        }
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import | ast.ImportFrom) or (isinstance(node, ast.Expr) and _is_text(node.value)):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def _is_text(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def main() -> None:
    """Print the count of a folder, and of each of its rooms."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", default="claude_agent_py", type=Path)
    parser.add_argument("--rooms", action="store_true", help="print a line for each module or package in the folder")
    arguments = parser.parse_args()
    rooms: Counter[str] = Counter()
    for path in arguments.folder.rglob("*.py"):
        rooms[path.relative_to(arguments.folder).parts[0]] += count_code(path)
    if arguments.rooms:
        for room, lines in rooms.most_common():
            print(f"{lines:7} {room}")
    print(f"{rooms.total():7} {arguments.folder}")


if __name__ == "__main__":
    main()
