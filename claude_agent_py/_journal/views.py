"""`View`, the base of what reads facts: spans, the to-do list, telemetry, an editor. A view pairs nothing."""

from collections.abc import Sequence
from typing import Any

from claude_agent_py._journal.facts import Fact
from claude_agent_py.wire.messages.conversation import UserMessage


class View:
    """Gets the facts of a session, starting with what is open when it begins to observe.

    `LiveJournal.observe` shows it a running session. A stream of messages from elsewhere goes through `_fold`.
    """

    _journal: Any = None
    """The `Journal` of a stream from elsewhere; None in a session."""

    def sent(self, prompt: "UserMessage") -> None:
        """Called when a prompt is sent, in the context of the sender and before its fact."""

    def add(self, facts: "Sequence[Fact]") -> None:
        """Called with new facts."""

    def finish(self, at: float | None = None) -> None:
        """Called at the end of the session, or when the view is removed. `at` is in seconds since the epoch."""

    def _fold(self, message: object, at: float | None = None, *, sent: bool = False) -> "list[Fact]":
        """Return the facts of a message of a stream from elsewhere."""
        if self._journal is None:
            from claude_agent_py._journal.fold import Journal  # sessions have theirs, and most programs need none

            self._journal = Journal()
        facts: list[Fact] = self._journal.feed(message, at, sent=sent)
        return facts

    def _fold_end(self) -> "list[Fact]":
        """Return the facts that the end of that stream shows."""
        facts: list[Fact] = [] if self._journal is None else self._journal.finish()
        return facts
