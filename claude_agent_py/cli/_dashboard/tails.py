"""`Tail`: what a growing transcript says, read on from where the last look ended, so that a look costs what is new."""

import contextlib
import time
from collections.abc import Callable
from typing import Final

from claude_agent_py.cli.terminal import one_line
from claude_agent_py.sessions.folders import regular_file
from claude_agent_py.sessions.lines import Snapshot
from claude_agent_py.sessions.stored_tasks import Launches, LaunchReader
from claude_agent_py.sessions.usage import CostNote, read_cost
from claude_agent_py.tasks.files.transcript import TranscriptMessage, read_message
from claude_agent_py.tasks.ledger.spending import Counts, Spending
from claude_agent_py.wire.messages.conversation import SYNTHETIC_MODEL, AssistantMessage

_MOST_CALLS: Final = 100
_KINDS: Final = (b'"type":"user"', b'"type":"assistant"')
_NOTE: Final = b'{"type":"'
_CHECK_EVERY: Final = 64
"""Lines between looks at the clock."""


class Tail:
    """One transcript: that of a subagent, or of the main agent.

    Args:
        path: The transcript.
        launches: What the session's transcripts say of its tasks; this one is added to it.
        agent_id: The subagent; None for the main agent.
        on_cost: Called with the CLI's notes on the cost.
    """

    def __init__(
        self,
        path: str,
        launches: Launches,
        agent_id: str | None = None,
        on_cost: Callable[[CostNote], object] = lambda note: None,
    ) -> None:
        self.path = path
        self.is_partial = False
        """Whether the last look ended before the end of the file."""
        self.reported: float | None = None
        """The cost that the CLI noted last."""
        self._launches = launches
        self._agent_id = agent_id
        self._on_cost = on_cost
        self._inode = self._offset = 0
        self._begin()

    def _begin(self) -> None:
        self._offset, self.reported = 0, None
        self._spending = Spending()
        self._calls: dict[str, str] = {}
        self._reader = LaunchReader(self._launches, self._agent_id)

    @property
    def by_model(self) -> dict[str, Counts]:
        """The tokens by model."""
        return {model: counts for model, counts in self._spending.by_model.items() if model != SYNTHETIC_MODEL}

    @property
    def calls(self) -> str:
        """The tool calls without a result."""
        return ", ".join(self._calls.values())

    def look(self, deadline: float) -> bool:
        """Read what is new, until the deadline on the monotonic clock. Return whether there was anything.

        A file that is gone says nothing new.
        """
        status = regular_file(self.path)
        if status is None:
            self.is_partial = False
            return False
        if status.st_ino != self._inode or status.st_size < self._offset:
            self._begin()
        self._inode = status.st_ino
        if status.st_size == self._offset:
            return False
        began = self._offset
        try:
            self._read(Snapshot(self.path, status.st_size), deadline)
        except OSError:  # removed, or not ours
            self.is_partial = False
        return self._offset != began

    def _read(self, snapshot: Snapshot, deadline: float) -> None:
        for number, (at, line) in enumerate(snapshot.forwards(self._offset)):
            self._offset = at
            if line is not None and at + len(line) >= snapshot.size:
                self.is_partial = False
                return  # the CLI is still writing it
            if number % _CHECK_EVERY == _CHECK_EVERY - 1 and time.monotonic() > deadline:
                self.is_partial = True
                return
            if line is not None:
                self._take(line)
        self._offset, self.is_partial = snapshot.size, False

    def _take(self, line: bytes) -> None:
        self._launches.record_ends(line)
        if (cost := read_cost(line)) is not None:
            self.reported = cost.total_cost_usd
            self._on_cost(cost)
        elif _is_message(line):
            with contextlib.suppress(ValueError):
                self._fold(read_message(line)[0])

    def _fold(self, message: TranscriptMessage) -> None:
        self._reader.read(message)
        if isinstance(message, AssistantMessage):
            self._spending.add_message(message)
            for call in message.tool_uses:
                if len(self._calls) < _MOST_CALLS:
                    told = call.input.get("file_path") or next(iter(call.input.values()), "")
                    self._calls[call.id] = one_line(f"{call.name} {told}", 40)
            return
        results = message.tool_results
        if not results and not message.is_synthetic:
            self._calls.clear()  # a prompt: what was interrupted has no result
        for result in results:
            self._calls.pop(result.tool_use_id, None)


def _is_message(line: bytes) -> bool:
    """Return whether a line may be a message. Notes, some of which have messages in them, begin with their type."""
    return line.startswith(_KINDS, 1) if line.startswith(_NOTE) else any(kind in line for kind in _KINDS)
