"""Write the table of message types in `docs/architecture.md`: which tables of the code have a row for each.

python docs/generate_message_tables.py           rewrites the text between the marks
python docs/generate_message_tables.py --check   exits with 1 if that would change something
"""

from collections.abc import Collection, Mapping
from pathlib import Path

from generated_parts import main, table

from claude_agent_py._connection.connection import Connection
from claude_agent_py._connection.reported import Reported
from claude_agent_py._journal import fold, routes, turns
from claude_agent_py._journal.tasks import signals

PAGE = Path(__file__).with_name("architecture.md")
TABLES: Mapping[str, Collection[type]] = {
    "runs (`routes`)": routes._RULES,
    "turns (`RULES`)": turns.RULES,
    "tasks (`HANDLERS`)": signals.HANDLERS,
    "facts (`RECEIVED`)": fold.RECEIVED,
    "the session (`Reported`)": Reported.HANDLERS,
    "others (`_NOTED`)": Connection._NOTED.keys() - Reported.HANDLERS.keys(),
}


def parts() -> dict[str, str]:
    kinds = dict.fromkeys(kind for rows in TABLES.values() for kind in rows)
    messages = [kind for kind in kinds if kind.__name__.endswith(("Message", "Frame"))]
    rows = [(f"`{kind.__name__}`", *("yes" if kind in rows else "" for rows in TABLES.values())) for kind in messages]
    return {"message tables": "\n" + table("|".join(["message", *TABLES]), rows) + "\n"}


if __name__ == "__main__":
    main(PAGE, parts)
