"""`Span`: one piece of work in a session, with its times, status and cost. A plain value."""

from collections.abc import Iterable
from typing import Any, Final, Literal, TypeAlias

import msgspec

SpanKind: TypeAlias = Literal["run", "turn", "model", "tool", "waiting", "hook", "subagent", "task", "child"]
"""`run`: a prompt and all turns up to the next prompt. `turn`: from its start up to a `result`. `model`: one API
message. `tool`: a tool call. `waiting`: a question to a person or to a permission handler. `hook`: a hook that ran.
`subagent`, `child`: an agent inside the CLI, and one in a separate process. `task`: any other background task, such as
a shell."""

SpanStatus: TypeAlias = Literal["ok", "error", "denied", "cancelled", "running"]
"""`running` is also the status of work whose end the source does not contain."""

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
    """The CLI's id of the tool call, API message or task; otherwise a made-up id."""
    kind: SpanKind
    name: str
    """The tool, the model, the agent, the event of a hook, or the first line of a prompt."""
    parent: str | None = None
    """The id of the enclosing span. None for runs and for background tasks, which outlive their run."""
    agent: str = MAIN
    """The agent that did the work: the id of its task, or `""` for the main agent."""
    start: float = 0.0
    """Seconds since the epoch."""
    end: float | None = None
    """Seconds since the epoch; None while it runs, or if the source does not contain its end."""
    status: SpanStatus = "running"
    tokens: Tokens | None = None
    """For a `model` span, the tokens of its API message; for a `turn`, the main agent's tokens as counted by the CLI.
    A live message reports only the output tokens of its start; it has the attribute `output_tokens_so_far`."""
    cost_usd: float | None = None
    """US dollars, as estimated by the CLI; None if the source has no cost."""
    attributes: dict[str, Any] = {}
    """Other fields, as JSON values. Texts (`prompt`, `input`, `output`, ...) are shortened, and secrets are removed."""
    links: tuple[str, ...] = ()
    """The ids of spans that caused it without being its parent: for a background task, the call that launched it; for a
    turn, the finished tasks that it responds to."""

    @property
    def duration(self) -> float | None:
        """Seconds from start to end, or None without an end."""
        return None if self.end is None else max(0.0, self.end - self.start)

    @property
    def is_background(self) -> bool:
        """Whether it is a background task, which continues after the turn that started it."""
        return self.kind in TASK_KINDS and self.parent is None


TASK_KINDS: Final = frozenset({"subagent", "task", "child"})
"""The kinds that have a separate lane in the timeline."""


def by_start(spans: Iterable[Span]) -> list[Span]:
    """Return spans ordered by start time, parents before their children."""
    rank = {"run": 0, "turn": 1}
    return sorted(spans, key=lambda span: (span.start, rank.get(span.kind, 2), -(span.end or float("inf"))))
