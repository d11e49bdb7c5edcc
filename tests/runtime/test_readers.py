"""Tests of those who read all messages of a session."""

import threading

import pytest

from claude_agent_py._protocol.events import MessageReceived
from claude_agent_py._runtime.runs.mailbox import Mailbox
from claude_agent_py._runtime.runs.readers import Readers
from claude_agent_py.wire.codec import encode
from claude_agent_py.wire.unknown import UnknownMessage


def message(number: int) -> MessageReceived:
    unknown = UnknownMessage({"type": "new", "number": number})
    return MessageReceived(unknown, (), encode(unknown).removesuffix(b"\n"))


def numbers(mailbox: Mailbox) -> list[int]:
    return [mailbox._take().raw["number"] for _ in range(len(mailbox))]


def test_every_reader_gets_every_message() -> None:
    readers = Readers(1000, 1000)
    one, two = readers.add(), readers.add()
    readers.put(message(1))
    readers.remove(one)
    readers.put(message(2))
    assert (len(one), numbers(two)) == (0, [1, 2])


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
        readers.put(message(sent))
        sent += 1
    dropper.join()
    assert numbers(kept) == list(range(sent))
