"""The subprocess transport against small programs that behave, misbehave, and leave others behind."""

import asyncio
import contextlib
import errno
import gc
import os
import signal
import sys
import textwrap
import threading
import time
import warnings
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from subprocess import PIPE, Popen, run
from typing import cast

import anyio
import pytest
from leftovers import is_alive, kill, processes_with, until_gone

from claude_agent_py.errors import CLIStartError
from claude_agent_py.transport import (
    LaunchPlan,
    SubprocessTransport,
    anyio_process,
    at_exit,
    pidfd_process,
    processes,
    subprocess,
)
from claude_agent_py.transport.anyio_process import AnyioProcess
from claude_agent_py.transport.pidfd_process import PidfdProcess, has_pidfds
from claude_agent_py.transport.processes import ProcessID, descendants, in_ps, kill_each

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform == "win32", reason="signals and groups of POSIX")]

ECHO = """
    import sys
    while part := sys.stdin.buffer.read1():
        sys.stdout.buffer.write(part)
        sys.stdout.buffer.flush()
"""
STUBBORN = """
    import signal, sys, time
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("ready", flush=True)
    while True:
        time.sleep(60)
"""
PARENT = """
    import subprocess, sys
    children = [
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=alone)
        for alone in (False, True)
    ]
    print(*(child.pid for child in children), flush=True)
"""
"""A program with two children that inherit its pipes; one of them leads a group of its own."""


PATIENT = 60.0
"""Longer than what a program does with a signal, or `ps`, takes on a busy machine, in seconds."""


@pytest.fixture(autouse=True)
def _left_output_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait a tenth of a second at a close for the reader, who has gone away in most tests here."""
    monkeypatch.setattr(subprocess, "DRAIN_SHARE", 0.1 / PATIENT)


def program(
    code: str,
    *args: str,
    on_stderr: Callable[[str], None] | None = None,
    stderr_bytes: int = 64 * 1024,
    force: float = PATIENT,
) -> SubprocessTransport:
    argv = [sys.executable, "-I", "-S", "-c", textwrap.dedent(code), *args]
    plan = LaunchPlan(argv, dict(os.environ), stderr_bytes=stderr_bytes, force=force)
    return SubprocessTransport(plan, on_stderr=on_stderr)


@asynccontextmanager
async def running(transport: SubprocessTransport, *, grace: float = PATIENT) -> AsyncIterator[SubprocessTransport]:
    """Run a program for the length of the block, stderr reader included."""
    with anyio.fail_after(60):
        await transport.start()
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(transport.run)
                yield transport
                await transport.close(grace=grace)
        finally:
            await transport.close(grace=0.0)


async def read_line(transport: SubprocessTransport) -> bytes:
    data = b""
    while not data.endswith(b"\n"):
        data += await transport.receive()
    return data


async def read_all(transport: SubprocessTransport) -> bytes:
    data = bytearray()
    while part := await transport.receive():
        data += part
    return bytes(data)


# Talking


async def test_sent_bytes_come_back() -> None:
    async with running(program(ECHO)) as echo:
        await echo.send(b"hello\n")
        assert await read_line(echo) == b"hello\n"
        await echo.end_input()
        await echo.end_input()
        assert await echo.receive() == b""
        assert await echo.receive() == b""
        assert await echo.wait() == 0
    assert echo.exit_code == 0


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_the_reader_runs_in_the_turn_of_the_loop_that_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    if not has_pidfds():
        pytest.skip("needs pidfds")
    loop, read = asyncio.get_running_loop(), os.read
    turn = read_in = 0
    is_over = False

    def count_turns() -> None:
        nonlocal turn
        turn += 1
        if not is_over:
            loop.call_soon(count_turns)

    def note_turn(fd: int, length: int) -> bytes:
        nonlocal read_in
        read_in = turn
        return read(fd, length)

    async with running(program(ECHO)) as echo:
        monkeypatch.setattr(os, "read", note_turn)
        count_turns()
        for number in range(5):
            echo.send_nowait(b"%d\n" % number)
            assert await echo.receive() == b"%d\n" % number
            assert read_in == turn
        is_over = True


async def test_large_lines_go_both_ways_at_the_same_time() -> None:
    line = b"x" * 20_000_000 + b"\n"
    received = b""
    async with running(program(ECHO)) as echo, anyio.create_task_group() as group:

        async def read() -> None:
            nonlocal received
            received = await read_all(echo)

        group.start_soon(read)
        await echo.send(line)
        await echo.end_input()
    assert received == line


async def test_a_program_starts_with_the_given_environment_and_directory(tmp_path: Path) -> None:
    code = "import os; print(os.getcwd(), os.environ.get('GIVEN'), os.environ.get('HOME'))"
    transport = SubprocessTransport(LaunchPlan([sys.executable, "-I", "-c", code], {"GIVEN": "yes"}, tmp_path))
    async with running(transport):
        assert (await read_line(transport)).decode().split() == [str(tmp_path), "yes", "None"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root")
@pytest.mark.parametrize("user", ["nobody", 54321])
async def test_another_user_does_not_get_the_groups_of_this_process(user: str | int) -> None:
    transport = SubprocessTransport(LaunchPlan(["/usr/bin/id", "-G"], dict(os.environ), Path("/"), user=user))
    async with running(transport):
        assert b"0" not in (await read_line(transport)).split()


@pytest.mark.skipif(sys.platform == "win32", reason="groups of POSIX")
def test_the_user_of_this_process_keeps_its_groups() -> None:
    assert processes.find_groups(os.geteuid()) == processes.find_groups(None) == {}


async def test_a_program_whose_pipes_cannot_be_made_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> tuple[int, int]:
        raise OSError(errno.EMFILE, "Too many open files")

    transport = program(ECHO)
    monkeypatch.setattr(os, "pipe", fail)
    with pytest.raises(CLIStartError, match="Too many open files"):
        await transport.start()


async def test_a_program_leads_its_own_process_group() -> None:
    async with running(program("import os; print(os.getpgid(0), os.getpid())")) as child:
        group, pid = map(int, (await read_line(child)).split())
        assert group == pid == child.pid
        assert group != os.getpgid(0)


HOST = """
    import fcntl, os, sys, termios
    import anyio
    from claude_agent_py.transport import LaunchPlan, SubprocessTransport

    async def main():
        code = "import os; print(os.getsid(0), os.getpgid(0), os.getpid())"
        transport = SubprocessTransport(LaunchPlan([sys.executable, "-I", "-S", "-c", code], dict(os.environ)))
        await transport.start()
        session, group, pid = map(int, (await transport.receive()).split())
        await transport.close()
        assert group == pid
        print("separate" if session == pid else "shared" if session == os.getsid(0) else session)

    if sys.argv[2] == "terminal":
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # the session's terminal is that of stdin
    anyio.run(main, backend=sys.argv[1])
"""


@pytest.mark.parametrize("has_terminal", [True, False])
def test_its_session_is_separate_if_there_is_a_terminal(has_terminal: bool, anyio_backend_name: str) -> None:
    """A terminal would stop a program of the same session that reads from it. Without one, the CPU is shared better."""
    import pty
    from subprocess import PIPE, Popen

    control, terminal = pty.openpty()
    host = Popen(
        [sys.executable, "-c", textwrap.dedent(HOST), anyio_backend_name, "terminal" if has_terminal else "none"],
        stdin=terminal,
        stdout=PIPE,
        start_new_session=True,
    )
    out, _ = host.communicate(timeout=60)
    for file in (control, terminal):
        os.close(file)
    is_shared = anyio_backend_name == "asyncio" and has_pidfds() and not has_terminal
    assert out.split() == [b"shared" if is_shared else b"separate"]


@pytest.mark.parametrize("code", [0, 3, 255])
async def test_the_exit_status(code: int) -> None:
    async with running(program(f"raise SystemExit({code})")) as transport:
        assert await transport.wait() == code
    assert transport.exit_code == code


DIES_AT_THE_START = """
import os, sys, anyio
from pathlib import Path
from claude_agent_py.transport import LaunchPlan, SubprocessTransport
from claude_agent_py.transport.lifeline import Lifeline
Lifeline.tie = lambda *_: os.kill(os.getpid(), 9)
env = {**os.environ, "CLAUDE_CODE_RESUME_INTERRUPTED_TURN": "1"}
anyio.run(SubprocessTransport(LaunchPlan([sys.executable, "-c", sys.argv[1]], env)).start, backend=sys.argv[2])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a program with its owner")
async def test_a_cli_that_continues_a_turn_does_not_begin_if_its_owner_dies(
    tmp_path: Path, anyio_backend_name: str
) -> None:
    began = tmp_path / "began"
    command = [sys.executable, "-c", DIES_AT_THE_START, f"open({str(began)!r}, 'x')", anyio_backend_name]
    died = await anyio.run_process(command, check=False, env={**os.environ, "TEST": str(began)})
    assert died.returncode == -signal.SIGKILL
    with anyio.fail_after(PATIENT):
        while processes_with(f"TEST={began}"):
            await anyio.sleep(0.02)
    assert not began.exists()


async def test_the_exit_status_of_a_program_that_was_killed() -> None:
    async with running(program("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")) as transport:
        assert await transport.wait() == -signal.SIGKILL


async def test_several_may_wait_for_the_end() -> None:
    statuses: list[int | None] = []
    async with running(program(ECHO)) as echo, anyio.create_task_group() as group:

        async def wait() -> None:
            statuses.append(await echo.wait())

        for _ in range(3):
            group.start_soon(wait)
        await echo.end_input()
    assert statuses == [0, 0, 0]


async def test_the_end_is_noticed_although_a_grandchild_holds_the_pipes() -> None:
    statuses: list[int | None] = []

    async def wait() -> None:
        statuses.append(await transport.wait())

    async with running(program(textwrap.dedent(PARENT) + "sys.stdin.read()")) as transport:
        pids = [int(pid) for pid in (await read_line(transport)).split()]
        try:
            with anyio.fail_after(60):
                async with anyio.create_task_group() as group:
                    group.start_soon(wait)
                    await anyio.wait_all_tasks_blocked()
                    await transport.end_input()
        finally:
            kill(*pids)  # their parent is gone: nobody else will find them
    assert statuses == [0]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_the_output_ends_soon_after_the_program_although_a_grandchild_holds_the_pipes() -> None:
    if not has_pidfds():
        pytest.skip("otherwise the session watches the process")
    async with running(program(PARENT)) as transport:
        pids = [int(pid) for pid in (await read_line(transport)).split()]
        try:
            with anyio.fail_after(60):
                assert await transport.receive() == b""
                await transport.run()  # stderr, too
        finally:
            kill(*pids)  # their parent is gone: nobody else will find them


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_slow_reader_gets_all_that_the_program_wrote_although_a_grandchild_holds_the_pipes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not has_pidfds():
        pytest.skip("otherwise the session watches the process")
    monkeypatch.setattr(pidfd_process, "DRAIN_GRACE", 0.0)
    code = """
        import os, time
        if os.fork():
            os.write(1, b"x" * 60_000)
        else:
            time.sleep(600)
    """
    async with running(program(code)) as transport:
        await transport.run()  # the end of the output: the grandchild never closes it
        assert len(await read_all(transport)) == 60_000


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_what_a_grandchild_writes_after_the_end_is_dropped_and_does_not_hold_it_up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if not has_pidfds():
        pytest.skip("otherwise the session watches the process")
    monkeypatch.setattr(pidfd_process, "DRAIN_GRACE", 0.0)
    code = """
        import os, pathlib, sys, time
        if child := os.fork():
            print(child, flush=True)
        else:
            while not pathlib.Path(sys.argv[1]).exists():
                time.sleep(0.01)
            os.write(1, b"x" * 200_000)
    """
    async with running(program(code, str(tmp_path / "over"))) as transport:
        pid = int(await read_line(transport))
        assert await transport.receive() == b""
        (tmp_path / "over").touch()
        await until_gone(pid)
        assert await transport.receive() == b""


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_stderr_ends_although_a_grandchild_holds_it_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    if not has_pidfds():
        pytest.skip("otherwise the session watches the process")
    monkeypatch.setattr(pidfd_process, "DRAIN_GRACE", 0.2)
    code = """
        import os, time
        if child := os.fork():
            print(child, flush=True)
        else:
            os.close(1)
            time.sleep(600)
    """
    async with running(program(code)) as transport:
        try:
            pid = int(await read_all(transport))
            await transport.run()
            assert is_alive(pid)
        finally:
            kill(pid)


async def test_sending_to_a_program_that_is_gone_fails() -> None:
    async with running(program("import sys; sys.stdin.close()")) as transport:
        await transport.wait()

        async def send_on() -> None:
            for _ in range(100):
                await transport.send(b"x" * 100_000)

        with pytest.raises(anyio.BrokenResourceError):
            await send_on()


async def test_sending_after_the_end_of_the_input_fails() -> None:
    async with running(program(ECHO)) as echo:
        await echo.end_input()
        with pytest.raises(anyio.ClosedResourceError):
            await echo.send(b"x")


async def test_a_cancelled_receive_loses_nothing() -> None:
    async with running(program(ECHO)) as echo:
        for _ in range(5):
            with anyio.move_on_after(0.02):
                await echo.receive()
        await echo.send(b"still here\n")
        assert await read_line(echo) == b"still here\n"


async def test_a_send_that_nobody_reads_can_be_cancelled() -> None:
    async with running(program("import time; time.sleep(600)"), grace=0.0) as transport:
        with anyio.move_on_after(0.1) as scope:
            await transport.send(b"x" * 10_000_000)
        assert scope.cancelled_caught


# stderr


async def test_stderr_comes_line_by_line_and_its_end_is_kept() -> None:
    lines: list[str] = []
    code = r"""
        import sys
        sys.stderr.buffer.write(b"one\ntwo\r\n\xff\n")
        sys.stderr.flush()
        sys.stderr.buffer.write("drei\u00e9\nno line break".encode())
    """
    async with running(program(code, on_stderr=lines.append)) as transport:
        assert await transport.wait() == 0
    assert lines == ["one", "two", "\ufffd", "drei\u00e9", "no line break"]
    assert transport.stderr_tail == "one\ntwo\r\n\ufffd\ndrei\u00e9\nno line break"


async def test_of_a_long_stderr_only_the_whole_lines_at_the_end_are_kept() -> None:
    lines: list[str] = []
    code = "import sys; [print(f'line {n}', file=sys.stderr) for n in range(20_000)]"
    async with running(program(code, on_stderr=lines.append, stderr_bytes=1000)) as transport:
        await transport.wait()
    assert transport.stderr_tail == "".join(f"line {number}\n" for number in range(19_910, 20_000))
    assert lines == [f"line {number}" for number in range(20_000)]


async def test_an_endless_line_of_stderr_comes_in_pieces() -> None:
    lines: list[str] = []
    code = "import sys; sys.stderr.write('x' * 3_000_000)"
    async with running(program(code, on_stderr=lines.append, stderr_bytes=1000)) as transport:
        await transport.wait()
    assert "".join(lines) == "x" * 3_000_000
    assert max(map(len, lines)) < 500_000
    assert transport.stderr_tail == "x" * 1000


async def test_a_program_that_writes_to_stderr_only_is_not_held_up() -> None:
    code = "import sys; sys.stderr.write('x' * 1_000_000); sys.stderr.flush(); print('through')"
    async with running(program(code)) as transport:
        assert await read_line(transport) == b"through\n"


# Systems without pidfds


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize(
    "check",
    [
        test_sent_bytes_come_back,
        test_large_lines_go_both_ways_at_the_same_time,
        test_several_may_wait_for_the_end,
        test_the_end_is_noticed_although_a_grandchild_holds_the_pipes,
        test_sending_to_a_program_that_is_gone_fails,
        test_a_cancelled_receive_loses_nothing,
        test_stderr_comes_line_by_line_and_its_end_is_kept,
        test_of_a_long_stderr_only_the_whole_lines_at_the_end_are_kept,
    ],
)
async def test_asyncio_without_pidfds(check: Callable[[], Awaitable[None]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "has_pidfds", lambda: False)
    await check()


class OldProcess:
    """A process of anyio 4.15: its end is reported once its pipes are closed, and `send` raises asyncio's errors."""

    def __init__(self, process: anyio.abc.Process) -> None:
        self.stdin = self
        self.stdout, self.stderr, self.pid = process.stdout, process.stderr, process.pid
        self._process = process

    @property
    def returncode(self) -> int | None:
        return self._process.returncode

    async def wait(self) -> int:
        await anyio.sleep_forever()
        return -1

    async def send(self, data: bytes) -> None:
        raise BrokenPipeError

    async def aclose(self) -> None:
        await self._process.aclose()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_the_end_is_noticed_although_an_older_anyio_does_not_report_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anyio_process, "LOOK_FIRST", 0.01)
    old = OldProcess(await anyio.open_process([sys.executable, "-IS", "-c", "raise SystemExit(3)"]))
    process = AnyioProcess(cast(anyio.abc.Process, old), lambda data: None)
    with anyio.fail_after(60):
        with pytest.raises(anyio.BrokenResourceError):
            await process.send(b"x")
        assert await process.wait() == 3
        await process.close()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no pidfds")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_with_pidfds_a_program_takes_neither_a_thread_nor_a_task() -> None:
    threads, tasks = set(threading.enumerate()), len(asyncio.all_tasks())
    transport = program(ECHO)
    await transport.start()
    assert set(threading.enumerate()) <= threads  # idle threads of other tests end at any time
    assert len(asyncio.all_tasks()) == tasks
    await transport.close()


ON_ASYNCIO = pytest.mark.parametrize("anyio_backend", ["asyncio"])
WITH_PIDFDS = pytest.mark.skipif(sys.platform != "linux", reason="other systems have no pidfds")


def open_files() -> dict[str, str]:
    """Return what each open file descriptor of this process stands for."""
    files = {}
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # of the listing itself
            files[fd] = os.readlink(f"/proc/self/fd/{fd}")
    return files


@WITH_PIDFDS
@ON_ASYNCIO
async def test_a_loop_that_cannot_watch_a_pipe_leaves_nothing_behind() -> None:
    """Where the host has closed a pipe that its loop still watches, the loop refuses the next file of that number."""
    loop = asyncio.get_running_loop()
    before, children = open_files(), descendants(os.getpid())
    stale = [end for _ in range(10) for end in os.pipe()]
    for end in stale:
        loop.add_writer(end, lambda: None)
        os.close(end)
    try:
        with pytest.raises(CLIStartError):
            await program(ECHO).start()
        assert open_files() == before
        assert descendants(os.getpid()) == children
    finally:
        for end in stale:
            loop.remove_writer(end)


@WITH_PIDFDS
@ON_ASYNCIO
async def test_a_program_that_ends_at_once_starts_although_its_status_is_lost() -> None:
    """With SIGCHLD ignored, the system may have forgotten the process before anything can watch it."""
    handler = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        for _ in range(50):
            transport = SubprocessTransport(LaunchPlan(["/bin/sh", "-c", "echo why >&2"], dict(os.environ)))
            async with running(transport):
                assert await transport.wait() == 255
            assert transport.stderr_tail == "why\n"
    finally:
        signal.signal(signal.SIGCHLD, handler)


@WITH_PIDFDS
@ON_ASYNCIO
async def test_the_output_ends_although_the_program_ended_before_it_was_watched() -> None:
    """With SIGCHLD ignored, and with a descendant that holds the pipes open."""
    handler = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        argv = ["/bin/sh", "-c", "sleep 600 & echo $!"]
        process = PidfdProcess(asyncio.get_running_loop(), argv, lambda data: None)
        with anyio.fail_after(60):
            while Path(f"/proc/{process.pid}").exists():
                await anyio.sleep(0.01)
            process.watch()
            descendant = int(await process.receive())
            try:
                assert await process.receive() == b""
                await process.read_stderr()
            finally:
                kill(descendant)
                await process.close()
    finally:
        signal.signal(signal.SIGCHLD, handler)


@WITH_PIDFDS
def test_a_loop_that_is_closed_too_early_leaves_no_pidfd() -> None:
    gc.collect()
    before = [file for file in open_files().values() if "pidfd" in file]
    loop = asyncio.new_event_loop()
    transport = program(ECHO)
    loop.run_until_complete(transport.start())
    loop.close()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        del transport, loop
        gc.collect()
    assert [file for file in open_files().values() if "pidfd" in file] == before


COUNTING = """
    import sys, time, pathlib
    while not pathlib.Path(sys.argv[1]).exists():
        time.sleep(0.01)
    print(len(sys.stdin.buffer.read()), flush=True)
"""


@WITH_PIDFDS
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_what_a_program_does_not_read_yet_is_sent_before_the_end_of_its_input(tmp_path: Path) -> None:
    async with running(program(COUNTING, str(tmp_path / "read"))) as transport:
        async with anyio.create_task_group() as group:
            for _ in range(2):
                group.start_soon(transport.send, b"x" * 1_000_000)
            await anyio.wait_all_tasks_blocked()
            assert not transport.can_send_nowait
            group.start_soon(transport.end_input)
            await anyio.wait_all_tasks_blocked()
            (tmp_path / "read").touch()
        assert await read_line(transport) == b"2000000\n"


@WITH_PIDFDS
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_what_comes_after_a_full_pipe_is_sent_later(tmp_path: Path) -> None:
    async with running(program(COUNTING, str(tmp_path / "read"))) as transport:
        took_all: list[bool] = []
        for size in (pidfd_process.PIPE_BYTES, 1):
            transport.send_nowait(b"x" * size)
            took_all.append(transport.can_send_nowait)
        assert took_all == [True, False]
        (tmp_path / "read").touch()
        await transport.end_input()
        assert await read_line(transport) == b"%d\n" % (pidfd_process.PIPE_BYTES + 1)


@WITH_PIDFDS
@ON_ASYNCIO
async def test_a_close_drops_what_a_descendant_of_a_left_program_does_not_read() -> None:
    code = """
        import subprocess, sys
        sleeper = [sys.executable, "-ISc", "import time; time.sleep(600)"]
        print(subprocess.Popen(sleeper, start_new_session=True).pid, flush=True)
    """
    async with running(program(code)) as transport:
        pid = int(await read_line(transport))
        try:
            transport.send_nowait(b"x" * 1_000_000)
            await transport.end_input()
            assert await transport.wait() == 0
            await transport.close()
            assert is_alive(pid)
        finally:
            kill(pid)
    async with running(program(ECHO)) as echo:  # its pipes have the same numbers
        async with anyio.create_task_group() as group:
            group.start_soon(echo.send, b"x" * 1_000_000 + b"\n")
            assert len(await read_line(echo)) == 1_000_001


@WITH_PIDFDS
@ON_ASYNCIO
async def test_a_program_that_nobody_reads_can_be_closed() -> None:
    written = anyio.Event()
    code = """
        import os, sys
        for _ in range(33):
            os.write(1, b"x" * 2000)  # more than a pipe holds, but not after one has been read
        os.write(2, b"written\\n")
        sys.stdin.read()
    """
    async with running(program(code, on_stderr=lambda line: written.set())) as transport:
        await written.wait()
        await anyio.wait_all_tasks_blocked()
        await transport.close(grace=PATIENT)
        assert transport.exit_code == 0
        assert 0 < len(await read_all(transport)) < 66_000


@WITH_PIDFDS
@ON_ASYNCIO
async def test_one_who_reads_may_close_another_program_that_has_written_at_the_same_time(tmp_path: Path) -> None:
    code = "import sys, pathlib; print('hello', flush=True); pathlib.Path(sys.argv[1]).touch(); sys.stdin.read()"
    loop, problems = asyncio.get_running_loop(), list[dict[str, object]]()
    loop.set_exception_handler(lambda _, problem: problems.append(problem))
    ends = [tmp_path / "first", tmp_path / "second"]
    argvs = [[sys.executable, "-IS", "-c", code, str(end)] for end in ends]
    first, second = (PidfdProcess(loop, argv, lambda data: None) for argv in argvs)
    received: list[bytes] = []

    async def read(process: PidfdProcess, other: PidfdProcess) -> None:
        received.append(await process.receive())
        await other.close()

    for process in (first, second):
        process.watch()
    async with anyio.create_task_group() as group:
        group.start_soon(read, first, second)
        group.start_soon(read, second, first)
        await anyio.wait_all_tasks_blocked()
        while not all(end.exists() for end in ends):
            time.sleep(0.001)  # blocks the loop
    assert sorted(received) == [b"", b"hello\n"]
    for process in (first, second):
        await process.close()
        assert await process.wait() == 0
    assert problems == []


@WITH_PIDFDS
@ON_ASYNCIO
async def test_an_exit_that_a_debugger_has_not_seen_yet_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system tells it first to who traces the process; until then, nobody else can take the status."""
    waitpid, seen = os.waitpid, list[int]()

    def wait_later(pid: int, options: int) -> tuple[int, int]:
        seen.append(pid)
        return waitpid(pid, options) if len(seen) > 1 else (0, 0)

    async with running(program("raise SystemExit(3)")) as transport:
        monkeypatch.setattr(os, "waitpid", wait_later)
        assert await transport.wait() == 3
    assert seen == [transport.pid] * 2


@WITH_PIDFDS
def test_too_many_open_files_do_not_mean_that_there_are_no_pidfds(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(pid: int) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    if not has_pidfds():
        pytest.skip("this system has none")
    monkeypatch.setattr(os, "pidfd_open", fail)
    assert has_pidfds.__wrapped__()
    monkeypatch.delattr(os, "pidfd_open")
    assert not has_pidfds.__wrapped__()


@WITH_PIDFDS
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_program_that_cannot_be_watched_does_not_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(pid: int) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    if not has_pidfds():
        pytest.skip("this system has none")
    monkeypatch.setattr(os, "pidfd_open", fail)
    before = descendants(os.getpid())
    assert "Too many open files" in str(await start_error([sys.executable, "-c", ECHO]))
    assert not [one.pid for one in descendants(os.getpid()) if one not in before and is_alive(one.pid)]


@WITH_PIDFDS
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_concurrent_starts_fork_before_the_first_one_continues() -> None:
    if not has_pidfds():
        pytest.skip("this system has none")
    transports = [program(ECHO) for _ in range(3)]
    running_at_first: list[int] = []
    before = descendants(os.getpid())

    async def start(transport: SubprocessTransport) -> None:
        await transport.start()
        running_at_first.append(len([one for one in descendants(os.getpid()) if one not in before]))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as starts:
            for transport in transports:
                starts.start_soon(start, transport)
        for transport in transports:
            await transport.close()
    assert running_at_first[0] == 3


# Starts that fail


async def start_error(argv: list[str], *, cwd: Path | None = None, env: dict[str, str] | None = None) -> CLIStartError:
    transport = SubprocessTransport(LaunchPlan(argv, env if env is not None else dict(os.environ), cwd))
    with anyio.fail_after(60), pytest.raises(CLIStartError) as caught:
        await transport.start()
    assert caught.value.cli_path == argv[0]
    assert transport.pid is None
    assert transport.exit_code is None
    await transport.close()
    return caught.value


async def test_a_program_that_is_missing(tmp_path: Path) -> None:
    assert "No such file" in str(await start_error([str(tmp_path / "claude")]))


async def test_a_program_that_may_not_be_executed(tmp_path: Path) -> None:
    plain = tmp_path / "claude"
    plain.write_text("#!/bin/sh\n")
    plain.chmod(0o644)
    assert "Permission denied" in str(await start_error([str(plain)]))


async def test_a_program_of_another_format(tmp_path: Path) -> None:
    garbage = tmp_path / "claude"
    garbage.write_bytes(b"\x00garbage")
    garbage.chmod(0o755)
    assert "Exec format error" in str(await start_error([str(garbage)]))


async def test_a_directory_that_is_missing(tmp_path: Path) -> None:
    assert "No such file" in str(await start_error([sys.executable, "-c", ""], cwd=tmp_path / "nowhere"))


async def test_a_nul_byte_in_an_argument_or_a_variable() -> None:
    assert "null byte" in str(await start_error([sys.executable, "-c", "a\0b"]))
    assert "null byte" in str(await start_error([sys.executable, "-c", ""], env={"A": "a\0b"}))


async def test_an_argument_that_is_too_long() -> None:
    assert "too long" in str(await start_error([sys.executable, "-c", "x" * 3_000_000]))


async def test_a_start_that_is_cancelled_leaves_nothing_behind() -> None:
    before = descendants(os.getpid())  # servers of other tests
    transport = program(ECHO)
    with anyio.fail_after(60):
        with anyio.CancelScope() as scope:
            scope.cancel()
            await transport.start()
        await transport.close(grace=0.0)
    assert not [one.pid for one in descendants(os.getpid()) if one not in before and is_alive(one.pid)]


async def test_before_the_start_nothing_can_be_sent_or_received() -> None:
    transport = program(ECHO)
    with pytest.raises(anyio.ClosedResourceError):
        await transport.receive()
    with pytest.raises(anyio.ClosedResourceError):
        await transport.send(b"x")
    await transport.close()


# The end


async def test_a_program_that_ends_with_its_input_is_not_hurried() -> None:
    code = "import sys, time; sys.stdin.read(); time.sleep(0.3); print('done'); raise SystemExit(7)"
    async with running(program(code), grace=PATIENT) as transport, anyio.create_task_group() as group:
        said: list[bytes] = []

        async def read() -> None:
            said.append(await read_all(transport))

        group.start_soon(read)
        await transport.close(grace=PATIENT)
    assert transport.exit_code == 7
    assert said == [b"done\n"]


async def test_a_program_that_ignores_the_end_of_its_input_is_asked_to_end() -> None:
    code = "print('ready', flush=True)\nimport time\ntime.sleep(600)"
    async with running(program(code)) as transport:
        await read_line(transport)
        began = anyio.current_time()
        await transport.close(grace=0.2)
        assert anyio.current_time() - began >= 0.2
    assert transport.exit_code == -signal.SIGTERM


async def test_a_program_that_ignores_that_too_is_killed() -> None:
    async with running(program(STUBBORN, force=0.5)) as transport:
        await read_line(transport)
        await transport.close(grace=0.1)
    assert transport.exit_code == -signal.SIGKILL


@WITH_PIDFDS
@ON_ASYNCIO
async def test_a_program_that_cannot_be_killed_does_not_hold_up_a_close(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that hangs in the kernel ends once that lets it go."""
    transport = program(STUBBORN, force=0.05)
    monkeypatch.setattr(subprocess, "signal_group", lambda pid, *, force: None)
    with anyio.fail_after(60):
        await transport.start()
        await read_line(transport)
        await transport.end_input()  # otherwise what has its mark is killed, too
        await transport.close(grace=0.0)
        assert transport.exit_code is None
        assert transport.pid is not None
        kill(transport.pid)
        assert await transport.wait() == -signal.SIGKILL


ABANDONS = """
    import asyncio, os, sys
    from claude_agent_py.transport import LaunchPlan, SubprocessTransport, at_exit

    at_exit.GRACE = float(sys.argv[1])
    at_exit.kill_marked = lambda marks: None  # as on other systems than Linux
    transport = SubprocessTransport(LaunchPlan(sys.argv[2:], dict(os.environ)))
    loop = asyncio.new_event_loop()
    loop.run_until_complete(transport.start())
    loop.run_until_complete(transport.receive())
    print(transport.pid, flush=True)
"""


def abandon(code: str, *args: str, grace: float) -> int:
    """Run a program, stop and leave the event loop that started it, end the interpreter, and return its pid."""
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(ABANDONS), str(grace)]
    done = run(
        [*command, sys.executable, "-IS", "-c", textwrap.dedent(code), *args],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.stdout, done.stderr
    return int(done.stdout)


def test_a_program_whose_loop_was_stopped_is_asked_to_end_with_the_interpreter(tmp_path: Path) -> None:
    code = """
        import pathlib, signal, sys, time
        def end(*_):
            time.sleep(0.05)
            pathlib.Path(sys.argv[1]).touch()
            sys.exit()
        signal.signal(signal.SIGTERM, end)
        print(flush=True)
        time.sleep(600)
    """
    pid = abandon(code, str(tmp_path / "cleaned up"), grace=PATIENT)
    assert not is_alive(pid)
    assert (tmp_path / "cleaned up").exists()


def test_a_program_whose_loop_was_stopped_is_killed_if_it_does_not_end_with_the_interpreter() -> None:
    assert not is_alive(abandon(STUBBORN, grace=0.05))


@pytest.fixture(params=["this system's way", "no lists of children", "ps"])
def _looked_up(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Look processes up as it is done here, as on a Linux that does not list children, and as on macOS."""
    if request.param == "ps":
        monkeypatch.setattr(processes, "process_table", in_ps)
        monkeypatch.setattr(processes, "PS_TIMEOUT", PATIENT)
    elif request.param == "no lists of children":
        monkeypatch.setattr(processes, "tells_children", lambda: False)


@pytest.mark.usefixtures("_looked_up")
@pytest.mark.parametrize("ending", ["with its input", "by force"])
async def test_descendants_end_with_the_program(ending: str) -> None:
    rest = "sys.stdin.read()" if ending == "with its input" else "__import__('time').sleep(600)"
    async with running(program(textwrap.dedent(PARENT) + rest)) as transport:
        pids = [int(pid) for pid in (await read_line(transport)).split()]
        assert transport.pid is not None
        assert {process.pid for process in descendants(transport.pid)} == set(pids)
        await transport.close(grace=PATIENT if ending == "with its input" else 0.0)
    await until_gone(*pids)
    assert transport.exit_code == (0 if ending == "with its input" else -signal.SIGTERM)


async def test_without_ps_the_group_has_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(processes, "process_table", in_ps)
    code = textwrap.dedent(PARENT) + "__import__('time').sleep(600)"
    async with running(program(code)) as transport:
        in_group, alone = [int(pid) for pid in (await read_line(transport)).split()]
        monkeypatch.setenv("PATH", str(tmp_path))
        assert in_ps() == {}
        await transport.close(grace=0.0)
    await until_gone(in_group)
    assert is_alive(alone)
    kill(alone)
    await until_gone(alone)


@pytest.mark.skipif(sys.platform != "linux", reason="orphans are known by their environment in /proc")
async def test_descendants_of_a_dead_program_end() -> None:
    async with running(program(textwrap.dedent(PARENT) + "sys.stdin.readline(); raise SystemExit(1)")) as transport:
        pids = [int(pid) for pid in (await read_line(transport)).split()]
        await transport.send(b"die\n")
        assert await transport.wait() == 1
        assert all(is_alive(pid) for pid in pids)
        await transport.close()
        await until_gone(*pids)


ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="marks are found in /proc")

DETACHER = """
    import subprocess, sys
    sleeper = [sys.executable, "-ISc", "import time; time.sleep(600)"]
    alone = "import subprocess, sys; print(subprocess.Popen(sys.argv[1:], start_new_session=True, stdout=2).pid)"
    print(subprocess.check_output([sys.executable, "-ISc", alone, *sleeper]).decode(), end="", flush=True)
    sys.stdin.read()
"""
"""A program with a grandchild whose parent has ended."""


@ON_LINUX
async def test_many_that_close_at_once_end_what_detached_itself_but_not_what_others_started() -> None:
    detached: list[int] = []

    async def use(transport: SubprocessTransport) -> None:
        await transport.start()
        pid = int(await read_line(transport))
        detached.append(pid)
        while len(detached) < 5:
            await anyio.sleep(0.01)
        await transport.close(grace=PATIENT)
        assert transport.exit_code == 0
        await until_gone(pid)

    async with running(program(DETACHER)) as other:
        spared = int(await read_line(other))
        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(use, program(DETACHER))
        assert is_alive(spared)
    await until_gone(spared)


@ON_LINUX
async def test_detached_processes_of_a_left_program_keep_running() -> None:
    async with running(program(DETACHER)) as transport:
        pid = int(await read_line(transport))
        await transport.end_input()
        await transport.close()
        assert is_alive(pid)
        kill(pid)
        await until_gone(pid)


@ON_LINUX
async def test_concurrent_closes_share_a_scan_in_a_thread(
    anyio_backend_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scans: list[set[str]] = []
    in_loop: list[bool] = []
    loops = threading.current_thread()
    kill_marked = processes.kill_marked

    def scan(marks: set[str]) -> set[str]:
        scans.append(set(marks))
        in_loop.append(threading.current_thread() is loops)
        return kill_marked(marks)

    monkeypatch.setattr(processes, "kill_marked", scan)
    marks = {f"{anyio_backend_name}-{os.getpid()}-{number}" for number in range(8)}
    async with AsyncExitStack() as stack, anyio.create_task_group() as group:
        for mark in marks:
            environ = {**os.environ, processes.MARK: mark}
            process = stack.enter_context(Popen(["cat"], env=environ, stdin=PIPE, stdout=PIPE, bufsize=0))
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(b"x")
            assert process.stdout.read(1) == b"x"  # it has its environment
        for mark in marks:
            group.start_soon(processes.kill_all_marked, mark)
    assert scans[:2] == [marks, marks]  # until nothing more is found
    assert not any(in_loop)


@ON_LINUX
def test_a_process_that_is_just_starting_its_program_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system shows its environment and its arguments a moment later, on a busy machine after many milliseconds."""
    mark = f"starting-{os.getpid()}"
    read = set[str]()

    def contents_of_starting(path: str) -> bytes:
        if path in read or path not in (f"/proc/{process.pid}/environ", f"/proc/{process.pid}/cmdline"):
            with contextlib.suppress(OSError):
                return Path(path).read_bytes()
            return b""
        read.add(path)
        return b""

    with Popen(["sleep", "600"], env={**os.environ, processes.MARK: mark}) as process:
        monkeypatch.setattr(processes, "contents", contents_of_starting)
        try:
            assert processes.kill_marked({mark}) == {mark}
        finally:
            process.kill()
    assert len(read) == 2


@ON_LINUX
def test_a_mark_in_another_variable_is_none() -> None:
    mark = f"other-{os.getpid()}"
    env = {f"MY_{processes.MARK}": mark, "TEXT": f"{processes.MARK}={mark}"}
    with Popen(["sleep", "600"], env=env | {"PATH": os.environ["PATH"]}) as process:
        try:
            assert processes.kill_marked({mark}) == set()
            assert process.poll() is None
        finally:
            process.kill()


@ON_LINUX
def test_a_mark_after_another_variable_with_its_name_is_found() -> None:
    mark = f"after-{os.getpid()}"
    env = {f"MY_{processes.MARK}": "other", processes.MARK: mark, "PATH": os.environ["PATH"]}
    with Popen(["sleep", "600"], env=env) as process:
        try:
            assert processes.kill_marked({mark}) == {mark}
        finally:
            process.kill()


def start_marked(mark: str) -> Popen[bytes]:
    """Return a process with a mark, once it has its environment."""
    process = Popen(["cat"], env={**os.environ, processes.MARK: mark}, stdin=PIPE, stdout=PIPE, bufsize=0)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"x")
    assert process.stdout.read(1) == b"x"
    return process


@ON_LINUX
def test_a_scan_ends_although_each_look_finds_new_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "LOOKS", 1)
    mark = f"one-look-{os.getpid()}"
    with start_marked(mark) as process:
        try:
            assert processes.kill_marked({mark}) == {mark}
            process.wait(PATIENT)
            assert processes.kill_marked({mark}) == set()
        finally:
            process.kill()


@ON_LINUX
async def test_without_proc_a_program_ends_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> os.PathLike[str]:
        raise FileNotFoundError(path)

    async with running(program(ECHO)) as echo:
        monkeypatch.setattr(processes, "contents", lambda path: b"")
        monkeypatch.setattr(os, "scandir", refuse)
        assert processes.in_proc() == {}
        await echo.close(grace=PATIENT)
        assert echo.exit_code == 0


@ON_LINUX
def test_a_process_that_has_the_number_of_a_child_that_ended_is_no_descendant(monkeypatch: pytest.MonkeyPatch) -> None:
    with Popen(["sleep", "600"]) as process:
        try:
            listed = f"{process.pid} {os.getpid()} 999999999"
            monkeypatch.setattr(processes, "contents", lambda path: listed.encode())
            assert [each.pid for each in processes._children(os.getpid())] == [process.pid] * len(
                os.listdir("/proc/self/task")
            )
        finally:
            process.kill()


async def test_a_lookup_of_descendants_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()

    def hang(pids: object = None) -> processes.Table:
        release.wait(60)
        return {}

    monkeypatch.setattr(processes, "process_table", hang)
    try:
        assert await processes.find_descendants(os.getpid(), 0.01) == []
    finally:
        release.set()


@ON_LINUX
async def test_a_single_close_does_not_wait_to_share_a_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "GATHER", 3600.0)
    async with running(program(DETACHER)) as transport:
        pid = int(await read_line(transport))
        await transport.close(grace=PATIENT)
        await until_gone(pid)


@ON_LINUX
async def test_a_scan_that_is_given_up_is_made_by_who_shares_it(
    anyio_backend_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "exiting", {"a program that is about to exit"})  # the scan waits for it
    mark = f"{anyio_backend_name}-{os.getpid()}"
    with (
        anyio.fail_after(60),
        Popen(["cat"], env={**os.environ, processes.MARK: mark}, stdin=PIPE, stdout=PIPE) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"x\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"x\n"  # it has its environment
        async with anyio.create_task_group() as others, anyio.create_task_group() as first:
            first.start_soon(processes.kill_all_marked, "given up")
            await anyio.wait_all_tasks_blocked()
            others.start_soon(processes.kill_all_marked, mark)
            await anyio.wait_all_tasks_blocked()
            first.cancel_scope.cancel()
        await until_gone(process.pid)


ADOPTS = """
    import anyio, ctypes, os, sys
    from claude_agent_py.transport import LaunchPlan, SubprocessTransport

    async def main():
        with anyio.fail_after(50):
            for code in [sys.argv[1], *["echo; cat"] * 100]:  # a process may still be ending when it is looked for
                transport = SubprocessTransport(LaunchPlan(["sh", "-c", code], dict(os.environ)))
                await transport.start()
                await transport.receive()
                if sys.argv[2] == "leave":
                    await transport.end_input()  # as the client does that leaves background tasks
                await transport.close(grace=0.1)
                os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)

    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: orphans fall to it, as to process 1
    try:
        anyio.run(main)
    except ChildProcessError:
        print("no child is left")
"""


@ON_LINUX
@pytest.mark.parametrize(
    ("code", "tasks"),
    [
        ("sleep 600 & echo; cat", "stop"),
        ("setsid sleep 600 & echo; kill -9 $$", "stop"),
        ("sleep 600 & echo; sleep 600", "leave"),
    ],
)
def test_killed_orphans_that_fall_to_this_process_are_reaped(code: str, tasks: str) -> None:
    command = [sys.executable, "-c", textwrap.dedent(ADOPTS), code, tasks]
    done = run(command, capture_output=True, timeout=60, check=True)
    assert done.stdout.split(b"\n")[0] == b"no child is left", done.stderr


@ON_LINUX
def test_a_killed_program_of_this_process_is_left_to_who_waits_for_it() -> None:
    mark = f"own-{os.getpid()}"
    with start_marked(mark) as process:
        try:
            at_exit.end_at_exit(process.pid, mark)
            while processes.kill_marked({mark}):
                pass
            assert process.wait(PATIENT) == -signal.SIGKILL
        finally:
            at_exit.forget(process.pid)
            process.kill()


@ON_LINUX
async def test_a_scan_that_hangs_holds_up_neither_the_loop_nor_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A read of /proc may hang, where the process in question does so in the kernel."""
    release = threading.Event()

    def hang(marks: set[str]) -> set[str]:
        release.wait(60)
        return set()

    monkeypatch.setattr(processes, "kill_marked", hang)
    try:
        with anyio.fail_after(60):
            transports = [SubprocessTransport(LaunchPlan(["cat"], dict(os.environ), force=0.5)) for _ in range(3)]
            for transport in transports:
                await transport.start()
            async with anyio.create_task_group() as group:
                for transport in transports:
                    group.start_soon(transport.close)
            assert [transport.exit_code for transport in transports] == [0, 0, 0]
    finally:
        release.set()


async def test_a_process_that_has_another_ones_number_is_spared() -> None:
    async with running(program(ECHO)) as echo:
        assert echo.pid is not None
        kill_each([ProcessID(echo.pid, "before")])
        await echo.send(b"alive\n")
        assert await read_line(echo) == b"alive\n"


async def test_the_environment_is_not_kept() -> None:
    class Environment(dict[str, str]):
        pass

    env = Environment(os.environ)
    kept = weakref.ref(env)
    transport = SubprocessTransport(LaunchPlan(["cat"], env))
    del env
    async with running(transport):
        gc.collect()
        assert kept() is None


async def test_closing_twice_does_nothing_more() -> None:
    async with running(program(ECHO)) as echo:
        await echo.close(grace=PATIENT)
        status = echo.exit_code
        await echo.close()
        assert echo.exit_code == status == 0


async def test_two_may_close_at_the_same_time_and_both_wait_for_the_end() -> None:
    seen: list[int | None] = []
    async with running(program(ECHO)) as echo, anyio.create_task_group() as group:

        async def close() -> None:
            await echo.close(grace=PATIENT)
            seen.append(echo.exit_code)

        group.start_soon(close)
        group.start_soon(close)
    assert seen == [0, 0]


async def test_a_cancelled_close_closes_all_the_same() -> None:
    async with running(program("print('ready', flush=True)\nimport time\ntime.sleep(600)")) as transport:
        await read_line(transport)
        with anyio.CancelScope() as scope:
            scope.cancel()
            await transport.close(grace=0.0)
        assert transport.exit_code == -signal.SIGTERM


@ON_LINUX
@ON_ASYNCIO
async def test_a_close_after_a_natively_cancelled_one_ends_what_detached_itself() -> None:
    async with running(program(f"{DETACHER}    import time; time.sleep(600)")) as transport:
        pid = int(await read_line(transport))
        closing = asyncio.ensure_future(transport.close(grace=PATIENT))
        await anyio.wait_all_tasks_blocked()
        closing.cancel()
        await asyncio.wait([closing])
        assert is_alive(pid)
        await transport.close(grace=0.0)
        await until_gone(pid)


async def test_whoever_waits_for_a_close_of_another_may_be_cancelled() -> None:
    async with running(program(STUBBORN)) as transport, anyio.create_task_group() as group:
        await read_line(transport)
        group.start_soon(transport.close)
        await anyio.wait_all_tasks_blocked()
        with anyio.move_on_after(0.05) as scope:
            await transport.close()
        assert scope.cancelled_caught
        assert transport.pid is not None
        kill(transport.pid)
    assert transport.exit_code == -signal.SIGKILL


async def test_a_close_ends_a_receive() -> None:
    async with running(program("import time; time.sleep(600)")) as transport, anyio.create_task_group() as group:
        ends: list[bytes] = []

        async def read() -> None:
            ends.append(await transport.receive())

        group.start_soon(read)
        await anyio.wait_all_tasks_blocked()
        await transport.close(grace=0.0)
    assert ends == [b""]
    assert await transport.receive() == b""


async def test_a_reader_who_is_behind_gets_all_that_was_written_before_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(subprocess, "DRAIN_SHARE", 1.0)
    code = "import sys; sys.stdin.read(); sys.stdout.write('x' * 300_000); sys.stdout.write('last')"
    received = bytearray()
    async with running(program(code)) as transport, anyio.create_task_group() as group:

        async def read_slowly() -> None:
            while part := await transport.receive():
                received.extend(part)
                await anyio.sleep(0.01)

        group.start_soon(read_slowly)
        await anyio.wait_all_tasks_blocked()
        await transport.close(grace=PATIENT)
    assert len(received) == 300_004
    assert received.endswith(b"last")
    assert transport.exit_code == 0


async def test_the_repr_of_a_transport_has_no_arguments() -> None:
    async with running(program(ECHO, "--api-key=secret")) as echo:
        assert str(echo.pid) in repr(echo)
        assert "secret" not in repr(echo)


RESTLESS = """
    import os, sys, time
    sys.stdin.read()
    if os.fork():
        os.wait()
        os._exit(0)
    if os.fork():
        os._exit(0)
    os.setsid()
    os.closerange(0, 3)
    for _ in range(300):
        time.sleep(0.002)
        if os.fork():
            os._exit(0)
"""
"""A program that leaves a process behind that forks and exits all the time."""


@ON_LINUX
async def test_descendants_that_fork_during_a_scan_end() -> None:
    async with AsyncExitStack() as stack:
        transports = [await stack.enter_async_context(running(program(RESTLESS))) for _ in range(5)]
        async with anyio.create_task_group() as group:
            for transport in transports:
                group.start_soon(transport.close)
    marks = {transport._mark for transport in transports}
    assert not any(processes.kill_marked(marks) for _ in range(50))
