"""Which client a handler, listener or tool of yours runs for.

The workers of a session carry it in a context variable, threads of plain functions included. Owns that variable and
nothing else: `client.current_client` gives what it holds its type.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

CURRENT: Final[ContextVar[Any]] = ContextVar("claude_agent_py_client", default=None)


@contextmanager
def running_client(client: Any) -> Iterator[None]:
    """Make `client` the current one for the workers that are started inside."""
    token = CURRENT.set(client)
    try:
        yield
    finally:
        CURRENT.reset(token)
