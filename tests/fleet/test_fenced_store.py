"""The store of a worker: entries wait while it may count as dead, and are refused once it has lost its session."""

import anyio
import pytest

from claude_agent_py.errors import StaleLeaseError
from claude_agent_py.fleet._dbos._store import FencedStore, Heartbeat
from claude_agent_py.sessions import MemoryStore, SessionKey

pytestmark = pytest.mark.anyio
KEY: SessionKey = {"project_key": "fleet", "session_id": "11111111-1111-4111-8111-111111111111"}


@pytest.mark.parametrize("is_lost", [False, True])
async def test_entries_wait_until_the_worker_is_heard_of(is_lost: bool) -> None:
    store, pulse, lost = MemoryStore(), Heartbeat(-1.0), [False]  # it counts as dead from the beginning
    fenced = FencedStore(store, pulse, lambda: lost[0])
    failures: list[StaleLeaseError] = []

    async def append() -> None:
        try:
            await fenced.append(KEY, [{"type": "user", "uuid": "u"}])
        except StaleLeaseError as error:
            failures.append(error)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(append)
            await anyio.sleep(0.2)
            assert await store.load(KEY) is None
            lost[0] = is_lost
            monotonic, wall = pulse.now()
            pulse.beat(monotonic + 100, wall + 100)
    stored = await fenced.load(KEY)
    assert (len(stored or []), len(failures)) == ((0, 1) if is_lost else (1, 0))
    assert await fenced.find_session(KEY["session_id"]) == ([] if is_lost else ["fleet"])
