"""`check_session_store`: check your session store against the contract of session stores.

Stricter than `run_session_store_conformance` of the official SDK, and independent of test frameworks: a broken rule
raises AssertionError with the rule as its text.
"""

import inspect
import uuid
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, cast

import anyio

from claude_agent_py._base.errors import SessionLeasedError, StaleLeaseError
from claude_agent_py.sessions import (
    FullSessionStore,
    LeasingStore,
    SessionKey,
    SessionStore,
    SessionStoreEntry,
    implements,
)

LARGE_BYTES: Final = 5 * 1024 * 1024
WRITERS: Final = 8
ODD: Final = "\u2028\u2029\x00\x1f\x7f \U0001f600 \ud83d e\u0301 \ufeff\ufffe </script> ' \" \\ \r\n\t %s {} \u202e"
"""Characters that databases, line readers and encoders are known to lose."""

MakeStore = Callable[[], SessionStore | Awaitable[SessionStore]]
Check = tuple[str | None, Callable[[Any], Awaitable[None]]]
"""A check, with the optional method that it needs."""


async def check_session_store(make_store: MakeStore, *, large_bytes: int = LARGE_BYTES) -> None:
    """Check a store against the contract of `SessionStore`. Optional methods are checked if the store has them.

    Args:
        make_store: Returns an empty store each time, or a coroutine that does.
        large_bytes: The size of the largest tested entry.

    Raises:
        AssertionError: The store breaks a rule. The message states the rule.
    """
    checks: list[Check] = [*CHECKS, (None, partial(_keeps_a_large_entry, size=large_bytes))]
    for method, check in checks:
        made = make_store()
        store = await made if inspect.isawaitable(made) else made
        if method is None or implements(store, method):
            await check(store)


def entry(number: int, **fields: object) -> SessionStoreEntry:
    """Return an entry with a uuid made from the number."""
    return cast("SessionStoreEntry", {"type": "user", "uuid": str(uuid.UUID(int=number)), "n": number, **fields})


def note(kind: str, **fields: object) -> SessionStoreEntry:
    """Return an entry without a uuid, like the CLI's entries for titles and tags."""
    return cast("SessionStoreEntry", {"type": kind, **fields})


def a_key(subpath: str | None = None, *, project: str = "-work", session: int = 1) -> SessionKey:
    """Return a key in the CLI's format."""
    key: SessionKey = {"project_key": project, "session_id": str(uuid.UUID(int=session))}
    if subpath is not None:
        key["subpath"] = subpath
    return key


async def _keeps_order_and_content(store: SessionStore) -> None:
    written = [
        entry(3),
        note("custom-title", customTitle="b"),
        entry(1, text=ODD, **{ODD: [ODD, {"": None}]}),
        note("custom-title", customTitle="b"),
        entry(2, big=2**70, small=-1.5e-300, yes=True, no=None, nested=[[[{}]], []]),
    ]
    for each in written:
        await store.append(a_key(), [each])
    assert await store.load(a_key()) == written, "load() returns what was appended, in that order"
    loaded = await store.load(a_key())
    assert loaded is not None
    cast("dict[str, Any]", loaded[0])["n"] = "changed"
    assert await store.load(a_key()) == written, "changing what load() returned must not change the store"


async def _is_not_changed_through_what_was_appended(store: SessionStore) -> None:
    given = entry(1, nested={"a": [1]})
    batch = [given]
    await store.append(a_key(), batch)
    batch.clear()
    cast("dict[str, Any]", given)["nested"]["a"].append(2)
    expected = [entry(1, nested={"a": [1]})]
    assert await store.load(a_key()) == expected, "changing an entry after append() must not change the store"


async def _ignores_a_repeated_batch(store: SessionStore) -> None:
    batch = [entry(number) for number in range(20)]
    await store.append(a_key(), batch[:10])
    # A client repeats a batch if it does not know whether the store received it.
    await store.append(a_key(), batch[5:])
    await store.append(a_key(), batch)
    assert await store.load(a_key()) == batch, "an entry with a stored uuid must not be stored again"
    await store.append(a_key(), [entry(50), entry(50)])
    loaded = await store.load(a_key()) or []
    assert [each.get("n") for each in loaded].count(50) == 1, (
        "an entry that occurs twice in a batch must be stored once"
    )
    await store.append(a_key("subagents/agent-a"), batch)
    await store.append(a_key(session=2), batch)
    assert await store.load(a_key("subagents/agent-a")) == batch, "the same uuid in another transcript is another entry"
    assert await store.load(a_key(session=2)) == batch, "the same uuid in another session is another entry"


async def _takes_appends_at_once(store: SessionStore) -> None:
    batches = [[entry(writer * 100 + step, writer=writer) for step in range(10)] for writer in range(WRITERS)]

    async def write(batch: list[SessionStoreEntry]) -> None:
        for start in range(0, len(batch), 2):
            await store.append(a_key(), batch[start : start + 2])
            await store.append(a_key(f"subagents/agent-{batch[0].get('n')}"), batch[start : start + 2])

    async with anyio.create_task_group() as writers:
        for batch in batches:
            writers.start_soon(write, batch)
    loaded = await store.load(a_key()) or []
    assert len(loaded) == WRITERS * 10, "appends at the same time must not lose or repeat entries"
    for writer, batch in enumerate(batches):
        own = [each for each in loaded if each.get("writer") == writer]
        assert own == batch, "consecutive appends of a writer keep their order despite concurrent appends"
        kept = await store.load(a_key(f"subagents/agent-{batch[0].get('n')}"))
        assert kept == batch, "transcripts do not mix"


async def _knows_nothing_of_unknown_keys(store: SessionStore) -> None:
    await store.append(a_key(), [entry(1)])
    for key in (a_key(session=2), a_key(project="-other"), a_key("subagents/agent-x"), a_key(project="-wor")):
        assert await store.load(key) is None, f"load() of an unknown key returns None: {key}"
    await store.append(a_key(session=3), [])
    assert await store.load(a_key(session=3)) is None, "appending nothing makes no session"


async def _separates_keys(store: SessionStore) -> None:
    keys = [
        a_key(),
        a_key("subagents/agent-1"),
        a_key("subagents/workflows/run-1/agent-1"),
        a_key("subagents"),
        a_key(session=2),
        a_key(project="-work-2"),
        a_key(project="tenant/../x"),
        a_key(project="ten:ant*?[a] %41\u00e9\U0001f600"),
        a_key(project="TENANT" * 20),
        a_key(project=".."),
    ]
    for number, key in enumerate(keys):
        await store.append(key, [entry(number)])
    for number, key in enumerate(keys):
        assert await store.load(key) == [entry(number)], f"each key has its own transcript: {key}"


async def _lists(store: FullSessionStore) -> None:
    projects = ["-work", "tenant/../x", "ten:ant*?[a] %41\u00e9"]
    for project in projects:
        assert await store.list_sessions(project) == [], "an unknown project has no sessions"
        await store.append(a_key("subagents/agent-1", project=project, session=9), [entry(1)])
        for session in (1, 2):
            await store.append(a_key(project=project, session=session), [entry(1)])
    for project in projects:
        listed = await store.list_sessions(project)
        found = sorted(each["session_id"] for each in listed)
        assert found == [str(uuid.UUID(int=number)) for number in (1, 2)], "list_sessions() names sessions only"
        assert all(each["mtime"] > 1e12 for each in listed), "mtime is in milliseconds since the epoch"


async def _lists_subkeys(store: FullSessionStore) -> None:
    subpaths = sorted(["subagents/agent-1", "subagents/workflows/run-1/agent-\u00e9 1", "subagents"])
    for subpath in subpaths:
        await store.append(a_key(subpath), [entry(1)])
    found = await store.list_subkeys({"project_key": "-work", "session_id": str(uuid.UUID(int=1))})
    assert sorted(found) == subpaths, "list_subkeys() returns each subpath once, and as it was given"
    assert await store.list_subkeys({"project_key": "-work", "session_id": str(uuid.UUID(int=2))}) == []


async def _deletes(store: FullSessionStore) -> None:
    for key in (a_key(), a_key("subagents/agent-1"), a_key("subagents/agent-2"), a_key(session=2)):
        await store.append(key, [entry(1)])
    await store.delete(a_key("subagents/agent-1"))
    assert await store.load(a_key("subagents/agent-1")) is None
    assert await store.load(a_key("subagents/agent-2")) == [entry(1)], "delete() of a subkey leaves the others"
    await store.delete(a_key())
    assert await store.load(a_key()) is None
    assert await store.load(a_key("subagents/agent-2")) is None, "delete() of a session removes its subagents"
    assert await store.load(a_key(session=2)) == [entry(1)], "delete() leaves other sessions"
    await store.delete(a_key())
    await store.append(a_key(), [entry(1)])
    assert await store.load(a_key()) == [entry(1)], "what was deleted can be appended again"


async def _keeps_summaries(store: FullSessionStore) -> None:

    async def title(number: int) -> None:
        fields = {f"field{number}": number, "customTitle": f"t{number}"}
        await store.append(a_key(), [note("custom-title", **fields)])

    async with anyio.create_task_group() as writers:
        for number in range(WRITERS):
            writers.start_soon(title, number)
    await store.append(a_key(), [note("custom-title", customTitle="last"), note("tag", tag=ODD)])
    [summary] = await store.list_session_summaries("-work")
    assert summary["data"].get("custom_title") == "last", "a summary follows the last append"
    assert summary["data"].get("tag") == ODD, "the data of a summary is kept unchanged"
    if implements(store, "list_sessions"):
        [listed] = await store.list_sessions("-work")
        assert summary["mtime"] >= listed["mtime"], "the times of summary and session are the time of the last append"


async def _leases(store: LeasingStore) -> None:
    first = await store.acquire_lease(a_key(), "first", ttl=600)
    await store.append(a_key(), [entry(1)], epoch=first.epoch)
    try:
        await store.acquire_lease(a_key(), "second", ttl=600)
        holder = None
    except SessionLeasedError as error:
        holder = error.holder
    assert holder == "first", "a held lease cannot be acquired by another holder; the error names the holder"
    # A lease does not affect other sessions.
    await store.acquire_lease(a_key(session=2), "second", ttl=600)
    # Let the lease expire immediately.
    first = await store.renew_lease(first, ttl=0)
    second = await store.acquire_lease(a_key(), "second", ttl=600)
    assert second.epoch > first.epoch, "each new holder has a higher epoch"
    for late in (
        lambda: store.append(a_key(), [entry(2)], epoch=first.epoch),
        lambda: store.append(a_key("subagents/agent-1"), [entry(2)], epoch=first.epoch),
        lambda: store.renew_lease(first, ttl=600),
    ):
        try:
            await late()
        except StaleLeaseError:
            continue
        raise AssertionError("a store must refuse the former holder of a lease")
    # Releasing a lost lease must not affect the current one.
    await store.release_lease(first)
    await store.append(a_key(), [entry(3)], epoch=second.epoch)
    assert await store.load(a_key()) == [entry(1), entry(3)], "a refused append writes nothing"
    third = await store.acquire_lease(a_key(), "third", ttl=600, steal=True)
    assert third.epoch > second.epoch, "stealing a lease fences its former holder"
    await store.release_lease(third)
    fourth = await store.acquire_lease(a_key(), "fourth", ttl=600)
    assert fourth.epoch > third.epoch, "epochs grow over releases"


async def _shows_the_lease(store: Any) -> None:
    assert await store.find_lease(a_key()) is None, "nobody writes to an unknown session"
    lease = await store.acquire_lease(a_key(), "first", ttl=600)
    assert await store.find_lease(a_key()) == lease, "the lease of a session is shown to others"
    renewed = await store.renew_lease(lease, ttl=600)
    assert await store.find_lease(a_key()) == renewed, "looking at a lease does not change it"
    await store.renew_lease(renewed, ttl=0)
    assert await store.find_lease(a_key()) is None, "an expired lease is not shown"
    await store.release_lease(await store.acquire_lease(a_key(), "second", ttl=600))
    assert await store.find_lease(a_key()) is None, "a released lease is not shown"


async def _gives_a_lease_to_one_of_several(store: LeasingStore) -> None:
    winners: list[str] = []

    async def compete(holder: str) -> None:
        try:
            await store.acquire_lease(a_key(session=5), holder, ttl=600)
            winners.append(holder)
        except SessionLeasedError:
            return

    async with anyio.create_task_group() as competitors:
        for number in range(WRITERS):
            competitors.start_soon(compete, str(number))
    assert len(winners) == 1, "exactly one of several concurrent callers acquires the lease"


async def _keeps_a_large_entry(store: SessionStore, size: int) -> None:
    large = entry(1, text=("x\u00e9\U0001f600" * (size // 7 + 1)))
    await store.append(a_key(), [large, entry(2)])
    assert await store.load(a_key()) == [large, entry(2)], f"an entry of {size} bytes is kept"


CHECKS: Final[tuple[Check, ...]] = (
    (None, _keeps_order_and_content),
    (None, _is_not_changed_through_what_was_appended),
    (None, _ignores_a_repeated_batch),
    (None, _takes_appends_at_once),
    (None, _knows_nothing_of_unknown_keys),
    (None, _separates_keys),
    ("list_sessions", _lists),
    ("list_subkeys", _lists_subkeys),
    ("delete", _deletes),
    ("list_session_summaries", _keeps_summaries),
    ("acquire_lease", _leases),
    ("find_lease", _shows_the_lease),
    ("acquire_lease", _gives_a_lease_to_one_of_several),
)
__all__ = ["check_session_store"]
