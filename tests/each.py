"""One test for many cases, where a test apiece would cost more than what it checks. All cases that fail are named."""

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def for_each(cases: Iterable[T], check: Callable[[T], object], *, name: Callable[[T], object] = str) -> None:
    """Check all cases; raise an `ExceptionGroup` of every failure, each with the name of its case."""
    wrong: list[Exception] = []
    total = 0
    for case in cases:
        total += 1
        try:
            check(case)
        except Exception as error:
            error.add_note(f"case: {name(case)}")
            wrong.append(error)
    assert total, "there are no cases"
    if wrong:
        raise ExceptionGroup(f"{len(wrong)} of {total} cases fail", wrong)
