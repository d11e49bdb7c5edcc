"""Child agents on the real CLI: each a process of its own, and a task of its parent."""

import json
import os
from pathlib import Path
from typing import Any

import anyio
import pytest

from claude_agent_py import AgentDefinition, Allow, Client, OptionsError, PermissionRequest, TaskStatus
from claude_agent_py.children import ChildAgent, child_tool
from claude_agent_py.testing import Gate, Reply, ScriptedModel, text, tool_use

pytestmark = [pytest.mark.anyio, pytest.mark.real_cli]

ADDER = AgentDefinition(description="Adds numbers", prompt="You add numbers.")


def subtask(agent: str, title: str) -> object:
    return tool_use(f"mcp__tools__create_subtask_{agent}", {"title": title, "intent": f"Do it: {title}"})


def reports_in(model: ScriptedModel) -> list[dict[str, Any]]:
    """What the parent's model was given as results of its calls."""
    results = [r for request in model.requests_of("main") for r in request.tool_results]
    return [
        json.loads("".join(b["text"] for b in r["content"]) if isinstance(r["content"], list) else r["content"])
        for r in results
    ]


async def test_two_children_at_once_report_to_the_parent_s_model() -> None:
    adder = ChildAgent(ADDER, id="adder")
    with ScriptedModel(
        [Reply([subtask("adder", "one"), subtask("adder", "two")]), text("both are done")],
        sessions={"Do it: one": [text("one is 1")], "Do it: two": [text("two is 2")]},
    ) as model:
        async with Client(model.options(custom_tools=[child_tool(adder)])) as client:
            with anyio.fail_after(60):
                result = await client.query("add", until="idle")
            tasks = {task.description: task for task in client.tasks}
        reports = reports_in(model)
    assert result.text == "both are done"
    assert {r["subTaskStatus"] for r in reports} == {"Success"}
    assert {r["finalAssistantMessage"] for r in reports} == {"one is 1", "two is 2"}
    assert set(tasks) == {"one", "two"}
    assert all(task.status is TaskStatus.COMPLETED and task.type == "child_agent" for task in tasks.values())
    assert {task.id for task in result.tasks} == {task.id for task in tasks.values()}


async def test_a_child_s_permission_prompt_reaches_the_parent_s_handler(tmp_path: Path) -> None:
    asked: list[PermissionRequest] = []

    def decide(request: PermissionRequest, context: object) -> Allow:
        asked.append(request)
        return Allow()

    writer = ChildAgent(ADDER, id="writer")
    with ScriptedModel(
        [Reply(subtask("writer", "write")), text("done")],
        sessions={
            "Do it: write": [
                Reply(tool_use("Bash", {"command": f"touch {tmp_path}/made", "description": "make it"})),
                text("made it"),
            ]
        },
    ) as model:
        options = model.options(
            custom_tools=[child_tool(writer)],
            can_use_tool=decide,
            permission_mode="default",
        )
        async with Client(options) as client:
            with anyio.fail_after(60):
                await client.query("go", until="idle")
            (task,) = client.tasks
    assert (tmp_path / "made").exists()
    assert [(request.tool_name, request.task) for request in asked] == [
        ("mcp__tools__create_subtask_writer", None),
        ("Bash", task),
    ]
    assert task.status is TaskStatus.COMPLETED


async def test_a_child_that_cannot_start_is_an_error_report() -> None:
    broken = ChildAgent(ADDER, id="broken")
    with ScriptedModel([Reply(subtask("broken", "x")), text("it failed")]) as model:
        options = model.options(custom_tools=[])
        broken = ChildAgent(ADDER, id="broken", options=model.options(cli_path="/bin/false"))
        async with Client(options.replace(custom_tools=[child_tool(broken)])) as client:
            with anyio.fail_after(60):
                result = await client.query("go", until="idle")
            (task,) = client.tasks
        (report,) = reports_in(model)
    assert result.text == "it failed"
    assert report["subTaskStatus"] == "Error"
    assert "exit code 1" in report["failureReason"]
    assert task.status is TaskStatus.FAILED


async def test_interrupting_the_parent_cancels_the_child() -> None:
    gate = Gate()
    slow = ChildAgent(ADDER, id="slow")
    with ScriptedModel(
        [Reply(subtask("slow", "wait")), text("next")], sessions={"Do it: wait": [Reply("late", after=gate)]}
    ) as model:
        async with Client(model.options(custom_tools=[child_tool(slow)])) as client:
            with anyio.fail_after(60):
                run = client.query("go")
                await gate.wait_reached()
                await run.interrupt()
                (task,) = client.tasks
                outcome = await task.wait()
                gate.open()
    assert outcome.status is TaskStatus.STOPPED


async def test_spawn_stop_and_limits() -> None:
    gate = Gate()
    agent = ChildAgent(ADDER, id="one")
    with ScriptedModel([], sessions={"wait": [Reply("late", after=gate)], "quick": [text("quick answer")]}) as model:
        options = model.options()
        async with Client(options.replace(limits=options.limits.replace(child_total=2))) as client:
            with anyio.fail_after(60):
                quick = await client.spawn(agent, "quick")
                waiting = await client.spawn(agent, "wait")
                await gate.wait_reached()
                assert (await quick.wait()).summary == "quick answer"
                assert await quick.read_output() == "quick answer"
                await waiting.stop()
                assert waiting.status is TaskStatus.STOPPED
                with pytest.raises(OptionsError, match="child_total"):
                    await client.spawn(agent, "one too many")
                gate.open()


async def test_closing_the_client_ends_its_children() -> None:
    gate = Gate()
    with ScriptedModel([], sessions={"wait": [Reply("late", after=gate)]}) as model:
        async with Client(model.options()) as client:
            with anyio.fail_after(60):
                task = await client.spawn(ChildAgent(ADDER, id="one"), "wait")
                await gate.wait_reached()
        gate.open()
        left = [p for p in Path("/proc").glob("[0-9]*") if model.sandbox.home.as_posix() in _environment(p)]
    assert task.done
    assert left == []


def _environment(process: Path) -> str:
    try:
        return (process / "environ").read_text(errors="replace") if int(process.name) != os.getpid() else ""
    except OSError:
        return ""


@pytest.mark.parametrize(("depth", "names"), [(2, {"outer", "inner"}), (1, {"outer"})])
async def test_grandchildren_within_and_beyond_the_depth(depth: int, names: set[str]) -> None:
    leaf = ChildAgent(ADDER, id="leaf")
    with ScriptedModel(
        [Reply(subtask("middle", "outer")), text("done")],
        sessions={
            "Do it: outer": [Reply(subtask("leaf", "inner")), text("outer is done")],
            "Do it: inner": [text("inner is done")],
        },
    ) as model:
        middle = ChildAgent(ADDER, id="middle", options=model.options(custom_tools=[child_tool(leaf)]))
        options = model.options(custom_tools=[child_tool(middle)])
        async with Client(options.replace(limits=options.limits.replace(child_depth=depth))) as client:
            with anyio.fail_after(90):
                await client.query("go", until="idle")
            tasks = {task.description: task for task in client.tasks}
        refused = [request for request in model.requests if "child_depth" in str(request.tool_results)]
    assert set(tasks) == names
    assert all(task.status is TaskStatus.COMPLETED for task in tasks.values())
    assert bool(refused) is (depth == 1)
    if depth == 2:
        assert tasks["inner"].parent is tasks["outer"]


async def test_an_agent_that_would_start_itself_is_refused() -> None:
    with ScriptedModel(
        [Reply(subtask("loop", "outer")), text("done")],
        sessions={"Do it: outer": [Reply(subtask("loop", "inner")), text("refused")]},
    ) as model:
        inner = ChildAgent(ADDER, id="loop")
        loop = ChildAgent(ADDER, id="loop", options=model.options(custom_tools=[child_tool(inner)]))
        async with Client(model.options(custom_tools=[child_tool(loop)])) as client:
            with anyio.fail_after(60):
                await client.query("go", until="idle")
            (task,) = client.tasks
        told = [request for request in model.requests if "would start itself" in str(request.tool_results)]
    assert task.status is TaskStatus.COMPLETED
    assert told
