"""`TaskFile`: a file of a task, which knows who has to own it.

Any program that the model ran may have written the file, so it is opened with `_base.bounded_reading`, and a symbolic
link in its place is refused. Only the output of a subagent may be one: it is a link to the subagent's transcript.
"""

import os
from collections.abc import Iterator
from pathlib import PurePath

from msgspec import Struct

from claude_agent_py._base.bounded_reading import MOST_BYTES, read_bytes, read_lines

SUBAGENTS = "subagents"
"""The folder of a session that has the transcripts of its subagents."""


def transcript_name(agent_id: str) -> str:
    """Return the name of a subagent's transcript."""
    return f"agent-{agent_id}.jsonl"


class TaskFile(Struct, frozen=True):
    """A file of a task. Reading it blocks, and raises OSError if it cannot be read or is another user's."""

    path: str
    uid: int | None = None
    """The user of the CLI, if it is another one, who may only show files of his; None means any."""
    agent_id: str | None = None
    """The subagent to whose transcript it may be a link; None means that it may not be a link."""

    def resolve(self) -> str:
        """Return the path to open without following a link: the subagent's transcript if it is a link to that."""
        if self.agent_id is None or not os.path.islink(self.path):
            return self.path
        target = PurePath(os.path.realpath(self.path))
        is_transcript = target.name == transcript_name(self.agent_id) and SUBAGENTS in target.parts
        return str(target) if is_transcript else self.path

    def read(self, *, tail_bytes: int | None = None, most_bytes: int = MOST_BYTES) -> tuple[bytes, int]:
        """Return the content and the size of the file, as `read_bytes` does."""
        return read_bytes(
            self.resolve(), tail_bytes=tail_bytes, most_bytes=most_bytes, uid=self.uid, follow_links=False
        )

    def lines(self) -> Iterator[bytes]:
        """Yield the lines, as `read_lines` does."""
        return read_lines(self.resolve(), uid=self.uid)
