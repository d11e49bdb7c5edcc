"""The spans of one session, live, by its messages, on disk and in a store, on the real CLI."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread
from comparing import common

from claude_agent_py import AgentDefinition, Allow, Client
from claude_agent_py.children import ChildAgent, child_tool
from claude_agent_py.journal import Fact, TaskFinished, TaskReopened, TaskRevised, TaskStarted, TurnEnded, TurnStarted
from claude_agent_py.observe import Timeline, watch
from claude_agent_py.sessions import MemoryStore, get_session, import_session
from claude_agent_py.testing import Reply, ScriptedModel, Usage, text, thinking, tool_use

pytestmark = [pytest.mark.anyio, pytest.mark.real_cli]


def agent(prompt: str, **more: Any) -> object:
    return tool_use("Agent", {"description": prompt, "prompt": prompt, "subagent_type": "general-purpose", **more})


@pytest.mark.long
async def test_a_session_has_the_same_spans_wherever_it_is_read() -> None:
    calls = [
        thinking("hm"),
        text("At once."),
        tool_use("Bash", {"command": "echo hello"}),
        agent("Look back", run_in_background=True),
        agent("Look here", run_in_background=False),
        tool_use("Bash", {"command": "sleep 0.2", "run_in_background": True}),
        tool_use("Bash", {"command": "exit 3"}),
    ]
    looks = {"Look": [tool_use("Bash", {"command": "echo seen"}), "It is fine."]}
    script = [calls, "Done.", "Noted.", "Again."]
    async with ScriptedModel(script, agents=looks, on_exhausted="Noted.") as model:
        options = model.options(
            permission_mode="default",
            can_use_tool=lambda request, context: Allow(),
            hooks={"PreToolUse": [lambda input, context: None], "Stop": [lambda input, context: None]},
        )
        async with Client(options) as client:
            watched = watch(client)
            first = await client.query("Look around", until="idle")
            second = await client.query("And again", until="idle")
            config = Path(model.sandbox.config_dir)
            session_id = first.session_id
        watched.close()
        session = await to_thread.run_sync(lambda: get_session(session_id, config_dir=config))
        disk = await to_thread.run_sync(lambda: Timeline.from_session(session))
        store = MemoryStore()
        await import_session(store, session_id, config_dir=config)
        stored = await Timeline.from_store(store, session_id)

    live = watched.timeline()
    assert common(live.spans) == common(disk.spans)
    assert stored.spans == disk.spans
    runs = [result.timeline() for result in (first, second)]
    assert common([span for run in runs for span in run.spans]) == common(live.spans)

    kinds = [span.kind for span in live.spans]
    assert kinds.count("run") == 2
    assert kinds.count("subagent") == 2
    assert kinds.count("task") == 1
    assert {"hook", "waiting"} <= set(kinds)
    assert not {"hook", "waiting"} & {span.kind for span in disk.spans}
    assert live.summary.cost_usd == pytest.approx(second.total_cost_usd)
    assert disk.summary.cost_usd == pytest.approx(second.total_cost_usd)

    by_id = {span.id: span for span in live.spans}
    [back] = [span for span in live.spans if span.is_background and span.kind == "subagent"]
    [launch] = back.links
    assert by_id[launch].name == "Agent"
    assert by_id[launch].parent is not None
    [failed] = [span for span in live.spans if span.status == "error"]
    assert failed.attributes["input"] == '{"command":"exit 3"}'
    waits = [span for span in live.spans if span.kind == "waiting"]
    assert {by_id[str(span.parent)].kind for span in waits} == {"tool"}


@pytest.mark.long
async def test_a_resumed_subagent_has_the_same_runs_live_and_on_disk() -> None:
    launch = agent("Look", run_in_background=True, name="looker")
    resume = tool_use("SendMessage", {"to": "looker", "message": "Look again", "summary": "again"})
    script = [launch, "Launched.", resume]
    async with ScriptedModel(script, agents={"Look": ["Seen.", "Seen again."]}, on_exhausted="Noted.") as model:
        async with Client(model.options()) as client:
            facts = client.journal()
            result = await client.query("Look around", until="idle")
        live = [fact async for fact in facts]
        stored = list(get_session(result.session_id, config_dir=model.sandbox.config_dir).journal())
    assert runs_of(stored) == runs_of(live)
    assert [run.prompt for run in stored if isinstance(run, TaskStarted | TaskReopened)] == ["Look", "Look again"]


def runs_of(facts: Iterable[Fact]) -> dict[str, object]:
    """Return what the facts tell of each run of a task, and which runs caused a turn."""
    told: dict[str, object] = {}
    for fact in facts:
        match fact:
            case TaskStarted() | TaskReopened():
                told[fact.id] = (fact.type, fact.name, fact.call, fact.description, fact.prompt, fact.is_backgrounded)
            case TaskFinished() | TaskRevised() if fact.outcome.is_reported:
                told[f"{fact.id} ended"] = fact.outcome.status
            case TurnStarted() | TurnEnded():
                told |= {f"{cause} caused a turn": True for cause in fact.causes}
            case _:
                pass
    return told


@pytest.mark.long
async def test_a_child_agent_has_a_lane_with_its_calls_and_its_questions() -> None:
    porter = ChildAgent(AgentDefinition(description="Ports code", prompt="You port."), id="porter")
    job = tool_use("mcp__tools__create_subtask_porter", {"title": "Port it", "intent": "Port it."})
    ported = {"Port it": [tool_use("Bash", {"command": "touch ported"}), "It is ported."]}
    async with ScriptedModel([job, "Done."], sessions=ported) as model:
        options = model.options(
            permission_mode="default",
            custom_tools=[child_tool(porter)],
            can_use_tool=lambda request, context: Allow(),
        )
        async with Client(options) as client:
            with watch(client) as watched:
                await client.query("Have it ported")

    spans = watched.spans
    [child] = [span for span in spans if span.kind == "child"]
    [launch] = [span for span in spans if span.id == child.parent]
    assert launch.name == "mcp__tools__create_subtask_porter"
    theirs = {(span.kind, span.name) for span in spans if span.agent == child.agent and span.kind != "model"}
    assert theirs == {("child", "porter"), ("tool", "Bash"), ("waiting", "Bash")}
    assert child.cost_usd


@pytest.mark.long
async def test_the_usage_of_a_subagent_is_the_same_in_every_view() -> None:
    used = Usage(input_tokens=1000, output_tokens=100)
    launch = {"description": "d", "prompt": "go", "subagent_type": "general-purpose", "run_in_background": True}
    script = [Reply(said, usage=used) for said in (tool_use("Agent", launch), "started", "follow up")]
    worker = [Reply(tool_use("Bash", {"command": "echo sub"}), usage=used), Reply("sub done", usage=used)]
    async with ScriptedModel(script, agents={"go": worker}) as model:
        async with Client(model.options()) as client:
            facts, watched = client.journal(), watch(client)
            result = await client.query("hello", until="idle")
            [task] = client.tasks
        ends = [fact.outcome async for fact in facts if isinstance(fact, TaskFinished | TaskRevised)]
        stored = get_session(result.session_id, config_dir=model.sandbox.config_dir)
        timelines = [result.timeline(), watched.timeline(), Timeline.from_session(stored)]
        [of_stored] = [each.outcome.usage for each in stored.tasks if each.outcome is not None]
    of_main, of_agent = result.usage_by_agent[""], result.usage_by_agent["general-purpose"]
    assert (of_agent.total_tokens, of_agent.tool_uses) == (2200, 1)
    assert of_stored is not None
    assert of_stored.cost_usd == pytest.approx(0.012)
    assert of_agent.cost_usd is not None
    # If the CLI writes the last answer late, a running session does not know its output tokens.
    assert of_agent.cost_usd in (pytest.approx(0.012), pytest.approx(0.01))
    assert of_main.cost_usd == pytest.approx(result.cost_usd - of_agent.cost_usd)
    for usage in (task.usage, ends[-1].usage):
        assert usage is not None
        assert usage.total_tokens == of_agent.total_tokens
        assert usage.cost_usd == pytest.approx(of_agent.cost_usd)
    is_late = of_agent.cost_usd < 0.011
    for timeline in timelines[:2] if is_late else timelines:
        by_agent = timeline.summary.by_agent
        assert by_agent[task.id].tokens.total == of_agent.total_tokens - (100 if is_late else 0)
        assert by_agent[task.id].cost_usd == pytest.approx(of_agent.cost_usd)
        assert by_agent[""].cost_usd == pytest.approx(of_main.cost_usd)
        [span] = [span for span in timeline.spans if span.kind == "subagent"]
        assert span.attributes["total_tokens"] == of_agent.total_tokens
