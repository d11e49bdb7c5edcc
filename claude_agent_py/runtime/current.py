"""Which client a handler, listener or tool of yours runs for.

The workers of a session carry it in a context variable, threads of plain functions included. Owns that variable and
nothing else: `client.current_client` gives what it holds its type. The reference is weak: a session must not keep
alive the client by which its user holds it, or nobody would notice that the user has dropped it.
"""

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

_CURRENT: Final[ContextVar[weakref.ref[Any] | None]] = ContextVar("claude_agent_py_client", default=None)


def current() -> Any:
    """Return the current client; None where there is none, or it was dropped."""
    client = _CURRENT.get()
    return None if client is None else client()


@contextmanager
def running_client(client: Any) -> Iterator[None]:
    """Make `client` the current one for the workers that are started inside."""
    token = _CURRENT.set(weakref.ref(client))
    try:
        yield
    finally:
        _CURRENT.reset(token)
