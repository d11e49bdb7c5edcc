"""`View`, the base of what reads the facts of a session: spans, telemetry, an editor. A view pairs nothing.

`MessageFold` makes facts of messages that are from no session of this process.
"""

from collections.abc import Sequence

from claude_agent_py._journal.facts import Fact
from claude_agent_py._journal.fold import Journal
from claude_agent_py.wire.messages.conversation import UserMessage


class View:
    """Gets the facts of a session, starting with what is open when `Session.observe` adds it."""

    def sent(self, prompt: UserMessage) -> None:
        """Called when a prompt is sent, in the context of the sender and before its fact."""

    def add(self, facts: Sequence[Fact]) -> None:
        """Called with new facts."""

    def finish(self, at: float | None = None) -> None:
        """Called at the end of the session, or when the view is removed. `at` is in seconds since the epoch."""


class MessageFold:
    """Folds a stream of messages from elsewhere. It makes its journal at the first one."""

    def __init__(self) -> None:
        self._journal: Journal | None = None

    def feed(self, message: object, at: float | None = None, *, sent: bool = False) -> list[Fact]:
        """Return the facts of a message; `at` is in seconds since the epoch."""
        if self._journal is None:
            self._journal = Journal()
        return self._journal.feed(message, at, sent=sent)

    def finish(self) -> list[Fact]:
        """Return the facts that the end of the stream shows."""
        return [] if self._journal is None else self._journal.finish()
