"""The transport of the official SDK (`claude_agent_sdk._internal.transport`), which moves JSON, over one of bytes."""

import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from typing import ClassVar

from claude_agent_py import transport
from claude_agent_py.wire import JSONObject


class Transport(ABC):
    """Moves messages between a session and a `claude` program elsewhere."""

    @abstractmethod
    async def connect(self) -> None:
        """Start or reach the program."""

    @abstractmethod
    async def write(self, data: str) -> None:
        """Write one line of JSON, with its line break."""

    @abstractmethod
    def read_messages(self) -> AsyncIterator[JSONObject]:
        """Iterate over the messages of the program until its end."""

    @abstractmethod
    async def close(self) -> None:
        """End the connection. Must be bounded."""

    @abstractmethod
    def is_ready(self) -> bool:
        """Return whether messages can be sent."""

    @abstractmethod
    async def end_input(self) -> None:
        """Close the program's stdin."""


class BytesTransport(transport.Transport):
    """A transport of bytes over one of the official SDK."""

    ignores_options: ClassVar[bool] = True

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self._messages: AsyncIterator[JSONObject] | None = None
        self._is_closed = False
        self.failure: Exception | None = None
        """The error that ended the output, or of a line that could not be written."""

    async def start(self) -> None:
        """Connect."""
        await self._inner.connect()
        self._messages = aiter(self._inner.read_messages())

    async def receive(self) -> bytes:
        """Return the next message as a line; an error is kept and ends the output."""
        assert self._messages is not None  # noqa: S101 - it has started
        try:
            return json.dumps(await anext(self._messages)).encode() + b"\n"
        except StopAsyncIteration:
            return b""
        except Exception as error:
            self.failure = error
            return b""

    async def send(self, data: bytes) -> None:
        """Write each line; an error is kept."""
        try:
            for line in data.decode().removesuffix("\n").split("\n"):  # not `splitlines`, which knows other breaks
                await self._inner.write(f"{line}\n")
        except Exception as error:
            self.failure = self.failure or error
            raise

    async def end_input(self) -> None:
        """Close the program's stdin."""
        await self._inner.end_input()

    async def close(self, *, grace: float = 5.0) -> None:
        """Close once, and only what is connected."""
        if self._messages is not None and not self._is_closed:
            self._is_closed = True
            await self._inner.close()

    @property
    def needs_run(self) -> bool:
        """There is no work in the background."""
        return False

    @property
    def exit_code(self) -> int | None:
        """The exit status that the error names."""
        return getattr(self.failure, "exit_code", None)
