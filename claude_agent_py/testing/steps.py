"""Build the steps of a `FakeCLI`'s scenario.

Synchronise with the client by waiting for a frame (`wait_for`) or for the test (`wait_gate`) rather than for time.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from claude_agent_py.testing import frames
from claude_agent_py.testing.frames import JSONObject
from claude_agent_py.testing.script import Gate


@dataclass(frozen=True)
class Step:
    """A step of a scenario, created by the functions of this module."""

    do: str
    values: Mapping[str, object] = field(default_factory=dict)
    gate: Gate | None = None


LooseStep: TypeAlias = "Step | JSONObject | bytes | Sequence[LooseStep]"
"""A step, a frame or bytes to send, or a sequence of these."""


def emit(*frames: JSONObject) -> Step:
    """Send frames in one write."""
    return Step("emit", {"frames": list(frames)})


def emit_raw(data: bytes) -> Step:
    """Send arbitrary bytes: garbage, half a line, invalid UTF-8."""
    return Step("emit_raw", {"base64": base64.b64encode(data).decode()})


def wait_for(match: JSONObject) -> Step:
    """Wait for a frame that contains `match`, compared recursively. It becomes the last frame heard.

    Earlier frames count unless another step consumed them. If the input ends first, the peer exits with 0.
    """
    return Step("wait_for", {"match": match})


def wait_for_prompt(text: str | None = None) -> Step:
    """Wait for a user message, with exactly this text if given."""
    return wait_for({"type": "user"} | ({} if text is None else {"message": {"content": text}}))


def wait_for_request(subtype: str) -> Step:
    """Wait for a control request. It is not answered automatically: use `answer`, or leave it unanswered."""
    return wait_for({"type": "control_request", "request": {"subtype": subtype}})


def wait_for_reply(request_id: str) -> Step:
    """Wait for the reply to a control request that the peer sent."""
    return wait_for({"type": "control_response", "response": {"request_id": request_id}})


def answer(response: JSONObject | None = None, *, error: str | None = None, error_code: str | None = None) -> Step:
    """Answer the last control request heard, with a response, an empty success or an error."""
    answer: JSONObject = {} if response is None else {"response": response}
    if error is not None:
        answer = {"error": error} | ({} if error_code is None else {"error_code": error_code})
    return Step("answer", {"answer": answer})


def wait_gate(gate: Gate) -> Step:
    """Wait until the test opens a gate."""
    return Step("wait_gate", gate=gate)


def pause(seconds: float) -> Step:
    """Wait for a number of seconds. Meant for tests of time limits; prefer `wait_gate` otherwise."""
    return Step("pause", {"seconds": seconds})


def hang() -> Step:
    """Stop responding until the peer is terminated. Control requests are not answered."""
    return Step("hang")


def stderr(text: str) -> Step:
    """Write to stderr."""
    return Step("stderr", {"text": text})


def close_output() -> Step:
    """Close stdout without exiting."""
    return Step("close_output")


def spawn(argv: Sequence[str]) -> Step:
    """Start a child process that outlives the peer. Needs an installed fake; `FakeCLI.spawned` has the process id."""
    return Step("spawn", {"argv": list(argv)})


def exit(code: int = 0) -> Step:  # noqa: A001 - read as steps.exit()
    """Exit with a code."""
    return Step("exit", {"code": code, "signal": 0})


def die(signal: int) -> Step:
    """Exit by a signal."""
    return Step("exit", {"code": -signal, "signal": signal})


def turn(reply: str | Sequence[JSONObject] = "ok", *, prompt: str | None = None, **result: Any) -> list[Step]:
    """Wait for a prompt and answer it like the CLI: init, an assistant message, and a result that names the prompt.

    `reply` is the text of the answer, or the frames between init and result. `result` is passed to `frames.result`.
    """
    result.setdefault("text", reply if isinstance(reply, str) else "")
    between = [frames.of_prompt(frames.assistant(reply))] if isinstance(reply, str) else list(reply)
    return [
        wait_for_prompt(prompt),
        _emit_if_named(frames.lifecycle("started")),
        emit(frames.init(user_message_uuids=[frames.prompt_field("uuid")])),
        *(emit(frame) for frame in between),
        emit(frames.result(**result)),
        _emit_if_named(frames.lifecycle("completed")),
    ]


def _emit_if_named(frame: JSONObject) -> Step:
    """Send a frame only if the prompt has a uuid."""
    return Step("emit", {"frames": [frame], "if_prompt_has": "uuid"})
