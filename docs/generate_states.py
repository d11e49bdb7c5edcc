"""Write the tables of states in `docs/architecture.md` from `protocol/state.py`.

python docs/generate_states.py           rewrites what stands between the marks
python docs/generate_states.py --check   exits with 1 where that would change something
"""

import re
import sys
from collections.abc import Iterable
from pathlib import Path

from claude_agent_py.protocol import state
from claude_agent_py.protocol.state import CAN_SEND, CLI_READS, TRANSITIONS, State, Step

PAGE = Path(__file__).with_name("architecture.md")
BEGIN, END = "<!-- generated: states -->\n", "<!-- end -->\n"


def meanings() -> dict[State, str]:
    """Return what each state means, as the module says it."""
    found = dict(re.findall(r"^([A-Z]+) +(\S.*)$", state.__doc__ or "", re.MULTILINE))
    return {each: found[each.name] for each in State}


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    columns = list(head)
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def tables() -> str:
    means = [
        (f"`{each.name}`", text, _yes(each in CAN_SEND), _yes(each in CLI_READS)) for each, text in meanings().items()
    ]
    steps = [(f"`{each.name}`", *(_target(each, step) for step in Step)) for each in State]
    return (
        table(("state", "what it means", "sends", "answers"), means)
        + "\n"
        + table(("state", *(f"`{step.name}`" for step in Step)), steps)
    )


def _yes(value: bool) -> str:
    return "yes" if value else ""


def _target(source: State, step: Step) -> str:
    target = TRANSITIONS[source].get(step)
    return "" if target is None else "stays" if target is source else f"`{target.name}`"


def page(text: str) -> str:
    """Return the page with its tables written anew."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{PAGE.name} has no marks")
    return f"{before}{begin}\n{tables()}\n{end}{after}"


def main(arguments: list[str]) -> int:
    old = PAGE.read_text(encoding="utf-8")
    new = page(old)
    if "--check" in arguments:
        if new != old:
            print(f"{PAGE.name} is not up to date: run `python docs/{Path(__file__).name}`", file=sys.stderr)
        return int(new != old)
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
