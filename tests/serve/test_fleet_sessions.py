"""Sessions of a fleet, served: they go on with another server, and questions outlive the process that asked."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from temporal_server import TemporalServer, temporal_server as temporal_server
from test_sessions import facts_of, is_end, read_until, says

from claude_agent_py.errors import OptionsError, SessionNotFoundError
from claude_agent_py.fleet import Fleet
from claude_agent_py.serve import FleetSessions
from claude_agent_py.sessions import SQLiteStore
from claude_agent_py.testing import RecordedRequest, Reply, ScriptedModel, tool_use

pytestmark = [pytest.mark.anyio, pytest.mark.real_cli]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def make_file(request: RecordedRequest) -> Reply:
    """Run a command, and then tell its result."""
    if "hello" in request.last_user_text:
        return Reply("Hello!")
    if request.tool_results:
        return Reply("Made.")
    return Reply(tool_use("Bash", {"command": "echo x >> made", "description": "Make it"}))


@asynccontextmanager
async def fleet_at(url: str, folder: Path, model: ScriptedModel) -> AsyncIterator[Fleet]:
    """A fleet with a worker in this process, whose processes wait for no answer."""
    async with Fleet(url, store=SQLiteStore(folder / "store.db"), lease=3, poll=0.1) as fleet:
        options = model.options(permission_mode="default")
        fleet.agent("chat", options.replace(cwd=folder), patience=0.2)
        yield fleet


@pytest.fixture(params=["sqlite", "temporal"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'fleet.db'}"
    server: TemporalServer = request.getfixturevalue("temporal_server")
    return server.new_url()


async def test_a_question_is_answered_after_its_process_and_its_server_have_ended(url: str, tmp_path: Path) -> None:
    with ScriptedModel(make_file) as model:
        async with fleet_at(url, tmp_path, model) as fleet:
            async with fleet.worker(folder=tmp_path / "worker"), FleetSessions(fleet, "chat") as sessions:
                session = await sessions.create(user="ann")
                prompt = await session.send("Make it")
                found = await read_until(session, lambda event: event["type"] == "question")
                assert found[0][1] == {"type": "reset"}
                assert [fact["content"] for fact in facts_of(found, "prompt_sent")] == ["Make it"]
                asked = found[-1][1]
                assert (asked["kind"], asked["title"]) == ("permission", "Allow Bash?")
                with anyio.fail_after(60):
                    while session.state != "waiting":  # its process has ended
                        await anyio.sleep(0.05)
                for user in ("", "bob"):
                    with pytest.raises(SessionNotFoundError):
                        await sessions.get(session.id, user=user)
                    assert not await sessions.list(user=user)
        # Another server, and another worker.
        async with fleet_at(url, tmp_path, model) as fleet:
            async with fleet.worker(folder=tmp_path / "worker"), FleetSessions(fleet, "chat") as sessions:
                with pytest.raises(OptionsError, match="new id"):
                    await sessions.create(user="bob", session_id=session.id)
                assert [each.id for each in await sessions.list(user="ann")] == [session.id]
                session = await sessions.get(session.id, user="ann")
                again = (await read_until(session, lambda event: event["type"] == "question"))[-1][1]
                assert again == asked
                with pytest.raises(ValueError, match="decision"):
                    await session.answer(asked["question"], {"decision": "perhaps"})
                assert await session.answer(asked["question"], {"decision": "allow"}, by="Ann")
                found = await read_until(session, is_end)
                assert (found[-1][1]["prompt"], found[-1][1]["status"]) == (prompt, "ok")
                assert says(found)[-1] == "Made."
                assert [event["question"] for _, event in found if event["type"] == "question_settled"] == [
                    asked["question"]
                ]
                assert (tmp_path / "made").read_text() == "x\n"
                # A prompt that is sent twice, with the same id, is one.
                ids = [await session.send("Say hello", prompt_id="0b0c7b44-0000-4000-8000-000000000001") for _ in "ab"]
                assert ids[0] == ids[1]
                later = await read_until(session, is_end, found[-1][0])
                assert (later[-1][1]["prompt"], says(later)) == (ids[0], ["Hello!"])
                assert not any(event["type"] == "reset" for _, event in later)
                # A reader that comes later gets all of it, once.
                whole = await read_until(session, lambda event: is_end(event) and event["prompt"] == ids[0])
                assert [fact["content"] for fact in facts_of(whole, "prompt_sent")][-1] == "Say hello"
                assert says(whole).count("Hello!") == 1


async def test_a_turn_is_stopped(url: str, tmp_path: Path) -> None:
    with ScriptedModel(make_file) as model:
        async with fleet_at(url, tmp_path, model) as fleet, fleet.worker(folder=tmp_path / "worker"):
            async with FleetSessions(fleet, "chat") as sessions:
                session = await sessions.create()
                prompt = await session.send("Make it")
                await read_until(session, lambda event: event["type"] == "question")
                await session.stop()
                found = await read_until(session, is_end)
                assert (found[-1][1]["prompt"], found[-1][1]["status"]) == (prompt, "cancelled")
                await read_until(session, lambda event: event["type"] == "question_settled")
                assert session.questions == {}
                assert not (tmp_path / "made").exists()
