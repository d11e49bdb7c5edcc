"""The current client, in a context variable of the workers and threads of its session.

The reference is weak: a session must not keep its client alive, so that a dropped client is noticed.
"""

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, Final

_CURRENT: Final[ContextVar[weakref.ref[Any] | None]] = ContextVar("claude_agent_py_client", default=None)


def current() -> Any:
    """Return the current client, or None if there is none or it was dropped."""
    client = _CURRENT.get()
    return None if client is None else client()


def keep_current() -> Callable[[], object]:
    """Return a function that makes the client that is current now the current one, for the rest of a worker."""
    return partial(_CURRENT.set, _CURRENT.get())


@contextmanager
def running_client(client: object) -> Iterator[None]:
    """Make `client` the current one for workers started in the block."""
    token = _CURRENT.set(weakref.ref(client))
    try:
        yield
    finally:
        _CURRENT.reset(token)
