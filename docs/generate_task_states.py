"""Write the table of evidence in `docs/background-tasks.md` and the state diagram of a task in `docs/architecture.md`.

python docs/generate_task_states.py           rewrites the text between the marks
python docs/generate_task_states.py --check   exits with 1 if that would change something
"""

import ast
import inspect
import itertools
from collections.abc import Iterable
from pathlib import Path

from generated_parts import main, table

from claude_agent_py._journal.tasks import state
from claude_agent_py._journal.tasks.state import TRANSITIONS, Evidence, Transition
from claude_agent_py.wire.messages.tasks import TaskStatus

PAGE = Path(__file__).with_name("background-tasks.md")
INSIDE = Path(__file__).with_name("architecture.md")


def edges(rows: Iterable[Transition]) -> dict[tuple[str, str], list[str]]:
    """Return the labels of each edge. Transitions to and from terminal states are drawn between the two boxes."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        labels = found.setdefault(_ends(row), [])
        label = _label(row)
        if label not in labels:
            labels.append(label)
    return found


def _ends(row: Transition) -> tuple[str, str]:
    if row.source.is_terminal or row.target.is_terminal:
        return "ended" if row.source.is_terminal else "open", "ended" if row.target.is_terminal else "open"
    return row.source.value, row.target.value


def _label(row: Transition) -> str:
    if row.source.is_terminal and row.target.is_terminal:
        return f"corrected by {row.guard}"
    return f"{row.signal} ({row.guard})" if row.guard else row.signal.value


def diagram() -> str:
    """Return the diagram, in Mermaid."""
    labelled = edges(TRANSITIONS)
    inner = [_edge(ends, labels) for ends, labels in labelled.items() if not {"open", "ended"} & {*ends}]
    outer = [_edge(ends, labels) for ends, labels in labelled.items() if {"open", "ended"} & {*ends}]
    ended = [status.value for status in TaskStatus if status.is_terminal]
    lines = [
        *("```mermaid", "stateDiagram-v2", "    [*] --> open"),
        *("    state open {", f"        [*] --> {TaskStatus.PENDING}", *(f"    {edge}" for edge in inner), "    }"),
        *("    state ended {", *(f"        {status}" for status in ended), "    }"),
        *outer,
    ]
    return "\n".join([*lines, "```", ""])


def _edge(ends: tuple[str, str], labels: list[str]) -> str:
    return f"    {ends[0]} --> {ends[1]}: {' / '.join(labels)}"


def evidence() -> str:
    """Return the table of evidence, the best first."""
    texts = docstrings(Evidence)
    rows = sorted(Evidence, key=lambda one: -one.rank)
    cells = [(f"`{one.value}`", "yes" if one.is_certain else "no", texts[one.name]) for one in rows]
    return f"\n{table('`outcome.evidence`|reported by the CLI|meaning', cells)}\n"


def docstrings(enum: type[Evidence]) -> dict[str, str]:
    """Return the docstring of each member of an enum."""
    tree = ast.parse(inspect.getsource(state))
    body = next(node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == enum.__name__)
    return {
        node.targets[0].id: " ".join(text.value.value.split())
        for node, text in itertools.pairwise(body)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


if __name__ == "__main__":
    main(PAGE, lambda: {"evidence": evidence()})
    main(INSIDE, lambda: {"task states": diagram()})
