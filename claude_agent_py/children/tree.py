"""`Tree`: the limits of a client and all child agents below it."""

import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from heapq import heapify, heappop, heappush

import anyio

from claude_agent_py._base.errors import OptionsError
from claude_agent_py.client import Client
from claude_agent_py.options.values import Limits


class ProcessPlaces:
    """A limited number of running processes. A free place goes to the most urgent run that waits."""

    def __init__(self, total: int) -> None:
        self._free = total
        self._waiting: list[tuple[float, int, anyio.Event]] = []

    @asynccontextmanager
    async def place(self, urgency: float, number: int) -> AsyncIterator[None]:
        """Wait for a place, and keep it inside the block. Of equally urgent runs, the lowest number is the first."""
        turn = anyio.Event()
        entry = (-urgency, number, turn)
        heappush(self._waiting, entry)
        self._hand_out()
        try:
            await turn.wait()
            yield
        finally:
            if turn.is_set():
                self._free += 1
            else:
                self._waiting.remove(entry)
                heapify(self._waiting)
            self._hand_out()

    def _hand_out(self) -> None:
        while self._free and self._waiting:
            self._free -= 1
            heappop(self._waiting)[-1].set()


class Tree:
    """The limits of one client without a parent, and how far its children and theirs have used them."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._started = 0
        """The number of children in the whole tree."""
        self._places: dict[int, ProcessPlaces] = {}

    def admit(self, lineage: tuple[str, ...]) -> None:
        """Count one more child.

        Args:
            lineage: The agent ids from the child of the root down to this one.

        Raises:
            OptionsError: The child is its own ancestor, or a limit is reached.
        """
        limits, option = self._limits, f"agent {lineage[-1]!r}"
        if lineage[-1] in lineage[:-1]:
            raise OptionsError(f"an agent must not start itself ({' -> '.join(lineage)})", option=option)
        if len(lineage) > limits.child_depth:
            raise OptionsError(
                f"children are nested at most {limits.child_depth} deep (limits.child_depth)", option=option
            )
        if self._started >= limits.child_total:
            raise OptionsError(
                f"the limit of {limits.child_total} children is reached (limits.child_total)", option=option
            )
        self._started += 1

    def places(self, generation: int) -> ProcessPlaces:
        """Limits the processes of all children of one generation.

        Each generation has its own, so parents cannot starve their children.
        """
        return self._places.setdefault(generation, ProcessPlaces(self._limits.child_processes))


_trees: "weakref.WeakKeyDictionary[Client, Tree]" = weakref.WeakKeyDictionary()


def tree_of(root: Client) -> Tree:
    """Return the tree of a client without a parent."""
    return _trees.setdefault(root, Tree(root.options.limits))
