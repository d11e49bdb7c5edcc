"""What a turn tells, on its way to the engine: events and deltas that are not written yet."""

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

from claude_agent_py.durable import Delta

PROJECT: Final = "fleet"
"""The project key of the fleet's sessions in the store."""

NewEvent: TypeAlias = tuple[str, float, Mapping[str, object]]
"""The kind of an event, its time and its data."""


class NewDeltas(NamedTuple):
    """Deltas that are not written yet."""

    last: list[Delta]
    """The last ones of what is whole."""
    open: list[Delta]
    """Those that no fact contains."""
    whole: set[str]
    """The ids of the messages and calls of which a fact has all that was written before, or that will have none."""

    def note_whole(self, part: str) -> None:
        """Note that a fact has all of a message, or of a part of it, or of a call."""
        self.last.extend(delta for delta in self.open if delta.id == part)
        self.open[:] = [delta for delta in self.open if delta.id != part]
        self.whole.add(part)

    def followed_by(self, later: "NewDeltas") -> "NewDeltas":
        """Return these deltas and later ones."""
        for part in later.whole:
            self.note_whole(part)
        return NewDeltas([*self.last, *later.last], [*self.open, *later.open], self.whole)
