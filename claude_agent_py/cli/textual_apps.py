"""What the commands that are applications in a terminal have in common. They need textual, of the extra `cli`."""

import importlib.util
import sys
from typing import Final

INSTALL: Final = 'pip install "claude-agent-py[cli]"'


def has_textual() -> bool:
    """Return whether textual is installed."""
    return importlib.util.find_spec("textual") is not None


def in_terminal() -> bool:
    """Return whether a person sits at a terminal: input and output are one."""
    return sys.stdin.isatty() and sys.stdout.isatty()
