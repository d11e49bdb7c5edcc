"""Every field of an `AgentDefinition` on the real CLI: what the model's requests or the CLI's behaviour show of it."""

import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from one_session import OneSession

from claude_agent_py import AgentDefinition, Client, Deny, MCPStdioServer, PermissionContext, PermissionRequest
from claude_agent_py.children import ChildAgent
from claude_agent_py.testing import RecordedRequest, Reply, Sandbox, ScriptedModel, Usage, text, tool_use

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


async def each_ran(
    workers: dict[str, tuple[dict[str, Any], Any]], *, prepare: Callable[[Sandbox], object], options: dict[str, Any]
) -> tuple[dict[str, list[RecordedRequest]], list[RecordedRequest]]:
    """Run several agents in one session, each with its own fields and script; return their requests, and all."""
    agents = {
        name: AgentDefinition(**{"description": "Works", "prompt": "You work.", **fields})
        for name, (fields, _) in workers.items()
    }
    prompts = {name: f"LOOK<{name}>" for name in workers}
    scripts = {prompts[name]: script for name, (_, script) in workers.items()}
    calls = [launch(prompt, agent=name) for name, prompt in prompts.items()]
    main = [*(calls[first : first + 5] for first in range(0, len(calls), 5)), "ok"]
    with ScriptedModel(main, agents=scripts) as model:
        prepare(model.sandbox)
        async with Client(model.options(agents=agents, **options)) as client:
            with anyio.fail_after(240):
                await client.query("go", until="idle")
        ran = {name: model.requests_of(prompt) for name, prompt in prompts.items()}
        reports = [request.tool_results for request in model.requests_of("main")]
        assert [name for name in ran if not ran[name]] == [], reports
        return ran, model.requests


def told(requests: list[RecordedRequest]) -> str:
    """Return the first request of an agent."""
    return json.dumps(requests[0].body)


MEMORIES = ("user", "project", "local")


def write_all(sandbox: Sandbox) -> None:
    """Write a repository with a skill, instructions, and memories of each agent that has some."""
    project = sandbox.cwd / ".claude"
    skill = project / "skills" / "birds"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: birds\ndescription: About birds\n---\nThe lapwing nests in March.\n")
    (sandbox.cwd / "CLAUDE.md").write_text("Write no commas.")
    memories = (sandbox.config_dir / "agent-memory", project / "agent-memory", project / "agent-memory-local")
    for name, folder in zip(MEMORIES, memories, strict=True):
        for agent in MEMORIES:
            (folder / f"{agent}-memory").mkdir(parents=True)
            (folder / f"{agent}-memory" / "MEMORY.md").write_text(f"Remembered for {name}.")
    commit = ["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "--allow-empty", "-m", "x"]
    for command in (["init", "-q", "."], commit):
        subprocess.run(["git", *command], cwd=sandbox.cwd, check=True)


@about("disallowed_tools", "model", "effort", "max_turns", "skills", "memory", "isolation")
@about("auto_compact_window", "omit_claude_md", "color", "mcp_servers", "hooks")
async def test_each_field_affects_only_its_agent(tmp_path: Path) -> None:
    hooks = {
        event: [{"hooks": [{"type": "command", "command": f"echo {event} >> {shlex.quote(str(tmp_path))}/ran.txt"}]}]
        for event in ("SubagentStart", "PreToolUse", "Stop")
    }
    big = Usage(input_tokens=150_000)
    long = [Reply([bash("echo a")], usage=big), Reply([bash("echo b")], usage=big), "report"]
    asks_where = [bash("pwd"), "report"]
    run, everything = await each_ran(
        {
            "plain": ({}, asks_where),
            "barred": ({"disallowed_tools": ["Write", "mcp__other"]}, "report"),
            "small": ({"model": "haiku", "effort": "max"}, "report"),
            "limited": ({"max_turns": 2}, lambda request: bash("echo again")),
            "skilled": ({"skills": ["birds"]}, "report"),
            **{f"{scope}-memory": ({"memory": scope}, "report") for scope in MEMORIES},
            "isolated": ({"isolation": "worktree"}, asks_where),
            "remote": ({"isolation": "remote"}, asks_where),
            "early": ({"auto_compact_window": 100_000}, long),
            "late": ({}, long),
            "uninstructed": ({"omit_claude_md": True}, "report"),
            "instructed": ({"omit_claude_md": False}, "report"),
            "red": ({"color": "red"}, "report"),
            "begun": ({"initial_prompt": "Begin here."}, "report"),
            "own": ({"mcp_servers": [{"mine": SERVER}], "tools": ["Read"]}, "report"),
            "named": ({"mcp_servers": ["far"], "tools": ["Read"]}, "report"),
            "unknown": ({"mcp_servers": ["nowhere"]}, "report"),
            "hooked": ({"hooks": hooks}, asks_where),
        },
        prepare=write_all,
        options={"mcp_servers": {"far": SERVER, "other": SERVER}, "model": "opus", "effort": "low"},
    )
    main = [request for request in everything if request.agent == "main"]

    def those(text: str, *among: str) -> set[str]:
        return {name for name in among or run if text in told(run[name])}

    readers = {"own", "named"}
    assert {name for name in run if "Write" not in run[name][0].tool_names} == {"barred", *readers}
    assert {name for name in run if "Read" not in run[name][0].tool_names} == set()
    assert those("mcp__far__") == set(run) - readers
    assert those("mcp__other__") == set(run) - readers - {"barred"}
    assert those("mcp__mine__") == {"own"}  # servers of its own come on top, and names change nothing
    assert not any(request.contains("mcp__mine") for request in main)
    assert set(run["own"][0].tool_names) == {"Read", "mcp__mine__add"}
    assert run["named"][0].tool_names == ["Read"]

    assert "opus" in main[0].model
    assert main[0].body["output_config"] == {"effort": "low"}
    assert {name for name in run if "haiku" in run[name][0].model} == {"small"}
    assert run["small"][0].body["output_config"] == {"effort": "max"}

    assert len(run["limited"]) == 2
    limits = [block for request in main for block in request.tool_results if "2-turn limit" in str(block)]
    assert "stopped at its 2-turn limit" in str(limits)

    assert those("The lapwing nests in March.") == {"skilled"}
    for scope in MEMORIES:
        assert those(f"Remembered for {scope}.") == {f"{scope}-memory"}
    here = {
        name
        for name in ("plain", "isolated", "remote")
        if "/.claude/worktrees/agent-" in str(run[name][1].tool_results)
    }
    assert here == {"isolated", "remote"}
    assert those("Write no commas.") == set(run) - {"uninstructed"}

    compactions = [request for request in everything if request.request_class == "compaction"]
    assert {name for name in run if any(request.contains(f"LOOK<{name}>") for request in compactions)} == {"early"}

    assert AgentDefinition(description="w", prompt="p", color="red").to_wire() == {"description": "w", "prompt": "p"}
    assert those("Begin here.") == set()  # it is that of the main agent

    assert '"red"' not in told(run["red"]).replace('"LOOK<red>"', "")

    assert (tmp_path / "ran.txt").read_text().split() == ["PreToolUse", "Stop"]  # once, though others run commands


@pytest.mark.long
@about("observer", "observer_message", "observe_tool_results", "observe_subagents")
async def test_observers_are_told_what_they_ask_for() -> None:
    watched: dict[str, Any] = {"description": "Works", "prompt": "You work.", "observer_message": "Look closely."}
    agents = {
        "worker": AgentDefinition(**watched, observer=["near", "far"]),
        "loner": AgentDefinition(**watched, observer=["above"], observe_subagents=False),
        "near": AgentDefinition(description="Watches", prompt="Watch from near."),
        "far": AgentDefinition(description="Watches", prompt="Watch from far.", observe_tool_results=False),
        "above": AgentDefinition(description="Watches", prompt="Watch from above."),
    }

    def watches(request: RecordedRequest) -> bool:
        return "Watch from" in request.system

    def digests(watcher: str) -> str:
        return "".join(str(request.messages) for request in model.requests if f"Watch from {watcher}" in request.system)

    script = [bash("printf 'lap%s' wing"), launch("INNER", agent="general-purpose"), "report"]
    scripts = {watches: lambda request: text("Nothing."), "INNER": "inner report", "LOOK": script, "ALONE": script}
    with ScriptedModel([[launch(), launch("ALONE", agent="loner")], *["ok"] * 5], agents=scripts) as model:
        async with Client(model.options(agents=agents)) as client:
            with anyio.fail_after(240):
                await client.query("go")
                while not all("turn-ended" in digests(watcher) for watcher in ("near", "far", "above")):
                    await model.wait_for_requests(len(model.requests) + 1)
    near, far, above = digests("near"), digests("far"), digests("above")
    for digest in (near, far, above):
        assert "Look closely." in digest
        assert "printf" in digest
    assert "lapwing" in near
    assert "lapwing" not in far
    assert "observer of the worker" in near
    assert "observer of the loner" not in above


# In one session -------------------------------------------------------------------------------------------------


def works(**fields: Any) -> AgentDefinition:
    return AgentDefinition(description="Works", prompt="You work.", **fields)


RUNS_IN_BACKGROUND: dict[tuple[bool | None, bool | None], bool] = {
    (True, False): True,
    (False, None): True,
    (None, None): True,
    (False, False): False,
    (None, False): False,
}
"""By what the definition and the call say."""


@about("background")
async def only_true_decides_where_it_runs(one: OneSession) -> None:
    calls = [
        launch(f"RUN<{own} {asked}>", background=asked, agent=f"background-{own}") for own, asked in RUNS_IN_BACKGROUND
    ]
    result = await one.ask(*calls)
    ran_in = {agent.task.prompt: agent.task.is_backgrounded for agent in result.agents}
    assert ran_in == {f"RUN<{own} {asked}>": where for (own, asked), where in RUNS_IN_BACKGROUND.items()}


def counts(requests: list[RecordedRequest], reminder: str = REMINDER) -> list[int]:
    return [str(request.messages).count(reminder) for request in requests]


@about("critical_system_reminder")
async def a_reminder_is_in_every_request_of_its_agent(one: OneSession) -> None:
    """Also after a compaction, and where it is resumed."""

    def resume(request: RecordedRequest) -> Any:
        [to] = [agent.id for agent in one.client.agents if agent.prompt == "LONG"]
        return tool_use("SendMessage", {"to": to, "message": "More", "summary": "more"})

    calls = [launch("FRONT"), launch("BACK", background=True), launch("ELSE", agent="other")]
    await one.ask([*calls, launch("LONG", agent="compacted")], resume)
    assert counts(one.requests_of("FRONT")) == counts(one.requests_of("BACK")) == [1, 2, 3]
    assert sum(counts(one.requests_of("main"))) == 0
    assert counts(one.requests_of("ELSE")) == [0, 0]
    assert any(request.request_class == "compaction" for request in one.model.requests)
    assert len(one.requests_of("LONG")) >= 4
    assert 0 not in counts(one.requests_of("LONG"))


MODES: dict[Any, dict[Any, str]] = {
    "bypassPermissions": {"dontAsk": "written"},  # the mode of the session prevails
    "acceptEdits": {"dontAsk": "written"},
    "default": {"acceptEdits": "written", "dontAsk": "denied", None: "asked", "bypassPermissions": "asked"},
    "dontAsk": {"acceptEdits": "written", "bypassPermissions": "denied"},
}
"""What becomes of a file that an agent writes, by the mode of the session and its own."""


@about("permission_mode")
async def a_permission_mode_of_its_own(one: OneSession, asked: list[str]) -> None:
    """The session is in one mode after the other."""
    for mode, outcomes in MODES.items():
        await one.client.set_permission_mode(mode)
        await one.ask([launch(f"LOOK<{mode}-{own}>", agent=f"mode-{own}") for own in outcomes], "ok")
        for own, outcome in outcomes.items():
            case = f"{mode}-{own}"
            told_it = one.result_of(f"LOOK<{case}>")
            assert any(path.endswith(f"{case}.txt") for path in asked) is (outcome == "asked"), case
            assert ("File created" in told_it) is (outcome == "written"), case
            assert ("don't ask mode" in told_it) is (outcome == "denied"), case


@pytest.mark.filterwarnings("ignore:can_use_tool will not be called")
async def test_placement_reminder_and_permissions_of_an_agent() -> None:
    asked: list[str] = []

    async def refuse(request: PermissionRequest, context: PermissionContext) -> Deny:
        asked.append(request.raw_input["file_path"])
        return Deny("Not now.")

    def writes(path: str) -> Any:
        return [tool_use("Write", {"file_path": path, "content": "x"}), "report"]

    script = [[bash("echo a"), bash("echo b")], tool_use("NoSuchTool", {}), "report"]
    big = Usage(input_tokens=150_000)
    names = [f"{mode}-{own}" for mode, outcomes in MODES.items() for own in outcomes]
    one = OneSession(
        agents={
            "RUN": lambda request: "report",
            "FRONT": script,
            "BACK": script,
            "ELSE": [bash("echo c"), "report"],
            "LONG": [Reply([bash("echo a")], usage=big), Reply([bash("echo b")], usage=big), "report", "more"],
            **{f"LOOK<{name}>": writes(f"{name}.txt") for name in names},
        }
    )
    agents = {
        **{f"background-{own}": works(background=own) for own in (True, False, None)},
        "worker": works(critical_system_reminder=REMINDER),
        "compacted": works(critical_system_reminder=REMINDER, auto_compact_window=100_000),
        "other": AgentDefinition(description="Other", prompt="p"),
        **{f"mode-{own}": works(permission_mode=own) for own in MODES["default"]},
    }
    async with one.open(agents=agents, can_use_tool=refuse, permission_mode="bypassPermissions"):
        with anyio.fail_after(180):
            await only_true_decides_where_it_runs(one)
            await a_reminder_is_in_every_request_of_its_agent(one)
            await a_permission_mode_of_its_own(one, asked)


# The main agent --------------------------------------------------------------------------------------------------


@pytest.mark.long
@about("initial_prompt")
async def test_the_main_agent_has_a_first_prompt_an_observer_and_a_reminder_next_to_a_delegation_guide() -> None:
    """And a child agent has a reminder."""
    long = f"{'Mind the gap. ' * 700}And the end."  # the CLI cuts what one hook adds at 10,000 characters
    worker = AgentDefinition(
        description="Works",
        prompt="You work.",
        initial_prompt="Begin here.",
        observer=["watcher"],
        critical_system_reminder=long,
    )
    agents = {"worker": worker, "watcher": AgentDefinition(description="Watches", prompt="Watch from near.")}
    child = ChildAgent(AgentDefinition(description="w", prompt="p", critical_system_reminder=REMINDER), id="child")
    with ScriptedModel(
        ["begun", bash("printf 'lap%s' wing"), "ok", "again"],
        agents={lambda request: "Watch from near." in request.system: lambda request: text("Nothing.")},
        sessions={"CHILD": [bash("echo a"), "done"]},
    ) as model:
        async with Client(model.options(agents=agents, agent="worker", delegation_guide=True)) as client:
            with anyio.fail_after(240):
                await client.query("go")
                await client.query("again")
                await (await child.spawn(client, "CHILD"))
                while not any(request.contains("lapwing") for request in model.requests if request.agent != "main"):
                    await model.wait_for_requests(len(model.requests) + 1)
        main = model.requests_of("main")
    assert [request.last_user_text for request in main] == ["Begin here.", "go", "", "again"]
    assert "You work." in main[0].system
    assert counts(main, long) == [1, 2, 3, 4]
    assert "| general-purpose |" in str(main[0].messages)
    assert counts(model.requests_of("CHILD")) == [1, 2]


def test_every_field_has_a_test() -> None:
    assert set(AgentDefinition.model_fields) == TESTED
