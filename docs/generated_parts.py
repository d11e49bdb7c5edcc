"""What the `generate_*.py` programs share: to write the parts of a page that stand between marks, or to check them."""

import sys
from collections.abc import Callable, Mapping
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


def _replaced(name: str, text: str, parts: Mapping[str, str]) -> str:
    for part, content in parts.items():
        before, begin, rest = text.partition(BEGIN.format(part))
        _, end, after = rest.partition(END)
        if not begin or not end:
            raise SystemExit(f"{name} has no marks for {part!r}")
        text = f"{before}{begin}{content}{end}{after}"
    return text
