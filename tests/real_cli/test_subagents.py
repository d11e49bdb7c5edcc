"""Subagents on the real CLI: where they come from, what the model is told of them, and how a run shows them."""

from typing import Any, TypeAlias

import anyio
import pytest
from one_session import OneSession

from claude_agent_py import AgentDefinition, AssistantMessage, HookContext, TaskStatus, UserMessage, query
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


NESTED: Scripts = {
    "OUTER": [[text("I delegate."), launch("general-purpose", "INNER")], text("outer report")],
    "INNER": [[text("I look."), tool_use("Bash", {"command": "echo found"})], text("inner report")],
}
MANY = {
    f"agent-{n}": AgentDefinition(description=f"Knows part {n}", prompt=f"You are number {n}. " + "x" * 20_000)
    for n in range(100)
}


async def two_megabytes_of_agents_from_code_and_from_files_are_offered_and_used(one: OneSession) -> None:
    assert sum(len(agent.prompt) for agent in MANY.values()) > 2_000_000
    found = load_agents(one.model.sandbox.cwd / ".claude" / "agents")
    offered = {agent.name: agent.description for agent in one.client.info.agents or ()}
    one.answers([launch("coder", "WRITE"), launch("reviewer", "REVIEW"), launch("agent-77", "PART")], "ok")
    run = one.client.query("go", until="idle")
    result = await run
    known = {agent.name: (agent.definition, agent.report()) for agent in run.agents}
    main, write, review, part = (one.requests_of(name)[0] for name in ("main", "WRITE", "REVIEW", "PART"))
    assert set(MANY) <= set(offered)
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
        "agent-77": (MANY["agent-77"], "known"),
    }
    assert result.agents == run.agents
    assert found == {"reviewer": REVIEWER}


async def what_a_subagent_reads_does_not_reach_the_main_conversation(one: OneSession) -> None:
    one.answers(launch("reader", "LOOK"), launch("reader", "LOOK AGAIN", background=True), "ok", "ok")
    run = one.client.query("go", until="idle")
    await run
    read = [str(message.message.content) for agent in run.agents for message in agent.messages]
    main = [told(request) for request in one.requests_of()]
    assert "lapwing" in str(one.requests_of("LOOK")[-1].tool_results)
    assert any("lapwing" in content for content in read)
    assert [request for request in main if "lapwing" in request] == []
    assert "about birds" in main[-1]


# Following -------------------------------------------------------------------------------------------------------


class Hooked(OneSession):
    """A session whose hooks note the subagents that start and stop."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        self.seen: list[tuple[str, Any, str | None]] = []
        self.hooks: Any = {"SubagentStart": [self._note], "SubagentStop": [self._note]}

    async def _note(self, input: Any, context: HookContext) -> None:
        self.seen.append((input.hook_event_name, context.task, context.agent_id))


async def the_agents_of_a_run(one: Hooked, said: dict[str, list[str]]) -> None:
    client, before = one.client, len(one.client.agents)
    one.seen.clear()
    one.answers(launch("general-purpose", "OUTER"), "ok")
    run = client.query("go", until="idle")
    assert run.agents == []
    messages = [message async for message in run]
    outer, inner = run.agents
    result = await run
    calls = [call.name for call in result.tool_calls if call.agent_id == inner.id]
    assert client.agents[before:] == run.agents
    assert (outer.name, outer.description, outer.prompt) == ("general-purpose", "outer", "OUTER")
    assert (outer.parent, inner.parent) == (None, outer.task)
    assert [agent.status for agent in (outer, inner)] == [TaskStatus.COMPLETED] * 2
    assert [agent.usage.tool_uses for agent in (outer, inner) if agent.usage] == [1, 1]
    assert [agent.report() for agent in (outer, inner)] == ["outer report", "inner report"]
    assert not outer.is_child
    of_agents = [m for m in messages if isinstance(m, AssistantMessage | UserMessage) and m.is_subagent]
    assert {client.tasks.get(message.agent_id) for message in of_agents} <= {outer.task, inner.task}
    assert [message for message in of_agents if message.agent_id == outer.id] == list(outer.messages)
    spoken = {
        agent.description: [m.text for m in agent.messages if isinstance(m, AssistantMessage) and m.text]
        for agent in (outer, inner)
    }
    assert spoken == said
    assert calls == ([] if client.options.max_subagent_depth else ["Bash"])
    assert "Agent" in one.requests_of("OUTER")[0].tool_names
    assert result.refused_agents == []
    assert one.seen == [
        ("SubagentStart", outer.task, outer.id),
        ("SubagentStart", inner.task, inner.id),
        ("SubagentStop", inner.task, inner.id),
        ("SubagentStop", outer.task, outer.id),
    ]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        pytest.param(
            {"forward_subagent_text": True},
            {"outer": ["I delegate.", "outer report"], "inner": ["I look.", "inner report"]},
            marks=pytest.mark.long,
        ),
        pytest.param({"forward_nested_subagent_tool_calls": True}, {"outer": [], "inner": []}, marks=pytest.mark.long),
    ],
)
async def test_the_agents_of_a_run_that_forwards_more(options: dict[str, Any], said: dict[str, list[str]]) -> None:
    one = Hooked(agents=NESTED)
    async with one.open(hooks=one.hooks, **options):
        with anyio.fail_after(240):
            await the_agents_of_a_run(one, said)


async def test_the_subagents_of_one_session() -> None:
    notes = tool_use("Bash", {"command": "cat notes.txt"})
    one = Hooked(
        agents={
            **NESTED,
            "WRITE": "written",
            "REVIEW": "reviewed",
            "PART": "known",
            "LOOK AGAIN": [notes, "Nothing."],
            "LOOK": [notes, "It is about birds."],
        }
    )
    folder = one.model.start().sandbox.cwd
    (folder / "notes.txt").write_text("the lapwing nests in March")
    (folder / ".claude" / "agents").mkdir(parents=True)
    (folder / ".claude" / "agents" / "reviewer.md").write_text(REVIEWER.to_markdown("reviewer"))
    agents = {"coder": CODER, "reader": AgentDefinition(description="Reads", prompt="You read."), **MANY}
    async with one.open(agents=agents, hooks=one.hooks, max_subagent_depth=2):
        with anyio.fail_after(180):
            await two_megabytes_of_agents_from_code_and_from_files_are_offered_and_used(one)
            await what_a_subagent_reads_does_not_reach_the_main_conversation(one)
            await the_agents_of_a_run(one, {"outer": [], "inner": []})


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
        with anyio.fail_after(240):
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


@pytest.mark.long
async def test_the_agents_of_a_run_with_its_own_process() -> None:
    with ScriptedModel([launch("coder", "WRITE"), text("ok")], agents={"WRITE": text("written")}) as model:
        run = query("go", model.options(agents={"coder": CODER}))
        assert run.agents == []
        with anyio.fail_after(240):
            result = await run
    assert [(agent.name, agent.definition, agent.report()) for agent in run.agents] == [("coder", CODER, "written")]
    assert result.agents == run.agents
    assert result.agents[0].report(4) == "writ"
