"""Show tasks in a terminal: a live tree if `rich` (extra `cli`) is there, otherwise a line for each change."""

import importlib.util
import time
from collections.abc import Callable
from typing import TextIO

from claude_agent_py.cli.screen import Screen


def create_screen(out: TextIO, clock: Callable[[], float] = time.time) -> Screen:
    """Return a live tree if `out` is a terminal and `rich` is installed, otherwise plain lines.

    `clock` returns the time in seconds since the epoch, or 0 if it is unknown.
    """
    if not out.isatty() or importlib.util.find_spec("rich") is None:
        return Screen(out, clock)
    from claude_agent_py.cli.rich_tree import RichTree  # takes a tenth of a second

    return RichTree(out, clock)
