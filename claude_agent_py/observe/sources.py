"""Read the frames of a session from the messages of a run or from a recording.

`sessions.entries` reads transcripts.
"""

import json
import os
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from typing import Any, Final

import msgspec

from claude_agent_py._base.bounded_reading import lines_of, open_regular, read_object
from claude_agent_py._base.errors import OptionsError
from claude_agent_py._journal.facts import Fact
from claude_agent_py._journal.fold import ProcessEnd, TimedFrame, fold
from claude_agent_py._journal.skimming import read_outlined, skim
from claude_agent_py.wire.codec import decode
from claude_agent_py.wire.messages.conversation import ResultMessage, UserMessage
from claude_agent_py.wire.timestamps import seconds
from claude_agent_py.wire.unknown import MalformedFrame


def run_frames(
    messages: Iterable[object], times: Sequence[float], sent: Sequence[tuple[UserMessage, float | None]]
) -> Iterator[TimedFrame]:
    """Yield the frames of a run as they passed: its messages, which arrived at these times, and the prompts before.

    Without the times, as of a run that was pickled, they are estimated.
    """
    if not times:
        yield from message_frames(messages, [prompt for prompt, _ in sent])
        return
    first = min((at for _, at in sent if at is not None), default=None)
    waiting = deque(sent)
    for message, at in zip(messages, times, strict=False):  # it may raise after the last one, if others were dropped
        while waiting and (waiting[0][1] or 0.0) <= at:
            prompt, sent_at = waiting.popleft()
            yield prompt, sent_at or first, True
        yield message, at, False


def message_frames(messages: Iterable[object], sent: Iterable[UserMessage] = ()) -> Iterator[TimedFrame]:
    """Yield the frames of a run: its messages, and the prompts that were sent."""
    messages = messages if isinstance(messages, Sequence) else list(messages)
    began = _find_start(messages)
    for prompt in sent:
        yield prompt, began, True
    for index, message in enumerate(messages):
        yield message, None if index else began, False


def _find_start(messages: Iterable[object]) -> float | None:
    """Return when the first turn began, in seconds since the epoch, or None if no message has a time.

    Prompts and the first messages of a turn have no time, so the duration of the turn is subtracted from its end.
    """
    first = latest = None
    took = 0.0
    for message in messages:
        latest = seconds(getattr(message, "timestamp", None)) or latest
        first = first or latest
        if isinstance(message, ResultMessage):
            took += message.duration_ms / 1000
            if latest is not None:
                return min(first or latest, latest - took)
    return first


# Recordings ------------------------------------------------------------------------------------------------------


class _RecordedLine(msgspec.Struct, gc=False):
    """A line of a recording: a frame with its time and direction."""

    t: float = 0.0
    dir: str = ""
    m: msgspec.Raw = msgspec.Raw(b"null")


_read_line: Final = msgspec.json.Decoder(_RecordedLine).decode


def read_recording(path: str | os.PathLike[str]) -> Iterator[Fact]:
    """Yield the journal of a recording, as `Timeline.from_recording` reads it. Blocks.

    Raises:
        OptionsError: The file cannot be read, or contains no frames.
    """
    return fold(recorded_frames(path))


def recorded_frames(path: str | os.PathLike[str]) -> Iterator[TimedFrame]:
    """Yield the frames of a recording: JSON Lines of `t` (seconds), `dir` (`in`: to the CLI, `out`: from it) and `m`
    (the frame). A line with the `dir` `exit` is the end of the process.

    A file of plain frames, as printed by `claude --output-format stream-json`, is a recording without times.

    Raises:
        OptionsError: The file cannot be read, or contains no frames.
    """
    is_empty = True
    try:
        origin = _find_origin(path)
        for frame, t, is_sent in _read_frames(path):
            is_empty = False
            yield frame, None if t is None else origin + t, is_sent
    except OSError as error:
        raise OptionsError(f"cannot read the recording {os.fspath(path)}: {error.strerror or error}") from error
    if is_empty:
        raise OptionsError(f"{os.fspath(path)} is not a recording: none of its lines is a frame")


def _read_frames(path: str | os.PathLike[str]) -> Generator[TimedFrame, None, None]:
    """Yield each frame, its time in the recording and whether it was sent to the CLI."""
    with os.fdopen(open_regular(path), "rb") as file:
        for _, line in lines_of(file, 0, os.fstat(file.fileno()).st_size):
            record = _read_record(line) if line else None
            if not line or record is None:
                continue
            if record.dir in ("in", "out"):
                yield _decode(bytes(record.m)), record.t, record.dir == "in"
            elif record.dir:
                # A note of the recorder, such as the exit of the process.
                yield ProcessEnd() if record.dir == "exit" else None, record.t, False
            elif b'"type"' in line:
                yield _decode(line), None, False


def _read_record(line: bytes) -> _RecordedLine | None:
    try:
        return _read_line(line)
    except RecursionError:
        return None
    except msgspec.DecodeError:
        found = read_object(line)  # it may have lone surrogates
    try:
        return None if found is None else _read_line(json.dumps(found).encode())
    except msgspec.DecodeError:
        return None


def _decode(line: bytes) -> Any:
    """Return a frame, as the session that received it read it."""
    frame = decode(line, report=False)
    return read_outlined(frame, skim(line)) if type(frame) is MalformedFrame and frame.raw is None else frame


def _find_origin(path: str | os.PathLike[str]) -> float:
    """Return when the recording began, in seconds since the epoch, or 0 if none of its frames has a timestamp."""
    with closing(_read_frames(path)) as frames:
        for frame, t, _ in frames:
            timestamp = seconds(getattr(frame, "timestamp", None))
            if timestamp is not None and t is not None:
                return timestamp - t
    return 0.0
