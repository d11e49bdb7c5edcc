"""Subagents on the real CLI: where they come from, what the model is told of them, and how a run shows them."""

from typing import Any, TypeAlias

import anyio
import pytest
from one_session import OneSession

from claude_agent_py import AgentDefinition, AssistantMessage, Client, HookContext, TaskStatus, UserMessage, query
from claude_agent_py.agents import load_agents
from claude_agent_py.testing import Gate, RecordedRequest, Reply, ScriptedModel, text, tool_use

pytestmark = [pytest.mark.anyio, pytest.mark.real_cli]

Scripts: TypeAlias = dict[Any, Any]

CODER = AgentDefinition(description="Writes code", prompt="You write code.", tools=["Read", "Write"])
REVIEWER = AgentDefinition(description="Reviews code", prompt="You review code.", tools=["Read"])


def launch(agent: str, prompt: str, *, background: bool = False) -> Any:
    return tool_use(
        "Agent",
        {"description": prompt.lower(), "prompt": prompt, "subagent_type": agent, "run_in_background": background},
    )


def told(request: RecordedRequest) -> str:
    return f"{request.system} {request.messages}"


async def test_two_megabytes_of_agents_from_code_and_from_files_are_offered_and_used() -> None:
    many = {
        f"agent-{n}": AgentDefinition(description=f"Knows part {n}", prompt=f"You are number {n}. " + "x" * 20_000)
        for n in range(100)
    }
    assert sum(len(agent.prompt) for agent in many.values()) > 2_000_000
    scripts: Scripts = {"WRITE": text("written"), "REVIEW": text("reviewed"), "PART": text("known")}
    calls = [launch("coder", "WRITE"), launch("reviewer", "REVIEW"), launch("agent-77", "PART")]
    with ScriptedModel([calls, text("ok")], agents=scripts) as model:
        folder = model.sandbox.cwd / ".claude" / "agents"
        folder.mkdir(parents=True)
        (folder / "reviewer.md").write_text(REVIEWER.to_markdown("reviewer"))
        found = load_agents(folder)
        async with Client(model.options(agents={"coder": CODER, **many})) as client:
            with anyio.fail_after(60):
                offered = {agent.name: agent.description for agent in client.info.agents or ()}
                run = client.query("go", until="idle")
                result = await run
                known = {agent.name: (agent.definition, agent.report()) for agent in run.agents}
        main, write, review, part = (model.requests_of(name)[0] for name in ("main", "WRITE", "REVIEW", "PART"))
    assert set(many) <= set(offered)
    assert part.system.count("You are number 77.") == 1
    assert len(part.system) > 20_000
    assert (offered["coder"], offered["reviewer"]) == ("Writes code", "Reviews code")
    assert "coder: Writes code" in told(main)
    assert "reviewer: Reviews code" in told(main)
    assert "You write code." in write.system
    assert "You review code." in review.system
    assert {tool["name"] for tool in review.body["tools"]} & {"Read", "Write", "Bash"} == {"Read"}
    assert known == {
        "coder": (CODER, "written"),
        "reviewer": (None, "reviewed"),
        "agent-77": (many["agent-77"], "known"),
    }
    assert result.agents == run.agents
    assert found == {"reviewer": REVIEWER}


async def test_what_a_subagent_reads_does_not_reach_the_main_conversation() -> None:
    with ScriptedModel(
        [launch("reader", "LOOK"), launch("reader", "LOOK AGAIN", background=True), text("ok"), text("ok")],
        agents={
            "LOOK AGAIN": lambda request: (
                text("Nothing.") if request.tool_results else tool_use("Bash", {"command": "cat notes.txt"})
            ),
            "LOOK": lambda request: (
                text("It is about birds.") if request.tool_results else tool_use("Bash", {"command": "cat notes.txt"})
            ),
        },
    ) as model:
        (model.sandbox.cwd / "notes.txt").write_text("the lapwing nests in March")
        agents = {"reader": AgentDefinition(description="Reads", prompt="You read.")}
        async with Client(model.options(agents=agents)) as client:
            with anyio.fail_after(60):
                run = client.query("go", until="idle")
                await run
                read = [str(message.message.content) for agent in run.agents for message in agent.messages]
        main = [told(request) for request in model.requests_of("main")]
    assert "lapwing" in str(model.requests_of("LOOK")[-1].tool_results)
    assert any("lapwing" in content for content in read)
    assert [one for one in main if "lapwing" in one] == []
    assert "about birds" in main[-1]


# Following -------------------------------------------------------------------------------------------------------

NESTED: Scripts = {
    "OUTER": [[text("I delegate."), launch("general-purpose", "INNER")], text("outer report")],
    "INNER": [[text("I look."), tool_use("Bash", {"command": "echo found"})], text("inner report")],
}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"max_subagent_depth": 2}, {"outer": [], "inner": []}),
        (
            {"forward_subagent_text": True},
            {"outer": ["I delegate.", "outer report"], "inner": ["I look.", "inner report"]},
        ),
        ({"forward_nested_subagent_tool_calls": True}, {"outer": [], "inner": []}),
    ],
)
async def test_the_agents_of_a_run(options: dict[str, Any], said: dict[str, list[str]]) -> None:
    seen: list[tuple[str, Any, str | None]] = []

    async def note(input: Any, context: HookContext) -> None:
        seen.append((input.hook_event_name, context.task, context.agent_id))

    hooks = {"SubagentStart": [note], "SubagentStop": [note]}
    with ScriptedModel([launch("general-purpose", "OUTER"), text("ok")], agents=NESTED) as model:
        async with Client(model.options(hooks=hooks, **options)) as client:
            with anyio.fail_after(60):
                run = client.query("go", until="idle")
                assert run.agents == []
                messages = [message async for message in run]
                outer, inner = run.agents
                result = await run
                calls = [call.name for call in result.tool_calls if call.agent_id == inner.id]
                assert client.agents == run.agents
    assert (outer.name, outer.description, outer.prompt) == ("general-purpose", "outer", "OUTER")
    assert (outer.parent, inner.parent) == (None, outer.task)
    assert [agent.status for agent in (outer, inner)] == [TaskStatus.COMPLETED] * 2
    assert [agent.usage.tool_uses for agent in (outer, inner) if agent.usage] == [1, 1]
    assert [agent.report() for agent in (outer, inner)] == ["outer report", "inner report"]
    assert not outer.is_child
    of_agents = [one for one in messages if isinstance(one, AssistantMessage | UserMessage) and one.is_subagent]
    assert {client.tasks.get(one.agent_id) for one in of_agents} <= {outer.task, inner.task}
    assert [one for one in of_agents if one.agent_id == outer.id] == list(outer.messages)
    spoken = {
        agent.description: [m.text for m in agent.messages if isinstance(m, AssistantMessage) and m.text]
        for agent in (outer, inner)
    }
    assert spoken == said
    assert calls == ([] if "max_subagent_depth" in options else ["Bash"])
    assert "Agent" in model.requests_of("OUTER")[0].tool_names
    assert result.refused_agents == []
    assert seen == [
        ("SubagentStart", outer.task, outer.id),
        ("SubagentStart", inner.task, inner.id),
        ("SubagentStop", inner.task, inner.id),
        ("SubagentStop", outer.task, outer.id),
    ]


# Limits ----------------------------------------------------------------------------------------------------------


async def test_a_subagent_beyond_the_depth_and_one_too_many_at_a_time_are_refused_and_seen() -> None:
    gate = Gate()
    one = OneSession(agents={**NESTED, "FIRST": Reply("first report", after=gate)})
    async with one.open(max_subagent_depth=1, max_concurrent_subagents=1) as client:
        deep = await one.ask(launch("general-purpose", "OUTER"), "ok")
        assert "Agent" not in one.requests_of("OUTER")[0].tool_names

        calls = Reply([launch("general-purpose", name, background=True) for name in ("FIRST", "SECOND")])
        result = await one.ask(calls, "one is under way", "ok", until="result")
        gate.open()
        with anyio.fail_after(60):
            await client.tasks.wait_all()
    assert [agent.description for agent in deep.agents] == ["outer"]
    (too_deep,) = deep.refused_agents
    assert (too_deep.agent_id, too_deep.input["prompt"]) == (deep.agents[0].id, "INNER")
    assert "No such tool available: Agent" in too_deep.text

    assert [agent.description for agent in result.agents] == ["first"]
    (refused,) = result.refused_agents
    assert refused.input["prompt"] == "SECOND"
    assert "Concurrent subagent limit reached" in refused.text
    assert result.message is not None
    assert result.message.subagent_stats is not None
    assert result.message.subagent_stats.refused is not None
    assert result.message.subagent_stats.refused.concurrency_limit == 1


async def test_the_agents_of_a_run_with_a_process_of_its_own() -> None:
    with ScriptedModel([launch("coder", "WRITE"), text("ok")], agents={"WRITE": text("written")}) as model:
        run = query("go", model.options(agents={"coder": CODER}))
        assert run.agents == []
        with anyio.fail_after(60):
            result = await run
    assert [(agent.name, agent.definition, agent.report()) for agent in run.agents] == [("coder", CODER, "written")]
    assert result.agents == run.agents
    assert result.agents[0].report(4) == "writ"
