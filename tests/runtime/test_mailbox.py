"""Messages on their way to those who read them, and what a store was not sent of them."""

import errno
import gc
import json
import mmap
import os
import pickle
import random
import sys
import tempfile
import threading
import tracemalloc
import warnings
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import pytest
from bounds import set_bound
from hypothesis import given, strategies as st
from recordings_loader import lines

from claude_agent_py import MalformedFrame, Run, UnknownMessage, UserMessage
from claude_agent_py._connection.mirror_check import MirrorCheck
from claude_agent_py._connection.runs.mailbox import Mailbox
from claude_agent_py._connection.runs.message_log import BLOCK_BYTES, MessageLog
from claude_agent_py._connection.runs.readers import Readers
from claude_agent_py._connection.runs.run_state import RunState
from claude_agent_py._journal.open_runs import RunEnded
from claude_agent_py.errors import BacklogError, LocalProtocolError
from claude_agent_py.messages import StreamEventMessage, UserContent
from claude_agent_py.testing import frames
from claude_agent_py.wire import codec, decode

pytestmark = pytest.mark.anyio


MANY = 1000


def message(number: int, length: int = 0) -> Any:
    return decode(json.dumps({"type": "numbered", "n": number, "x": "x" * length}).encode())


async def rest(mailbox: Mailbox) -> list[Any]:
    """Read until the mailbox has ended."""
    found: list[Any] = []
    with anyio.fail_after(30):
        while True:
            try:
                found.append(await mailbox.get())
            except StopAsyncIteration:
                return found


async def test_messages_come_in_order_and_then_the_end() -> None:
    mailbox = Mailbox(1000)
    sent = [message(number) for number in range(10)]
    for one in sent:
        mailbox.put(one)
    mailbox.close()
    assert len(mailbox) == 10
    assert await rest(mailbox) == sent
    assert len(mailbox) == 0


async def test_a_reader_waits_for_the_next_message() -> None:
    mailbox = Mailbox(1000)
    found: list[Any] = []
    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:

            async def read() -> None:
                found.append(await mailbox.get())

            group.start_soon(read)
            await anyio.wait_all_tasks_blocked()
            assert found == []
            mailbox.put(message(1))
    assert found == [message(1)]


async def test_the_end_wakes_a_reader() -> None:
    mailbox = Mailbox(1000)
    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:

            async def read() -> None:
                assert await rest(mailbox) == []

            group.start_soon(read)
            await anyio.wait_all_tasks_blocked()
            mailbox.close()


async def test_after_the_end_nothing_is_taken_in() -> None:
    mailbox = Mailbox(1000)
    mailbox.put(message(1))
    mailbox.close()
    mailbox.put(message(2))
    mailbox.put("three")
    assert await rest(mailbox) == [message(1)]
    assert await rest(mailbox) == []


# On disk


async def test_messages_beyond_the_limit_wait_on_disk_in_order() -> None:
    mailbox = Mailbox(200)
    for number in range(50):
        mailbox.put(message(number, length=25))
    assert len(mailbox) == 50
    assert [await mailbox.get() for _ in range(10)] == [message(number, length=25) for number in range(10)]
    mailbox.put(message(50, length=25))  # there is room in memory again, but its place is behind the others
    mailbox.close()
    assert await rest(mailbox) == [message(number, length=25) for number in range(10, 51)]


async def test_once_the_disk_is_empty_memory_is_used_again() -> None:
    mailbox = Mailbox(10)
    for round_ in range(3):
        sent = [message(round_ * 10 + number) for number in range(4)]
        for one in sent:
            mailbox.put(one)
        assert [await mailbox.get() for _ in sent] == sent
        assert len(mailbox) == 0


async def test_a_message_that_is_larger_than_the_limit_is_not_lost() -> None:
    mailbox = Mailbox(10)
    mailbox.put(message(1, length=100_000))
    assert await mailbox.get() == message(1, length=100_000)


async def test_every_message_comes_back_from_disk_as_it_was() -> None:
    mailbox = Mailbox(0)
    sent = [
        decode(line.rstrip(b"\n"))
        for name in ("tasks/s03_parallel_fg", "turns/stream_broken_twice")
        for line in lines(name)
    ]
    sent += [
        UserMessage(message=UserContent(role="user", content="made here")),
        UnknownMessage({"type": "new", "text": "\u2028 \U0001f600"}),
        decode(b"no json at all"),
        UnknownMessage({"type": "new", "text": "\ud800"}),
        decode(b'{"type": "result"}'),
        MalformedFrame(line=b'{"type": "assist', error="the line is too long; it was dropped", is_whole=False),
    ]
    for one in sent:
        mailbox.put(one)
    mailbox.close()
    found = await rest(mailbox)
    assert found == sent
    assert [type(one) for one in found] == [type(one) for one in sent]


async def test_memory_stays_bounded_however_much_waits() -> None:
    mailbox = Mailbox(100_000)
    message(0)
    tracemalloc.start()
    try:
        for number in range(1000):
            mailbox.put(message(number, length=10_000))
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 3_000_000  # of 10 MB; the buffer of the file is 1 MiB
    assert len(mailbox) == 1000
    mailbox.close()
    assert [one.raw["n"] for one in await rest(mailbox)] == list(range(1000))


@given(st.lists(st.one_of(st.integers(0, 40), st.none()), max_size=60), st.integers(0, 200))
def test_any_mixture_of_writing_and_reading_keeps_the_order(steps: list[int | None], limit: int) -> None:
    async def play() -> None:
        mailbox = Mailbox(limit)
        sent: list[Any] = []
        found: list[Any] = []
        for number, size in enumerate(steps):
            if size is not None:
                sent.append(message(number, length=size))
                mailbox.put(sent[-1])
            elif len(mailbox):
                found.append(await mailbox.get())
        mailbox.close()
        assert found + await rest(mailbox) == sent

    anyio.run(play)


async def test_messages_without_a_line_stay_in_memory_in_order() -> None:
    mailbox = Mailbox(0)
    first, second, last = object(), object(), object()
    mailbox.put(first)
    mailbox.put(message(1))
    mailbox.put(second)
    assert [await mailbox.get(), await mailbox.get()] == [first, message(1)]
    mailbox.put(message(2))
    mailbox.put(last)
    assert len(mailbox) == 3
    mailbox.close()
    assert await rest(mailbox) == [second, message(2), last]


# Lines in place of messages


async def test_until_somebody_reads_the_line_waits_in_place_of_the_message(monkeypatch: pytest.MonkeyPatch) -> None:
    set_bound(monkeypatch, "SLICE", 30.0)
    mailbox = Mailbox(1000)
    made_up, known, waiting = object(), message(0), message(1)
    mailbox.put(waiting)
    mailbox.put(made_up)
    first = await mailbox.get()
    assert first == waiting
    assert first is not waiting
    assert await mailbox.get() is made_up
    assert mailbox.get_nowait() is None
    mailbox.put(known)
    assert await mailbox.get() is known


async def test_behind_a_reader_who_is_far_behind_lines_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    set_bound(monkeypatch, "DECODED_BYTES", 80)
    set_bound(monkeypatch, "SLICE", 30.0)
    mailbox = Mailbox(1000)
    sent = [message(number) for number in range(5)]
    mailbox.put(sent[0])
    await mailbox.get()
    assert mailbox.get_nowait() is None
    for one in sent:
        mailbox.put(one)
    found = [await mailbox.get() for _ in sent]
    assert found == sent
    assert [mine is theirs for mine, theirs in zip(found, sent, strict=True)] == [True, True, True, False, False]
    assert mailbox.get_nowait() is None
    mailbox.put(sent[0])
    assert await mailbox.get() is sent[0]  # the reader keeps up again


# Readers


async def test_there_is_one_reader_at_a_time() -> None:
    mailbox = Mailbox(1000)
    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(rest, mailbox)
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(LocalProtocolError, match="another coroutine is already reading"):
                await mailbox.get()
            mailbox.close()


async def test_another_reader_may_take_over() -> None:
    mailbox = Mailbox(1000)
    with anyio.fail_after(30):
        with anyio.move_on_after(0):
            await mailbox.get()
        mailbox.put(message(1))
        assert await mailbox.get() == message(1)


async def test_a_cancelled_reader_loses_nothing() -> None:
    mailbox = Mailbox(100)
    found: list[Any] = []
    sent = [message(number) for number in range(10)]
    scopes: list[anyio.CancelScope] = []

    async def read() -> None:
        while len(found) < len(sent):
            with anyio.CancelScope() as scope:
                scopes.append(scope)
                while True:
                    found.append(await mailbox.get())

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(read)
            for one in sent:
                await anyio.wait_all_tasks_blocked()
                mailbox.put(one)
                scopes[-1].cancel()
            await anyio.wait_all_tasks_blocked()
            scopes[-1].cancel()
    assert found == sent


async def test_a_reader_who_never_has_to_wait_can_be_cancelled_all_the_same() -> None:
    mailbox = Mailbox(1 << 20)
    for number in range(MANY):
        mailbox.put(message(number))
    with anyio.CancelScope() as scope:
        scope.cancel()
        for _ in range(MANY):
            await mailbox.get()
    assert scope.cancelled_caught
    mailbox.close()
    assert (await rest(mailbox))[-1] == message(MANY - 1)


async def test_a_reader_who_never_has_to_wait_lets_the_others_work(monkeypatch: pytest.MonkeyPatch) -> None:
    set_bound(monkeypatch, "SLICE", 0.0)
    mailbox = Mailbox(1 << 20)
    for number in range(MANY):
        mailbox.put(message(number))
    mailbox.close()
    steps = 0

    async def work() -> None:
        nonlocal steps
        while len(mailbox):
            steps += 1
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as group:
        group.start_soon(work)
        await rest(mailbox)
    assert steps >= 5


async def test_a_message_may_be_added_while_the_mailbox_is_discarded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The garbage collector discards it, at any step of the pump, which goes on."""
    mailbox = Mailbox(0)
    make_file = tempfile.TemporaryFile

    def collect(**keywords: Any) -> Any:
        file = make_file(**keywords)
        mailbox.discard()
        return file

    monkeypatch.setattr(tempfile, "TemporaryFile", collect)
    for number in range(3):
        mailbox.put(message(number, length=BLOCK_BYTES))
    assert len(mailbox) == 0


def test_a_discarded_mailbox_records_nothing_for_another_process() -> None:
    mailbox = Mailbox(1 << 20)
    mailbox.discard()
    mailbox.reopen()
    mailbox.put(message(1), is_recorded=True)
    assert len(mailbox.recorded) == len(mailbox) == 0


MEBIBYTE = 1024 * 1024


def resident() -> int:
    """Return the resident memory of this process in bytes. The blocks of a log are not part of Python's heap."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.parametrize("max_bytes", [0, 3 * BLOCK_BYTES, 1 << 30])
def test_a_log_has_what_was_added_wherever_it_is(max_bytes: int) -> None:
    log = MessageLog(max_bytes)
    sizes = [number % 9 * 500 for number in range(200)] + [5 * BLOCK_BYTES, 1, BLOCK_BYTES] * 2
    lines = [frames.encode(frames.assistant("x" * size + str(size)))[:-1] for size in sizes]
    sent: list[Any] = [decode(line) for line in lines]
    for message, line in zip(sent, lines, strict=True):
        log.append(message, line)
    too_long = MalformedFrame(line=b'{"type": "assist', error="it was dropped")
    without_line = [too_long, object(), too_long]
    for item in without_line:
        log.append(item, b"")
    log.append(sent[0], lines[0])
    sent += [*without_line, sent[0]]
    assert (len(log), list(log)) == (len(sent), sent)
    assert log == sent
    assert (log[-1], log[3:6], log[5]) == (sent[-1], sent[3:6], sent[5])
    assert [log[position] for position in reversed(range(len(log)))] == sent[::-1]
    with pytest.raises(IndexError):
        log[len(sent)]
    log.check()


def test_reading_while_more_comes() -> None:
    log = MessageLog(0)
    lines = [frames.encode(frames.assistant(str(number) * 300))[:-1] for number in range(200)]
    for position, line in enumerate(lines):
        log.append(decode(line), line)
        assert log[position] == decode(line)
        assert log[position // 2] == decode(lines[position // 2])
    log.clear()
    assert list(log) == []
    log.append(decode(lines[7]), lines[7])
    assert list(log) == [decode(lines[7])]


def test_a_log_with_a_file_may_be_dropped_in_a_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    """The garbage collector finalizes the objects of a cycle in any order: here, a file before the log."""
    older = [tempfile.TemporaryFile(buffering=0)]  # noqa: SIM115 - the log takes it over
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_keywords: older.pop())
    log = MessageLog(0)
    line = frames.encode(frames.assistant("x" * BLOCK_BYTES))[:-1]
    log.append(decode(line), line)
    cycle: list[Any] = [log]
    cycle.append(cycle)
    del log, cycle
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gc.collect()


def test_a_log_is_a_list_once_it_is_pickled() -> None:
    log = MessageLog(0)
    line = frames.encode(frames.assistant("hi"))[:-1]
    log.append(decode(line), line)
    assert pickle.loads(pickle.dumps(log)) == [decode(line)]


def test_without_memory_messages_are_dropped_and_the_rest_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memory(*_args: Any, **_keywords: Any) -> Any:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    log = MessageLog(1 << 20)
    lines = [frames.encode(frames.assistant("x" * BLOCK_BYTES, uuid=str(number)))[:-1] for number in range(3)]
    log.append(decode(lines[0]), lines[0])
    monkeypatch.setattr(mmap, "mmap", no_memory)
    log.append(decode(lines[1]), lines[1])
    monkeypatch.undo()
    log.append(decode(lines[2]), lines[2])  # not after a gap
    kept = iter(log)
    assert next(kept) == decode(lines[0])
    with pytest.raises(BacklogError, match="Cannot allocate memory"):
        next(kept)


def test_a_message_that_is_dropped_is_never_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_arguments: object) -> None:
        seen.append((len(log), len(log.times)))  # as another thread sees it meanwhile
        raise OSError(errno.ENOSPC, "No space left on device")

    log, seen = MessageLog(0), list[tuple[int, int]]()
    lines = [frames.encode(frames.assistant("x" * size, uuid=str(size)))[:-1] for size in (100, 300_000)]
    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    for line in lines:
        log.append(decode(line), line)
    assert (seen, len(log), log.is_full) == ([(1, 1)], 1, True)
    assert log[0] == decode(lines[0])


@pytest.mark.skipif(sys.platform == "win32", reason="reads in another way there")
@pytest.mark.parametrize(
    ("fault", "says"), [(OSError(errno.EIO, "Input/output error"), "Input/output error"), (b"", "was truncated")]
)
def test_a_temporary_file_that_cannot_be_read_is_an_error_and_the_rest_stays(
    fault: Any, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(*_arguments: object) -> bytes:
        if isinstance(fault, OSError):
            raise fault
        return bytes(fault)

    log = MessageLog(0)
    lines = [frames.encode(frames.assistant("x" * 200_000, uuid=str(number)))[:-1] for number in range(2)]
    for line in lines:
        log.append(decode(line), line)
    monkeypatch.setattr(os, "pread", read)
    with pytest.raises(BacklogError, match=says):
        list(log)
    monkeypatch.undo()
    assert list(log) == log == [decode(line) for line in lines]
    assert log != "messages"


def test_several_threads_read_a_log() -> None:
    lines = [frames.encode(frames.assistant("x" * 200, uuid=str(number)))[:-1] for number in range(3000)]
    log = MessageLog(4 * BLOCK_BYTES)
    for line in lines:
        log.append(decode(line), line)

    def read(seed: int) -> list[str]:
        order = random.Random(seed).choices(range(len(lines)), k=2000)
        return [uuid for position in order if (uuid := log[position].uuid) != str(position)]

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(4) as threads:
            assert list(threads.map(read, range(4))) == [[]] * 4
    finally:
        sys.setswitchinterval(interval)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_is_the_length_of_the_lines_up_to_the_bound() -> None:
    line = frames.encode(frames.assistant("x" * 400))[:-1]
    message = decode(line)
    for max_bytes, most in ((1 << 30, 6 * MEBIBYTE), (1 * MEBIBYTE, 3 * MEBIBYTE)):
        log = MessageLog(max_bytes)
        gc.collect()
        before = resident()
        for _ in range(24 * MEBIBYTE // len(line)):
            log.append(message, line)
        assert resident() - before < most
        assert log[-1] == message
        log.clear()
        assert resident() - before < MEBIBYTE


def put(readers: Readers, number: int) -> None:
    readers.put(UnknownMessage({"type": "new", "number": number}), is_of_run=False)


def numbers(mailbox: Mailbox) -> list[int]:
    messages = [mailbox._take() for _ in range(len(mailbox))]
    return [message.raw["number"] for message in messages if message is not None]


def test_every_reader_gets_every_message() -> None:
    readers = Readers(1000, 1000)
    one, two = readers.add(), readers.add()
    put(readers, 1)
    readers.remove(one)
    put(readers, 2)
    assert (numbers(one), numbers(two)) == ([1], [1, 2])


@pytest.mark.usefixtures("eager_switching")
def test_a_reader_dropped_in_another_thread_takes_no_message_from_the_others() -> None:
    readers = Readers(1 << 20, 1000)
    dropped = [readers.add() for _ in range(2000)]
    kept = readers.add()

    def drop() -> None:
        for mailbox in dropped:
            readers.remove(mailbox)

    dropper = threading.Thread(target=drop)
    dropper.start()
    sent = 0
    while dropper.is_alive():
        put(readers, sent)
        sent += 1
    dropper.join()
    assert numbers(kept) == list(range(sent))


RESULT = frames.result("hi", user_message_uuid="p", user_message_uuids=["p"])


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def tell(run: RunState, *said: dict[str, Any]) -> list[Any]:
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
    sent = tell(run, frames.text_stream("h")[1], frames.assistant("hi"), RESULT)
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
    sent = tell(run, *said)
    got = await read(mailbox, before)
    sent += tell(run, *said)
    assert got + await read(mailbox, 400 - before) == sent
    sent += tell(run, *said)
    assert await read(mailbox, 200) == sent[400:]
    assert len(mailbox) == 0
    assert list(mailbox.recorded) == [message for message in sent if message.type == "assistant"]


async def test_a_run_that_is_awaited_first_keeps_no_deltas() -> None:
    run = RunState(1000)
    mailbox = run.mailbox
    delta, said = frames.text_stream("h")[1], frames.assistant("hi")
    tell(run, delta, said)
    mailbox.skip_unrecorded()
    sent = tell(run, delta, said, delta)
    assert (len(mailbox), await read(mailbox, 2)) == (2, [sent[1], sent[1]])
    sent = tell(run, delta, said)
    assert (len(mailbox), await read(mailbox, 1)) == (1, [sent[1]])


async def test_awaiting_takes_no_deltas_from_a_reader_who_has_begun() -> None:
    run = RunState(1000)
    mailbox = run.mailbox
    sent = tell(run, frames.assistant("hi"), frames.text_stream("h")[1])
    assert await mailbox.get() == sent[0]
    mailbox.skip_unrecorded()
    sent += tell(run, frames.text_stream("h")[1])
    assert await read(mailbox, 2) == sent[1:]


@pytest.mark.usefixtures("no_collector")
async def test_a_run_that_nobody_has_is_gone_with_its_file_at_once() -> None:
    run = RunState(0)
    view = Run(None, run)
    [sent] = tell(run, frames.assistant("hi"))
    assert list(run.mailbox.recorded) == [sent]
    messages, state = weakref.ref(run.mailbox.recorded), weakref.ref(run)
    del view
    assert messages() is None  # although the session still has the run
    tell(run, RESULT)
    assert len(run.mailbox.recorded) == 0
    run.finish(RunEnded(run, "result"))
    assert run.is_over
    del run
    assert state() is None


@pytest.mark.parametrize("lost", ["answer", "tool result", None])
def test_one_lost_message_is_counted(lost: str | None) -> None:
    call = frames.assistant([frames.tool_use_block("Bash", {"command": "ls"}, id="toolu_1")])
    said = {"answer": call, "tool result": frames.tool_result("toolu_1", "a file")}
    check = MirrorCheck()
    for frame in said.values():
        check.take(codec.decode(frames.encode(frame).strip()))
    check.mirror([frame for name, frame in said.items() if name != lost])
    assert check.end() == (0 if lost is None else 1)
