"""`Session`: a `Client` as `query` and `ClaudeSDKClient` use it, with frames as dicts and the official SDK's errors."""

from collections.abc import AsyncIterable, AsyncIterator, Mapping
from typing import Any, Final

import anyio

from claude_agent_py import Client, Run
from claude_agent_py.compat import types
from claude_agent_py.compat.errors import (
    CLIConnectionError,
    CLIJSONDecodeError,
    ProcessError,
    ResultError,
    official_errors,
    to_official,
)
from claude_agent_py.compat.options import convert_options
from claude_agent_py.compat.transport import BytesTransport, Transport
from claude_agent_py.errors import ClaudeAgentError
from claude_agent_py.messages import MalformedFrame
from claude_agent_py.wire import JSONObject

_END: Final = object()


class Session:
    """A session with the CLI.

    Raises:
        ValueError: An option is invalid.
    """

    def __init__(self, options: types.ClaudeAgentOptions, transport: Transport | None) -> None:
        self._transport = None if transport is None else BytesTransport(transport)
        with official_errors():
            self.client: Client = Client(convert_options(options), transport=self._transport)
        self._items: AsyncIterator[Any]
        self._reading = anyio.Lock()
        """Held by the one of several readers that waits for the next frame."""
        self._item: Any = None
        """What was read and not yet returned; a reader that is cancelled leaves it for the next one."""
        self._is_over = False
        """Whether a reader was told the end of the session."""
        self._is_closed = False
        self._error_result: JSONObject | None = None
        """The result of the last turn if it is an error, which explains the exit of the process."""

    async def connect(self) -> None:
        """Start the CLI. Raises an error of the official SDK."""
        with official_errors():
            try:
                await self.client.connect()
            except ClaudeAgentError:
                if self._transport is not None and self._transport.failure is not None:
                    raise self._transport.failure from None
                raise
        self._items = self.client.events()

    def send(self, prompt: str | Mapping[str, object] | AsyncIterable[JSONObject], session_id: str) -> Run:
        """Send a prompt; those of an iterable in the background.

        Raises:
            CLIConnectionError: The process has exited.
        """
        self._check_open()
        if isinstance(prompt, str):
            content = {"role": "user", "content": prompt}
            prompt = {"type": "user", "message": content, "parent_tool_use_id": None, "session_id": session_id}
        with official_errors():
            return self.client.query(prompt)

    async def control(self, subtype: str, **fields: Any) -> Any:
        """Send a control request and return the reply.

        Raises:
            CLIConnectionError: The process had exited before.
            ProcessError: It exited before it replied.
        """
        self._check_open()
        with official_errors():
            return await self.client.control(subtype, **fields)

    def _check_open(self) -> None:
        if not self.client.is_open:
            raise CLIConnectionError(f"Cannot write to terminated process (exit code: {self.client.exit_code})")

    async def next_frame(self) -> JSONObject | None:
        """Return the next frame, or None at the end of the session. Cancelling loses none.

        Raises:
            ResultError, ProcessError: The process exited with an error. Raised once.
            CLIJSONDecodeError: The result of a turn cannot be read. Other lines that cannot are left out.
        """
        while True:
            error: ClaudeAgentError | None = None
            async with self._reading:
                try:
                    if self._item is None:
                        self._item = await anext(self._items, _END)
                except ClaudeAgentError as ended:
                    self._item, error = _END, ended
                frame = getattr(self._item, "raw", None)
                if isinstance(frame, dict) and frame.get("type") == "result":
                    await self.client.sync_store()  # so that whoever reads the result finds its turn in the store
                item, self._item = self._item, None
            if item is _END:
                if not self._is_over:
                    self._is_over = True
                    self._raise_at_end(error)
                return None
            if isinstance(frame, dict) and isinstance(frame.get("type"), str):
                self._note(frame)
                return frame
            if isinstance(item, MalformedFrame) and item.is_result:  # no other result would end the turn
                raise CLIJSONDecodeError(item.line.decode(errors="replace"), ValueError(item.error))

    def _note(self, frame: JSONObject) -> None:
        if frame["type"] == "result":
            self._error_result = frame if frame.get("is_error") else None
        elif frame["type"] in ("user", "assistant", "stream_event"):
            self._error_result = None

    def _raise_at_end(self, error: ClaudeAgentError | None) -> None:
        code = self.client.exit_code
        if self._transport is not None:
            failure = self._transport.failure
        elif error is not None:
            failure = to_official(error)
        else:
            stderr = self.client.stderr_tail
            text = f"Command failed with exit code {code}"
            failure = ProcessError(text, code, stderr) if code and not self._is_closed else None
        if isinstance(failure, ProcessError) and self._error_result is not None:
            raise ResultError.after(self._error_result, failure.exit_code) from failure
        if failure is not None:
            raise failure from error

    async def close(self) -> None:
        """End the session and its process."""
        self._is_closed = True
        with anyio.CancelScope(shield=True):
            await self.client.close()
