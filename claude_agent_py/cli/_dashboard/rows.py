"""`Row`: a line of the dashboard, with its children."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias

from claude_agent_py.cli.terminal import MARKS, one_line
from claude_agent_py.permissions.interactions import Interaction
from claude_agent_py.transport.processes import ProcessID
from claude_agent_py.wire.base import JSONObject

Kind: TypeAlias = Literal["host", "session", "task", "fleet", "fleet_session", "inbox", "question"]

LINE_CHARS: Final = 200
MAX_SESSIONS: Final = 500
"""The maximum number of shown sessions of a fleet per state."""


@dataclass(frozen=True, slots=True)
class Spent:
    """The tokens and the cost so far."""

    tokens: int = 0
    cost_usd: float | None = None
    """None if unknown."""
    is_derived: bool = False
    """Whether the cost was computed from the tokens and the prices implied by the CLI's totals."""
    is_partial: bool = False
    """Whether a part of a long transcript has not been read yet."""

    def format(self) -> tuple[str, str]:
        """Return the tokens and the cost as texts, which are empty for no tokens or an unknown cost."""
        sign = "≥" if self.is_partial else ""
        tokens = f"{sign}{format_number(self.tokens)}" if self.tokens else ""
        if self.cost_usd is None:
            return tokens, ""
        if self.is_derived and not sign:
            sign = "~"
        return tokens, f"{sign}{self.cost_usd:.4f} $"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A line of the dashboard."""

    key: str
    """The identity of the row, which is the same in every refresh."""
    kind: Kind
    title: str
    state: str = ""
    since: float | None = None
    """The start, in seconds since the epoch."""
    spent: Spent = Spent()
    calls: str = ""
    """The tool calls in progress."""
    about: tuple[str, ...] = ()
    """Further facts of the line."""
    questions: tuple[Interaction, ...] = ()
    children: "tuple[Row, ...]" = ()
    process: ProcessID | None = None
    """The process of a session, if it can be distinguished from a later process with the same id."""
    pid: int | None = None
    session_id: str = ""
    """The id of the CLI's session."""
    fleet_id: str = ""
    """The id of the fleet's session."""
    path: str = ""
    """The path of the transcript."""
    load_messages: Callable[[int | None], list[object]] | None = field(default=None, compare=False, repr=False)
    """Returns the last messages, or all, of a fleet's session. Blocks."""
    cancel: Callable[[], bool] | None = field(default=None, compare=False, repr=False)
    """Cancels a fleet's session permanently. Returns False if it has already ended. Blocks."""
    facts: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """The facts for `--json`."""

    def walk(self) -> "Iterator[Row]":
        """Yield this row and all its descendants."""
        yield self
        for child in self.children:
            yield from child.walk()

    @property
    def waits_for(self) -> str:
        """The question that the row waits for, otherwise its tool calls."""
        if self.questions:
            return one_line(self.questions[0].summary, LINE_CHARS)
        return self.calls

    @property
    def mark(self) -> tuple[str, str]:
        """The character and colour of the state."""
        return MARKS.get("asks" if self.questions else self.state, ("·", "dim"))

    @property
    def question(self) -> Interaction | None:
        """The oldest question of this row and its descendants."""
        questions = [question for row in self.walk() for question in row.questions]
        return min(questions, key=lambda question: question.created_at, default=None)

    def matches(self, text: str) -> bool:
        """Return whether the row contains a lower-case text."""
        texts = (self.title, self.state, self.waits_for, self.session_id, self.fleet_id, *self.about)
        return any(text in shown.lower() for shown in texts)

    def line(self) -> str:
        """Return the row as one line, without its mark."""
        if self.kind in ("host", "fleet", "inbox"):
            return one_line(" · ".join((self.title, *self.about)), LINE_CHARS)
        tokens, cost = self.spent.format()
        texts = [*self.about[:1]]
        if self.since is not None:
            texts.append(format_elapsed(self.since))
        if tokens:
            texts.append(f"{tokens} tokens")
        if cost:
            texts.append(cost)
        if self.questions:
            texts.append(f"asks {self.waits_for}")
        elif self.calls:
            texts.append(f"in {self.calls}")
        texts += self.about[1:]
        state = f" [{self.state}]" if self.state else ""
        return one_line(f"{self.title}{state} {' · '.join(texts)}", LINE_CHARS)

    def as_json(self) -> JSONObject:
        return {
            **self.facts,
            "tokens": self.spent.tokens,
            "cost_usd": self.spent.cost_usd,
            "cost_is_derived": self.spent.is_derived,
            "is_partial": self.spent.is_partial,
            "waits_for": self.waits_for,
            "interactions": [_describe_question(question) for question in self.questions],
        }


def _describe_question(question: Interaction) -> JSONObject:
    return {
        "id": question.id,
        "kind": question.kind,
        "summary": one_line(question.summary, LINE_CHARS),
        "agent_id": question.agent_id,
        "asked_at": question.created_at,
    }


def count_sessions(rows: Iterable[Row]) -> int:
    """Return the number of sessions in the rows."""
    return sum(row.kind in ("session", "fleet_session") for top in rows for row in top.walk())


def nest_tasks(tasks: Mapping[str, Row], parents: Mapping[str, str | None]) -> tuple[Row, ...]:
    """Return the rows of tasks as a tree. Tasks and their parents are given by task id."""
    # A task whose parent has ended is at the top.
    shown_parents = {task_id: parent if parent in tasks else None for task_id, parent in parents.items()}

    def children_of(parent: str | None) -> tuple[Row, ...]:
        return tuple(
            replace(row, children=children_of(task_id))
            for task_id, row in tasks.items()
            if task_id != parent and shown_parents[task_id] == parent
        )

    return children_of(None)


def format_elapsed(since: float) -> str:
    """Return the time since an event, such as `2m05s`."""
    seconds = max(0, int(time.time() - since))
    if seconds < 3600:
        return f"{seconds // 60}m{seconds % 60:02}s"
    if seconds < 86400:
        return f"{seconds // 3600}h{seconds // 60 % 60:02}m"
    return f"{seconds // 86400}d"


def format_number(number: int) -> str:
    """Return a short form of a number, such as `12k`."""
    if number < 10_000:
        return str(number)
    if number < 1_000_000:
        return f"{number / 1000:.0f}k"
    return f"{number / 1_000_000:.1f}M"
