"""`SubprocessTransport`: a `claude` process in a process group of its own.

It ends with the end of its input, then SIGTERM, then SIGKILL of the group and all descendants, each with a time limit.
"""

import contextlib
import functools
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Final

import anyio
from anyio.abc import Process

from claude_agent_py._configuration import Unshown
from claude_agent_py._errors import CLIStartError
from claude_agent_py._event_loop import PipeWriter, is_read_to_its_end, pipe_writer
from claude_agent_py._launch.launch_plan import LaunchPlan
from claude_agent_py._streams import LazyEvent
from claude_agent_py.transport.at_exit import end_at_exit, forget
from claude_agent_py.transport.base import Transport
from claude_agent_py.transport.lifeline import Lifeline
from claude_agent_py.transport.processes import (
    MARK,
    ProcessID,
    find_descendants,
    groups_of,
    kill_all_bearing,
    kill_found,
    signal_group,
    wait_for_exit,
)

READ_BYTES: Final = 256 * 1024
"""The most that one read takes; pipes hold 64 KiB by default on Linux."""

LARGER_THAN_A_READ: Final = 2 * READ_BYTES

TERM_SHARE: Final = 0.6
"""The largest share of `force` after SIGTERM. The CLI takes 1.5 s if it has shells to end (measured, 2.1.328)."""

KILL_SECONDS: Final = 1.0
"""Seconds of `force` reserved for what follows SIGKILL."""

LOOK_SHARE: Final = 0.1
"""The largest share of `force` for each lookup of descendants."""

KILL_SHARE: Final = 0.2
"""The largest share of `force` to wait for a killed process."""

SCAN_SHARE: Final = 0.3
"""The largest share of `force` to find detached processes."""

DRAIN_SHARE: Final = 0.1
"""The largest share of `force` to read the remaining output."""

SIGKILL: Final = 9

CREATION_FLAGS: Final = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
"""Windows' way to a process group; other systems have sessions."""


class StderrTail:
    """The last bytes of stderr, and its whole lines as they come."""

    def __init__(self, max_bytes: int, on_line: Callable[[str], None]) -> None:
        self._max_bytes = max_bytes
        self._on_line = on_line
        self._tail = bytearray()
        self._rest = b""

    def feed(self, data: bytes) -> None:
        """Take what was written. A line that is longer than the tail comes in pieces."""
        self._tail += data
        del self._tail[: max(0, len(self._tail) - self._max_bytes)]
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > self._max_bytes:
            lines, self._rest = [*lines, self._rest], b""
        for line in lines:
            self._on_line(line.decode(errors="replace").rstrip("\r"))

    def end(self) -> None:
        """Return the last line, if it has no newline."""
        if self._rest:
            self._on_line(self._rest.decode(errors="replace"))
        self._rest = b""

    def text(self) -> str:
        """Return the tail as text."""
        return self._tail.decode(errors="replace")


@functools.cache
def _keep_read_buffers() -> None:
    """Make glibc allocate the buffer of each read on its heap instead of mapping it.

    asyncio allocates 256 KiB for each read. glibc maps blocks above a threshold, and raises the threshold to the size
    of the largest mapped block that was freed. Freeing one larger block once saves three system calls and two page
    faults for each read, which is a third of the cost of a message that arrives alone.
    """
    bytes(LARGER_THAN_A_READ)


class SubprocessTransport(Transport):
    """Runs a program and talks to it over its pipes.

    Args:
        plan: What to start: `argv`, `env`, `cwd` and `user`, how much stderr to keep (`stderr_bytes`), and how many
            seconds `close` may take to end it by force once its grace is over (`force`).
        on_stderr: Called with every line of stderr, on the event loop; must be quick and must not raise.
    """

    def __init__(self, plan: LaunchPlan, *, on_stderr: Callable[[str], None] | None = None) -> None:
        self._argv = list(plan.argv)
        self._mark = os.urandom(8).hex()
        self._env: Mapping[str, str] | None = plan.env
        self._cwd = plan.cwd
        self._user = plan.user
        self._force = plan.force
        self._owner = os.getpid()
        self.on_stderr = on_stderr
        self._stderr = StderrTail(plan.stderr_bytes, self._tell)
        self._process: Process | None = None
        self._lifeline: Lifeline | None = None
        self._writer: PipeWriter | None = None
        """Writes to stdin at once, where the event loop can."""
        self._input_ended = False
        self._is_closed = False
        self._closing: LazyEvent | None = None
        """Set when the worker that closes is done, well or not."""
        self._stdout_over: LazyEvent | None = None
        """Created by the first reader; set at the end of the output."""

    def __repr__(self) -> str:
        return f"<SubprocessTransport {self._argv[0]} pid={self.pid} exit_code={self.exit_code}>"

    def _tell(self, line: str) -> None:
        if self.on_stderr is not None:
            self.on_stderr(line)

    async def start(self) -> None:
        """Start the program.

        Raises:
            CLIStartError: The system cannot start it; the text says why.
        """
        _keep_read_buffers()
        try:
            self._lifeline = Lifeline()
            with anyio.CancelScope(shield=True):  # asyncio leaks pipes if it is cancelled here
                self._process = await anyio.open_process(
                    self._argv,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    cwd=self._cwd,
                    env=self._environment(),
                    user=self._user,
                    **groups_of(self._user),
                    start_new_session=sys.platform != "win32",
                    creationflags=CREATION_FLAGS,
                    pass_fds=self._lifeline.pass_fds,
                )
        except BaseException as error:
            if self._lifeline is not None:
                self._lifeline.close()
            if not isinstance(error, OSError | ValueError):  # ValueError: a NUL byte in an argument or a variable
                raise  # asyncio's own cancellation, which passes the shield
            error.with_traceback(None)  # its frames hold the whole environment
            raise CLIStartError(f"the CLI cannot be started: {error}", cli_path=self._argv[0]) from error
        self._env = None
        self._lifeline.tie(self._running().pid)
        self._writer = pipe_writer(self._running().stdin)
        self._owner = os.getpid()
        end_at_exit(self._running().pid, self._mark)

    def _environment(self) -> dict[str, str]:
        env = self._env or {}
        return {**(env.copy() if isinstance(env, Unshown) else env), MARK: self._mark}

    async def receive(self) -> bytes:
        """Return the next bytes of stdout; `b""` at its end."""
        process = self._running()
        assert process.stdout is not None  # noqa: S101 - it was asked for
        if self._stdout_over is None:
            self._stdout_over = LazyEvent()
        try:
            return await process.stdout.receive(READ_BYTES)
        except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._stdout_over.set()
            return b""
        except BaseException:
            self._stdout_over.set()  # the reader is cancelled, and will read no more
            raise

    async def send(self, data: bytes) -> None:
        """Write to stdin."""
        process = self._running()
        if self._input_ended or self._is_forked:
            raise anyio.ClosedResourceError
        assert process.stdin is not None  # noqa: S101 - it was asked for
        try:
            await process.stdin.send(data)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise anyio.BrokenResourceError from error

    @property
    def can_send_nowait(self) -> bool:
        """Whether stdin has taken everything so far."""
        writer = self._writer
        return (
            writer is not None
            and not self._input_ended
            and not self._is_forked
            and not writer.is_closing()
            and not writer.transport.get_write_buffer_size()
        )

    def send_nowait(self, data: bytes) -> None:
        """Write to stdin without waiting."""
        assert self._writer is not None  # noqa: S101 - `can_send_nowait` says so
        self._writer.write(data)

    async def end_input(self) -> None:
        """Close stdin."""
        process = self._running()
        if not self._input_ended and not self._is_forked:
            self._input_ended = True
            assert process.stdin is not None  # noqa: S101 - it was asked for
            if self._writer is not None:
                self._writer.close()
                return
            with contextlib.suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
                await process.stdin.aclose()

    async def run(self) -> None:
        """Read stderr until it ends."""
        process = self._running()
        assert process.stderr is not None  # noqa: S101 - it was asked for
        with contextlib.suppress(anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            while True:
                self._stderr.feed(await process.stderr.receive(READ_BYTES))
        self._stderr.end()

    async def wait(self) -> int | None:
        """Wait for the program to exit and return its exit status."""
        return await wait_for_exit(self._running())

    async def close(self, *, grace: float = 5.0) -> None:
        """End the program: end of input, `grace` seconds, SIGTERM, `force` seconds, SIGKILL. Shielded.

        Its descendants end with it, even detached ones, unless its input was ended earlier so that it could finish by
        itself. In a copy of this process that `os.fork` made this does nothing.
        """
        if self._is_forked:
            return
        while self._closing is not None:
            await self._closing.wait()
        if self._process is None or self._is_closed:
            return
        self._closing = closing = LazyEvent()
        try:
            with anyio.CancelScope(shield=True):  # asyncio's own cancellation gets through; the next close continues
                await self._end(self._process, grace)
            self._is_closed = True
        finally:
            self._closing = None
            closing.set()

    async def _end(self, process: Process, grace: float) -> None:
        was_left = self._input_ended
        below = await self._below(process)  # while their parent lives: orphans cannot be found that way any more
        await self.end_input()
        is_gone = await self._is_gone(process, grace)
        deadline = anyio.current_time() + self._force
        if not is_gone:
            below += await self._below(process)
            signal_group(process.pid, force=False)
            kept = min(KILL_SECONDS, self._force * TERM_SHARE)
            if not await self._is_gone(process, min(self._force * TERM_SHARE, self._force - kept)):
                below += await self._below(process)
                signal_group(process.pid, force=True)
                await self._is_gone(process, self._force * KILL_SHARE)
        if below:
            with self._at_most(LOOK_SHARE, deadline):
                await kill_found(below)
        if not was_left or process.returncode == -SIGKILL:
            with self._at_most(SCAN_SHARE, deadline):  # orphans, which a CLI that died left, or that left it themselves
                await kill_all_bearing(self._mark)
        if self._stdout_over is not None and not self._stdout_over.is_set():
            with self._at_most(DRAIN_SHARE, deadline):
                await self._stdout_over.wait()  # let the reader have what was written before the end
        if self._lifeline is not None:
            self._lifeline.close()
        if process.returncode is not None:
            forget(process.pid)
            if not (is_read_to_its_end(process.stdout) and is_read_to_its_end(process.stderr)):
                await process.aclose()
            return
        with anyio.CancelScope(deadline=deadline):
            await process.aclose()

    def _at_most(self, share: float, deadline: float) -> anyio.CancelScope:
        """Return a scope that ends after this share of `force`, or at the deadline."""
        return anyio.CancelScope(deadline=min(anyio.current_time() + self._force * share, deadline))

    @property
    def _is_forked(self) -> bool:
        """Whether this is a copy, made by `os.fork`, of the process that the program belongs to."""
        return self._owner != os.getpid()

    async def _below(self, process: Process) -> list[ProcessID]:
        """Return the process's descendants. Empty once it is gone, because its id may have been reused."""
        return [] if process.returncode is not None else await find_descendants(process.pid, self._force * LOOK_SHARE)

    async def _is_gone(self, process: Process, within: float) -> bool:
        if process.returncode is None:
            with anyio.move_on_after(within):
                await wait_for_exit(process)
        return process.returncode is not None

    def _running(self) -> Process:
        if self._process is None:
            raise anyio.ClosedResourceError
        return self._process

    @property
    def exit_code(self) -> int | None:
        """The exit status; negative is a signal's number."""
        return None if self._process is None else self._process.returncode

    @property
    def stderr_tail(self) -> str:
        """The last of stderr."""
        return self._stderr.text()

    @property
    def pid(self) -> int | None:
        """The process id, once started."""
        return None if self._process is None else self._process.pid
