"""`Lifeline`: has the kernel end a program when this process dies, even by SIGKILL. Linux only.

The program inherits the reading end of a pipe that is never written to, and this process keeps the writing end. The
reading end is in signal-driven mode (`O_ASYNC`, see fcntl(2)) and belongs to the program's process group, so when the
writing end closes, the kernel sends SIGTERM to that group.

PR_SET_PDEATHSIG would not do: it fires when the *thread* that started the program ends, and needs code between fork and
exec. A watchdog would be one more process, which can be killed as well.
"""

import contextlib
import os
import signal
import sys
from typing import Final

if sys.platform == "linux":
    import fcntl

_held: Final[set[int]] = set()
"""The writing ends that this process keeps."""


class Lifeline:
    """Ties one program to this process. Does nothing on other systems than Linux, or if the kernel cannot do it."""

    def __init__(self) -> None:
        self._inherited: int | None = None
        self._kept: int | None = None
        if sys.platform == "linux":
            self._inherited, self._kept = os.pipe()
            _held.add(self._kept)

    @property
    def pass_fds(self) -> tuple[int, ...]:
        """The descriptors that the program must inherit."""
        return () if self._inherited is None else (self._inherited,)

    def tie(self, pid: int) -> None:
        """Tie a program that has started and leads a process group. From now on the end of the lifeline ends it."""
        if sys.platform == "linux" and self._inherited is not None:
            with contextlib.suppress(OSError):  # some sandboxes lack it
                fcntl.fcntl(self._inherited, fcntl.F_SETOWN, -pid)
                fcntl.fcntl(self._inherited, fcntl.F_SETSIG, signal.SIGTERM)
                fcntl.fcntl(self._inherited, fcntl.F_SETFL, os.O_ASYNC)
            os.close(self._inherited)
            self._inherited = None

    def close(self) -> None:
        """Close it. Idempotent. A program that is tied and still runs gets SIGTERM."""
        for end in (self._inherited, self._kept):
            if end is not None:
                _held.discard(end)
                os.close(end)
        self._inherited = self._kept = None


def _drop_all() -> None:
    """Close the copies of a forked process, which must not keep programs alive when this process dies."""
    for end in _held:
        os.close(end)
    _held.clear()


if sys.platform == "linux":
    os.register_at_fork(after_in_child=_drop_all)
