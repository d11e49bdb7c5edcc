"""Models as the JSON that the CLI reads, and JSON of the CLI as models."""

import json
from collections.abc import Mapping
from typing import Any, get_args

from claude_agent_py import MalformedFrame
from claude_agent_py.control import ControlFrame
from claude_agent_py.messages import SystemMessage, TopLevelMessage
from claude_agent_py.wire import decode, encode

TYPES: list[str] = sorted(model.type for model in get_args(TopLevelMessage | ControlFrame))
"""The types of frames that have a model, except `system`."""
SUBTYPES: list[str] = sorted(model.subtype for model in get_args(SystemMessage))
"""The subtypes of system messages that have a model."""


def as_json(model: Any) -> dict[str, Any]:
    """Return the JSON object of a model."""
    value: dict[str, Any] = json.loads(encode(model))
    return value


def read_frame(frame: Mapping[str, Any]) -> Any:
    """Return the model of a frame, which is valid."""
    model = decode(json.dumps(frame))
    assert not isinstance(model, MalformedFrame), model
    return model


def read_request(request: Mapping[str, Any]) -> Any:
    """Return the model of a request of the CLI."""
    return read_frame({"type": "control_request", "request_id": "r1", "request": request}).request
