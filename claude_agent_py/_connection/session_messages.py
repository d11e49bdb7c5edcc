"""`SessionMessages`: the iterator of `Client.messages()` and `Client.events()`."""

from collections.abc import AsyncIterator
from typing import Any

from claude_agent_py._connection.connection import Connection
from claude_agent_py._connection.runs.mailbox import Mailbox


class SessionMessages(AsyncIterator[Any]):
    """An iterator over every message of a session. It ends with the session, and raises its error.

    Args:
        client: Kept alive by the iterator.
        session: The session.
        events: Whether to include the events of tasks and of the inbox.

    Raises:
        ConnectionClosedError: The session was not opened.
    """

    def __init__(self, client: object, connection: Connection, *, events: bool = False) -> None:
        self._client = client
        self._connection = connection
        if connection.launched is None:
            connection.check_open()
        self.mailbox: Mailbox = connection.readers.add(events=events)

    def __repr__(self) -> str:
        return f"<messages of a session, {len(self.mailbox)} waiting>"

    async def __anext__(self) -> Any:
        message = self.mailbox.get_nowait()
        if message is not None:
            return message
        try:
            return await self.mailbox.get()
        except StopAsyncIteration:
            if self._connection.went_well:
                raise
            raise self._connection.error from None

    def __del__(self) -> None:
        mailbox: Mailbox | None = vars(self).get("mailbox")
        if mailbox is not None:
            self._connection.readers.remove(mailbox)
