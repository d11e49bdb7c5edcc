"""The main job, end to end: two subagents and a shell command in the background, awaited, their output read."""

import asyncio
import os
import sys

import anyio
import pytest
from peers import UVLOOP

from claude_agent_py import (
    AgentDefinition,
    AssistantMessage,
    Client,
    MalformedFrame,
    TaskNotificationMessage,
    TaskStatus,
    UnknownMessage,
)
from claude_agent_py.testing import Reply, ScriptedModel, ToolCall, text, tool_use

pytestmark = [pytest.mark.anyio, pytest.mark.real_cli]

AGENTS = {"reviewer": AgentDefinition(description="Reviews code", prompt="You review code.")}


def agent(name: str) -> ToolCall:
    return tool_use("Agent", {"description": f"Review {name}", "prompt": f"Review {name}", "subagent_type": "reviewer"})


def main_job() -> ScriptedModel:
    shell = tool_use(
        "Bash", {"command": "echo one; sleep 0.3; echo two", "description": "Run it", "run_in_background": True}
    )
    return ScriptedModel(
        [Reply([agent("auth"), agent("billing"), shell]), text("Started three."), text("Noted."), text("Noted, too.")],
        agents={
            "Review auth": [
                Reply(tool_use("Bash", {"command": "echo looking", "description": "Look"})),
                text("auth is fine"),
            ],
            "Review billing": [text("billing is broken")],
        },
        on_exhausted=text("All three are done."),
    )


def make_eager_loop() -> asyncio.AbstractEventLoop:
    """Return a loop whose tasks begin at once, and not in its next turn."""
    loop = asyncio.new_event_loop()
    loop.set_task_factory(asyncio.eager_task_factory)  # type: ignore[attr-defined, unused-ignore]
    return loop


@pytest.mark.parametrize(
    "anyio_backend",
    [
        "asyncio",
        pytest.param("trio", marks=pytest.mark.long),
        UVLOOP,
        pytest.param(
            ("asyncio", {"loop_factory": make_eager_loop}),
            id="eager tasks",
            marks=pytest.mark.skipif(sys.version_info < (3, 12), reason="asyncio has eager tasks since Python 3.12"),
        ),
    ],
    indirect=True,
)
async def test_the_main_job_shows_every_task_from_start_to_output() -> None:
    told: list[TaskNotificationMessage] = []
    with main_job() as model:
        options = model.options(agents=AGENTS, on_task_notification=told.append)
        async with Client(options) as client:
            with anyio.fail_after(240):
                result = await client.query("Review auth and billing, and run it, in the background", until="idle")
                outcomes = {task.description: await task.wait(timeout=60) for task in client.tasks}
                outputs = {task.description: await task.read_output() for task in client.tasks}
                while len(told) < 3:
                    await anyio.sleep(0.02)
            said = [m for m in result.messages if isinstance(m, AssistantMessage) and m.is_subagent]
            assert said
            assert {m.agent_id for m in said} <= {task.id for task in client.tasks}
            pid = client.pid
    assert {name: outcome.status for name, outcome in outcomes.items()} == {
        "Review auth": TaskStatus.COMPLETED,
        "Review billing": TaskStatus.COMPLETED,
        "Run it": TaskStatus.COMPLETED,
    }
    assert outputs["Review auth"].strip() == "auth is fine"
    assert outputs["Review billing"].strip() == "billing is broken"
    assert outputs["Run it"].split() == ["one", "two"]
    assert {n.summary for n in told} >= {"auth is fine", "billing is broken"}
    assert all(n.is_success for n in told)
    assert not result.is_error
    assert result.message is not None
    assert result.message.result == "Started three."
    assert len(result.tasks) == 3
    assert result.unfinished_tasks == []
    assert not [m for m in result.messages if isinstance(m, UnknownMessage | MalformedFrame)]
    assert pid is not None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
