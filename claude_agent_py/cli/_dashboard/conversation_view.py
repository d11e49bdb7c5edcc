"""`ConversationView`: the last messages of a session, read again when the conversation grows."""

from collections.abc import Callable, Iterable
from typing import Any

from rich.text import Text
from textual.widgets import RichLog

from claude_agent_py._errors import ClaudeAgentError
from claude_agent_py.cli._dashboard.fleet import FleetView
from claude_agent_py.cli._dashboard.rows import Row
from claude_agent_py.cli._dashboard.session_content import get_version, load_conversation
from claude_agent_py.cli.terminal import one_line

Work = Callable[[Callable[[], Any], Callable[[Any], None]], None]
"""Calls the first function in a thread, then the second one in the application with the result."""


class ConversationView(RichLog):
    """Shows the conversation of one session. Hidden if no session is selected.

    Args:
        fleet: The fleet whose sessions can be shown.
        work: Runs blocking work in a thread.
    """

    def __init__(self, fleet: FleetView | None, work: Work) -> None:
        super().__init__(id="conversation", wrap=True, markup=False, highlight=False)
        self._fleet = fleet
        self._work = work
        self.key: str | None = None
        """The key of the shown row."""
        self._version: object = None
        """The version of the conversation that was read last."""
        self._is_reading = False

    def toggle(self, row: Row | None) -> None:
        """Show the conversation of a row. Hide it if it is already shown, or if the row has no conversation."""
        if row is not None and (row.path or row.fleet_id) and row.key != self.key:
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
            return load_conversation(row, self._fleet)
        except (ClaudeAgentError, OSError) as error:
            return [one_line(str(error), 300)]

    def _show(self, result: tuple[str, list[str]]) -> None:
        key, lines = result
        self._is_reading = False
        if key == self.key:
            self.clear()
            self.write(Text("\n".join(lines) or "no messages yet"))
