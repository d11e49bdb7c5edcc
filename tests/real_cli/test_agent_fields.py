"""Every field of an `AgentDefinition` on the real CLI: what the model's requests or the CLI's behaviour show of it."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from claude_agent_py import AgentDefinition, Client, Deny, PermissionContext, PermissionRequest
from claude_agent_py.children import ChildAgent
from claude_agent_py.testing import RecordedRequest, Reply, Sandbox, ScriptedModel, Usage, text, tool_use
from claude_agent_py.wire.settings.mcp_servers import MCPStdioServer

pytestmark = [pytest.mark.anyio, pytest.mark.real_cli]

SERVER = MCPStdioServer(command=sys.executable, args=[str(Path(__file__).parent / "stdio_mcp_server.py")])
REMINDER = "Mind the gap."

TESTED: set[str] = {"description", "prompt", "tools"}
"""The fields that tests here are about; these three are in `test_subagents.py`."""


def about(*fields: str) -> Callable[[Any], Any]:
    """Mark a test as one about fields."""
    TESTED.update(fields)
    return lambda test: test


def launch(prompt: str = "LOOK", *, background: bool | None = False, agent: str = "worker") -> Any:
    call = {"description": "look", "prompt": prompt, "subagent_type": agent}
    return tool_use("Agent", call if background is None else call | {"run_in_background": background})


def bash(command: str) -> Any:
    return tool_use("Bash", {"command": command, "description": "Run it"})


class Ran:
    """The requests of a session in which the model started the agent `worker` once."""

    def __init__(self, model: ScriptedModel, tasks: list[Any]) -> None:
        self.all = model.requests
        self.main = model.requests_of("main")
        self.agent = model.requests_of("LOOK")
        self.tasks = tasks

    @property
    def told(self) -> str:
        """The first request of the agent."""
        return json.dumps(self.agent[0].body)


async def ran(
    script: Any = ("report",),
    *,
    main: Any = None,
    prepare: Callable[[Sandbox], object] = lambda sandbox: None,
    options: dict[str, Any] | None = None,
    agents: dict[str, AgentDefinition] | None = None,
    scripts: dict[Any, Any] | None = None,
    **fields: Any,
) -> Ran:
    described: dict[str, Any] = {"description": "Works", "prompt": "You work.", **fields}
    worker = AgentDefinition(**described)
    with ScriptedModel(main or [launch(), *["ok"] * 5], agents={**(scripts or {}), "LOOK": script}) as model:
        prepare(model.sandbox)
        async with Client(model.options(agents={"worker": worker, **(agents or {})}, **(options or {}))) as client:
            with anyio.fail_after(60):
                await client.query("go", until="idle")
                return Ran(model, [agent.task for agent in client.agents])


@about("disallowed_tools")
async def test_tools_and_servers_are_taken_away() -> None:
    servers = {"mcp_servers": {"far": SERVER, "other": SERVER}}
    run = await ran(options=servers, disallowed_tools=["Write", "mcp__other"])
    offered = set(run.agent[0].tool_names)
    assert "Read" in offered
    assert "Write" not in offered
    assert "mcp__far__" in run.told
    assert "mcp__other__" not in run.told


@about("model", "effort")
async def test_a_model_and_an_effort_of_its_own() -> None:
    run = await ran(model="haiku", effort="max", options={"model": "opus", "effort": "low"})
    assert "haiku" in run.agent[0].model
    assert run.agent[0].body["output_config"] == {"effort": "max"}
    assert "opus" in run.main[0].model
    assert run.main[0].body["output_config"] == {"effort": "low"}


@about("max_turns")
async def test_an_agent_stops_at_its_limit_of_model_calls() -> None:
    run = await ran(lambda request: bash("echo again"), max_turns=2)
    assert len(run.agent) == 2
    assert "stopped at its 2-turn limit" in str(run.main[-1].tool_results)


@about("permission_mode")
@pytest.mark.parametrize(
    ("session", "own", "outcome"),
    [
        ("default", "acceptEdits", "written"),
        ("default", "dontAsk", "denied"),
        ("default", None, "asked"),
        ("default", "bypassPermissions", "asked"),
        ("dontAsk", "acceptEdits", "written"),
        ("dontAsk", "bypassPermissions", "denied"),
        ("acceptEdits", "dontAsk", "written"),  # the mode of the session prevails
        ("bypassPermissions", "dontAsk", "written"),
    ],
)
@pytest.mark.filterwarnings("ignore:can_use_tool will not be called")
async def test_a_permission_mode_of_its_own(session: Any, own: Any, outcome: str) -> None:
    asked: list[str] = []

    async def refuse(request: PermissionRequest, context: PermissionContext) -> Deny:
        asked.append(request.tool_name)
        return Deny("Not now.")

    run = await ran(
        [tool_use("Write", {"file_path": "made.txt", "content": "x"}), "report"],
        permission_mode=own,
        options={"permission_mode": session, "can_use_tool": refuse},
    )
    said = str(run.agent[1].tool_results)
    assert asked == (["Write"] if outcome == "asked" else [])
    assert ("File created" in said) is (outcome == "written")
    assert ("don't ask mode" in said) is (outcome == "denied")


@about("mcp_servers")
async def test_servers_of_its_own_come_on_top_and_names_change_nothing() -> None:
    options = {"mcp_servers": {"far": SERVER}}
    own = await ran(mcp_servers=[{"mine": SERVER}], tools=["Read"], options=options)
    assert set(own.agent[0].tool_names) == {"Read", "mcp__mine__add"}
    assert "mcp__mine" not in str(own.main[-1].body)
    named = await ran(mcp_servers=["far"], tools=["Read"], options=options)
    assert named.agent[0].tool_names == ["Read"]
    unknown = await ran(mcp_servers=["nowhere"], options=options)
    assert "mcp__far__" in unknown.told


@about("skills")
@pytest.mark.parametrize("skills", [["birds"], None])
async def test_skills_are_in_the_context_from_the_start(skills: Any) -> None:
    def write(sandbox: Sandbox) -> None:
        folder = sandbox.cwd / ".claude" / "skills" / "birds"
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(
            "---\nname: birds\ndescription: About birds\n---\nThe lapwing nests in March.\n"
        )

    run = await ran(prepare=write, skills=skills)
    assert ("The lapwing nests in March." in run.told) is (skills is not None)


@about("background")
@pytest.mark.parametrize(
    ("own", "asked", "in_background"),
    [(True, False, True), (False, None, True), (None, None, True), (False, False, False), (None, False, False)],
)
async def test_only_true_decides_where_it_runs(own: Any, asked: Any, in_background: bool) -> None:
    run = await ran(background=own, main=[launch(background=asked), "ok", "ok"])
    assert [task.is_backgrounded for task in run.tasks] == [in_background]


@about("memory")
@pytest.mark.parametrize("scope", ["user", "project", "local"])
async def test_its_memory_is_in_its_system_prompt(scope: Any) -> None:
    def write(sandbox: Sandbox) -> None:
        project = sandbox.cwd / ".claude"
        for name, folder in (
            ("user", sandbox.config_dir / "agent-memory"),
            ("project", project / "agent-memory"),
            ("local", project / "agent-memory-local"),
        ):
            (folder / "worker").mkdir(parents=True)
            (folder / "worker" / "MEMORY.md").write_text(f"Remembered for {name}.")

    run = await ran(prepare=write, memory=scope)
    assert [name for name in ("user", "project", "local") if f"Remembered for {name}." in run.told] == [scope]


@about("isolation")
@pytest.mark.parametrize("isolation", ["worktree", "remote", None])
async def test_an_isolated_agent_works_in_a_worktree_as_does_a_remote_one_here(isolation: Any) -> None:
    def make_repository(sandbox: Sandbox) -> None:
        commit = ["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "--allow-empty", "-m", "x"]
        for command in (["init", "-q", "."], commit):
            subprocess.run(["git", *command], cwd=sandbox.cwd, check=True)

    run = await ran([bash("pwd"), "report"], prepare=make_repository, isolation=isolation)
    assert ("/.claude/worktrees/agent-" in str(run.agent[1].tool_results)) is (isolation is not None)


@about("initial_prompt")
async def test_the_first_prompt_is_that_of_the_main_agent() -> None:
    as_main = await ran(main=["ok", "ok"], initial_prompt="Begin here.", options={"agent": "worker"})
    assert [request.last_user_text for request in as_main.main] == ["Begin here.", "go"]
    as_subagent = await ran(initial_prompt="Begin here.")
    assert not as_subagent.agent[0].contains("Begin here.")


@about("auto_compact_window")
@pytest.mark.parametrize("window", [100_000, None])
async def test_its_conversation_is_compacted_earlier(window: int | None) -> None:
    big = Usage(input_tokens=150_000)
    run = await ran(
        [Reply([bash("echo a")], usage=big), Reply([bash("echo b")], usage=big), "report"], auto_compact_window=window
    )
    compactions = [request for request in run.all if request.request_class == "compaction"]
    assert bool(compactions) is (window is not None)


@about("omit_claude_md")
@pytest.mark.parametrize("omits", [True, False, None])
async def test_project_instructions_are_left_out(omits: bool | None) -> None:
    def write(sandbox: Sandbox) -> None:
        (sandbox.cwd / "CLAUDE.md").write_text("Write no commas.")

    run = await ran(prepare=write, omit_claude_md=omits)
    assert ("Write no commas." in run.told) is (omits is not True)


@about("observer", "observer_message", "observe_tool_results", "observe_subagents")
@pytest.mark.parametrize("observes_subagents", [None, False])
async def test_observers_are_told_what_they_ask_for(observes_subagents: bool | None) -> None:
    agents = {
        "worker": AgentDefinition(
            description="Works",
            prompt="You work.",
            observer=["near", "far"],
            observer_message="Look closely.",
            observe_subagents=observes_subagents,
        ),
        "near": AgentDefinition(description="Watches", prompt="Watch from near."),
        "far": AgentDefinition(description="Watches", prompt="Watch from far.", observe_tool_results=False),
    }

    def watches(request: RecordedRequest) -> bool:
        return "Watch from" in request.system

    def digests(watcher: str) -> str:
        return "".join(str(request.messages) for request in model.requests if f"Watch from {watcher}" in request.system)

    scripts = {
        watches: lambda request: text("Nothing."),
        "INNER": "inner report",
        "LOOK": [bash("printf 'lap%s' wing"), launch("INNER", agent="general-purpose"), "report"],
    }
    with ScriptedModel([launch(), *["ok"] * 5], agents=scripts) as model:
        async with Client(model.options(agents=agents)) as client:
            with anyio.fail_after(60):
                await client.query("go")
                while not all("turn-ended" in digests(watcher) for watcher in ("near", "far")):
                    await model.wait_for_requests(len(model.requests) + 1)
    near, far = digests("near"), digests("far")
    for digest in (near, far):
        assert "Look closely." in digest
        assert "printf" in digest
    assert "lapwing" in near
    assert "lapwing" not in far
    assert ("observer of the worker" in near) is (observes_subagents is None)


async def test_observers_of_the_main_agent() -> None:
    agents = {
        "worker": AgentDefinition(description="Works", prompt="You work.", observer=["watcher"]),
        "watcher": AgentDefinition(description="Watches", prompt="Watch from near."),
    }
    scripts = {lambda request: "Watch from near." in request.system: lambda request: text("Nothing.")}
    with ScriptedModel([bash("printf 'lap%s' wing"), "ok"], agents=scripts) as model:
        async with Client(model.options(agents=agents, agent="worker")) as client:
            with anyio.fail_after(60):
                await client.query("go")
                while not any("Watch from near." in request.system for request in model.requests):
                    await model.wait_for_requests(len(model.requests) + 1)
    assert any(request.contains("lapwing") for request in model.requests if request.agent != "main")


@about("hooks")
async def test_command_hooks_run_for_its_own_calls() -> None:
    def command(event: str) -> list[Any]:
        return [{"hooks": [{"type": "command", "command": f"echo {event} >> ran.txt"}]}]

    folder: list[Path] = []
    events = ("SubagentStart", "PreToolUse", "Stop")
    with ScriptedModel([launch(), bash("echo main"), "ok"], agents={"LOOK": [bash("echo hi"), "report"]}) as model:
        folder.append(model.sandbox.cwd)
        worker = AgentDefinition(description="w", prompt="p", hooks={event: command(event) for event in events})
        async with Client(model.options(agents={"worker": worker})) as client:
            with anyio.fail_after(60):
                await client.query("go", until="idle")
        assert (folder[0] / "ran.txt").read_text().split() == ["PreToolUse", "Stop"]


@about("color")
async def test_a_colour_is_not_told() -> None:
    run = await ran(color="red")
    assert AgentDefinition(description="w", prompt="p", color="red").to_wire() == {"description": "w", "prompt": "p"}
    assert '"red"' not in run.told


# Reminders -------------------------------------------------------------------------------------------------------


def counts(requests: list[RecordedRequest]) -> list[int]:
    return [str(request.messages).count(REMINDER) for request in requests]


@about("critical_system_reminder")
@pytest.mark.each_backend
@pytest.mark.parametrize("background", [True, False])
async def test_a_reminder_is_in_every_request_of_its_agent(background: bool) -> None:
    script = [[bash("echo a"), bash("echo b")], tool_use("NoSuchTool", {}), "report"]
    other = {"other": AgentDefinition(description="Other", prompt="p")}
    run = await ran(
        script,
        main=[launch(background=background), launch("ELSE", agent="other"), *["ok"] * 4],
        agents=other,
        scripts={"ELSE": [bash("echo c"), "report"]},
        critical_system_reminder=REMINDER,
    )
    assert counts(run.agent) == [1, 2, 3]
    assert sum(counts(run.main)) == 0
    others = [request for request in run.all if request.agent == "ELSE"]
    assert counts(others) == [0, 0]


async def test_a_reminder_survives_a_compaction_and_a_resumption() -> None:
    big = Usage(input_tokens=150_000)

    def main(request: RecordedRequest) -> Any:
        asked = len([message for message in request.messages if message["role"] == "assistant"])
        if asked == 0:
            return launch()
        found = str(request.messages).partition("agentId: ")[2].split(" ")[0].split("\\")[0]
        return (
            tool_use("SendMessage", {"to": found, "message": "More", "summary": "more"}) if asked == 1 else text("ok")
        )

    run = await ran(
        [Reply([bash("echo a")], usage=big), Reply([bash("echo b")], usage=big), "report", "more"],
        main=main,
        auto_compact_window=100_000,
        critical_system_reminder=REMINDER,
    )
    assert any(request.request_class == "compaction" for request in run.all)
    assert len(run.agent) >= 4
    assert 0 not in counts(run.agent)


async def test_a_reminder_of_the_main_agent_and_of_a_child_agent() -> None:
    worker = AgentDefinition(description="w", prompt="p", critical_system_reminder=REMINDER)
    script = [bash("echo a"), "ok", "again"]
    with ScriptedModel(script, sessions={"CHILD": [bash("echo a"), "done"]}) as model:
        async with Client(model.options(agents={"worker": worker}, agent="worker")) as client:
            with anyio.fail_after(60):
                await client.query("go")
                await client.query("again")
                await (await ChildAgent(worker, id="child").spawn(client, "CHILD"))
        main, child = counts(model.requests_of("main")), counts(model.requests_of("CHILD"))
    assert main == [1, 2, 3]
    assert child == [1, 2]


async def test_a_long_reminder_is_whole_beside_a_delegation_guide() -> None:
    reminder = f"{'Mind the gap. ' * 700}And the end."  # the CLI cuts what one hook adds at 10,000 characters
    worker = AgentDefinition(description="w", prompt="p", critical_system_reminder=reminder)
    with ScriptedModel(["ok"]) as model:
        async with Client(model.options(agents={"w": worker}, agent="w", delegation_guide=True)) as client:
            with anyio.fail_after(60):
                await client.query("go")
        (request,) = model.requests_of("main")
    assert reminder in str(request.messages)
    assert "| general-purpose |" in str(request.messages)


def test_every_field_has_a_test() -> None:
    assert set(AgentDefinition.model_fields) == TESTED
