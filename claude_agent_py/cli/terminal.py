"""Output in a terminal: safe lines, and the marks of states."""

import sys
from collections.abc import Mapping
from typing import Final

from claude_agent_py._base import display

MARKS: Final[Mapping[str, tuple[str, str]]] = {
    "pending": ("·", "dim"),
    "queued": ("·", "blue"),
    "running": ("●", "cyan"),
    "busy": ("●", "cyan"),
    "paused": ("‖", "yellow"),
    "waiting": ("‖", "yellow"),
    "awaiting_user": ("?", "yellow"),
    "asks": ("?", "bold yellow"),
    "completed": ("✓", "green"),
    "failed": ("✗", "red"),
    "stopped": ("■", "magenta"),
    "cancelled": ("■", "magenta"),
}
"""The character and colour of each state of a task or session. Others are inactive."""
SHOWN_CHARS: Final = 70


def one_line(text: str, limit: int = SHOWN_CHARS) -> str:
    """Return a text as one line that is safe to print in a terminal, cut to `limit` characters."""
    return display.one_line(text, limit)


def print_text(text: str) -> None:
    """Print a text for programs as it is, and in a terminal so that it is safe."""
    print(display.displayable(text, None) if sys.stdout.isatty() else text)
