"""The mailbox: nothing is lost, the order is kept, memory is bounded, and a reader may come and go."""

import json
import tempfile
import tracemalloc
from typing import Any

import anyio
import pytest
from bounds import set_bound
from hypothesis import given, strategies as st
from recordings_loader import lines

from claude_agent_py import MalformedFrame, UnknownMessage
from claude_agent_py._connection.runs.mailbox import Mailbox
from claude_agent_py._connection.runs.message_log import BLOCK_BYTES
from claude_agent_py.errors import LocalProtocolError
from claude_agent_py.wire import decode

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
