"""Read the outline of a line that is too long to keep or too deep to decode: its structure, without the large values.

The ids in it say who waits for an answer. Values are found by their place in the JSON, so text that a model wrote into
a nested value is not mistaken for a field of the frame.
"""

import json
import math
import re
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from claude_agent_py.wire.codec import ESSENTIAL_RESULT_FIELDS, decode, encode_json
from claude_agent_py.wire.messages.conversation import ResultMessage
from claude_agent_py.wire.unknown import MalformedFrame

LEVELS: Final = 3
"""How many levels of objects and arrays are kept; a request has its ids and the name of the tool in them."""

MAX_VALUE: Final = 1024
"""The length in bytes up to which keys, strings and numbers are kept."""

MAX_VALUES: Final = 1000
"""How many values are kept on each level. A flood of values on one level does not push out the ids on another."""

_TOKEN: Final = re.compile(
    rb'(?s)\s*+(?:(?P<string>"(?:[^"\\]++|\\.)*+")|(?P<mark>[{}\[\]:,])|(?P<word>[^\s"{}\[\]:,]++))'
)
_SPACE: Final = re.compile(rb"\s*+")
_REST_OF_STRING: Final = re.compile(rb'(?s)(?:[^"\\]++|\\.)*+')


class LineOutline(NamedTuple):
    """The outline of a line."""

    value: Any
    """The JSON value, with None for the values that were dropped. None if the line has no object or array."""
    incomplete: frozenset[str]
    """The fields of the frame in which a value was dropped."""


class Skimmer:
    """Reads the outline of a line that arrives in chunks. It never keeps more than an outline and one chunk.

    Of a repeated key the last value counts, as in the codec. Invalid JSON gives the outline of what can be read.
    """

    def __init__(self) -> None:
        self._root: list[Any] = []
        self._open: list[tuple[Any, str]] = [(self._root, "")]
        """The containers of the kept levels, each with its current key."""
        self._room = [1] + [MAX_VALUES] * LEVELS
        self._depth = 0
        self._is_key = False
        self._incomplete: set[str] = set()
        self._carry = b""
        """The beginning of a token whose rest is in the next chunk."""
        self._in_string = False
        """Whether the next chunk continues a string that is too long to keep."""

    def feed(self, data: bytes) -> None:
        """Read the next chunk."""
        data, position = self._carry + data, 0
        self._carry = b""
        while position < len(data):
            if self._in_string:
                position = self._end_string(data, position)
                continue
            token = _TOKEN.match(data, position)
            if token is None:
                position = self._begin_string(data, position)
            elif token.end() == len(data) and token["word"]:
                self._carry = token["word"][: MAX_VALUE + 1]
                return
            else:
                position = token.end()
                self._take(token["string"] or token["word"], token["mark"])

    def end(self) -> LineOutline:
        """Return the outline of the whole line."""
        if self._carry:
            self.feed(b" ")  # ends a number
        return LineOutline(self._root[0] if self._root else None, frozenset(self._incomplete))

    def _begin_string(self, data: bytes, position: int) -> int:
        """Begin an unfinished string, unless there is only white space, and return where to continue."""
        start = _SPACE.match(data, position).end()  # type: ignore[union-attr] # it matches anything
        if len(data) - start <= MAX_VALUE:
            self._carry = data[start:]
            return len(data)
        self._in_string = True
        return start + 1

    def _end_string(self, data: bytes, position: int) -> int:
        end = _REST_OF_STRING.match(data, position).end()  # type: ignore[union-attr] # it matches anything
        if end < len(data) and data[end] == ord('"'):
            self._in_string = False
            self._take(b"", None)
            return end + 1
        self._carry = data[end:]  # nothing, or a backslash whose character follows
        return len(data)

    def _take(self, text: bytes | None, mark: bytes | None) -> None:
        """Process a token: the text of a string or word, empty if it was too long, or a punctuation mark."""
        if mark is None:
            if self._depth <= LEVELS:
                self._add_text(text or b"")
        elif mark in b"{[":
            if self._depth <= LEVELS:
                self._add_container({} if mark == b"{" else [])
            self._depth += 1
        elif mark in b"}]":
            if 0 < self._depth <= LEVELS:
                self._open.pop()
            self._depth = max(0, self._depth - 1)
        elif self._depth <= LEVELS:
            self._is_key = mark == b"," and isinstance(self._open[-1][0], dict)

    def _add_text(self, text: bytes) -> None:
        value = None
        if text and len(text) <= MAX_VALUE:
            try:
                value = json.loads(text.decode(errors="replace"))
            except ValueError:
                text = b""
            if isinstance(value, float) and not math.isfinite(value):  # 1e999 has no JSON form any more
                value, text = None, b""
        if self._is_key:
            self._open[-1] = (self._open[-1][0], value if isinstance(value, str) else "")
        else:
            self._add(value, is_dropped=not text or len(text) > MAX_VALUE)

    def _add_container(self, container: object) -> None:
        if self._depth == LEVELS:
            self._add(None, is_dropped=True)
        else:
            self._add(container)
            self._open.append((container, ""))
            self._is_key = isinstance(container, dict)

    def _add(self, value: object, *, is_dropped: bool = False) -> None:
        container, key = self._open[-1]
        if self._room[self._depth] == 0:
            is_dropped = True
        elif isinstance(container, dict):
            container[key] = value
        else:
            container.append(value)
        self._room[self._depth] -= self._room[self._depth] > 0
        if is_dropped and self._depth:
            self._incomplete.add(self._open[1][1] or "")


def skim(line: bytes) -> LineOutline:
    """Return the outline of a line."""
    skimmer = Skimmer()
    skimmer.feed(line)
    return skimmer.end()


def read_outlined(frame: MalformedFrame, outline: LineOutline) -> MalformedFrame | ResultMessage:
    """Return what the outline of a frame shows: a result if only informational fields are incomplete, or the frame."""
    value, incomplete = outline
    if not isinstance(value, dict) or value.get("type") != "result":
        return frame
    if incomplete and incomplete.isdisjoint(ESSENTIAL_RESULT_FIELDS):
        result = decode(encode_json(value).rstrip(), report=False)
        if isinstance(result, ResultMessage):
            return result
    return replace(frame, is_result=True)
