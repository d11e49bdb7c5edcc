"""`SubprocessTransport`: a `claude` process in its own process group.

It ends with the end of its input, then SIGTERM, then SIGKILL of the group and all descendants, each with a time limit.
"""

import contextlib
import math
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, Final, TypeAlias

import anyio
from anyio.lowlevel import checkpoint

from claude_agent_py._base.configuration import plain_copy
from claude_agent_py._base.errors import CLIStartError
from claude_agent_py._base.event_loop import asyncio_loop, clock, run_to_its_end
from claude_agent_py._base.lines import StderrTail
from claude_agent_py._base.streams import LazyEvent
from claude_agent_py.transport.anyio_process import AnyioProcess
from claude_agent_py.transport.at_exit import end_at_exit, forget
from claude_agent_py.transport.base import Transport
from claude_agent_py.transport.launch_plan import LaunchPlan
from claude_agent_py.transport.lifeline import Lifeline
from claude_agent_py.transport.pidfd_process import PidfdProcess, has_pidfds
from claude_agent_py.transport.processes import (
    MARK,
    ProcessID,
    exiting,
    find_descendants,
    find_groups,
    kill_all_marked,
    kill_found,
    reap_killed,
    signal_group,
)

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

CONTINUES: Final = "CLAUDE_CODE_RESUME_INTERRUPTED_TURN"
"""With this variable the CLI (2.1.332) continues a turn at its start, even if its stdin has ended."""
GATE: Final = ("/bin/sh", "-c", 'read -r _ && exec "$@"', "sh")
"""Starts the program that follows once there is a line on stdin, and not at all if this process dies before."""
CREATION_FLAGS: Final = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
"""Windows' way to a process group; other systems have sessions."""


AnyProcess: TypeAlias = PidfdProcess | AnyioProcess


class SubprocessTransport(Transport):
    """Runs a program and talks to it over its pipes.

    Args:
        plan: What to start: `argv`, `env`, `cwd` and `user`, how much stderr to keep (`stderr_bytes`), and how many
            seconds `close` may take to kill it after its grace (`force`).
        on_stderr: Called with every line of stderr, on the event loop; must be quick and must not raise.
    """

    def __init__(self, plan: LaunchPlan, *, on_stderr: Callable[[str], None] | None = None) -> None:
        self._argv = list(plan.argv)
        self._has_gate = sys.platform == "linux" and plan.env.get(CONTINUES) not in (None, "", "0")
        self._mark = os.urandom(8).hex()
        self._env: Mapping[str, str] | None = plan.env
        self._cwd = plan.cwd
        self._user = plan.user
        self._force = plan.force
        self._owner = os.getpid()
        self._now: Callable[[], float] = anyio.current_time
        self.on_stderr = on_stderr
        self._stderr = StderrTail(plan.stderr_bytes, self._tell)
        self._process: AnyProcess | None = None
        self._lifeline: Lifeline | None = None
        self._input_ended = False
        self._was_left: bool | None = None
        """Whether the input was ended before `close`; None before it."""
        self._descendants: list[ProcessID] = []
        """The program's descendants when it was about to end."""
        self._is_closed = False
        self._closing: LazyEvent | None = None
        """Set when the worker that closes is done, well or not."""
        self._reading_over: LazyEvent | None = None
        """Created by the first reader; set once it has taken the end of stdout, or stops reading."""

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
        try:
            self._lifeline, self._now = Lifeline(), clock()
            argv = [*GATE, *self._argv] if self._has_gate else self._argv
            if (loop := asyncio_loop()) is not None and has_pidfds():
                group = _separate_group(os.getsid(0))
                process = PidfdProcess(loop, argv, self._stderr.feed, **group, **self._popen_options(self._lifeline))
                try:
                    await checkpoint()  # all concurrent starts fork before the first one goes on; see `launch`
                finally:
                    process.watch()  # `close` needs it, too
                    self._process = process
            else:
                group = {"start_new_session": sys.platform != "win32"}
                await run_to_its_end(
                    partial(self._start_anyio, argv, self._lifeline, group), name="claude_agent_py start"
                )
        except BaseException as error:
            if self._lifeline is not None:
                self._lifeline.close()
            if not isinstance(error, OSError | ValueError):  # ValueError: a NUL byte in an argument or a variable
                raise  # a native asyncio cancellation passes the shield
            error.with_traceback(None)  # its frames refer to the whole environment
            raise CLIStartError(f"the CLI cannot be started: {error}", cli_path=self._argv[0]) from error
        self._env = None
        self._lifeline.tie(self._running().pid)
        self._owner = os.getpid()
        end_at_exit(self._running().pid, self._mark)
        if self._has_gate:
            with contextlib.suppress(anyio.BrokenResourceError):  # it has ended, as its reader finds out
                await self._running().send(b"\n")

    async def _start_anyio(self, argv: Sequence[str], lifeline: Lifeline, group: Mapping[str, object]) -> None:
        self._process = await AnyioProcess.start(argv, self._stderr.feed, **group, **self._popen_options(lifeline))

    def _popen_options(self, lifeline: Lifeline) -> dict[str, Any]:
        """Return arguments of `subprocess.Popen`.

        Keep them out of variables, which tracebacks may show: the environment has secrets.
        """
        return {
            "cwd": self._cwd,
            "env": {**plain_copy(self._env or {}), MARK: self._mark},
            "user": self._user,
            **find_groups(self._user),
            "creationflags": CREATION_FLAGS,
            "pass_fds": lifeline.pass_fds,
        }

    async def receive(self) -> bytes:
        """Return the next bytes of stdout; `b""` at its end."""
        process = self._running()
        if self._reading_over is None:
            self._reading_over = LazyEvent()
        try:
            data = await process.receive()
        except BaseException:
            self._reading_over.set()  # the reader was cancelled, and does not read again
            raise
        if not data:
            self._reading_over.set()
        return data

    async def send(self, data: bytes) -> None:
        """Write to stdin."""
        process = self._running()
        if self._input_ended or self._is_forked:
            raise anyio.ClosedResourceError
        await process.send(data)

    @property
    def can_send_nowait(self) -> bool:
        """Whether stdin has taken everything so far."""
        process = self._process
        return process is not None and not self._input_ended and not self._is_forked and process.can_send_nowait

    def send_nowait(self, data: bytes) -> None:
        """Write to stdin without waiting."""
        self._running().send_nowait(data)

    async def end_input(self) -> None:
        """Close stdin."""
        process = self._running()
        if not self._input_ended and not self._is_forked:
            self._input_ended = True
            await process.end_input()

    @property
    def needs_run(self) -> bool:
        """Whether stderr is read by `run`, and not by the event loop."""
        return self._running().needs_run

    async def run(self) -> None:
        """Read stderr until it ends."""
        await self._running().read_stderr()

    async def wait(self) -> int | None:
        """Wait for the program to exit and return its exit status."""
        return await self._running().wait()

    async def close(self, *, grace: float = 5.0) -> None:
        """End the program: end of input, `grace` seconds, SIGTERM, `force` seconds, SIGKILL. Shielded.

        Without grace SIGTERM comes first: at the end of its input the CLI would continue without the answers of hooks.
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
        grace_ends = self._now() + grace if grace else None
        if self._was_left is None:
            self._was_left = self._input_ended
        try:
            await self._end(self._process, grace_ends)
        except anyio.get_cancelled_exc_class():
            # Otherwise asyncio itself cancelled it, and the next close continues.
            if anyio.current_effective_deadline() == -math.inf:
                with anyio.CancelScope(shield=True):  # only now: it costs 3 % of a close that is not cancelled
                    await self._end(self._process, grace_ends)
            raise
        finally:
            exiting.discard(self._mark)
            self._closing = None
            closing.set()

    async def _end(self, process: AnyProcess, grace_ends: float | None) -> None:
        await self._find_descendants(process)  # while their parent lives: orphans cannot be found this way
        if grace_ends is not None:
            await self.end_input()
        if process.returncode is None:
            exiting.add(self._mark)
            await process.wait(0.0 if grace_ends is None else grace_ends - self._now())
        deadline = self._now() + self._force
        if process.returncode is None:
            await self._end_by_force(process)
        await self.end_input()
        await self._clear_up(process, deadline)
        self._is_closed = True

    async def _end_by_force(self, process: AnyProcess) -> None:
        """Terminate the program, or kill it if that takes too long."""
        await self._find_descendants(process)
        signal_group(process.pid, force=False)
        kept = min(KILL_SECONDS, self._force * TERM_SHARE)
        await process.wait(min(self._force * TERM_SHARE, self._force - kept))
        if process.returncode is None:
            await self._find_descendants(process)
            signal_group(process.pid, force=True)
            await process.wait(self._force * KILL_SHARE)

    async def _clear_up(self, process: AnyProcess, deadline: float) -> None:
        """Kill the processes that the program left behind, and release everything."""
        if self._descendants:
            with self._limit(LOOK_SHARE, deadline):
                await kill_found(self._descendants)
        if not self._was_left or process.returncode == -SIGKILL:
            # Orphans of a CLI that died, and processes that detached themselves.
            await kill_all_marked(self._mark, min(self._force * SCAN_SHARE, deadline - self._now()))
        if self._reading_over is not None and not self._reading_over.is_set():
            # Let the reader finish.
            await self._reading_over.wait(min(self._now() + self._force * DRAIN_SHARE, deadline))
        reap_killed()
        assert self._lifeline is not None  # noqa: S101 - the program has one from its start
        self._lifeline.close()
        if process.returncode is not None:
            forget(process.pid)
            await process.close()
            return
        with anyio.CancelScope(deadline=deadline):
            await process.close()

    def _limit(self, share: float, deadline: float) -> anyio.CancelScope:
        """Return a scope that ends after this share of `force`, or at the deadline."""
        return anyio.CancelScope(deadline=min(self._now() + self._force * share, deadline))

    @property
    def _is_forked(self) -> bool:
        """Whether this is a copy, made by `os.fork`, of the process that the program belongs to."""
        return self._owner != os.getpid()

    async def _find_descendants(self, process: AnyProcess) -> None:
        """Note the process's descendants, unless it has exited, because its id may have been reused."""
        if process.returncode is None:
            self._descendants += await find_descendants(process.pid, self._force * LOOK_SHARE)

    def _running(self) -> AnyProcess:
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


@lru_cache(maxsize=1)
def _separate_group(session: int) -> Mapping[str, object]:
    """Return arguments of `subprocess.Popen` that keep the signals of this session's terminal away from the program.

    Linux gives each session the same share of the CPU, so on a busy machine a CLI in a separate session waits longer
    for its turn, for each request and answer. Without a terminal a process group is enough. `session` is the key of
    the cache: a process may get another one.
    """
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return {"start_new_session": False, "process_group": 0}
    return {"start_new_session": True}
