"""`client.events()`: messages, task events and questions in one stream, in order, until the session ends."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from peers import MakeClient, read_into

from claude_agent_py import (
    Allow,
    AssistantMessage,
    Client,
    ClientOptions,
    CLIExitError,
    Limits,
    Timeouts,
    UnknownMessage,
)
from claude_agent_py.permissions import InteractionOpened, InteractionSettled, PendingInteractions, SQLiteInbox
from claude_agent_py.tasks import TaskFinished, TaskProgressed, TaskStarted
from claude_agent_py.testing import FakeCLI, Gate, frames, steps

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_left")]

SOON = Timeouts(close=1.0)
"""For peers that do not stop their tasks."""


def told(events: list[Any]) -> list[str]:
    """Name the events, and the messages that are of interest."""
    names = [getattr(event, "text", None) or type(event).__name__ for event in events]
    return [name for name in names if name not in ("ResultMessage", "BackgroundTasksChangedMessage", "InitMessage")]


async def test_events_follow_the_message_that_caused_them(start: MakeClient) -> None:
    batch = [
        frames.system("first", x=1),
        frames.task_started("a1", "Review"),
        frames.system("second", x=2),
        *frames.task_end("a1"),
        frames.system("third", x=3),
    ]
    fake = FakeCLI(steps.wait_for_prompt(), steps.emit(*batch))
    seen: list[str] = []
    with anyio.fail_after(60):
        async with start(fake) as client:
            events = client.events()
            client.query("go")
            async for event in events:
                seen.append(event.raw["subtype"] if isinstance(event, UnknownMessage) else type(event).__name__)
                if seen[-1] == "third":
                    break
    assert seen == [
        "first",
        "TaskStartedMessage",
        "TaskStarted",
        "second",
        "TaskUpdatedMessage",
        "TaskStatusChanged",
        "TaskNotificationMessage",
        "TaskFinished",
        "BackgroundTasksChangedMessage",
        "third",
    ]


@pytest.fixture(params=["memory", "file"])
def inbox(request: pytest.FixtureRequest, tmp_path: Path) -> PendingInteractions | SQLiteInbox:
    return PendingInteractions() if request.param == "memory" else SQLiteInbox(tmp_path / "inbox.db", poll=0.01)


async def test_a_question_opens_and_settles_when_it_is_answered(inbox: PendingInteractions | SQLiteInbox) -> None:
    fake = FakeCLI(steps.wait_for_prompt(), frames.can_use_tool("r1"), steps.wait_for_reply("r1"))
    with anyio.fail_after(60):
        async with Client(ClientOptions(interactions=inbox), transport=fake.transport()) as client:
            events = client.events()
            client.query("go")
            opened = await next_of(events, InteractionOpened)
            assert opened.interaction.summary == "Bash: ls"
            assert opened.interaction.id in [one.id for one in inbox]
            assert await opened.interaction.answer(Allow())
            settled = await next_of(events, InteractionSettled)
    assert settled.was_answered
    assert settled.interaction.id == opened.interaction.id


async def test_a_question_that_the_cli_withdraws_settles_unanswered(inbox: PendingInteractions | SQLiteInbox) -> None:
    gate = Gate()
    withdrawn = {"type": "control_cancel_request", "request_id": "r1"}
    fake = FakeCLI(steps.wait_for_prompt(), frames.can_use_tool("r1"), steps.wait_gate(gate), withdrawn, steps.hang())
    with anyio.fail_after(60):
        async with Client(ClientOptions(interactions=inbox), transport=fake.transport()) as client:
            events = client.events()
            client.query("go")
            await next_of(events, InteractionOpened)
            gate.open()
            assert not (await next_of(events, InteractionSettled)).was_answered


async def test_the_death_of_the_cli_comes_with_its_events_and_then_as_the_error(start: MakeClient) -> None:
    gate = Gate()
    fake = FakeCLI(
        steps.wait_for_prompt(),
        frames.task_started("a1", "Review"),
        frames.can_use_tool("r1"),
        steps.wait_gate(gate),
        steps.exit(3),
    )
    seen: list[Any] = []
    with anyio.fail_after(60):
        async with start(fake, interactions=True) as client:
            events = client.events()
            client.query("go")
            await next_of(events, InteractionOpened)
            gate.open()
            with pytest.raises(CLIExitError):
                await read_into(seen, events)
    assert [event.outcome.status for event in seen if isinstance(event, TaskFinished)] == ["failed"]
    assert [event.was_answered for event in seen if isinstance(event, InteractionSettled)] == [False]


async def test_events_end_with_the_session_for_every_reader() -> None:
    fake = FakeCLI(steps.wait_for_prompt(), frames.task_started("a1", "Review"), *frames.task_end("a1"), steps.hang())
    one: list[Any] = []
    two: list[Any] = []
    messages: list[Any] = []
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            async with Client(transport=fake.transport()) as client:
                finished = client.events()
                group.start_soon(read_into, one, client.events())
                group.start_soon(read_into, two, client.events())
                group.start_soon(read_into, messages, client.messages())
                client.query("go")
                await next_of(finished, TaskFinished)
    assert told(one) == told(two)
    assert "TaskFinished" in told(one)
    assert not [one for one in messages if isinstance(one, TaskStarted | TaskFinished)]  # those have messages alone


async def test_cancelling_loses_nothing() -> None:
    fake = FakeCLI(steps.wait_for_prompt(), frames.task_started("a1", "Review"), steps.hang())
    with anyio.fail_after(60):
        async with Client(ClientOptions(timeouts=SOON), transport=fake.transport()) as client:
            events = client.events()
            with anyio.CancelScope() as scope:
                scope.cancel()
                await anext(events)
            client.query("go")
            assert (await next_of(events, TaskStarted)).task_id == "a1"


async def test_events_on_disk_keep_their_order() -> None:
    def steps_of(number: int) -> list[Any]:
        return [frames.assistant(f"{number} {'x' * 2000}"), frames.task_started(f"a{number}", f"task {number}")]

    batch = [frame for number in range(100) for frame in steps_of(number)]
    fake = FakeCLI(steps.wait_for_prompt(), steps.emit(*batch), frames.task_started("last"), steps.hang())
    options = ClientOptions(limits=Limits(mailbox_bytes=20_000), timeouts=SOON)
    order: list[str] = []
    with anyio.fail_after(60):
        async with Client(options, transport=fake.transport()) as client:
            slow, quick = client.events(), client.events()
            client.query("go")
            while (await next_of(quick, TaskStarted)).task_id != "last":
                pass
            async for event in slow:
                if isinstance(event, AssistantMessage):
                    order.append(event.text.split()[0])
                elif isinstance(event, TaskStarted):
                    order.append(event.task_id)
                    if event.task_id == "last":
                        break
    assert order == [name for number in range(100) for name in (str(number), f"a{number}")] + ["last"]


async def test_progress_is_left_out_where_too_much_waits() -> None:
    count = 6_000
    progress = [frames.task_progress("a1", tool_uses=number) for number in range(count)]
    fake = FakeCLI(
        steps.wait_for_prompt(), frames.task_started("a1", "Review"), steps.emit(*progress), *frames.task_end("a1")
    )
    kinds: list[type] = []
    with anyio.fail_after(60):
        async with Client(transport=fake.transport()) as client:
            slow = client.events()
            client.query("go")
            await client.tasks.until(lambda: bool(client.tasks.finished))
            async for event in slow:
                kinds.append(type(event))
                if isinstance(event, TaskFinished):
                    break
    assert 0 < kinds.count(TaskProgressed) <= 5_000  # of as many messages; and nothing else is missing
    assert kinds.count(TaskStarted) == kinds.count(TaskFinished) == 1


async def next_of(events: AsyncIterator[Any], kind: type) -> Any:
    """Return the next event of a kind."""
    async for event in events:
        if isinstance(event, kind):
            return event
    raise AssertionError(f"no {kind.__name__} came")
