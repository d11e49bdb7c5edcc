"""Answers to the questions of MCP servers to a person: a form to fill in, or a page to open.

The CLI does not say which agent's tool call made a server ask that it runs. In-process servers ask without it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from claude_agent_py._base.json_object import JSONMapping
from claude_agent_py.permissions.decisions import describe, json_object
from claude_agent_py.wire.base import JSONObject
from claude_agent_py.wire.control.asks import ElicitationRequest


@dataclass(frozen=True)
class Accept:
    """The person agreed, with this content."""

    content: Mapping[str, object] | None = None
    """Validated against the form. None for a page to open."""


@dataclass(frozen=True)
class Decline:
    """The person said no."""


@dataclass(frozen=True)
class Cancel:
    """The person made no choice."""


ElicitationAnswer: TypeAlias = Accept | Decline | Cancel


def read_elicitation(request: ElicitationRequest, value: object) -> JSONObject:
    """Return the reply for the result of `on_elicitation`, which may be a dict in MCP form. None cancels.

    Raises ValueError if the value is not an answer, or does not match the form.
    """
    if isinstance(value, Mapping):
        value = _read_mcp(value)
    if value is None or isinstance(value, Cancel):
        return {"action": "cancel"}
    if isinstance(value, Decline):
        return {"action": "decline"}
    if not isinstance(value, Accept):
        raise ValueError(f"the answer must be Accept(...), Decline() or Cancel(), not {describe(value)}")
    if request.mode != "form":
        return {"action": "accept"}
    content = json_object("content", {} if value.content is None else value.content)
    return {"action": "accept", "content": request.form.check(content)}


def _read_mcp(value: JSONMapping) -> ElicitationAnswer:
    match dict(value):
        case {"action": "accept", **rest} if not rest.keys() - {"content"}:
            return Accept(rest.get("content"))
        case {"action": "decline"}:
            return Decline()
        case {"action": "cancel"}:
            return Cancel()
        case _:
            raise ValueError(
                "a dict must be {'action': 'accept', 'content': {...}}, or have the action 'decline' or 'cancel'"
            )
