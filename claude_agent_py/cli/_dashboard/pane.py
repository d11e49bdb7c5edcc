"""`ConversationPane`: the end of one session's conversation, read again when there is more of it."""

from collections.abc import Callable, Iterable
from typing import Any

from rich.text import Text
from textual.widgets import RichLog

from claude_agent_py._errors import ClaudeAgentError
from claude_agent_py.cli._dashboard.fleet import FleetView
from claude_agent_py.cli._dashboard.opening import conversation, version
from claude_agent_py.cli._dashboard.rows import Row
from claude_agent_py.cli.terminal import one_line

Work = Callable[[Callable[[], Any], Callable[[Any], None]], None]
"""Calls the first in a thread, and the second in the application with what it returns."""


class ConversationPane(RichLog):
    """Shows one conversation, or is hidden.

    Args:
        fleet: The fleet whose sessions may be shown.
        work: How to read without holding up the application.
    """

    def __init__(self, fleet: FleetView | None, work: Work) -> None:
        super().__init__(id="conversation", wrap=True, markup=False, highlight=False)
        self._fleet = fleet
        self._work = work
        self.key: str | None = None
        """That of the row whose conversation is shown."""
        self._version: object = None
        """What was there when it was read."""
        self._is_reading = False

    def turn_to(self, row: Row | None) -> None:
        """Show the conversation of a row; hide it if it is shown, or if the row has none."""
        has_one = row is not None and bool(row.path or row.fleet_id)
        self.key = row.key if row is not None and has_one and row.key != self.key else None
        self._version = None
        self.clear()
        self.display = self.key is not None

    def look(self, rows: Iterable[Row]) -> None:
        """Read the conversation if there is more of it."""
        row = next((row for top in rows for row in top.walk() if row.key == self.key), None)
        if row is None or self._is_reading or (is_at := version(row)) == self._version:
            return
        self._is_reading, self._version = True, is_at
        self._work(lambda: (row.key, self._read(row)), self._show)

    def _read(self, row: Row) -> list[str]:
        try:
            return conversation(row, self._fleet)
        except (ClaudeAgentError, OSError) as error:
            return [one_line(str(error), 300)]

    def _show(self, result: tuple[str, list[str]]) -> None:
        key, lines = result
        self._is_reading = False
        if key == self.key:
            self.clear()
            self.write(Text("\n".join(lines) or "nothing was said yet"))
