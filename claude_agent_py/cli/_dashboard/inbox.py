"""`InboxView`: the pending questions in an inbox file."""

import os
from collections.abc import Sequence
from pathlib import Path

from claude_agent_py._errors import OptionsError
from claude_agent_py.cli._dashboard.rows import Row
from claude_agent_py.cli.terminal import one_line
from claude_agent_py.permissions.inbox_sqlite import SQLiteInbox
from claude_agent_py.permissions.interactions import Interaction


class InboxView:
    """An inbox file. It is never created."""

    def __init__(self, path: str) -> None:
        self.name = os.path.basename(path)
        self._path = Path(path).expanduser()
        self._inode = 0
        self._inbox: SQLiteInbox | None = None

    def refresh(self) -> tuple[Sequence[Row], Sequence[Interaction]]:
        """Return the pending questions, oldest first. Blocks.

        Raises:
            OptionsError: The file does not exist or is not an inbox.
        """
        try:
            inode = self._path.stat().st_ino
        except OSError:
            raise OptionsError(f"file not found: {self._path}") from None
        # The file may have been replaced since the last refresh.
        if self._inbox is None or inode != self._inode:
            self._inbox = SQLiteInbox(self._path)
            self._inode = inode
        return (), list(self._inbox)


def build_inbox_row(name: str, questions: list[Interaction], problem: str) -> Row:
    """Return the row of an inbox, with questions of sessions that have no row."""
    rows = [
        Row(
            key=f"question:{one.id}",
            kind="question",
            title=f"{one.kind} {one.id}",
            state="asks",
            since=one.created_at,
            about=(f"session {one_line(one.session_id)}",) if one.session_id else (),
            questions=(one,),
            session_id=one.session_id or "",
            facts={"kind": "interaction", "session_id": one.session_id or "", "id": one.id},
        )
        for one in questions
    ]
    about = problem or f"{len(rows)} pending"
    return Row(key="inbox", kind="inbox", title=one_line(name), about=(about,), children=tuple(rows))
