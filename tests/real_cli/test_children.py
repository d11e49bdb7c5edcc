"""Child agents on the real CLI: each a process of its own, and a task of its parent."""

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import pytest
from forks import Program
from installed_cli import find_cli
from leftovers import kill, processes_with, until_gone
from one_session import OneSession

from claude_agent_py import (
    AgentDefinition,
    Allow,
    AssistantMessage,
    Client,
    InitMessage,
    PermissionContext,
    PermissionRequest,
    TaskStatus,
    UserMessage,
)
from claude_agent_py.children import ChildAgent, child_tool
from claude_agent_py.client import current_client
from claude_agent_py.permissions import PendingInteractions
from claude_agent_py.tasks import TaskEvent, TaskFinished, TaskHistory, TaskStarted, TaskStatusChanged
from claude_agent_py.testing import Failure, Gate, RecordedRequest, Reply, ScriptedModel, ToolCall, text, tool_use
from claude_agent_py.tools import tool

pytestmark = [pytest.mark.anyio, pytest.mark.real_cli]

ADDER = AgentDefinition(description="Adds numbers", prompt="You add numbers.")
TOOL_TIMEOUT = 0.2
"""The limit for tools of servers, in seconds: a child takes longer than that to start."""


def subtask(agent: str, title: str) -> ToolCall:
    return tool_use(f"mcp__tools__create_subtask_{agent}", {"title": title, "intent": f"Do it: {title}"})


def shell(command: str, **given: Any) -> ToolCall:
    return tool_use("Bash", {"command": command, "description": command, **given})


def processes_of(model: ScriptedModel, argument: str = "") -> list[int]:
    """The processes that were started in the home of a model, whoever started them; with this argument, if given."""
    return processes_with(f"HOME={model.sandbox.home}", argument)


async def until_only(model: ScriptedModel, *pids: int | None) -> None:
    """Wait until no other processes of a model are left."""
    await until_gone(*(pid for pid in processes_of(model) if pid not in pids))
    with anyio.fail_after(240):
        while set(processes_of(model)) - set(pids):
            await anyio.sleep(0.02)


on_linux = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def reports_in(requests: list[RecordedRequest]) -> list[dict[str, Any]]:
    """What the parent's model was given as results of its calls."""
    results = [r for request in requests for r in request.tool_results]
    return [
        json.loads("".join(b["text"] for b in r["content"]) if isinstance(r["content"], list) else r["content"])
        for r in results
    ]


class Family(OneSession):
    """A session whose tools start children; each check has a prompt of its own for them."""

    def __init__(self) -> None:
        self.gates = {name: Gate() for name in ("interrupted", "left", "stopped", "killed", "closed")}
        inner = {"description": "inner", "prompt": "INNER", "subagent_type": "general-purpose"}
        super().__init__(
            sessions={
                "Do it: one": "one is 1",
                "Do it: two": "two is 2",
                "Do it: outer": [
                    [text("I delegate."), tool_use("Agent", {**inner, "run_in_background": False})],
                    "outer report",
                ],
                "/cost": "that is no command",
                "Do it: wait": Reply("late", after=self.gates["interrupted"]),
                "Do it: left": Reply("all the same", after=self.gates["left"]),
                "Do it: below": Reply("late", after=self.gates["stopped"]),
                "Do it: die": [
                    Reply([text("I begin."), shell("sleep 1000", run_in_background=True)]),
                    Reply("late", after=self.gates["killed"]),
                ],
                "close": Reply("late", after=self.gates["closed"]),
            },
            agents={
                "INNER": [shell("echo found"), "inner report"],
                "CALL": [Reply(subtask("adder", "below")), "late"],
                "PLAN": [Reply(tool_use("mcp__tools__delegate", {"what": "Do it: one"})), "it is 1"],
            },
        )


async def two_children_at_once_report_to_the_parent_s_model(one: Family) -> None:
    result = await one.ask(Reply([subtask("adder", "one"), subtask("adder", "two")]), "both are done")
    tasks = {task.description: task for task in one.client.tasks}
    reports = reports_in(one.requests_of()[1:])
    assert result.text == "both are done"
    assert {r["subTaskStatus"] for r in reports} == {"Success"}
    assert {r["finalAssistantMessage"] for r in reports} == {"one is 1", "two is 2"}
    assert set(tasks) == {"one", "two"}
    assert all(task.status is TaskStatus.COMPLETED and task.type == "child_agent" for task in tasks.values())
    assert min(call.duration or 0 for call in result.tool_calls) > TOOL_TIMEOUT  # which cuts no child
    assert {task.id for task in result.tasks} == {task.id for task in tasks.values()}


async def a_child_that_cannot_start_is_an_error_report(one: Family) -> None:
    result = await one.ask(Reply(subtask("broken", "x")), "it failed")
    (task,) = result.tasks
    (report,) = reports_in(one.requests_of()[1:])
    assert result.text == "it failed"
    assert report["subTaskStatus"] == "Error"
    assert "exit code 1" in report["failureReason"]
    assert task.status is TaskStatus.FAILED


async def a_child_has_tasks_of_its_own_in_the_tree_of_its_parent(one: Family) -> None:
    one.answers(Reply(subtask("adder", "outer")), "ok")
    run = one.client.query("go", until="idle")
    await run
    outer, below = run.agents
    transcript = await outer.task.transcript()
    followed = [chunk async for chunk in outer.task.follow()]
    assert (outer.name, outer.definition, outer.is_child) == ("adder", ADDER, True)
    assert (below.name, below.is_child, below.parent) == ("general-purpose", False, outer.task)
    assert [task.depth for task in (outer.task, below.task)] == [1, 2]
    assert (outer.report(), below.report()) == ("outer report", "inner report")
    first, prompt = outer.messages[:2]
    assert isinstance(first, InitMessage)
    assert isinstance(prompt, UserMessage)
    assert prompt.text == outer.task.prompt == "outer\n\nDo it: outer"
    assert {message.agent_id for message in outer.messages} == {outer.id}
    assert {message.session_id for message in outer.messages} == {first.session_id} != {one.client.session_id}
    begun = [message.session_id for message in (await run).messages if isinstance(message, InitMessage)]
    assert begun == [one.client.session_id]  # the child's is not one of the run
    assert [m.text for m in outer.messages if isinstance(m, AssistantMessage) and m.text] == [
        "I delegate.",
        "outer report",
    ]
    assert {message.agent_id for message in transcript} == {outer.id, below.id}
    texts = [message.text for message in transcript if isinstance(message, AssistantMessage) and message.text]
    assert texts == ["I delegate.", "inner report", "outer report"]
    assert followed == ["I delegate.\n", "outer report\n"]
    assert outer.usage is not None
    assert below.usage is not None
    assert (outer.usage.total_tokens, outer.usage.tool_uses) == (220, 1)
    assert outer.usage.cost_usd
    assert outer.task.total_usage.total_tokens == 220 + below.usage.total_tokens
    assert outer.task.output_file is not None
    assert outer.task.output_file.endswith(".jsonl")


@tool
async def delegate(what: str) -> str:
    """Start a child."""
    client = current_client()
    assert client is not None
    return (await (await client.spawn(ChildAgent(ADDER, id="adder"), what, title="sum"))).summary


async def a_tool_that_a_subagent_calls_spawns_below_it(one: Family) -> None:
    call = tool_use("Agent", {"description": "plan", "prompt": "PLAN", "subagent_type": "general-purpose"})
    async with TaskHistory(":memory:") as history:
        history.attach(one.client.tasks, "session")
        await one.ask(Reply(call), "all done", "noted")
        plan, spawned = list(one.client.tasks)[-2:]
        counted = 220  # its two requests, once its transcript is read; the messages alone come to less
        await one.client.tasks.until(lambda: plan.usage is not None and plan.usage.total_tokens == counted, plan.id)
        await history.flush()
        created = (await history.records("session", spawned.id))[0]
    assert (spawned.parent, spawned.author, spawned.summary) == (plan, "general-purpose", "one is 1")
    assert (created.author, created.agent) == ("general-purpose", plan.id)


async def a_child_is_what_its_definition_says(one: Family) -> None:
    definition = AgentDefinition(
        description="Reads", prompt="You read.", tools=["Read", "Bash"], disallowed_tools=["Bash"], model="haiku"
    )
    one.answers()
    child = await one.client.spawn(ChildAgent(definition, id="reader"), "/cost")
    assert (await child.wait()).summary == "that is no command"
    assert await child.read_output() == "that is no command"
    (request,) = one.requests_of("/cost")
    assert "haiku" in request.body["model"]
    assert {tool["name"] for tool in request.body["tools"]} & {"Read", "Bash", "Write", "Agent"} == {"Read"}
    assert request.system.endswith("You read.")
    assert "You lead." not in request.system


async def an_interrupt_ends_the_child_that_the_turn_waits_for(one: Family) -> None:
    async with TaskHistory(":memory:") as history:
        history.attach(one.client.tasks, "session")
        one.answers(Reply([subtask("adder", "wait")]), "next")
        run = one.client.query("go")
        await one.gates["interrupted"].wait_reached()
        await run.interrupt()
        task = list(one.client.tasks)[-1]
        await task
        await history.flush()
        *_, last = await history.records("session", task.id)
    one.gates["interrupted"].open()
    assert isinstance(last, TaskFinished)
    assert (last.outcome.ended_by, last.outcome.status) == ("parent", TaskStatus.STOPPED)


async def the_report_of_a_child_that_an_interrupt_leaves_is_in_the_next_turn_once(one: Family) -> None:
    one.answers(Reply(subtask("leaver", "left")), "second", "third")
    run = one.client.query("go")
    await one.gates["left"].wait_reached()
    await run.interrupt()
    task = list(one.client.tasks)[-1]
    await one.client.tasks.until(lambda: task.is_backgrounded, task.id)
    one.gates["left"].open()
    assert (await task).status is TaskStatus.COMPLETED
    counts = []
    for prompt in ("more", "again"):
        await one.client.query(prompt)
        counts.append(str(one.requests_of()[-1].messages).count("all the same"))
    assert counts == [1, 1]


async def a_child_of_a_subagent_ends_with_it(one: Family) -> None:
    call = {"description": "caller", "prompt": "CALL", "subagent_type": "general-purpose", "run_in_background": True}
    one.answers(tool_use("Agent", call))
    await one.client.query("go")
    await one.gates["stopped"].wait_reached()
    caller, child = list(one.client.tasks)[-2:]
    assert (child.parent, child.depth) == (caller, 2)
    await caller.stop()
    assert (await child).status is TaskStatus.STOPPED
    one.gates["stopped"].open()


async def a_child_that_is_killed_is_an_error_and_the_parent_goes_on(one: Family) -> None:
    one.answers(Reply(subtask("adder", "die")), "it was killed")
    run = one.client.query("go", until="idle")
    await one.gates["killed"].wait_reached()
    (pid,) = processes_of(one.model, "--agent=adder")
    kill(pid)
    result = await run
    one.gates["killed"].open()
    await until_gone(*processes_of(one.model, "sleep"))
    assert [task.status for task in list(one.client.tasks)[-2:]] == [TaskStatus.FAILED, TaskStatus.FAILED]
    (report,) = reports_in(one.requests_of()[1:])
    assert result.text == "it was killed"
    assert (report["subTaskStatus"], report["finalAssistantMessage"]) == ("Error", "I begin.")
    assert "signal 9" in report["failureReason"] or "-9" in report["failureReason"]


async def a_child_is_in_the_permission_mode_that_its_parent_is_in(one: Family) -> None:
    client, agent = one.client, ChildAgent(ADDER, id="adder")
    await one.ask("ok")
    modes = [agent.options_under(client).permission_mode]
    await client.set_permission_mode("plan")
    await one.ask("ok")
    modes.append(agent.options_under(client).permission_mode)
    await client.set_permission_mode("acceptEdits")  # holds at once, before the CLI says so
    modes.append(agent.options_under(client).permission_mode)
    assert modes == ["bypassPermissions", "plan", "acceptEdits"]


Check: TypeAlias = Callable[[Family], Awaitable[None]]


@asynccontextmanager
async def checked(checks: Sequence[Check]) -> AsyncIterator[Family]:
    """Yield a family after these checks."""
    one = Family()
    broken = ChildAgent(ADDER, id="broken", options=one.model.start().options(cli_path="/bin/false"))
    leaver = ChildAgent(ADDER, id="leaver", on_parent_cancel="leave")
    tools = [child_tool(ChildAgent(ADDER, id="adder")), child_tool(broken), child_tool(leaver), delegate]
    limit = {"MCP_TOOL_TIMEOUT": str(round(TOOL_TIMEOUT * 1000))}
    async with one.open(custom_tools=tools, system_prompt="You lead.", env=limit):
        for check in checks:
            with anyio.fail_after(180):
                await check(one)
        yield one


async def test_the_children_of_one_session() -> None:
    checks: list[Check] = [
        two_children_at_once_report_to_the_parent_s_model,
        a_child_that_cannot_start_is_an_error_report,
        an_interrupt_ends_the_child_that_the_turn_waits_for,
    ]
    if sys.platform == "linux":
        checks.append(a_child_that_is_killed_is_an_error_and_the_parent_goes_on)
    async with checked(checks) as one:
        with anyio.fail_after(240):
            task = await one.client.spawn(ChildAgent(ADDER, id="one"), "close")
            await one.gates["closed"].wait_reached()
            await one.client.close()
        assert task.status is TaskStatus.STOPPED
        if sys.platform == "linux":
            await until_only(one.model)
        one.gates["closed"].open()


@pytest.mark.long
async def test_children_in_every_situation_of_their_parent() -> None:
    checks: list[Check] = [
        a_child_has_tasks_of_its_own_in_the_tree_of_its_parent,
        a_tool_that_a_subagent_calls_spawns_below_it,
        a_child_is_what_its_definition_says,
        the_report_of_a_child_that_an_interrupt_leaves_is_in_the_next_turn_once,
        a_child_of_a_subagent_ends_with_it,
        a_child_is_in_the_permission_mode_that_its_parent_is_in,
    ]
    async with checked(checks):
        pass


@pytest.mark.long
async def test_a_child_whose_call_the_cli_moves_to_the_background_reports_in_a_later_turn() -> None:
    gate = Gate()
    with ScriptedModel(
        [subtask("adder", "one"), text("I go on."), text("it is done")],
        sessions={"Do it: one": [Reply("one is 1", after=gate)]},
    ) as model:
        tools = [child_tool(ChildAgent(ADDER, id="adder"))]
        env = {"CLAUDE_AUTO_BACKGROUND_TASKS": "1", "CLAUDE_CODE_MCP_AUTO_BACKGROUND_MS": "1000"}
        async with Client(model.options(custom_tools=tools, env=env)) as client:
            with anyio.fail_after(240):
                run = client.query("add", until="idle")
                *_, second = await model.wait_for_requests(2, agent="main", timeout=60)
                (child,) = [task for task in client.tasks if task.type == "child_agent"]
                assert not child.done
                gate.open()
                result = await run
        assert child.status is TaskStatus.COMPLETED
        last = model.requests_of("main")[-1]
    assert "moved to the background" in str(second.tool_results)
    assert "<task-notification>" in str(last.messages[-1])
    assert "one is 1" in str(last.messages[-1])
    assert result.text == "it is done"


# The whole of it -------------------------------------------------------------------------------------------------


@on_linux
def statuses_of(facts: Iterable[TaskEvent]) -> list[str]:
    """Return the statuses of a task, from its start to its end."""
    starts = [fact.status.value for fact in facts if isinstance(fact, TaskStarted)]
    return starts + [fact.new.value for fact in facts if isinstance(fact, TaskStatusChanged)]


@pytest.mark.long
async def test_two_children_at_once_one_asks_a_person_and_one_fails() -> None:
    asker = ChildAgent(AgentDefinition(description="Asks", prompt="You write files."), id="asker")
    failer = ChildAgent(AgentDefinition(description="Fails", prompt="You fail."), id="failer")
    inbox, history = PendingInteractions(), TaskHistory(":memory:")
    statuses: list[TaskStatus] = []

    async def person(client: Client) -> None:
        async for waiting in inbox.arrivals():
            if waiting.task is not None:
                statuses.append(waiting.task.status)
                assert waiting.task.description == "write"
                assert "touch made" in waiting.summary
            await waiting.answer(Allow())
            if waiting.task is not None:
                return

    with ScriptedModel(
        [Reply([subtask("asker", "write"), subtask("failer", "break")]), text("One is done, one failed.")],
        sessions={
            "Do it: write": [Reply(shell("touch made && echo LAPWING")), text("The file is there.")],
            "Do it: break": lambda request: Failure(400, "no such luck"),
        },
    ) as model:
        options = model.options(
            custom_tools=[child_tool(asker), child_tool(failer)],
            allowed_tools=["mcp__tools__create_subtask_asker", "mcp__tools__create_subtask_failer"],
            interactions=inbox,
            permission_mode="default",
        )
        async with Client(options) as client, history:
            history.attach(client.tasks, "session")
            with anyio.fail_after(240):
                async with anyio.create_task_group() as workers:
                    workers.start_soon(person, client)
                    result = await client.query("go", until="idle")
                tasks = {task.description: task for task in client.tasks}
                live = str(client.tasks.tree())
            await until_gone(*processes_of(model, "--agent="))
            await client.close()
            rebuilt = await history.rebuild("session")
            steps = {name: await history.records("session", task.id) for name, task in tasks.items()}
        reports = {report["agentId"]: report for report in reports_in(model.requests_of("main"))}
        asked = [str(request.body["messages"]) for request in model.requests_of("main")]
        parallel = model.requests_of("main")[-1].tool_results
        assert (model.sandbox.cwd / "made").exists()
    assert result.text == "One is done, one failed."
    assert statuses == [TaskStatus.AWAITING_USER]
    assert [tasks[name].status for name in ("write", "break")] == [TaskStatus.COMPLETED, TaskStatus.FAILED]
    assert reports["asker"] | {"taskId": ""} == {
        "taskId": "",
        "agentId": "asker",
        "subTaskStatus": "Success",
        "summary": None,
        "failureReason": None,
        "finalAssistantMessage": "The file is there.",
    }
    assert reports["failer"]["subTaskStatus"] == "Error"
    assert "no such luck" in reports["failer"]["failureReason"]
    assert len(parallel) == 2  # both in one message
    assert [one for one in asked if "LAPWING" in one or "touch made" in one] == []
    assert str(rebuilt) == live
    assert [statuses_of(steps[name]) for name in ("write", "break")] == [
        ["pending", "running", "awaiting_user", "running", "completed"],
        ["pending", "running", "failed"],
    ]
    by_kind: dict[str, Any] = {fact.kind: fact for fact in steps["write"]}
    kinds = [fact.kind for fact in steps["write"]]
    assert [kind for kind in kinds if kind not in ("status_changed", "changed", "output_available")] == [
        "started",
        "progressed",
        "asked",
        "answered",
        "finished",
    ]
    brief = {"title": "write", "intent": "Do it: write", "artifacts": [], "priority": "normal"}
    assert by_kind["started"].brief == brief
    asked_by, answered = by_kind["asked"].asked, by_kind["answered"].answered
    assert asked_by.question.startswith("Bash: touch made")
    assert answered.interaction_id == asked_by.interaction_id
    assert by_kind["finished"].outcome.usage.total_tokens > 0
    numbers = [record.number for records in steps.values() for record in records]
    assert sorted(numbers) == list(range(1, len(numbers) + 1))
    assert {record.author for record in steps["write"][1:]} == {"asker"}


@pytest.mark.long
@on_linux
async def test_cancelling_the_parent_leaves_no_process() -> None:
    gate = Gate()
    slow = ChildAgent(ADDER, id="slow")
    scripts: dict[Any, Any] = {
        "Do it: agent": [Reply([shell("sleep 1000", run_in_background=True), subtask("leaf", "deep")]), text("late")],
        "Do it: deep": [Reply("late", after=gate)],
    }
    with ScriptedModel([Reply([subtask("slow", "agent")]), text("next")], sessions=scripts) as model:
        middle = ChildAgent(
            ADDER, id="slow", options=model.options(custom_tools=[child_tool(ChildAgent(ADDER, id="leaf"))])
        )
        assert slow.id == middle.id
        with anyio.fail_after(240):
            async with Client(model.options(custom_tools=[child_tool(middle)])) as client:
                run = client.query("go")
                await gate.wait_reached()
                await client.tasks.until(lambda: len(client.tasks) == 3)
                pids = processes_of(model, "--agent=")
                assert len(pids) == 2
                await run.interrupt()
                for task in client.tasks:
                    await task
                await until_gone(*pids)
                await until_only(model, client.pid)
                statuses = {task.description: task.status for task in client.tasks}
            await until_only(model)
            gate.open()
    assert statuses["agent"] is statuses["deep"] is TaskStatus.STOPPED
    assert statuses["sleep 1000"].is_terminal


# What a child is and brings --------------------------------------------------------------------------------------


@pytest.mark.long
async def test_a_child_and_a_grandchild_ask_the_root_and_nothing_starts_itself_or_too_deep() -> None:
    asked: list[tuple[str, Any]] = []

    def decide(request: PermissionRequest, context: PermissionContext) -> Allow:
        assert request.task is context.task
        asked.append((request.tool_name, context.task.description if context.task else None))
        return Allow()

    one = OneSession(
        sessions={
            "Do it: outer": [
                Reply(subtask("middle", "itself")),
                Reply([shell("touch made"), subtask("leaf", "inner")]),
                "outer is done",
            ],
            "Do it: inner": [Reply([subtask("deepest", "too deep"), shell("touch below")]), "inner is done"],
        }
    )
    own = one.model.start().options
    deepest = child_tool(ChildAgent(ADDER, id="deepest"))
    leaf = ChildAgent(ADDER, id="leaf", options=own(custom_tools=[deepest], permission_mode="default"))
    again = child_tool(ChildAgent(ADDER, id="middle"))
    middle = ChildAgent(
        ADDER, id="middle", options=own(custom_tools=[child_tool(leaf), again], permission_mode="default")
    )
    async with one.open(
        custom_tools=[child_tool(middle)],
        permission_mode="default",
        can_use_tool=decide,
        limits=own().limits.replace(child_depth=2),
    ) as client:
        await one.ask(Reply(subtask("middle", "outer")), "done")
        assert one.made() == ["below", "made"]
        assert sorted(asked, key=str) == [
            ("Bash", "inner"),
            ("Bash", "outer"),
            ("mcp__tools__create_subtask_deepest", "inner"),
            ("mcp__tools__create_subtask_leaf", "outer"),
            ("mcp__tools__create_subtask_middle", "outer"),
            ("mcp__tools__create_subtask_middle", None),
        ]
        tree = [line.split(" [")[0] for line in str(client.tasks.tree()).splitlines()]
        assert tree == ["outer", "└── inner"]
        assert all(task.status is TaskStatus.COMPLETED for task in client.tasks)
        assert "must not start itself" in str(one.requests_of("Do it: outer")[1].tool_results)
        assert "child_depth" in str(one.requests_of("Do it: inner")[1].tool_results)


PROGRAM = """
import sys, anyio
from claude_agent_py import Client, ClientOptions
from claude_agent_py.tasks import TaskHistory

async def main(path, cwd, cli_path):
    options = ClientOptions(cwd=cwd, cli_path=cli_path, permission_mode="bypassPermissions")
    async with TaskHistory(path) as history, Client(options) as client:
        history.attach(client.tasks, "session")
        await client.query("go")
        print("under way", flush=True)
        await anyio.sleep_forever()

anyio.run(main, *sys.argv[1:])
"""


@on_linux
async def test_the_tasks_of_a_program_that_is_killed_are_closed_by_the_next_reader(tmp_path: Path) -> None:
    gate, path = Gate(), tmp_path / "history.db"
    with ScriptedModel([Reply(shell("sleep 300", run_in_background=True)), text("It runs.")]) as model:
        given = model.options()
        env = {**os.environ, **{name: value or "" for name, value in (given.env or {}).items()}}
        env["HOME"] = str(model.sandbox.home)
        program = [sys.executable, "-c", PROGRAM, str(path), str(model.sandbox.cwd), str(find_cli())]
        with anyio.fail_after(240), Program(program, env=env, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            try:
                async with TaskHistory(path) as history:
                    assert await anyio.to_thread.run_sync(process.stdout.readline) == "under way\n"
                    records = history.follow("session", poll=0.01)
                    before = await anext(records)
                    process.kill()
                    after = await anext(records)
                    while not isinstance(after, TaskFinished):  # more that it had recorded
                        after = await anext(records)
                    (task,) = await history.rebuild("session")
            finally:
                process.kill()
        kill(*processes_of(model))
        gate.open()
    assert isinstance(before, TaskStarted)
    assert (after.outcome.ended_by, after.outcome.status, task.status) == ("process", "failed", "failed")
    assert task.failure_reason == "the process that recorded it has ended"
