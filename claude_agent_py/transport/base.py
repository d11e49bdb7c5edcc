"""`Transport`: the interface to a `claude` process. It moves bytes, and owns the process and its end."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, Final

READ_BYTES: Final = 16 * 1024
"""The most that one read takes. Readers get their turn after it, so the messages are short-lived: a few dozen at a time
do not trigger the garbage collector. Longer reads make many sessions hold more memory at the same time."""

DRAIN_GRACE: Final = 1.0
"""Seconds to wait for the end of stdout and stderr after the process exited: a descendant may hold them open."""


class Transport(ABC):
    """Moves bytes between a session and a `claude` program. Used by one session, once.

    A session calls `start` first, then `receive` from one worker, `send` from one worker at a time, and `run` in a
    separate worker if the transport `needs_run`. It may call `close` at any time, from any worker, more than once.
    """

    ignores_options: ClassVar[bool] = False
    """Whether to ignore options that a CLI receives at its start (command line, environment, settings), because the
    program already has them or only imitates a CLI. If False, `Client(options, transport=...)` refuses such options.
    Not needed with `ClientOptions(spawn=...)`."""

    on_stderr: Callable[[str], None] | None = None
    """Called with every line of stderr, on the event loop. Quick, and never raises. A session sets it before `start`
    unless it is already set."""

    @abstractmethod
    async def start(self) -> None:
        """Start the program.

        Raises:
            CLIError: The program cannot be started. Nothing is left behind.
        """

    @abstractmethod
    async def receive(self) -> bytes:
        """Return the next available bytes of the program's output; `b""` at its end.

        Return some dozen KiB at most: the session decodes them before readers get their turn.
        """

    @abstractmethod
    async def send(self, data: bytes) -> None:
        """Write all of `data` to the program. Cancelling may leave a part of it written.

        Raises:
            anyio.BrokenResourceError: The program no longer reads.
            anyio.ClosedResourceError: The input was ended or the transport closed.
        """

    @property
    def can_send_nowait(self) -> bool:
        """Whether `send_nowait` may be called: all earlier data has been written."""
        return False

    def send_nowait(self, data: bytes) -> None:
        """Write all of `data` to the program without waiting. Data that the pipe does not accept is written later.

        It is not an error if the program no longer reads. Called only if `can_send_nowait` is true.
        """
        raise NotImplementedError

    @abstractmethod
    async def end_input(self) -> None:
        """Close the program's stdin. Idempotent."""

    @abstractmethod
    async def close(self, *, grace: float = 5.0) -> None:
        """End the program and release everything. Bounded, idempotent, and never raises if the program has exited.

        `grace` is the time in seconds that the program gets to exit on its own before it is killed.
        """

    @property
    def needs_run(self) -> bool:
        """Whether `run` has to run in a worker from the start.

        If not, `run` only waits for the end of stderr and may be called once the output has ended. If a descendant
        holds the pipe open, `receive` then reports the end of the output `DRAIN_GRACE` after the program's exit.
        """
        return True

    async def run(self) -> None:  # noqa: B027 - a default, not a forgotten abstract method
        """Do the transport's background work, such as reading stderr, until it is done."""

    async def wait(self) -> int | None:
        """Wait for the program to exit and return its exit status. Return immediately if there is no process."""
        return self.exit_code

    @property
    @abstractmethod
    def exit_code(self) -> int | None:
        """The exit status of the program (negative: a signal's number); None while it runs or is unknown."""

    @property
    def stderr_tail(self) -> str:
        """The end of the program's stderr."""
        return ""

    @property
    def pid(self) -> int | None:
        """The process id, or None if there is no process."""
        return None
