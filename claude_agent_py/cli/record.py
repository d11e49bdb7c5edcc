"""The `record` command: run a prompt and record all frames exchanged with the CLI.

A recording consists of JSON lines: `t` is the time in seconds since the start, `dir` is `in` for frames to the CLI and
`out` for frames from the CLI, and `m` is the frame. Secrets are redacted as in the wire log.
"""

import argparse
import json
import logging
import sys
import time
from typing import Final, TextIO

from claude_agent_py._base.private_files import open_private
from claude_agent_py._connection import wire_log
from claude_agent_py.cli import run_command

DIRECTIONS: Final = {"<-": "out", "->": "in"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `record`."""
    parser.add_argument("file", help="the file to write, which must not exist")
    run_command.add_arguments(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Run a prompt like `run`, record its frames, and return the exit code."""
    try:
        file = open_private(arguments.file, must_be_new=True)
    except OSError as error:
        print(f"claude-agent-py: cannot write {arguments.file}: {error.strerror}", file=sys.stderr)
        return run_command.WRONG_ARGUMENTS
    logger = wire_log.logger
    level = logger.level
    propagate = logger.propagate
    with file:
        writer = _Writer(file)
        logger.addHandler(writer)
        logger.setLevel(wire_log.BODIES)
        logger.propagate = False
        try:
            return run_command.execute(arguments)
        finally:
            logger.propagate = propagate
            logger.setLevel(level)
            logger.removeHandler(writer)


class _Writer(logging.Handler):
    """Writes the frames of the wire log."""

    def __init__(self, file: TextIO) -> None:
        super().__init__(wire_log.BODIES)
        self._file = file
        self._began = time.monotonic()

    def emit(self, record: logging.LogRecord) -> None:
        direction, kind, _name, size, *body = record.args if isinstance(record.args, tuple) else ("", "", "", 0)
        at = round(time.monotonic() - self._began, 3)
        if body:
            line = {"t": at, "dir": DIRECTIONS[str(direction)], "m": json.loads(str(body[0]))}
        else:
            # The wire log omits the body of a frame that is too large for it.
            line = {"t": at, "dir": "note", "m": f"{direction} {kind} {size} bytes were not recorded"}
        self._file.write(json.dumps(line, ensure_ascii=False) + "\n")
