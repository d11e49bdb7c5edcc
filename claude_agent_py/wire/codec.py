"""Lines to frames and back: the one place where JSON becomes models.

`decode` reads a line twice: first only its `type` and `subtype`, which choose the model, then all of it with that
model's decoder. Whatever does not go through is looked at again, slowly (`_decode_carefully`): an unknown type, an
unknown content block, a wrong field. `decode` never raises for what a line holds.

JSON is strict here, no value is converted on the way in, and a frame keeps its line, so `encode(decode(line))` is the
same JSON value. The one exception are lone surrogates (half an emoji, which JavaScript can write and Unicode text
cannot hold): they become U+FFFD.
"""

import json
import logging
import re
from collections.abc import Callable
from typing import Any, Final

import msgspec

from claude_agent_py.wire.base import FrameModel, WireModel, dump, keep_source
from claude_agent_py.wire.fitting import Misfit, Place, fit
from claude_agent_py.wire.frames import MODELS as _MODELS, SYSTEM_MODELS as _SYSTEM_MODELS, Frame, model_of
from claude_agent_py.wire.unknown import MalformedFrame, UnknownMessage

logger: logging.Logger = logging.getLogger("claude_agent_py")

REPORTED: Final = frozenset({"usage", "context_usage", "usage_report", "tool_use_meta", "tool_result_meta"})
"""Fields that only report. One that does not fit is left out: the frame around it matters more."""

VERDICT: Final = frozenset(
    {
        "subtype",
        "is_error",
        "result",
        "errors",
        "stop_reason",
        "terminal_reason",
        "structured_output",
        "api_error",
        "api_error_status",
        "user_message_uuid",
        "user_message_uuids",
        "origin",
    }
)
"""The fields of a result that say how the turn ended, and whose turn it was. All others only report."""

_SURROGATES: Final = re.compile("[\ud800-\udfff]")


class _Head(msgspec.Struct, gc=False):
    type: str
    subtype: str | None = None


_read_head: Final = msgspec.json.Decoder(_Head).decode
_readers: Final[dict[type, Callable[[bytes], Any]]] = {}
"""The decoders of the models that came so far."""


def decode(line: bytes | str) -> Frame:
    """Return the frame of a line: a message, a control frame, `UnknownMessage` or `MalformedFrame`.

    A line break at the end, a byte order mark and white space around the JSON do no harm.

    Raises:
        TypeError: `line` is neither bytes nor text.
    """
    if type(line) is not bytes:
        line = _as_bytes(line)
    try:
        head = _read_head(line)
        model: Any = _SYSTEM_MODELS[head.subtype] if head.type == "system" else _MODELS[head.type]  # type: ignore[index]
        frame: Any = (_readers.get(model) or _reader(model))(line)
    except (ValueError, LookupError, RecursionError):
        return _decode_carefully(line)
    keep_source(frame, "_source", line)
    return frame  # type: ignore[no-any-return]


def encode(frame: Frame | WireModel) -> bytes:
    """Return the line of a frame, line break included.

    A frame that was decoded gives back what came; one that was made here, the fields that have a value.

    Raises:
        ValueError, TypeError: A field holds a value that JSON does not have, or it is not a frame.
    """
    if isinstance(frame, UnknownMessage):
        return _as_line(_lenient_json(frame.raw))
    if isinstance(frame, MalformedFrame):
        return _as_bytes(frame.line).rstrip(b"\r\n") + b"\n"
    if isinstance(frame, FrameModel) and frame._source is not None:
        source = frame._source
        return _as_one_line(_without_breaks(source)) if isinstance(source, bytes) else encode_json(source)
    if not isinstance(frame, WireModel):
        raise TypeError(f"encode() takes a frame, not {type(frame).__name__}; for any JSON value, use encode_json()")
    return encode_json(dump(frame))


_strict_json: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_lenient_json: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def encode_json(value: Any) -> bytes:
    """Return the line of any JSON value, line break included.

    Raises:
        ValueError, TypeError: It is not a JSON value. NaN and the infinities are not either: the CLI would die of them.
    """
    return _as_line(_strict_json(value))


def prepare(*models: type) -> None:
    """Build the decoders of some models now, for example while the CLI starts."""
    for model in models:
        _reader(model)


def _reader(model: type) -> Callable[[bytes], Any]:
    reader: Callable[[bytes], Any] = msgspec.json.Decoder(model).decode
    _readers[model] = reader
    return reader


# What did not go through -----------------------------------------------------------------------------------------


def _decode_carefully(line: bytes) -> Frame:
    try:
        text = line.decode("utf-8", "surrogatepass").removeprefix("\ufeff")
        raw = json.loads(text, parse_constant=_refuse)
        sane = encode_json(raw)  # without byte order mark and lone surrogates
    except UnicodeDecodeError as error:
        return MalformedFrame(line, f"not UTF-8: {error.reason} at byte {error.start}")
    except json.JSONDecodeError as error:
        return MalformedFrame(line, f"not JSON: {error.msg} at character {error.pos}")
    except (ValueError, RecursionError) as error:
        return MalformedFrame(line, f"not readable as JSON: {error}")
    if not isinstance(raw, dict):
        return MalformedFrame(line, f"not a JSON object but {_kind(raw)}", raw)
    for field in ("type", "subtype") if raw.get("type") == "system" else ("type",):
        if not isinstance(raw.get(field), str):
            what = "must be a string" if field in raw else "missing"
            return MalformedFrame(line, f"{field}: {what}", raw, (field,))
    model = model_of(raw)
    return UnknownMessage(raw) if model is None else _fit_frame(model, line, raw, sane)


def _fit_frame(model: type, line: bytes, raw: dict[str, Any], sane: bytes) -> Frame:
    may_drop = _is_no_verdict if raw["type"] == "result" else _is_reported
    try:
        frame: Any
        frame, dropped = fit(model, msgspec.json.decode(sane), may_drop=may_drop)
    except Misfit as error:
        return MalformedFrame(line, str(error), raw, error.location)
    except RecursionError as error:
        return MalformedFrame(line, f"nested too deeply: {error}", raw)
    for left_out in dropped:
        logger.warning("a field of a %s frame does not fit and was left out: %s", raw["type"], left_out)
    keep_source(frame, "_source", sane.rstrip(b"\n"))
    return frame  # type: ignore[no-any-return]


def _is_reported(place: Place) -> bool:
    return not REPORTED.isdisjoint(place)


def _is_no_verdict(place: Place) -> bool:
    return place[0] not in VERDICT


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _kind(value: Any) -> str:
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "an array"}
    return names.get(type(value), "null")


# Text ------------------------------------------------------------------------------------------------------------


def _as_bytes(line: Any) -> bytes:
    if isinstance(line, str):
        return line.encode("utf-8", "surrogatepass")
    if isinstance(line, bytes | bytearray | memoryview):
        return bytes(line)
    raise TypeError(f"decode() takes a line, bytes or text, not {type(line).__name__}")


def _as_line(text: str) -> bytes:
    """End a JSON text as a line, without the characters that some readers take for line breaks (U+2028, U+2029)."""
    try:
        data = text.encode()
    except UnicodeEncodeError:
        data = _SURROGATES.sub("\ufffd", text).encode()
    return _as_one_line(data)


def _without_breaks(data: bytes) -> bytes:
    """Return a JSON text without line breaks; inside of strings there are none."""
    return data.strip().replace(b"\n", b" ").replace(b"\r", b" ")


def _as_one_line(data: bytes) -> bytes:
    return data.replace(b"\xe2\x80\xa8", b"\\u2028").replace(b"\xe2\x80\xa9", b"\\u2029") + b"\n"
