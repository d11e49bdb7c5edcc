"""Who gave which command: each is recorded once, with what it did, and never changed."""

import getpass
import json

import pytest
from anyio import to_thread
from fleets import execute, fleet_url as fleet_url

from claude_agent_py.cli import main
from claude_agent_py.errors import FleetError, OptionsError
from claude_agent_py.fleet import Fleet, FleetAuditEntry

pytestmark = pytest.mark.anyio


async def log(fleet: Fleet, **only: object) -> list[FleetAuditEntry]:
    return [entry async for entry in fleet.audit(**only)]  # type: ignore[arg-type]


async def test_each_command_is_recorded_once_if_it_did_something(fleet_url: str) -> None:
    async with Fleet(fleet_url) as fleet:
        fleet.agent("worker")
        session = await fleet.start("worker", "secret prompt", id="one", actor="Ada")
        await fleet.start("worker", "again", id="one", actor="Eve")  # exists
        await session.send("more", key="once", actor="Bob")
        await session.send("more", key="once", actor="Eve")  # was sent
        assert await session.interrupt(actor="Cyd")
        row = "'q', 'one', 'd', 'pending', :record, 0"
        request = {"subtype": "can_use_tool", "tool_name": "Bash", "input": {}, "tool_use_id": "t"}
        columns = "id, session, digest, state, record, created_at"
        record = json.dumps({"kind": "permission", "request": request})
        execute(fleet, f"INSERT INTO fleet_interactions ({columns}) VALUES ({row})", record=record)
        [question] = await fleet.interactions()
        assert await question.deny(by="Dan")
        assert not await session.answer("q", None, by="Eve")  # too late
        assert await session.cancel("enough", actor="Ada")
        assert not await session.cancel(actor="Eve")
        with pytest.raises(FleetError, match="not failed"):
            await session.retry(actor="Eve")
        other = await fleet.start("worker", "hi", id="two")
        execute(fleet, "UPDATE fleet_sessions SET state = 'failed' WHERE id = 'two'")
        failed = "UPDATE fleet_runs SET state = 'failed', result = :result WHERE session = 'two'"
        execute(fleet, failed, result='{"error": "E"}')
        await other.retry(actor="Ada")
        await fleet.tenant("acme", limit=3, actor="Ada")
        assert await fleet.drain_workers(actor="Eve") == 0  # there are none
        found = await log(fleet)
        assert [(entry.actor, entry.action, entry.session_id) for entry in found] == [
            ("Ada", "start", "one"),
            ("Bob", "send", "one"),
            ("Cyd", "interrupt", "one"),
            ("Dan", "answer", "one"),
            ("Ada", "cancel", "one"),
            (getpass.getuser(), "start", "two"),
            ("Ada", "retry", "two"),
            ("Ada", "tenant", None),
        ]
        assert found[4].details == {"reason": "enough"}
        assert "secret" not in json.dumps([entry.to_dict() for entry in found])
        assert [entry.number for entry in found] == sorted({entry.number for entry in found})
        assert [entry.action for entry in await log(fleet, session_id="one", actor="Ada")] == ["start", "cancel"]
        assert await log(fleet, after=found[-2].number) == found[-1:]
        with pytest.raises(OptionsError, match="actor: must be text of at most 200"):
            await session.send("x", actor="x" * 201)


async def test_entries_go_with_their_session_and_numbers_are_not_used_again(fleet_url: str) -> None:
    async with Fleet(fleet_url) as fleet:
        fleet.agent("worker")
        kept = await fleet.start("worker", "hi", id="kept")
        session = await fleet.start("worker", "hi", id="gone")
        await session.cancel(actor="Ada")
        assert await fleet.prune(0, actor="Ada") == 1
        found = await log(fleet)
        assert [(entry.action, entry.session_id) for entry in found] == [("start", "kept"), ("prune", None)]
        await fleet.start("worker", "hi", id="gone", actor="Bob")
        assert [(entry.actor, entry.action) for entry in await log(fleet, session_id="gone")] == [("Bob", "start")]
        await kept.cancel()
        await fleet.prune(0)
        assert all(entry.number > found[-1].number for entry in (await log(fleet))[1:])


async def test_on_the_command_line(fleet_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    async with Fleet(fleet_url) as fleet:
        fleet.agent("worker")
        await fleet.list()

        async def run(*words: str) -> str:
            assert await to_thread.run_sync(main, ["fleet", *words, "--url", fleet_url]) == 0
            return capsys.readouterr().out

        await fleet.start("worker", "register the agent", id="zero")
        await run("start", "worker", "hi", "--id", "one", "--as", "Ada")
        await run("send", "one", "more", "--as", "Bob\x1b[31m")
        await run("cancel", "one")
        printed = (await run("audit", "one")).splitlines()
        assert [line.split("  ")[2:] for line in printed] == [
            ["Ada", "start", "one", "run=1"],
            ["Bob\ufffd[31m", "send", "one", "run=2"],
            [getpass.getuser(), "cancel", "one", "reason=cancelled"],
        ]
        [entry] = (await run("audit", "--json", "--actor", "Ada")).splitlines()
        assert json.loads(entry)["action"] == "start"
