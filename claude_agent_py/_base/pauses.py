"""How long to wait before trying or looking again."""

import itertools
from collections.abc import Iterator


def nth_pause(first: float, longest: float, number: int) -> float:
    """Return pause `number`, counted from 0: each is twice as long as the one before, up to the longest."""
    return min(longest, first * 2.0 ** min(number, 60))  # a float has room for more, but not for any number


def pauses(first: float, longest: float) -> Iterator[float]:
    """Yield these pauses, without end."""
    return (nth_pause(first, longest, number) for number in itertools.count())
