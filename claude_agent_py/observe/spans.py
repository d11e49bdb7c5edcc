"""`Span`: one piece of work of a session, with its times, its status and what it cost. A plain value."""

from collections.abc import Iterable
from typing import Any, Final, Literal, TypeAlias

import msgspec

SpanKind: TypeAlias = Literal["run", "turn", "model", "tool", "waiting", "hook", "subagent", "task", "child"]
"""`run`: a prompt and all turns up to the next prompt. `turn`: from its start up to a `result`. `model`: one API
message. `tool`: a tool call. `waiting`: a question to a person or to a permission handler. `hook`: a hook that ran.
`subagent`, `child`: an agent inside the CLI, and one with a process of its own. `task`: any other background task, such
as a shell."""

SpanStatus: TypeAlias = Literal["ok", "error", "denied", "cancelled", "running"]
"""`running` also stands for work whose end the source does not show."""

MAIN: Final = ""
"""The `agent` of the spans of the main agent."""


class Tokens(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Tokens of the model, by kind."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0

    @property
    def total(self) -> int:
        """The sum of all kinds."""
        return self.input + self.output + self.cache_read + self.cache_write

    def __add__(self, other: "Tokens") -> "Tokens":
        return Tokens(
            input=self.input + other.input,
            output=self.output + other.output,
            cache_read=self.cache_read + other.cache_read,
            cache_write=self.cache_write + other.cache_write,
        )


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """One piece of work. Two spans are equal if all their fields are."""

    id: str
    """The CLI's id where it has one: of the tool call, the API message, the task."""
    kind: SpanKind
    name: str
    """The tool, the model, the agent, the event of a hook, or the first line of a prompt."""
    parent: str | None = None
    """The id of the span that it is a part of. None for runs, and for background tasks, which outlive their run."""
    agent: str = MAIN
    """The agent whose work it is: the id of its task, or `""` for the main agent."""
    start: float = 0.0
    """Seconds since the epoch."""
    end: float | None = None
    """Seconds since the epoch; None while it runs, and if the source does not show its end."""
    status: SpanStatus = "running"
    tokens: Tokens | None = None
    """Of a `model` span: its API message. Of a `turn`: the main agent's, as the CLI counts them. A live message has
    only the output tokens of its beginning, which the attribute `output_tokens_so_far` says."""
    cost_usd: float | None = None
    """US dollars, as the CLI estimates them; None where the source has no cost."""
    attributes: dict[str, Any] = {}
    """What else is known, as JSON. Texts (`prompt`, `input`, `output`, ...) are cut, and without secrets."""
    links: tuple[str, ...] = ()
    """The ids of spans that caused it without being its parent: a background task has the call that launched it, a turn
    the tasks whose ends it answers."""

    @property
    def duration(self) -> float | None:
        """Seconds from start to end, or None without an end."""
        return None if self.end is None else max(0.0, self.end - self.start)

    @property
    def is_background(self) -> bool:
        """Whether it is a background task, which goes on after the turn that started it."""
        return self.kind in TASK_KINDS and self.parent is None


TASK_KINDS: Final = frozenset({"subagent", "task", "child"})
"""The kinds that have a lane of their own."""


def by_start(spans: Iterable[Span]) -> list[Span]:
    """Return spans in the order of their starts; parents before their children."""
    rank = {"run": 0, "turn": 1}
    return sorted(spans, key=lambda span: (span.start, rank.get(span.kind, 2), -(span.end or float("inf"))))
