"""`PidfdProcess`: a child process on asyncio, under Linux.

The event loop calls it when a pipe is ready and, through a pidfd, when the process has exited. This needs no stream, no
transport and no worker, and no thread either, which asyncio needs for each process before Python 3.12.
"""

import contextvars
import errno
import io
import math
import os
import select
import subprocess
from collections.abc import Callable, Sequence
from functools import cache
from typing import IO, Any, Final, cast
from weakref import WeakValueDictionary

import anyio

from claude_agent_py._base.event_loop import AsyncioLoop, AsyncioReader, Waiters, wait_in, wake
from claude_agent_py.transport.base import DRAIN_GRACE, READ_BYTES

PIPE_BYTES: Final = 64 * 1024
"""How much a pipe holds. A session that reads alone takes all of it at once: a turn of the event loop costs as much as
several messages."""

UNKNOWN_STATUS: Final = 255
"""The exit status of a process that other code has reaped, as in asyncio."""


@cache
def has_pidfds() -> bool:
    """Return whether the system has pidfds (Linux 5.3; some sandboxes refuse them)."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except AttributeError:
        return False
    except OSError as error:
        return error.errno in (errno.EMFILE, errno.ENFILE)  # supported, but no descriptor is free now
    return True


class _Watch:
    """The pipes and processes of an event loop, which itself watches only this: asyncio takes ten times as long to add
    or remove one.
    """

    def __init__(self, loop: AsyncioLoop) -> None:
        self._loop = loop  # so that no other loop gets its id
        self._epoll = select.epoll()
        self._callbacks: dict[int, Callable[[], object]] = {}
        self.is_crowded = False
        """Whether several files can be read at the same time."""
        contextvars.Context().run(loop.add_reader, self._epoll.fileno(), self._call)  # belongs to no session

    def add(self, file: IO[bytes], callback: Callable[[], object]) -> None:
        """Call a function whenever the file can be read, until `remove`."""
        self._epoll.register(file, select.EPOLLIN)
        self._callbacks[file.fileno()] = callback

    def remove(self, file: IO[bytes]) -> None:
        """Do nothing if the file is not watched."""
        number = file.fileno()
        if self._callbacks.pop(number, None) is not None:
            self._epoll.unregister(number)
            if not self._callbacks:
                del _watches[id(self._loop)]
                self._loop.remove_reader(self._epoll.fileno())
                self._epoll.close()

    def _call(self) -> None:
        ready = self._epoll.poll(0)
        self.is_crowded = len(ready) > 1
        for file, _ in ready:
            if callback := self._callbacks.get(file):
                callback()


_watches: WeakValueDictionary[int, _Watch] = WeakValueDictionary()
"""By the id of the event loop, which keeps it alive until it closes."""


def _watch_of(loop: AsyncioLoop) -> _Watch:
    watch = _watches.get(id(loop))
    if watch is None:
        watch = _watches[id(loop)] = _Watch(loop)
    return watch


class PidfdProcess:
    """A process with pipes for stdin, stdout and stderr, for one reader and one writer at a time. Call `watch` next.

    Args:
        loop: The running event loop.
        argv: The program and its arguments.
        on_stderr: Called with what the program writes to stderr; with `b""` at its end.
        options: Further arguments of `subprocess.Popen`.
    """

    needs_run: Final = False

    def __init__(
        self, loop: AsyncioLoop, argv: Sequence[str], on_stderr: Callable[[bytes], None], **options: Any
    ) -> None:
        pipe = subprocess.PIPE
        self._popen = popen = subprocess.Popen(argv, bufsize=0, stdin=pipe, stdout=pipe, stderr=pipe, **options)
        self._stdin, self._stdout, self._stderr = (
            cast("IO[bytes]", stream) for stream in (popen.stdin, popen.stdout, popen.stderr)
        )
        self._on_stderr = on_stderr
        self._loop = loop
        self._received: bytes | None = None
        """Data that was read and that `receive` has not yet returned."""
        self._is_paused = False
        """Whether stdout is not read, because something waits to be taken."""
        self._is_over = False
        """Whether the process exited `DRAIN_GRACE` ago. More output, which is a descendant's, is dropped."""
        self._unsent = bytearray()
        self._is_broken = self._input_ended = False
        self._reader = AsyncioReader(loop)
        self._writers: Waiters = []
        self._exit_waiters: Waiters = []
        self._stderr_waiters: Waiters = []

    def watch(self) -> None:
        """Have the event loop read the pipes and report the exit. Called once; on an error, the process is killed."""
        popen = self._popen
        try:
            for stream in (self._stdin, self._stdout, self._stderr):
                os.set_blocking(stream.fileno(), False)
            self._watch = _watch_of(self._loop)
            self._watch.add(self._stdout, self._read_stdout)
            self._watch.add(self._stderr, self._read_stderr)
            self._watch_exit()
        except BaseException:
            if watch := _watches.get(id(self._loop)):
                watch.remove(self._stdout)
                watch.remove(self._stderr)
            with popen:
                popen.kill()
            raise

    def _watch_exit(self) -> None:
        try:
            self._pidfd = io.FileIO(os.pidfd_open(self.pid))
        except ProcessLookupError:  # it exited and its status is lost, because the host ignores SIGCHLD
            self._popen.returncode = UNKNOWN_STATUS
            self._loop.call_later(DRAIN_GRACE, self._end_output)
            return
        self._watch.add(self._pidfd, self._reap)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._popen.pid

    @property
    def returncode(self) -> int | None:
        """The exit status, or None while the process runs."""
        return self._popen.returncode

    async def wait(self, within: float = math.inf) -> int | None:
        """Wait until the process has exited, but not its descendants, or for this time; return its exit status."""
        if self._popen.returncode is None:
            await wait_in(self._exit_waiters, self._loop.time() + within)
        return self._popen.returncode

    def _reap(self) -> None:
        try:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
        except ChildProcessError:
            self._popen.returncode = UNKNOWN_STATUS
        else:
            if not pid:
                return
            self._popen.returncode = os.waitstatus_to_exitcode(status)
        self._close(self._pidfd)
        wake(self._exit_waiters)
        if not (self._stdout.closed and self._stderr.closed):
            self._loop.call_later(DRAIN_GRACE, self._end_output)

    def _end_output(self) -> None:
        self._is_over = True
        if not self._stdout.closed:  # what the process wrote last; a slow reader has not taken it yet
            self._received = (self._received or b"") + (_read(self._stdout, PIPE_BYTES) or b"")
        self._reader.wake()
        wake(self._stderr_waiters)

    # Output ------------------------------------------------------------------------------------------------------

    async def receive(self) -> bytes:
        """Return the next bytes of stdout; `b""` at its end."""
        while self._received is None and not self._stdout.closed and not self._is_over:
            await self._reader.wait()
        received, self._received = self._received, None
        if self._is_paused:
            self._is_paused = False
            self._watch = _watch_of(self._loop)
            self._watch.add(self._stdout, self._read_stdout)
        return received or b""

    def _read_stdout(self) -> None:
        if self._received is not None and not self._is_over:
            self._is_paused = True
            self._watch.remove(self._stdout)
            return
        data = _read(self._stdout, READ_BYTES if self._watch.is_crowded else PIPE_BYTES)
        if data and not self._is_over:
            self._received = data
        elif data == b"":
            self._close(self._stdout)
        self._reader.run()

    def _read_stderr(self) -> None:
        data = _read(self._stderr)
        if data:
            self._on_stderr(data)
        elif data is not None:
            self._end_stderr()

    def _end_stderr(self) -> None:
        self._close(self._stderr)
        self._on_stderr(b"")
        wake(self._stderr_waiters)

    async def read_stderr(self) -> None:
        """Wait for the end of stderr."""
        while not self._stderr.closed and not self._is_over:
            await wait_in(self._stderr_waiters)

    # Input -------------------------------------------------------------------------------------------------------

    @property
    def can_send_nowait(self) -> bool:
        """Whether stdin has taken everything so far."""
        return not (self._unsent or self._is_broken or self._input_ended)

    def send_nowait(self, data: bytes) -> None:
        """Write to stdin without waiting; what the pipe does not take yet is written later."""
        if self._unsent:
            self._unsent += data
            return
        written = self._write(data)
        if written < len(data):
            self._unsent += data[written:]
            self._loop.add_writer(self._stdin.fileno(), self._on_writable)

    async def send(self, data: bytes) -> None:
        """Write to stdin.

        Raises:
            anyio.BrokenResourceError: The process no longer reads.
        """
        self.send_nowait(data)
        while self._unsent:
            await wait_in(self._writers)
        if self._is_broken:
            raise anyio.BrokenResourceError

    def _write(self, data: bytes | bytearray) -> int:
        """Write to stdin and return how many bytes need no further attempt."""
        try:
            return os.write(self._stdin.fileno(), data)
        except BlockingIOError:
            return 0
        except (OSError, ValueError):  # the program no longer reads, or stdin is closed
            self._is_broken = True
            return len(data)

    def _on_writable(self) -> None:
        del self._unsent[: self._write(self._unsent)]
        if not self._unsent:
            self._loop.remove_writer(self._stdin.fileno())
            wake(self._writers)
            if self._input_ended:
                self._stdin.close()

    async def end_input(self) -> None:
        """Close stdin once everything is written."""
        self._input_ended = True
        if not self._unsent:
            self._stdin.close()

    # The end -----------------------------------------------------------------------------------------------------

    def _close(self, stream: IO[bytes]) -> None:
        self._watch.remove(stream)
        stream.close()

    async def close(self) -> None:
        """Close the pipes. A process that still runs is reaped when it exits."""
        if not self._stderr.closed:
            self._read_stderr()  # its last output
        if not self._stderr.closed:
            self._end_stderr()
        if not self._stdout.closed:
            self._close(self._stdout)
        if self._unsent:
            self._loop.remove_writer(self._stdin.fileno())
            self._unsent.clear()
        self._stdin.close()
        self._is_broken, self._is_paused = True, False
        self._reader.wake()
        wake(self._writers)


def _read(stream: IO[bytes], limit: int = READ_BYTES) -> bytes | None:
    """Return the available data, `b""` at the end, or None if there is none yet."""
    try:
        return os.read(stream.fileno(), limit)
    except BlockingIOError:
        return None
