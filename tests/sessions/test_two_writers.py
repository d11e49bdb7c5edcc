"""Two writers of one session, of which one stops: in the middle of its lease, or with the session locked."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from anyio import to_thread
from bounds import set_bound
from forks import Program

from claude_agent_py.errors import SessionLeasedError, StaleLeaseError, StoreError
from claude_agent_py.sessions import DirectoryStore, SessionKey, SessionStoreEntry, SQLiteStore

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="needs SIGSTOP"),
]

KEY: SessionKey = {"project_key": "-work", "session_id": "6f9619ff-8b86-4d01-b42d-00cf4fc964ff"}
OTHER: SessionKey = {"project_key": "-work", "session_id": "11111111-1111-4111-8111-111111111111"}

SLEEPER = """
import os, signal, sys, anyio
from claude_agent_py.errors import StaleLeaseError
from claude_agent_py.sessions import DirectoryStore, SQLiteStore
kind, path, session_id = sys.argv[1:]
KEY = {"project_key": "-work", "session_id": session_id}
store = SQLiteStore(path) if kind == "sqlite" else DirectoryStore(path)
async def refused(call):
    try:
        await call
    except StaleLeaseError as error:
        return error.holder
async def main():
    lease = await store.acquire_lease(KEY, "sleeper", ttl=0.5)
    write = lambda uuid: store.append(KEY, [{"type": "user", "uuid": uuid}], epoch=lease.epoch)
    await write("before")
    print("stops", flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)
    print(await refused(write("after")), await refused(store.renew_lease(lease)), flush=True)
    await store.release_lease(lease)
    print(await refused(write("at last")), flush=True)
anyio.run(main)
"""


def entry(uuid: str) -> list[SessionStoreEntry]:
    return [cast("SessionStoreEntry", {"type": "user", "uuid": uuid})]


@pytest.mark.parametrize("kind", ["directory", "sqlite"])
@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
async def test_a_writer_that_slept_through_its_lease_writes_no_more(
    kind: str, tmp_path: Path, anyio_backend: str
) -> None:
    path = str(tmp_path / "store")
    store = SQLiteStore(path) if kind == "sqlite" else DirectoryStore(path)
    command = [sys.executable, "-c", SLEEPER, kind, path, KEY["session_id"]]
    with Program(command, stdout=subprocess.PIPE, text=True) as sleeper:
        try:
            assert sleeper.stdout is not None
            assert await to_thread.run_sync(sleeper.stdout.readline) == "stops\n"
            lease = None
            with anyio.fail_after(60):
                while lease is None:
                    try:
                        lease = await store.acquire_lease(KEY, "other", ttl=600)
                    except SessionLeasedError:
                        await anyio.sleep(0.02)
            await store.append(KEY, entry("meanwhile"), epoch=lease.epoch)
            os.kill(sleeper.pid, signal.SIGCONT)
            assert await to_thread.run_sync(sleeper.stdout.read) == "other other\nother\n"
        finally:
            sleeper.kill()
    await store.append(KEY, entry("more"), epoch=lease.epoch)
    loaded = cast("list[dict[str, Any]]", await store.load(KEY))
    assert [each["uuid"] for each in loaded] == ["before", "meanwhile", "more"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
async def test_a_session_that_stays_locked_is_an_error_and_holds_up_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, anyio_backend: str
) -> None:
    import fcntl

    store = DirectoryStore(tmp_path)
    await store.append(KEY, entry("before"))
    waiting = anyio.Event()

    async def wait() -> None:
        waiting.set()
        await store.append(KEY, entry("waited"))

    with (tmp_path / "state/-work" / f"{KEY['session_id']}.lock").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # as a process that was stopped while it wrote
        async with anyio.create_task_group() as waiters:
            waiters.start_soon(wait)
            await waiting.wait()
            with anyio.fail_after(60):
                for number in range(3):
                    await store.append(OTHER, entry(str(number)))
            set_bound(monkeypatch, "LOCK_SECONDS", 0.1)
            with anyio.fail_after(60), pytest.raises(StoreError, match="has held the lock"):
                await store.acquire_lease(KEY, "me")
            monkeypatch.undo()
            fcntl.flock(file, fcntl.LOCK_UN)
    loaded = cast("list[dict[str, Any]]", await store.load(KEY))
    assert [each["uuid"] for each in loaded] == ["before", "waited"]


class Pausing:
    """A client of S3 that is stopped just before it writes an object."""

    def __init__(self, client: Any, meanwhile: Callable[[], object]) -> None:
        self._client = client
        self._meanwhile = meanwhile

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def put_object(self, *, Key: str, **more: Any) -> Any:
        if Key.endswith(".jsonl"):
            self._meanwhile()
        return self._client.put_object(Key=Key, **more)


@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
async def test_an_s3_entry_of_a_lost_lease_is_deleted(a_s3_store: tuple[str, Any], anyio_backend: str) -> None:
    from claude_agent_py.sessions import S3Store

    other = a_s3_store[1]
    lease = await other.acquire_lease(KEY, "sleeper")

    def take_over() -> None:
        anyio.run(partial(other.acquire_lease, KEY, "other", steal=True))
        anyio.run(other.append, KEY, entry("meanwhile"))

    sleeper = S3Store("sessions", client=Pausing(other._s3, take_over))
    with pytest.raises(StaleLeaseError):
        await sleeper.append(KEY, entry("after"), epoch=lease.epoch)
    assert await other.load(KEY) == entry("meanwhile")
    await other.delete(KEY)


@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
async def test_the_server_ends_the_transaction_of_a_process_that_was_stopped_within_it(
    postgres_server: str, monkeypatch: pytest.MonkeyPatch, anyio_backend: str
) -> None:
    from psycopg import Error

    from claude_agent_py.sessions import PostgresStore

    frozen, other = (PostgresStore(postgres_server, schema="frozen") for _ in range(2))
    await other.append(KEY, entry("before"))  # its connection has a patience that no slow machine exhausts

    async def go_on_in_a_transaction_after_another() -> None:
        with frozen._transaction() as execute:
            frozen._lock_session(execute, KEY["project_key"], KEY["session_id"])
            with anyio.fail_after(60):
                await other.acquire_lease(KEY, "other")
            execute("SELECT 1")

    with monkeypatch.context() as impatient:
        set_bound(impatient, "FROZEN_SECONDS", 0.2)
        with pytest.raises(Error, match="timeout"):
            await go_on_in_a_transaction_after_another()
    await frozen.append(KEY, entry("later"))
    assert await other.load(KEY) == entry("before") + entry("later")
    frozen.close()
    other.close()
