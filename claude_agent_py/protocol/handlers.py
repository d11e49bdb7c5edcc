"""Whether a question of the CLI still stands.

Pure: the flag is set by whoever runs the handler, and may be read from any thread.
"""

import threading
from collections.abc import Callable

_making_event = threading.Lock()


class Cancellation:
    """A flag that turns true once, when the CLI no longer wants an answer. Safe to read from any thread."""

    def __init__(self) -> None:
        self._is_set = False
        self._event: threading.Event | None = None
        """What a thread waits for; most answers need none."""
        self._callbacks: list[Callable[[], None]] = []

    def __bool__(self) -> bool:
        return self._is_set

    def __repr__(self) -> str:
        return f"<Cancellation {'set' if self else 'not set'}>"

    def set(self) -> None:
        """Say that the answer is no longer wanted."""
        if self._is_set:
            return
        self._is_set = True
        if self._event is not None:
            self._event.set()
        for callback in self._callbacks:
            callback()

    def wait(self, timeout: float | None = None) -> bool:
        """Block the calling thread until the flag is set, at most `timeout` seconds. For plain functions only."""
        with _making_event:
            if self._event is None:
                self._event = threading.Event()
        return self._is_set or self._event.wait(timeout)

    def on_set(self, callback: Callable[[], None]) -> None:
        """Call `callback` when the flag is set (at once if it is)."""
        self._callbacks.append(callback)
        if self:
            callback()
