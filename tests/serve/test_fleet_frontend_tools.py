"""Tools that a client of AG-UI brings to a session of a fleet: a call outlives the process that made it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import leftovers
import pytest
from ag_ui import core
from called_app import Agent
from fleets import until_state
from temporal_server import temporal_server as temporal_server
from test_agui import say, shell
from test_agui_threads import LIMIT, Client, snapshot
from test_fleet_sessions import url as url
from test_frontend_tools import ASK, SHOW, pick, result, started, words

from claude_agent_py import RetryPolicy, ToolServer
from claude_agent_py.errors import FleetRunError, OptionsError
from claude_agent_py.fleet import Fleet, FleetSession
from claude_agent_py.permissions import Accept, Decline, ElicitationRequest, PendingInteractions, PermissionContext
from claude_agent_py.serve import FleetSessions
from claude_agent_py.sessions import SQLiteStore
from claude_agent_py.testing import Reply, ScriptedModel, tool_use
from claude_agent_py.wire import CUT_OFF

pytestmark = [pytest.mark.anyio, pytest.mark.real_cli]
PICK = {"name": "pickColor", "description": "Pick", "inputSchema": {"type": "object"}}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@asynccontextmanager
async def fleet_at(url: str, folder: Path, model: ScriptedModel, patience: float, **more: Any) -> AsyncIterator[Fleet]:
    """A fleet with a worker in this process."""
    async with Fleet(url, store=SQLiteStore(folder / "store.db"), lease=3, poll=0.1) as fleet:
        options = model.options(permission_mode="default", include_partial_messages=True, cwd=folder, **more)
        fleet.agent("chat", options, retry=RetryPolicy(wait=0.01), patience=patience)
        async with fleet.worker():
            yield fleet


async def only_session(fleet: Fleet) -> FleetSession:
    """Return the session of the thread."""
    (listed,) = await fleet.list()
    return fleet.session(listed.id)


def serve(fleet: Fleet) -> FleetSessions:
    return FleetSessions(fleet, "chat", frontend_tools=["pickColor"])


async def test_calls_are_answered_at_another_server_after_their_process_has_ended(url: str, tmp_path: Path) -> None:
    script = [pick("grass", "sea"), pick("grass", "sea"), Reply("Green and grey.")]
    async with ScriptedModel(script) as model, fleet_at(url, tmp_path, model, patience=0.2) as fleet:
        async with serve(fleet) as sessions:
            client = Client(Agent(sessions))
            client.tools = [ASK]
            events = await client.run("Grass and sea")
            first, second = started(events)
            assert events[-1].outcome.pending_tool_call_ids == [first, second]
        handle = await only_session(fleet)
        await until_state(handle, "waiting")
        async with serve(fleet) as sessions:
            client.agent = Agent(sessions)
            async with client.follow() as following:  # a page that is opened meanwhile
                seen = await following.run()
                assert seen[-1].outcome.pending_tool_call_ids == [first, second]
                assert "tool" not in {each.role for each in snapshot(seen)}
            events = await client.run("", result(first, "green"))
            assert (started(events), events[-1].outcome.pending_tool_call_ids) == ([], [second])
            assert (await handle.info()).state == "waiting"
            events = await client.run("", result(second, "grey"))
            assert say(events) == "Green and grey."
            # The next process's model has repeated the calls, whose results the server tells.
            told = {each.tool_call_id: each.content for each in events if each.type == "TOOL_CALL_RESULT"}
            assert told == dict(zip(started(events), ["green", "grey"], strict=True))
            assert CUT_OFF not in words(model.requests[-1])
            assert 'pickColor {"of": "sea"}' in model.requests[-2].last_user_text
            assert "does not wait" in (await client.run("", result(second, "grey")))[-1].message


@pytest.mark.long
async def test_identical_calls_get_their_own_results_also_after_their_process_has_ended(
    url: str, tmp_path: Path
) -> None:
    script = [pick("sky", "sky"), Reply("Two."), pick("sea", "sea"), pick("sea", "sea"), Reply("Two more.")]
    async with ScriptedModel(script) as model, fleet_at(url, tmp_path, model, patience=2) as fleet:
        async with serve(fleet) as sessions:
            client = Client(Agent(sessions))
            client.tools = [ASK]
            first, second = started(await client.run("The sky"))
            events = await client.run("", result(second, "red"), result(first, "blue"))
            assert say(events) == "Two."
            assert "blue" in str(model.requests[-1].tool_result(first))
            assert "red" in str(model.requests[-1].tool_result(second))
            events = await client.run("The sea")
            first, second = started(events)
            assert events[-1].outcome.pending_tool_call_ids == [first, second]
            handle = await only_session(fleet)
            await until_state(handle, "waiting")
            events = await client.run("", result(first, "green"))
            assert events[-1].outcome.pending_tool_call_ids == [second]
            events = await client.run("", result(second, "grey"))
            assert say(events) == "Two more."
            told = [each.content for each in events if each.type == "TOOL_CALL_RESULT"]
            assert sorted(told) == ["green", "grey"]
            assert CUT_OFF not in words(model.requests[-1])


async def test_the_client_gets_its_calls_before_the_handlers_and_the_inbox_of_the_agent(tmp_path: Path) -> None:
    def refuse(request: ElicitationRequest, context: PermissionContext) -> Decline:
        return Decline()

    url = f"sqlite:///{tmp_path / 'fleet.db'}"
    mine: dict[str, Any] = {"on_elicitation": refuse, "interactions": PendingInteractions()}
    async with ScriptedModel([pick("sky"), Reply("Blue it is.")]) as model:
        async with fleet_at(url, tmp_path, model, patience=60, **mine) as fleet, serve(fleet) as sessions:
            client = Client(Agent(sessions))
            client.tools = [ASK]
            (call,) = started(await client.run("The sky"))
            assert say(await client.run("", result(call, "blue"))) == "Blue it is."


@pytest.mark.long
async def test_calls_in_the_process_that_made_them_and_tools_that_change(tmp_path: Path) -> None:
    script = [
        Reply([*pick("sky", "sky").blocks, *shell("touch made").blocks]),
        Reply("Blue it is."),
        pick("sun"),
        Reply("No tools."),
        pick("moon"),
        Reply("Nobody answered."),
        Reply("Next."),
    ]
    url = f"sqlite:///{tmp_path / 'fleet.db'}"
    async with ScriptedModel(script) as model, fleet_at(url, tmp_path, model, patience=60) as fleet:
        async with serve(fleet) as sessions:
            client = Client(Agent(sessions))
            client.tools = [SHOW]
            assert "the server does not allow it" in (await client.run("Go"))[-1].message
            client.tools = [core.Tool(name="pickColor", description="", parameters={"type": "string"})]
            assert '"type": "object"' in (await client.run("Go"))[-1].message
            assert await fleet.list() == []
            client.tools, client.messages = [ASK], []
            events = await client.run("The sky")
            calls = started(events)
            assert events[-1].outcome.pending_tool_call_ids == calls[:2]
            # The CLI begins the last call, which asks, when it has both results.
            events = await client.run("", *(result(call, "blue") for call in calls[:2]))
            (asked,) = events[-1].outcome.interrupts
            assert asked.tool_call_id == calls[2]
            approved = core.ResumeEntry(interrupt_id=asked.id, status="resolved", payload={"approved": True})
            assert say(await client.run(resume=[approved])) == "Blue it is."
            client.tools = []
            assert say(await client.run("Without")) == "No tools."
            assert "No such tool available" in words(model.requests[-1])
            client.tools = [ASK]
            await client.run("The moon")
            assert say(await client.run("Never mind")) in ("Next.", "Nobody answered.")
            assert "has not answered" in words(model.requests[-1])


@pytest.mark.long
async def test_a_call_whose_process_is_killed_waits_for_its_result(tmp_path: Path) -> None:
    script = [pick("sky"), pick("sky"), Reply("Blue it is.")]
    url = f"sqlite:///{tmp_path / 'fleet.db'}"
    async with ScriptedModel(script) as model, fleet_at(url, tmp_path, model, patience=1) as fleet:
        async with serve(fleet) as sessions:
            client = Client(Agent(sessions))
            client.tools = [ASK]
            (call,) = started(await client.run("The sky"))
            leftovers.kill(*(leftovers.children() - leftovers.LASTING))
            await until_state(await only_session(fleet), "waiting")
            assert say(await client.run("", result(call, "blue"))) == "Blue it is."


async def test_the_sender_of_a_prompt_answers_the_calls_of_its_tools(tmp_path: Path) -> None:
    script = [pick("sky"), Reply("Blue it is."), Reply([tool_use("mcp__frontend__pickColor", {})]), Reply("Failed.")]
    url = f"sqlite:///{tmp_path / 'fleet.db'}"
    async with ScriptedModel(script) as model, fleet_at(url, tmp_path, model, patience=60) as fleet:
        session = await fleet.start("chat", "The sky", tools=[PICK])
        answers: list[dict[str, Any]] = [{"result": "blue"}, {"result": "no colors here", "is_error": True}]
        for answer in answers:
            with anyio.fail_after(LIMIT):
                while not (asked := await session.interactions()):
                    await anyio.sleep(0.02)
            assert isinstance(asked[0].subject, ElicitationRequest)
            assert asked[0].subject.call is not None
            assert asked[0].subject.call.name == "mcp__frontend__pickColor"
            assert await asked[0].answer(Accept(answer))
            await session.result(timeout=LIMIT)
            assert answer["result"] in words(model.requests[-1])
            if "is_error" not in answer:
                await session.send("Again", tools=[PICK])
        with pytest.raises(OptionsError, match="inputSchema"):
            await session.send("Again", tools=[{"name": "pickColor"}])


async def test_an_agent_whose_own_server_has_the_name_of_theirs_refuses_them(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'fleet.db'}"
    servers = {"frontend": ToolServer("frontend")}
    async with ScriptedModel([]) as model, fleet_at(url, tmp_path, model, 60, mcp_servers=servers) as fleet:
        session = await fleet.start("chat", "Go", tools=[PICK])
        with pytest.raises(FleetRunError, match="without 'frontend'"):
            await session.result(timeout=LIMIT)
