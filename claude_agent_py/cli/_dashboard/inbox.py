"""`InboxView`: what waits for a person in an inbox file."""

import os
from collections.abc import Sequence
from pathlib import Path

from claude_agent_py._errors import OptionsError
from claude_agent_py.cli._dashboard.rows import Row
from claude_agent_py.cli.terminal import one_line
from claude_agent_py.permissions.inbox_sqlite import SQLiteInbox
from claude_agent_py.permissions.interactions import Interaction


class InboxView:
    """An inbox in a file, which is never made."""

    def __init__(self, path: str) -> None:
        self.name = os.path.basename(path)
        self._path = Path(path).expanduser()
        self._inode = 0
        self._inbox: SQLiteInbox | None = None

    def look(self) -> tuple[Sequence[Row], Sequence[Interaction]]:
        """Return what waits, oldest first. Blocks; raises OptionsError if there is no such inbox."""
        try:
            inode = self._path.stat().st_ino
        except OSError:
            raise OptionsError(f"there is no file {self._path}") from None
        if self._inbox is None or inode != self._inode:
            self._inbox, self._inode = SQLiteInbox(self._path), inode
        return (), list(self._inbox)


def inbox_row(name: str, questions: list[Interaction], problem: str) -> Row:
    """Return the row of an inbox, with the questions of sessions that are not shown elsewhere."""
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
            told={"kind": "interaction", "session_id": one.session_id or "", "id": one.id},
        )
        for one in questions
    ]
    about = [problem] if problem else [f"{len(rows)} wait"]
    return Row(key="inbox", kind="inbox", title=one_line(name), about=tuple(about), children=tuple(rows))
