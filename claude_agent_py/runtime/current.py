"""Which client a handler, listener or tool of yours runs for.

The workers of a session carry it in a context variable, threads of plain functions included. Owns that variable and
nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from claude_agent_py.client import Client
    from claude_agent_py.tasks import Task

_current: ContextVar[Client | None] = ContextVar("claude_agent_py_client", default=None)


class Spawnable(Protocol):
    """What `Client.spawn` takes: a `ChildAgent`."""

    async def spawn(self, client: Client, prompt: str) -> Task:
        """Start it under a client and give its task."""
        ...


def current_client() -> Client | None:
    """Give the client whose handler, listener or tool is running; None outside of these."""
    return _current.get()


@contextmanager
def running_client(client: Client) -> Iterator[None]:
    """Make `client` the current one for the workers that are started inside."""
    token = _current.set(client)
    try:
        yield
    finally:
        _current.reset(token)
