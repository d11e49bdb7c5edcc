"""Python programs in processes of their own, which start in no time: forked off one that has imported the package.

To import the package, its dependencies and an event loop takes longer than what most programs of the tests do. Where
there is no safe `fork`, each program gets a fresh interpreter. So should programs whose start or end is what is tested.
"""

import atexit
import ctypes
import inspect
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import pytest
from leftovers import LASTING

FORKS = sys.platform == "linux"

SHORT_LIVED = {
    "BUN_JSC_useDFGJIT": "0",
    "BUN_JSC_numberOfGCMarkers": "1",
    "CLAUDE_CODE_CERT_STORE": "bundled",
}
"""Have the real CLI neither optimise its JavaScript, nor collect garbage in several threads, nor read certificates.

That pays in a process that lives for minutes, or talks to another machine. Those of tests live for seconds, and take a
quarter less CPU without. The CLI names an option that its engine no longer knows when it refuses to start.
"""

PLAIN = f"""
import anyio, anyio._backends._asyncio, claude_agent_py, claude_agent_py.testing
for module in (claude_agent_py, claude_agent_py.testing):
    for name in module.__all__:
        getattr(module, name)
claude_agent_py.testing.scripted_model.QUIET.update({SHORT_LIVED})
"""
PRELOADED = f"{PLAIN}import anyio._backends._trio\n"
FLEET = f"""{PRELOADED}
from claude_agent_py.fleet import Fleet
from claude_agent_py.sessions import PostgresStore, SQLiteStore
import claude_agent_py.fleet._local.engine, claude_agent_py.cli.program, psycopg
"""
TEMPORAL = f"""{FLEET}
import claude_agent_py.fleet._temporal.engine
"""
EDITOR = f"""{PRELOADED}
import acp, claude_agent_py.acp, claude_agent_py.cli.program
from claude_agent_py.acp import agent
"""

SERVER = """
import gc, json, os, runpy, signal, socket, sys, warnings
exec(sys.argv[2], {})
gc.collect()
gc.freeze()
requests = socket.socket(fileno=int(sys.argv[1]))
while True:
    length, fds, _, _ = socket.recv_fds(requests, 8, 3)
    if not length:
        os._exit(0)
    request = json.loads(requests.recv(int.from_bytes(length), socket.MSG_WAITALL))
    if child := os.fork():
        os.waitpid(child, 0)
        for fd in fds:
            os.close(fd)
        continue
    between = os.getpid()
    if os.fork():
        os._exit(0)
    while os.getppid() == between:  # then the process of the tests adopts this one
        pass
    is_adopted = os.getppid() == request["parent"]
    requests.sendall((os.getpid() if is_adopted else 0).to_bytes(8))
    if not is_adopted:
        os._exit(1)
    for number, fd in enumerate(fds):
        os.dup2(fd, number)
        os.close(fd)
    os.environ.clear()
    os.environ.update(request["env"])
    if request["cwd"]:
        os.chdir(request["cwd"])
    if request["start_new_session"]:
        os.setsid()
    requests.close()
    break
warnings._processoptions(request["warnings"])
sys.argv = request["argv"]
sys.path[0] = ""
if request["kind"] == "-c":
    exec(compile(request["what"], "<string>", "exec"), globals())
elif request["kind"] == "-m":
    runpy.run_module(request["what"], run_name="__main__", alter_sys=True)
else:
    sys.path[0] = os.path.dirname(request["what"])
    runpy.run_path(request["what"], run_name="__main__")
"""


class Program(subprocess.Popen[Any]):
    """`subprocess.Popen` for an interpreter: with `-c`, `-m` or a script, and with `-W`.

    Args:
        preloaded: Code that imports what the programs use.
        more: As for `Popen`.
    """

    def __init__(self, args: list[str], *, preloaded: str = PRELOADED, **more: Any) -> None:
        self._preloaded = preloaded
        super().__init__(args, **more)

    def _execute_child(self, *args: Any) -> None:
        if not FORKS:
            super()._execute_child(*args)  # type: ignore[misc]
            return
        method = super()._execute_child  # type: ignore[misc]
        given = inspect.signature(method).bind(*args).arguments
        env = os.environ if given["env"] is None else given["env"]
        ends = [given[name] for name in ("p2cread", "c2pwrite", "errwrite")]
        request = {
            **_parse(given["args"]),
            "parent": os.getpid(),
            "env": dict(env),
            "cwd": os.fspath(given["cwd"] or os.getcwd()),
            "start_new_session": given["start_new_session"],
        }
        fds = [number if end == -1 else end for number, end in enumerate(ends)]
        self.pid = _server(self._preloaded).fork(request, fds)
        self._child_created = True
        names = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        self._close_pipe_fds(*(given[name] for name in names))  # type: ignore[attr-defined]


def run_program(
    args: list[str], *, input: str | None = None, timeout: float = 120, preloaded: str = PRELOADED, **more: Any
) -> "subprocess.CompletedProcess[str]":
    """Run a program as `Program` does, and return what it printed, like `subprocess.run`."""
    pipes = {"stdin": subprocess.DEVNULL if input is None else subprocess.PIPE}
    pipes |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with Program(args, preloaded=preloaded, encoding="utf-8", **{**pipes, **more}) as process:
        try:
            out, err = process.communicate(input, timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(args, process.returncode, out, err)


@contextmanager
def forked(preloaded: str) -> Iterator[None]:
    """Have asyncio start its programs as `Program` does, while the block runs."""
    if FORKS:
        _server(preloaded)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess, "Popen", partial(Program, preloaded=preloaded))
        yield


def _parse(args: list[str]) -> dict[str, Any]:
    """Return what the arguments of the interpreter mean."""
    executable, *rest = args
    assert executable == sys.executable, args
    warnings = []
    while rest[0] == "-W":
        warnings.append(rest[1])
        del rest[:2]
    if rest[0] in ("-c", "-m"):
        kind, what, *argv = rest
        return {"kind": kind, "what": what, "argv": [kind, *argv], "warnings": warnings}
    assert not rest[0].startswith("-"), args
    return {"kind": "script", "what": rest[0], "argv": rest, "warnings": warnings}


class _Server:
    """The process that programs are forked off. It ends when this one does."""

    def __init__(self, preloaded: str) -> None:
        self._lock = threading.Lock()
        self._libc = ctypes.CDLL(None)
        self._requests, its_end = socket.socketpair()
        with its_end:
            fd = its_end.fileno()
            argv = [sys.executable, "-X", "utf8", "-c", SERVER, str(fd), preloaded]
            self._process = subprocess.Popen(argv, pass_fds=[fd], stdin=subprocess.DEVNULL, cwd="/")
        LASTING.add(self._process.pid)
        atexit.register(self.close)

    def fork(self, request: dict[str, Any], fds: list[int]) -> int:
        """Start a program, as a child of this process, and return its id."""
        text = json.dumps(request).encode()
        with self._lock:
            self._adopt_orphans(True)
            try:
                socket.send_fds(self._requests, [len(text).to_bytes(8)], fds)
                self._requests.sendall(text)
                pid = self._requests.recv(8, socket.MSG_WAITALL)
            finally:
                self._adopt_orphans(False)
        assert any(pid), "the process that programs are forked off has ended, or its programs are not adopted"
        return int.from_bytes(pid)

    def close(self) -> None:
        """End the process."""
        self._requests.close()
        self._process.wait(60)

    def _adopt_orphans(self, do: bool) -> None:
        """Let this process become the parent of descendants that have lost theirs."""
        self._libc.prctl(36, int(do), 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


@cache
def _server(preloaded: str) -> _Server:
    return _Server(preloaded)
