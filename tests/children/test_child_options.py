"""What a child's process is started with: its definition, its own options, and what it takes from its parent."""

import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from claude_agent_py import (
    AgentDefinition,
    Client,
    ClientOptions,
    HookMatcher,
    Hooks,
    MCPStdioServer,
    OptionsError,
    ToolError,
    ToolServer,
)
from claude_agent_py.agents import AgentModel
from claude_agent_py.children import ChildAgent, ChildReport, child_tool
from claude_agent_py.children.assignment import Brief
from claude_agent_py.children.process_options import build_process_options
from claude_agent_py.hooks import HOOK_EVENTS
from claude_agent_py.options import OptionsWarning, SystemPromptPreset

WORKER = AgentDefinition(description="Works", prompt="You work.")


def options_of(
    definition: AgentDefinition = WORKER,
    own: ClientOptions | None = None,
    parent: ClientOptions | None = None,
    **more: Any,
) -> ClientOptions:
    return build_process_options("worker", definition, own, parent or ClientOptions(), **more)


@pytest.fixture(autouse=True)
def no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def test_the_session_is_the_agent_and_cannot_start_itself() -> None:
    options = options_of()
    assert (options.agent, options.agents) == ("worker", {"worker": WORKER})
    assert options.disallowed_tools == ["Agent(worker)"]
    assert options.verbatim_prompts
    assert options.system_prompt is None


def test_inherited_options_of_a_child() -> None:
    parent = ClientOptions(
        cwd="/tmp",
        env={"A": "b"},
        model="opus",
        permission_mode="acceptEdits",
        tools=["Read", "Bash"],
        disallowed_tools=["WebFetch"],
        managed_settings={"permissions": {"deny": ["Bash"]}},
        system_prompt="You lead.",
        custom_tools=[child_tool(ChildAgent(WORKER, id="worker"))],
        agents={"other": WORKER},
        resume="some session",
        max_turns=3,
        on_stderr=print,
    )
    options = options_of(parent=parent)
    assert (options.cwd, options.env, options.model) == (parent.cwd, {"A": "b"}, "opus")
    assert (options.permission_mode, list(options.tools or ())) == ("acceptEdits", ["Read", "Bash"])
    assert list(options.disallowed_tools) == ["WebFetch", "Agent(worker)"]
    assert options.managed_settings == parent.managed_settings
    assert (options.system_prompt, options.resume, options.max_turns, options.on_stderr) == (None, None, None, None)
    assert list(options.custom_tools) == []
    assert list(options.agents or ()) == ["worker"]


@pytest.mark.parametrize(("mode", "taken"), [(None, "default"), ("plan", "plan"), ("of a newer CLI", "default")])
def test_the_permission_mode_is_the_one_that_the_parent_is_in(mode: str | None, taken: str) -> None:
    assert options_of(parent=ClientOptions(permission_mode="default"), mode=mode).permission_mode == taken
    assert options_of(own=ClientOptions(permission_mode="acceptEdits"), mode="plan").permission_mode == "acceptEdits"


def test_own_options_take_the_place_of_the_parent_s() -> None:
    own = ClientOptions(
        model="sonnet",
        agents={"helper": WORKER},
        system_prompt=SystemPromptPreset(append="Be brief."),
        verbatim_prompts=False,
        telemetry=False,
    )
    options = options_of(own=own, parent=ClientOptions(model="opus", permission_mode="plan", telemetry=True))
    assert (options.model, options.permission_mode) == ("sonnet", None)
    assert list(options.agents or ()) == ["helper", "worker"]
    assert options.system_prompt == SystemPromptPreset(append="Be brief.")
    assert (options.verbatim_prompts, options.telemetry) == (False, False)
    assert options_of(own=ClientOptions(model="sonnet"), parent=ClientOptions(telemetry=True)).telemetry is True


def test_the_definition_outweighs_inherited_options() -> None:
    definition = WORKER.replace(
        model="haiku", effort="low", max_turns=4, permission_mode="plan", skills=["review"], tools=["Read"]
    )
    own = ClientOptions(
        model="opus",
        fallback_model=["haiku", "sonnet"],
        max_turns=9,
        permission_mode="acceptEdits",
        system_prompt="You do something else.",
    )
    options = options_of(definition, own)
    assert (options.model, options.effort, options.max_turns) == ("haiku", "low", 4)
    assert (options.permission_mode, options.skills) == ("plan", ["review"])
    assert list(options.fallback_model or ()) == ["sonnet"]
    assert options.system_prompt is None
    assert options_of(WORKER.replace(model=AgentModel.INHERIT), own).model == "opus"


def servers_of(options: ClientOptions) -> set[str]:
    return set(options.mcp_servers) if isinstance(options.mcp_servers, Mapping) else set()


def test_servers_of_the_definition_by_name_and_in_full() -> None:
    server, calc = ToolServer("mine", tools=[]), MCPStdioServer(command="calc")
    definition = WORKER.replace(mcp_servers=["mine", "of the project", {"calc": calc}])
    parent = ClientOptions(mcp_servers={"mine": server, "not asked for": {"command": "x"}})
    own = ClientOptions(mcp_servers={"own": {"command": "own"}})
    assert servers_of(options_of(definition, own, parent)) == {"own", "mine", "calc"}
    assert servers_of(options_of(definition, None, parent)) == {"mine", "calc"}
    with pytest.raises(OptionsError, match="mcp_servers"):
        options_of(definition, ClientOptions(mcp_servers="servers.json"), parent)


def test_the_handler_that_answers_for_a_child() -> None:
    def decide(*asked: Any) -> None:
        raise AssertionError

    parent = ClientOptions(can_use_tool=decide, on_elicitation=decide)
    assert options_of(own=ClientOptions(permission_mode="dontAsk"), parent=parent).can_use_tool is decide
    own = options_of(own=ClientOptions(interactions=True), parent=parent)
    assert (own.can_use_tool, own.on_elicitation, own.interactions) == (None, None, True)
    assert options_of(own=ClientOptions(permission_prompt_tool_name="mcp__a__b"), parent=parent).can_use_tool is None


def test_hooks_about_tool_calls_are_inherited() -> None:
    def guard(*asked: Any) -> None:
        raise AssertionError

    matcher, at_end = HookMatcher("Bash", guard), HookMatcher(None, guard)
    hooks = [("PreToolUse", matcher), ("Stop", at_end), ("PreToolUse", at_end)]
    inherited = [("PreToolUse", matcher), ("PreToolUse", at_end)]
    assert list(Hooks.of(options_of(hooks=hooks).hooks)) == inherited
    assert list(Hooks.of(options_of(own=ClientOptions(model="opus"), hooks=hooks).hooks)) == inherited
    assert list(Hooks.of(options_of(own=ClientOptions(hooks={}), hooks=hooks).hooks)) == []
    assert options_of().hooks is None


def test_all_hooks_that_guard_a_call_are_inherited() -> None:
    def guard(*asked: Any) -> None:
        raise AssertionError

    matcher = HookMatcher(None, guard)
    guarding = [event for event in HOOK_EVENTS if matcher.blocks(event) and event != "UserPromptSubmit"]
    assert "PreSkillShellCommand" in guarding
    assert [
        event for event, _ in Hooks.of(options_of(hooks=[(event, matcher) for event in guarding]).hooks)
    ] == guarding


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"id": "two words"}, "ChildAgent.id"),
        ({"id": "-x"}, "ChildAgent.id"),
        ({"id": "x" * 65}, "ChildAgent.id"),
        ({"timeout": 0}, "ChildAgent.timeout"),
        ({"max_report_chars": -1}, "ChildAgent.max_report_chars"),
        ({"timeout": "5"}, "ChildAgent.timeout"),
        ({"id": 5}, "ChildAgent.id: must be str, not int"),
        ({"on_parent_cancel": "stop"}, "'cancel' or 'leave', not 'stop'"),
        ({"options": {}}, "ChildAgent.options: must be ClientOptions, not dict"),
        ({"definition": "worker"}, "ChildAgent.definition: must be AgentDefinition, not str"),
    ],
)
def test_a_wrong_agent(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(OptionsError, match=problem):
        ChildAgent(**{"definition": WORKER, **given})


def test_an_id_is_made_of_the_description() -> None:
    assert (
        ChildAgent(WORKER.replace(description="Reviews code, carefully; and more")).id == "reviews_code_carefully_and"
    )


def test_fields_without_effect_are_warned_of() -> None:
    with pytest.warns(OptionsWarning, match="isolation, omit_claude_md have no effect"):
        ChildAgent(WORKER.replace(isolation="worktree", omit_claude_md=True), id="worker")
    observed = WORKER.replace(observer=["watcher"], critical_system_reminder="Mind.")
    with pytest.warns(OptionsWarning, match="'worker': observer have no effect"):
        ChildAgent(observed, id="worker")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ChildAgent(observed, id="worker", options=ClientOptions(agents={"watcher": WORKER}))


def test_the_tool_has_the_description_of_the_child() -> None:
    tool = child_tool(ChildAgent(WORKER, id="worker"))
    assert tool.name == "create_subtask_worker"
    assert "Works" in tool.description
    assert tool.input_schema["required"] == ["title"]
    assert set(tool.input_schema["properties"]) == {"title", "intent", "artifactRefs", "priority"}
    assert all(parameter["description"] for parameter in tool.input_schema["properties"].values())


@pytest.mark.anyio
async def test_a_value_that_is_no_child_agent_is_refused() -> None:
    with pytest.raises(OptionsError, match="agent: must be a ChildAgent, not AgentDefinition"):
        await Client().spawn(WORKER, "Do it.")  # type: ignore[arg-type]
    with pytest.raises(OptionsError, match="agent: must be a ChildAgent, not AgentDefinition"):
        child_tool(WORKER)  # type: ignore[arg-type]


@pytest.mark.anyio
@pytest.mark.parametrize("priority", ["urgent", "now", "", None, 1.5, True])
async def test_a_program_may_not_put_the_priority_in_other_words(priority: Any) -> None:
    with pytest.raises(OptionsError, match="priority: must be 'low', 'normal', 'high' or an integer, not "):
        await Client().spawn(ChildAgent(WORKER, id="worker"), "Do it.", priority=priority)


@pytest.mark.anyio
async def test_a_model_may_put_the_priority_in_other_words() -> None:
    tool = child_tool(ChildAgent(WORKER, id="worker"))
    for priority in ("high", "urgent", 2):
        with pytest.raises(ToolError, match="running session"):
            await tool.call({"title": "T", "priority": priority})


def test_the_prompt_of_a_child() -> None:
    assert Brief(title="Title").prompt() == "Title"
    assert Brief(title="Title", intent="Why", artifacts=("a.txt", "b.txt"), priority="high").prompt() == (
        "Title\n\nWhy\n\nArtifacts:\n- a.txt\n- b.txt\n\nPriority: high"
    )


def test_a_report_is_whole_unless_its_length_is_limited() -> None:
    report = ChildReport(
        task_id="c1", agent_id="worker", status="Success", final_assistant_message="x" * 100, summary="short"
    )
    assert report.to_json()["finalAssistantMessage"] == "x" * 100
    assert len(report.to_json(60)["finalAssistantMessage"]) <= 60
