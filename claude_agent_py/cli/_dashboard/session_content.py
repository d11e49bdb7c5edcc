"""The content of one session: its conversation as lines, and its timeline as a page in a private file.

Sessions of this machine are read from their transcripts, other fleet sessions from the events in the database of the
fleet. All functions block.
"""

import os
import re
import sys
import tempfile
import webbrowser
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final

from rich.text import Text
from textual.widgets import RichLog

from claude_agent_py._base.errors import ClaudeAgentError, OptionsError
from claude_agent_py.cli._dashboard.machine import is_message
from claude_agent_py.cli._dashboard.rows import Row
from claude_agent_py.cli.sessions import render_conversation
from claude_agent_py.cli.terminal import one_line
from claude_agent_py.observe import Timeline
from claude_agent_py.permissions.requests import displayable
from claude_agent_py.sessions.folders import regular_file
from claude_agent_py.sessions.lines import Snapshot
from claude_agent_py.sessions.stored_session import get_session
from claude_agent_py.tasks.files.transcript import read_message

MAX_MESSAGES: Final = 200
"""The number of shown messages at the end of a conversation."""
MAX_BYTES: Final = 8_000_000
"""The number of bytes that are read from the end of a transcript."""
_UNSAFE: Final = re.compile(r"[^\w.-]+", re.ASCII)


def load_conversation(row: Row) -> list[str]:
    """Return the last lines of a conversation, safe to print in a terminal. Empty before the first message.

    Raises:
        FleetError: The database does not respond.
    """
    if row.path:
        messages = _read_last_messages(row.path)[::-1]
    elif row.load_messages is not None:
        messages = row.load_messages(MAX_MESSAGES)
    else:
        messages = []
    return [displayable(line, 20_000) for line in render_conversation(messages)]


def get_version(row: Row) -> object:
    """Return a value that changes when a conversation grows, without reading the conversation."""
    if row.path:
        status = regular_file(row.path)
        return None if status is None else (status.st_ino, status.st_size)
    return row.facts.get("events", row.since)


def _read_last_messages(path: str) -> list[object]:
    """Return the last messages of a transcript in reverse order, including abandoned branches."""
    status = regular_file(path)
    snapshot = Snapshot(path, status.st_size if status else 0)
    messages: list[object] = []
    # The file may have been removed in the meantime. A line that is not a message is skipped.
    with suppress(OSError):
        for at, line in snapshot.backwards():
            if snapshot.size - at > MAX_BYTES or len(messages) == MAX_MESSAGES:
                break
            if line is not None and is_message(line):
                with suppress(ValueError):
                    messages.append(read_message(line)[0])
    return messages


def write_timeline(row: Row, config_dir: str | None) -> str:
    """Write the timeline of a session to a file that only this user can read, and return its path.

    Raises:
        ClaudeAgentError: The session has no messages yet, or cannot be read.
    """
    if row.path:
        timeline = Timeline.from_session(get_session(row.session_id, config_dir=config_dir))
    elif row.load_messages is not None:
        timeline = Timeline.from_messages(row.load_messages(None), title=row.title)
    else:
        raise ClaudeAgentError("the session has no messages yet")
    name = _UNSAFE.sub("-", row.fleet_id or row.session_id)[:60]
    try:
        # Only this user can read the new folder.
        folder = tempfile.mkdtemp(prefix="claude-agent-py-watch-")
    except OSError as error:
        raise OptionsError(f"cannot create a temporary folder: {error.strerror}") from error
    path = os.path.join(folder, f"{name}.html")
    timeline.save(path)
    return path


def open_in_browser(path: str) -> bool:
    """Open a page in a browser. Return False without a display or a browser."""
    if sys.platform == "linux" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        # Without a display, `webbrowser` may start a text browser, which would disturb the dashboard in the terminal.
        return False
    try:
        return webbrowser.open(f"file://{path}")
    except webbrowser.Error:
        return False


Work = Callable[[Callable[[], Any], Callable[[Any], None]], None]
"""Calls the first function in a thread, then the second one in the application with the result."""


class ConversationView(RichLog):
    """Shows the conversation of one session. Hidden if no session is selected.

    Args:
        work: Runs blocking work in a thread.
    """

    def __init__(self, work: Work) -> None:
        super().__init__(id="conversation", wrap=True, markup=False, highlight=False)
        self._work = work
        self.key: str | None = None
        """The key of the shown row."""
        self._version: object = None
        """The version of the conversation that was read last."""
        self._is_reading = False

    def toggle(self, row: Row | None) -> None:
        """Show the conversation of a row. Hide it if it is already shown, or if the row has no conversation."""
        if row is not None and (row.path or row.load_messages) and row.key != self.key:
            self.key = row.key
        else:
            self.key = None
        self._version = None
        self.clear()
        self.display = self.key is not None

    def update_from(self, rows: Iterable[Row]) -> None:
        """Read the conversation of the shown row if it has grown."""
        row = next((row for top in rows for row in top.walk() if row.key == self.key), None)
        if row is None or self._is_reading:
            return
        version = get_version(row)
        if version == self._version:
            return
        self._is_reading = True
        self._version = version
        self._work(lambda: (row.key, self._read(row)), self._show)

    def _read(self, row: Row) -> list[str]:
        try:
            return load_conversation(row)
        except (ClaudeAgentError, OSError) as error:
            return [one_line(str(error), 300)]

    def _show(self, result: tuple[str, list[str]]) -> None:
        key, lines = result
        self._is_reading = False
        if key == self.key:
            self.clear()
            self.write(Text("\n".join(lines) or "no messages yet"))
