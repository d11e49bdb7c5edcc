"""A server on loopback in a thread, for a browser or another client."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from claude_agent_py.serve import FleetSessions, Server, Sessions, make_app

TOKEN = "a-token"


@contextmanager
def served(
    sessions: Sessions | FleetSessions, make: Callable[..., ASGIApp] = make_app, **options: object
) -> Iterator[str]:
    """Serve these sessions, and yield the address."""
    app = make(sessions, **{"token": TOKEN, **options})
    config = uvicorn.Config(app, "127.0.0.1", 0, log_level="warning")
    sock = config.bind_socket()
    sock.listen()  # so that nobody is refused until it runs
    server = Server(config, sessions)
    thread = threading.Thread(target=server.run, args=([sock],))
    thread.start()
    try:
        yield f"http://127.0.0.1:{sock.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
