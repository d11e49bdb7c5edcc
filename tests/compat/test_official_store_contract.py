"""`run_session_store_conformance` accepts a store of the official SDK and refuses one that breaks a rule."""

from typing import Any

import pytest

from claude_agent_py.compat import InMemorySessionStore, SessionStore
from claude_agent_py.compat.testing import run_session_store_conformance

pytestmark = pytest.mark.anyio


class Minimal(SessionStore):
    def __init__(self) -> None:
        self._entries: dict[str, list[Any]] = {}

    async def append(self, key: Any, entries: Any) -> None:
        if entries:
            self._entries.setdefault(str(sorted(key.items())), []).extend(entries)

    async def load(self, key: Any) -> Any:
        return self._entries.get(str(sorted(key.items())))


def only(*methods: str) -> Any:
    """Return a class of stores with only these of the optional methods."""
    names = ("__init__", "clear", "append", "load", *methods)
    return type("Only", (SessionStore,), {name: vars(InMemorySessionStore)[name] for name in names})


@pytest.mark.parametrize("method", ["list_sessions", "list_session_summaries", "delete", "list_subkeys"])
async def test_a_store_may_have_one_optional_method(method: str) -> None:
    await run_session_store_conformance(only(method))


async def test_a_store_in_memory_says_what_it_holds() -> None:
    store = InMemorySessionStore()
    await store.append({"project_key": "p", "session_id": "s"}, [{"type": "user", "uuid": "a"}])
    assert store.size == 1
    assert repr(store).startswith("InMemorySessionStore(MemoryStore(")
    assert repr(InMemorySessionStore()) != repr(store)  # a private folder is for one of them


async def test_a_store_may_lack_optional_methods() -> None:
    await run_session_store_conformance(Minimal)
    await run_session_store_conformance(InMemorySessionStore)


class Reversed(InMemorySessionStore):
    async def load(self, key: Any) -> Any:
        loaded = await super().load(key)
        return loaded and loaded[::-1]


class NeverMissing(InMemorySessionStore):
    async def load(self, key: Any) -> Any:
        return await super().load(key) or []


class ListsSeconds(InMemorySessionStore):
    async def list_sessions(self, project_key: str) -> Any:
        return [{**each, "mtime": each["mtime"] // 1000} for each in await super().list_sessions(project_key)]


class ListsAll(InMemorySessionStore):
    async def list_session_summaries(self, project_key: str) -> Any:
        return [*await super().list_session_summaries("proj"), *await super().list_session_summaries("other")]


class KeepsSubagents(InMemorySessionStore):
    async def delete(self, key: Any) -> None:
        subpaths = await self.list_subkeys(key) if "subpath" not in key else []
        keys: list[Any] = [{**key, "subpath": subpath} for subpath in subpaths]
        kept = [(each, self.get_entries(each)) for each in keys]
        await super().delete(key)
        for each, entries in kept:
            await self.append(each, entries)


class ListsItself(InMemorySessionStore):
    async def list_subkeys(self, key: Any) -> list[str]:
        return ["", *(await super().list_subkeys(key))]


@pytest.mark.parametrize(
    ("store", "rule"),
    [
        (Reversed, "in that order"),
        (NeverMissing, "None for an unknown key"),
        (ListsSeconds, "milliseconds"),
        (ListsAll, "one summary for each"),
        (KeepsSubagents, "deletes its subagents"),
        (ListsItself, "no subkeys"),
    ],
)
async def test_a_store_that_breaks_a_rule_is_refused(store: type[InMemorySessionStore], rule: str) -> None:
    with pytest.raises(AssertionError, match=rule):
        await run_session_store_conformance(store)


async def test_only_optional_methods_can_be_skipped() -> None:
    with pytest.raises(AssertionError, match="append"):
        await run_session_store_conformance(InMemorySessionStore, skip_optional={"append"})
    await run_session_store_conformance(ListsItself, skip_optional={"list_subkeys", "delete"})
