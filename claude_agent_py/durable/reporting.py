"""`Reports`: tells an engine what happens in the processes of a turn, one after the other."""

from collections.abc import AsyncIterator, Callable
from typing import Final

from claude_agent_py._base.callbacks import Callback
from claude_agent_py._base.log import logger
from claude_agent_py.durable.deltas import Delta, read_with_deltas
from claude_agent_py.journal import CallEnded, Fact, TurnEnded
from claude_agent_py.wire import CUT_OFF

FACT_SECONDS: Final = 30.0
"""How many seconds one call of `on_fact` may take."""


class Reports:
    """Calls `on_fact` and `on_delta` of `run_turn`.

    Attributes:
        has_deltas: Whether deltas are told.
        is_closed: Whether nothing is told any more.
    """

    def __init__(self, on_fact: Callable[[Fact], object] | None, on_delta: Callable[[Delta], object] | None) -> None:
        self._on_fact = None if on_fact is None else Callback(on_fact, name="on_fact")
        self._on_delta = None if on_delta is None else Callback(on_delta, name="on_delta")
        self.has_deltas: bool = on_delta is not None
        self.is_closed: bool = False
        self._ends: list[Fact] = []
        """The ends that follow from the end of the last process."""

    async def read(self, facts: AsyncIterator[Fact], find_events: Callable[[], AsyncIterator[object] | None]) -> None:
        """Tell what happens in a process, but not yet what has ended with it. See `read_with_deltas`."""
        self._ends.clear()
        async for told in read_with_deltas(facts, find_events):
            if isinstance(told, Fact) and _is_end_of_process(told):
                self._ends.append(told)
            else:
                await self._tell(told)

    async def tell_ends(self) -> None:
        """Tell what has ended with the last process: no other one continues the turn."""
        for fact in self._ends:
            await self._tell(fact)

    async def _tell(self, told: Fact | Delta) -> None:
        report = self._on_delta if isinstance(told, Delta) else self._on_fact
        if report is not None and not self.is_closed:
            try:
                await report.call_within(FACT_SECONDS, None, told)
            except Exception:
                logger.exception("%s failed", report.name)


def _is_end_of_process(fact: Fact) -> bool:
    """Return whether a fact only says that a call or a turn has ended with its process."""
    if isinstance(fact, CallEnded):
        return fact.result.content == CUT_OFF
    return isinstance(fact, TurnEnded) and fact.duration is None and fact.status != "ok"
