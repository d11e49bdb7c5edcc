"""What is shown of one session: its conversation as lines, and its timeline as a page in a private file.

Sessions of this machine are read from their transcripts. Those of a fleet that run elsewhere are read from the events
in its database. All calls block.
"""

import os
import re
import sys
import tempfile
import webbrowser
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from claude_agent_py._errors import ClaudeAgentError, OptionsError
from claude_agent_py.cli._dashboard.fleet import FleetView
from claude_agent_py.cli._dashboard.rows import Row
from claude_agent_py.cli.sessions import conversation_lines
from claude_agent_py.observe import Timeline
from claude_agent_py.permissions.requests import displayable
from claude_agent_py.sessions.folders import regular_file
from claude_agent_py.sessions.lines import Snapshot
from claude_agent_py.sessions.session import get_session
from claude_agent_py.tasks.files.transcript import read_message

MOST_MESSAGES: Final = 200
"""How many messages of a conversation are shown, the last ones."""
MOST_BYTES: Final = 8_000_000
"""How much of the end of a transcript is read for them."""
_ODD: Final = re.compile(r"[^\w.-]+", re.ASCII)


def conversation(row: Row, fleet: FleetView | None) -> list[str]:
    """Return the end of a conversation, safe to print in a terminal. Empty if there is none yet.

    Raises:
        FleetError: The database does not answer.
    """
    if row.path:
        messages = list(_last_messages(row.path))[::-1]
    elif row.fleet_id and fleet is not None:
        messages = list(fleet.messages(row.fleet_id, last=MOST_MESSAGES))
    else:
        messages = []
    return [displayable(line, 20_000) for line in conversation_lines(messages)]


def version(row: Row) -> object:
    """Return what differs once there is more of a conversation, without reading it."""
    if row.path:
        status = regular_file(row.path)
        return status and (status.st_ino, status.st_size)
    return row.told.get("events", row.since)


def _last_messages(path: str) -> Iterator[Any]:
    """Yield the last messages of a transcript, the last first, abandoned branches included."""
    status = regular_file(path)
    snapshot = Snapshot(path, status.st_size if status else 0)
    try:
        yield from islice(_backwards(snapshot), MOST_MESSAGES)
    except OSError:  # it was removed meanwhile
        return


def _backwards(snapshot: Snapshot) -> Iterator[Any]:
    for at, line in snapshot.backwards():
        if snapshot.size - at > MOST_BYTES:
            return
        if line is None or line.startswith(b'{"type":"') or b'"message":' not in line:
            continue
        try:
            yield read_message(line)[0]
        except ValueError:
            continue


def write_page(row: Row, fleet: FleetView | None, config_dir: str | None) -> str:
    """Write the timeline of a session to a file that only this user can read, and return its path.

    Raises:
        ClaudeAgentError: There is nothing to show, or it cannot be read.
    """
    if row.path:
        timeline = Timeline.from_session(get_session(row.session_id, config_dir=config_dir))
    elif row.fleet_id and fleet is not None:
        timeline = Timeline.from_messages(fleet.messages(row.fleet_id), title=row.title)
    else:
        raise ClaudeAgentError("nothing was written of this session yet")
    name = _ODD.sub("-", row.fleet_id or row.session_id)[:60]
    try:
        folder = tempfile.mkdtemp(prefix="claude-agent-py-watch-")  # for this user only
    except OSError as error:
        raise OptionsError(f"no temporary file can be written: {error.strerror}") from error
    path = os.path.join(folder, f"{name}.html")
    timeline.save(path)
    return path


def open_in_browser(path: str) -> bool:
    """Open a page in a browser and return whether that was possible: there is a display, and a browser."""
    if sys.platform == "linux" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return False  # a browser in the terminal would fight with the dashboard for it
    try:
        return webbrowser.open(f"file://{path}")
    except webbrowser.Error:
        return False
