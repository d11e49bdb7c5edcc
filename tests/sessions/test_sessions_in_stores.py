"""`StoredSessions`: sessions of a store, or of the CLI's folder, are listed, read, changed and copied."""

import asyncio
import gc
import os
import tempfile
import threading
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from anyio import to_thread
from stored import SESSION, Stored

from claude_agent_py.errors import OptionsError, SessionError, SessionLeasedError, SessionNotFoundError, StoreError
from claude_agent_py.journal import TurnEnded
from claude_agent_py.sessions import (
    DirectoryStore,
    MemoryStore,
    SessionKey,
    SQLiteStore,
    StoredSessions,
    copy_session,
    get_session,
    import_session,
    list_sessions,
    project_key_for_directory,
)

pytestmark = pytest.mark.anyio

HERE = project_key_for_directory()
KEY: SessionKey = {"project_key": HERE, "session_id": SESSION}
UNKNOWN = "99999999-9999-4999-8999-999999999999"


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep the private folders of this test apart from those of others."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def stored(tmp_path: Path) -> Stored:
    stored = Stored(tmp_path / "config", project=HERE)
    stored.user("one \u2028 \U0001f600")
    call = {"type": "tool_use", "id": "t1", "name": "Agent", "input": {}}
    stored.assistant(call)
    stored.result("t1", "looked")
    stored.assistant("first answer")
    stored.agent("a1", ["look", "looked"], agentType="Explore", toolUseId="t1")
    stored.agent("a2", ["later"], agentType="Explore", toolUseId="t2")
    return stored


@pytest.fixture(params=["sqlite", "official"])
async def store(request: pytest.FixtureRequest, stored: Stored, tmp_path: Path) -> Any:
    """A store with the session."""
    from claude_agent_sdk import InMemorySessionStore

    made: Any = SQLiteStore(tmp_path / "s.db") if request.param == "sqlite" else InMemorySessionStore()
    await import_session(made, SESSION, config_dir=stored.config)
    return made


async def test_a_stored_session_is_read_as_one_on_disk(store: Any, stored: Stored, temporary: Path) -> None:
    session, same = await StoredSessions(store).get(SESSION), get_session(SESSION, config_dir=stored.config)
    assert [m.raw for m in session.messages] == [m.raw for m in same.messages]
    assert [a.agent_id for a in session.subagents] == [a.agent_id for a in same.subagents] == ["a1", "a2"]
    assert session.usage.total == same.usage.total
    assert (await StoredSessions(store).get(SESSION, include_subagents=False)).subagents == []
    assert (await StoredSessions(store).get_info(SESSION)).summary == same.info.summary
    [folder] = temporary.iterdir()
    assert folder.stat().st_mode & 0o077 == 0 or os.name == "nt"
    agent, messages = session.subagents[0], session.messages
    del session
    gc.collect()
    assert len(messages) == 4  # what was taken from the session keeps its files
    del messages
    gc.collect()
    assert [m.text for m in agent.messages] == ["look", "looked"]
    del agent
    gc.collect()
    assert list(temporary.iterdir()) == []


async def test_a_store_is_listed_as_the_official_sdk_lists_it(store: Any, tmp_path: Path) -> None:
    from claude_agent_sdk import list_sessions_from_store as official_list

    second = Stored(tmp_path / "config", UNKNOWN, project=HERE)
    second.user("two")
    second.note("custom-title", customTitle="The second")
    await import_session(store, UNKNOWN, config_dir=second.config)
    await StoredSessions(store).tag(UNKNOWN, "\u200bhot ")
    ours = await StoredSessions(store).list()
    theirs = await to_thread.run_sync(asyncio.run, official_list(store))
    fields = ["session_id", "summary", "last_modified", "custom_title", "first_prompt", "git_branch", "tag", "cwd"]
    fields.append("created_at")
    assert [[getattr(one, name) for name in fields] for one in ours] == [
        [getattr(one, name) for name in fields] for one in theirs
    ]
    assert [(one.summary, one.tag) for one in ours] == [("The second", "hot"), ("one \u2028 \U0001f600", None)]
    assert [one.session_id for one in await StoredSessions(store).list(limit=1, offset=1)] == [SESSION]
    assert await StoredSessions(store).list(limit=0) == []
    assert await StoredSessions(store, project_key="elsewhere").list() == []
    with pytest.raises(OptionsError):
        await StoredSessions(store).list(limit=-1)


async def test_a_stored_session_is_changed_and_deleted(store: Any) -> None:
    before = await store.load(KEY)
    assert before is not None
    await StoredSessions(store).rename(SESSION, " A \n title ")
    await StoredSessions(store).tag(SESSION, "x")
    await StoredSessions(store).tag(SESSION, None)
    after = await store.load(KEY)
    assert after is not None
    assert after[: len(before)] == before
    [info] = await StoredSessions(store).list()
    assert (info.custom_title, info.tag) == ("A title", None)
    for wrong in (StoredSessions(store).rename(SESSION, " "), StoredSessions(store).tag("../x", "y")):
        with pytest.raises(OptionsError):
            await wrong
    for change in (
        StoredSessions(store).rename(UNKNOWN, "t"),
        StoredSessions(store).tag(UNKNOWN, None),
        StoredSessions(store).delete(UNKNOWN),
        StoredSessions(store).fork(UNKNOWN),
        StoredSessions(store).get(UNKNOWN),
    ):
        with pytest.raises(SessionNotFoundError):
            await change
    assert await store.load({**KEY, "session_id": UNKNOWN}) is None  # no session of a title only
    await StoredSessions(store).delete(SESSION)
    assert await store.load(KEY) is None
    assert await store.list_subkeys(KEY) == []


async def test_a_fork_in_a_store_has_the_subagents_of_the_copied_part(store: Any, temporary: Path) -> None:
    whole = await StoredSessions(store).fork(SESSION, title="Copy")
    subagents = (await StoredSessions(store).get(whole.id)).subagents
    assert [agent.agent_id for agent in subagents] == ["a1", "a2"]
    del subagents
    session = await StoredSessions(store).get(SESSION)
    part = await StoredSessions(store).fork(SESSION, session.messages[2].uuid)
    copy = await StoredSessions(store).get(part.session_id)
    assert [m.uuid for m in copy.messages] == [m.uuid for m in session.messages[:3]]
    [agent] = copy.subagents
    assert agent.agent_id == "a1"
    assert [(m.text, m.session_id) for m in agent.messages] == [
        ("look", part.session_id),
        ("looked", part.session_id),
    ]
    assert {one.summary for one in await StoredSessions(store).list()} >= {"Copy"}
    with pytest.raises(SessionError, match="has no message"):
        await StoredSessions(store).fork(SESSION, UNKNOWN)
    del session, copy, agent
    gc.collect()
    assert list(temporary.iterdir()) == []


async def test_a_fork_that_fails_leaves_nothing_in_the_store(stored: Stored, temporary: Path) -> None:
    class Failing(MemoryStore):
        fails = False

        async def append(self, key: SessionKey, *args: Any, **more: Any) -> None:
            if self.fails and "subpath" in key:
                raise OSError("not now")
            await super().append(key, *args, **more)

    store = Failing()
    await import_session(store, SESSION, config_dir=stored.config)
    store.fails = True
    with pytest.raises(StoreError, match="not now"):
        await StoredSessions(store).fork(SESSION)
    assert [info.id for info in await StoredSessions(store).list()] == [SESSION]
    assert {key["session_id"] for key in store.keys} == {SESSION}


@pytest.mark.each_backend
async def test_a_fork_that_is_cancelled_leaves_nothing_in_the_store(stored: Stored) -> None:
    """Not even what the thread of the cancelled call appends afterwards."""
    is_appending, may_append, is_over = threading.Event(), threading.Event(), threading.Event()

    class Slow(MemoryStore):
        def _append(self, place: Any, rows: Any, epoch: int | None) -> None:
            if place.session != SESSION:
                is_appending.set()
                may_append.wait(60)
            try:
                super()._append(place, rows, epoch)
            finally:
                is_over.set()

    store = Slow()
    await import_session(store, SESSION, config_dir=stored.config)
    is_over.clear()
    async with anyio.create_task_group() as group:
        group.start_soon(StoredSessions(store).fork, SESSION)
        await to_thread.run_sync(is_appending.wait, 60)
        group.cancel_scope.cancel()
    may_append.set()
    await to_thread.run_sync(is_over.wait, 60)
    assert {key["session_id"] for key in store.keys} == {SESSION}


async def test_a_session_that_is_written_is_copied_but_not_changed(tmp_path: Path, stored: Stored) -> None:
    store = SQLiteStore(tmp_path / "s.db")
    await import_session(store, SESSION, config_dir=stored.config)
    lease = await store.acquire_lease(KEY, "a writer")
    before = await store.load(KEY)
    for change in (
        StoredSessions(store).rename(SESSION, "t"),
        StoredSessions(store).tag(SESSION, "t"),
        StoredSessions(store).delete(SESSION),
    ):
        with pytest.raises(SessionLeasedError, match="a writer"):
            await change
    assert await store.load(KEY) == before
    await StoredSessions(store).fork(SESSION)
    await store.release_lease(lease)
    await StoredSessions(store).rename(SESSION, "t")
    await store.acquire_lease(KEY, "another")  # the change gave its own lease back


async def test_what_is_open_in_a_session_that_runs_elsewhere_has_not_ended(tmp_path: Path, stored: Stored) -> None:
    stored.assistant({"type": "tool_use", "id": "t2", "name": "Bash", "input": {"command": "sleep 9"}})
    store = SQLiteStore(tmp_path / "s.db")
    await import_session(store, SESSION, config_dir=stored.config)
    lease = await store.acquire_lease(KEY, "a writer")
    running = await StoredSessions(store).get(SESSION)
    await store.release_lease(lease)
    over = await StoredSessions(store).get(SESSION)
    assert running.lease == lease
    assert over.lease is None
    assert [call.was_cut_off for call in running.tool_calls] == [False, False]
    assert [call.was_cut_off for call in over.tool_calls] == [False, True]
    assert not any(isinstance(fact, TurnEnded) for fact in running.journal())
    assert [fact.status for fact in over.journal() if isinstance(fact, TurnEnded)] == ["error"]


async def test_without_a_store_the_sessions_of_the_clis_folder_are_used(stored: Stored) -> None:
    sessions = StoredSessions(config_dir=stored.config)
    [info] = await sessions.list(limit=5)
    assert info == await sessions.get_info(SESSION) == list_sessions(config_dir=stored.config)[0]
    assert [m.raw for m in (await sessions.get(SESSION)).messages] == [
        m.raw for m in get_session(SESSION, config_dir=stored.config).messages
    ]
    copy = await sessions.fork(SESSION, title="Copy")
    await sessions.rename(SESSION, "Title")
    await sessions.tag(SESSION, "hot")
    assert [(i.summary, i.tag, i.path != "") for i in sorted(await sessions.list(), key=lambda i: i.summary)] == [
        ("Copy", None, True),
        ("Title", "hot", True),
    ]
    await sessions.delete(copy.id)
    assert [i.id for i in await StoredSessions(None, os.getcwd(), config_dir=stored.config).list()] == [SESSION]
    assert await sessions.list(archived=True) == []
    with pytest.raises(SessionNotFoundError):
        await sessions.get(UNKNOWN)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"store": "sessions.db"}, "store: must be a session store.* not a str"),
        ({"store": MemoryStore}, "store: must be a session store.* the class itself"),
        ({"project_key": "p"}, "project_key: is for sessions in a store"),
        ({"store": MemoryStore(), "config_dir": "c"}, "config_dir: is for the CLI's folder"),
    ],
)
def test_options_of_the_other_place_are_refused(options: Any, named: str) -> None:
    with pytest.raises(OptionsError, match=named):
        StoredSessions(**options)


class OnlyRequired:
    """A store with the two required methods."""

    def __init__(self, entries: Any) -> None:
        self.entries = entries

    async def append(self, key: SessionKey, entries: Any) -> None:
        self.entries += entries

    async def load(self, key: SessionKey) -> Any:
        return self.entries


async def test_a_missing_method_of_a_store_is_named(stored: Stored) -> None:
    source = MemoryStore()
    await import_session(source, SESSION, config_dir=stored.config)
    store = OnlyRequired(source.entries(KEY))
    assert len((await StoredSessions(store).get(SESSION)).messages) == 4
    await StoredSessions(store).rename(SESSION, "t")
    assert (await StoredSessions(store).get_info(SESSION)).custom_title == "t"
    for impossible in (
        StoredSessions(store).list(),
        StoredSessions(store).delete(SESSION),
    ):
        with pytest.raises(StoreError, match="the store has n"):
            await impossible


@pytest.mark.parametrize("junk", [None, 3, [3], [{}, {}]])
async def test_a_project_that_is_junk_is_an_error_of_the_store(junk: Any) -> None:
    class Finds(OnlyRequired):
        async def find_session(self, session_id: str) -> Any:
            return junk

    with pytest.raises(StoreError, match=r"find session|returned the project"):
        await StoredSessions(Finds([])).get(SESSION)


@pytest.mark.parametrize(
    "junk", ["text", [1], [None], [{"no": "type"}], {"type": "user"}, [{"type": "user", "x": {1, 2}}]]
)
async def test_junk_of_a_store_is_an_error_of_the_store(junk: Any, temporary: Path) -> None:
    with pytest.raises(StoreError, match=r"returned|not JSON"):
        await StoredSessions(OnlyRequired(junk)).get(SESSION)
    gc.collect()
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("wrong", ["../../away", "", SESSION + "\n", None])
async def test_an_id_is_a_uuid_also_in_a_named_project(wrong: Any, temporary: Path) -> None:
    store = OnlyRequired([{"type": "user", "uuid": "u", "message": {"role": "user", "content": "x"}}])
    with pytest.raises(OptionsError):
        await StoredSessions(store, project_key="p").get(wrong)
    with pytest.raises(OptionsError):
        await StoredSessions(store, project_key=cast("Any", 5)).get(SESSION)
    assert list(temporary.parent.rglob("*.jsonl")) == []


class Doubling(MemoryStore):
    """A store that says everything twice."""

    async def list_subkeys(self, key: Any) -> list[str]:
        return [name for name in await super().list_subkeys(key) for _ in range(2)]

    async def load(self, key: SessionKey) -> Any:
        return [entry for entry in await super().load(key) or [] for _ in range(2)] or None


async def test_repeated_entries_and_subkeys_of_a_store_count_once(stored: Stored) -> None:
    store = Doubling()
    await import_session(store, SESSION, config_dir=stored.config)
    session = await StoredSessions(store).get(SESSION)
    same = get_session(SESSION, config_dir=stored.config)
    assert [m.uuid for m in session.messages] == [m.uuid for m in same.messages]
    assert [[m.text for m in agent.messages] for agent in session.subagents] == [["look", "looked"], ["later"]]
    assert session.usage.total == same.usage.total


class Lying(MemoryStore):
    """A store whose lists are what they must not be."""

    def __init__(self, listed: Any) -> None:
        super().__init__()
        self.listed = listed

    async def list_sessions(self, project_key: str) -> Any:
        return self.listed

    async def list_session_summaries(self, project_key: str) -> Any:
        raise NotImplementedError


@pytest.mark.parametrize("found", [{"epoch": 1}, True, 0, ValueError("no lease")])
async def test_a_lease_that_is_junk_is_an_error(stored: Stored, found: object) -> None:
    class Junk(MemoryStore):
        async def find_lease(self, key: SessionKey) -> Any:
            if isinstance(found, Exception):
                raise found
            return found

    store = Junk()
    await import_session(store, SESSION, config_dir=stored.config)
    with pytest.raises(StoreError, match=f"{SESSION}.*(neither a Lease nor None|no lease)"):
        await StoredSessions(store).get(SESSION)


async def test_lists_that_are_junk_are_errors_or_left_out() -> None:
    away = {"session_id": "../../away", "mtime": 1}
    assert await StoredSessions(Lying([away])).list() == []
    for junk in (None, [1], [{"session_id": SESSION}], [{"session_id": SESSION, "mtime": float("nan")}]):
        with pytest.raises(StoreError):
            await StoredSessions(Lying(junk)).list()


async def test_a_list_of_subagents_that_is_junk_is_an_error(stored: Stored) -> None:
    class Junk(MemoryStore):
        async def list_subkeys(self, key: Any) -> Any:
            return [5]

    store = Junk()
    await import_session(store, SESSION, config_dir=stored.config)
    with pytest.raises(StoreError, match="the subpath 5"):
        await StoredSessions(store).get(SESSION)


async def test_summaries_are_enough_to_list_the_sessions(stored: Stored) -> None:
    class Summaries(MemoryStore):
        list_sessions = None  # type: ignore[assignment]

    store = Summaries()
    await import_session(store, SESSION, config_dir=stored.config)
    assert [info.id for info in await StoredSessions(store).list()] == [SESSION]
    assert repr(StoredSessions(store)) == f"StoredSessions({store!r})"
    assert (len(store), bool(MemoryStore())) == (1, True)


async def test_summaries_that_cannot_be_read_are_an_error() -> None:
    class Broken(MemoryStore):
        async def list_session_summaries(self, project_key: str) -> Any:
            raise OSError("not now")

    with pytest.raises(StoreError, match="not now"):
        await StoredSessions(Broken()).list()


async def test_a_part_of_a_copy_stays_in_a_store_that_cannot_delete(
    stored: Stored, caplog: pytest.LogCaptureFixture
) -> None:
    class Failing(MemoryStore):
        fails = False

        async def append(self, key: SessionKey, *args: Any, **more: Any) -> None:
            if self.fails and "subpath" in key:
                raise OSError("not now")
            await super().append(key, *args, **more)

        async def delete(self, key: SessionKey) -> None:
            raise OSError("never")

    class Keeping(Failing):
        delete = None  # type: ignore[assignment]

    for kind in (Failing, Keeping):
        caplog.clear()
        store = kind()
        await import_session(store, SESSION, config_dir=stored.config)
        store.fails = True
        with pytest.raises(StoreError, match="not now"):
            await StoredSessions(store).fork(SESSION)
        assert len(await StoredSessions(store).list()) == 2
        assert ("stays in the store" in caplog.text) is (kind is Failing)


@pytest.mark.skipif(os.name == "nt", reason="the locks of folders are POSIX only")
async def test_what_a_killed_process_read_from_a_store_is_removed_by_the_next(temporary: Path, stored: Stored) -> None:
    store = MemoryStore()
    await import_session(store, SESSION, config_dir=stored.config)
    left = temporary / f"claude-agent-py-stored-{'0' * 16}"
    (left / "projects").mkdir(parents=True)
    os.utime(left, (1, 1))
    new = temporary / f"claude-agent-py-stored-{'1' * 16}"
    new.mkdir()
    session = await StoredSessions(store).get(SESSION)
    assert sorted(temporary.iterdir()) == sorted([new, Path(session.info.path).parents[2]])


async def test_a_temporary_folder_that_cannot_be_made_is_an_error(
    tmp_path: Path, stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore()
    await import_session(store, SESSION, config_dir=stored.config)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    with pytest.raises(SessionError, match="cannot be written to a temporary folder"):
        await StoredSessions(store).get(SESSION)


class Slow(MemoryStore):
    """A store without summaries, which cannot load some of its sessions."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.lost: list[str] = []

    async def load(self, key: SessionKey) -> Any:
        self.loaded.append(key["session_id"])
        if key["session_id"] in self.lost:
            raise ValueError("a bad row")
        return await super().load(key)

    async def list_sessions(self, project_key: str) -> Any:
        listed = await super().list_sessions(project_key)
        return [{**each, "mtime": int(each["session_id"][-2:])} for each in listed]

    async def list_session_summaries(self, project_key: str) -> Any:
        raise NotImplementedError


@pytest.mark.one_backend
async def test_a_page_of_a_store_loads_no_more_than_it_needs_and_survives_a_bad_session(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = Slow()
    ids = [f"{SESSION[:-2]}{number}" for number in range(40, 9, -1)]
    for session in ids:
        entry: Any = {"type": "user", "uuid": "u", "message": {"role": "user", "content": f"prompt {session[-2:]}"}}
        if session.endswith("39"):
            entry["isSidechain"] = True  # of a subagent, so it is left out
        await store.append({"project_key": HERE, "session_id": session}, [entry])
    assert [one.session_id for one in await StoredSessions(store).list(limit=2)] == [ids[0], ids[2]]
    assert sorted(store.loaded, reverse=True) == ids[:3]
    store.lost = [ids[2]]
    listed = await StoredSessions(store).list()
    assert [one.session_id for one in listed] == [ids[0], *ids[2:]]
    assert [one.summary for one in listed[:3]] == ["prompt 40", "", "prompt 37"]
    assert "a bad row" in caplog.text
    assert [one.summary for one in await StoredSessions(store).list(limit=1, offset=2)] == ["prompt 37"]


class Reordering(MemoryStore):
    """A store that keeps the fields of entries in the order of PostgreSQL's `jsonb`."""

    async def load(self, key: SessionKey) -> Any:
        def reorder(value: Any) -> Any:
            if isinstance(value, dict):
                return {name: reorder(value[name]) for name in sorted(value, key=lambda name: (len(name), name))}
            return [reorder(item) for item in value] if isinstance(value, list) else value

        return reorder(await super().load(key))


@pytest.mark.one_backend
async def test_a_store_may_reorder_the_fields_of_entries(stored: Stored, tmp_path: Path) -> None:
    stored.note("tag", tag="hot")
    stored.note("custom-title", customTitle="A title")
    stored.note("cost-state", totalCostUSD=0.5)
    stored.user("see", gitBranch="other", toolUseResult={"gitBranch": "not this one"})
    store = Reordering()
    await import_session(store, SESSION, config_dir=stored.config)
    session, same = await StoredSessions(store).get(SESSION), get_session(SESSION, config_dir=stored.config)
    info = session.info
    assert (info.tag, info.custom_title, info.cost_usd, info.git_branch) == ("hot", "A title", 0.5, "other")
    assert (info.message_count, info.first_prompt) == (same.info.message_count, same.info.first_prompt)
    assert [m.text for m in session.messages] == [m.text for m in same.messages]
    copy = await StoredSessions(store).fork(SESSION)
    assert copy.custom_title == "A title (fork)"
    folder = DirectoryStore(tmp_path / "folder")
    await copy_session(store, folder, SESSION, project_key=HERE)
    [listed] = list_sessions(config_dir=folder.root)
    assert (listed.tag, listed.custom_title) == ("hot", "A title")


@pytest.mark.one_backend
async def test_a_session_of_another_project_is_not_found_and_the_error_says_how() -> None:
    official = OnlyRequired(None)
    for call in (StoredSessions(official).get(SESSION), StoredSessions(official).rename(SESSION, "t")):
        with pytest.raises(SessionNotFoundError, match=r"no find_session\(\) .* with project_key"):
            await call
    with pytest.raises(SessionNotFoundError) as caught:
        await StoredSessions(MemoryStore()).get(SESSION)
    assert "project_key" not in str(caught.value)
