"""`TypedLines`: read lines from stdin without blocking the event loop."""

import os
import threading
from collections import deque

from claude_agent_py._event_loop import Wakeup
from claude_agent_py._untrusted import Lines


class TypedLines:
    """The lines of stdin, read in a daemon thread, which does not delay the exit of the program."""

    def __init__(self) -> None:
        self._lines: deque[str | None] = deque()
        self._wakeup = Wakeup()
        self._thread: threading.Thread | None = None

    async def next(self) -> str | None:
        """Return the next line, or None at the end of the input."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._read, name="stdin of the chat", daemon=True)
            self._thread.start()
        while not self._lines:
            self._wakeup = Wakeup()
            if not self._lines:
                await self._wakeup.wait()
        return self._lines[0] if self._lines[0] is None else self._lines.popleft()

    def _read(self) -> None:
        """Read the file descriptor. `sys.stdin` would hold the lock of its buffer when the program exits."""
        lines = Lines()
        try:
            while data := os.read(0, 65536):
                self._put(*lines.feed(data))
            self._put(*lines.feed(b"\n"))
        except OSError:
            # The terminal was closed.
            pass
        self._lines.append(None)
        self._wakeup.set()

    def _put(self, *lines: bytes) -> None:
        self._lines.extend(line.decode("utf-8", errors="replace") for line in lines)
        self._wakeup.set()
