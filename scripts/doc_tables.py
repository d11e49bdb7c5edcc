"""Tables in the docs that a script measures: each stands between a line with the script's name and `<!-- end -->`."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"


def keep(page: str, script: str, columns: Sequence[str], rows: Mapping[str, Sequence[str]], *, write: bool) -> int:
    """Print a table with rows by title. Return 1 if the page has another one; `write` replaces it."""
    lines = [_join(columns), "|---" * len(columns) + "|"]
    lines += [_join([title, *cells]) for title, cells in rows.items()]
    table = "\n".join([*lines, ""])
    print(table)
    begin, end = f"<!-- {script} -->\n", "<!-- end -->\n"
    path = DOCS / page
    head, _, rest = path.read_text(encoding="utf-8").partition(begin)
    written, _, tail = rest.partition(end)
    if write:
        path.write_text(f"{head}{begin}{table}{end}{tail}", encoding="utf-8")
    elif written != table:
        print(f"{page} has another table", file=sys.stderr)
        return 1
    return 0


def _join(cells: Sequence[str]) -> str:
    """Return the line of a row, in which an empty cell is one space."""
    return "".join(f"| {cell} " if cell else "| " for cell in cells) + "|"
