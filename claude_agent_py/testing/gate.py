"""`Gate`: block a scripted peer until the test opens it, across threads and event loops."""

import threading
import time
from collections.abc import Callable

from anyio import from_thread, to_thread

POLL = 0.02
"""Seconds between two checks for cancellation. Opening a gate wakes waiters immediately."""


class Gate:
    """Blocks a scripted peer until `open()` is called, from any thread or task. An open gate stays open."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.is_open: bool = False
        """Whether `open()` was called."""
        self.reached: int = 0
        """How many peers have reached this gate so far."""
        self._on_open: list[Callable[[], object]] = []

    def __repr__(self) -> str:
        return f"<Gate {'open' if self.is_open else 'closed'}, reached {self.reached} times>"

    def open(self) -> None:
        """Open the gate for all current and future waiters."""
        with self._changed:
            self.is_open = True
            self._changed.notify_all()
            callbacks, self._on_open = self._on_open, []
        for callback in callbacks:
            callback()

    def when_open(self, callback: Callable[[], object]) -> None:
        """Call a function when the gate opens, in the thread that opens it; immediately if it is open."""
        with self._changed:
            if not self.is_open:
                self._on_open.append(callback)
                return
        callback()

    async def wait_reached(self, count: int = 1, *, timeout: float = 60.0) -> None:
        """Wait until `count` peers have reached the gate. Raises TimeoutError after `timeout` seconds."""
        await wait_in_thread(self._changed, lambda: self.reached >= count, timeout, f"{self!r}, wanted {count}")

    def hold(self, abandoned: Callable[[], bool]) -> bool:
        """Block the calling thread until the gate is open. Returns False once `abandoned()` returns true."""
        with self._changed:
            self.reached += 1
            self._changed.notify_all()
            while not self.is_open:
                if abandoned():
                    return False
                self._changed.wait(POLL)
        return True


async def wait_in_thread(changed: threading.Condition, done: Callable[[], bool], timeout: float, what: str) -> None:
    """Wait on `changed` in a worker thread until `done()` returns true. Cancellable.

    Raises TimeoutError, which mentions `what`, after `timeout` seconds.
    """
    deadline = time.monotonic() + timeout

    def wait() -> None:
        with changed:
            while not done():
                from_thread.check_cancelled()
                if time.monotonic() > deadline:
                    raise TimeoutError(f"timed out after {timeout:g} s: {what}")
                changed.wait(POLL)

    await to_thread.run_sync(wait)
