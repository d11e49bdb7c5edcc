"""Write the table of facts in `docs/the-journal.md` from their types.

python docs/generate_journal.py           rewrites the text between the marks
python docs/generate_journal.py --check   exits with 1 if that would change something
"""

from pathlib import Path
from typing import Any, get_args

from generated_parts import first_paragraph, main, table

from claude_agent_py.journal import CallRunning, Fact

PAGE = Path(__file__).with_name("the-journal.md")


def facts() -> str:
    """Return a row for each fact: its name, its meaning, and its fields."""
    rows = [
        (f"`{kind.fact}`", f"`{kind.__name__}`", first_paragraph(kind), ", ".join(own_fields(kind)))
        for kind in get_args(Fact)
    ]
    return table("`fact`|type|meaning|fields", rows)


def own_fields(kind: type[Any]) -> list[str]:
    return [f"`{name}`" for name in kind.__struct_fields__ if name not in CallRunning.__struct_fields__]


if __name__ == "__main__":
    main(PAGE, lambda: {"facts": facts()})
