"""Frames without a model: messages of unknown types and malformed lines."""

from typing import Any, ClassVar, Literal

from msgspec import Struct

from claude_agent_py.wire.base import JSONObject, Unknown


class UnknownMessage(Struct, frozen=True):
    """A frame of a type or subtype unknown to this version.

    Type checkers take its type and subtype for a literal, so that `message.type == "assistant"` leaves only the
    `AssistantMessage`. Compare `raw["type"]` to find a type that only you know.
    """

    raw: JSONObject
    """The frame as received."""

    @property
    def type(self) -> Literal["system"] | Unknown:
        """The frame's type; empty if it has none."""
        return _text(self.raw, "type")  # type: ignore[return-value]

    @property
    def subtype(self) -> Unknown | None:
        """The frame's subtype; None if it has none."""
        return _text(self.raw, "subtype") or None  # type: ignore[return-value]

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

    type: ClassVar[Literal["malformed"]] = "malformed"
    """Never the type of a message; the frame's own type is in `raw`."""
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
    is_result: bool = False
    """Whether it is the result of a turn, as far as it can be read."""


def _text(raw: JSONObject, key: str) -> str:
    value = raw.get(key)
    return value if isinstance(value, str) else ""
