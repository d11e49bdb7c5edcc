"""Tests of those who read all messages of a session."""

import threading

import pytest

from claude_agent_py import UnknownMessage
from claude_agent_py._connection.runs.mailbox import Mailbox
from claude_agent_py._connection.runs.readers import Readers


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
