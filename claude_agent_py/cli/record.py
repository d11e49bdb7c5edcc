"""Record all frames that are exchanged with the CLI, for `run --record`.

A recording consists of JSON lines: `t` is the time in seconds since the start, `dir` is `in` for frames to the CLI and
`out` for frames from the CLI, and `m` is the frame. Secrets are redacted as in the wire log.
"""

import contextlib
import json
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TextIO

from claude_agent_py._base.errors import OptionsError
from claude_agent_py._base.log import get_logger
from claude_agent_py._base.private_files import open_private

log: logging.Logger = get_logger(__name__)

DIRECTIONS: Final = {"<-": "out", "->": "in"}
BODIES: Final = 5
"""The level at which the wire log has the bodies of frames."""


@contextmanager
def record_frames(path: str) -> Iterator[None]:
    """Write the frames of all sessions to a new file that only this user can read.

    Raises:
        OptionsError: The file exists or cannot be written.
    """
    try:
        file = open_private(path, must_be_new=True)
    except OSError as error:
        raise OptionsError(f"cannot write {path}: {error.strerror}", option="--record") from None
    logger = logging.getLogger("claude_agent_py.wire")
    level, propagate = logger.level, logger.propagate
    writer = _Writer(file, path)
    logger.addHandler(writer)
    logger.setLevel(BODIES)
    logger.propagate = False
    try:
        yield
    finally:
        logger.propagate = propagate
        logger.setLevel(level)
        logger.removeHandler(writer)
        with contextlib.suppress(OSError):  # each frame was flushed; one that could not be was reported
            file.close()


class _Writer(logging.Handler):
    """Writes the frames of the wire log, until one cannot be written. The session goes on without a recording."""

    def __init__(self, file: TextIO, path: str) -> None:
        super().__init__(BODIES)
        self._file = file
        self._path = path
        self._began = time.monotonic()

    def emit(self, record: logging.LogRecord) -> None:
        direction, kind, _name, size, *body = record.args if isinstance(record.args, tuple) else ("", "", "", 0)
        at = round(time.monotonic() - self._began, 3)
        if body:
            line = {"t": at, "dir": DIRECTIONS[str(direction)], "m": json.loads(str(body[0]))}
        else:
            # The wire log omits the body of a frame that is too large or too deep for it.
            line = {"t": at, "dir": "note", "m": f"{direction} {kind} {size} bytes were not recorded"}
            log.warning("the recording %s lacks a frame, which is too large or too deep: %s bytes", self._path, size)
        try:
            self._file.write(json.dumps(line, ensure_ascii=False) + "\n")
            self._file.flush()
        except OSError as error:
            self.setLevel(logging.CRITICAL)  # a recording with a gap would tell another story
            log.warning("the recording %s is incomplete: %s", self._path, error.strerror or error)
