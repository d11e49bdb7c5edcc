"""`Readers`: the mailboxes of `Client.messages()` and `Client.events()`, and the messages kept for the first reader."""

import threading
from collections import deque
from collections.abc import Sequence

from claude_agent_py import permissions  # loads on first use: only sessions with an inbox need it
from claude_agent_py._connection.runs.mailbox import Mailbox
from claude_agent_py.tasks.listeners import has_room
from claude_agent_py.wire.codec import line_of


class Readers:
    """The readers of a session's messages.

    Args:
        mailbox_bytes: How many bytes may wait in memory for each reader, and for the first one in advance.
        most_unclaimed: How many messages outside of runs are kept for the first reader.
    """

    def __init__(self, mailbox_bytes: int, most_unclaimed: int) -> None:
        self._mailbox_bytes = mailbox_bytes
        self._most_unclaimed = most_unclaimed
        self.mailboxes: dict[Mailbox, bool] = {}
        """Whether each also receives events. Replaced, never mutated: a reader may be dropped in any thread while they
        are iterated."""
        self.were_added: bool = False
        """Whether the session has had a reader."""
        self._changing = threading.RLock()
        self._unclaimed: deque[object] = deque()
        """The messages outside of runs that the first reader will receive."""
        self._unclaimed_bytes = 0
        self._ended = False
        self._open: dict[str, permissions.Interaction] = {}
        """The questions that wait for a person."""

    def put(self, message: object, *, is_of_run: bool = False) -> None:
        """Deliver a message, or an item that the CLI did not send, to every reader.

        Without readers, keep it for the first one unless a run has received it, and drop the oldest beyond the limits.
        """
        for mailbox in self.mailboxes:
            mailbox.put(message)
        if is_of_run or self.mailboxes:
            return
        self._unclaimed.append(message)
        self._unclaimed_bytes += len(line_of(message))
        while len(self._unclaimed) > self._most_unclaimed or self._unclaimed_bytes > self._mailbox_bytes:
            self._unclaimed_bytes -= len(line_of(self._unclaimed.popleft()))

    @property
    def has_event_readers(self) -> bool:
        """Whether anyone reads events."""
        return True in self.mailboxes.values()

    def put_events(self, events: Sequence[object]) -> None:
        """Deliver events to their readers, except those that a reader of facts has got as facts."""
        for event in events:
            number = getattr(event, "number", 0)
            for mailbox, takes_events in self.mailboxes.items():
                is_known = 0 < number <= mailbox.latest_fact
                if takes_events and not is_known and has_room(event, len(mailbox)):
                    mailbox.put(event)

    def announce_interaction(self, event: "permissions.InteractionOpened | permissions.InteractionSettled") -> None:
        """Deliver an event of the inbox."""
        if isinstance(event, permissions.InteractionOpened):
            self._open[event.interaction.id] = event.interaction
        else:
            self._open.pop(event.interaction.id, None)
        self.put_events([event])

    def add(self, *, events: bool = False) -> Mailbox:
        """Return a mailbox that receives every message from now on. The first one also receives the kept messages.

        With `events` it also receives the events of tasks and of the inbox.
        """
        self.were_added = True
        mailbox = Mailbox(self._mailbox_bytes)
        for message in self._unclaimed:
            mailbox.put(message)
        self._unclaimed.clear()
        self._unclaimed_bytes = 0
        with self._changing:
            self.mailboxes = {**self.mailboxes, mailbox: events}
        if self._ended:
            mailbox.close()
        return mailbox

    def remove(self, mailbox: Mailbox) -> None:
        """Stop filling a mailbox."""
        with self._changing:
            self.mailboxes = {other: events for other, events in self.mailboxes.items() if other is not mailbox}
        mailbox.close()

    def end(self) -> None:
        """End the messages. `end_events` follows after the last event."""
        self._ended = True
        for mailbox, takes_events in self.mailboxes.items():
            if not takes_events:
                mailbox.close()

    def end_events(self) -> None:
        """End the events."""
        if self._open:
            self.put_events([permissions.InteractionSettled(each, was_answered=False) for each in self._open.values()])
            self._open.clear()
        for mailbox, takes_events in self.mailboxes.items():
            if takes_events:
                mailbox.close()
