"""Decisions about tool calls, and their replies to the CLI.

Conversion is strict: an answer that the CLI would partly drop or misread is rejected.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pydantic import BaseModel

from claude_agent_py.wire.base import JSONObject, WireModel, dump
from claude_agent_py.wire.codec import encode_answer
from claude_agent_py.wire.control.permissions import PermissionDecisionClassification, PermissionUpdate, read_update

NO_REASON = "The user denied this."


@dataclass(frozen=True)
class Allow:
    """Let the tool run."""

    updated_input: WireModel | BaseModel | Mapping[str, object] | None = None
    """Run the tool with this input instead, a dict or the tool's model. None keeps the input. The CLI does not check
    the new input against its rules, not even deny rules. An empty dict is rejected, unless the input was empty."""
    updated_permissions: Sequence[PermissionUpdate | Mapping[str, object]] = ()
    """Change the permission rules, so that the CLI does not ask again. Pick from the request's `suggestions`; returning
    all of them may also change the permission mode."""
    decision_classification: PermissionDecisionClassification | None = None
    """A person's choice, for the CLI's telemetry: `user_temporary` (this time) or `user_permanent`."""


@dataclass(frozen=True)
class Deny:
    """Do not let the tool run."""

    message: str = ""
    """The reason, shown to the model."""
    interrupt: bool = False
    """Also end the turn, or the asking subagent. The model then does not see the message."""
    decision_classification: PermissionDecisionClassification | None = None
    """A person's choice, for the CLI's telemetry: `user_reject`."""


Decision: TypeAlias = Allow | Deny
"""The answer to a permission request."""


def build_reply(decision: object, suggestions: Sequence[Mapping[str, object]] = ()) -> JSONObject:
    """Return the reply to the CLI for a decision.

    Raises ValueError for anything else, and for a permission update that the CLI would drop and did not suggest.
    """
    reply: JSONObject
    if isinstance(decision, Deny):
        if not isinstance(decision.message, str):
            raise ValueError(f"the message of Deny must be a string, not {describe(decision.message)}")
        reply = build_denial(decision.message)
        if decision.interrupt:
            reply["interrupt"] = True
    elif isinstance(decision, Allow):
        reply = {"behavior": "allow"}
        if decision.updated_input is not None:
            reply["updatedInput"] = json_object("updated_input", decision.updated_input)
        if decision.updated_permissions:
            reply["updatedPermissions"] = _read_updates(decision.updated_permissions, suggestions)
    else:
        raise ValueError(f"the decision must be Allow(...) or Deny(...), not {describe(decision)}")
    kind = decision.decision_classification
    if kind is None:
        return reply
    if not isinstance(kind, str):
        raise ValueError(f"decision_classification must be a string, not {describe(kind)}")
    return {**reply, "decisionClassification": kind}


def build_denial(message: str) -> JSONObject:
    """Return the reply that denies a call."""
    return {"behavior": "deny", "message": message.strip() or NO_REASON}


def _read_updates(updates: object, suggestions: Sequence[Mapping[str, object]]) -> list[JSONObject]:
    if not isinstance(updates, Sequence) or isinstance(updates, str):
        raise ValueError("updated_permissions must be a list of permission updates")
    read: list[JSONObject] = []
    for item in updates:
        data = dump(item) if isinstance(item, WireModel) else item
        if not isinstance(data, Mapping):
            raise ValueError("updated_permissions must be a list of permission updates")
        problem = read_update(data).problem
        if problem is not None and data not in suggestions:
            raise ValueError(f"the CLI would drop an update in updated_permissions: {problem}")
        update = dict(data)
        try:
            encode_answer(update)  # it may have models in it
        except (TypeError, ValueError, RecursionError):
            raise ValueError("updated_permissions must be valid JSON") from None
        read.append(update)
    return read


def json_object(name: str, value: object) -> JSONObject:
    """Return a model or dict as a JSON object. Raises ValueError for anything else."""
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json", by_alias=True, exclude_unset=True)
    content = dump(value) if isinstance(value, WireModel) else value
    if not isinstance(content, Mapping):
        raise ValueError(f"{name} must be a dict or a model, not {describe(value)}")
    check_json(name, content)
    return dict(content)


def check_json(name: str, value: object) -> None:
    """Raise ValueError if a value has no JSON form."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise ValueError(f"{name} must be valid JSON") from None


def describe(value: object) -> str:
    """Describe a value in an error by its type, because the value itself may be secret."""
    return "None" if value is None else f"a value of type {type(value).__name__}"
