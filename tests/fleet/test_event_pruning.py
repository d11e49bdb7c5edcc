"""Old events of sessions that are kept are deleted, and whoever reads from before them is told."""

from pathlib import Path

import pytest
from fleets import PATIENCE, execute, fleet_url as fleet_url, until
from test_audit import log

from claude_agent_py import ClientOptions
from claude_agent_py.fleet import Fleet, FleetEvent, FleetSession
from claude_agent_py.sessions import SQLiteStore
from claude_agent_py.testing import FakeCLI, steps

pytestmark = pytest.mark.anyio


def age(fleet: Fleet, session: str, number: int) -> None:
    """Make a session and its events up to a number an hour older."""
    execute(fleet, "UPDATE fleet_events SET at = at - 3600 WHERE session = :s AND number <= :n", s=session, n=number)
    execute(fleet, "UPDATE fleet_sessions SET created_at = created_at - 3600 WHERE id = :s", s=session)


async def read(session: FleetSession, after: int, until_number: int) -> list[FleetEvent]:
    found = []
    async for event in session.events(after=after, follow=True):
        found.append(event)
        if event.number >= until_number:
            break
    return found


async def test_old_events_are_replaced_by_one_that_says_so(fleet_url: str) -> None:
    async with Fleet(fleet_url) as fleet:
        fleet.agent("worker")
        session = await fleet.start("worker", "first", id="one")
        await session.interrupt()
        await session.send("second")
        await session.interrupt()
        await session.send("third")
        before = await read(session, 0, 9)
        assert [event.run for event in before if event.kind == "run"] == [1, 1, 2, 2, 3]
        age(fleet, "one", 6)
        assert await fleet.prune_events(1800, actor="Ada") == 6
        told, *rest = await read(session, 0, 9)
        assert (told.number, told.kind, told.data) == (6, "pruned", {"first": 1, "last": 6})
        assert rest == before[6:]
        assert (await read(session, 3, 9))[0] == told  # it followed when they were deleted
        assert await read(session, 6, 9) == rest
        assert await fleet.prune_events(1800) == 0
        assert await fleet.prune_events(0) == before[-1].number - 6 - sum(event.run == 3 for event in before)
        assert await fleet.prune_events(0) == 0
        left = await read(session, 0, 9)
        assert {event.run for event in left[1:]} == {3}  # the prompt at hand
        await session.cancel()
        assert await fleet.prune_events(0, session_id="other") == 0
        assert await fleet.prune_events(0, session_id="one") > 0
        [told] = [event async for event in session.events()]
        assert (told.kind, told.number) == ("pruned", (await session.info()).events)
        assert (await session.outcome(1)).state == "cancelled"
        acts = [
            (entry.actor, entry.details.get("events"))
            for entry in await log(fleet, session_id="one")
            if entry.action == "prune_events"
        ]
        assert acts[0] == ("Ada", 6)
        assert len(acts) == 3


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_workers_delete_events_by_their_age(tmp_path: Path, fleet_url: str) -> None:
    program = FakeCLI(steps.turn("ok")).install(tmp_path / "cli")
    async with Fleet(fleet_url, store=SQLiteStore(tmp_path / "s.db"), poll=0.1, event_retention=1800) as fleet:
        fleet.agent("works", ClientOptions(cli_path=program, cwd=tmp_path))
        async with fleet.worker():
            session = await fleet.start("works", "hi", id="one")
            await session.result(timeout=PATIENCE)
        age(fleet, "one", (await session.info()).events)
        async with fleet.worker():

            async def is_pruned() -> bool:
                return [event.kind async for event in session.events()] == ["pruned"]

            await until(is_pruned, "the worker deletes them")
            number = await session.send("more")
            assert (await session.result(number, timeout=PATIENCE)).text == "ok"
        kinds = [event.kind async for event in session.events()]
        assert kinds[0] == "pruned"
        assert {"message", "fact"} & set(kinds)
