"""Frames without a model: messages of unknown types and malformed lines."""

from typing import Any

from msgspec import Struct

from claude_agent_py.wire.base import JSONObject


class UnknownMessage(Struct, frozen=True):
    """A frame of a type or subtype unknown to this version."""

    raw: JSONObject
    """The frame as received."""

    @property
    def type(self) -> str:
        """The frame's type; empty if it has none."""
        return _text(self.raw, "type")

    @property
    def subtype(self) -> str | None:
        """The frame's subtype; None if it has none."""
        return _text(self.raw, "subtype") or None

    @property
    def uuid(self) -> str:
        """Id of the frame; empty if it has none."""
        return _text(self.raw, "uuid")

    @property
    def session_id(self) -> str:
        """Id of the session; empty if the frame has none."""
        return _text(self.raw, "session_id")


class MalformedFrame(Struct, frozen=True):
    """A line that is not a frame, or a frame of a known type with invalid fields."""

    line: bytes
    """The line as received; only its beginning if it was too long to keep."""
    error: str
    """The error and its place, for example `message.content.0.text: Expected `str`, got `int``."""
    raw: Any = None
    """The JSON value of the line; None if it is not JSON."""
    location: tuple[str | int, ...] = ()
    """Keys and indices that lead to the invalid field; empty for an error of the whole line."""
    is_whole: bool = True
    """Whether `line` is the whole line."""


def _text(raw: JSONObject, key: str) -> str:
    value = raw.get(key)
    return value if isinstance(value, str) else ""
