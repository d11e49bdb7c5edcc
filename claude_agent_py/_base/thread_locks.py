"""`ThreadLock`: a lock between threads that a forked process finds free."""

import os
import threading
import weakref
from typing import Final

FORK_SECONDS: Final = 1.0
"""How long a fork waits for a thread that holds a lock, so that the child finds what it protects in order."""


class ThreadLock:
    """A lock for `with`. In a forked process it is free, even if a thread of the parent held it."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._waits_for_fork = False
        _locks.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *exc: object) -> None:
        self._lock.release()

    def before_fork(self) -> None:
        """Wait until no other thread holds the lock, for a limited time."""
        self._waits_for_fork = self._lock.acquire(timeout=FORK_SECONDS)

    def after_fork(self) -> None:
        """Continue in the parent."""
        if self._waits_for_fork:
            self._lock.release()

    def renew(self) -> None:
        """Free the lock in the child, which has none of the other threads."""
        self._lock = threading.RLock()


_locks: "weakref.WeakSet[ThreadLock]" = weakref.WeakSet()


def _run_for_all(name: str) -> None:
    for lock in list(_locks):
        getattr(lock, name)()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=lambda: _run_for_all("before_fork"),
        after_in_parent=lambda: _run_for_all("after_fork"),
        after_in_child=lambda: _run_for_all("renew"),
    )
