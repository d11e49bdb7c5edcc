"""Frames that have no model: of a newer CLI, or broken.

Owns the two values that `codec.decode` gives instead of raising. Both keep everything that came.
"""

from dataclasses import dataclass
from typing import Any

from claude_agent_py.wire.base import JSONObject


@dataclass(frozen=True, slots=True)
class UnknownMessage:
    """A frame of a type or subtype that this version does not know."""

    raw: JSONObject
    """The frame as it came."""

    @property
    def type(self) -> str:
        """The frame's type; empty when it has none."""
        return _text(self.raw, "type")

    @property
    def subtype(self) -> str | None:
        """The frame's subtype; None when it has none."""
        return _text(self.raw, "subtype") or None

    @property
    def uuid(self) -> str:
        """The frame's own id; empty where the wire gave none."""
        return _text(self.raw, "uuid")

    @property
    def session_id(self) -> str:
        """The session that the frame belongs to; empty where the wire gave none."""
        return _text(self.raw, "session_id")


@dataclass(frozen=True, slots=True)
class MalformedFrame:
    """A line that is not a frame, or a frame of a known type with wrong fields."""

    line: bytes
    """The line as it came, or the head of one that was too long to keep."""
    error: str
    """What is wrong, and where: for example `message.content.0.text: Expected `str`, got `int``."""
    raw: Any = None
    """The JSON value of the line; None when it is not JSON."""
    location: tuple[str | int, ...] = ()
    """Keys and indices that lead to the wrong place; empty when it is the whole line."""


def _text(raw: JSONObject, key: str) -> str:
    value = raw.get(key)
    return value if isinstance(value, str) else ""
