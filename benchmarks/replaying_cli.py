"""A stand-in CLI that answers control requests, and a prompt with a prepared conversation.

    python -I benchmarks/replaying_cli.py <folder>

`initialize.json` in the folder answers the first request, and `turn.jsonl` a prompt, unchanged except for the prompt's
uuid. With `REPLAY_PAUSE` in the environment (seconds), the lines are written one at a time with that pause.
"""

import json
import os
import sys
import time

PROMPT = "9a09f7f7-0000-4000-8000-000000000000"
"""The placeholder for the prompt's uuid in the conversation."""


def main(folder: str) -> None:
    for line in sys.stdin.buffer:
        frame = json.loads(line)
        if frame["type"] == "control_request":
            first = frame["request"]["subtype"] == "initialize"
            response = json.loads(read(folder, "initialize.json")) if first else {}
            body = {"subtype": "success", "request_id": frame["request_id"], "response": response}
            send(json.dumps({"type": "control_response", "response": body}).encode() + b"\n")
        elif frame["type"] == "user":
            answer(read(folder, "turn.jsonl").replace(PROMPT.encode(), frame.get("uuid", PROMPT).encode()))


def read(folder: str, name: str) -> bytes:
    with open(os.path.join(folder, name), "rb") as file:
        return file.read()


def answer(data: bytes) -> None:
    pause = float(os.environ.get("REPLAY_PAUSE", "0"))
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
    main(sys.argv[1])
