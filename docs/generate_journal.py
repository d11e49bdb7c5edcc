"""Write the table of facts in `docs/the-journal.md` from their types.

python docs/generate_journal.py           rewrites the text between the marks
python docs/generate_journal.py --check   exits with 1 if that would change something
"""

from pathlib import Path
from typing import get_args

from generated_parts import main

from claude_agent_py.journal import CallRunning, Fact

PAGE = Path(__file__).with_name("the-journal.md")


def table() -> str:
    """Return a row for each fact: its name, what it says, and its fields."""
    shared = CallRunning.__struct_fields__
    rows = ["| `fact` | type | meaning | fields |", "|---|---|---|---|"]
    for kind in get_args(Fact):
        meaning = (kind.__doc__ or "").partition("\n")[0]
        fields = ", ".join(f"`{name}`" for name in kind.__struct_fields__ if name not in shared)
        rows.append(f"| `{kind.fact}` | `{kind.__name__}` | {meaning} | {fields} |")
    return "".join(f"{row}\n" for row in rows)


if __name__ == "__main__":
    main(PAGE, lambda: {"facts": table()})
