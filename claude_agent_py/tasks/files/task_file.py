"""`TaskFile`: a file of a task, which knows who has to own it.

Any program that the model ran may have written the file, so it is opened with `_base.bounded_reading`. Symbolic links
are followed: the output of a subagent is a link to its transcript.
"""

from collections.abc import Iterator

from msgspec import Struct

from claude_agent_py._base.bounded_reading import MOST_BYTES, read_bytes, read_lines


class TaskFile(Struct, frozen=True):
    """A file of a task. Reading it blocks, and raises OSError if it cannot be read or is another user's."""

    path: str
    uid: int | None = None
    """The user of the CLI, if it is another one, who may only show files of his; None means any."""

    def read(self, *, tail_bytes: int | None = None, most_bytes: int = MOST_BYTES) -> tuple[bytes, int]:
        """Return the content and the size of the file, as `read_bytes` does."""
        return read_bytes(self.path, tail_bytes=tail_bytes, most_bytes=most_bytes, uid=self.uid)

    def lines(self) -> Iterator[bytes]:
        """Yield the lines, as `read_lines` does."""
        return read_lines(self.path, uid=self.uid)
