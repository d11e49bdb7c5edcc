"""`Row`: a line of the dashboard, with those below it."""

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias

from claude_agent_py.cli.terminal import one_line
from claude_agent_py.permissions.interactions import Interaction
from claude_agent_py.transport.processes import ProcessID

Kind: TypeAlias = Literal["host", "session", "task", "fleet", "fleet_session", "inbox", "question", "problem"]

MARKS: Final[Mapping[str, tuple[str, str]]] = {
    "asks": ("?", "bold yellow"),
    "waiting": ("‖", "yellow"),
    "busy": ("●", "cyan"),
    "running": ("●", "cyan"),
    "queued": ("·", "blue"),
    "failed": ("✗", "red"),
    "cancelled": ("■", "magenta"),
    "problem": ("!", "red"),
    "group": ("▸", "bold"),
}
"""A character for each state, with its colour. Others are at rest."""
LINE_CHARS: Final = 200


@dataclass(frozen=True, slots=True)
class Spent:
    """What was used so far."""

    tokens: int = 0
    cost_usd: float | None = None
    """None if it is unknown."""
    is_derived: bool = False
    """Whether the cost was computed from the tokens and from prices that the CLI's own sums imply."""
    is_partial: bool = False
    """Whether the rest of a long transcript is still to be read."""

    def facts(self) -> tuple[str, str]:
        """Return the tokens and the cost as text, empty if there are none."""
        least = "≥" if self.is_partial else ""
        cost = "" if self.cost_usd is None else f"{least or '~' * self.is_derived}{self.cost_usd:.4f} $"
        return (f"{least}{short_number(self.tokens)}" if self.tokens else ""), cost


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A line of the dashboard."""

    key: str
    """The same at every look."""
    kind: Kind
    title: str
    state: str = ""
    since: float | None = None
    """When it began, in seconds since the epoch."""
    spent: Spent = Spent()
    calls: str = ""
    """The tool calls without a result."""
    about: tuple[str, ...] = ()
    """What else a line says."""
    questions: tuple[Interaction, ...] = ()
    children: "tuple[Row, ...]" = ()
    process: ProcessID | None = None
    """The process of a session, if it can be told from a later one with the same id."""
    pid: int | None = None
    session_id: str = ""
    """The CLI's session."""
    fleet_id: str = ""
    """The fleet's session."""
    path: str = ""
    """The transcript."""
    told: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """What `--json` says of it."""

    def walk(self) -> "Iterator[Row]":
        """Yield this row and all below it."""
        yield self
        for child in self.children:
            yield from child.walk()

    @property
    def waits_for(self) -> str:
        """What it waits for: a person, otherwise its tool calls."""
        return one_line(self.questions[0].summary, LINE_CHARS) if self.questions else self.calls

    @property
    def mark(self) -> tuple[str, str]:
        """The character for its state, with its colour."""
        return MARKS.get("asks" if self.questions else self.state, ("·", "dim"))

    @property
    def question(self) -> Interaction | None:
        """The oldest question of this row and of those below it."""
        return min((one for row in self.walk() for one in row.questions), key=lambda one: one.created_at, default=None)

    def matches(self, text: str) -> bool:
        """Return whether the text is in what is shown of it."""
        facts = (self.title, self.state, self.waits_for, self.session_id, self.fleet_id, *self.about)
        return any(text in fact.lower() for fact in facts)

    def line(self) -> str:
        """Return the row in one line, without the mark."""
        if self.kind in ("host", "fleet", "inbox", "problem"):
            return one_line(" · ".join((self.title, *self.about)), LINE_CHARS)
        tokens, cost = self.spent.facts()
        facts = [*self.about[:1], *([] if self.since is None else [elapsed(self.since)])]
        facts += [f"{tokens} tokens"] if tokens else []
        facts += [cost] if cost else []
        facts += [f"asks {self.waits_for}"] if self.questions else [f"in {self.calls}"] if self.calls else []
        state = f" [{self.state}]" if self.state else ""
        return one_line(f"{self.title}{state} {' · '.join([*facts, *self.about[1:]])}", LINE_CHARS)

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            **self.told,
            "tokens": self.spent.tokens,
            "cost_usd": self.spent.cost_usd,
            "cost_is_derived": self.spent.is_derived,
            "is_partial": self.spent.is_partial,
            "waits_for": self.waits_for,
            "interactions": [_question_json(one) for one in self.questions],
        }


def _question_json(question: Interaction) -> dict[str, Any]:
    summary = one_line(question.summary, LINE_CHARS)
    told = {"id": question.id, "kind": question.kind, "summary": summary, "agent_id": question.agent_id}
    return {**told, "asked_at": question.created_at}


def count_sessions(rows: Iterable[Row]) -> int:
    """Return how many sessions there are."""
    return sum(row.kind in ("session", "fleet_session") for top in rows for row in top.walk())


def nested(tasks: Mapping[str, Row], parents: Mapping[str, str | None]) -> tuple[Row, ...]:
    """Return the rows of tasks, by id, each below that of the task that launched it."""

    def below(parent: str | None) -> tuple[Row, ...]:
        return tuple(
            replace(row, children=below(task_id))
            for task_id, row in tasks.items()
            if task_id != parent and (parents[task_id] if parents[task_id] in tasks else None) == parent
        )

    return below(None)


def elapsed(since: float) -> str:
    """Return how long ago something was, such as `2m05s`."""
    seconds = max(0, int(time.time() - since))
    if seconds < 3600:
        return f"{seconds // 60}m{seconds % 60:02}s"
    return f"{seconds // 3600}h{seconds // 60 % 60:02}m" if seconds < 86400 else f"{seconds // 86400}d"


def short_number(number: int) -> str:
    """Return a number in a few characters."""
    if number < 10_000:
        return str(number)
    return f"{number / 1000:.0f}k" if number < 1_000_000 else f"{number / 1_000_000:.1f}M"
