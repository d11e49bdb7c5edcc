"""Lines to frames and back.

Owns the one place where JSON becomes models. Knows nothing of reading or splitting lines.

Decoding has a fast path, one validation against the union of the usual frames, straight from the bytes; only what
fails there is looked at again, to tell an occasional or newer frame from a broken one; what it has a model for is read
with that model alone. `decode` never raises for what a line holds. The fast path is built at its first use, or by
`prepare`, another model when its first frame comes; importing this module loads none.

JSON text is strict here: no field is converted on the way in, so that `encode(decode(line))` is the same JSON value.
The one exception are lone surrogates (half an emoji, which JavaScript can write and Unicode text cannot hold): they
become U+FFFD.
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails, PydanticSerializationError

from claude_agent_py.wire.unions import KNOWN_TAG
from claude_agent_py.wire.unknown import MalformedFrame, UnknownMessage

if TYPE_CHECKING:
    from claude_agent_py.wire.frames import Frame

_SURROGATES: Final = re.compile("[\ud800-\udfff]")
_TAG_FIELDS: Final = ("type", "subtype")


def decode(line: bytes | str) -> "Frame":
    """Give the frame of a line: a message, a control frame, `UnknownMessage` or `MalformedFrame`.

    A line break at the end, a byte order mark and white space around the JSON do no harm.

    Raises:
        TypeError: It is no line at all, but a dict, say.
    """
    try:
        return _read_usual(line, strict=True)
    except ValueError as problem:  # a ValidationError, or text that is no Unicode
        return _decode_carefully(line, problem)


def encode(frame: "Frame | BaseModel") -> bytes:
    """Give the line of a frame, line break included.

    Only what was set is written. `UnknownMessage` and `MalformedFrame` give back what came.

    Raises:
        ValueError, TypeError: A field holds a value that JSON does not know, or it is no frame.
    """
    if isinstance(frame, UnknownMessage):
        return _as_line(_dumped(frame.raw, allow_nan=True))
    if isinstance(frame, MalformedFrame):
        return _as_bytes(frame.line).rstrip(b"\r\n") + b"\n"
    if not isinstance(frame, BaseModel):
        raise TypeError(f"encode() takes a frame, not {type(frame).__name__}; for any JSON value, use encode_json()")
    try:
        text = frame.model_dump_json(by_alias=True, exclude_unset=True, serialize_as_any=True)
    except (PydanticSerializationError, UnicodeError):
        return encode_json(frame.model_dump(by_alias=True, exclude_unset=True, serialize_as_any=True))
    return _as_line(text)


def encode_json(value: Any) -> bytes:
    """Give the line of any JSON value, line break included.

    Raises:
        ValueError, TypeError: It is not a JSON value; neither are NaN and the infinities, of which the CLI would die.
    """
    return _as_line(_dumped(value, allow_nan=False))


def prepare() -> None:
    """Build the fast path now (it takes some tens of milliseconds), for example while the CLI starts."""
    global _read_usual
    if _read_usual is _read_first:
        from claude_agent_py.wire.usual import UsualFrame

        _read_usual = _reader(UsualFrame)


def _read_first(line: bytes | str, *, strict: bool) -> "Frame":
    prepare()
    return _read_usual(line, strict=strict)


_read_usual: Callable[..., "Frame"] = _read_first
"""Reads a line of the usual kinds. No `cache` and no `partial` in between: a tenth of what decoding a delta takes."""


@cache
def _read_one(tags: tuple[str, ...]) -> Callable[..., "Frame"]:
    from claude_agent_py.wire.frames import model_of

    return _reader(model_of(tags))


def _reader(kind: Any) -> Callable[..., "Frame"]:
    adapter: TypeAdapter[Frame] = TypeAdapter(kind)
    return adapter.validator.validate_json


# What the fast path did not take ---------------------------------------------------------------------------------


def _decode_carefully(line: bytes | str, problem: ValueError) -> "Frame":
    if not isinstance(line, bytes | bytearray | str):
        raise TypeError(f"decode() takes a line, bytes or text, not {type(line).__name__}") from None
    try:
        text = _as_text(line)
        raw = json.loads(text)
    except UnicodeDecodeError as error:
        return MalformedFrame(line, f"not UTF-8: {error.reason} at byte {error.start}")
    except json.JSONDecodeError as error:
        return MalformedFrame(line, f"not JSON: {error.msg} at character {error.pos}")
    except (ValueError, RecursionError) as error:
        return MalformedFrame(line, f"not JSON that can be read: {error}")
    return _decode_value(line, raw, problem)


def _decode_value(line: bytes | str, raw: Any, problem: ValueError) -> "Frame":
    if not isinstance(raw, dict):
        return MalformedFrame(line, f"not a JSON object but {_kind(raw)}", raw)
    tags: tuple[str, ...] = ()
    for field, known in _needed_tags(raw):
        tag = raw.get(field)
        if not isinstance(tag, str):
            what = "Input should be a valid string" if field in raw else "Field required"
            return MalformedFrame(line, f"{field}: {what}", raw, (field,))
        if tag not in known:
            return UnknownMessage(raw)
        tags += (tag,)
    return _decode_known(line, raw, tags, is_repaired=_is_about_text(problem))


def _needed_tags(raw: dict[str, Any]) -> Iterable[tuple[str, frozenset[str]]]:
    from claude_agent_py.wire.frames import KNOWN_SYSTEM_SUBTYPES, KNOWN_TYPES

    yield "type", KNOWN_TYPES
    if raw["type"] == "system":
        yield "subtype", KNOWN_SYSTEM_SUBTYPES


def _is_about_text(problem: ValueError) -> bool:
    """Whether the fast path stumbled over the text (a byte order mark, a lone surrogate), not over its meaning."""
    return not isinstance(problem, ValidationError) or problem.errors(include_url=False)[0]["type"] == "json_invalid"


def _decode_known(line: bytes | str, raw: dict[str, Any], tags: tuple[str, ...], *, is_repaired: bool) -> "Frame":
    """Decode a frame that has a model: an occasional one, one whose text had to be repaired, or a malformed one."""
    try:
        return _read_one(tags)(encode_json(raw) if is_repaired else line, strict=True)
    except ValueError as problem:
        return _malformed(line, raw, tags, problem)
    except RecursionError as problem:
        return MalformedFrame(line, f"nested too deeply: {problem}", raw)


# Saying what is wrong --------------------------------------------------------------------------------------------


def _malformed(line: bytes | str, raw: dict[str, Any], tags: tuple[str, ...], problem: ValueError) -> MalformedFrame:
    if not isinstance(problem, ValidationError):
        return MalformedFrame(line, str(problem), raw)
    errors = [error for error in problem.errors(include_url=False) if error["type"] != KNOWN_TAG]
    located = [(locate(error, raw, tags), error["msg"]) for error in errors]
    location, what = max(located, key=lambda found: len(found[0]))  # the first of the deepest: the most telling one
    where = ".".join(map(str, location))
    return MalformedFrame(line, f"{where}: {what}" if where else what, raw, location)


def locate(error: ErrorDetails, raw: Any, tags: tuple[str, ...] = ()) -> tuple[str | int, ...]:
    """Give the keys and indices that lead to an error, without the names of union members in between.

    `tags` are those of `raw` that chose its model, and so are not in front of the error's place.
    """
    path: list[str | int] = []
    node: Any = raw
    labels = [label for label in _labels(raw) if label not in tags]
    steps: Sequence[str | int] = error["loc"]
    for number, step in enumerate(steps, start=1):
        is_missing = error["type"] == "missing" and number == len(steps)
        if step in labels and not is_missing:
            labels.remove(step)
        elif is_missing or _leads_on(node, step):
            path.append(step)
            node = None if is_missing else node[step]
            labels = _labels(node)
    return tuple(path)


def _labels(node: Any) -> list[str | int]:
    """Give the tags of an object: a discriminated union names its member by one of them, once."""
    return [node[field] for field in _TAG_FIELDS if isinstance(node.get(field), str)] if isinstance(node, dict) else []


def _leads_on(node: Any, step: str | int) -> bool:
    if isinstance(node, list):
        return isinstance(step, int) and step < len(node)
    return isinstance(node, dict) and step in node


def _kind(value: Any) -> str:
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "an array"}
    return names.get(type(value), "null")


# Text ------------------------------------------------------------------------------------------------------------


def _as_text(line: bytes | str) -> str:
    text = line if isinstance(line, str) else line.decode("utf-8")
    return text.removeprefix("\ufeff")


def _as_bytes(line: bytes | str) -> bytes:
    return line if isinstance(line, bytes) else line.encode("utf-8", "surrogatepass")


def _dumped(value: Any, *, allow_nan: bool) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=allow_nan)


def _as_line(text: str) -> bytes:
    """End a JSON text as a line: readers that take U+2028 and U+2029 for line breaks must not see them."""
    text = text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:
        return _SURROGATES.sub("\ufffd", text).encode() + b"\n"
