"""What is decided about a tool call, and how that becomes a reply on the wire.

Owns the strictness: an answer that the CLI would drop in part, or misread, is no answer. Who decides is elsewhere.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pydantic import BaseModel

from claude_agent_py.wire.base import JSONObject, WireModel, dump
from claude_agent_py.wire.permissions import PermissionAllowReply, PermissionDenyReply, PermissionUpdate, read_update

NO_REASON = "The user denied this."


@dataclass(frozen=True)
class Allow:
    """Let the tool run."""

    updated_input: WireModel | BaseModel | Mapping[str, Any] | None = None
    """Run it with this input instead: a dict, or the tool's model. None keeps the input as it is. The CLI compares it
    with no rule any more: a deny rule does not hold for it. An empty dict is no answer, unless the input was empty."""
    updated_permissions: Sequence[PermissionUpdate | Mapping[str, Any]] = ()
    """Change the rules, so that the next such call is not asked about. Pick from the request's `suggestions`; giving
    all of them back may change the permission mode, too."""


@dataclass(frozen=True)
class Deny:
    """Do not let the tool run."""

    message: str = ""
    """Why; the model reads it."""
    interrupt: bool = False
    """Also end the turn, or the subagent that asks. The model does not read the message then."""


Decision: TypeAlias = Allow | Deny


def reply_of(decision: Any, suggestions: Sequence[Mapping[str, Any]] = ()) -> JSONObject:
    """Give the wire reply of a decision.

    Raises:
        ValueError: It is no decision, or has a part that the CLI would drop. What the CLI suggested itself is taken.
    """
    if isinstance(decision, Deny):
        return _denial(decision)
    if isinstance(decision, Allow):
        return _permission(decision, suggestions)
    raise ValueError(f"expected Allow(...) or Deny(...), not {describe(decision)}")


def denial(message: str) -> JSONObject:
    """Give the wire reply that denies."""
    return dump(PermissionDenyReply(message=message.strip() or NO_REASON))


def _denial(decision: Deny) -> JSONObject:
    if not isinstance(decision.message, str):
        raise ValueError(f"the message of Deny is text, not {describe(decision.message)}")
    return {**denial(decision.message), **({"interrupt": True} if decision.interrupt else {})}


def _permission(decision: Allow, suggestions: Sequence[Mapping[str, Any]]) -> JSONObject:
    fields: dict[str, Any] = {}
    if decision.updated_input is not None:
        fields["updated_input"] = json_object("updated_input", decision.updated_input)
    if decision.updated_permissions:
        fields["updated_permissions"] = _updates(decision.updated_permissions, suggestions)
    return dump(PermissionAllowReply(**fields))


def _updates(updates: Any, suggestions: Sequence[Mapping[str, Any]]) -> list[Any]:
    read = []
    for one in updates if isinstance(updates, Sequence) else [updates]:
        data = dump(one) if isinstance(one, WireModel) else one
        if not isinstance(data, Mapping):
            raise ValueError("updated_permissions must be a list of permission updates")
        update = read_update(data)
        if update.problem is not None and data not in suggestions:
            raise ValueError(f"the CLI would drop an update of updated_permissions: {update.problem}")
        read.append(update)
    return read


def json_object(name: str, value: Any) -> JSONObject:
    """Give a JSON object of a model or a dict.

    Raises:
        ValueError: It is neither, or holds what is no JSON.
    """
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json", by_alias=True, exclude_unset=True)
    content = dump(value) if isinstance(value, WireModel) else value
    if not isinstance(content, Mapping):
        raise ValueError(f"{name} is a dict or a model, not {describe(value)}")
    try:
        json.dumps(content, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise ValueError(f"{name} holds something that is no JSON") from None
    return dict(content)


def describe(value: Any) -> str:
    """Name a value in an error by its type; the value itself may be a secret."""
    return "None" if value is None else f"a value of type {type(value).__name__}"
