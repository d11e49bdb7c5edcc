"""`PostgresServer`: a PostgreSQL of its own, which a test stops, freezes and starts again."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

STARTS_WITHIN = 60.0


class PostgresServer:
    """A server on a port of this machine.

    Args:
        initdb: The program that makes its files.
        postgres: The server.
        port: A free port.
        user: The user that it runs as; None means this one.
    """

    def __init__(self, initdb: str, postgres: str, port: int, user: str | None) -> None:
        self.folder = Path(os.path.realpath(tempfile.mkdtemp(prefix="pg-", dir="/tmp")))  # short, open to its user
        data, sockets = self.folder / "data", self.folder / "sockets"
        sockets.mkdir()
        if user:
            shutil.chown(self.folder, user)
            shutil.chown(sockets, user)
        command = [initdb, "-D", str(data), "-U", "tester", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C"]
        subprocess.run(command, check=True, capture_output=True, cwd="/", user=user)
        settings = ["-c", "fsync=off", "-c", "listen_addresses=127.0.0.1", "-k", str(sockets), "-p", str(port)]
        self._command, self._user = [postgres, "-D", str(data), *settings], user
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"postgresql://tester@127.0.0.1:{port}/postgres"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        import psycopg

        null = subprocess.DEVNULL
        self._process = subprocess.Popen(self._command, stdout=null, stderr=null, cwd="/", user=self._user)
        wait_until(lambda: psycopg.connect(self.url).close(), self._process)

    def stop(self, how: int = signal.SIGINT) -> None:
        """Stop it: SIGINT closes connections first, SIGQUIT (`-m immediate`) breaks everything off."""
        assert self._process is not None
        self._process.send_signal(how)
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def freeze(self) -> None:
        """Stop all its processes where they are: connections stay open, and nobody answers. Linux only."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)  # first, so that there will be no more
        for pid in self._children():
            os.kill(pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let them go on."""
        assert self._process is not None
        for pid in [*self._children(), self._process.pid]:
            os.kill(pid, signal.SIGCONT)

    def remove(self) -> None:
        """Remove its files."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _children(self) -> list[int]:
        assert self._process is not None
        return [
            int(pid) for pid in Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        ]


def wait_until(is_ready: Callable[[], Any], process: "subprocess.Popen[bytes] | None" = None) -> None:
    """Wait until a server answers."""
    deadline = time.monotonic() + STARTS_WITHIN
    while True:
        try:
            is_ready()
        except Exception:
            if time.monotonic() > deadline or (process is not None and process.poll() is not None):
                raise
            time.sleep(0.05)
        else:
            return


def new_database(server: PostgresServer) -> str:
    """Return the URL of a new database of a server."""
    import psycopg

    name = f"kept_{uuid4().hex[:8]}"
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return urlunsplit(urlsplit(server.url)._replace(path=f"/{name}"))
