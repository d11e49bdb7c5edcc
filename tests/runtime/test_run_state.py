"""What the session keeps of a run: how it ended, and its messages while somebody has the run."""

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from claude_agent_py import Run
from claude_agent_py._connection.runs.mailbox import Mailbox
from claude_agent_py._connection.runs.run_state import RunState
from claude_agent_py._journal.open_runs import RunEnded
from claude_agent_py.messages import StreamEventMessage
from claude_agent_py.testing import frames
from claude_agent_py.wire import decode

pytestmark = pytest.mark.anyio

RESULT = frames.result("hi", user_message_uuid="p", user_message_uuids=["p"])


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def put(run: RunState, *said: dict[str, Any]) -> list[Any]:
    """Deliver these frames, and return them as messages."""
    messages = [decode(frames.encode(frame)[:-1]) for frame in said]
    for message in messages:
        run.mailbox.put(message, is_recorded=not isinstance(message, StreamEventMessage))
    return messages


async def read(mailbox: Mailbox, number: int) -> list[Any]:
    return [await mailbox.get() for _ in range(number)]


async def test_the_first_end_counts() -> None:
    run = RunState(1000)
    mailbox = run.mailbox
    failures = [ValueError(), KeyError()]
    run.finish(failure=lambda: failures[0])
    run.finish(RunEnded(run, "result"), lambda: failures[1])
    assert run.is_over
    assert run.reason is None
    assert run.failure is not None
    assert run.failure() is failures[0]
    await run.wait()
    with pytest.raises(StopAsyncIteration):
        await mailbox.get()


async def test_all_but_the_deltas_are_recorded() -> None:
    run = RunState(1000)
    mailbox = run.mailbox
    sent = put(run, frames.text_stream("h")[1], frames.assistant("hi"), RESULT)
    assert list(mailbox.recorded) == sent[1:]
    assert await read(mailbox, 3) == sent
    mailbox.rewind()
    assert await read(mailbox, 2) == sent[1:]


@pytest.mark.parametrize("before", [0, 1, 2, 3, 200])
async def test_deltas_keep_their_place_wherever_a_reader_takes_up(before: int) -> None:
    """Behind, the reader gets recorded messages and deltas from two logs."""
    run = RunState(1 << 20)
    mailbox = run.mailbox
    said = [part for n in range(100) for part in (frames.text_stream(str(n))[1], frames.assistant(str(n)))]
    sent = put(run, *said)
    got = await read(mailbox, before)
    sent += put(run, *said)
    assert got + await read(mailbox, 400 - before) == sent
    sent += put(run, *said)
    assert await read(mailbox, 200) == sent[400:]
    assert len(mailbox) == 0
    assert list(mailbox.recorded) == [message for message in sent if message.type == "assistant"]


async def test_a_run_that_is_awaited_first_keeps_no_deltas() -> None:
    run = RunState(1000)
    mailbox = run.mailbox
    delta, said = frames.text_stream("h")[1], frames.assistant("hi")
    put(run, delta, said)
    mailbox.skip_unrecorded()
    sent = put(run, delta, said, delta)
    assert (len(mailbox), await read(mailbox, 2)) == (2, [sent[1], sent[1]])
    sent = put(run, delta, said)
    assert (len(mailbox), await read(mailbox, 1)) == (1, [sent[1]])


async def test_awaiting_takes_no_deltas_from_a_reader_who_has_begun() -> None:
    run = RunState(1000)
    mailbox = run.mailbox
    sent = put(run, frames.assistant("hi"), frames.text_stream("h")[1])
    assert await mailbox.get() == sent[0]
    mailbox.skip_unrecorded()
    sent += put(run, frames.text_stream("h")[1])
    assert await read(mailbox, 2) == sent[1:]


@pytest.mark.usefixtures("no_collector")
async def test_a_run_that_nobody_has_is_gone_with_its_file_at_once() -> None:
    run = RunState(0)
    view = Run(None, run)
    [sent] = put(run, frames.assistant("hi"))
    assert list(run.mailbox.recorded) == [sent]
    messages, state = weakref.ref(run.mailbox.recorded), weakref.ref(run)
    del view
    assert messages() is None  # although the session still has the run
    put(run, RESULT)
    assert len(run.mailbox.recorded) == 0
    run.finish(RunEnded(run, "result"))
    assert run.is_over
    del run
    assert state() is None
