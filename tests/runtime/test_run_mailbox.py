"""What the session keeps of a run: how it ended, and its messages in memory and on disk."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from claude_agent_py._protocol.open_runs import RunEnded
from claude_agent_py._runtime.runs.record import Record
from claude_agent_py._runtime.runs.run_mailbox import RunMailbox
from claude_agent_py.testing import frames
from claude_agent_py.wire.codec import decode

pytestmark = pytest.mark.anyio


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


async def test_the_first_end_counts() -> None:
    run = RunMailbox(1000)
    failures = [ValueError(), KeyError()]
    run.finish(frozenset({"a1"}), failure=lambda: failures[0])
    run.finish(frozenset(), RunEnded(run, "result"), lambda: failures[1])
    assert run.is_over
    assert run.task_ids == {"a1"}
    assert run.reason is None
    assert run.failure is not None
    assert run.failure() is failures[0]
    assert run.sending.cancel_called
    await run.wait()
    with pytest.raises(StopAsyncIteration):
        await run.get()


async def test_the_result_has_all_but_the_deltas() -> None:
    run = RunMailbox(1000)
    lines = [
        frames.encode(frame)[:-1]
        for frame in (
            frames.text_stream("h")[1],
            frames.assistant("hi"),
            frames.result("hi", user_message_uuid="p", user_message_uuids=["p"]),
        )
    ]
    sent = [decode(line) for line in lines]
    for message, line in zip(sent, lines, strict=True):
        run.put(message, line)
    assert list(run.messages) == sent[1:]
    assert run.results == sent[2:]
    assert [await run.get() for _ in sent] == sent


@pytest.mark.parametrize("reads", [True, False])
async def test_the_lines_of_messages_that_were_read_are_joined(reads: bool) -> None:
    run = RunMailbox(1_000_000)
    lines = [frames.encode(frames.assistant(f"answer {number}"))[:-1] for number in range(300)]
    got = []
    for line in lines:
        run.put(decode(line), line)
        if reads:
            got.append(await run.get())
    assert (run.messages.unpacked < 150) is reads  # those that wait have their lines anyway
    assert len(run.messages) == 300
    sent = [decode(line) for line in lines]
    assert list(run.messages) == sent
    assert run.messages[3] is run.messages[3]
    for line in lines:
        run.put(decode(line), line)
    assert run.messages[:] == sent + sent
    assert got + [await run.get() for _ in range(600 - len(got))] == sent + sent


@pytest.mark.usefixtures("no_collector")
async def test_a_run_that_nobody_has_is_gone_with_its_file_at_once() -> None:
    run = RunMailbox(0)
    line = frames.encode(frames.assistant("hi"))[:-1]
    run.put(decode(line), line)
    run.finish(frozenset(), RunEnded(run, "result"))
    forgotten = weakref.ref(run)
    del run
    assert forgotten() is None


# The record


@pytest.mark.parametrize("max_bytes", [0, 300, 1 << 20])
def test_a_record_gives_what_came_wherever_it_is(max_bytes: int) -> None:
    record = Record(max_bytes)
    lines = [frames.encode(frames.assistant(str(number)))[:-1] for number in range(20)]
    sent = [decode(line) for line in lines]
    for message, line in zip(sent, lines, strict=True):
        record.append(message, line)
    made_up = decode(lines[0]).replace(uuid="made-up")  # type: ignore[union-attr]
    record.append(made_up, b"")
    assert (len(record), list(record)) == (21, [*sent, made_up])
    assert (record[-1], record[3:6], record[5]) == (made_up, sent[3:6], sent[5])
    record.check()
