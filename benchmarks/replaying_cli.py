"""A program that plays the CLI: it answers `initialize`, and a prompt with a prepared file.

Knows as little as possible, so that the reader is what is measured: the file is written as it is, but for the uuid of
the prompt. `REPLAY_FILE` names it; with `REPLAY_PAUSE` (seconds) it comes one line at a time.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.conversations import PROMPT
from claude_agent_py.testing import frames


def main() -> None:
    data = Path(os.environ["REPLAY_FILE"]).read_bytes()
    pause = float(os.environ.get("REPLAY_PAUSE", "0"))
    for line in sys.stdin.buffer:
        frame = json.loads(line)
        if frame["type"] == "control_request":
            send(reply(frame))
        elif frame["type"] == "user":
            answer(data.replace(PROMPT.encode(), frame.get("uuid", PROMPT).encode()), pause)


def reply(frame: dict[str, Any]) -> bytes:
    is_first = frame["request"]["subtype"] == "initialize"
    response = frames.initialize_response() if is_first else {}
    body = {"subtype": "success", "request_id": frame["request_id"], "response": response}
    return frames.encode({"type": "control_response", "response": body})


def answer(data: bytes, pause: float) -> None:
    if not pause:
        send(data)
        return
    for line in data.splitlines(keepends=True):
        send(line)
        time.sleep(pause)


def send(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
