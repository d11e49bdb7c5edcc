"""The conversations to replay, as lines of the CLI.

`assistant` and `deltas` are messages of one kind; `mixed` is like a turn of the main agent while a task runs.
`streamed` repeats a recording of the real CLI: a turn with partial messages, thinking and a tool. `subagents` repeats
that and two recordings with many subagents, with new task ids each time. All begin and end like a turn.
"""

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from benchmarks.replaying_cli import PROMPT
from claude_agent_py.testing import frames

JSONObject: TypeAlias = dict[str, Any]

RECORDINGS: Final = Path(__file__).parent.parent / "tests" / "recordings"
STREAMED: Final = ("turns/stream_with_thinking_and_tool",)
SUBAGENTS: Final = (*STREAMED, "tasks/s03_parallel_fg", "tasks/s04_nested_bg")
NOT_REPLAYED: Final = ("control_request", "control_response", "control_cancel_request", "command_lifecycle", "result")
"""Frames that belong to the recorded process, or end a run."""

TASK: Final = "a5e55107d00000001"
TEXT: Final = "The parser reads a line, finds the frame in it and hands it on; what it does not know it keeps. " * 2


def assistant() -> Iterator[JSONObject]:
    """Texts of the main agent."""
    while True:
        yield frames.assistant(TEXT)


def deltas() -> Iterator[JSONObject]:
    """Partial messages: pieces of text."""
    while True:
        delta = {"type": "text_delta", "text": " and hands it on"}
        yield frames.stream_event({"type": "content_block_delta", "index": 0, "delta": delta})


def mixed() -> Iterator[JSONObject]:
    """A fifth each: texts, tool calls, their results, partial messages, and progress of a task that was started."""
    yield frames.task_started(TASK)
    for number in itertools.count():
        call = f"toolu_{number:020d}"
        yield frames.assistant(TEXT)
        yield frames.assistant([frames.tool_use_block("Bash", {"command": f"echo {number}"}, id=call)])
        yield frames.tool_result(call, TEXT)
        yield next(deltas())
        yield frames.task_progress(TASK, f"step {number}")


def replayed(names: Sequence[str]) -> Iterator[JSONObject]:
    """Yield the frames of recorded sessions, repeatedly."""
    recorded = [frame for name in names for frame in _recorded(name)]
    ids = [frame["task_id"] for frame in recorded if frame.get("subtype") == "task_started"]
    text = json.dumps(recorded)
    for cycle in itertools.count():
        fresh = text
        for task_id in ids:
            fresh = fresh.replace(task_id, f"{task_id[:-6]}{cycle:06x}")
        yield from json.loads(fresh)


def _recorded(name: str) -> Iterator[JSONObject]:
    for line in (RECORDINGS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        if record["dir"] == "out" and record["m"]["type"] not in NOT_REPLAYED:
            frame: JSONObject = record["m"]
            if frame.get("subtype") != "session_state_changed":
                yield {key: value for key, value in frame.items() if not key.startswith("user_message_uuid")}


KINDS: Final[dict[str, Callable[[], Iterator[JSONObject]]]] = {
    "assistant": assistant,
    "deltas": deltas,
    "streamed": lambda: replayed(STREAMED),
    "mixed": mixed,
    "subagents": lambda: replayed(SUBAGENTS),
}


def write(path: Path, kind: str, messages: int) -> float:
    """Write a turn of so many messages, including the first and the last, and return their mean size in bytes."""
    asked = {"user_message_uuid": PROMPT, "user_message_uuids": [PROMPT]}
    ending = frames.task_end(TASK) if kind == "mixed" else []
    turn = [
        frames.init(**asked),
        *itertools.islice(KINDS[kind](), max(0, messages - 2 - len(ending))),
        *ending,
        frames.result("done") | asked,
    ]
    data = b"".join(json.dumps(frame, separators=(",", ":")).encode() + b"\n" for frame in turn)
    path.write_bytes(data)
    return len(data) / len(turn)
