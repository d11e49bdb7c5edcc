"""The mirror: what waits, what is tried again, and what happens when a store cannot keep up."""

import json
import os
import random
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from bounds import set_bound
from forks import run_program

from claude_agent_py.errors import SessionLeasedError, StoreError
from claude_agent_py.sessions import Lease, MemoryStore, SessionKey, SessionStoreEntry, push
from claude_agent_py.sessions.stores import mirror as mirror_module
from claude_agent_py.sessions.stores.access import StoreAccess
from claude_agent_py.sessions.stores.base import BATCH_ENTRIES
from claude_agent_py.sessions.stores.mirror import QUEUE_BYTES, Mirror
from claude_agent_py.sessions.stores.protocol import Place

pytestmark = pytest.mark.anyio

SESSION = "11111111-1111-4111-8111-111111111111"
KEY: SessionKey = {"project_key": "p", "session_id": SESSION}


class Store(MemoryStore):
    """Fails as often as it is told to, or waits until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.fails = 0
        self.batches: list[list[SessionStoreEntry]] = []
        self.gate: anyio.Event | None = None
        self.called = anyio.Event()

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry], *, epoch: int | None = None) -> None:
        self.called.set()
        if self.gate is not None:
            await self.gate.wait()
        if self.fails:
            self.fails -= 1
            raise OSError("not now")
        self.batches.append(entries)
        await super().append(key, entries, epoch=epoch)


class Running:
    """A mirror at work on a transcript that the test writes."""

    def __init__(self, store: Store, folder: Path, **settings: Any) -> None:
        self.store = store
        self.path = folder / "projects" / "-work" / f"{SESSION}.jsonl"
        self.path.parent.mkdir(parents=True)
        self.errors: list[tuple[str, bool]] = []
        self.mirror = Mirror(StoreAccess(store), "p", report=self._report, **settings)
        self._count = 0

    async def _report(self, error: StoreError, *, is_final: bool) -> None:
        self.errors.append((str(error), is_final))

    def entry(self, size: int = 10) -> dict[str, Any]:
        """Make an entry with a uuid."""
        self._count += 1
        return {"type": "user", "uuid": str(uuid.UUID(int=self._count)), "text": "x" * size}

    def written(self, *entries: dict[str, Any]) -> None:
        """Write entries to the file, of which the mirror is not told yet."""
        with self.path.open("a") as file:
            file.writelines(json.dumps(entry) + "\n" for entry in entries)

    def reported(self, *entries: dict[str, Any]) -> None:
        """Give entries to the mirror."""
        self.mirror.take(str(self.path), list(entries), len(json.dumps(entries)))

    def write(self, size: int = 10) -> dict[str, Any]:
        """Write an entry to the file, and tell the mirror of it, as the CLI does."""
        entry = self.entry(size)
        self.written(entry)
        self.reported(entry)
        return entry


async def test_a_failed_batch_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirror_module, "PAUSES", (0.0, 0.0))
    store = Store()
    store.fails = 2
    running = Running(store, tmp_path, flush="eager")
    async with anyio.create_task_group() as workers:
        workers.start_soon(running.mirror.run)
        first = running.write()
        with anyio.fail_after(60):
            while not store.batches:
                await anyio.sleep(0.01)
        await running.mirror.drain(anyio.current_time() + 60)
    assert store.entries(KEY) == [first]
    assert running.errors == []


async def test_batches_are_sent_at_the_end_of_a_turn_or_when_they_are_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror_module, "BATCH_SECONDS", 1000)
    store = Store()
    running = Running(store, tmp_path)
    async with anyio.create_task_group() as workers:
        workers.start_soon(running.mirror.run)
        turn = [running.write(), running.write()]
        await anyio.wait_all_tasks_blocked()
        assert not store.called.is_set()
        running.mirror.flush()
        with anyio.fail_after(60):
            await store.called.wait()
        store.called = anyio.Event()
        for _ in range(BATCH_ENTRIES):
            running.write()
        with anyio.fail_after(60):
            await store.called.wait()
        await running.mirror.drain(anyio.current_time() + 60)
    assert [len(batch) for batch in store.batches] == [len(turn), BATCH_ENTRIES]


async def test_an_eager_mirror_does_not_wait_for_a_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirror_module, "BATCH_SECONDS", 1000)
    store = Store()
    running = Running(store, tmp_path, flush="eager")
    async with anyio.create_task_group() as workers:
        workers.start_soon(running.mirror.run)
        written = running.write()
        with anyio.fail_after(60):
            await store.called.wait()
        await running.mirror.drain(anyio.current_time() + 60)
    assert store.batches == [[written]]


async def test_a_store_may_change_its_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirror_module, "PAUSES", (0.0,))

    class Changing(Store):
        async def append(self, key: SessionKey, entries: list[SessionStoreEntry], *, epoch: int | None = None) -> None:
            given = [{**entry} for entry in entries]
            entries.pop()["uuid"] = "another"
            await super().append(key, cast("Any", given), epoch=epoch)

    store = Changing()
    store.fails = 1
    running = Running(store, tmp_path)
    async with anyio.create_task_group() as workers:
        workers.start_soon(running.mirror.run)
        written = [running.write(), running.write()]
        await running.mirror.drain(anyio.current_time() + 60)
    assert store.entries(KEY) == written


async def test_a_slow_store_does_not_fill_the_memory(tmp_path: Path) -> None:
    store = Store()
    store.gate = anyio.Event()
    running = Running(store, tmp_path, flush="eager")
    async with anyio.create_task_group() as workers:
        workers.start_soon(running.mirror.run)
        written = [running.write()]
        with anyio.fail_after(60):
            await store.called.wait()
        size = QUEUE_BYTES // 8
        most = 0
        for _ in range(12):
            written.append(running.write(size))
            most = max(most, sum(outbox.size for outbox in running.mirror._outboxes.values()))
        assert most <= QUEUE_BYTES
        assert running.mirror.undelivered
        store.gate.set()
        await running.mirror.drain(anyio.current_time() + 60)
    assert store.entries(KEY) == written  # the rest came from a file, in order
    assert running.mirror.folder is not None
    assert list(running.mirror.folder.path.rglob("*.jsonl")) == []
    running.mirror.folder.remove()
    assert running.errors == []


async def test_what_the_store_accepts_makes_room_for_more(tmp_path: Path) -> None:
    store = Store()
    running = Running(store, tmp_path, flush="eager")
    async with anyio.create_task_group() as workers:
        workers.start_soon(running.mirror.run)
        with anyio.fail_after(60):
            for _ in range(5):
                running.write(QUEUE_BYTES // 2)
                await running.mirror.sync()
        await running.mirror.drain(anyio.current_time() + 60)
    assert len(store.entries(KEY)) == 5
    assert running.mirror.folder is None


def test_a_report_costs_as_much_next_to_many_transcripts_as_next_to_one(tmp_path: Path) -> None:
    def measure(transcripts: int) -> float:
        mirror = Mirror(StoreAccess(Store()), "p", report=Running._report)  # type: ignore[arg-type]
        for number in range(transcripts):
            mirror.add(Place("p", SESSION, f"subagents/agent-{number}"), [], 0)
        start = time.process_time()
        for _ in range(500):
            mirror.add(Place("p", SESSION), [{"type": "user"}], 1)
        return time.process_time() - start

    assert min(measure(5000) for _ in range(3)) < 20 * min(measure(1) for _ in range(3)) + 0.01


async def test_the_event_loop_does_not_read_what_waits_in_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readers = set[int]()

    def open_recorded(*args: Any) -> Any:
        readers.add(threading.get_ident())
        return open(*args)

    monkeypatch.setattr(mirror_module, "open", open_recorded, raising=False)
    monkeypatch.setattr(mirror_module, "QUEUE_BYTES", 300)
    store = Store()
    running = Running(store, tmp_path, flush="eager")
    written = [running.write(100) for _ in range(10)]
    async with anyio.create_task_group() as workers:
        workers.start_soon(running.mirror.run)
        await running.mirror.drain(anyio.current_time() + 60)
    assert store.entries(KEY) == written
    assert readers
    assert threading.get_ident() not in readers


@pytest.mark.parametrize("in_file", [False, True])
async def test_accepted_entries_are_not_sent_again_after_a_cancellation(
    in_file: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Cancelling(Store):
        async def append(self, key: SessionKey, entries: list[SessionStoreEntry], *, epoch: int | None = None) -> None:
            await super().append(key, entries, epoch=epoch)
            workers.cancel_scope.cancel()

    monkeypatch.setattr(mirror_module, "QUEUE_BYTES", 10 if in_file else QUEUE_BYTES)
    store = Cancelling()
    running = Running(store, tmp_path, flush="eager")
    running.reported(TITLE)
    assert (running.mirror.folder is not None) is in_file
    async with anyio.create_task_group() as workers:
        workers.start_soon(running.mirror.run)
    assert store.entries(KEY) == [TITLE]
    assert running.mirror.undelivered == []


@pytest.mark.parametrize("damage", [lambda path: os.truncate(path, 150), os.unlink])
async def test_entries_that_were_lost_from_a_file_are_an_error(
    damage: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror_module, "QUEUE_BYTES", 10)
    running = Running(Store(), tmp_path, flush="eager")
    for _ in range(3):
        running.write(100)
    assert running.mirror.folder is not None
    [file] = running.mirror.folder.path.rglob("*.jsonl")
    damage(file)
    running.write(100)
    async with anyio.create_task_group() as workers:
        workers.start_soon(running.mirror.run)
        await running.mirror.drain(anyio.current_time() + 60)
    assert [is_last for _, is_last in running.errors] == [False, True]
    assert "cannot be read" in running.errors[0][0]
    assert [place.session for place in running.mirror.undelivered] == [SESSION]
    running.mirror.folder.remove()


async def test_entries_that_cannot_be_written_to_a_file_wait_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "full"))
    monkeypatch.setattr(mirror_module, "QUEUE_BYTES", 300)
    store = Store()
    store.gate = anyio.Event()
    running = Running(store, tmp_path, flush="eager")
    async with anyio.create_task_group() as workers:
        workers.start_soon(running.mirror.run)
        written = [running.write(100) for _ in range(10)]
        store.gate.set()
        await running.mirror.drain(anyio.current_time() + 60)
    assert store.entries(KEY) == written
    assert "stay in memory" in caplog.text


async def test_a_store_that_hangs_does_not_hold_up_the_end(tmp_path: Path) -> None:
    store = Store()
    store.gate = anyio.Event()
    running = Running(store, tmp_path)
    async with anyio.create_task_group() as workers:
        workers.start_soon(running.mirror.run)
        running.write()
        with anyio.fail_after(60):
            await running.mirror.drain(anyio.current_time() + 0.2)
        workers.cancel_scope.cancel()
    [(told, is_last)] = running.errors
    assert is_last
    assert "in time" in told
    assert [place.session for place in running.mirror.undelivered] == [SESSION]


async def test_order_holds_when_a_batch_fails_and_the_next_would_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror_module, "PAUSES", ())
    store = Store()
    store.fails = 2  # the batch, and the first attempt to catch up
    monkeypatch.setattr(mirror_module, "BEHIND_SECONDS", (0.01, 0.01))
    running = Running(store, tmp_path, flush="eager")
    async with anyio.create_task_group() as workers:
        workers.start_soon(running.mirror.run)
        written = [running.write()]
        with anyio.fail_after(60):
            while store.fails:
                await anyio.sleep(0.01)
        written += [running.write(), running.write()]
        await running.mirror.drain(anyio.current_time() + 60)
    assert store.entries(KEY) == written
    assert [is_last for _, is_last in running.errors] == [False]


TITLE = {"type": "custom-title", "customTitle": "a"}
OTHER = {"type": "custom-title", "customTitle": "b"}


@pytest.mark.parametrize("recovers", [True, False])
async def test_entries_of_a_cli_elsewhere_are_kept_here(
    recovers: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror_module, "PAUSES", ())
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    store = Store()
    store.fails = 2 if recovers else 1000
    running = Running(store, tmp_path / "elsewhere", flush="eager")
    entries = [running.entry(), TITLE, running.entry(), OTHER, running.entry()]
    async with anyio.create_task_group() as workers:
        workers.start_soon(running.mirror.run)
        for count, entry in enumerate(entries):
            before = store.fails
            running.reported(entry)
            with anyio.fail_after(60):
                while not count and store.fails == before:
                    await anyio.sleep(0.01)
        await running.mirror.drain(anyio.current_time() + 60)
        running.reported()
    if recovers:
        assert not running.errors[1:]
        assert not running.mirror.undelivered
    else:
        assert [is_last for _, is_last in running.errors] == [False, True]
        store.fails = 0
        [place] = running.mirror.undelivered
        config = running.mirror.keep(place)
        await running.mirror.end()
        assert await push(store, SESSION, config_dir=config, project_key="p") == len(entries)
    assert store.entries(KEY) == entries
    if running.mirror.folder is not None:
        running.mirror.folder.remove()


class Unreliable(Store):
    """Fails every other time, and takes a while."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self.chance = chance
        self.failing = 0.4

    async def _work(self) -> None:
        await anyio.sleep(self.chance.random() * 0.003)
        if self.chance.random() < self.failing:
            raise OSError("not now")

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry], *, epoch: int | None = None) -> None:
        await self._work()
        await super().append(key, entries, epoch=epoch)
        await anyio.sleep(self.chance.random() * 0.002)

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        await self._work()
        found = await super().load(key)
        await anyio.sleep(self.chance.random() * 0.003)
        return found


@pytest.mark.parametrize("seed", range(10))
async def test_whatever_fails_the_store_has_each_entry_once_and_in_order(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror_module, "PAUSES", ())
    monkeypatch.setattr(mirror_module, "BEHIND_SECONDS", (0.001, 0.004))
    monkeypatch.setattr(mirror_module, "BATCH_SECONDS", 0.002)
    monkeypatch.setattr(mirror_module, "QUEUE_BYTES", 300 if seed % 2 else QUEUE_BYTES)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    chance = random.Random(seed)
    store = Unreliable(chance)
    running = Running(store, tmp_path / "cli", flush=chance.choice(["eager", "batched"]))
    written: list[dict[str, Any]] = []
    unreported: list[dict[str, Any]] = []
    async with anyio.create_task_group() as workers:
        workers.start_soon(running.mirror.run)
        for _ in range(60):
            entry = running.entry() if chance.random() < 0.5 else chance.choice([TITLE, OTHER])
            written.append(entry)
            unreported.append(entry)
            if chance.random() < 0.5:
                count = chance.randint(1, len(unreported))
                running.reported(*unreported[:count])
                del unreported[:count]
            await anyio.sleep(chance.choice([0, 0, chance.random() * 0.004]))
        running.reported(*unreported)
        store.failing = 0
        await running.mirror.drain(anyio.current_time() + 60)
    assert store.entries(KEY) == written
    if (folder := running.mirror.folder) is not None:
        folder.remove()


@pytest.mark.parametrize(
    "path", ["/x/notes.jsonl", f"/x/{SESSION}.jsonl", f"/x/projects/-p/{SESSION}.txt", "/x/projects/-p/notes.jsonl"]
)
async def test_a_file_that_is_no_transcript_is_not_sent(
    path: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    running = Running(Store(), tmp_path)
    assert not running.mirror.take(path, [TITLE], 10)
    assert running.mirror.undelivered == []
    assert f"{path} is not the transcript of a session" in caplog.text
    inside = f"/x/projects/-p/{SESSION}/projects/-p/notes.jsonl"
    assert running.mirror.take(inside, [TITLE], 10)
    assert running.mirror.undelivered == [Place("p", SESSION, "projects/-p/notes")]


async def test_a_transcript_without_entries_that_wait_gets_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    running = Running(Store(), tmp_path / "cli", flush="eager")
    async with anyio.create_task_group() as workers:
        workers.start_soon(running.mirror.run)
        running.write()
        await running.mirror.sync()
        monkeypatch.setattr(mirror_module, "QUEUE_BYTES", 10)
        agent = running.path.with_suffix("") / "subagents" / "agent-1.jsonl"
        running.mirror.take(str(agent), [TITLE], 100)
        files = [path.name for path in tmp_path.glob("claude-agent-py-*/**/*.jsonl")]
        await running.mirror.drain(anyio.current_time() + 60)
    assert files == ["agent-1.jsonl"]
    folder = running.mirror.folder
    assert folder is not None
    folder.remove()


FULL_DISK = """
import resource, sys
import anyio
from claude_agent_py.errors import StoreError
from claude_agent_py.sessions import MemoryStore
from claude_agent_py.sessions.stores import mirror as module
from claude_agent_py.sessions.stores.access import StoreAccess

key = {"project_key": "p", "session_id": sys.argv[1]}
path, limits = f"/x/projects/-p/{sys.argv[1]}.jsonl", resource.getrlimit(resource.RLIMIT_FSIZE)
entries = [{"type": "user", "uuid": name, "text": "x" * 3000} for name in "abcd"]

async def report(error, *, is_final):
    print(error)

async def main():
    store = MemoryStore()
    mirror = module.Mirror(StoreAccess(store), "p", report=report)
    module.QUEUE_BYTES = 10
    mirror.take(path, entries[:1], 3000)
    [file] = mirror.folder.path.rglob("*.jsonl")
    size = file.stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, limits[1]))
    mirror.take(path, entries[1:2], 3000)
    print(file.stat().st_size == size)
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    mirror.take(path, entries[2:], 6000)
    async with anyio.create_task_group() as workers:
        workers.start_soon(mirror.run)
        await mirror.drain(anyio.current_time() + 60)
    print([entry["uuid"] for entry in store.entries(key)])
    mirror.folder.remove()

anyio.run(main)
"""


@pytest.mark.skipif(os.name == "nt", reason="there is no limit of the size of a file")
def test_a_disk_that_is_full_keeps_the_entries_in_memory_and_in_order() -> None:
    done = run_program([sys.executable, "-c", FULL_DISK, SESSION])
    assert done.stdout.splitlines() == ["True", "['a', 'b', 'c', 'd']"]
    assert "stay in memory: [Errno 28] No space left" in done.stderr


async def test_a_transcript_that_is_gone_is_delivered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirror_module, "PAUSES", ())
    store = Store()
    store.fails = 1
    running = Running(store, tmp_path, flush="eager")
    async with anyio.create_task_group() as workers:
        workers.start_soon(running.mirror.run)
        written = running.write()
        with anyio.fail_after(60):
            while store.fails:
                await anyio.sleep(0.01)
        running.path.unlink()
        await running.mirror.drain(anyio.current_time() + 60)
    assert [is_last for _, is_last in running.errors] == [False]
    assert store.entries(KEY) == [written]


async def test_a_loss_that_a_batch_has_met_is_reported_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_bound(monkeypatch, "LEASE_SECONDS", 0.15)
    store, refused = Store(), anyio.Event()
    running = Running(store, tmp_path, flush="eager")
    agent = Place("p", SESSION, "subagents/agent-1")
    await running.mirror.acquire_lease(agent)
    await store.acquire_lease(KEY, "another", steal=True)

    async def renew(lease: Lease, *, ttl: float = 30.0) -> Lease:
        try:
            return await MemoryStore.renew_lease(store, lease, ttl=ttl)
        finally:
            refused.set()

    running.mirror.add(agent, [{"type": "user", "uuid": "a"}], 10)
    async with anyio.create_task_group() as workers:
        workers.start_soon(running.mirror.run)
        await running.mirror.sync()
        assert [is_last for _, is_last in running.errors] == [False]
        monkeypatch.setattr(store, "renew_lease", renew)
        with anyio.fail_after(60):
            await refused.wait()
        await anyio.wait_all_tasks_blocked()
        assert [is_last for _, is_last in running.errors] == [False]
        await running.mirror.drain(anyio.current_time() + 60)
    await running.mirror.end()


@pytest.mark.each_backend
async def test_a_lease_that_was_taken_although_the_call_failed_is_the_mirrors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror_module, "PAUSES", (0.0,))

    class LosesAnAnswer(Store):
        is_lost = False

        async def acquire_lease(self, *args: Any, **more: Any) -> Lease:
            lease = await super().acquire_lease(*args, **more)
            was_lost, self.is_lost = self.is_lost, True
            if not was_lost:
                raise OSError("connection reset")
            return lease

    store = LosesAnAnswer()
    running = Running(store, tmp_path, flush="eager")
    async with anyio.create_task_group() as workers:
        workers.start_soon(running.mirror.run)
        written = running.write()
        await running.mirror.drain(anyio.current_time() + 60)
    assert store.entries(KEY) == [written]
    assert running.errors == []
    await running.mirror.end()
    assert await store.find_lease(KEY) is None


async def test_leases_are_renewed_until_they_are_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_bound(monkeypatch, "LEASE_SECONDS", 0.15)
    store = Store()
    running = Running(store, tmp_path)
    lease = await running.mirror.acquire_lease(Place("p", SESSION, "subagents/agent-1"))
    assert lease is not None
    assert (lease.key, lease.epoch) == (KEY, 1)
    again = await running.mirror.acquire_lease(Place("p", SESSION))
    assert again is not None
    assert again.epoch == 1
    with pytest.raises(SessionLeasedError, match=lease.holder):
        await Running(store, tmp_path / "other").mirror.acquire_lease(Place("p", SESSION))
    ends: list[float] = []

    async def renew(lease: Lease, *, ttl: float = 30.0) -> Lease:
        renewed = await MemoryStore.renew_lease(store, lease, ttl=ttl)
        ends.append(renewed.expires_at)
        return renewed

    monkeypatch.setattr(store, "renew_lease", renew)
    with anyio.fail_after(60):
        while len(ends) < 3:
            await anyio.sleep(0.01)
    assert lease.expires_at < ends[0] < ends[1] < ends[2]
    await store.acquire_lease(KEY, "another", steal=True)
    with anyio.fail_after(60):
        while not running.errors:
            await anyio.sleep(0.01)
    assert "another" in running.errors[0][0]
    for _ in range(2):
        await running.mirror.end()
    assert (await store.acquire_lease(KEY, "another")).epoch == lease.epoch + 2
