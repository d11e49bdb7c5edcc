"""`PgBouncer` and `Proxy`: what may stand between a fleet and its PostgreSQL."""

import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest
from stoppable_postgres import wait_until
from store_servers import free_port, program, stop

SETTINGS = """
[databases]
* = host=127.0.0.1 port={server_port} user=tester
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 4
max_client_conn = 200
idle_transaction_timeout = 30
server_login_retry = 1
client_login_timeout = 10
"""
"""By default, a login that fails once on a busy machine is tried again after 15 s, and a client waits for a minute."""


def behind(url: str, port: int) -> str:
    """Return the URL of the same database by another port."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=f"{parts.username}@127.0.0.1:{port}"))


@contextmanager
def pgbouncer(server_url: str, user: str | None) -> Iterator[int]:
    """Run a PgBouncer in transaction mode, with four connections to the server, and yield its port."""
    import psycopg

    folder = Path(tempfile.mkdtemp(prefix="pgbouncer-", dir="/tmp"))
    port = free_port()
    (folder / "pgbouncer.ini").write_text(SETTINGS.format(server_port=urlsplit(server_url).port, port=port))
    folder.chmod(0o755)
    command = [program("pgbouncer", "/usr/sbin"), str(folder / "pgbouncer.ini")]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log, cwd="/", user=user)
    try:
        wait_until(lambda: psycopg.connect(behind(server_url, port)).close(), process)
        yield port
    except psycopg.OperationalError as error:
        error.add_note((folder / "log").read_text()[-4000:])
        raise
    finally:
        stop(process)
        shutil.rmtree(folder, ignore_errors=True)


SYNC = b"S\x00\x00\x00\x04"
"""The message that ends a statement with parameters."""


class Proxy:
    """Forwards connections to a port, until `stall`: then it forwards nothing and closes nothing.

    After `heal` it forwards new connections. Those that were open stay as they are: they never get an answer. It also
    stalls when a program sends a statement with `stall_at`, whose end it does not forward.
    """

    def __init__(self, port: int, stall_at: bytes | None = None) -> None:
        self._target = port
        self._stall_at = stall_at
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._sockets: list[socket.socket] = []
        self._lock = threading.Lock()
        self._is_stalled = False
        self._round = 0
        """How often it has stalled."""
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        self._acceptor.start()

    def stall(self) -> None:
        self._round += 1
        self._is_stalled = True

    def heal(self) -> None:
        self._is_stalled = False

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # otherwise a blocked `accept` takes one more connection
        self._listener.close()
        self._acceptor.join()
        with self._lock:
            for each in self._sockets:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
                each.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                with self._lock:
                    self._sockets.append(near)
                if self._is_stalled:
                    continue
                far = socket.create_connection(("127.0.0.1", self._target))
                with self._lock:
                    self._sockets.append(far)
                for source, target in ((near, far), (far, near)):
                    threading.Thread(target=self._forward, args=(source, target, self._round), daemon=True).start()

    def _forward(self, source: socket.socket, target: socket.socket, number: int) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if number != self._round:
                    return
                if self._stall_at is not None and self._stall_at in data:
                    target.sendall(data.removesuffix(SYNC))
                    self.stall()
                    return
                target.sendall(data)
        if number == self._round:
            with suppress(OSError):
                target.shutdown(socket.SHUT_WR)


@pytest.fixture(scope="module")
def pooler_port(postgres_server: str) -> Iterator[int]:
    """Yield the port of a PgBouncer in transaction mode before the PostgreSQL of the tests."""
    with pgbouncer(postgres_server, server_user()) as port:
        yield port


def server_user() -> str | None:
    """Return the user that servers run as that refuse to be root; None means this user."""
    import os

    return "postgres" if hasattr(os, "geteuid") and os.geteuid() == 0 else None
