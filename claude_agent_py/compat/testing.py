"""Check a session store against the contract of the official SDK: `claude_agent_sdk.testing`."""

import inspect
import math
from collections.abc import Awaitable, Callable, Collection
from typing import Final, cast

from claude_agent_py.compat.types import SessionKey, SessionStore, SessionStoreEntry
from claude_agent_py.sessions import implements

_OPTIONAL: Final = frozenset({"list_sessions", "list_session_summaries", "delete", "list_subkeys"})
_KEY: Final[SessionKey] = {"project_key": "proj", "session_id": "sess"}
_SUB: Final[SessionKey] = {**_KEY, "subpath": "subagents/agent-1"}
_OTHER: Final[SessionKey] = {"project_key": "other", "session_id": "sess"}

MakeStore = Callable[[], SessionStore | Awaitable[SessionStore]]


async def run_session_store_conformance(make_store: MakeStore, *, skip_optional: Collection[str] = frozenset()) -> None:
    """Check the rules that every store has to keep. `check_session_store` of this package checks more.

    Args:
        make_store: Returns an empty store each time, or a coroutine that does.
        skip_optional: Optional methods not to check. Those that the store does not have are not checked either.

    Raises:
        AssertionError: The store breaks a rule, or `skip_optional` has another name.
    """
    unknown = set(skip_optional) - _OPTIONAL
    _require(not unknown, f"skip_optional has names of no optional method: {unknown}")
    probe = await _make(make_store)
    for method, check in _CHECKS:
        if method is None or (method not in skip_optional and implements(probe, method)):
            await check(await _make(make_store))


async def _make(make_store: MakeStore) -> SessionStore:
    made = make_store()
    return await made if inspect.isawaitable(made) else made


def _require(holds: object, rule: str) -> None:
    if not holds:
        raise AssertionError(rule)


def _entry(uuid: str, **fields: object) -> SessionStoreEntry:
    return cast("SessionStoreEntry", {"type": "user", "uuid": uuid, **fields})


async def _keeps_order(store: SessionStore) -> None:
    entries = [_entry(name, n=number, nested={"a": [number, None]}) for number, name in enumerate("zamb")]
    await store.append(_KEY, entries[:1])
    await store.append(_KEY, entries[1:3])
    await store.append(_KEY, [])
    await store.append(_KEY, entries[3:])
    _require(await store.load(_KEY) == entries, "load() returns what was appended, in that order")


async def _knows_no_other_key(store: SessionStore) -> None:
    _require(await store.load(_KEY) is None, "load() returns None for an unknown key")
    await store.append(_KEY, [_entry("x")])
    _require(await store.load({**_KEY, "subpath": "nope"}) is None, "load() returns None for an unknown subpath")


async def _keeps_transcripts_apart(store: SessionStore) -> None:
    for key in (_KEY, _SUB, _OTHER):
        await store.append(key, [_entry("same", of=dict(key))])
    for key in (_KEY, _SUB, _OTHER):
        _require(await store.load(key) == [_entry("same", of=dict(key))], f"{key} has its own transcript")


async def _lists_sessions(store: SessionStore) -> None:
    await store.append(_KEY, [_entry("a")])
    await store.append({**_KEY, "session_id": "two"}, [_entry("b")])
    await store.append(_SUB, [_entry("c")])
    await store.append(_OTHER, [_entry("d")])
    listed = await store.list_sessions("proj")
    _require(sorted(each["session_id"] for each in listed) == ["sess", "two"], "list_sessions() lists one project")
    _require(all(_is_milliseconds(each["mtime"]) for each in listed), "mtime is in milliseconds since the epoch")
    _require(await store.list_sessions("never") == [], "an unknown project has no sessions")


def _is_milliseconds(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and value > 1e12


async def _lists_summaries(store: SessionStore) -> None:
    await store.append(_KEY, [_entry("a", timestamp="2024-01-01T00:00:00Z"), _entry("b")])
    await store.append(_SUB, [_entry("c")])
    await store.append(_OTHER, [_entry("d")])
    summaries = await store.list_session_summaries("proj")
    _require(len(summaries) == 1, "list_session_summaries() has one summary for each session of the project")
    summary = summaries[0]
    _require(summary["session_id"] == "sess" and isinstance(summary["data"], dict), "a summary has its session's data")
    _require(_is_milliseconds(summary["mtime"]), "mtime is in milliseconds since the epoch")
    _require(await store.list_session_summaries("never") == [], "an unknown project has no summaries")
    if implements(store, "delete"):
        await store.delete(_KEY)
        _require(await store.list_session_summaries("proj") == [], "delete() also deletes the summary")


async def _deletes(store: SessionStore) -> None:
    await store.delete(_KEY)
    other: SessionKey = {**_KEY, "session_id": "two"}
    for key in (_KEY, _SUB, other, _OTHER):
        await store.append(key, [_entry("a")])
    await store.delete(_KEY)
    _require(await store.load(_KEY) is None, "delete() deletes the session")
    _require(await store.load(_SUB) is None, "delete() of a session deletes its subagents")
    _require(await store.load(other) is not None, "delete() keeps other sessions")
    _require(await store.load(_OTHER) is not None, "delete() keeps other projects")
    if implements(store, "list_sessions"):
        listed = await store.list_sessions("proj")
        _require([each["session_id"] for each in listed] == ["two"], "a deleted session is not listed")


async def _deletes_one_transcript(store: SessionStore) -> None:
    second: SessionKey = {**_KEY, "subpath": "subagents/agent-2"}
    for key in (_KEY, _SUB, second):
        await store.append(key, [_entry("a")])
    await store.delete(_SUB)
    _require(await store.load(_SUB) is None, "delete() with a subpath deletes that transcript")
    _require(await store.load(_KEY) is not None, "delete() with a subpath keeps the session")
    _require(await store.load(second) is not None, "delete() with a subpath keeps other subpaths")


async def _lists_subkeys(store: SessionStore) -> None:
    _require(await store.list_subkeys(_KEY) == [], "an unknown session has no subkeys")
    await store.append(_KEY, [_entry("a")])
    _require(await store.list_subkeys(_KEY) == [], "list_subkeys() leaves the session itself out")
    for subpath in ("subagents/agent-1", "subagents/agent-2"):
        await store.append({**_KEY, "subpath": subpath}, [_entry("b")])
    await store.append({**_KEY, "session_id": "two", "subpath": "subagents/agent-3"}, [_entry("c")])
    found = sorted(await store.list_subkeys(_KEY))
    _require(found == ["subagents/agent-1", "subagents/agent-2"], "list_subkeys() lists one session")


_CHECKS: Final[tuple[tuple[str | None, Callable[[SessionStore], Awaitable[None]]], ...]] = (
    (None, _keeps_order),
    (None, _knows_no_other_key),
    (None, _keeps_transcripts_apart),
    ("list_sessions", _lists_sessions),
    ("list_session_summaries", _lists_summaries),
    ("delete", _deletes),
    ("delete", _deletes_one_transcript),
    ("list_subkeys", _lists_subkeys),
)
"""The optional method that a check needs, and the check."""
