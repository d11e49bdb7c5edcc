"""`Cancellation`: whether the CLI has cancelled a request."""

import threading

_making_event = threading.Lock()


class Cancellation:
    """A flag that is set once, when the CLI cancels a request. Safe to read from any thread."""

    reason: str = ""
    """Why, in the words of the CLI; empty if it named no reason."""
    _is_set = False
    _event: threading.Event | None = None
    """Created by the first `wait`; most requests need none."""

    def __bool__(self) -> bool:
        return self._is_set

    def __repr__(self) -> str:
        return f"<Cancellation {'set' if self else 'not set'}>"

    def set(self, reason: str = "") -> None:
        """Set the flag."""
        self.reason = reason
        self._is_set = True
        if self._event is not None:
            self._event.set()

    def wait(self, timeout: float | None = None) -> bool:
        """Block the calling thread until the flag is set, at most `timeout` seconds. Return whether it is set.

        For plain functions only.
        """
        with _making_event:
            if self._event is None:
                self._event = threading.Event()
        return self._is_set or self._event.wait(timeout)
