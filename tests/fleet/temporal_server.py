"""A development server of Temporal for tests: one for all processes of a test run, with a namespace for each test."""

import json
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from inside import TemporalServer as TemporalServer
from leftovers import LASTING, gone

SPARE = 60
"""How many namespaces a server has."""


def start(folder: Path, configuration: Mapping[str, str] | None = None) -> TemporalServer:
    """Start a server with the namespaces `test-0`, `test-1`, ..., perhaps with more of a dynamic configuration."""
    spaces = [argument for number in range(SPARE) for argument in ("--namespace", f"test-{number}")]
    values: dict[str, object] = {
        "limit.historyCount.suggestContinueAsNew": 60,
        "system.forceSearchAttributesCacheRefreshOnRead": "true",
    }
    values |= configuration or {}
    dynamic = [part for name, value in values.items() for part in ("--dynamic-config-value", f"{name}={value}")]
    return TemporalServer(folder, [*spaces, *dynamic])


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
                server = start(folder)
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
    server = start(tmp_path)
    try:
        yield server
    finally:
        server.end()
