"""Who reads all messages of the session, and what waits for the first who will.

Owns the mailboxes of `Client.messages()`. What belongs to a run goes to the run as well, by other ways.
"""

import threading
from collections import deque
from typing import Any

from claude_agent_py.protocol.events import MessageReceived
from claude_agent_py.runtime.mailbox import Mailbox


class Readers:
    """The readers of a session's messages.

    Args:
        mailbox_bytes: How much may wait in memory for each, and for the first before there is one.
        most_unclaimed: How many messages that belong to no run are kept for the first.
    """

    def __init__(self, mailbox_bytes: int, most_unclaimed: int) -> None:
        self._mailbox_bytes = mailbox_bytes
        self._most_unclaimed = most_unclaimed
        self._mailboxes: tuple[Mailbox, ...] = ()
        """Replaced, never changed: a reader may be dropped at any time, in any thread, while these are gone through."""
        self._changing = threading.RLock()
        self._unclaimed: deque[MessageReceived] = deque()
        self._unclaimed_bytes = 0
        self._ended = False

    def put(self, event: MessageReceived) -> None:
        """Give a message to every reader; without one, keep it if no run has it."""
        for mailbox in self._mailboxes:
            mailbox.put(event.message, event.size, event.line)
        if not event.runs and not self._mailboxes:
            self._keep(event)

    def announce(self, thing: Any) -> None:
        """Give something that did not come over the wire."""
        for mailbox in self._mailboxes:
            mailbox.put_local(thing)
        if not self._mailboxes:
            self._keep(MessageReceived(thing, (), 0))

    def _keep(self, event: MessageReceived) -> None:
        """Keep a message for the first reader; the oldest are forgotten when they are too many or too big."""
        self._unclaimed.append(event)
        self._unclaimed_bytes += event.size
        while len(self._unclaimed) > self._most_unclaimed or self._unclaimed_bytes > self._mailbox_bytes:
            self._unclaimed_bytes -= self._unclaimed.popleft().size

    def add(self) -> Mailbox:
        """Give a mailbox that receives every message from now on; the first one also what nobody has claimed."""
        mailbox = Mailbox(self._mailbox_bytes)
        for event in self._unclaimed:
            mailbox.put(event.message, event.size, event.line)
        self._unclaimed.clear()
        self._unclaimed_bytes = 0
        with self._changing:
            self._mailboxes = (*self._mailboxes, mailbox)
        if self._ended:
            mailbox.end()
        return mailbox

    def remove(self, mailbox: Mailbox) -> None:
        """Stop filling a mailbox, and drop what it holds."""
        with self._changing:
            self._mailboxes = tuple(other for other in self._mailboxes if other is not mailbox)
        mailbox.discard()

    def end(self) -> None:
        """Nothing more will come."""
        self._ended = True
        for mailbox in self._mailboxes:
            mailbox.end()
