"""What the `generate_*.py` programs share: tables, and writing or checking the parts of a page between marks."""

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

BEGIN, END = "<!-- generated: {} -->\n", "<!-- end -->\n"


def main(page: Path, parts: Callable[[], Mapping[str, str]]) -> None:
    """Write the parts of a page anew. With `--check`, exit with 1 if that would change something."""
    program = Path(sys.argv[0]).name
    old = page.read_text(encoding="utf-8")
    new = _replaced(page.name, old, parts())
    if "--check" not in sys.argv[1:]:
        page.write_text(new, encoding="utf-8")
    elif new != old:
        sys.exit(f"docs/{page.name} is not up to date; run `python docs/{program}`")


def table(head: str, rows: Iterable[Iterable[str]]) -> str:
    """Return a table. `head` names the columns: `event|when|note`."""
    lines = [" | ".join(text.replace("|", "\\|") for text in cells) for cells in (head.split("|"), *rows)]
    lines = [f"| {line} |\n" for line in lines]
    return "".join([lines[0], f"|{'---|' * len(head.split('|'))}\n", *lines[1:]])


def first_paragraph(model: type) -> str:
    """Return the first paragraph of a docstring in one line."""
    return " ".join(inspect.cleandoc(model.__doc__ or "").partition("\n\n")[0].split())


def _replaced(name: str, text: str, parts: Mapping[str, str]) -> str:
    for part, content in parts.items():
        before, begin, rest = text.partition(BEGIN.format(part))
        _, end, after = rest.partition(END)
        if not begin or not end:
            raise SystemExit(f"{name} has no marks for {part!r}")
        text = f"{before}{begin}{content}{end}{after}"
    return text
