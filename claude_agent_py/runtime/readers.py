"""Who reads all messages of the session, or all that happens in it, and what waits for the first who will.

Owns the mailboxes of `Client.messages()` and `Client.events()`, and the order of what happens beside the messages. What
belongs to a run goes to the run as well, by other ways.
"""

import threading
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

from claude_agent_py.protocol.events import MessageReceived
from claude_agent_py.runtime.mailbox import Mailbox
from claude_agent_py.streams import QUEUE_LIMIT
from claude_agent_py.tasks.events import TaskProgressed

if TYPE_CHECKING:
    from claude_agent_py.client import Client
    from claude_agent_py.runtime.session import Session

if TYPE_CHECKING:  # they are loaded where a session can ask somebody
    from claude_agent_py.permissions.interactions import Interaction, InteractionOpened, InteractionSettled


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
        self._of_events: tuple[Mailbox, ...] = ()
        """Those of the mailboxes that receive events, too. Replaced, never changed."""
        self._caused: dict[int, tuple[Any, Sequence[Any]]] = {}
        """The events that messages caused which no reader has received yet, by the identity of the message."""
        self._open: dict[str, Interaction] = {}
        """The questions that wait for a person."""

    def put(self, event: MessageReceived) -> None:
        """Give a message to every reader; without one, keep it if no run has it."""
        for mailbox in self._mailboxes:
            mailbox.put(event.message, event.line)
        if not event.runs and not self._mailboxes:
            self._keep(event)
        if self._caused:
            _, events = self._caused.pop(id(event.message), (None, ()))
            self._put_events(events)

    @property
    def has_event_readers(self) -> bool:
        """Whether anyone reads events."""
        return bool(self._of_events)

    def announce_events(self, events: Sequence[Any], cause: Any = None) -> None:
        """Give events to who wants them; where a message that is still to be put is their cause, after that one."""
        if not self._of_events:
            return
        if cause is not None:
            self._caused[id(cause)] = (cause, events)
        else:
            self._put_events(events)

    def _put_events(self, events: Sequence[Any]) -> None:
        for event in events:
            may_be_left_out = isinstance(event, TaskProgressed)
            for mailbox in self._of_events:
                if not may_be_left_out or len(mailbox) < QUEUE_LIMIT:
                    mailbox.announce(event)

    def announce_interaction(self, event: "InteractionOpened | InteractionSettled") -> None:
        """Give what happened to a question that waits for a person."""
        from claude_agent_py.permissions.interactions import InteractionOpened

        if isinstance(event, InteractionOpened):
            self._open[event.interaction.id] = event.interaction
        else:
            self._open.pop(event.interaction.id, None)
        self._put_events([event])

    def announce(self, thing: Any) -> None:
        """Give something that did not come over the wire."""
        for mailbox in self._mailboxes:
            mailbox.announce(thing)
        if not self._mailboxes:
            self._keep(MessageReceived(thing, (), b""))

    def _keep(self, event: MessageReceived) -> None:
        """Keep a message for the first reader; the oldest are forgotten when they are too many or too big."""
        self._unclaimed.append(event)
        self._unclaimed_bytes += len(event.line)
        while len(self._unclaimed) > self._most_unclaimed or self._unclaimed_bytes > self._mailbox_bytes:
            self._unclaimed_bytes -= len(self._unclaimed.popleft().line)

    def add(self, *, events: bool = False) -> Mailbox:
        """Return a mailbox that receives every message from now on; the first one also what nobody has claimed.

        With `events` it also receives what happens to tasks and to questions that wait for a person.
        """
        mailbox = Mailbox(self._mailbox_bytes)
        for event in self._unclaimed:
            mailbox.put(event.message, event.line)
        self._unclaimed.clear()
        self._unclaimed_bytes = 0
        with self._changing:
            self._mailboxes = (*self._mailboxes, mailbox)
            if events:
                self._of_events = (*self._of_events, mailbox)
        if self._ended:
            mailbox.close()
        return mailbox

    def remove(self, mailbox: Mailbox) -> None:
        """Stop filling a mailbox, and drop what it holds."""
        with self._changing:
            self._mailboxes = tuple(other for other in self._mailboxes if other is not mailbox)
            self._of_events = tuple(other for other in self._of_events if other is not mailbox)
        mailbox.discard()

    def end(self) -> None:
        """No more messages will come; `end_events` follows when nothing else will, either."""
        self._ended = True
        for mailbox in self._mailboxes:
            if mailbox not in self._of_events:
                mailbox.close()

    def end_events(self) -> None:
        """Nothing at all will come."""
        for _, events in self._caused.values():
            self._put_events(events)
        self._caused.clear()
        if self._open:
            from claude_agent_py.permissions.interactions import InteractionSettled

            self._put_events([InteractionSettled(each, was_answered=False) for each in self._open.values()])
            self._open.clear()
        for mailbox in self._of_events:
            mailbox.close()


class SessionMessages:
    """Every message of a session, through a mailbox of its own. Ends as the session does: well, or with its error.

    Args:
        client: Lives as long as this.
        session: The session.
        events: Whether what happens to tasks and questions comes as well.

    Raises:
        ConnectionClosedError: The session was not opened.
    """

    def __init__(self, client: "Client", session: "Session", *, events: bool = False) -> None:
        self._client = client
        self._session = session
        if session.launched is None:
            session.check_open()
        self._mailbox = session.readers.add(events=events)

    def __repr__(self) -> str:
        return f"<messages of a session, {len(self._mailbox)} waiting>"

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        message = self._mailbox.ready()
        return await self._next() if message is None else message

    async def _next(self) -> Any:
        try:
            return await self._mailbox.get()
        except StopAsyncIteration:
            if self._session.ended_well:
                raise
            raise self._session.end_error() from None

    def __del__(self) -> None:
        mailbox: Mailbox | None = vars(self).get("_mailbox")
        if mailbox is not None:
            self._session.readers.remove(mailbox)
