"""All views of a session tell the same story: the same calls and tasks, with the same statuses."""

import anyio
import pytest
from acp import schema
from peers import read_into, start_in_memory

from claude_agent_py.acp.updates import Updates
from claude_agent_py.cli._chat.conversation import Conversation
from claude_agent_py.testing import FakeCLI, frames, steps

DEADLINE = 60

SHELL = {"task_type": "local_bash", "description": "Tests"}


@pytest.mark.anyio
@pytest.mark.each_backend
async def test_a_task_whose_end_nobody_reported_ends_in_every_view() -> None:
    live = {"task_id": "b1", **SHELL}
    fake = FakeCLI(
        steps.turn(
            [
                frames.task_started("b1", is_backgrounded=True, **SHELL),
                frames.system("background_tasks_changed", tasks=[live]),
                frames.assistant("They run."),
            ]
        ),
        steps.emit(frames.system("background_tasks_changed", tasks=[])),
    )
    seen: list[object] = []
    async with start_in_memory(fake) as client:
        with anyio.fail_after(DEADLINE):
            async with anyio.create_task_group() as group:
                group.start_soon(read_into, seen, client.events(facts=True))
                await client.query("go")
                assert (await client.tasks.wait("b1")).status == "completed"
                await client.close()
    updates, chat = Updates(), Conversation()
    shown = [update for item in seen for update in updates.feed(item)]
    entries = [entry for item in seen for entry in chat.apply(item)]
    ends = [one.status for one in shown if isinstance(one, schema.ToolCallProgress) and one.tool_call_id == "task:b1"]
    assert ends[-1] == "completed"
    assert list(updates.end()) == []
    (ended,) = [entry.text for entry in entries if entry.kind == "task"]
    assert ended.startswith("Tests completed")
