"""The base of all facts of a session, and what they count."""

from typing import Any, Final, Protocol, TypeVar

from msgspec import Struct

from claude_agent_py.wire.base import WireModel

MAIN: Final = ""
"""The `agent` of the main agent."""
_END_OF_TIME: Final = 1e11
"""Seconds since the epoch. A recording may contain any number, so later times are ignored."""


class Tokens(Struct, frozen=True, kw_only=True, gc=False):
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


class Spent(Struct, frozen=True, kw_only=True, gc=False):
    """The tokens and the cost of a model in a turn, subagents included, or in a run of a task."""

    tokens: Tokens = Tokens()
    cost_usd: float = 0.0
    """US dollars, as estimated by the CLI; for a subagent computed from its tokens, 0 if the price is unknown."""

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(tokens=self.tokens + other.tokens, cost_usd=self.cost_usd + other.cost_usd)


class AnyFact(WireModel):
    """Base of all facts."""

    number: int = 0
    """1, 2, ... in its journal; 0 if it is in none."""
    at: float | None = None
    """When it happened, in seconds since the epoch; None if the source does not show it."""
    agent: str = MAIN
    """The agent concerned: the id of a subagent's task, or `""` for the main agent."""
    id: str = ""
    """The CLI's own id of what the fact is about, the same in every source."""


Kind = TypeVar("Kind", bound=AnyFact)


class Add(Protocol):
    """Adds a fact of a class, with its time and its fields, and returns it."""

    def __call__(self, kind: type[Kind], at: float | None, /, **fields: Any) -> Kind: ...


def check_time(at: float | None) -> float | None:
    """Return a time in seconds since the epoch, or None if it cannot be one."""
    return at if at is not None and 0 <= at < _END_OF_TIME else None
