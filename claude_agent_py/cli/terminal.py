"""What the commands with a screen of their own (textual, extra `cli`) share."""

import importlib.util
import os
import sys
from typing import Final

HINT: Final = 'for a screen with panes: pip install "claude-agent-py[cli]"'


def can_show_screen() -> bool:
    """Return whether textual is installed, and this program reads from and writes to a terminal."""
    if os.environ.get("TERM") == "dumb":
        return False
    return sys.stdin.isatty() and sys.stdout.isatty() and importlib.util.find_spec("textual") is not None
