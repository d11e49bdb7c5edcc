"""Write a session store: two methods, a test, and the option."""

import json

import anyio
from offline import offline

from claude_agent_py import ClientOptions, run
from claude_agent_py.sessions import SessionKey, SessionStoreEntry
from claude_agent_py.testing import check_session_store


class KeyValueStore:
    """Keeps sessions in a dict of bytes, which stands for the client of a key-value database."""

    def __init__(self) -> None:
        self.rows: dict[str, list[bytes]] = {}
        self.uuids: dict[str, set[str]] = {}

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        row = json.dumps([key["project_key"], key["session_id"], key.get("subpath")])
        for entry in entries:
            seen = self.uuids.setdefault(row, set())
            uuid = entry.get("uuid")
            if uuid is None or uuid not in seen:  # a batch may be repeated
                self.rows.setdefault(row, []).append(json.dumps(entry).encode())
            if uuid is not None:
                seen.add(uuid)

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        row = json.dumps([key["project_key"], key["session_id"], key.get("subpath")])
        return [json.loads(each) for each in self.rows.get(row, ())] or None


async def main() -> None:
    await check_session_store(KeyValueStore)  # in your tests
    print("the contract holds")

    store = KeyValueStore()
    options = ClientOptions(session_store=store, on_store_error=lambda error: print("not stored:", error))
    first = await run("I live in Bonn.", options)
    again = await run("Where do I live?", options.replace(resume=first.session_id))
    print(again.text)
    print("transcripts:", len(store.rows))


SCRIPT = ["Noted.", "In Bonn."]

if __name__ == "__main__":
    with offline(SCRIPT):
        anyio.run(main)
