"""What the journal and the tasks say of a question, from the request to the reply."""

from collections.abc import Sequence
from typing import Any, Final, Literal

import anyio
import pytest
from peers import MakeClient
from pydantic import BaseModel

from claude_agent_py import Allow, Client, PermissionContext, PermissionRequest
from claude_agent_py.journal import Fact, RequestOpened, RequestSettled
from claude_agent_py.permissions import Accept, ElicitationRequest, PendingInteractions
from claude_agent_py.tasks import TaskAnswered, TaskAsked, TaskStatusChanged
from claude_agent_py.testing import FakeCLI, frames, steps
from claude_agent_py.tools import ToolContext

pytestmark = pytest.mark.anyio


ANSWERED: Final = [
    "request_opened by a1",
    "awaiting_user",
    "task_asked",
    "task_answered",
    "request_settled by a1",
    "running",
]
"""What the facts say of a question that a person answers."""


def subagent_that_asks(*asks: dict[str, Any]) -> FakeCLI:
    """Return a CLI whose subagent `a1` runs and sends these requests, one after another."""
    call = frames.assistant([frames.tool_use_block("mcp__tools__order", {}, id="t1")], agent_id="a1")
    replies = [step for ask in asks for step in (steps.emit(ask), steps.wait_for_reply(ask["request_id"]))]
    return FakeCLI(
        steps.wait_for_prompt(),
        steps.emit(frames.init(**frames.prompt_field("uuid")), frames.task_started("a1"), call),
        *replies,
        frames.of_prompt(frames.result()),
        steps.wait_for_prompt(),
    )


def words(facts: Sequence[Fact]) -> list[str]:
    """Return what the facts say of a question."""
    found = []
    for fact in facts:
        match fact:
            case RequestOpened() | RequestSettled():
                found.append(f"{fact.fact} by {fact.agent}")
            case TaskStatusChanged():
                found.append(str(fact.new))
            case TaskAsked() | TaskAnswered():
                found.append(fact.fact)
    return found


async def facts_of(client: Client, end: str) -> list[str]:
    """Run a prompt, and return the words of its facts up to this one."""
    journal = client.journal()
    await client.query("Go on")
    facts: list[Fact] = []
    with anyio.fail_after(60):
        while words(facts)[-1:] != [end]:
            facts.append(await anext(journal))
    return words(facts)


async def test_a_task_waits_for_a_person_from_the_question_to_the_reply(start: MakeClient) -> None:
    statuses: list[str] = []

    async def decide(request: PermissionRequest, context: PermissionContext) -> Allow:
        assert context.task is not None
        statuses.append(str(context.task.status))
        with context.awaiting_user():
            statuses.append(str(context.task.status))
        with context.awaiting_user():
            statuses.append(str(context.task.status))
        return Allow()

    fake = subagent_that_asks(frames.can_use_tool("r1", agent_id="a1", tool_use_id="t1"))
    async with start(fake, can_use_tool=decide, permission_mode="default") as client:
        found = await facts_of(client, "running")
    assert statuses == ["running", "awaiting_user", "awaiting_user"]
    assert found == ANSWERED


async def test_a_question_of_a_tool_is_asked_by_the_subagent_that_calls_it(start: MakeClient) -> None:
    class Order(BaseModel):
        size: Literal["S", "L"]

    async def order(context: ToolContext) -> str:
        """Order something."""
        given = await context.elicit("What size?", Order)
        return "nothing" if given is None else given.size

    def answer(request: ElicitationRequest, context: PermissionContext) -> Accept:
        return Accept({"size": "L"})

    message = {"name": "order", "arguments": {}, "_meta": {"claudecode/toolUseId": "t1"}}
    fake = subagent_that_asks(frames.mcp_message("r1", "tools", "tools/call", **message))
    async with start(fake, on_elicitation=answer, custom_tools=[order]) as client:
        found = await facts_of(client, "running")
    assert found == ANSWERED


async def test_a_request_that_asks_twice_has_two_questions(start: MakeClient) -> None:
    inbox = PendingInteractions()

    async def decide(request: PermissionRequest, context: PermissionContext) -> Any:
        await inbox.permission(request, context)
        return await inbox.permission(request, context)

    async def answer_both() -> None:
        arrivals = inbox.arrivals()
        for _ in range(2):
            await (await anext(arrivals)).answer(Allow())

    fake = subagent_that_asks(frames.can_use_tool("r1", agent_id="a1", tool_use_id="t1"))
    async with (
        start(fake, can_use_tool=decide, permission_mode="default") as client,
        anyio.create_task_group() as group,
    ):
        group.start_soon(answer_both)
        found = await facts_of(client, "running")
    assert found[1:-2] == ["awaiting_user", "task_asked", "task_answered", "task_asked", "task_answered"]
