"""Decode lines into frames and encode frames as lines.

One decoder reads all frames; `type` selects the model. Of a system message it reads only the subtype, which selects the
decoder that then reads the message. If that fails, `_decode_carefully` takes a slower path that handles unknown types,
unknown content blocks and invalid fields. Invalid input never raises; it becomes a `MalformedFrame`, and so does a
frame that is nested so deeply that recursive readers would fail.

A frame keeps the line it was decoded from, so `encode(decode(line))` is the same JSON value. The exception is lone
surrogates, which JavaScript can write but UTF-8 cannot represent: they become U+FFFD.
"""

import json
import re
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import msgspec

from claude_agent_py._base.bounded_reading import MOST_LEVELS, is_too_deep
from claude_agent_py._base.log import logger
from claude_agent_py.wire.base import FrameModel, JSONObject, WireModel, dump, keep_source
from claude_agent_py.wire.control.frames import ControlFrame
from claude_agent_py.wire.control.initialize import InitializeReply
from claude_agent_py.wire.fitting import Misfit, Place, fit
from claude_agent_py.wire.frames import SYSTEM_MODELS, Frame, TopLevelMessage, model_of
from claude_agent_py.wire.unknown import MalformedFrame, UnknownMessage

REPORTED: Final = frozenset({"usage", "context_usage", "usage_report", "tool_use_meta", "tool_result_meta"})
"""Informational fields. An invalid one is dropped, so that the rest of the frame survives."""

ESSENTIAL_RESULT_FIELDS: Final = frozenset(
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
"""Fields of a result that say how the turn ended and which prompts it answers. All others are informational."""

_SYSTEM_HEAD: Final = b'{"type":"system","subtype":"'
_SURROGATES: Final = "[\ud800-\udfff]"


class _SystemHead(msgspec.Struct, tag_field="type", tag="system", gc=False):
    """A system message, as far as it is read to choose its model."""

    subtype: str


@cache
def _frame_decoder() -> Callable[[bytes], Any]:
    return msgspec.json.Decoder(TopLevelMessage | ControlFrame | _SystemHead).decode


@cache
def _system_decoder(subtype: bytes) -> Callable[[bytes], Any]:
    return msgspec.json.Decoder(SYSTEM_MODELS[subtype.decode()]).decode


def prepare() -> None:
    """Build the decoders that every session uses, for example while the CLI starts."""
    _frame_decoder()
    _system_decoder(b"init")
    msgspec.json.Decoder(InitializeReply)  # the first one of a model takes longer


def decode(line: bytes | str, *, report: bool = True) -> Frame:
    """Decode a line into a message, a control frame, an `UnknownMessage` or a `MalformedFrame`.

    Surrounding white space, line breaks and a byte order mark are ignored.

    Args:
        line: The line.
        report: Whether to log a warning for each invalid field that is dropped. False for a line that was decoded
            before.

    Raises:
        TypeError: `line` is neither bytes nor str.
    """
    if type(line) is not bytes:
        line = _as_bytes(line)
    if is_too_deep(line):
        return MalformedFrame(line, f"nested more than {MOST_LEVELS} levels deep")
    try:
        if line.startswith(_SYSTEM_HEAD):  # as the CLI writes it
            subtype = line[len(_SYSTEM_HEAD) : line.index(b'"', len(_SYSTEM_HEAD))]
            frame = _system_decoder(subtype)(line)
        else:
            frame = _frame_decoder()(line)
            if type(frame) is _SystemHead:
                frame = _system_decoder(frame.subtype.encode())(line)
    except (ValueError, LookupError, RecursionError):
        return _decode_carefully(line, report=report)
    keep_source(frame, "_source", line)
    return frame  # type: ignore[no-any-return]


def encode(frame: Frame | WireModel) -> bytes:
    """Encode a frame as a line, including the line break.

    A decoded frame is encoded as it was received. Otherwise fields that equal their default are left out.

    Raises:
        TypeError: `frame` is not a frame, or a field holds a value that JSON cannot represent.
        ValueError: A field holds NaN or an infinity.
    """
    if isinstance(frame, UnknownMessage):
        return _as_line(_lenient_json(frame.raw))
    if isinstance(frame, MalformedFrame):
        return _as_bytes(frame.line).rstrip(b"\r\n") + b"\n"
    if isinstance(frame, FrameModel) and frame._source is not None:
        source = frame._source
        return _as_one_line(_without_breaks(source)) if isinstance(source, bytes) else encode_json(source)
    if not isinstance(frame, WireModel):
        raise TypeError(f"encode() takes a frame, not {type(frame).__name__}; use encode_json() for other JSON values")
    return encode_json(dump(frame))


def line_of(message: object) -> bytes:
    """Return the line that `decode` turns into an equal message; empty if there is none."""
    source = getattr(message, "_source", None)
    if type(source) is bytes:
        return source
    if isinstance(message, FrameModel):
        return encode(message).removesuffix(b"\n")
    if isinstance(message, UnknownMessage):
        return json.dumps(message.raw).encode()
    is_same = isinstance(message, MalformedFrame) and decode(message.line, report=False) == message
    return message.line if is_same else b""  # type: ignore[attr-defined]


_strict_json: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_fast_json: Final = msgspec.json.Encoder().encode
_lenient_json: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def encode_json(value: object) -> bytes:
    """Encode any JSON value as a line, including the line break.

    Raises:
        TypeError: The value contains something that JSON cannot represent.
        ValueError: The value contains NaN or an infinity, on which the CLI would crash.
    """
    return _as_line(_strict_json(value))


def encode_answer(value: object) -> bytes:
    """Encode the answer to a request as `encode_json` does, but faster.

    Values without a JSON form that msgspec supports (sets, dates, ...) are encoded as msgspec does.

    Raises:
        TypeError: The value contains something that JSON cannot represent.
        ValueError: The value contains NaN or an infinity.
    """
    try:
        line = _fast_json(value)
    except (TypeError, ValueError, RecursionError):  # a lone surrogate, say
        return encode_json(value)
    return encode_json(value) if b"null" in line else _as_one_line(line)  # null may stand for NaN


# Slow path -------------------------------------------------------------------------------------------------------


def _decode_carefully(line: bytes, *, report: bool) -> Frame:
    try:
        text = line.decode("utf-8", "surrogatepass").removeprefix("\ufeff")
        raw = json.loads(text, parse_constant=_refuse)
        sane = encode_json(raw)  # without byte order mark and lone surrogates
    except UnicodeDecodeError as error:
        return MalformedFrame(line, f"not UTF-8: {error.reason} at byte {error.start}")
    except json.JSONDecodeError as error:
        return MalformedFrame(line, f"not JSON: {error.msg} at character {error.pos}")
    except (ValueError, RecursionError) as error:
        return MalformedFrame(line, f"invalid JSON: {error}")
    if not isinstance(raw, dict):
        return MalformedFrame(line, f"not a JSON object but {_kind(raw)}", raw)
    for field in ("type", "subtype") if raw.get("type") == "system" else ("type",):
        if not isinstance(raw.get(field), str):
            what = "must be a string" if field in raw else "missing"
            return MalformedFrame(line, f"{field}: {what}", raw, (field,))
    model = model_of(raw)
    return UnknownMessage(raw) if model is None else _fit_frame(model, line, raw, sane, report=report)


def _fit_frame(model: type, line: bytes, raw: JSONObject, sane: bytes, *, report: bool) -> Frame:
    may_drop = _is_not_essential if raw["type"] == "result" else _is_reported
    try:
        frame: Any
        frame, dropped = fit(model, msgspec.json.decode(sane), may_drop=may_drop)
    except Misfit as error:
        return MalformedFrame(line, str(error), raw, error.location, is_result=raw["type"] == "result")
    if report:
        for left_out in dropped:
            logger.warning("dropped an invalid field of a %s frame: %s", raw["type"], left_out)
    keep_source(frame, "_source", sane.rstrip(b"\n"))
    return frame  # type: ignore[no-any-return]


def _is_reported(place: Place) -> bool:
    return not REPORTED.isdisjoint(place)


def _is_not_essential(place: Place) -> bool:
    return place[0] not in ESSENTIAL_RESULT_FIELDS


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _kind(value: object) -> str:
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "an array"}
    return names.get(type(value), "null")


# Text ------------------------------------------------------------------------------------------------------------


def _as_bytes(line: object) -> bytes:
    if isinstance(line, str):
        return line.encode("utf-8", "surrogatepass")
    if isinstance(line, bytes | bytearray | memoryview):
        return bytes(line)
    raise TypeError(f"decode() takes bytes or str, not {type(line).__name__}")


def _as_line(text: str) -> bytes:
    """Encode JSON text as a line, escaping U+2028 and U+2029, which some readers treat as line breaks."""
    try:
        data = text.encode()
    except UnicodeEncodeError:
        data = re.sub(_SURROGATES, "\ufffd", text).encode()
    return _as_one_line(data)


def _without_breaks(data: bytes) -> bytes:
    """Replace the line breaks between JSON tokens; strings cannot contain any."""
    return data.strip().replace(b"\n", b" ").replace(b"\r", b" ")


def _as_one_line(data: bytes) -> bytes:
    return data.replace(b"\xe2\x80\xa8", b"\\u2028").replace(b"\xe2\x80\xa9", b"\\u2029") + b"\n"
