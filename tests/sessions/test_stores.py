"""Every store keeps the contract of the official SDK, and the stricter one of this package."""

import errno
import json
import os
import sqlite3
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

import anyio
import pytest
from bounds import set_bound
from forks import Program, run_program
from redis import Redis

from claude_agent_py import sessions
from claude_agent_py.errors import OptionsError, SessionLeasedError, StaleLeaseError, StoreError
from claude_agent_py.fleet import Fleet
from claude_agent_py.sessions import (
    DirectoryStore,
    MemoryStore,
    PostgresStore,
    RedisStore,
    S3Store,
    SessionKey,
    SessionStore,
    SessionStoreEntry,
    SQLiteStore,
    StoredSessions,
    fold_session_summary,
    get_session,
    implements,
    list_sessions,
)
from claude_agent_py.testing import check_session_store

pytestmark = pytest.mark.anyio

MakeStore = Callable[[], Any]
KEY: SessionKey = {"project_key": "-work", "session_id": "11111111-1111-4111-8111-111111111111"}


def entries_of(*entries: dict[str, Any]) -> list[SessionStoreEntry]:
    return cast("list[SessionStoreEntry]", list(entries))


LOCAL = [(kind, backend) for kind in ("memory", "directory", "sqlite") for backend in ("asyncio", "trio")]
SERVERS = ("postgres", "redis", "s3")
"""The stores that need a server. They work in threads, and know no backend: each contract asks them on one."""


@pytest.fixture
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> MakeStore:
    """Return a function that makes an empty store."""
    made = iter(range(1000))
    match request.param:
        case "memory":
            return MemoryStore
        case "directory":
            return lambda: DirectoryStore(tmp_path / str(next(made)))
        case "sqlite":
            return lambda: SQLiteStore(tmp_path / f"{next(made)}.db")
        case server:
            make: MakeStore = request.getfixturevalue(f"make_{server}_store")
            return make


async def test_every_store_has_to_keep_the_contracts() -> None:
    exported = {name for name in dir(sessions) if isinstance(getattr(sessions, name), type)}
    interfaces = {"SessionStore", "FullSessionStore", "LeasingStore"}
    stores = {name for name in exported if name.endswith("Store")} - interfaces
    assert {name.removesuffix("Store").lower() for name in stores} == {*(kind for kind, _ in LOCAL), *SERVERS}


@pytest.mark.parametrize(
    ("make_store", "anyio_backend"), [*LOCAL, *((kind, "asyncio") for kind in SERVERS)], indirect=True
)
async def test_a_store_passes_the_official_contract(make_store: MakeStore, anyio_backend: str) -> None:
    from claude_agent_sdk.testing import run_session_store_conformance

    await run_session_store_conformance(make_store)


@pytest.mark.parametrize(
    ("make_store", "anyio_backend"), [*LOCAL, *((kind, "trio") for kind in SERVERS)], indirect=True
)
async def test_a_store_passes_the_stricter_contract(make_store: MakeStore, anyio_backend: str) -> None:
    await check_session_store(make_store)


@pytest.mark.one_backend
@pytest.mark.parametrize("make_store", [*dict.fromkeys(kind for kind, _ in LOCAL), *SERVERS], indirect=True)
async def test_a_store_finds_the_projects_of_a_session(make_store: MakeStore) -> None:
    store = make_store()
    for project in ("-work", "-other"):
        await store.append({**KEY, "project_key": project}, entries_of({"type": "user", "uuid": "1"}))
    assert sorted(await store.find_session(KEY["session_id"])) == ["-other", "-work"]
    assert await store.find_session("22222222-2222-4222-8222-222222222222") == []


@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
async def test_a_store_of_the_official_sdk_is_a_store_here(anyio_backend: str) -> None:
    from claude_agent_sdk import InMemorySessionStore

    store = InMemorySessionStore()
    assert isinstance(store, SessionStore)
    assert implements(store, "list_subkeys")
    with pytest.raises(AssertionError, match="must not change the store"):
        await check_session_store(InMemorySessionStore)


def test_an_inherited_placeholder_is_no_implementation() -> None:
    import claude_agent_sdk

    class Minimal(claude_agent_sdk.SessionStore):  # as its documentation says
        async def append(self, key: Any, entries: Any) -> None: ...
        async def load(self, key: Any) -> None: ...

    minimal = cast("type[Any]", Minimal)()
    assert isinstance(minimal, SessionStore)
    assert not implements(minimal, "list_sessions")
    assert not implements(minimal, "delete")


WRITE = """
import sys, anyio
from claude_agent_py.sessions import DirectoryStore, SQLiteStore
kind, path, writer, session_id = sys.argv[1:]
KEY = {"project_key": "-work", "session_id": session_id}
store = SQLiteStore(path) if kind == "sqlite" else DirectoryStore(path)
async def main():
    for step in range(40):
        entry = {"type": "user", "uuid": f"{writer}-{step}", "customTitle": writer}
        await store.append(KEY, [entry, {"type": "note", "of": writer}])
anyio.run(main)
"""


@pytest.mark.parametrize("kind", ["directory", "sqlite"])
@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
async def test_several_processes_append_at_once(kind: str, tmp_path: Path, anyio_backend: str) -> None:
    path = str(tmp_path / "store")
    writers = [
        Program([sys.executable, "-c", WRITE, kind, path, str(number), KEY["session_id"]]) for number in range(3)
    ]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    store = SQLiteStore(path) if kind == "sqlite" else DirectoryStore(path)
    entries = cast("list[dict[str, Any]]", await store.load(KEY) or [])
    for number in range(3):
        own = [entry["uuid"] for entry in entries if entry.get("customTitle") == str(number)]
        assert own == [f"{number}-{step}" for step in range(40)]
        assert sum(entry.get("of") == str(number) for entry in entries) == 40
    [summary] = await store.list_session_summaries("-work")
    last = next(entry["customTitle"] for entry in reversed(entries) if "customTitle" in entry)
    assert summary["data"]["custom_title"] == last


@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
async def test_a_directory_store_is_read_as_a_configuration_folder(tmp_path: Path, anyio_backend: str) -> None:
    store = DirectoryStore(tmp_path)
    message = {"role": "user", "content": "Hello"}
    await store.append(KEY, entries_of({"type": "user", "uuid": "u", "parentUuid": None, "message": message}))
    assert [info.session_id for info in list_sessions(config_dir=tmp_path)] == [KEY["session_id"]]
    assert [m.text for m in get_session(KEY["session_id"], config_dir=tmp_path).messages] == ["Hello"]
    assert (tmp_path / "projects").stat().st_mode & 0o077 == 0 or os.name == "nt"


@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
async def test_a_line_that_a_dead_writer_left_is_cut_off(tmp_path: Path, anyio_backend: str) -> None:
    store = DirectoryStore(tmp_path)
    await store.append(KEY, entries_of({"type": "user", "uuid": "a"}))
    [path] = (tmp_path / "projects").glob("*/*.jsonl")
    with path.open("a") as file:
        file.write('{"type": "user", "uu')
    assert await store.load(KEY) == [{"type": "user", "uuid": "a"}]
    await store.append(KEY, entries_of({"type": "user", "uuid": "b"}))
    await DirectoryStore(tmp_path).append(KEY, entries_of({"type": "user", "uuid": "b"}, {"type": "user", "uuid": "c"}))
    assert [entry["uuid"] for entry in await store.load(KEY) or []] == ["a", "b", "c"]


@pytest.mark.one_backend
async def test_a_session_that_another_process_deletes_meanwhile_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = DirectoryStore(tmp_path)
    for name in ("a", "b"):
        key: SessionKey = {"project_key": "p", "session_id": name}
        await store.append(key, [{"type": "user", "uuid": "u"}])
        for folder in ("one", "two"):
            await store.append({**key, "subpath": f"subagents/{folder}/agent-x"}, [{"type": "user", "uuid": "u"}])
    project, read, scan = tmp_path / "projects" / "p", os.lstat, os.scandir

    def read_and_delete(path: Any, **more: Any) -> os.stat_result:
        status = read(path, **more)
        if os.fspath(path) == str(project / "a.jsonl"):
            os.unlink(path)
        return status

    def scan_what_is_left(path: Any) -> Any:
        if Path(path).name == "one":
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return scan(path)

    with monkeypatch.context() as others:
        others.setattr(os, "lstat", read_and_delete)
        assert {each["session_id"] for each in await store.list_sessions("p")} >= {"b"}
        assert {each["session_id"] for each in await store.list_session_summaries("p")} == {"b"}
    with monkeypatch.context() as others:
        others.setattr(os, "scandir", scan_what_is_left)
        assert await store.list_subkeys({"project_key": "p", "session_id": "b"}) == ["subagents/two/agent-x"]


@pytest.mark.one_backend
async def test_a_file_that_replaced_another_one_is_read_again_although_it_has_its_inode(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path)
    await store.append(KEY, entries_of({"type": "user", "uuid": "a"}, {"type": "user", "uuid": "b"}))
    [path] = (tmp_path / "projects").glob("*/*.jsonl")
    path.write_text(json.dumps({"type": "user", "uuid": "c" * 200}) + "\n")  # as another process may delete and make it
    await store.append(KEY, entries_of({"type": "user", "uuid": "a"}))
    assert [entry["uuid"] for entry in await store.load(KEY) or []] == ["c" * 200, "a"]


@pytest.mark.one_backend
async def test_a_damaged_line_is_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = DirectoryStore(tmp_path)
    first, second = ({"type": "user", "uuid": name, "message": {"role": "user", "content": name}} for name in "ab")
    await store.append(KEY, entries_of(first))
    [path] = (tmp_path / "projects").glob("*/*.jsonl")
    with path.open("ab") as file:
        file.write(b'{"type": "us\n[1]\n\xff\n' + b"[" * 100_000 + b"\n")
    await store.append(KEY, entries_of(second))
    assert await store.load(KEY) == [first, second]
    assert "4 damaged lines of -work/11111111" in caplog.text
    [state] = (tmp_path / "state").glob("*/*.json")
    state.write_text("{")
    other: SessionKey = {**KEY, "session_id": "22222222-2222-4222-8222-222222222222"}
    await store.append(other, entries_of(second))
    assert [each["session_id"] for each in await store.list_session_summaries("-work")] == [other["session_id"]]
    listed = await StoredSessions(store, project_key="-work").list()
    assert {info.session_id: info.summary for info in listed} == {KEY["session_id"]: "a", other["session_id"]: "b"}
    with pytest.raises(StoreError, match=r"11111111\S+json is damaged"):
        await store.append(KEY, entries_of({"type": "user", "uuid": "c"}))


FULL_DISK = """
import os, resource, sys
import anyio
from claude_agent_py.errors import StoreError
from claude_agent_py.sessions import DirectoryStore

key = {"project_key": "p", "session_id": "s"}
store = DirectoryStore(sys.argv[1])
cut, limits = os.ftruncate, resource.getrlimit(resource.RLIMIT_FSIZE)

def make_room(*arguments):
    cut(*arguments)
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)

os.ftruncate = make_room  # what is cut off leaves room for something else
anyio.run(store.append, key, [{"type": "user", "uuid": "a"}])
resource.setrlimit(resource.RLIMIT_FSIZE, (8192, limits[1]))
batch = [{"type": "user", "uuid": name, "text": "x" * 9000 * (name == "b")} for name in "bcd"]
try:
    anyio.run(store.append, key, batch)
except StoreError as error:
    print("too large" in str(error))
print([entry["uuid"] for entry in anyio.run(store.load, key)])
anyio.run(store.append, key, batch)
print([entry["uuid"] for entry in anyio.run(store.load, key)])
"""


@pytest.mark.skipif(os.name == "nt", reason="there is no limit of the size of a file")
def test_a_batch_that_found_a_full_disk_is_stored_in_order_the_next_time(tmp_path: Path) -> None:
    done = run_program([sys.executable, "-c", FULL_DISK, str(tmp_path / "store")])
    assert done.stdout.splitlines() == ["True", "['a']", "['a', 'b', 'c', 'd']"]


KILLED_BEFORE_THE_SUMMARY = """
import os, signal, sys
import anyio
from claude_agent_py.sessions import DirectoryStore

key, entries = {"project_key": "-work", "session_id": sys.argv[2]}, [eval(each) for each in sys.argv[3:]]
store, sync = DirectoryStore(sys.argv[1]), os.fsync

def kill(descriptor):
    sync(descriptor)
    os.kill(os.getpid(), signal.SIGKILL)

os.fsync = kill  # called for the transcript first
anyio.run(store.append, key, entries)
"""


@pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL")
@pytest.mark.parametrize("is_new", [True, False], ids=["a new session", "a continued session"])
async def test_a_session_whose_writer_was_killed_before_the_summary_is_listed(
    is_new: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = DirectoryStore(tmp_path)
    prompt: dict[str, Any] = {"type": "user", "uuid": "a", "message": {"role": "user", "content": "Review it"}}
    title = {"type": "custom-title", "uuid": "b", "customTitle": "The title"}
    if not is_new:
        await store.append(KEY, entries_of(prompt))
    command = [sys.executable, "-c", KILLED_BEFORE_THE_SUMMARY, str(tmp_path), KEY["session_id"]]
    written = [prompt, title] if is_new else [title]
    killed = Program([*command, *map(repr, written)])
    assert killed.wait(60) == -9
    sessions = StoredSessions(store, project_key="-work")
    assert [info.summary for info in await sessions.list()] == ["The title"]
    await store.append(KEY, entries_of(*written))  # again, as its writer was killed
    assert len(await store.load(KEY) or []) == 2
    [summary] = await store.list_session_summaries("-work")
    assert summary["data"] == fold_session_summary(None, KEY, entries_of(prompt, title))["data"]
    assert [info.summary for info in await sessions.list()] == ["The title"]


@pytest.mark.one_backend
async def test_nothing_of_a_deleted_session_stays_in_the_folder(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path)
    await store.append(KEY, entries_of({"type": "custom-title", "uuid": "a", "customTitle": "Acquisition of Initech"}))
    await store.append({**KEY, "subpath": "subagents/agent-1"}, entries_of({"type": "user", "uuid": "Initech"}))
    lease = await store.acquire_lease(KEY, "writer")
    await store.delete(KEY)
    [state] = tmp_path.rglob("*.json")
    assert list(json.loads(state.read_text())) == ["lease"]
    assert (await store.renew_lease(lease)).epoch == lease.epoch
    left = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not any(b"Initech" in path.read_bytes() for path in left), left


@pytest.mark.one_backend
async def test_names_that_are_too_long_for_a_file_are_shortened(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path)
    names = ["テナント" * 8, "テナント" * 8 + "2", "a" * 255, "a" * 256, "é" * 1000]
    for project in names:
        key: SessionKey = {**KEY, "project_key": project}
        await store.append(key, entries_of({"type": "user", "uuid": project}))
        await store.append({**key, "subpath": project}, entries_of({"type": "user", "uuid": project}))
    for project in names:
        assert await store.load({**KEY, "project_key": project}) == [{"type": "user", "uuid": project}]
        assert [each["session_id"] for each in await store.list_sessions(project)] == [KEY["session_id"]]
    assert (tmp_path / "projects" / ("a" * 255)).is_dir()
    found = await store.find_session(KEY["session_id"])
    assert len(found) == len(names)
    for project in found:  # a name that was shortened names the same project
        [entry] = await store.load({**KEY, "project_key": project}) or []
        assert entry["uuid"] in names
        [subpath] = await store.list_subkeys({"project_key": project, "session_id": KEY["session_id"]})
        assert await store.load({**KEY, "project_key": project, "subpath": subpath}) == [entry]


@pytest.mark.one_backend
async def test_names_of_projects_and_sessions_do_not_collide_with_files_of_the_store(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path)
    keys: list[SessionKey] = [
        {"project_key": project, "session_id": session, **more}  # type: ignore[typeddict-item]
        for project in ("version", "%76ersion", "projects", "state")
        for session in ("a", "a.jsonl", "a.json", "a.lock")
        for more in ({}, {"subpath": "b"}, {"subpath": "b.jsonl/c"})
    ]
    for number, key in enumerate(keys):
        await store.append(key, entries_of({"type": "user", "uuid": str(number)}))
    for number, key in enumerate(keys):
        assert await store.load(key) == [{"type": "user", "uuid": str(number)}]
    store = DirectoryStore(tmp_path)
    listed = await store.list_sessions("version")
    assert sorted(each["session_id"] for each in listed) == ["a", "a.json", "a.jsonl", "a.lock"]
    assert await store.list_subkeys({"project_key": "version", "session_id": "a.jsonl"}) == ["b", "b.jsonl/c"]
    assert len(await store.list_session_summaries("version")) == 4


@pytest.mark.one_backend
async def test_looking_for_a_lease_writes_nothing(tmp_path: Path) -> None:
    """So whoever may only read the store can read its sessions."""
    folder, database = DirectoryStore(tmp_path / "folder"), SQLiteStore(tmp_path / "s.db")
    for store in (folder, database):
        await store.append(KEY, entries_of({"type": "user", "uuid": "1"}))
    with closing(sqlite3.connect(tmp_path / "s.db")) as connection:
        connection.execute("DELETE FROM leases")
        connection.commit()
        before = set(tmp_path.rglob("*"))
        for store in (folder, database):
            assert await store.find_lease({**KEY, "session_id": "other"}) is None
        assert set(tmp_path.rglob("*")) == before
        assert connection.execute("SELECT * FROM leases").fetchall() == []


@pytest.mark.one_backend
@pytest.mark.parametrize("make_store", [*dict.fromkeys(kind for kind, _ in LOCAL), *SERVERS], indirect=True)
async def test_a_lease_that_was_released_is_not_renewed(make_store: MakeStore) -> None:
    """A renewal that was cancelled may come after the release."""
    store = make_store()
    lease = await store.acquire_lease(KEY, "first")
    await store.release_lease(lease)
    with pytest.raises(StaleLeaseError, match="was released"):
        await store.renew_lease(lease)
    assert (await store.acquire_lease(KEY, "second")).epoch == lease.epoch + 1


@pytest.mark.one_backend
@pytest.mark.parametrize("make_store", [*dict.fromkeys(kind for kind, _ in LOCAL), *SERVERS], indirect=True)
async def test_an_error_about_a_lease_names_its_holder(make_store: MakeStore) -> None:
    store = make_store()
    first = await store.acquire_lease(KEY, "first", ttl=600)
    session = KEY["session_id"]
    with pytest.raises(SessionLeasedError, match=rf"/{session} is being written by first, for another \d+ s") as held:
        await store.acquire_lease(KEY, "second")
    assert (held.value.session_id, held.value.holder, held.value.expires_at) == (session, "first", first.expires_at)
    again = await store.acquire_lease(KEY, "first")
    assert (again.epoch, again.holder, again.key) == (first.epoch + 1, "first", KEY)
    assert 500 < first.expires_at - again.expires_at < 580  # without a `ttl`, it is for half a minute
    told = rf"/{session} is now written by first \(epoch {again.epoch}, not {first.epoch}\)"
    for call in (store.renew_lease(first), store.append(KEY, entries_of({"type": "user"}), epoch=first.epoch)):
        with pytest.raises(StaleLeaseError, match=told) as stale:
            await call
        assert (stale.value.session_id, stale.value.holder) == (session, "first")


@pytest.mark.parametrize(("make_store", "anyio_backend"), [("s3", "asyncio")], indirect=True)
@pytest.mark.parametrize("has_lease", [True, False])
async def test_entries_follow_those_of_a_machine_whose_clock_is_ahead(
    make_store: MakeStore, anyio_backend: str, has_lease: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = make_store()
    there = S3Store("sessions", prefix=here._prefix, client=here._s3)

    async def write(store: S3Store, uuid: str) -> None:
        lease = await store.acquire_lease(KEY, uuid) if has_lease else None
        if not has_lease:
            await store.load(KEY)
        await store.append(KEY, entries_of({"type": "user", "uuid": uuid}), epoch=lease.epoch if lease else None)
        if lease is not None:
            await store.release_lease(lease)

    await write(here, "a")
    clock = time.time_ns
    with monkeypatch.context() as patch:
        patch.setattr(time, "time_ns", lambda: clock() + 60 * 10**9)
        await write(there, "b")
    await write(here, "c")
    assert [entry["uuid"] for entry in await there.load(KEY) or []] == ["a", "b", "c"]


@pytest.mark.parametrize(("make_store", "anyio_backend"), [("s3", "asyncio")], indirect=True)
async def test_an_object_of_another_program_hides_no_session(make_store: MakeStore, anyio_backend: str) -> None:
    store = make_store()
    await store.append(KEY, entries_of({"type": "user", "uuid": "a"}))
    for name in ("notes.txt", "entries/-work/notes.txt", "entries/-work/", "entries/notes.txt"):
        store._s3.put_object(Bucket="sessions", Key=f"{store._prefix}{name}", Body=b"x")
    assert [each["session_id"] for each in await store.list_sessions("-work")] == [KEY["session_id"]]


FORK_OF_SQLITE = """
import os, signal, sqlite3, sys, threading, time
import anyio
signal.alarm(60)
from claude_agent_py.sessions import SQLiteStore

key = {"project_key": "p", "session_id": "s"}
store = SQLiteStore(sys.argv[1])
anyio.run(store.append, key, [{"type": "user", "uuid": "a"}])
writer = sqlite3.connect(sys.argv[1], isolation_level=None)
writer.execute("BEGIN IMMEDIATE")  # so that the thread holds the store's lock until the end
thread = threading.Thread(target=lambda: anyio.run(store.append, key, [{"type": "user", "uuid": "b"}]))
thread.start()
while not any(frame.f_code.co_qualname == "SQLiteStore._transaction" for frame in sys._current_frames().values()):
    time.sleep(0.01)
if not (child := os.fork()):
    signal.alarm(60)
    os._exit(len(anyio.run(store.load, key)))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
writer.rollback()
thread.join()
print(len(anyio.run(store.load, key)))
"""

FORK_OF_DIRECTORY = """
import os, signal, sys
import anyio
signal.alarm(60)
from claude_agent_py.sessions import DirectoryStore

key, sync, children = {"project_key": "p", "session_id": "s"}, os.fsync, []

def fork(descriptor):
    if not children:
        children.append(os.fork())
        if not children[0]:
            signal.alarm(60)
            signal.pause()
    sync(descriptor)

store = DirectoryStore(sys.argv[1])
os.fsync = fork  # in the middle of an append
for name in "ab":
    anyio.run(store.append, key, [{"type": "user", "uuid": name}])
print(len(anyio.run(store.load, key)), bool(children))
for child in children:
    os.kill(child, signal.SIGKILL)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.parametrize(("program", "printed"), [(FORK_OF_SQLITE, "1\n2\n"), (FORK_OF_DIRECTORY, "2 True\n")])
def test_a_fork_while_a_thread_uses_the_store_blocks_neither_process(
    program: str, printed: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-W", "ignore", "-c", program, str(tmp_path / "store")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout, done.stderr) == (printed, "")


def test_a_file_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    SQLiteStore(tmp_path / "a.db").close()
    with sqlite3.connect(tmp_path / "a.db") as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(StoreError, match="newer version"):
        SQLiteStore(tmp_path / "a.db")
    (tmp_path / "text").write_text("no database, but text that is long enough to be looked at as one" * 20)
    with pytest.raises(StoreError, match="not a database"):
        SQLiteStore(tmp_path / "text")
    DirectoryStore(tmp_path / "d")
    (tmp_path / "d" / "state" / "version").write_text("99")
    with pytest.raises(StoreError, match="newer version"):
        DirectoryStore(tmp_path / "d")


@pytest.mark.skipif(sys.platform == "win32", reason="the locks of Windows are others")
async def test_a_folder_whose_locks_fail_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise OSError(errno.ENOLCK, "no locks available")

    store = DirectoryStore(tmp_path)
    monkeypatch.setattr("fcntl.flock", fail)
    with anyio.fail_after(5), pytest.raises(StoreError, match="no locks available"):
        await store.append(KEY, [{"type": "user", "uuid": "a"}])


async def test_entries_count_once_also_in_a_transcript_that_was_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_bound(monkeypatch, "KNOWN_TRANSCRIPTS", 2)
    store = DirectoryStore(tmp_path)
    keys: list[SessionKey] = [{"project_key": "p", "session_id": name} for name in "abc"]
    for key in (*keys, *keys):
        await store.append(key, [{"type": "user", "uuid": "u"}])
    assert [len(await store.load(key) or ()) for key in keys] == [1, 1, 1]


def test_summaries_equal_those_of_the_official_sdk() -> None:
    import claude_agent_sdk

    def user(content: object, **fields: object) -> dict[str, object]:
        return {"type": "user", "message": {"role": "user", "content": content}, **fields}

    batches: list[list[dict[str, object]]] = [
        [
            {"type": "mode", "timestamp": "not a time"},
            user("<command-name>/init</command-name>"),
            user("meta", isMeta=True),
        ],
        [user([{"type": "tool_result", "content": "x"}, {"type": "text", "text": "no"}]), user("<tick>"), user(" \n ")],
        [
            user(
                [{"type": "text", "text": "word \n" * 60}],
                timestamp="2026-01-01T00:00:00.123Z",
                cwd="/a",
                gitBranch="m",
            )
        ],
        [user("later", cwd="/b", gitBranch="n"), {"type": "summary", "summary": "s"}, {"type": "tag", "tag": "t"}],
        [{"type": "custom-title", "customTitle": "c"}, {"type": "ai-title", "aiTitle": 3}, {"type": "tag", "tag": ""}],
    ]
    for start in range(len(batches)):
        ours = theirs = None
        for batch in batches[start:]:
            ours = fold_session_summary(ours, KEY, entries_of(*batch))
            theirs = claude_agent_sdk.fold_session_summary(theirs, cast("Any", KEY), cast("Any", batch))
            assert ours == theirs


@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
async def test_stores_make_the_same_schema_at_once_and_refuse_one_of_another_version(
    postgres_server: str, anyio_backend: str
) -> None:
    import psycopg

    from claude_agent_py.sessions import PostgresStore

    stores = [PostgresStore(postgres_server, schema="versioned") for _ in range(4)]
    async with anyio.create_task_group() as writers:
        for number, store in enumerate(stores):
            writers.start_soon(store.append, KEY, entries_of({"type": "user", "uuid": str(number)}))
    loaded = await stores[0].load(KEY) or []
    assert sorted(str(entry.get("uuid")) for entry in loaded) == ["0", "1", "2", "3"]
    for store in stores:
        store.close()
    for version in (99, 1):
        with psycopg.connect(postgres_server) as connection:
            connection.execute("UPDATE versioned.version SET version = %s", (version,))
        with pytest.raises(StoreError, match=f"has version {version}, and this release uses"):
            await PostgresStore(postgres_server, schema="versioned").load(KEY)


@pytest.mark.each_backend
async def test_a_lease_that_comes_after_a_cancellation_is_given_back() -> None:
    class Slow(MemoryStore):
        begun, goes_on, taken = threading.Event(), threading.Event(), threading.Event()

        def _change_lease(self, place: Any, change: Any) -> Any:
            self.begun.set()
            assert self.goes_on.wait(60)
            state = super()._change_lease(place, change)
            self.taken.set()
            return state

    store = Slow()
    async with anyio.create_task_group() as workers:
        workers.start_soon(store.acquire_lease, KEY, "cancelled")
        await anyio.to_thread.run_sync(store.begun.wait, 60)
        workers.cancel_scope.cancel()
    store.goes_on.set()
    await anyio.to_thread.run_sync(store.taken.wait, 60)
    with anyio.fail_after(20):  # less than a lease
        while True:
            try:
                await store.acquire_lease(KEY, "the next")
            except SessionLeasedError:
                await anyio.sleep(0.01)  # it has come, and is about to be given back
            else:
                break


@pytest.mark.each_backend
async def test_a_lease_that_has_come_when_its_call_is_cancelled_is_given_back() -> None:
    class Slow(MemoryStore):
        begun, goes_on, taken = threading.Event(), threading.Event(), threading.Event()

        async def _run_in_thread(  # type: ignore[override]
            self, action: str, place: Any, function: Any, *arguments: Any
        ) -> Any:
            def work() -> Any:
                self.begun.set()
                assert self.goes_on.wait(60)
                try:
                    return function(*arguments)
                finally:
                    self.taken.set()

            return await super()._run_in_thread(action, place, work)

    store = Slow()
    async with anyio.create_task_group() as workers:
        workers.start_soon(store.acquire_lease, KEY, "cancelled")
        await anyio.to_thread.run_sync(store.begun.wait, 60)
        store.goes_on.set()
        assert store.taken.wait(60)  # the event loop does not learn of it before it cancels the call
        workers.cancel_scope.cancel()
    assert (await store.acquire_lease(KEY, "the next")).epoch == 2


FORK_OF_POSTGRES = """
import os, signal, sys
import anyio
signal.alarm(60)
from claude_agent_py.sessions import PostgresStore

async def count():
    return len(await store.load(key))

key, store = {"project_key": "p", "session_id": "s"}, PostgresStore(sys.argv[1], schema="forked")
anyio.run(store.append, key, [{"type": "user", "uuid": "a"}])
for closes in (False, True):
    if not (child := os.fork()):
        if closes:
            store.close()
        os._exit(anyio.run(count))
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    [connection] = store._idle
    print(connection.execute("SELECT 'still there'").fetchone()[0], anyio.run(count))
store.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_fork_leaves_the_connections_to_the_parent(postgres_server: str) -> None:
    done = run_program([sys.executable, "-W", "ignore", "-c", FORK_OF_POSTGRES, postgres_server])
    assert (done.stdout, done.stderr) == ("1\nstill there 1\n" * 2, "")


@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
async def test_keys_of_a_newer_version_are_refused(redis_server: str, anyio_backend: str) -> None:
    with Redis.from_url(redis_server) as server, closing(RedisStore(redis_server, prefix="newer:")) as store:
        server.set("newer:version", 99)
        with pytest.raises(StoreError, match=r"keys newer:\* have version 99, but at most \d+ is supported; upgrade"):
            await store.append(KEY, [{"type": "user", "uuid": "a"}])
        assert server.keys("newer:*") == [b"newer:version"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
async def test_a_server_that_is_away_is_an_error_without_the_password(anyio_backend: str) -> None:
    for store in (
        PostgresStore("postgresql://me:hunter2@127.0.0.1:1/db"),
        RedisStore("redis://:hunter2@127.0.0.1:1/0"),
    ):
        with pytest.raises(StoreError, match="cannot load -work/") as caught:
            await store.load(KEY)
        assert "hunter2" not in str(caught.value) + repr(store)
        assert caught.value.session_id == KEY["session_id"]


SECRET: Final = "hunter2"


@pytest.mark.parametrize(
    ("make", "address"),
    [
        *(
            (PostgresStore, f"postgresql://me:{secret}@host:1/db")
            for secret in (f"1/{SECRET}", f"{SECRET}/1", f"{SECRET}%zz")
        ),
        (PostgresStore, f"postgresql://me:{SECRET}@[host/db"),
        (PostgresStore, f"host=h password='{SECRET}"),
        (PostgresStore, f"host=h {SECRET}"),
        *((RedisStore, f"redis://me:{secret}@host:1/0") for secret in (f"1/{SECRET}", f"{SECRET}/1", f"{SECRET}[")),
        *(
            (Fleet, f"temporal://me:{secret}@host:1/space")
            for secret in (SECRET, f"1/{SECRET}", f"{SECRET}/1", f"{SECRET}[")
        ),
    ],
)
def test_an_address_that_cannot_be_parsed_is_refused_without_its_password(
    make: Callable[..., Any], address: str
) -> None:
    with pytest.raises(OptionsError, match=r"escape the user name|credentials come from") as caught:
        make(address)
    assert SECRET not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "conninfo",
    [
        "",
        "host=h1,h2 port=1,2",
        "postgresql://me:a%2Fb@h1:1,h2:2/db",
        "postgresql:///d@b?user=me&host=%2Frun",
        "service=x",
    ],
)
def test_any_other_connection_string_is_for_libpq(conninfo: str) -> None:
    shown = repr(PostgresStore(conninfo))
    assert "a/b" not in shown
    assert ("h1,h2" in shown) == ("h1" in conninfo)


@pytest.mark.parametrize("url", ["unix:///run/redis@0.sock", "redis://me:a%2Fb@host:1/0", "redis://host"])
def test_any_other_address_of_redis_is_for_its_package(url: str) -> None:
    with closing(RedisStore(url)) as store:
        assert "a/b" not in repr(store)


def test_a_password_for_s3_is_not_shown() -> None:
    client = SimpleNamespace(meta=SimpleNamespace(endpoint_url=f"https://me:{SECRET}@host:9000"))
    assert "'https://host:9000'" in repr(S3Store("bucket", client=client))


@pytest.mark.parametrize(
    ("package", "store"), [("psycopg", "PostgresStore"), ("redis", "RedisStore"), ("boto3", "S3Store")]
)
def test_a_missing_package_is_named(package: str, store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from claude_agent_py import sessions

    make = getattr(sessions, store)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(OptionsError, match=f"pip install .?{package}"):
        make("anything")


@pytest.mark.parametrize("schema", ["Upper", "a-b", "a;b", ""])
def test_a_schema_that_is_no_identifier_is_refused(schema: str) -> None:
    with pytest.raises(OptionsError, match="schema"):
        PostgresStore("postgresql://localhost/x", schema=schema)


@pytest.mark.anyio
async def test_a_folder_that_is_no_store_or_a_name_without_parts_is_an_error(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path)
    with pytest.raises(StoreError, match="must not be empty"):
        await store.append({**KEY, "subpath": "a//b"}, entries_of({"type": "user", "uuid": "a"}))
    (version,) = (tmp_path / "state").glob("*ersion*")
    version.write_text("soon")
    with pytest.raises(StoreError, match="cannot be used as a session store"):
        DirectoryStore(tmp_path)


@pytest.mark.parametrize("make", [DirectoryStore, SQLiteStore])
@pytest.mark.parametrize("name", ["a\0", "a\ud800"])
def test_a_name_that_no_file_can_have_is_an_error(make: Callable[[Path], object], name: str, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be used as a session store"):
        make(tmp_path / name)


class FaultyS3:
    """A client of S3 whose calls fail, or conflict with other writers for ever."""

    class exceptions:
        class ClientError(Exception):
            pass

    def __init__(self, read: str, write: str = "") -> None:
        self._read, self._write = read, write

    def get_object(self, **_: Any) -> Any:
        raise self._error(self._read)

    def put_object(self, **_: Any) -> Any:
        raise self._error(self._write)

    def list_objects_v2(self, **_: Any) -> Any:
        return {"Contents": [{"Key": "a"}]}

    def delete_objects(self, **_: Any) -> Any:
        return {"Errors": [{"Key": "a", "Message": "it is locked"}]}

    def get_paginator(self, _: str) -> Any:
        return self

    def paginate(self, **_: Any) -> Any:
        return [self.list_objects_v2()]

    def _error(self, code: str) -> Exception:
        error: Any = self.exceptions.ClientError(code)
        error.response = {"Error": {"Code": code}}
        return error  # type: ignore[no-any-return]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("read", "write", "says"),
    [
        ("AccessDenied", "", "AccessDenied"),
        ("NoSuchKey", "SlowDown", "SlowDown"),
        ("NoSuchKey", "PreconditionFailed", "conflicted with other writers"),
    ],
)
async def test_a_lease_in_a_bucket_that_cannot_be_changed_is_an_error(read: str, write: str, says: str) -> None:
    store = S3Store("b", client=FaultyS3(read, write))
    with pytest.raises(StoreError, match=says):
        await store.acquire_lease(KEY, "me")
    assert repr(store) == "S3Store('b', prefix='', endpoint_url=None)"


@pytest.mark.anyio
async def test_objects_that_cannot_be_deleted_are_an_error() -> None:
    with pytest.raises(StoreError, match="1 objects cannot be deleted: it is locked"):
        await S3Store("b", client=FaultyS3("NoSuchKey")).delete(KEY)


@pytest.mark.anyio
@pytest.mark.parametrize("subpath", ["", 5, "a\0b"])
async def test_a_subpath_that_is_no_text_is_an_error(subpath: Any) -> None:
    with pytest.raises(StoreError, match="the subpath of a key must be text or absent"):
        await MemoryStore().load({**KEY, "subpath": subpath})
