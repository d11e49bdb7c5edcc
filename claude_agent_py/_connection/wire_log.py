"""The wire log: a line for each frame, in the logger `claude_agent_py.wire`.

At level DEBUG: direction, kind, id and size; at `BODIES` also the body, without secrets. The level is checked when a
session begins, so that a disabled log costs nothing.
"""

import contextlib
import json
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from claude_agent_py._base.lazy_names import LazyModule
from claude_agent_py._base.lines import LineBuffer, OversizeLine
from claude_agent_py.options.client_options import ClientOptions
from claude_agent_py.options.secrets import find_secrets

if TYPE_CHECKING:
    from claude_agent_py._base import redaction
else:
    redaction = LazyModule("claude_agent_py._base.redaction")

logger: logging.Logger = logging.getLogger("claude_agent_py.wire")

BODIES: Final = 5
"""The level at which bodies are logged, too: `logging.getLogger("claude_agent_py.wire").setLevel(5)`."""

_LONGEST: Final = 256 * 1024
"""Longer lines, in bytes, are not parsed; only their size is logged."""


def wire_log(options: ClientOptions) -> "WireLog | None":
    """Return a log for one session, or None if it is disabled."""
    return WireLog(find_secrets(options)) if logger.isEnabledFor(logging.DEBUG) else None


class WireLog:
    """Logs the frames of one session. Hides `secrets`, which the CLI and its tools know, in addition to others."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self._secrets = secrets
        self._lines = {direction: LineBuffer(_LONGEST) for direction in ("<-", "->")}

    def received(self, data: bytes) -> None:
        """Log data that the CLI wrote."""
        self._take("<-", data)

    def sent(self, data: bytes) -> None:
        """Log data that is written to the CLI."""
        self._take("->", data)

    def _take(self, direction: str, data: bytes) -> None:
        for line in self._lines[direction].feed(data):
            if line:
                self._log(direction, line)

    def _log(self, direction: str, line: bytes | OversizeLine) -> None:
        frame = None
        if isinstance(line, OversizeLine):
            size = line.length
        else:
            size = len(line)
            with contextlib.suppress(ValueError, RecursionError):
                frame = json.loads(line)
        kind, name = "?", "-"
        if isinstance(frame, dict):
            kind, name = _identify_frame(frame)
        body = self._redact(frame) if frame is not None and logger.isEnabledFor(BODIES) else None
        if body is not None:
            logger.log(BODIES, "%s %s %s %d bytes %s", direction, kind, name, size, body)
        else:
            logger.debug("%s %s %s %d bytes", direction, kind, name, size)

    def _redact(self, frame: object) -> str | None:
        """Return a frame as JSON without secrets, or None if it is too deep."""
        with contextlib.suppress(ValueError, RecursionError):
            return json.dumps(redaction.without_secrets(_without_pieces(frame), hide=self._hide))
        return None

    def _hide(self, text: str) -> str:
        return redaction.hide_secrets(redaction.hide_values(text, self._secrets.items()))


def _without_pieces(frame: object) -> object:
    """Return a frame without the pieces of streamed texts, in which a secret may be split; the whole text follows."""
    match frame:
        case {"event": {"type": "content_block_delta", "delta": {"type": kind, **texts}, **event}, **fields}:
            sizes = {
                name: f"<{len(text)} characters>" if isinstance(text, str) else text for name, text in texts.items()
            }
            return {**fields, "event": {"type": "content_block_delta", **event, "delta": {"type": kind, **sizes}}}
    return frame


def _identify_frame(frame: Mapping[str, object]) -> tuple[str, str]:
    """Return the kind of a frame and its id."""
    inner = frame.get("request") or frame.get("response")
    fields = {**inner, **frame} if isinstance(inner, Mapping) else frame
    kind = "/".join(str(fields[key]) for key in ("type", "subtype") if fields.get(key))
    name = fields.get("request_id") or fields.get("uuid") or "-"
    return _short(kind), _short(str(name))


def _short(text: str) -> str:
    return text[:80].encode("unicode_escape").decode("ascii")
