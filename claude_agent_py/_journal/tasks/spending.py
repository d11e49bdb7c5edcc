"""The usage of a run of a task: tokens summed over its messages, and their cost.

An API message arrives as several frames with the same id, and counts once. Its usage on the wire was taken at the start
of the answer, so it lacks the output tokens. The transcript contains them and is counted when a run has ended; until
then, the sum is a lower bound.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from msgspec import Struct, field

from claude_agent_py._journal.fact_base import Spent, Tokens
from claude_agent_py.wire.messages.conversation import AssistantMessage
from claude_agent_py.wire.messages.tasks import TaskUsage
from claude_agent_py.wire.messages.usage import ModelUsage, Usage

Counts: TypeAlias = tuple[float, float, float, float, float]
"""Tokens: input, output, cache writes kept for 5 minutes and for an hour, cache reads."""

_NO_COUNTS: Final[Counts] = (0, 0, 0, 0, 0)
_WEIGHTS: Final[Counts] = (1, 5, 1.25, 2, 0.1)
"""The price of each kind relative to an input token: the same ratios for all models, by their list prices."""
_WEB_SEARCH_USD: Final = 0.01
_MAX_TOKENS: Final = 10**12
_MAX_USD: Final = 10**9
_MAX_COUNT: Final = 2**53
_MAX_MESSAGES: Final = 1024
"""The number of messages of a run that are remembered; the frames of one message arrive together."""


class ModelPrice(Struct, frozen=True, kw_only=True):
    """The price of a model, in US dollars per million tokens."""

    input: float
    output: float
    cache_write: float | None = None
    """For 5 minutes; None means 1.25 times the input. A write for an hour costs twice the input."""
    cache_read: float | None = None
    """None means a tenth of the input."""

    def cost_of(self, counts: Counts) -> float:
        """Return the cost of tokens, in US dollars."""
        write = self.input * 1.25 if self.cache_write is None else self.cache_write
        read = self.input * 0.1 if self.cache_read is None else self.cache_read
        prices = (self.input, self.output, write, self.input * 2, read)
        return sum(count * price for count, price in zip(counts, prices, strict=True)) / 1_000_000


class Prices:
    """The prices of models: prices set by the user, and prices derived from the CLI's totals."""

    def __init__(self) -> None:
        self.given: dict[str, ModelPrice] = {}
        self._implied: dict[str, ModelPrice] = {}

    def derive(self, spent: Mapping[str, ModelUsage]) -> bool:
        """Derive prices from the totals of a result. Return whether a model got its first price."""
        known = len(self._implied)
        for name, usage in spent.items():
            units = sum(count * weight for count, weight in zip(_read_counts(usage), _WEIGHTS, strict=True))
            cost = read_cost(usage.cost_usd) - usage.web_search_requests * _WEB_SEARCH_USD
            if units >= 1 and cost > 0:
                price = round(cost / units * 1_000_000, 9)  # without the rounding errors of the totals
                for model in {name, usage.canonical_model or name}:
                    self._implied[model] = ModelPrice(input=price, output=5 * price)
        return len(self._implied) > known

    def cost_of(self, spent: Mapping[str, Counts]) -> float | None:
        """Return the cost of tokens by model, in US dollars, or None if a price is unknown."""
        cost = None
        for model, counts in spent.items():
            price = self._find(model)
            if price is not None:
                cost = (cost or 0.0) + price.cost_of(counts)
            elif any(counts):
                return None
        return cost

    def price(self, spent: Mapping[str, Counts]) -> dict[str, Spent]:
        """Return tokens by model with their cost, which is 0 if the price of the model is unknown."""
        return {
            model: Spent(
                tokens=to_tokens(counts), cost_usd=price.cost_of(counts) if (price := self._find(model)) else 0.0
            )
            for model, counts in spent.items()
        }

    def _find(self, model: str) -> ModelPrice | None:
        return self.given.get(model) or self._implied.get(model)


class _Answer(Struct, gc=False):  # and not tuples, which the garbage collector has to visit
    """The model of an API message, and its counts."""

    model: str
    given: float
    output: float
    written: float
    written_1h: float
    read: float

    @property
    def counts(self) -> Counts:
        return self.given, self.output, self.written, self.written_1h, self.read


class Spending(Struct, gc=False):
    """The usage of one run so far. Counts never decrease."""

    reported: TaskUsage | None = None
    """The largest figures that the CLI reported. They count the tokens of one request only."""
    last_tokens: float = 0
    """The tokens of the latest request, as the CLI reported them."""
    exact: dict[str, Counts] | None = None
    """Tokens by model, from the transcript; None before it was counted."""
    missing_tokens: float = 0
    """The tokens of the latest request, if the transcript does not contain it."""
    _messages: dict[str, _Answer] = field(default_factory=dict)
    """The messages by id; the sum of the older ones by model."""

    def add_message(self, message: AssistantMessage) -> Counts:
        """Count a message, or a further frame of one, and return the counts of the message."""
        usage = message.message.usage
        if usage is None:
            return _NO_COUNTS
        key = message.message.id or message.uuid
        model = message.message.model or ""
        counts = _read_counts(usage)
        if min(counts) < 0 or max(counts) >= _MAX_TOKENS:  # any program may have written a transcript
            counts = _NO_COUNTS
        earlier = self._messages.get(key)
        if earlier is not None:
            counts = max_counts(earlier.counts, counts)
        self._messages[key] = _Answer(model, *counts)
        if len(self._messages) > _MAX_MESSAGES:
            oldest = self._messages.pop(next(iter(self._messages)))
            # The sum of the older ones has the name of the model as its key, which no message has.
            older = self._messages.pop(oldest.model, None)
            known = oldest.counts if older is None else add_counts(older.counts, oldest.counts)
            self._messages[oldest.model] = _Answer(oldest.model, *known)
        return counts

    def add_report(self, usage: TaskUsage | None) -> None:
        """Add figures that the CLI reports."""
        if usage is None:
            return
        names = ("total_tokens", "tool_uses", "duration_ms")
        if max(usage.total_tokens, usage.tool_uses, usage.duration_ms) >= _MAX_COUNT:
            usage = usage.replace(**{name: read_count(getattr(usage, name)) for name in names})
        self.last_tokens = usage.total_tokens
        old = self.reported
        if old is not None:
            larger = {name: known for name in names if (known := getattr(old, name)) > getattr(usage, name)}
            usage = usage.replace(**larger) if larger else usage  # most figures only grow
        self.reported = usage

    def set_exact(self, by_model: Mapping[str, Counts]) -> None:
        """Set the tokens by model, from the transcript. What it had before it was deleted stays."""
        known = self.exact or {}
        found = {model: max_counts(known.get(model, _NO_COUNTS), counts) for model, counts in by_model.items()}
        self.exact = {**known, **found}
        self.missing_tokens = 0

    def find_missing(self, counted: "Counted") -> float:
        """Return the tokens of the latest request if a transcript lacks it; otherwise 0."""
        return 0 if counted.last_tokens == self.last_tokens else self.last_tokens

    @property
    def by_model(self) -> dict[str, Counts]:
        """Tokens by model: the largest known count of each kind."""
        # Messages on the wire lack output tokens, and the transcript may lack the last messages.
        found = sum_counts((answer.model, answer.counts) for answer in self._messages.values())
        for model, counts in (self.exact or {}).items():
            found[model] = max_counts(found.get(model, _NO_COUNTS), counts)
        return found

    def usage(self, prices: Prices | None, by_model: Mapping[str, Counts] | None = None) -> TaskUsage | None:
        """Return the usage, with a cost derived from `prices` if the CLI reported none. `by_model` saves counting."""
        by_model = self.by_model if by_model is None else by_model
        if self.reported is None and not by_model:
            return None
        usage = self.reported or TaskUsage()
        in_transcript = sum(map(sum, (self.exact or {}).values())) + self.missing_tokens
        counted = sum(map(sum, by_model.values()))
        tokens = max(usage.total_tokens, in_transcript, counted)
        changes: dict[str, object] = {}
        if tokens != usage.total_tokens or tokens - counted != usage.uncounted_tokens:
            changes |= {"total_tokens": tokens, "uncounted_tokens": tokens - counted}
        if prices is not None and usage.cost_usd is None:
            cost = prices.cost_of(by_model)
            if cost is not None:
                changes |= {"cost_usd": cost, "cost_is_derived": True}
        return usage.replace(**changes) if changes else usage


class Counted(Struct):
    """The answers in a transcript, over all runs of the task."""

    spent: Spending = field(default_factory=Spending)
    by_run: Sequence["Counted"] = ()
    """The same for each of the runs that were counted separately."""
    last_tokens: float = 0
    """The tokens of the latest request."""
    is_complete: bool = False
    """Whether the latest answer ends a run: it calls no tool."""

    def add(self, message: AssistantMessage, run: int = -1) -> None:
        """Count an entry of the transcript, and of the run with this index unless it is negative."""
        self.last_tokens = sum(self.spent.add_message(message))
        self.is_complete = message.message.stop_reason not in (None, "tool_use")
        if run >= 0:
            self.by_run[run].add(message)


def subtract_costs(total: float, parts: Iterable[float | None]) -> float | None:
    """Return what the main agent leaves for itself: a cost without those of subagents; None if one is unknown."""
    known = list(parts)
    return None if None in known else max(0.0, total - sum(filter(None, known)))


def sum_counts(parts: Iterable[tuple[str, Counts]]) -> dict[str, Counts]:
    """Add up counts by model."""
    found: dict[str, Counts] = {}
    for model, counts in parts:
        found[model] = add_counts(found[model], counts) if model in found else counts
    return found


def subtract_counts(counts: Mapping[str, Counts], others: Iterable[Mapping[str, Counts]]) -> dict[str, Counts]:
    """Subtract the counts of others from a total."""
    left = dict(counts)
    for other in others:
        for model in left.keys() & other.keys():
            used = other[model]
            rest = add_counts(left[model], (-used[0], -used[1], -used[2], -used[3], -used[4]))
            left[model] = max_counts(rest, _NO_COUNTS)
    return {model: counts for model, counts in left.items() if any(counts)}


def read_tokens(usage: Usage | ModelUsage | None) -> Tokens | None:
    """Return the tokens of a message, a turn or a model."""
    if usage is None:
        return None
    return Tokens(
        input=read_count(usage.input_tokens),
        output=read_count(usage.output_tokens),
        cache_read=read_count(usage.cache_read_input_tokens),
        cache_write=read_count(usage.cache_creation_input_tokens),
    )


def read_spent(usage: Mapping[str, ModelUsage] | None) -> dict[str, Spent]:
    """Return the tokens and the costs of models."""
    return {
        model: Spent(tokens=read_tokens(used) or Tokens(), cost_usd=read_cost(used.cost_usd))
        for model, used in (usage or {}).items()
    }


def to_tokens(counts: Counts) -> Tokens:
    """Return counts without how long cache writes are kept."""
    given, output, written, written_1h, read = map(read_count, counts)
    return Tokens(input=given, output=output, cache_read=read, cache_write=written + written_1h)


def read_count(number: float | None) -> int:
    """Return a count of the wire as an int; 0 if it is missing or absurd."""
    return int(number) if number is not None and 0 <= number < _MAX_COUNT else 0


def read_cost(usd: float) -> float:
    """Return a cost of the wire; 0 if it is absurd."""
    return float(usd) if 0 <= usd < _MAX_USD else 0.0


def max_counts(one: Counts, other: Counts) -> Counts:
    """Return the larger of each count."""
    a, b, c, d, e = one
    v, w, x, y, z = other
    return max(a, v), max(b, w), max(c, x), max(d, y), max(e, z)


def add_counts(one: Counts, other: Counts) -> Counts:
    """Return the sum of two counts."""
    a, b, c, d, e = one
    v, w, x, y, z = other
    return a + v, b + w, c + x, d + y, e + z


def _read_counts(usage: Usage | ModelUsage) -> Counts:
    if isinstance(usage, ModelUsage):
        written_1h = usage.cache_creation_ephemeral_1h_input_tokens or 0
    else:
        written_1h = usage.cache_creation.ephemeral_1h_input_tokens if usage.cache_creation else 0
    given, output, read = usage.input_tokens or 0, usage.output_tokens or 0, usage.cache_read_input_tokens or 0
    written = usage.cache_creation_input_tokens or 0
    written_1h = min(written_1h, written)
    return given, output, written - written_1h, written_1h, read
