"""`TranscriptTailer`: reads a growing transcript. Each read continues at the end of the last one."""

import contextlib
import time
from collections.abc import Callable
from typing import Final

from claude_agent_py.cli.terminal import one_line
from claude_agent_py.sessions.folders import regular_file
from claude_agent_py.sessions.lines import Snapshot
from claude_agent_py.sessions.session import CostNote, read_cost
from claude_agent_py.sessions.stored_tasks import Launches, LaunchReader
from claude_agent_py.tasks.files.transcript import TranscriptMessage, read_message
from claude_agent_py.tasks.ledger.spending import Counts, Spending
from claude_agent_py.wire.messages.conversation import SYNTHETIC_MODEL, AssistantMessage

_MAX_CALLS: Final = 100
_KINDS: Final = (b'"type":"user"', b'"type":"assistant"')
_NOTE: Final = b'{"type":"'
_CHECK_EVERY: Final = 64
"""The number of lines between checks of the deadline."""


class TranscriptTailer:
    """The transcript of a subagent or of the main agent.

    Args:
        path: The transcript.
        launches: The tasks found in the transcripts of the session. This transcript adds its own.
        agent_id: The id of the subagent; None for the main agent.
        on_cost: Called with each cost that the CLI has recorded.
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
        """Whether the last read stopped before the end of the file."""
        self.reported: float | None = None
        """The last cost that the CLI recorded."""
        self._launches = launches
        self._agent_id = agent_id
        self._on_cost = on_cost
        self._inode = 0
        self._reset()

    def _reset(self) -> None:
        self._offset = 0
        self.reported = None
        self._spending = Spending()
        self._calls: dict[str, str] = {}
        self._reader = LaunchReader(self._launches, self._agent_id)

    @property
    def by_model(self) -> dict[str, Counts]:
        """The tokens by model."""
        return {model: counts for model, counts in self._spending.by_model.items() if model != SYNTHETIC_MODEL}

    @property
    def calls(self) -> str:
        """The tool calls in progress."""
        return ", ".join(self._calls.values())

    def read_new(self, deadline: float) -> bool:
        """Read new lines until the deadline on the monotonic clock. Return whether there were any.

        A removed file has no new lines, and the known facts remain.
        """
        status = regular_file(self.path)
        if status is None:
            self.is_partial = False
            return False
        if status.st_ino != self._inode or status.st_size < self._offset:
            # The file was replaced or truncated.
            self._reset()
        self._inode = status.st_ino
        if status.st_size == self._offset:
            return False
        start = self._offset
        try:
            self._read(Snapshot(self.path, status.st_size), deadline)
        except OSError:
            # The file was removed, or belongs to another user.
            self.is_partial = False
        return self._offset != start

    def _read(self, snapshot: Snapshot, deadline: float) -> None:
        for number, (at, line) in enumerate(snapshot.forwards(self._offset)):
            self._offset = at
            if line is not None and at + len(line) >= snapshot.size:
                # The CLI is still writing the last line.
                self.is_partial = False
                return
            if number % _CHECK_EVERY == _CHECK_EVERY - 1 and time.monotonic() > deadline:
                self.is_partial = True
                return
            if line is not None:
                self._read_line(line)
        self._offset = snapshot.size
        self.is_partial = False

    def _read_line(self, line: bytes) -> None:
        self._launches.record_ends(line)
        if (cost := read_cost(line)) is not None:
            self.reported = cost.total_cost_usd
            self._on_cost(cost)
        elif _is_message(line):
            with contextlib.suppress(ValueError):
                self._read_message(read_message(line)[0])

    def _read_message(self, message: TranscriptMessage) -> None:
        self._reader.read(message)
        if isinstance(message, AssistantMessage):
            self._spending.add_message(message)
            for call in message.tool_uses:
                if len(self._calls) < _MAX_CALLS:
                    argument = call.input.get("file_path") or next(iter(call.input.values()), "")
                    self._calls[call.id] = one_line(f"{call.name} {argument}", 40)
            return
        results = message.tool_results
        if not results and not message.is_synthetic:
            # A new prompt. Interrupted calls of the last turn never get a result.
            self._calls.clear()
        for result in results:
            self._calls.pop(result.tool_use_id, None)


def _is_message(line: bytes) -> bool:
    """Return whether a line may be a message."""
    # Notes begin with their type, and some contain messages.
    if line.startswith(_NOTE):
        return line.startswith(_KINDS, 1)
    return any(kind in line for kind in _KINDS)
