"""The log: every message comes back, from memory and from disk, and memory is bounded."""

import errno
import gc
import mmap
import pickle
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from claude_agent_py import MalformedFrame
from claude_agent_py._connection.runs.message_log import BLOCK_BYTES, MessageLog
from claude_agent_py.errors import BacklogError
from claude_agent_py.testing import frames
from claude_agent_py.wire import decode

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
