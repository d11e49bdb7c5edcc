"""`Roster`: the processes of a pool, and the spares to keep. It starts and ends nothing: `Crew` does."""

import math
from collections.abc import Iterator
from typing import Any, Final

from claude_agent_py._memory import tree_memory
from claude_agent_py.options.client_options import ClientOptions
from claude_agent_py.pool.fitting import Wish, change_to
from claude_agent_py.pool.member import Member, Phase
from claude_agent_py.pool.planning import Supply

USUAL_BYTES: Final = 200 * 1024 * 1024
"""The assumed memory of a process before one was measured. (A CLI 2.1.328 that is ready takes 165 to 200 MB.)"""


class Roster:
    """The processes of a pool.

    Args:
        supplies: The spares to keep, the most important first.
        max_size: How many processes there may be.
        memory: How many bytes they may take; None means any number.
    """

    def __init__(self, supplies: list[Supply], max_size: int, memory: int | None) -> None:
        self.supplies = supplies
        self.members: list[Member] = []
        """In the order of their start."""
        self.is_measured: bool = memory is not None
        """Whether the memory of the processes is limited."""
        self._max_size = max_size
        self._memory = math.inf if memory is None else memory
        self._usual_bytes = USUAL_BYTES

    @property
    def memory_bytes(self) -> int | None:
        """The memory of all processes, if it is limited."""
        return sum(member.memory_bytes or 0 for member in self.members) if self.is_measured else None

    @property
    def has_room(self) -> bool:
        """Whether another process may be started. The first always may."""
        fits_in_memory = not self.members or self._excess() + self._usual_bytes <= 0
        return len(self.members) < self._max_size and fits_in_memory

    def _excess(self) -> float:
        """Return by how many bytes the processes exceed the limit; negative below it.

        A process counts as measured, but at least as what a new one takes once it has started.
        """
        return sum(max(member.memory_bytes or 0, self._usual_bytes) for member in self.members) - self._memory

    def count(self, phase: Phase) -> int:
        """Return how many processes are in a phase."""
        return sum(member.phase is phase for member in self.members)

    def spares(self) -> Iterator[Member]:
        """Yield the spares that are not promised to a caller, oldest first."""
        return (one for one in self.members if one.is_free)

    def spare_for(self, wish: Wish) -> Member | None:
        """Return the oldest spare that fits, preferably without a claim or a change."""
        fitting = [one for one in self.spares() if one.client.is_open and fits(one, wish)]
        return min(fitting, key=lambda one: (one.made_for.is_parked, not _is_same(one.made_for, wish)), default=None)

    def coming(self) -> list[Member]:
        """Return the starting processes that are not parked."""
        return [one for one in self.members if one.phase is Phase.STARTING and not one.made_for.is_parked]

    def missing(self, supply: Supply, wish: Wish) -> int:
        """Return how many spares a supply lacks; negative if it has too many."""
        ahead = [one for one in self.members if one.phase in (Phase.STARTING, Phase.SPARE) and not one.is_reserved]
        return supply.size - sum(_is_same(one.made_for, wish) for one in ahead)

    def useless(self) -> Member | None:
        """Return a spare that belongs to no supply any more."""
        return next((one for one in self.spares() if self.supply_of(one) is None), None)

    def excessive(self) -> Iterator[Member]:
        """Yield the spares to close because the memory is exceeded. One process may always stay."""
        excess = self._excess()
        for member in list(self.spares()):
            if excess <= 0 or len(self.members) == 1:
                return
            excess -= max(member.memory_bytes or 0, self._usual_bytes)
            yield member

    def supply_of(self, member: Member) -> Supply | None:
        """Return the supply that a process belongs to."""
        return next((one for one in self.supplies if _is_same(member.made_for, one.wish())), None)

    def supply_for(self, options: ClientOptions[Any]) -> Supply | None:
        """Return the supply for these options."""
        wish = Wish.of(options)
        return next((one for one in self.supplies if _is_same(one.wish(), wish)), None)

    async def measure(self) -> None:
        """Measure the memory of the processes."""
        pids = {member: pid for member in self.members if (pid := member.pid) is not None}
        measured = await tree_memory(pids.values())
        for member, pid in pids.items():
            member.memory_bytes = measured[pid]
        spares = [measured[pid] for member, pid in pids.items() if member.phase is Phase.SPARE]
        self._usual_bytes = max(spares, default=0) or self._usual_bytes


def fits(member: Member, wish: Wish) -> bool:
    """Return whether a process can become the session of a wish."""
    return change_to(member.made_for, wish) is not None


def _is_same(one: Wish, other: Wish) -> bool:
    change = change_to(one, other)
    return change is not None and change.is_nothing
