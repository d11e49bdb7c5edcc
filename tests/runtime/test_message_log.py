"""The log: every message comes back, from memory and from disk, and memory is bounded."""

import gc
import pickle
import tracemalloc

import pytest

from claude_agent_py._runtime.runs.message_log import MessageLog
from claude_agent_py.testing import frames
from claude_agent_py.wire.codec import decode
from claude_agent_py.wire.unknown import MalformedFrame


@pytest.mark.parametrize("max_bytes", [0, 300, 100_000, 1 << 20])
def test_a_log_has_what_was_added_wherever_it_is(max_bytes: int) -> None:
    log = MessageLog(max_bytes)
    lines = [frames.encode(frames.assistant(str(number) * (number % 9)))[:-1] for number in range(200)]
    sent = [decode(line) for line in lines]
    for message, line in zip(sent, lines, strict=True):
        log.append(message, line)
    too_long = MalformedFrame(line=b'{"type": "assist', error="it was dropped")
    without_line = [too_long] * (100) + [object()]
    for item in without_line:
        log.append(item, b"")
    log.append(sent[0], lines[0])
    sent += [*without_line, sent[0]]
    assert (len(log), list(log), log) == (len(sent), sent, sent)
    assert (log[-1], log[3:6], log[5]) == (sent[-1], sent[3:6], sent[5])
    with pytest.raises(IndexError):
        log[len(sent)]
    log.check()


def test_a_log_is_a_list_once_it_is_pickled() -> None:
    log = MessageLog(0)
    line = frames.encode(frames.assistant("hi"))[:-1]
    log.append(decode(line), line)
    assert pickle.loads(pickle.dumps(log)) == [decode(line)]


def test_a_message_takes_little_more_than_its_line() -> None:
    log = MessageLog(1 << 30)
    line = frames.encode(frames.assistant("x" * 400))[:-1]
    message = decode(line)
    log.append(message, line)
    gc.collect()
    tracemalloc.start()
    try:
        for _ in range(5000):
            log.append(message, bytes(bytearray(line)))
        held, _ = tracemalloc.get_traced_memory()
        blocks = [trace for trace in tracemalloc.take_snapshot().traces if trace.size < len(line)]
    finally:
        tracemalloc.stop()
    assert held < 5000 * (len(line) + 16) * 1.15
    assert len(blocks) < 500
