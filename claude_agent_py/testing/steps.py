"""The steps of a `FakeCLI`'s scenario: what it does, and what it waits for.

Owns their making, as plain values. What they do is in `fake_player`; the frames that they send are made in `frames`.

A step never sleeps until something is probably over: it waits for a frame (`wait_for`) or for the test (`wait_gate`).
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from claude_agent_py.testing import frames
from claude_agent_py.testing.frames import JSONObject
from claude_agent_py.testing.gate import Gate


@dataclass(frozen=True)
class Step:
    """One thing that the peer does. Made by the functions of this module."""

    do: str
    values: Mapping[str, Any] = field(default_factory=dict)
    gate: Gate | None = None


LooseStep: TypeAlias = "Step | JSONObject | bytes | Sequence[LooseStep]"
"""A step; a frame or bytes to send; or several of all that."""


def emit(*frames: JSONObject) -> Step:
    """Send frames, all in one write."""
    return Step("emit", {"frames": list(frames)})


def emit_raw(data: bytes) -> Step:
    """Send bytes as they are: garbage, half a line, invalid UTF-8."""
    return Step("emit_raw", {"base64": base64.b64encode(data).decode()})


def wait_for(match: JSONObject) -> Step:
    """Wait for a frame that has everything that `match` has, however deep. It is `heard` from then on.

    Frames that came earlier count, unless an earlier step took them. When the input ends first, the peer exits with 0.
    """
    return Step("wait_for", {"match": match})


def wait_for_prompt(text: str | None = None) -> Step:
    """Wait for a user message; for one with exactly this text, if given."""
    return wait_for({"type": "user"} | ({} if text is None else {"message": {"content": text}}))


def wait_for_request(subtype: str) -> Step:
    """Wait for a control request, which is then not answered by itself: use `answer`, or leave it without."""
    return wait_for({"type": "control_request", "request": {"subtype": subtype}})


def wait_for_reply(request_id: str) -> Step:
    """Wait for the reply to a control request that the peer sent."""
    return wait_for({"type": "control_response", "response": {"request_id": request_id}})


def answer(response: JSONObject | None = None, *, error: str | None = None, error_code: str | None = None) -> Step:
    """Answer the control request heard last: with a response, with nothing in it, or with an error."""
    return Step("answer", {"answer": answer_value(response, error=error, error_code=error_code)})


def wait_gate(gate: Gate) -> Step:
    """Wait until the test opens a gate."""
    return Step("wait_gate", gate=gate)


def pause(seconds: float) -> Step:
    """Wait for some time. For tests of time limits; everything else is better served by `wait_gate`."""
    return Step("pause", {"seconds": seconds})


def hang() -> Step:
    """Do nothing any more and answer nothing, until the input ends or the peer is ended."""
    return Step("hang")


def stderr(text: str) -> Step:
    """Write to stderr."""
    return Step("stderr", {"text": text})


def close_output() -> Step:
    """Close stdout and live on."""
    return Step("close_output")


def spawn(argv: Sequence[str]) -> Step:
    """Start a child process that outlives the peer; only as a program. `FakeCLI.spawned` has its id."""
    return Step("spawn", {"argv": list(argv)})


def exit(code: int = 0) -> Step:  # noqa: A001 - read as steps.exit()
    """End with an exit code."""
    return Step("exit", {"code": code, "signal": 0})


def die(signal: int) -> Step:
    """End by a signal."""
    return Step("exit", {"code": -signal, "signal": signal})


def turn(reply: str | Sequence[JSONObject] = "ok", *, prompt: str | None = None, **result: Any) -> list[Step]:
    """Wait for a prompt and answer it as the CLI does: init, an assistant message, a result that names the prompt.

    `reply` is the answer's text, or the frames between init and result. `result` goes to `frames.result`.
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
    """Send what the CLI sends only about a prompt with a uuid."""
    return Step("emit", {"frames": [frame], "if_prompt_has": "uuid"})


def answer_value(
    response: JSONObject | None = None, *, error: str | None = None, error_code: str | None = None
) -> JSONObject:
    """Give an answer as a scenario has it."""
    if error is not None:
        return {"error": error} | ({} if error_code is None else {"error_code": error_code})
    return {} if response is None else {"response": response}
