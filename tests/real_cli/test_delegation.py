"""Delegation on the real CLI: what the model is told of agents, and how much of their reports it reads."""

import logging
from typing import Any, TypeAlias

import anyio
import pytest
from one_session import OneSession

from claude_agent_py import AgentDefinition, Client, ClientOptions, HookContext, HookMatcher, OptionsError
from claude_agent_py.agents import DelegationGuide
from claude_agent_py.children import ChildAgent, child_tool
from claude_agent_py.hooks import HookRun, PostToolUseOutput
from claude_agent_py.options import OptionsWarning
from claude_agent_py.testing import RecordedRequest, ScriptedModel, text, tool_use
from claude_agent_py.tools import ToolServer

pytestmark = [pytest.mark.anyio, pytest.mark.real_cli]

Scripts: TypeAlias = dict[Any, Any]

PLANNER = AgentDefinition(description="Plans", prompt="You plan.", disallowed_tools=["Edit"], model="inherit")
READER = AgentDefinition(description="Reads", prompt="You read.", tools=["Read", "Bash"], model="haiku")
GUIDE = DelegationGuide(max_report_chars=500)
LONG = "".join(f"Sentence number {n} of the report. " for n in range(600)).strip()
LISTING = "The agents of the CLI and those defined in files"


def launch(prompt: str, *, background: bool = False, agent: str = "reader") -> Any:
    return tool_use(
        "Agent",
        {"description": prompt.lower(), "prompt": prompt, "subagent_type": agent, "run_in_background": background},
    )


def said(request: RecordedRequest) -> str:
    return str(request.messages)


# The guide -------------------------------------------------------------------------------------------------------


async def test_the_guide_names_the_callers_agents_the_clis_and_those_of_subtask_tools() -> None:
    porter = AgentDefinition(description="Ports code", prompt="p", model="opus", tools=["Write"])
    auditor = AgentDefinition(description="Audits code", prompt="p")
    server = ToolServer("team", tools=[child_tool(ChildAgent(auditor, id="auditor"))])
    with ScriptedModel([text("ok"), text("ok")]) as model:
        options = model.options(
            agents={"reader": READER, "Plan": PLANNER, "secret": READER},
            custom_tools=[child_tool(ChildAgent(porter, id="porter"))],
            mcp_servers={"team": server},
            disallowed_tools=["Agent(secret)", "Agent(claude)"],
            delegation_guide=GUIDE,
        )
        async with Client(options) as client:
            with anyio.fail_after(240):
                listed = {agent.name: agent for agent in client.info.agents}
                await client.query("go")
                await client.query("again")
        first, second = model.requests_of("main")
    for row in (
        "| reader | haiku | Read, Bash | Reads |",
        "| Plan | inherit | all but ",
        "| mcp__tools__create_subtask_porter | opus | Write | Ports code |",
        "| mcp__team__create_subtask_auditor | default | all | Audits code |",
        "Delegate when only the conclusion matters here; use a tool yourself when",
        '"Where is the class Invoice defined?": search for `class Invoice` yourself.',
        "Cost: ",
    ):
        assert row in first.system
    assert {"mcp__tools__create_subtask_porter", "mcp__team__create_subtask_auditor"} <= set(first.tool_names)
    listing = said(first).partition(LISTING)[2]
    assert f"| general-purpose | default | {listed['general-purpose'].description[:60]}" in listing
    assert "| Explore | inherit | " in listing
    assert "| statusline-setup | sonnet | " in listing
    own_or_denied = [name for name in ("reader", "Plan", "secret", "claude") if f"| {name} |" in listing]
    assert own_or_denied == []
    assert "| secret |" not in first.system
    assert said(second).count(LISTING) == 1


@pytest.mark.long
async def test_a_guide_needs_no_own_agents_and_its_listing_survives_a_compaction() -> None:
    with ScriptedModel([text("ok")] * 3) as model:
        async with Client(model.options(delegation_guide=True)) as client:
            with anyio.fail_after(240):
                await client.query("go")
                await client.query("/compact")
                await client.query("again")
                await client.query("/clear")
                await client.query("and again")
        before, after, cleared = model.requests_of("main")
    assert "You can delegate work to agents (tool `Agent`" in before.system
    assert "A scripted summary" in said(after)
    assert "A scripted summary" not in said(cleared)
    read = [said(request).count("| general-purpose | default |") for request in (before, after, cleared)]
    assert read == [1, 1, 1]


CANNOT: list[tuple[dict[str, Any], str]] = [
    ({"tools": ["Read"]}, "tools does not contain Agent"),
    ({"disallowed_tools": ["Task"]}, "disallowed_tools removes Agent"),
    ({"settings": {"permissions": {"deny": ["Agent"]}}}, "settings deny Agent"),
    ({"agent": "reader"}, "the agent 'reader', which the session runs as"),
]


@pytest.mark.long
async def test_a_guide_is_left_out_with_a_warning_where_the_model_cannot_delegate() -> None:
    """The tests below show that the CLI offers no `Agent` either where an option or a setting takes it away."""
    with ScriptedModel([text("ok")]) as model:
        for given, why in CANNOT:
            with pytest.warns(OptionsWarning, match=f"delegation_guide is left out: {why}"):
                options = model.options(agents={"reader": READER}, delegation_guide=GUIDE, **given)
        async with Client(options) as client:
            with anyio.fail_after(240):
                await client.query("go")
        (request,) = model.requests_of("main")
    assert "Agent" not in request.tool_names
    assert not request.contains("# Delegating")
    assert not request.contains(LISTING)


@pytest.mark.long
async def test_without_the_tool_agent_the_guide_speaks_of_subtask_tools_alone() -> None:
    with ScriptedModel([text("ok")]) as model:
        options = model.options(
            agents={"reader": READER},
            custom_tools=[child_tool(ChildAgent(READER, id="porter"))],
            disallowed_tools=["Task"],
            delegation_guide=GUIDE,
        )
        async with Client(options) as client:
            with anyio.fail_after(240):
                await client.query("go")
        (request,) = model.requests_of("main")
    guide = request.system.partition("# Delegating")[2]
    assert "Agent" not in request.tool_names
    assert "| mcp__tools__create_subtask_porter | haiku |" in guide
    assert "`Agent`" not in guide
    assert "| reader |" not in guide
    assert not request.contains(LISTING)


def denying(*rules: str) -> dict[str, Any]:
    return {"permissions": {"deny": list(rules)}}


LEAD: Scripts = {"description": "Leads", "prompt": "You lead."}


@pytest.mark.parametrize(
    ("given", "agents", "has_subtasks"),
    [
        pytest.param(
            {
                "settings": denying("Agent(writer)", "mcp__tools__create_subtask_porter"),
                "managed_settings": denying("Agent(Explore)"),
            },
            {"reader", "Plan"},
            False,
            marks=pytest.mark.long,
        ),
        pytest.param(
            {"agent": "lead", "tools_of_lead": ["Agent(reader, Plan)", "mcp__tools"]},
            {"reader", "Plan"},
            True,
            marks=pytest.mark.long,
        ),
        pytest.param(
            {"agent": "lead", "tools_of_lead": ["Agent", "mcp__tools"]},
            {"reader", "writer", "Plan", "Explore"},
            True,
            marks=pytest.mark.long,
        ),
        pytest.param(
            {"agent": "lead", "tools_of_lead": ["*"]},
            {"reader", "writer", "Plan", "Explore"},
            True,
            marks=pytest.mark.long,
        ),
        pytest.param(
            {"agent": "lead", "disallowed_by_lead": ["mcp__tools__create_subtask_porter"]},
            {"reader", "writer", "Plan", "Explore"},
            False,
            marks=pytest.mark.long,
        ),
    ],
)
async def test_a_guide_names_only_the_agents_that_the_model_can_start(
    given: dict[str, Any], agents: set[str], has_subtasks: bool
) -> None:
    lead = AgentDefinition(
        **LEAD, tools=given.pop("tools_of_lead", None), disallowed_tools=given.pop("disallowed_by_lead", None)
    )
    with ScriptedModel([text("ok")]) as model:
        options = model.options(
            agents={"lead": lead, "reader": READER, "writer": READER},
            custom_tools=[child_tool(ChildAgent(READER, id="porter"))],
            delegation_guide=GUIDE,
            **given,
        )
        async with Client(options) as client:
            with anyio.fail_after(240):
                await client.query("go")
        (request,) = model.requests_of("main")
    told = request.system.partition("# Delegating")[2] + said(request).partition(LISTING)[2]
    offered = {name for name in ("reader", "writer", "Plan", "Explore") if f"- {name}:" in said(request)}
    assert offered == agents
    assert {name for name in ("reader", "writer", "Plan", "Explore") if f"| {name} |" in told} == agents
    assert ("mcp__tools__create_subtask_porter" in request.tool_names) is has_subtasks
    assert ("| mcp__tools__create_subtask_porter |" in told) is has_subtasks


@pytest.mark.long
async def test_a_settings_file_that_takes_the_tool_away_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with ScriptedModel([text("ok")]) as model:
        (model.sandbox.config_dir / "settings.json").write_text('{"permissions": {"deny": ["Agent"]}}')
        async with Client(model.options(delegation_guide=True)) as client:
            with anyio.fail_after(240), caplog.at_level(logging.WARNING, "claude_agent_py"):
                await client.query("go")
        (request,) = model.requests_of("main")
    assert "Agent" not in request.tool_names
    assert "delegation_guide tells the model to use the tool Agent, which the settings take from it" in caplog.text


# Reports ---------------------------------------------------------------------------------------------------------


def reports_read(requests: list[RecordedRequest]) -> list[str]:
    """Return the reports of foreground subagents that the model read, without the CLI's frame."""
    found = []
    for block in requests[-1].tool_results:
        told = "".join(part["text"] for part in block["content"])
        body = told.partition("The report follows:\n")[2].partition("\nagentId: ")[0]
        found.append("\n".join(line.removeprefix("  ") for line in body.splitlines()))
    return found


async def a_foreground_report_is_cut_for_the_model_and_whole_on_the_task(one: OneSession) -> None:
    result = await one.ask([launch("LOOK"), launch("BRIEF"), launch("OUTER")], "ok")
    main, nested = reports_read(one.requests_of()), reports_read(one.requests_of("OUTER"))
    brief, long, outer = sorted(main)  # the results come in the order in which the agents end
    assert (brief, outer) == ("Nothing.", "outer")
    for cut in (long, *nested):
        assert cut.startswith("Sentence number 0 of the report.")
        assert cut.endswith(f".\n\n[The report has {len(LONG):,} characters; this is its beginning.]")
        assert 300 < len(cut) <= 500
    assert len(nested) == 1
    whole = [agent.task.summary for agent in one.client.agents if agent.prompt == "LOOK"]
    assert set(whole) == {LONG}
    assert result.agents[0].report() == LONG


async def a_limit_does_not_undo_a_redaction(one: OneSession) -> None:
    """Hooks of a call run at the same time, and the CLI takes the replacement that comes last: once each comes last."""
    last = "redact"
    done: dict[str, anyio.Event] = {}

    async def redact(input: Any, context: HookContext) -> PostToolUseOutput:
        if last == "redact":
            await done["look"].wait()
        done["redact"].set()
        output = input.raw["tool_response"]
        content = [{"type": "text", "text": block["text"].replace("Sentence", "XXXXX")} for block in output["content"]]
        return PostToolUseOutput(updated_tool_output={**output, "content": content})

    async def look(input: Any, context: HookContext) -> None:
        if last == "look":
            await done["redact"].wait()
        done["look"].set()

    added = [
        await one.client.hooks.add("PostToolUse", HookMatcher(pattern, hook))
        for pattern, hook in (("^(Agent|Bash)$", redact), ("Task", look))
    ]
    for last in ("redact", "look"):
        done.update(redact=anyio.Event(), look=anyio.Event())
        await one.ask(launch("LOOK"), "ok")
        (read,) = reports_read(one.requests_of())
        assert read.startswith("XXXXX number 0 of the report."), last
        assert "Sentence" not in read
        assert len(read) <= 500
        assert len(one.requests_of("LOOK")) == 1
    for hook in added:
        await one.client.hooks.remove(hook)


async def hooks_of_options_are_no_hooks_of_the_user(one: OneSession) -> None:
    seen: list[str] = []

    async def watch(messages: Any) -> None:
        async for message in messages:
            if isinstance(message, HookRun):
                seen.append(message.event)  # noqa: PERF401 - it is cancelled

    async with anyio.create_task_group() as workers:
        workers.start_soon(watch, one.client.messages())
        added = await one.client.hooks.add("Stop", lambda input, context: None)
        await one.ask(launch("LOOK"), "ok")
        await one.client.hooks.remove(added)
        workers.cancel_scope.cancel()
    (read,) = reports_read(one.requests_of())
    assert len(read) <= 500  # also after the set of hooks was replaced
    assert seen == ["Stop"]


async def a_background_agent_is_asked_once_to_shorten_its_report(
    one: OneSession, caplog: pytest.LogCaptureFixture
) -> None:
    prompts = ("LATER", "STUBBORN", "BRIEF")
    before = len(one.client.agents)
    with caplog.at_level(logging.WARNING, "claude_agent_py"):
        await one.ask([launch(prompt, background=True) for prompt in prompts])
    tasks = {agent.prompt: agent for agent in one.client.agents[before:]}
    texts = [getattr(message, "text", "") for message in tasks["LATER"].messages]
    transcript = await tasks["LATER"].task.transcript()
    asked = {prompt: len(one.requests_of(prompt)) for prompt in prompts}
    read = said(one.requests_of()[-1])
    request = one.requests_of("LATER")[1]
    assert asked == {"LATER": 2, "STUBBORN": 2, "BRIEF": 1}
    assert f"Your report has {len(LONG):,} characters; its reader takes 500 at most." in request.last_user_text
    assert "<result>In short: nothing.</result>" in read
    assert "<result>Nothing.</result>" in read
    assert read.count("Sentence number 599") == 1  # the stubborn one's: the CLI lets nobody cut it
    assert tasks["LATER"].report() == "In short: nothing."
    assert LONG in texts
    assert any(LONG in str(message) for message in transcript)
    warned = [record.getMessage() for record in caplog.records if "max_report_chars" in record.getMessage()]
    assert len(warned) == 1
    assert tasks["STUBBORN"].id in warned[0]


async def test_reports_in_one_session(caplog: pytest.LogCaptureFixture) -> None:
    one = OneSession(
        agents={
            "LOOK": text(LONG),
            "BRIEF": text("Nothing."),
            "OUTER": [launch("LOOK"), text("outer")],
            "LATER": [text(LONG), text("In short: nothing.")],
            "STUBBORN": [text(LONG), text(LONG)],
        }
    )
    agents = {"reader": READER.replace(tools=["Agent"])}
    async with one.open(agents=agents, delegation_guide=GUIDE, include_hook_events=True):
        await hooks_of_options_are_no_hooks_of_the_user(one)
        await a_foreground_report_is_cut_for_the_model_and_whole_on_the_task(one)
        await a_limit_does_not_undo_a_redaction(one)
        await a_background_agent_is_asked_once_to_shorten_its_report(one, caplog)


def test_a_limit_that_cannot_hold_is_refused() -> None:
    with pytest.raises(OptionsError, match="CLAUDE_CODE_SIMPLE disables all hooks"):
        ClientOptions(agents={"reader": READER}, delegation_guide=GUIDE, env={"CLAUDE_CODE_SIMPLE": "1"})
    ClientOptions(agents={"reader": READER}, delegation_guide=True, env={"CLAUDE_CODE_SIMPLE": "1"})
