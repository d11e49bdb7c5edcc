"""Copies of sessions between this machine and stores, and what a store cannot make the library do."""

import errno
import json
import os
import shutil
import sys
import tempfile
import threading
import tracemalloc
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import pytest
from anyio import to_thread
from bounds import set_bound
from forks import run_program
from stored import SESSION, Stored

from claude_agent_py._base.locks import unlock
from claude_agent_py.errors import OptionsError, SessionError, SessionLeasedError, SessionNotFoundError, StoreError
from claude_agent_py.sessions import (
    DirectoryStore,
    Lease,
    MemoryStore,
    SessionKey,
    SessionStoreEntry,
    SQLiteStore,
    StoredSessions,
    copy_session,
    deliver_session,
    export_session,
    fork_session,
    get_session,
    import_session,
    project_key_for_directory,
    push,
)
from claude_agent_py.sessions.stores import private_folder
from claude_agent_py.sessions.stores.access import StoreAccess
from claude_agent_py.sessions.stores.mirror import Mirror
from claude_agent_py.sessions.stores.protocol import Place

pytestmark = pytest.mark.anyio


@pytest.fixture
def stored(tmp_path: Path) -> Stored:
    stored = Stored(tmp_path / "config")
    stored.note("custom-title", customTitle="t")
    stored.user("one \u2028 \U0001f600")
    stored.assistant("first answer")
    stored.note("api-request", body={})
    stored.agent("a1", ["look", "looked"], type="not the kind of an entry", agentType="Explore", toolUseId="t1")
    return stored


async def test_a_session_goes_to_a_store_to_another_and_back(stored: Stored, tmp_path: Path) -> None:
    first, second = MemoryStore(), SQLiteStore(tmp_path / "s.db")
    assert await import_session(first, SESSION, config_dir=stored.config) == 6
    assert await import_session(first, SESSION, config_dir=stored.config) == 0
    assert await copy_session(first, second, SESSION, to_project_key="tenant") == 6
    assert await copy_session(first, second, SESSION, to_project_key="tenant") == 0
    path = await export_session(second, SESSION, "/elsewhere", config_dir=tmp_path / "other", project_key="tenant")
    assert path == str(tmp_path / "other" / "projects" / project_key_for_directory("/elsewhere") / f"{SESSION}.jsonl")
    before, after = (get_session(SESSION, config_dir=config) for config in (stored.config, tmp_path / "other"))
    assert [message.text for message in after.messages] == [message.text for message in before.messages]
    [agent] = after.subagents
    assert [message.text for message in agent.messages] == ["look", "looked"]
    [meta] = Path(path).with_suffix("").rglob("*.meta.json")
    assert json.loads(meta.read_text()) == {"agentType": "Explore", "toolUseId": "t1"}
    assert os.stat(path).st_mode & 0o077 == 0 or os.name == "nt"
    with pytest.raises(SessionError, match="already exists"):
        await export_session(second, SESSION, "/elsewhere", config_dir=tmp_path / "other", project_key="tenant")


async def test_the_folder_of_a_directory_store_has_the_descriptions_of_subagents(
    stored: Stored, tmp_path: Path
) -> None:
    store = DirectoryStore(tmp_path / "store")
    await import_session(store, SESSION, config_dir=stored.config)
    [agent] = get_session(SESSION, config_dir=store.root).subagents
    assert (agent.agent_type, agent.tool_use_id) == ("Explore", "t1")
    key: SessionKey = {"project_key": "-work", "session_id": SESSION, "subpath": "subagents/agent-a1"}
    assert {"type": "agent_metadata", "agentType": "Explore", "toolUseId": "t1"} in (await store.load(key) or ())
    await store.delete(key)
    assert not [*store.root.rglob("*agent-a1*")]
    assert await import_session(store, SESSION, config_dir=stored.config) == 3


class Sink:
    """Takes all entries, and keeps none."""

    def __init__(self) -> None:
        self.most_entries = self.most_bytes = 0

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        self.most_entries = max(self.most_entries, len(entries))
        self.most_bytes = max(self.most_bytes, len(json.dumps(entries)))

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        return None


async def measure_peak(work: Awaitable[object]) -> int:
    """Await the work, and return the most bytes that it held in memory at once."""
    tracemalloc.start()
    try:
        await work
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("make", [SQLiteStore, DirectoryStore])
@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
async def test_a_long_transcript_is_never_in_memory(
    make: Callable[[Path], SQLiteStore | DirectoryStore], tmp_path: Path, anyio_backend: str
) -> None:
    long = Stored(tmp_path / "config")
    size = 8 * 1024
    for number in range(1400):
        long.user(f"{number} " + "x" * size)
    sink, store, out = Sink(), make(tmp_path / "store"), tmp_path / "out"
    assert long.path.stat().st_size > 1400 * size
    short = Stored(tmp_path / "other")
    short.user("hi")
    other = make(tmp_path / "other-store")
    await import_session(other, SESSION, config_dir=short.config)  # which loads modules: they count below, too
    await export_session(other, SESSION, "/elsewhere", config_dir=tmp_path / "other-out", project_key="-work")
    await StoredSessions(other, project_key="-work").get(SESSION)
    # The last one compares the transcript with a store that has it.
    for copied in (
        partial(import_session, sink, SESSION, config_dir=long.config),
        partial(import_session, store, SESSION, config_dir=long.config),
        partial(push, store, SESSION, config_dir=long.config),
        partial(export_session, store, SESSION, "/elsewhere", config_dir=out, project_key="-work"),
        partial(StoredSessions(store, project_key="-work").get, SESSION),
    ):
        assert await measure_peak(copied()) < 1024 * size
    assert sink.most_entries <= 500
    assert sink.most_bytes < 1.5 * 1024 * 1024
    [copy] = out.rglob("*.jsonl")
    assert len(get_session(SESSION, config_dir=out).messages) == 1400
    assert copy.stat().st_size > 1400 * size


async def test_an_export_that_fails_leaves_nothing(stored: Stored, tmp_path: Path) -> None:
    class Failing(MemoryStore):
        fails = True

        async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
            if self.fails and "subpath" in key:
                raise OSError("not now")
            return await super().load(key)

    store, out = Failing(), tmp_path / "out"
    store.fails = False
    await import_session(store, SESSION, config_dir=stored.config)
    store.fails = True
    with pytest.raises(StoreError, match="not now"):
        await export_session(store, SESSION, "/elsewhere", config_dir=out, project_key="-work")
    assert [path for path in out.rglob("*") if path.is_file()] == []
    store.fails = False
    await export_session(store, SESSION, "/elsewhere", config_dir=out, project_key="-work")
    [agent] = get_session(SESSION, config_dir=out).subagents
    assert agent.agent_type == "Explore"


async def test_a_cancelled_export_leaves_nothing(stored: Stored, tmp_path: Path) -> None:
    class Cancelling(MemoryStore):
        async def list_subkeys(self, key: Any) -> list[str]:
            return [*await super().list_subkeys(key), "subagents/agent-2"]

        async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
            if key.get("subpath") == "subagents/agent-2":
                scope.cancel()
                await anyio.lowlevel.checkpoint()
            return await super().load(key)

    store, out = Cancelling(), tmp_path / "out"
    await import_session(store, SESSION, config_dir=stored.config)
    with anyio.CancelScope() as scope:
        await export_session(store, SESSION, config_dir=out, project_key="-work")
    assert scope.cancelled_caught
    assert [path for path in out.rglob("*") if path.is_file()] == []


@pytest.mark.each_backend
async def test_an_export_that_is_cancelled_while_it_writes_leaves_nothing(
    stored: Stored, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_writing, may_write = threading.Event(), threading.Event()

    def sync(descriptor: int) -> None:
        is_writing.set()
        may_write.wait(60)

    store, out = MemoryStore(), tmp_path / "out"
    await import_session(store, SESSION, config_dir=stored.config)
    monkeypatch.setattr(os, "fsync", sync)  # of a slow disk
    async with anyio.create_task_group() as group:
        group.start_soon(partial(export_session, store, SESSION, config_dir=out, project_key="-work"))
        await to_thread.run_sync(is_writing.wait, 60)
        group.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            await anyio.wait_all_tasks_blocked()
        may_write.set()
    assert [path for path in out.rglob("*") if path.is_file()] == []


async def test_late_entries_do_not_hide_newer_turns(stored: Stored, tmp_path: Path) -> None:
    store = MemoryStore()
    await import_session(store, SESSION, config_dir=stored.config)
    await export_session(store, SESSION, config_dir=tmp_path / "there", project_key="-work")
    there = Stored(tmp_path / "there", project=project_key_for_directory())
    stored.user("written here, not delivered", uuid=str(uuid4()))
    there.entry("user", after=None, message={"role": "user", "content": "said there"}, uuid=str(uuid4()))
    here, elsewhere = stored.config, tmp_path / "there"
    assert await import_session(store, SESSION, config_dir=elsewhere, project_key="-work") == 1
    assert await push(store, SESSION, config_dir=here) == 1
    assert await push(store, SESSION, config_dir=here) == 0
    session = await StoredSessions(store, project_key="-work").get(SESSION)
    assert [message.text for message in session.messages] == ["said there"]
    assert "written here" in str(store.entries(store.keys[0]))
    copy = await StoredSessions(store, project_key="-work").fork(SESSION)
    forked = await StoredSessions(store, project_key="-work").get(copy.id)
    assert [message.text for message in forked.messages] == ["said there"]
    there.entry("user", after=session.messages[-1].uuid, message={"role": "user", "content": "more"}, uuid=str(uuid4()))
    await push(store, SESSION, config_dir=elsewhere, project_key="-work")
    session = await StoredSessions(store, project_key="-work").get(SESSION)
    assert [message.text for message in session.messages] == ["said there", "more"]


async def test_a_copy_that_takes_long_keeps_its_lease(stored: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    class SlowStore(MemoryStore):
        renewed = 0

        async def renew_lease(self, lease: Lease, *, ttl: float = 30.0) -> Lease:
            self.renewed += 1
            return await super().renew_lease(lease, ttl=ttl)

        async def append(self, key: SessionKey, entries: list[Any], *, epoch: int | None = None) -> None:
            with anyio.fail_after(60):
                while self.renewed < 2:
                    await anyio.sleep(0.01)
            await super().append(key, entries, epoch=epoch)

    set_bound(monkeypatch, "LEASE_SECONDS", 0.15)
    assert await import_session(SlowStore(), SESSION, config_dir=stored.config) == 6


async def test_a_session_that_is_written_gets_no_copies(stored: Stored, tmp_path: Path) -> None:
    """A copy that found the session as it was would hide what its writer added meanwhile."""
    store, other = SQLiteStore(tmp_path / "s.db"), MemoryStore()
    key: SessionKey = {"project_key": "-work", "session_id": SESSION}
    await import_session(store, SESSION, config_dir=stored.config)
    await copy_session(store, other, SESSION, project_key="-work")
    before = await store.load(key)
    stored.user("written here")
    lease = await store.acquire_lease(key, "a writer")
    for copied in (
        import_session(store, SESSION, config_dir=stored.config),
        push(store, SESSION, config_dir=stored.config),
        copy_session(other, store, SESSION, project_key="-work"),
    ):
        with pytest.raises(SessionLeasedError, match="a writer"):
            await copied
    assert await store.load(key) == before
    await store.release_lease(lease)
    assert await push(store, SESSION, config_dir=stored.config) == 1
    await store.acquire_lease(key, "another")  # the copies gave their leases back


class Continued:
    """A store without leases, to whose session another process appends while the next batch is stored."""

    def __init__(self) -> None:
        self._kept = MemoryStore()
        self.next: list[SessionStoreEntry] = []

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        await self._kept.append(key, entries)
        late, self.next = self.next, []
        await self._kept.append(key, late)

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        return await self._kept.load(key)


async def test_a_copy_does_not_hide_what_another_process_adds_meanwhile(stored: Stored, tmp_path: Path) -> None:
    store, there = Continued(), Stored(tmp_path / "there", project="-work")
    await import_session(store, SESSION, config_dir=stored.config)
    there.path.write_bytes(stored.path.read_bytes())
    last = stored.user("written here, not delivered", uuid=str(uuid4()))
    stored.note("last-prompt", lastPrompt="written here, not delivered", leafUuid=last, explicit=True)
    base = (await store.load({"project_key": "-work", "session_id": SESSION}) or [])[-1].get("uuid")
    prompt = str(uuid4())
    there.user("said there", after=base, uuid=prompt)
    await push(store, SESSION, config_dir=there.config)
    there.assistant("THE ANSWER", after=prompt, uuid=str(uuid4()))
    store.next = [json.loads(there.path.read_text().splitlines()[-1])]
    await push(store, SESSION, config_dir=stored.config)
    session = await StoredSessions(store, project_key="-work").get(SESSION)
    assert [message.text for message in session.messages][-2:] == ["said there", "THE ANSWER"]


async def test_an_export_does_not_replace_a_session_that_begins_meanwhile(stored: Stored, tmp_path: Path) -> None:
    path = tmp_path / "out" / "projects" / project_key_for_directory("/elsewhere") / f"{SESSION}.jsonl"

    class Slow(MemoryStore):
        async def list_subkeys(self, key: Any) -> list[str]:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("another process")
            return await super().list_subkeys(key)

    store = Slow()
    await import_session(store, SESSION, config_dir=stored.config)
    for _ in range(2):
        with pytest.raises(SessionError, match="already exists") as caught:
            await export_session(store, SESSION, "/elsewhere", config_dir=tmp_path / "out", project_key="-work")
        assert caught.value.session_id == SESSION
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    assert path.read_text() == "another process"


@pytest.mark.parametrize("has_links", [True, False])
@pytest.mark.parametrize("has_subagents", [True, False])
async def test_an_export_does_not_replace_a_session_that_begins_at_its_end(
    has_links: bool, has_subagents: bool, stored: Stored, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process writes the file after the whole session has been copied."""
    path = tmp_path / "out" / "projects" / project_key_for_directory("/elsewhere") / f"{SESSION}.jsonl"
    link = os.link

    def begin(draft: str, name: str) -> None:
        if name == str(path):
            path.write_text("another process")
        if not has_links:
            raise PermissionError(errno.EPERM, "no links here")
        link(draft, name)

    if not has_subagents:
        shutil.rmtree(stored.path.with_suffix(""))
    store = MemoryStore()
    await import_session(store, SESSION, config_dir=stored.config)
    monkeypatch.setattr(os, "link", begin)
    with pytest.raises(SessionError, match="already exists"):
        await export_session(store, SESSION, "/elsewhere", config_dir=tmp_path / "out", project_key="-work")
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    assert path.read_text() == "another process"


async def test_an_export_leaves_what_is_left_of_a_deleted_session(stored: Stored, tmp_path: Path) -> None:
    store = MemoryStore()
    await import_session(store, SESSION, config_dir=stored.config)
    left = tmp_path / "projects" / project_key_for_directory("/elsewhere") / SESSION / "tool-results" / "1.txt"
    left.parent.mkdir(parents=True)
    left.write_text("a result")
    with pytest.raises(SessionError, match=r"cannot be written: .*not empty") as caught:
        await export_session(store, SESSION, "/elsewhere", config_dir=tmp_path, project_key="-work")
    assert caught.value.session_id == SESSION
    assert [each for each in (tmp_path / "projects").rglob("*") if each.is_file()] == [left]


async def test_a_copy_has_no_requests_and_no_description_that_is_junk(stored: Stored) -> None:
    stored.line({"type": "api-request", "body": "x"})
    [agent] = stored.path.with_suffix("").rglob("*.jsonl")
    agent.with_suffix(".meta.json").write_text("[]")
    requests = agent.with_name("agent-requests.jsonl")
    requests.write_text('{"type":"api-request"}\n')
    store = MemoryStore()
    await import_session(store, SESSION, config_dir=stored.config)
    key: SessionKey = {"project_key": "-work", "session_id": SESSION}
    assert {entry["type"] for entry in store.entries(key)} == {"custom-title", "user", "assistant"}
    agent_key: SessionKey = {**key, "subpath": f"subagents/{agent.stem}"}
    assert {entry["type"] for entry in store.entries(agent_key)} == {"user", "assistant"}
    assert await store.load({**key, "subpath": f"subagents/{requests.stem}"}) is None


async def test_an_export_needs_no_links(stored: Stored, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise PermissionError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    store = MemoryStore()
    await import_session(store, SESSION, config_dir=stored.config)
    out = tmp_path / "out"
    path = await export_session(store, SESSION, "/elsewhere", config_dir=out, project_key="-work")
    assert len(get_session(SESSION, config_dir=out).subagents) == 1
    assert [each.name for each in Path(path).parent.iterdir() if each.is_file()] == [Path(path).name]


LONG = "x" * (17 * 1024 * 1024)
"""Longer than documents of a prompt that the API accepts."""


async def test_a_copy_has_the_long_lines_of_the_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    here = Stored(tmp_path / "config")
    here.user(LONG)
    here.assistant("read")
    store = MemoryStore()
    assert await import_session(store, SESSION, config_dir=here.config) == 2
    fork = fork_session(SESSION, config_dir=here.config)
    read = [get_session(each, config_dir=here.config) for each in (SESSION, fork.id)]
    read.append(await StoredSessions(store, project_key="-work").get(SESSION))
    assert [[len(message.text) for message in each.messages] for each in read] == [[len(LONG), 4]] * 3


async def test_a_line_that_is_too_long_to_copy_is_an_error_and_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    set_bound(monkeypatch, "COPIED_BYTES", 2000)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left = private_folder.make_folder(None).path
    unlock(left)
    here = Stored(left)
    for text in ("one", "x" * 2000, "three"):
        here.user(text)
    store = MemoryStore()
    with pytest.raises(StoreError, match="has more than 2000 bytes and cannot be copied"):
        await import_session(store, SESSION, config_dir=left)
    with pytest.raises(SessionError, match="has more than 2000 bytes and cannot be copied"):
        fork_session(SESSION, config_dir=left)
    with pytest.raises(StoreError, match="lacks entries that an earlier process left"):
        await deliver_session(store, SESSION, config_dir=tmp_path / "no home", project_key="p")
    assert "has more than 2000 bytes" in caplog.text
    assert len(here.path.read_text().splitlines()) == 3


async def test_the_rest_of_a_conversation_continues_what_the_store_has(stored: Stored, tmp_path: Path) -> None:
    """A CLI on another machine: here are only the entries that the store did not accept."""
    store = MemoryStore()
    stored.entry("attachment", attachment={"type": "todo"})
    await import_session(store, SESSION, config_dir=stored.config)
    kept = Stored(tmp_path / "kept", project="undelivered")
    uuid = str(uuid4())
    kept.user("next", after=store.entries(store.keys[0])[-1].get("uuid"), uuid=uuid)
    kept.assistant("next answer", after=uuid, uuid=str(uuid4()))
    assert await push(store, SESSION, config_dir=kept.config, project_key="-work") == 2
    session = await StoredSessions(store, project_key="-work").get(SESSION)
    assert [message.text for message in session.messages][1:] == ["first answer", "next", "next answer"]


async def test_missing_sessions_are_not_copied(tmp_path: Path) -> None:
    with pytest.raises(SessionNotFoundError):
        await import_session(MemoryStore(), SESSION, config_dir=tmp_path)
    with pytest.raises(SessionNotFoundError):
        await export_session(MemoryStore(), SESSION, config_dir=tmp_path)
    with pytest.raises(SessionNotFoundError):
        await copy_session(MemoryStore(), MemoryStore(), SESSION)
    with pytest.raises(SessionNotFoundError):
        await push(MemoryStore(), SESSION, config_dir=tmp_path)
    with pytest.raises(OptionsError):
        await export_session(MemoryStore(), "../x", config_dir=tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "subpath", ["../../evil", "/tmp/evil", "subagents/../../../evil", "a//b", "a/./b", "C:\\evil", "a\\..\\b", "a\0b"]
)
async def test_a_subpath_cannot_lead_out_of_the_folder(subpath: str, tmp_path: Path) -> None:
    class Hostile(MemoryStore):
        async def list_subkeys(self, key: object) -> list[str]:
            return [subpath]

        async def load(self, key: object) -> list[SessionStoreEntry]:
            return [{"type": "user", "uuid": "u"}]

    store = Hostile()
    with pytest.raises(StoreError, match=r"unsafe subpath|subpath of a key"):
        await export_session(store, SESSION, config_dir=tmp_path / "config", project_key="p")
    assert not list(tmp_path.rglob("*evil*"))


@pytest.mark.skipif(os.name == "nt", reason="the locks of folders are POSIX only")
def test_secrets_of_a_killed_process_are_removed_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temp"))
    (tmp_path / "temp").mkdir()
    home = tmp_path / "home" / ".claude"
    home.mkdir(parents=True)
    (home / ".credentials.json").write_text("{}")
    env = {"HOME": str(tmp_path / "home")}
    left = private_folder.make_folder(env)
    (left.projects / "x.jsonl").write_text("{}\n")
    alive = private_folder.make_folder(env)
    unlock(left.path)  # as if its process had died
    os.utime(left.path, (os.stat(left.path).st_mtime - 120,) * 2)
    private_folder.make_folder(env).remove()
    assert os.listdir(left.path) == ["projects"]
    assert (left.projects / "x.jsonl").exists()
    assert (alive.path / ".credentials.json").exists()
    os.utime(left.path, (1, 1))
    private_folder.make_folder(env).remove()
    assert (left.projects / "x.jsonl").exists()  # it was written a moment ago, by a process that was old
    os.utime(left.projects / "x.jsonl", (1, 1))
    os.utime(left.path, (1, 1))
    private_folder.make_folder(env).remove()
    assert os.listdir(tmp_path / "temp") == [alive.path.name]
    alive.remove()


@pytest.mark.parametrize("is_removed_meanwhile", [False, True])
def test_a_folder_without_transcripts_that_a_killed_process_left_is_removed_by_the_next(
    is_removed_meanwhile: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left = private_folder.make_folder(None).path
    unlock(left)  # as if its process had died
    os.utime(left, (os.stat(left).st_mtime - 120,) * 2)

    def removed_meanwhile(path: Any) -> Any:
        if is_removed_meanwhile and str(path).startswith(str(left)):
            monkeypatch.setattr(os, "scandir", scandir)
            shutil.rmtree(left)
        return scandir(path)

    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", removed_meanwhile)
    private_folder.make_folder(None).remove()
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(os.name == "nt", reason="the locks of folders are POSIX only")
def test_a_private_folder_is_not_taken_for_one_that_was_left_before_it_is_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    found: list[Path] = []

    def look_before(descriptor: int, operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", flock)
        found.extend(private_folder.find_left_behind(private_folder.PREFIX))  # as another process does
        flock(descriptor, operation)

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    flock = fcntl.flock
    monkeypatch.setattr(fcntl, "flock", look_before)
    folder = private_folder.make_folder(None)
    assert found == []
    assert os.listdir(tmp_path) == [folder.path.name]
    folder.remove()


def test_a_private_folder_is_removed_once_and_not_by_a_forked_process(tmp_path: Path) -> None:
    program = """
import os, sys, tempfile
from claude_agent_py.sessions.stores import private_folder
tempfile.tempdir = sys.argv[1]
folder = private_folder.make_folder(None)
if not (child := os.fork()):
    folder.remove()
    os._exit(0)
os.waitpid(child, 0)
print(folder.path.exists())
folder.remove()
print(folder.path.exists())
folder.path.mkdir()
folder.remove()
print(folder.path.exists())
"""
    done = run_program([sys.executable, "-W", "ignore", "-c", program, str(tmp_path)])
    assert (done.stdout, done.stderr) == ("True\nFalse\nTrue\n", "")


async def test_leftovers_of_other_sessions_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left = private_folder.make_folder(None).path
    unlock(left)
    other = SESSION.replace("1", "2")
    for session_id in (SESSION, other):
        Stored(left, session_id).user("kept")
    store = MemoryStore()
    for session_id, is_last in ((SESSION, False), (other, True)):
        place = Place("p", session_id)
        await StoreAccess(store).send_leftovers(place, None)
        assert len(store.entries(place.key)) == 1
        assert left.exists() is not is_last


@pytest.mark.each_backend
async def test_leftovers_may_be_removed_by_another_process_that_delivers_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left = private_folder.make_folder(None).path
    unlock(left)  # as if its process had died
    Stored(left).user("kept")

    def removed_meanwhile(path: Any) -> Any:
        if store.keys:
            monkeypatch.setattr(os, "scandir", scandir)
            shutil.rmtree(left)
        return scandir(path)

    store, scandir = MemoryStore(), os.scandir
    monkeypatch.setattr(os, "scandir", removed_meanwhile)
    await deliver_session(store, SESSION, config_dir=tmp_path / "none")
    assert not left.exists()
    assert len(store.keys) == 1


async def test_leftovers_go_to_the_store_that_lacks_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    async def ignore(error: StoreError, *, is_final: bool) -> None: ...

    place = Place("p", SESSION)
    mirror = Mirror(StoreAccess(SQLiteStore(tmp_path / "a.db")), "p", report=ignore)
    mirror.add(place, [{"type": "user", "uuid": "1"}], 1)
    left = mirror.keep(place)
    unlock(left)  # as if its process had died
    others = (SQLiteStore(tmp_path / "b.db"), MemoryStore(), DirectoryStore(tmp_path / "a"))
    for other in others:
        await deliver_session(other, SESSION, config_dir=tmp_path / "no home", project_key="p")
        assert await other.load(place.key) is None
        assert f"{left} has entries of session {SESSION} for another store" in caplog.text
        caplog.clear()
    store = SQLiteStore(tmp_path / "a.db")
    await deliver_session(store, SESSION, config_dir=tmp_path / "no home", project_key="p")
    assert await store.load(place.key) == [{"type": "user", "uuid": "1"}]
    assert not left.exists()


async def test_leftovers_are_not_sent_under_a_lease_that_was_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left = private_folder.make_folder(None).path
    unlock(left)
    Stored(left).user("kept")
    store, place = SQLiteStore(tmp_path / "s.db"), Place("p", SESSION)
    lease = await store.acquire_lease(place.key, "asleep")
    await store.acquire_lease(place.key, "awake", steal=True)
    [(_, own)] = await StoreAccess(store).send_leftovers(place, lease)
    assert own.session == SESSION
    assert await store.load(place.key) is None
    assert left.exists()


@pytest.mark.parametrize("way", [push, deliver_session])
async def test_what_a_store_lacks_of_a_subagent_alone_is_sent(
    way: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    async def ignore(error: StoreError, *, is_final: bool) -> None: ...

    store, place = MemoryStore(), Place("p", SESSION, "subagents/agent-1")
    mirror = Mirror(StoreAccess(store), "p", report=ignore)
    mirror.add(place, [{"type": "user", "uuid": "1"}], 1)
    left = mirror.keep(place)
    unlock(left)  # as if its process had died
    await way(store, SESSION, config_dir=left, project_key="p")
    assert store.entries(place.key) == [{"type": "user", "uuid": "1"}]
    assert left.exists() is (way is push)


class Dated(MemoryStore):
    """Has written its sessions at the times that the test says."""

    def __init__(self, **times: int) -> None:
        super().__init__()
        self.times = {SESSION.replace("1", number): time for number, time in times.items()}

    async def list_sessions(self, project_key: str) -> Any:
        listed = [{"session_id": session_id, "mtime": time} for session_id, time in self.times.items()]
        return [*listed, {"session_id": "not a uuid", "mtime": 99}]


async def test_the_newest_session_is_the_last_one_that_a_person_wrote_in() -> None:
    sessions = {number: SESSION.replace("1", number) for number in "abcd"}
    store, entries = Dated(a=5, b=7, c=8, d=9), {"a": {}, "b": {}, "c": {"isSidechain": True}}  # and `d` has none
    for number, fields in entries.items():
        key: SessionKey = {"project_key": "p", "session_id": sessions[number]}
        await store.append(key, [{"type": "user", "uuid": "1", **fields}])  # type: ignore[typeddict-item]
    assert await StoreAccess(store).find_newest_session("p") == sessions["b"]
    assert await StoreAccess(Dated(d=9)).find_newest_session("p") is None


async def test_a_session_in_several_projects_is_that_of_the_directory(tmp_path: Path) -> None:
    store = MemoryStore()
    for project in (project_key_for_directory("/elsewhere"), "-other"):
        key: SessionKey = {"project_key": project, "session_id": SESSION}
        message = {"role": "user", "content": project}
        await store.append(key, [{"type": "user", "uuid": str(uuid4()), "message": message}])  # type: ignore[typeddict-unknown-key]
    path = await export_session(store, SESSION, "/elsewhere", config_dir=tmp_path / "out")
    assert project_key_for_directory("/elsewhere") in Path(path).read_text()
    with pytest.raises(
        StoreError, match="in several projects; project_key must be one of -elsewhere, -other"
    ) as caught:
        await export_session(store, SESSION, "/somewhere", config_dir=tmp_path / "out")
    assert caught.value.session_id == SESSION


async def test_a_call_of_a_store_that_hangs_ends_in_time(stored: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang(*args: object, **more: object) -> None:
        await anyio.sleep_forever()

    place, store = Place("p", SESSION), MemoryStore()
    for method in ("find_session", "delete", "acquire_lease", "list_subkeys"):
        monkeypatch.setattr(store, method, hang)
    access, source = StoreAccess(store, 0.05), MemoryStore()
    await import_session(source, SESSION, config_dir=stored.config, project_key="p")
    calls: list[tuple[Callable[[], Awaitable[object]], str]] = [
        (lambda: access.find(SESSION), f"find session {SESSION}"),
        (lambda: access.delete(place), f"delete p/{SESSION}"),
        (access.hold_lease(place).take, f"acquire the lease of session {SESSION}"),
        (lambda: access.list_subpaths(place), f"list the subagents of p/{SESSION}"),
        (
            lambda: push(store, SESSION, config_dir=stored.config, timeout=0.05),
            f"acquire the lease of session {SESSION}",
        ),
        (
            lambda: copy_session(source, store, SESSION, project_key="p", timeout=0.05),
            f"acquire the lease of session {SESSION}",
        ),
    ]
    for call, action in calls:
        with anyio.fail_after(60), pytest.raises(StoreError, match=rf"took more than 0\.05 s to {action}$"):
            await call()


async def test_a_lease_of_a_store_that_hangs_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    class HangingStore(MemoryStore):
        async def release_lease(self, lease: Any) -> None:
            await anyio.sleep_forever()

    with anyio.fail_after(60):
        async with StoreAccess(HangingStore(), 0.5).hold_lease(Place("p", SESSION)):
            pass
    assert "cannot be released: the store did not answer in time" in caplog.text


async def test_a_store_that_hangs_does_not_hold_up_a_resumption(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class HangingStore(MemoryStore):
        async def append(self, *args: Any, **more: Any) -> None:
            await anyio.sleep_forever()

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left = private_folder.make_folder(None).path
    unlock(left)
    file = Stored(left, SESSION)
    file.user("kept")
    place = Place("p", SESSION)
    with anyio.fail_after(60):
        [(_, waiting)] = await StoreAccess(HangingStore(), 0.05).send_leftovers(place, None)
    assert waiting == Place(file.path.parent.name, SESSION)
    assert "took more than 0.05 s to append to p/" in caplog.text


def test_secrets_are_removed_when_the_interpreter_exits(tmp_path: Path) -> None:
    home = tmp_path / "home" / ".claude"
    home.mkdir(parents=True)
    (home / ".credentials.json").write_text("{}")
    program = """
import sys, tempfile
from claude_agent_py.sessions.stores import private_folder
tempfile.tempdir = sys.argv[1]
folder = private_folder.make_folder({"HOME": sys.argv[2]})
(folder.projects / "x.jsonl").write_text("{}")
assert (folder.path / ".credentials.json").exists()
print(folder.path)
"""
    command = [sys.executable, "-c", program, str(tmp_path), str(tmp_path / "home")]
    done = run_program(command)
    folder = Path(done.stdout.strip())
    assert os.listdir(folder) == ["projects"]
    assert os.listdir(folder / "projects") == ["x.jsonl"]


async def test_all_that_a_machine_has_of_a_session_is_delivered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a killed process left, and what the model wrote in the CLI's folder before its program died."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    store, place, home = MemoryStore(), Place("p", SESSION), tmp_path / "home"
    local = Stored(home, SESSION)
    local.user("prompt")
    await deliver_session(store, SESSION, config_dir=home, project_key="p")
    call = local.assistant({"type": "tool_use", "id": "t1", "name": "Bash", "input": {}})
    await deliver_session(store, SESSION, config_dir=home, project_key="p")
    assert [entry["uuid"] for entry in store.entries(place.key)][-1] == call

    closed = "Tool permission request failed: AbortError: Tool permission stream closed before response received"
    local.user([{"type": "tool_result", "tool_use_id": "t1", "is_error": True, "content": closed}])
    local.assistant({"type": "text", "text": "I was not allowed to."})
    await deliver_session(store, SESSION, config_dir=home, project_key="p")
    assert [entry["uuid"] for entry in store.entries(place.key)][-1] == call

    left = private_folder.make_folder(None).path
    unlock(left)
    more = Stored(left, SESSION)
    for text in ("prompt", "call", "from a killed process"):  # the first two have the uuids of those in the store
        more.user(text)
    more.user([{"type": "tool_result", "tool_use_id": "t1", "is_error": True, "content": closed}])
    await deliver_session(store, SESSION, config_dir=tmp_path / "no home", project_key="p")
    assert "from a killed process" in json.dumps(store.entries(place.key))
    assert closed not in json.dumps(store.entries(place.key))
    assert not left.exists()


async def test_a_command_after_an_interruption_is_delivered(tmp_path: Path) -> None:
    store, home = MemoryStore(), tmp_path / "home"
    local = Stored(home, SESSION)
    local.user("prompt")
    local.user([{"type": "text", "text": "[Request interrupted by user]"}])
    local.user("<command-message>fix</command-message>\n<command-name>/fix</command-name>")
    last = local.assistant({"type": "text", "text": "Fixed."})
    await deliver_session(store, SESSION, config_dir=home, project_key="p")
    assert [entry["uuid"] for entry in store.entries(Place("p", SESSION).key)][-1] == last


@pytest.mark.parametrize("then", ["an interruption", "nothing", "an answer", "a prompt"])
async def test_a_call_that_a_dying_cli_rejected_has_no_result_unless_the_turn_went_on(
    tmp_path: Path, then: str
) -> None:
    store, home = MemoryStore(), tmp_path / "home"
    local = Stored(home, SESSION)
    local.user("prompt")
    last = local.assistant({"type": "tool_use", "id": "t1", "name": "Bash", "input": {}})
    rejected = (
        "The user doesn't want to proceed with this tool use. The tool use was rejected. STOP what you are doing."
    )
    local.user([{"type": "tool_result", "tool_use_id": "t1", "is_error": True, "content": rejected}])
    if then == "an interruption":
        local.user([{"type": "text", "text": "[Request interrupted by user for tool use]"}])
    elif then == "an answer":
        last = local.assistant({"type": "text", "text": "Then not."})
    elif then == "a prompt":
        last = local.user("Then look only.")
    await deliver_session(store, SESSION, config_dir=home, project_key="p")
    assert [entry["uuid"] for entry in store.entries(Place("p", SESSION).key)][-1] == last


@pytest.mark.skipif(sys.platform == "win32", reason="the program here is a shell script")
@pytest.mark.parametrize(
    ("says", "more", "login"),
    [
        ("""echo '{"claudeAiOauth": {"accessToken": "at", "refreshToken": "rt"}}'""", {}, {"accessToken": "at"}),
        ("exit 44", {}, None),
        ("echo", {}, None),
        ("touch asked", {"ANTHROPIC_API_KEY": "key"}, None),
    ],
)
def test_on_macos_the_login_is_in_the_keychain(
    says: str, more: dict[str, str], login: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    security = tmp_path / "security"
    security.write_text(f'#!/bin/sh\ncd {tmp_path}\n[ "$*" = "{KEYCHAIN}" ] && {says}\n')
    security.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(sys, "platform", "darwin")
    folder = private_folder.make_folder({"HOME": str(tmp_path), "USER": "me", **more})
    copied = folder.path / ".credentials.json"
    assert (json.loads(copied.read_text())["claudeAiOauth"] if copied.exists() else None) == login
    folder.remove()
    assert not (tmp_path / "asked").exists()


KEYCHAIN = "find-generic-password -a me -w -s Claude Code-credentials"


def test_settings_of_plugins_are_copied_only_with_the_plugins(tmp_path: Path) -> None:
    settings = {
        "enabledPlugins": {"a": True},
        "extraKnownMarketplaces": {},
        "env": {"CLAUDE_CONFIG_DIR": "/x", "A": "b"},
    }
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / "settings.json").write_text(json.dumps(settings))
    folder = private_folder.make_folder({"HOME": str(tmp_path)})
    assert json.loads((folder.path / "settings.json").read_text()) == {"env": {"A": "b"}}
    folder.remove()


def test_what_cannot_be_linked_is_left_out_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_arguments: object, **_keywords: object) -> None:
        raise OSError("links need a privilege")

    (tmp_path / ".claude" / "skills").mkdir(parents=True)
    monkeypatch.setattr(os, "symlink", refuse)
    private_folder.make_folder({"HOME": str(tmp_path)}).remove()
    assert "runs without skills" in caplog.text


def test_a_private_folder_that_cannot_be_filled_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int, mode: str = "r", *more: Any) -> Any:
        if "w" in mode:
            os.close(descriptor)
            raise OSError(errno.ENOSPC, "No space left on device")
        return fdopen(descriptor, mode, *more)

    fdopen = os.fdopen

    (tmp_path / "temp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temp"))
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / "settings.json").write_text("{}")
    monkeypatch.setattr(os, "fdopen", full)
    with pytest.raises(StoreError, match="the private folder cannot be filled"):
        private_folder.make_folder({"HOME": str(tmp_path)})
    assert list((tmp_path / "temp").iterdir()) == []
