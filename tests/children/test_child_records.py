"""What children are given, and what their records say: brief, author, parent, answers, and who ended them."""

from typing import Any, cast

import anyio
import pytest
from child_clis import MakeAgent, child_cli

from claude_agent_py import Allow, Client, ClientOptions, OptionsError, PermissionContext, PermissionRequest, TaskStatus
from claude_agent_py.children import ChildAgent, child_tool
from claude_agent_py.errors import TaskNotFoundError
from claude_agent_py.permissions import PendingInteractions
from claude_agent_py.tasks import (
    TaskAnswered,
    TaskAsked,
    TaskEvent,
    TaskFinished,
    TaskHistory,
    TaskOutcome,
    TaskStarted,
    TaskStatusChanged,
)
from claude_agent_py.testing import FakeCLI, Gate, frames, steps

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_left")]

ASKS = [
    steps.wait_for_prompt(),
    frames.can_use_tool("r1"),
    steps.wait_for_reply("r1"),
    frames.of_prompt(frames.result()),
]


def parent(fake: FakeCLI | None = None, **options: Any) -> Client:
    return Client(ClientOptions(**options), transport=(fake or FakeCLI()).transport())


def called(arguments: dict[str, Any]) -> FakeCLI:
    """A CLI that calls the tool of `worker`."""
    given = {"name": "create_subtask_worker", "arguments": arguments}
    return FakeCLI(frames.mcp_message("r1", "tools", "tools/call", **given, _meta={"claudecode/toolUseId": "toolu_r1"}))


async def result_of(fake: FakeCLI) -> dict[str, Any]:
    """The result of that call."""
    (reply,) = await fake.wait_received({"type": "control_response", "response": {"request_id": "r1"}})
    result: dict[str, Any] = reply["response"]["response"]["mcp_response"]["result"]
    return result


async def records_of(history: TaskHistory) -> list[TaskEvent]:
    await history.flush()
    return await history.records("s1")


async def test_a_child_is_spawned_with_all_that_a_record_names(agent_of: MakeAgent) -> None:
    child = child_cli(steps.turn("Done."))
    launcher = FakeCLI(frames.task_started("a1", "plan", subagent_type="planner"))
    with anyio.fail_after(60):
        async with TaskHistory(":memory:") as history, parent(launcher) as client:
            history.attach(client.tasks, "s1")
            await client.tasks.until(lambda: "a1" in client.tasks)
            task = await client.spawn(
                agent_of(child),
                "Audit it.",
                title="Audit",
                parent="a1",
                author="Ann",
                artifacts=["auth.py", "https://example.com/x"],
                priority="high",
            )
            assert (task.description, task.parent, task.author) == ("Audit", client.tasks["a1"], "Ann")
            await task
            (sent,) = await child.wait_received({"type": "user"})
            created = next(record for record in await records_of(history) if record.task_id == task.id)
            rebuilt = {each.id: each for each in (await history.rebuild("s1")).walk()}[task.id]
    prompt = "Audit it.\n\nArtifacts:\n- auth.py\n- https://example.com/x\n\nPriority: high"
    assert sent["message"]["content"] == prompt
    brief = {
        "title": "Audit",
        "intent": "Audit it.",
        "artifacts": ["auth.py", "https://example.com/x"],
        "priority": "high",
    }
    assert (task.brief, rebuilt.brief, rebuilt.author, rebuilt.prompt) == (brief, brief, "Ann", prompt)
    assert isinstance(created, TaskStarted)
    assert (created.author, created.agent, created.brief, created.prompt) == ("Ann", "a1", brief, prompt)
    assert created.status is TaskStatus.PENDING


async def test_an_invalid_child_is_refused_before_a_task_exists(agent_of: MakeAgent) -> None:
    agent = agent_of(child_cli())
    with anyio.fail_after(60):
        async with parent() as client:
            for prompt, given in ((" \n", {}), ("Do it.", {"title": " "})):
                with pytest.raises(OptionsError, match="must not be blank"):
                    await client.spawn(agent, prompt, **given)
            with pytest.raises(OptionsError, match="prompt: must be str, not int"):
                await client.spawn(agent, cast("str", 5))
            with pytest.raises(OptionsError, match=r"title: must be str \| None, not list"):
                await client.spawn(agent, "Do it.", title=cast("str", ["x"]))
            with pytest.raises(OptionsError, match="artifacts: must be a list of strings"):
                await client.spawn(agent, "Do it.", artifacts="a.py")
            with pytest.raises(TaskNotFoundError):
                await client.spawn(agent, "Do it.", parent="unknown")
            assert len(client.tasks) == 0


@pytest.mark.parametrize("spelling", ["artifact_refs", "artifactRefs"])
async def test_a_model_may_write_artifacts_either_way(agent_of: MakeAgent, spelling: str) -> None:
    child = child_cli(steps.turn("It is done."))
    fake = called({"title": " Port it ", "intent": "All of it.", spelling: ["a.c"], "priority": "high"})
    with anyio.fail_after(60):
        agents = [agent_of(child)]
        async with parent(fake, custom_tools=[child_tool(agent) for agent in agents]) as client:
            result = await result_of(fake)
            (task,) = client.tasks
    assert task.brief == {"title": "Port it", "intent": "All of it.", "artifacts": ["a.c"], "priority": "high"}
    assert task.prompt == "Port it\n\nAll of it.\n\nArtifacts:\n- a.c\n\nPriority: high"
    assert result["content"][0]["text"].count("It is done.") == 1  # a short report is not given twice


async def test_a_blank_title_is_refused_before_a_task_exists(agent_of: MakeAgent) -> None:
    fake = called({"title": "  "})
    with anyio.fail_after(60):
        async with parent(fake, custom_tools=[child_tool(agent_of(child_cli()))]) as client:
            result = await result_of(fake)
            assert len(client.tasks) == 0
    assert result["isError"] is True
    assert "title" in result["content"][0]["text"]


async def ended(agent: ChildAgent, end: Any, fake: FakeCLI | None = None, **options: Any) -> TaskOutcome:
    """Record a child, and return how it ended."""
    async with TaskHistory(":memory:") as history, parent(fake, **options) as client:
        history.attach(client.tasks, "s1")
        task = await client.spawn(agent, "Do it.") if fake is None else await only_task(client)
        await end(client, task)
        outcome = await task
        [last] = [fact for fact in await records_of(history) if isinstance(fact, TaskFinished)]
    assert last.outcome == outcome
    return outcome


async def only_task(client: Client) -> Any:
    await client.tasks.until(lambda: len(client.tasks) == 1)
    return next(iter(client.tasks))


async def test_a_child_that_the_program_stops(agent_of: MakeAgent) -> None:
    async def stop(client: Client, task: Any) -> None:
        await task.stop()

    with anyio.fail_after(60):
        end = await ended(agent_of(child_cli(steps.wait_for_prompt(), steps.hang())), stop)
    assert (end.status, end.ended_by) == ("stopped", "program")


async def test_a_child_that_exceeds_its_time_limit(agent_of: MakeAgent) -> None:
    async def wait(client: Client, task: Any) -> None:
        await task

    with anyio.fail_after(60):
        end = await ended(agent_of(child_cli(steps.wait_for_prompt(), steps.hang()), timeout=0.2), wait)
    assert (end.status, end.ended_by) == ("failed", "timeout")


async def test_a_child_whose_call_is_taken_back(agent_of: MakeAgent) -> None:
    gate, child = Gate(), child_cli(steps.wait_for_prompt(), steps.hang())
    withdrawn = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "r1"}}
    call = frames.mcp_message(
        "r1", "tools", "tools/call", name="create_subtask_worker", arguments={"title": "Do it."}, _meta={}
    )
    off = frames.control_request("r1-off", "mcp_message", server_name="tools", message=withdrawn)
    agent = agent_of(child)

    async def take_back(client: Client, task: Any) -> None:
        await child.wait_received({"type": "user"})
        gate.open()

    with anyio.fail_after(60):
        fake = FakeCLI(call, steps.wait_gate(gate), off)
        end = await ended(agent, take_back, fake, custom_tools=[child_tool(agent)])
    assert (end.status, end.ended_by) == ("stopped", "parent")


async def test_a_question_of_a_child_is_recorded_with_its_answer(agent_of: MakeAgent) -> None:
    inbox = PendingInteractions()
    with anyio.fail_after(60):
        async with (
            TaskHistory(":memory:") as history,
            parent(interactions=inbox, permission_mode="default") as client,
        ):
            history.attach(client.tasks, "s1")
            task = await client.spawn(agent_of(child_cli(*ASKS)), "Do it.")
            waiting = await anext(inbox.arrivals())
            await waiting.answer(Allow(), by="Ann")
            await task
            records = await records_of(history)
    [asked] = [record for record in records if isinstance(record, TaskAsked)]
    [answered] = [record for record in records if isinstance(record, TaskAnswered)]
    assert (asked.asked.interaction_id, asked.asked.question) == (waiting.id, waiting.summary)
    answer = answered.answered
    assert (answer.by, answer.answer) == ("Ann", {"behavior": "allow"})
    assert (answer.interaction_id, answer.origin.split()[0]) == (waiting.id, "process")
    assert asked.number < answered.number


async def test_a_question_to_the_handler_of_a_child_is_recorded(agent_of: MakeAgent) -> None:
    async def decide(request: PermissionRequest, context: PermissionContext) -> Allow:
        with context.awaiting_user():
            return Allow()

    own = {"can_use_tool": decide, "permission_mode": "default"}
    with anyio.fail_after(60):
        async with TaskHistory(":memory:") as history, parent() as client:
            history.attach(client.tasks, "s1")
            await (await client.spawn(agent_of(child_cli(*ASKS), options=own), "Do it."))
            records = await records_of(history)
    asked = [record.kind for record in records].index("asked")
    [answered, resumed] = records[asked + 1 : asked + 3]
    assert isinstance(answered, TaskAnswered)
    answer = answered.answered
    assert (answer.by, answer.origin, answer.interaction_id) == ("decide", "can_use_tool", None)
    assert isinstance(resumed, TaskStatusChanged)
    assert resumed.new is TaskStatus.RUNNING


@pytest.mark.parametrize("timeout", [None, 2])
async def test_a_child_that_ends_while_it_asks_is_not_resumed_before(
    agent_of: MakeAgent, timeout: float | None
) -> None:
    inbox = PendingInteractions()
    with anyio.fail_after(60):
        async with (
            TaskHistory(":memory:") as history,
            parent(interactions=inbox, permission_mode="default") as client,
        ):
            history.attach(client.tasks, "s1")
            task = await client.spawn(agent_of(child_cli(*ASKS), timeout=timeout), "Do it.")
            if timeout is None:
                await anext(inbox.arrivals())
                await task.stop()
            await task
            records = await records_of(history)
    end = "stopped" if timeout is None else "failed"
    statuses = [record.new.value for record in records if isinstance(record, TaskStatusChanged)]
    assert timeout or "awaiting_user" in statuses  # on a busy machine, the time ends before
    assert statuses == ["running", *(["awaiting_user"] if "awaiting_user" in statuses else []), end]
