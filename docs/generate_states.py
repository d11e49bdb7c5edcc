"""Write the tables of states in `docs/architecture.md` from `_journal/state.py`.

python docs/generate_states.py           rewrites the text between the marks
python docs/generate_states.py --check   exits with 1 if that would change something
"""

import re
from pathlib import Path

from generated_parts import main, table

from claude_agent_py._journal import state
from claude_agent_py._journal.state import CAN_SEND, CLI_READS, TRANSITIONS, State, Step

PAGE = Path(__file__).with_name("architecture.md")


def meanings() -> dict[State, str]:
    """Return what each state means, as the module says it."""
    found = dict(re.findall(r"^([A-Z]+) +(\S.*)$", state.__doc__ or "", re.MULTILINE))
    return {each: found[each.name] for each in State}


def tables() -> str:
    means = [
        (f"`{each.name}`", text, _yes(each in CAN_SEND), _yes(each in CLI_READS)) for each, text in meanings().items()
    ]
    steps = [(f"`{each.name}`", *(_target(each, step) for step in Step)) for each in State]
    names = "|".join(f"`{step.name}`" for step in Step)
    return table("state|meaning|sends|answers", means) + "\n" + table(f"state|{names}", steps)


def _yes(value: bool) -> str:
    return "yes" if value else ""


def _target(source: State, step: Step) -> str:
    target = TRANSITIONS[source].get(step)
    return "" if target is None else "stays" if target is source else f"`{target.name}`"


def parts() -> dict[str, str]:
    return {"states": f"\n{tables()}\n"}


if __name__ == "__main__":
    main(PAGE, parts)
