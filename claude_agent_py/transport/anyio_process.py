"""`AnyioProcess`: a child process over anyio, for trio and for systems without pidfds."""

from __future__ import annotations

import contextlib
import math
import subprocess
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Self

import anyio

from claude_agent_py._base.event_loop import PipeWriter, in_trio, is_read_to_its_end, pipe_writer
from claude_agent_py._base.streams import pauses
from claude_agent_py.transport.base import READ_BYTES

if TYPE_CHECKING:
    from anyio.abc import ByteReceiveStream, ByteSendStream, Process

LOOK_FIRST: Final = 0.1
LOOK_EVERY: Final = 1.0
"""Seconds between checks for the end of a process if the system does not report it: short at first, then longer."""

ENDED: Final = (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError)


class AnyioProcess:
    """A process with pipes for stdin, stdout and stderr; the same interface as `PidfdProcess`."""

    needs_run: Final = True

    def __init__(self, process: Process, on_stderr: Callable[[bytes], None]) -> None:
        self._process = process
        self._on_stderr = on_stderr
        assert process.stdin is not None  # noqa: S101 - started with three pipes
        assert process.stdout is not None  # noqa: S101
        assert process.stderr is not None  # noqa: S101
        self._stdin: ByteSendStream = process.stdin
        self._stdout: ByteReceiveStream = process.stdout
        self._stderr: ByteReceiveStream = process.stderr
        self._writer: PipeWriter | None = pipe_writer(process.stdin)
        """Writes to stdin without awaiting; None if the event loop cannot."""

    @classmethod
    async def start(cls, argv: Sequence[str], on_stderr: Callable[[bytes], None], **options: Any) -> Self:
        """Start a program."""
        options |= dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        with anyio.CancelScope(shield=True):  # asyncio leaks pipes if it is cancelled here
            process = await anyio.open_process(argv, **options)
        return cls(process, on_stderr)  # pyright: ignore[reportPossiblyUnbound, reportPossiblyUnboundVariable] - the scope swallows nothing

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit status, or None while the process runs."""
        return self._process.returncode

    async def wait(self, within: float = math.inf) -> int | None:
        """Wait until the process has exited, but not its descendants, or for this time; return its exit status."""
        with anyio.move_on_after(within):
            await self._wait()
        return self.returncode

    async def _wait(self) -> None:
        """Wait until the process has exited.

        On asyncio before anyio 4.16, `wait()` returns only once the pipes are closed, and descendants may hold them
        open. The status is polled there.
        """
        process = self._process
        if hasattr(process, "_exited") or in_trio():
            await process.wait()
            return
        for pause in pauses(LOOK_FIRST, LOOK_EVERY):
            if process.returncode is not None:
                return
            with anyio.move_on_after(pause):
                await process.wait()

    async def receive(self) -> bytes:
        """Return the next bytes of stdout; `b""` at its end."""
        try:
            return await self._stdout.receive(READ_BYTES)
        except ENDED:
            return b""

    async def read_stderr(self) -> None:
        """Read stderr until it ends."""
        with contextlib.suppress(*ENDED):
            while True:
                self._on_stderr(await self._stderr.receive(READ_BYTES))
        self._on_stderr(b"")

    @property
    def can_send_nowait(self) -> bool:
        """Whether stdin has taken everything so far."""
        writer = self._writer
        return writer is not None and not writer.is_closing() and not writer.transport.get_write_buffer_size()

    def send_nowait(self, data: bytes) -> None:
        """Write to stdin without waiting; what the pipe does not take yet is written later."""
        assert self._writer is not None  # noqa: S101 - `can_send_nowait` says so
        self._writer.write(data)

    async def send(self, data: bytes) -> None:
        """Write to stdin.

        Raises:
            anyio.BrokenResourceError: The process no longer reads.
        """
        try:
            await self._stdin.send(data)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise anyio.BrokenResourceError from error

    async def end_input(self) -> None:
        """Close stdin once everything is written."""
        if self._writer is not None:
            self._writer.close()
            return
        with contextlib.suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            await self._stdin.aclose()

    async def close(self) -> None:
        """Close the pipes, and wait until the process has exited."""
        if self.returncode is None or not (is_read_to_its_end(self._stdout) and is_read_to_its_end(self._stderr)):
            await self._process.aclose()
