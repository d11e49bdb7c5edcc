"""Broken sessions: recordings with changed bytes, values and order, through everything that reads what the CLI writes.

python tests/fuzzing.py --seconds 600 --processes 2        prints frames per second; exits with 1 after a problem
python tests/fuzzing.py --seed 123                         plays the session of a problem again

Nothing may raise, log a failure (a view that drops an item logs it), take time out of proportion, or keep memory.
"""

import argparse
import contextlib
import copy
import gc
import json
import logging
import multiprocessing
import random
import re
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from recordings_loader import as_line, names, records

from claude_agent_py import ClaudeAgentError, TaskManager, UserMessage
from claude_agent_py._journal.engine import Engine
from claude_agent_py._journal.events import ReplyReceived, RequestUnreadable, StreamEnded
from claude_agent_py._journal.open_runs import NO_LIMITS, OpenRun, RunEnded
from claude_agent_py._journal.router import TurnRouter
from claude_agent_py._journal.routes import route
from claude_agent_py._journal.state import Step
from claude_agent_py.acp.updates import Updates
from claude_agent_py.cli._chat.conversation import Conversation
from claude_agent_py.control import ControlRequest
from claude_agent_py.journal import Journal, decode_fact, encode_fact
from claude_agent_py.messages import to_api_messages
from claude_agent_py.observe import Timeline
from claude_agent_py.tasks import TaskIntake
from claude_agent_py.todo import TaskList
from claude_agent_py.wire import decode, encode

LINE_BYTES: Final = 20_000
"""Longer lines of recordings are left out: they cost time and have nothing that shorter ones lack."""
SESSION_FRAMES: Final = 80
MAX_LINE_BYTES: Final = 1 << 16
SLOW: Final = 0.02
"""Seconds of CPU time that a frame may take on average; a frame takes some 0.2 ms on a small machine."""

ODD: Final[Sequence[Any]] = (
    *(
        None,
        True,
        False,
        0,
        -1,
        1,
        2**31,
        2**63,
        -(2**64),
        10**400,
        0.5,
        -0.0,
        1e308,
        "",
        " ",
        "\x00",
        "a",
        "id",
        "completed",
    ),
    *(
        "\ud800",
        "\u2028",
        "\x1b[31m",
        "é" * 300,
        "x" * 5000,
        "2026-01-01T00:00:00Z",
        "not a date",
        [],
        {},
        [[]],
        [{}],
        {"": None},
    ),
    *(
        {"type": "text"},
        {"type": "tool_use"},
        {"type": "text", "text": 5},
        [None, 1, "a", {"type": "tool_result"}],
        {"a": {"b": []}},
    ),
)
"""Values that replace others."""
BYTES: Final = (
    b"",
    b"\x00",
    b"\xff",
    b"\n",
    b'"',
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\xed\xa0\x80",
    b"1e999",
    b"NaN",
)


# Sessions -------------------------------------------------------------------------------------------------------------


@cache
def sessions() -> list[list[tuple[bool, dict[str, Any]]]]:
    """Return the frames of each recording, each with whether it was sent to the CLI."""
    found = []
    for name in names():
        kept = [
            (record.direction == "in", record.value)
            for record in records(name)
            if record.direction in ("in", "out")
            and isinstance(record.value, dict)
            and len(as_line(record.value)) < LINE_BYTES
        ]
        if kept:
            found.append(kept)
    return found


def break_session(rng: random.Random) -> list[tuple[bool, bytes]]:
    """Return the lines of a recorded session after some accidents."""
    frames = list(rng.choice(sessions()))
    if len(frames) > SESSION_FRAMES:
        start = rng.randrange(len(frames) - SESSION_FRAMES)
        frames = frames[start : start + SESSION_FRAMES]
    for _ in range(rng.randrange(6)):
        at, other = rng.randrange(len(frames) + 1), rng.choice(rng.choice(sessions()))
        frames[at:at] = rng.choice((frames[max(at - 3, 0) : at], [other], frames[:at][-1:] * 3, []))
        if rng.random() < 0.5:
            del frames[at : at + rng.randrange(4)]
        if rng.random() < 0.3:
            frames[at : at + 6] = rng.sample(frames[at : at + 6], len(frames[at : at + 6]))
    rate = rng.choice((0.02, 0.1, 0.5))
    return [(sent, break_line(frame, rng) if rng.random() < rate else as_line_of(frame)) for sent, frame in frames]


def break_line(frame: dict[str, Any], rng: random.Random) -> bytes:
    """Return the line of a frame with changed values, changed bytes, or both."""
    kind = rng.random()
    if kind < 0.75:
        frame = copy.deepcopy(frame)
        for _ in range(rng.choice((1, 1, 2, 5))):
            break_value(frame, rng)
    line = as_line_of(frame)
    return line if kind < 0.6 else break_bytes(line, rng)


def break_value(frame: dict[str, Any], rng: random.Random) -> None:
    """Change one value of a frame: another type, a value of another frame, a missing or an unknown key."""
    found = list(places(frame))
    if not found:
        return
    holder, key = rng.choice(found)
    action = rng.random()
    if action < 0.15:
        del holder[key]
    elif action < 0.25 and isinstance(holder, dict):
        holder[rng.choice(("new", "", "type", "id", "uuid", "isSidechain", "subtype"))] = holder.pop(key)
    elif action < 0.35:
        holder[key] = nest(holder[key], rng.choice((1, 3, 60)), rng)
    elif action < 0.6:
        source, name = rng.choice(list(places(rng.choice(rng.choice(sessions()))[1])))
        holder[key] = copy.deepcopy(source[name])
    else:
        holder[key] = copy.deepcopy(rng.choice(ODD))


def nest(value: Any, levels: int, rng: random.Random) -> Any:
    for _ in range(levels):
        value = [value] if rng.random() < 0.5 else {"a": value}
    return value


def places(value: Any, depth: int = 0) -> Iterator[tuple[Any, Any]]:
    """Yield the containers of a value with each of their keys or indices."""
    for key, item in list(value.items() if isinstance(value, dict) else enumerate(value)):
        yield value, key
        if isinstance(item, dict | list) and depth < 8:
            yield from places(item, depth + 1)


def break_bytes(line: bytes, rng: random.Random) -> bytes:
    """Cut, repeat, insert and change bytes."""
    for _ in range(rng.choice((1, 1, 3))):
        start = rng.randrange(len(line) + 1)
        end = min(len(line), start + rng.choice((0, 1, 2, 30, 1000)))
        part = rng.choice((rng.choice(BYTES), line[start:end] * 2, bytes([rng.randrange(256)]), b""))
        line = line[:start] + part + line[end:]
    return line if line.endswith(b"\n") or rng.random() < 0.2 else line + b"\n"


def as_line_of(frame: Any) -> bytes:
    """Return a frame as JSON. A lone surrogate becomes an escape."""
    return json.dumps(frame, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"


# What reads them ------------------------------------------------------------------------------------------------------


class Problem(Exception):
    """A session was not read as it should be."""


class _Failures(logging.Handler):
    """Collects what the package logs about failures."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info or record.levelno >= logging.ERROR:
            self.records.append(record)


@contextlib.contextmanager
def no_failures() -> Iterator[None]:
    """Raise if the package logs a failure."""
    handler, log = _Failures(), logging.getLogger("claude_agent_py")
    propagates, log.propagate = log.propagate, False
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.propagate = propagates
    for record in handler.records:
        shown = "" if not record.exc_info else "".join(traceback.format_exception(*record.exc_info))
        raise Problem(f"{record.getMessage()}\n{shown}")


@dataclass
class Reader:
    """All that reads a session."""

    rng: random.Random
    now: float = 100.0
    facts: list[Any] = field(default_factory=list)
    messages: list[Any] = field(default_factory=list)
    sent: list[UserMessage] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.engine = Engine(max_line_bytes=MAX_LINE_BYTES)
        self.engine.advance(Step.START)
        self.intake = TaskIntake(clock=lambda: self.now)
        self.router = TurnRouter(self.intake.ledger.live_ids, self.intake.ledger.causes_follow_up)
        self.journal = Journal()
        self.manager = TaskManager()
        self.chat, self.editor, self.items = Conversation(), Updates("/work"), TaskList()
        self.ended: set[OpenRun] = set()

    def read(self, lines: Sequence[tuple[bool, bytes]]) -> None:
        """Read the lines of a session in pieces of any size, and what it becomes."""
        for is_sent, line in lines:
            self.now += self.rng.choice((0.0, 0.01, 5.0))
            if is_sent:
                self._send(line)
                continue
            cut = self.rng.randrange(len(line) + 1) if self.rng.random() < 0.2 else 0
            for part in (line[:cut], line[cut:]):
                self._hear(self.engine.receive_data(part))
        self._hear(self.engine.receive_eof())
        self._note(self.router.close())
        self._add(self.journal.end(self.now))

    def show(self) -> None:
        """Make everything that shows a whole session."""
        timeline = Timeline.from_facts(self.facts)
        timeline.to_html()
        json.dumps(timeline.to_chrome_trace())
        Timeline.from_messages(self.messages, self.sent)
        with contextlib.suppress(ClaudeAgentError):
            json.dumps(to_api_messages(self.messages, self.sent))
        for task in self.manager:
            _ = task.status, task.summary, task.usage, task.depth, repr(task)
        _ = str(self.manager.tree()), list(self.items)

    def _send(self, line: bytes) -> None:
        """Send a frame. Only one that fits its model is sent."""
        frame: Any = decode(line)
        encode(frame)
        self._add(self.journal.feed(frame, self.now, sent=True))
        if isinstance(frame, UserMessage) and frame.uuid:
            self.sent.append(frame)
            run = OpenRun(self.rng.choice(("result", "idle")), NO_LIMITS)
            self.router.open_run(run, self.now)
            self.router.add_prompt(run, frame.uuid, self.now)
            self._note(self.router.seal_run(run, self.now))

    def _hear(self, events: Sequence[Any]) -> None:
        for event in events:
            if isinstance(event, ControlRequest | RequestUnreadable):
                self.engine.answer(event.request_id, {})
            if isinstance(event, ControlRequest):
                self.intake.track(event)
                self._add(self.journal.feed(event, self.now))
            if isinstance(event, ControlRequest | RequestUnreadable | ReplyReceived | StreamEnded):
                continue
            encode(event) if not hasattr(event, "error") else repr(event)
            runs = route(self.router, event, self.now)
            assert not self.ended.intersection(runs), "a run that has ended got a message"
            self.intake.track(event)
            self._note(self.router.settle(self.now))
            if self.router.next_deadline() <= self.now:
                self._note(self.router.tick(self.now))
                assert self.router.next_deadline() > self.now, "the driver would spin"
            self.messages.append(event)
            self.manager.track(event)
            self.chat.apply(event)
            list(self.editor.feed(event))
            self._add(self.journal.feed(event, self.now))
        self.engine.data_to_send()

    def _note(self, verdicts: Sequence[Any]) -> None:
        for verdict in verdicts:
            if isinstance(verdict, RunEnded):
                assert verdict.run not in self.ended, "a run ended twice"
                self.ended.add(verdict.run)

    def _add(self, facts: Sequence[Any]) -> None:
        for fact in facts:
            line = encode_fact(fact)
            again = encode_fact(decode_fact(line))
            assert again == line or json.loads(again) == json.loads(line), (
                f"a fact changes on its way: {line!r} {again!r}"
            )
            self.chat.apply(fact)
            list(self.editor.feed(fact))
            self.items.track(fact)
        self.facts.extend(facts)


def play(seed: int) -> int:
    """Break a session and read it, and return the number of its frames.

    Raises:
        Problem: It was not read as it should be; the text names the seed.
    """
    rng = random.Random(seed)
    lines = break_session(rng)
    began = time.process_time()
    try:
        with no_failures():
            reader = Reader(rng)
            reader.read(lines)
            reader.show()
    except Exception as error:
        raise Problem(f"seed {seed}: {''.join(traceback.format_exception(error))}") from None
    took = time.process_time() - began
    if took > SLOW * (len(lines) + 10):
        raise Problem(f"seed {seed}: {len(lines)} frames took {took:.2f} s")
    return len(lines)


# Long sessions --------------------------------------------------------------------------------------------------------

IDS: Final = re.compile(
    rb'"(?:uuid|tool_use_id|id|task_id|agent_id|message_uuid|user_message_uuid|request_id)":"([^"]{3,})"'
)


def repeat(lines: Sequence[tuple[bool, bytes]], times: int) -> list[tuple[bool, bytes]]:
    """Return a session several times, each with ids that nothing else has."""
    ids = sorted({found for _, line in lines for found in IDS.findall(line)}, key=len, reverse=True)
    pattern = re.compile(b"|".join(map(re.escape, ids)) or b"(?!)")
    return [
        (is_sent, pattern.sub(lambda found, number=number: b"%s-%d" % (found[0], number), line))  # type: ignore[misc]
        for number in range(times)
        for is_sent, line in lines
    ]


def measure(lines: Sequence[tuple[bool, bytes]], attempts: int = 3) -> float:
    """Return the least CPU time in seconds that reading a session took."""
    taken = []
    for _ in range(attempts):
        began = time.process_time()
        reader = Reader(random.Random(0))
        reader.read(lines)
        reader.show()
        taken.append(time.process_time() - began)
    return min(taken)


def find_disproportionate(report: Callable[[str], object]) -> int:
    """Return how many recordings take more than 7 times as long to read if they are 4 times as long."""
    found = 0
    for session in sessions():
        lines = [(sent, as_line_of(frame)) for sent, frame in session]
        times = min(400 // len(lines), 100_000 // sum(len(line) for _, line in lines))
        if not times:
            continue
        short, long = repeat(lines, times), repeat(lines, 4 * times)
        if (slow := measure(long, 1)) > 0.3 and (slow := measure(long)) > 7 * (fast := measure(short)):
            found += 1
            report(f"{len(long)} frames took {slow:.2f} s, {len(short)} took {fast:.2f} s: {lines[0][1][:200]!r}")
    return found


# The program ----------------------------------------------------------------------------------------------------------


def run(first: int, step: int, seconds: float, report: Callable[[str], object]) -> tuple[int, int, int]:
    """Play sessions for some seconds. Return how many frames and sessions they were, and how many failed."""
    frames = played = failed = 0
    end, shown, objects = time.monotonic() + seconds, time.monotonic() + 60, 0
    for seed in range(first, sys.maxsize, step):
        if time.monotonic() > end:
            break
        try:
            frames += play(seed)
        except Problem as problem:
            failed += 1
            report(str(problem))
        played += 1
        if played == 500:
            gc.collect()
            objects = len(gc.get_objects())
        if time.monotonic() > shown:
            shown += 60
            report(f"{frames} frames, {played} sessions, {failed} failed")
    gc.collect()
    grown = len(gc.get_objects()) - objects
    if objects and grown > 20_000:
        failed += 1
        report(f"{grown} more objects than after 500 sessions")
    return frames, played, failed


def _worker(arguments: tuple[int, int, float]) -> tuple[int, int, int]:
    return run(*arguments, report=lambda text: print(text, flush=True))


def main() -> int:
    parser = argparse.ArgumentParser(description="Play broken sessions.")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--first", type=int, default=1_000_000, help="the first seed")
    parser.add_argument("--seed", type=int, help="play this session only")
    given = parser.parse_args()
    if given.seed is not None:
        print(f"{play(given.seed)} frames")
        return 0
    began = time.monotonic()
    with multiprocessing.Pool(given.processes) as pool:
        arguments = [(given.first + each, given.processes, given.seconds) for each in range(given.processes)]
        results = pool.map(_worker, arguments)
    frames, played, failed = (sum(each) for each in zip(*results, strict=True))
    took = time.monotonic() - began
    print(f"{frames} frames played; now long sessions")
    failed += find_disproportionate(print)
    print(f"{frames} frames of {played} sessions in {took:.0f} s, {frames / took:.0f} per second; {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
