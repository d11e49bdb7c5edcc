"""What a child's process is started with: its definition, its own options, and what it takes from its parent."""

import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import anyio
import pytest

from claude_agent_py import (
    AgentDefinition,
    Client,
    ClientOptions,
    Deny,
    HookMatcher,
    MCPStdioServer,
    OptionsError,
    ToolError,
    ToolServer,
)
from claude_agent_py.agents import AgentModel
from claude_agent_py.children import ChildAgent, ChildReport, child_tool
from claude_agent_py.hooks import HOOK_EVENTS
from claude_agent_py.options import OptionsWarning, SystemPromptPreset
from claude_agent_py.permissions import PendingInteractions
from claude_agent_py.testing import FakeCLI, frames, steps
from claude_agent_py.transport import LaunchPlan, Transport

WORKER = AgentDefinition(description="Works", prompt="You work.")
WIRE = {"description": "Works", "prompt": "You work."}


class Started(NamedTuple):
    """What a child's process was started with, and sent."""

    plan: LaunchPlan
    received: list[Any]

    @property
    def flags(self) -> dict[str, str]:
        """The flags with values."""
        return dict(flag.split("=", 1) for flag in self.plan.argv if "=" in flag)

    @property
    def initialize(self) -> dict[str, Any]:
        """The first request."""
        request: dict[str, Any] = self.received[0]["request"]
        return request

    @property
    def prompt(self) -> dict[str, Any]:
        """The prompt, as a message."""
        [prompt] = [frame for frame in self.received if frame["type"] == "user"]
        found: dict[str, Any] = prompt
        return found


async def started(
    definition: AgentDefinition = WORKER,
    own: ClientOptions | None = None,
    *,
    said: Any = (),
    asks: Any = (),
    task: dict[str, Any] | None = None,
    **parent: Any,
) -> Started:
    """Start a child under a client with these options, whose CLI says something before.

    Args:
        definition: The agent.
        own: Its own options.
        said: What the parent's CLI says.
        asks: What the child's CLI does before its turn.
        task: More arguments of `spawn`.
        parent: The options of the parent.
    """
    fake = FakeCLI(asks, steps.turn("done"))
    plans = list[LaunchPlan]()

    def spawn(plan: LaunchPlan) -> Transport:
        plans.append(replace(plan))
        return fake.transport()

    agent = ChildAgent(definition, id="worker", options=own and own.replace(spawn=spawn))
    script = [steps.wait_for_prompt(), said, frames.result()]
    with anyio.fail_after(60):
        async with Client(ClientOptions(spawn=spawn, **parent), transport=FakeCLI(*script).transport()) as client:
            await client.query("begin")
            await (await client.spawn(agent, "Do it.", **(task or {})))
    return Started(plans[0], fake.received)


@pytest.fixture(autouse=True)
def no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.anyio
async def test_the_session_is_the_agent_and_cannot_start_itself() -> None:
    child = await started()
    assert child.flags["--agent"] == "worker"
    assert child.initialize["agents"] == {"worker": WIRE}
    assert child.flags["--disallowedTools"] == "Agent(worker)"
    assert child.prompt["client_composed"] is True
    assert "systemPrompt" not in child.initialize


@pytest.mark.anyio
async def test_inherited_options_of_a_child() -> None:
    heard = list[str]()
    child = await started(
        said=frames.init(permissionMode="acceptEdits"),
        asks=steps.stderr("a line"),
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
        extra_args={"restricted": None, "disable-slash-commands": None, "name": "mine"},
        on_stderr=heard.append,
    )
    assert (str(child.plan.cwd), child.plan.env["A"], child.flags["--model"]) == ("/tmp", "b", "opus")
    assert (child.flags["--permission-mode"], child.flags["--tools"]) == ("acceptEdits", "Read,Bash")
    assert child.flags["--disallowedTools"] == "WebFetch,Agent(worker)"
    assert child.initialize["managedSettings"] == {"permissions": {"deny": ["Bash"]}}
    assert child.initialize.keys().isdisjoint({"systemPrompt", "sdkMcpServerConfigs"})
    assert child.flags.keys().isdisjoint({"--resume", "--max-turns", "--name"})
    assert {"--restricted", "--disable-slash-commands"} <= set(child.plan.argv)
    assert child.initialize["agents"].keys() == {"worker"}
    assert heard == []


@pytest.mark.anyio
@pytest.mark.parametrize(("mode", "taken"), [(None, "default"), ("plan", "plan"), ("of a newer CLI", "default")])
async def test_the_permission_mode_is_the_one_that_the_parent_is_in(mode: str | None, taken: str) -> None:
    said = [frames.init(permissionMode=mode)] if mode else []
    child = await started(said=said, permission_mode="default")
    assert child.flags["--permission-mode"] == taken
    child = await started(own=ClientOptions(permission_mode="acceptEdits"), said=said, permission_mode="default")
    assert child.flags["--permission-mode"] == "acceptEdits"


@pytest.mark.anyio
async def test_own_options_take_the_place_of_the_parent_s() -> None:
    own = ClientOptions(
        model="sonnet",
        agents={"helper": WORKER},
        system_prompt=SystemPromptPreset(append="Be brief."),
        verbatim_prompts=False,
        telemetry=False,
    )
    child = await started(own=own, model="opus", permission_mode="plan", telemetry=True)
    assert child.flags["--model"] == "sonnet"
    assert "--permission-mode" not in child.flags
    assert list(child.initialize["agents"]) == ["helper", "worker"]
    assert child.initialize["appendSystemPrompt"] == "Be brief."
    assert "client_composed" not in child.prompt
    assert "forwardSubagentText" not in child.initialize  # that is for telemetry
    child = await started(own=ClientOptions(model="sonnet"), telemetry=True)
    assert child.initialize["forwardSubagentText"] is True


@pytest.mark.anyio
async def test_the_definition_outweighs_inherited_options() -> None:
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
    child = await started(definition, own)
    assert (child.flags["--model"], child.flags["--effort"], child.flags["--max-turns"]) == ("haiku", "low", "4")
    assert (child.flags["--permission-mode"], child.initialize["skills"]) == ("plan", ["review"])
    assert child.flags["--fallback-model"] == "sonnet"
    assert "systemPrompt" not in child.initialize
    child = await started(WORKER.replace(model=AgentModel.INHERIT), own)
    assert child.flags["--model"] == "opus"


def servers_of(child: Started) -> set[str]:
    return {*child.initialize.get("mcpServers", ()), *child.initialize.get("sdkMcpServers", ())}


@pytest.mark.anyio
async def test_servers_of_the_definition_by_name_and_in_full() -> None:
    server, calc = ToolServer("mine", tools=[]), MCPStdioServer(command="calc")
    definition = WORKER.replace(mcp_servers=["mine", "of the project", {"calc": calc}])
    known = {"mine": server, "not asked for": {"command": "x"}}
    own = ClientOptions(mcp_servers={"own": {"command": "own"}})
    assert servers_of(await started(definition, own, mcp_servers=known)) == {"own", "mine", "calc"}
    assert servers_of(await started(definition, mcp_servers=known)) == {"mine", "calc"}
    with pytest.raises(OptionsError, match="mcp_servers"):
        await started(definition, ClientOptions(mcp_servers="servers.json"), mcp_servers=known)


@pytest.mark.anyio
async def test_the_handler_that_answers_for_a_child() -> None:
    asked = list[str]()

    def decide(request: Any, context: Any) -> Deny:
        asked.append(request.tool_name)
        return Deny("no")

    asks = [frames.can_use_tool("p1"), steps.wait_for_reply("p1")]
    child = await started(own=ClientOptions(permission_mode="dontAsk"), asks=asks, can_use_tool=decide)
    assert (child.flags["--permission-prompt-tool"], asked) == ("stdio", ["Bash"])
    inbox = PendingInteractions()
    own = ClientOptions(interactions=inbox)

    async def answer() -> None:
        async for interaction in inbox.arrivals():
            await interaction.answer(Deny("no"))
            break

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(answer)
            await started(own=own, asks=asks, can_use_tool=decide)
    assert asked == ["Bash"]
    own = ClientOptions(permission_prompt_tool_name="mcp__a__b")
    child = await started(own=own, can_use_tool=decide)
    assert child.flags["--permission-prompt-tool"] == "mcp__a__b"


@pytest.mark.anyio
async def test_hooks_about_tool_calls_are_inherited() -> None:
    def guard(*asked: Any) -> None:
        raise AssertionError

    hooks = {"PreToolUse": [HookMatcher("Bash", guard), HookMatcher(None, guard)], "Stop": [HookMatcher(None, guard)]}
    for own in (None, ClientOptions(model="opus")):
        child = await started(own=own, hooks=hooks)
        [(event, registered)] = child.initialize["hooks"].items()
        assert (event, [each.get("matcher") for each in registered]) == ("PreToolUse", ["Bash", None])
    for child in (await started(own=ClientOptions(hooks={}), hooks=hooks), await started()):
        assert not child.initialize.get("hooks")


@pytest.mark.anyio
async def test_all_hooks_that_guard_a_call_are_inherited() -> None:
    def guard(*asked: Any) -> None:
        raise AssertionError

    matcher = HookMatcher(None, guard)
    guarding = [event for event in HOOK_EVENTS if matcher.blocks(event) and event != "UserPromptSubmit"]
    assert "PreSkillShellCommand" in guarding
    child = await started(hooks={event: [matcher] for event in guarding})
    assert list(child.initialize["hooks"]) == guarding


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
        ChildAgent(WORKER.replace(tools=["Read", "Agent(watcher)"]), id="worker")
    with pytest.warns(OptionsWarning, match=r"'worker': Bash\(ls \*\) in tools gives it the whole Bash"):
        ChildAgent(WORKER.replace(tools=["Read", "Bash(ls *)"]), id="worker")


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


@pytest.mark.anyio
async def test_the_prompt_of_a_child() -> None:
    assert (await started()).prompt["message"]["content"] == "Do it."
    task = {"title": "Title", "artifacts": ("a.txt", "b.txt"), "priority": "high"}
    assert (await started(task=task)).prompt["message"]["content"] == (
        "Do it.\n\nArtifacts:\n- a.txt\n- b.txt\n\nPriority: high"
    )


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("arguments", "prompt"),
    [
        ({}, "Title"),
        (
            {"intent": "Why", "artifactRefs": ["a.txt"], "priority": "high"},
            "Title\n\nWhy\n\nArtifacts:\n- a.txt\n\nPriority: high",
        ),
    ],
)
async def test_the_prompt_of_a_child_that_a_model_starts(arguments: dict[str, Any], prompt: str) -> None:
    fake = FakeCLI(steps.turn("done"))
    agent = ChildAgent(WORKER, id="worker", options=ClientOptions(spawn=lambda plan: fake.transport()))
    asked = {"name": "create_subtask_worker", "arguments": {"title": "Title", **arguments}}
    caller = FakeCLI(frames.mcp_message("r1", "tools", "tools/call", **asked))
    with anyio.fail_after(60):
        async with Client(ClientOptions(custom_tools=[child_tool(agent)]), transport=caller.transport()):
            [sent] = await fake.wait_received({"type": "user"})
    assert sent["message"]["content"] == prompt


def test_a_report_is_whole_unless_its_length_is_limited() -> None:
    report = ChildReport(
        task_id="c1", agent_id="worker", status="Success", final_assistant_message="x" * 100, summary="short"
    )
    assert report.to_json()["finalAssistantMessage"] == "x" * 100
    assert len(report.to_json(60)["finalAssistantMessage"]) <= 60
