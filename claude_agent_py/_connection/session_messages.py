"""`SessionMessages`: the iterator of `Client.messages()` and `Client.events()`."""

from collections.abc import AsyncIterator
from typing import Any

from claude_agent_py._connection.runs.mailbox import Mailbox
from claude_agent_py._connection.session import Session


class SessionMessages(AsyncIterator[Any]):
    """An iterator over every message of a session. It ends with the session, and raises its error.

    Args:
        client: Kept alive by the iterator.
        session: The session.
        events: Whether to include the events of tasks and of the inbox.

    Raises:
        ConnectionClosedError: The session was not opened.
    """

    def __init__(self, client: object, session: Session, *, events: bool = False) -> None:
        self._client = client
        self._session = session
        if session.launched is None:
            session.check_open()
        self.mailbox: Mailbox = session.readers.add(events=events)

    def __repr__(self) -> str:
        return f"<messages of a session, {len(self.mailbox)} waiting>"

    async def __anext__(self) -> Any:
        message = self.mailbox.get_nowait()
        if message is not None:
            return message
        try:
            return await self.mailbox.get()
        except StopAsyncIteration:
            if self._session.went_well:
                raise
            raise self._session.error from None

    def __del__(self) -> None:
        mailbox: Mailbox | None = vars(self).get("mailbox")
        if mailbox is not None:
            self._session.readers.remove(mailbox)
