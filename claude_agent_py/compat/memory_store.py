"""`InMemorySessionStore` of the official SDK."""

from claude_agent_py.compat.types import SessionStore
from claude_agent_py.sessions import (
    MemoryStore,
    SessionKey,
    SessionListSubkeysKey,
    SessionStoreEntry,
    SessionStoreListEntry,
    SessionSummaryEntry,
)


class InMemorySessionStore(SessionStore):
    """Keeps sessions in the memory of this process. It has no leases, so that subclasses may replace `append`."""

    def __init__(self) -> None:
        self.clear()

    def __repr__(self) -> str:
        return f"InMemorySessionStore({self._store!r})"

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Append entries to a transcript."""
        await self._store.append(key, entries)

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """Return the entries of a transcript, or None."""
        return await self._store.load(key)

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """Return the sessions of a project."""
        return await self._store.list_sessions(project_key)

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """Return the summaries of a project's sessions."""
        return await self._store.list_session_summaries(project_key)

    async def delete(self, key: SessionKey) -> None:
        """Delete a session or one of its transcripts."""
        await self._store.delete(key)

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """Return the subpaths of a session's other transcripts."""
        return await self._store.list_subkeys(key)

    def get_entries(self, key: SessionKey) -> list[SessionStoreEntry]:
        """Return the entries of a transcript; an empty list for an unknown one."""
        return self._store.entries(key)

    @property
    def size(self) -> int:
        """The number of sessions."""
        return len(self._store)

    def clear(self) -> None:
        """Remove everything."""
        self._store = MemoryStore()
