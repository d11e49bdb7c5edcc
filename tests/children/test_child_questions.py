"""Who is asked what a child asks: its parent's handlers, inbox and guards, with the child's task on the question."""

from pathlib import Path
from typing import Any

import anyio
import pytest
from child_clis import MakeAgent, child_cli

from claude_agent_py import (
    Allow,
    Client,
    ClientOptions,
    HookContext,
    HookMatcher,
    PermissionContext,
    PermissionRequest,
    Task,
    TaskStatus,
)
from claude_agent_py.client import current_client
from claude_agent_py.hooks import PreToolUseOutput
from claude_agent_py.journal import RequestOpened, RequestSettled
from claude_agent_py.permissions import PendingInteractions
from claude_agent_py.testing import FakeCLI, frames, steps

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_left")]


def parent(**options: Any) -> Client:
    return Client(ClientOptions(**options), transport=FakeCLI().transport())


ASKS = [
    steps.wait_for_prompt(),
    frames.can_use_tool("r1"),
    steps.wait_for_reply("r1"),
    frames.of_prompt(frames.result()),
]


async def test_a_question_of_a_child_is_the_parent_s_with_the_child_s_task_and_directory(
    agent_of: MakeAgent, tmp_path: Path
) -> None:
    asked: list[tuple[PermissionRequest, PermissionContext, Client | None]] = []

    def decide(request: PermissionRequest, context: PermissionContext) -> Allow:
        asked.append((request, context, current_client()))
        return Allow()

    child = child_cli(*ASKS)
    with anyio.fail_after(60):
        async with parent(can_use_tool=decide, permission_mode="default") as client:
            task = await client.spawn(agent_of(child, options={"cwd": tmp_path}), "Do it.")
            assert (await task).is_success
    ((request, context, current),) = asked
    assert (request.agent_id, request.task, context.agent_id, context.task) == (task.id, task, task.id, task)
    assert (context.cwd, current) == (str(tmp_path), client)
    assert context.tool_use_id == request.tool_use_id != ""
    assert child.starts[0].argv.count("--permission-prompt-tool=stdio") == 1


SESSION = "4b3d8f0e-5a51-4c5e-9a0c-2f6d3f8e7a11"


async def awaits_user(client: Client, task: Task) -> None:
    await client.tasks.until(lambda: task.status is TaskStatus.AWAITING_USER, task.id)


async def test_children_that_wait_for_people_and_the_same_request_id(agent_of: MakeAgent) -> None:
    inbox = PendingInteractions()
    children = [child_cli(*ASKS, name=name) for name in ("one", "two")]
    with anyio.fail_after(60):
        async with parent(interactions=inbox, permission_mode="default", session_id=SESSION) as client:
            facts = client.journal()
            tasks = [
                await client.spawn(agent_of(fake, name=name), name)
                for fake, name in zip(children, ("one", "two"), strict=True)
            ]
            for task in tasks:
                await awaits_user(client, task)
            waiting = {one.agent_id: one for one in inbox}
            assert {one.task for one in inbox} == set(tasks)
            assert {one.session_id for one in inbox} == {SESSION}
            assert await waiting[tasks[0].id].answer(Allow())
            assert (await tasks[0]).is_success
            assert tasks[1].status is TaskStatus.AWAITING_USER
            await tasks[1].stop()
            assert list(inbox) == []
        told = [fact async for fact in facts if isinstance(fact, RequestOpened | RequestSettled)]
    assert {fact.agent: fact.id for fact in told if isinstance(fact, RequestOpened)} == {
        task.id: f"{task.id}/r1" for task in tasks
    }
    assert {fact.agent: fact.status for fact in told if isinstance(fact, RequestSettled)} == {
        tasks[0].id: "ok",
        tasks[1].id: "cancelled",
    }


async def test_a_child_with_its_own_handlers_asks_them_and_shows_that_it_waits(agent_of: MakeAgent) -> None:
    seen: list[TaskStatus] = []

    async def decide(request: PermissionRequest, context: PermissionContext) -> Allow:
        assert context.task is not None
        with context.awaiting_user():
            seen.append(context.task.status)
        return Allow()

    def parent_s(request: PermissionRequest, context: PermissionContext) -> Allow:
        raise AssertionError("the parent was asked")

    own = {"can_use_tool": decide, "permission_mode": "default"}
    with anyio.fail_after(60):
        async with parent(can_use_tool=parent_s, permission_mode="default") as client:
            task = await client.spawn(agent_of(child_cli(*ASKS), options=own), "Do it.")
            assert (await task).is_success
    assert seen == [TaskStatus.AWAITING_USER]


async def test_the_parent_s_guards_hold_for_its_children(agent_of: MakeAgent) -> None:
    contexts: list[HookContext] = []

    def guard(input: Any, context: HookContext) -> PreToolUseOutput:
        contexts.append(context)
        return PreToolUseOutput(permission_decision="deny", permission_decision_reason="not today")

    async def at_the_end(input: Any, context: HookContext) -> None:
        raise AssertionError("the parent's own turns are no business of a child's")

    event = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "t1"}
    child = child_cli(
        steps.wait_for_prompt(),
        frames.hook_callback("r1", "hook_0", event),
        steps.wait_for_reply("r1"),
        frames.of_prompt(frames.result()),
    )
    hooks = {"PreToolUse": [HookMatcher("Bash", guard)], "Stop": [at_the_end]}
    with anyio.fail_after(60):
        async with parent(hooks=hooks) as client:
            task = await client.spawn(agent_of(child), "Do it.")
            assert (await task).is_success
    told = child.requests("initialize")[0]["hooks"]
    assert list(told) == ["PreToolUse"]
    assert [(context.agent_id, context.task) for context in contexts] == [(task.id, task)]
    (reply,) = child.received_like({"response": {"request_id": "r1"}})
    assert reply["response"]["response"]["hookSpecificOutput"]["permissionDecision"] == "deny"


async def test_a_handler_may_close_the_client_that_asks_it(agent_of: MakeAgent) -> None:
    over = anyio.Event()

    async def decide(request: PermissionRequest, context: PermissionContext) -> Allow:
        current = current_client()
        assert current is not None
        try:
            await current.close()
        finally:
            over.set()
        return Allow()

    with anyio.fail_after(60):
        async with parent(can_use_tool=decide, permission_mode="default") as client:
            task = await client.spawn(agent_of(child_cli(*ASKS)), "Do it.")
            await over.wait()
    assert task.status is TaskStatus.STOPPED


async def test_a_handler_may_stop_the_child_that_asks_it(agent_of: MakeAgent) -> None:
    async def decide(request: PermissionRequest, context: PermissionContext) -> Allow:
        assert context.task is not None
        await context.task.stop()
        return Allow()

    with anyio.fail_after(60):
        async with parent(can_use_tool=decide, permission_mode="default") as client:
            task = await client.spawn(agent_of(child_cli(*ASKS)), "Do it.")
            assert (await task).status is TaskStatus.STOPPED


async def test_a_guard_that_fails_in_a_child_denies_and_is_kept_with_the_parent_s_failures(agent_of: MakeAgent) -> None:
    def guard(input: Any, context: HookContext) -> None:
        raise RuntimeError("no luck")

    event = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "t1"}
    child = child_cli(
        steps.wait_for_prompt(),
        frames.hook_callback("r1", "hook_0", event),
        steps.wait_for_reply("r1"),
        frames.of_prompt(frames.result()),
    )
    with anyio.fail_after(60):
        async with parent(hooks={"PreToolUse": [HookMatcher("Bash", guard)]}) as client:
            assert (await (await client.spawn(agent_of(child), "Do it."))).is_success
            (error,) = client.handler_errors
    assert "guard" in error.handler
    (reply,) = child.received_like({"response": {"request_id": "r1"}})
    assert reply["response"]["response"]["hookSpecificOutput"]["permissionDecision"] == "deny"
