"""A lease is held through failures of its store, from each `take` to its `release`."""

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from bounds import set_bound
from cancelling import cancel_in_a_row

from claude_agent_py.errors import StaleLeaseError, StoreError
from claude_agent_py.sessions import HeldLease, Lease, MemoryStore, SessionKey

pytestmark = pytest.mark.anyio
KEY: SessionKey = {"project_key": "p", "session_id": "11111111-1111-4111-8111-111111111111"}


@pytest.fixture(autouse=True)
def short_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    set_bound(monkeypatch, "LEASE_SECONDS", 0.15)


def return_nothing() -> None: ...


def be_cancelled() -> None:
    raise asyncio.CancelledError  # as a pool of connections does that closes while it is waited for


class FaultyStore(MemoryStore):
    """A store whose methods have a fault."""

    def __init__(self, fault: Callable[[], None], *methods: str) -> None:
        super().__init__()
        self.renewed = 0
        for method in methods:
            setattr(self, method, self._once(fault, getattr(self, method)))

    def _once(self, fault: Callable[[], None], method: Any) -> Any:
        faults = [fault]

        async def call(*args: Any, **more: Any) -> Any:
            return faults.pop()() if faults else await method(*args, **more)

        return call

    async def renew_lease(self, *args: Any, **more: Any) -> Any:
        self.renewed += 1
        return await super().renew_lease(*args, **more)

    async def until_renewed(self, times: int) -> None:
        with anyio.fail_after(60):
            while self.renewed < times:
                await anyio.sleep(0.01)


@pytest.fixture(params=[return_nothing, be_cancelled])
def fault(request: pytest.FixtureRequest, anyio_backend_name: str) -> Any:
    if request.param is be_cancelled and anyio_backend_name == "trio":
        pytest.skip("a store cannot raise trio's cancellation")
    return request.param


async def test_a_lease_outlives_a_fault_of_its_store(fault: Callable[[], None]) -> None:
    store = FaultyStore(fault, "renew_lease", "release_lease")
    async with HeldLease(store, KEY) as lease:
        await store.until_renewed(2)
        assert lease is not None
        await store.append(KEY, [{"type": "user"}], epoch=lease.epoch)
    store = FaultyStore(fault, "acquire_lease")
    held = HeldLease(store, KEY)
    with pytest.raises(StoreError, match="lease of session 1111"):
        await held.take()
    assert await held.take() is not None
    await held.release()


async def test_a_renewal_that_fails_is_tried_again_soon_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    class Away(MemoryStore):
        tries = 0

        async def renew_lease(self, *args: Any, **more: Any) -> Lease:
            self.tries += 1
            if self.tries in (2, 3):
                raise OSError("the file is away")
            return await super().renew_lease(*args, **more)

    store = Away()
    with caplog.at_level(logging.WARNING), anyio.fail_after(60):
        async with HeldLease(store, KEY):
            while store.tries < 5:
                await anyio.sleep(0.01)
        before = store.tries
        await anyio.wait_all_tasks_blocked()
    assert store.tries == before
    [said] = [record.getMessage() for record in caplog.records]
    assert said.startswith(f"the lease of session {KEY['session_id']} cannot be kept, trying again: ")
    assert "the file is away" in said


@pytest.mark.parametrize("is_held", [True, False])
@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
async def test_cancellations_by_asyncio_in_a_row_leave_no_lease(is_held: bool, anyio_backend: str) -> None:
    """The later ones reach what cleans up after the first: a release, or the return of a lease that nobody got."""
    taken, held = threading.Event(), anyio.Event()

    class Store(MemoryStore):
        def _change_lease(self, place: Any, change: Any) -> Any:
            state = super()._change_lease(place, change)
            taken.set()
            return state

    async def hold() -> None:
        async with HeldLease(store, KEY):
            held.set()
            await anyio.sleep_forever()

    store = Store()
    holding = asyncio.create_task(hold())
    with anyio.fail_after(60):
        if is_held:
            await held.wait()
        else:
            while not taken.wait(0.01):
                await asyncio.sleep(0)
        await cancel_in_a_row(holding)
        await asyncio.wait([holding])
    assert holding.cancelled()
    with anyio.fail_after(20):  # less than a lease lasts
        while await store.find_lease(KEY) is not None:
            await anyio.sleep(0.01)  # a thread may return it


async def test_a_lease_that_was_lost_is_not_renewed() -> None:
    lost, kept = FaultyStore(return_nothing), FaultyStore(return_nothing)
    async with HeldLease(lost, KEY), HeldLease(kept, KEY):
        await lost.acquire_lease(KEY, "another", steal=True)
        await kept.until_renewed(kept.renewed + 3)  # the other one was tried meanwhile
        before = lost.renewed
        await kept.until_renewed(kept.renewed + 3)
        assert lost.renewed == before
    assert (await lost.find_lease(KEY)) is not None


async def test_of_a_store_without_leases_there_is_nothing_to_renew() -> None:
    class Plain:
        async def append(self, key: Any, entries: Any) -> None: ...

        async def load(self, key: Any) -> None: ...

    held = HeldLease(Plain(), KEY)
    assert await held.take() is None
    await held.renew()
    assert held.lease is None
    await held.release()


async def test_a_lease_is_taken_again_only_after_its_release_and_kept_then_also_after_a_loss() -> None:
    store, is_lost = FaultyStore(return_nothing), anyio.Event()

    async def lose(error: StaleLeaseError) -> None:
        is_lost.set()

    held = HeldLease(store, KEY, on_lost=lose)
    await held.release()
    async with held:
        with pytest.raises(RuntimeError, match="taken already"):
            await held.take()
        other = await store.acquire_lease(KEY, "another", steal=True)
        with anyio.fail_after(60):
            await is_lost.wait()
    await store.release_lease(other)
    before = store.renewed
    async with held:
        await store.until_renewed(before + 2)
    before = store.renewed
    await anyio.wait_all_tasks_blocked()
    assert (store.renewed, await store.find_lease(KEY)) == (before, None)
