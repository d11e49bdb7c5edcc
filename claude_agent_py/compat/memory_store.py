"""`InMemorySessionStore` of the official SDK."""

from claude_agent_py.sessions import MemoryStore, SessionKey, SessionStoreEntry


class InMemorySessionStore(MemoryStore):
    """Keeps sessions in the memory of this process."""

    def get_entries(self, key: SessionKey) -> list[SessionStoreEntry]:
        """Return the entries of a transcript; an empty list for an unknown one."""
        return self.entries(key)

    @property
    def size(self) -> int:
        """The number of sessions."""
        return len(self)

    def clear(self) -> None:
        """Remove everything."""
        MemoryStore.__init__(self)
