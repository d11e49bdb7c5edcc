"""`EditorTransport`: the messages between an editor and an agent, one JSON object a line."""

import asyncio
import json
from collections import deque
from typing import Final

from claude_agent_py._base.bounded_reading import MOST_LEVELS, is_too_deep
from claude_agent_py._base.json_object import JSONObject
from claude_agent_py._base.lines import LineBuffer, OversizeLine
from claude_agent_py._base.log import logger

MOST_BYTES: Final = 128 * 1024 * 1024
CHUNK: Final = 64 * 1024
PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
CANCEL_REQUEST: Final = "$/cancel_request"
DELETE_SESSION: Final = "session/delete"
REQUEST: Final = "claudeAgentPyRequest"
"""The key in the `_meta` of a prompt for the id of its request."""


class EditorTransport:
    """A `Transport` of the package `agent-client-protocol` over a pair of asyncio streams.

    Unlike the package's own (0.12), it answers a line that is no message, so that the editor does not wait for ever: a
    batch, invalid JSON, a line of more than 128 MiB. `EditorAgent` also needs it for `$/cancel_request` and
    `session/delete`, which the package does not route.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._buffer = LineBuffer(MOST_BYTES)
        self._lines: deque[bytes | OversizeLine] = deque()
        self._is_over = False

    async def receive(self) -> JSONObject | None:
        """Return the next message, or None at the end. Cancelling loses nothing."""
        while True:
            while self._lines:
                try:
                    message = _read(self._lines.popleft())
                except _Refused as refused:
                    logger.warning("an editor sent a line that is no message: %s", refused)
                    await self.send(refused.answer)
                else:
                    if message is not None:
                        return _route(message)
            if self._is_over:
                return None
            data = await self._reader.read(CHUNK)
            self._is_over = not data
            self._lines.extend(self._buffer.feed(data) if data else self._buffer.end())

    async def send(self, message: JSONObject) -> None:
        """Write a message, and wait while the editor does not read. A message is never cut.

        Raises:
            ConnectionError: The editor has gone.
        """
        self._writer.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")
        await self._writer.drain()

    async def close(self) -> None:
        """Wait until what was sent is on its way. The streams stay open."""
        await self._writer.drain()


class _Refused(Exception):
    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.answer: Final = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": reason}}


def _read(line: bytes | OversizeLine) -> JSONObject | None:
    """Return the message of a line; None if it is blank."""
    if isinstance(line, OversizeLine):
        raise _Refused(INVALID_REQUEST, f"a message has at most {MOST_BYTES} bytes, not {line.length}")
    if is_too_deep(line):
        raise _Refused(INVALID_REQUEST, f"a message has at most {MOST_LEVELS} levels")
    try:
        message = json.loads(line) if line.strip() else None
    except ValueError as error:
        raise _Refused(PARSE_ERROR, f"not JSON: {error}") from None
    if message is not None and not isinstance(message, dict):
        raise _Refused(INVALID_REQUEST, "a line is one JSON-RPC message; the protocol has no batches")
    return message


def _route(message: JSONObject) -> JSONObject:
    """Return a message as the package's router takes it: as an extension, or a prompt with the id of its request."""
    method, params = message.get("method"), message.get("params")
    if method in (CANCEL_REQUEST, DELETE_SESSION):
        return {**message, "method": f"_{method}"}
    if method == "session/prompt" and isinstance(params, dict):
        meta = params.get("_meta")
        named = {**(meta if isinstance(meta, dict) else {}), REQUEST: message.get("id")}
        return {**message, "params": {**params, "_meta": named}}
    return message
