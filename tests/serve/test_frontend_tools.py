"""Tools that a client of AG-UI brings: the agent calls them, and the client answers with its next run."""

from typing import Any

import anyio
import pytest
from ag_ui import core
from called_app import Agent
from test_agui import only_session, say, shell
from test_agui_threads import LIMIT, Client, snapshot, texts

from claude_agent_py import ClientOptions, ToolServer
from claude_agent_py.errors import OptionsError
from claude_agent_py.serve import Sessions
from claude_agent_py.testing import Reply, ScriptedModel, tool_use

ASK = core.Tool(
    name="pickColor",
    description="Let the person pick a color.",
    parameters={"type": "object", "properties": {"of": {"type": "string"}}, "required": ["of"]},
)
SHOW = core.Tool(name="show", description="Show a text.")


def pick(*of: str) -> Reply:
    return Reply([tool_use("mcp__frontend__pickColor", {"of": each}) for each in of])


def result(call: str, content: str, **more: Any) -> core.ToolMessage:
    return core.ToolMessage(id=f"from-page-{call}", tool_call_id=call, content=content, **more)


def started(events: list[Any]) -> list[str]:
    return [event.tool_call_id for event in events if event.type == "TOOL_CALL_START"]


def words(request: Any) -> str:
    """Return the results of calls in a request to the model."""
    contents = [message["content"] for message in request.messages if isinstance(message["content"], list)]
    return str([block["content"] for content in contents for block in content if block["type"] == "tool_result"])


@pytest.mark.anyio
@pytest.mark.real_cli
async def test_a_call_ends_the_run_and_the_next_run_has_its_result() -> None:
    script = [
        Reply("Hello."),
        Reply([shell("true").blocks[0], *pick("sky").blocks]),
        Reply("Blue it is."),
        pick("grass", "sea"),
        Reply("Both."),
        pick("sun"),
        Reply("An error."),
        Reply([*pick("star").blocks, *shell("touch made").blocks]),
        Reply("Made."),
        pick("moon"),
        Reply("Nobody answered."),
        Reply("Next."),
    ]
    async with ScriptedModel(script) as model:
        async with Sessions(model.options(permission_mode="default"), frontend_tools=["pickColor", "show"]) as sessions:
            client = Client(Agent(sessions))
            client.tools = [SHOW]
            assert say(await client.run("Hi")) == "Hello."
            client.tools = [SHOW, ASK]
            events = await client.run("The sky")
            names = {tool["name"] for tool in model.requests[-1].tools}
            assert {"mcp__frontend__pickColor", "mcp__frontend__show"} <= names
            # The run goes on as long as anything else does.
            shell_call, call = started(events)
            assert [e.tool_call_name for e in events if e.type == "TOOL_CALL_START"] == ["Bash", "pickColor"]
            assert [e.tool_call_id for e in events if e.type == "TOOL_CALL_RESULT"] == [shell_call]
            assert events[-1].outcome.pending_tool_call_ids == [call]
            # A page that is opened meanwhile has the call, and that it waits.
            async with client.follow() as following:
                seen = await following.run()
                assert [each.tool_calls[0].function.name for each in snapshot(seen) if each.id == call] == ["pickColor"]
                assert seen[-1].outcome.pending_tool_call_ids == [call]
                events = await client.run("", result(call, "blue"))
                assert say(events) == "Blue it is."
                # The client has its result already; others get it with the rest: as it comes if they hear of it late.
                assert "TOOL_CALL_RESULT" not in {event.type for event in events}
                rest = await following.run()
                is_whole = any(event.type == "MESSAGES_SNAPSHOT" for event in rest)
                assert (texts(snapshot(rest))[-1][1] if is_whole else say(rest)) == "Blue it is."
            assert "blue" in words(model.requests[-1])
            # Two calls: the second is answered by another run.
            first, second = started(await client.run("Grass and sea"))
            events = await client.run("", result(first, "green"))
            assert events[-1].outcome.pending_tool_call_ids == [second]
            assert say(await client.run("", result(second, "grey"))) == "Both."
            (call,) = started(await client.run("The sun"))
            assert say(await client.run("", result(call, "", error="no colors here"))) == "An error."
            assert "no colors here" in words(model.requests[-1])
            # A result that nobody waits for, and a person who goes on without answering.
            assert "does not wait" in (await client.run("", result(call, "yellow")))[-1].message
            client.messages.pop()
            # A call that the CLI does not begin before it has the result of the client's call.
            events = await client.run("The star")
            call, _ = started(events)
            assert events[-1].outcome.pending_tool_call_ids == [call]
            events = await client.run("", result(call, "white"))
            (asked,) = events[-1].outcome.interrupts
            approved = core.ResumeEntry(interrupt_id=asked.id, status="resolved", payload={"approved": True})
            assert say(await client.run(resume=[approved])) == "Made."
            await client.run("The moon")
            assert say(await client.run("Never mind")) in ("Next.", "Nobody answered.")
            assert "has not answered" in words(model.requests[-1])


@pytest.mark.anyio
@pytest.mark.real_cli
async def test_a_client_that_never_answers_and_bad_tools() -> None:
    script = [pick("sky"), Reply("It went on.")]
    async with ScriptedModel(script) as model:
        async with Sessions(model.options(), frontend_tools=["pickColor", "Bash"], frontend_timeout=0.5) as sessions:
            client = Client(Agent(sessions))
            client.tools = [ASK]
            (call,) = started(await client.run("Go"))
            session = await only_session(sessions)
            with anyio.fail_after(LIMIT):
                while session.prompts:
                    await anyio.sleep(0.02)
            assert "not answered pickColor within 0.5 seconds" in words(model.requests[-1])
            assert "does not wait" in (await client.run("", result(call, "blue")))[-1].message
            client.messages.pop()
            for given, problem in [
                ([SHOW], "'show': the server does not allow it"),
                ([ASK, ASK], "two tools of the same name"),
                ([core.Tool(name="Bash", description="")], "the agent has a tool of this name"),
                ([core.Tool(name="a b", description="")], "a name is"),
                ([core.Tool(name="pickColor", description="", parameters=[1])], "JSON Schema"),
                ([core.Tool(name="pickColor", description="", parameters={"type": "string"})], '"type": "object"'),
            ]:
                client.tools = given
                assert problem in (await client.run("Again"))[-1].message


@pytest.mark.long
@pytest.mark.anyio
@pytest.mark.real_cli
async def test_by_default_tools_of_clients_are_left_out() -> None:
    async with ScriptedModel([Reply("Without.")]) as model, Sessions(model.options()) as sessions:
        client = Client(Agent(sessions))
        client.tools = [ASK]
        assert say(await client.run("Go")) == "Without."
        assert "mcp__frontend__pickColor" not in {tool["name"] for tool in model.requests[-1].tools}


def test_the_server_of_the_tools_must_have_its_name_for_itself() -> None:
    with pytest.raises(OptionsError, match="frontend"):
        Sessions(ClientOptions(mcp_servers={"frontend": ToolServer("frontend")}), frontend_tools=True)
    with pytest.raises(OptionsError, match="not a file"):
        Sessions(ClientOptions(mcp_servers="servers.json"), frontend_tools=True)
