"""Questions of MCP servers to a person: a form to fill in, or a page to open.

The CLI does not say which agent's tool call made the server ask. Only servers that the CLI runs can ask, not in-process
ones.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

from claude_agent_py.permissions.decisions import describe, json_object
from claude_agent_py.permissions.forms import Form
from claude_agent_py.wire.base import JSONObject, dump
from claude_agent_py.wire.control import asks
from claude_agent_py.wire.control.permissions import ElicitationReply


@dataclass(frozen=True)
class ElicitationRequest:
    """A question of an MCP server. Answer with `Accept(...)`, `Decline()` or `Cancel()`."""

    wire: asks.ElicitationRequest

    @property
    def server_name(self) -> str:
        """The asking server."""
        return self.wire.mcp_server_name

    @property
    def message(self) -> str:
        """The text of the question."""
        return self.wire.message

    @property
    def mode(self) -> Literal["form", "url"] | str:
        """`form`: fill in `form`. `url`: open `url`, and accept if the person agrees."""
        return self.wire.mode or ("url" if self.wire.url else "form")

    @property
    def url(self) -> str | None:
        """The page to open. It comes from the server: show the full URL before opening it."""
        return self.wire.url

    @property
    def elicitation_id(self) -> str | None:
        """The server's id of a question with a page."""
        return self.wire.elicitation_id

    @cached_property
    def form(self) -> Form:
        """The form to fill in; it may have no fields."""
        return Form.of(self.wire.requested_schema, self.wire.property_order)

    @property
    def title(self) -> str | None:
        """The heading of the question."""
        return self.wire.title

    @property
    def display_name(self) -> str | None:
        """The short name of the server or its tool."""
        return self.wire.display_name

    @property
    def description(self) -> str | None:
        """The text below the title."""
        return self.wire.description


@dataclass(frozen=True)
class Accept:
    """The person agreed, with this content."""

    content: Mapping[str, Any] | None = None
    """Validated against the form. None for a page to open."""


@dataclass(frozen=True)
class Decline:
    """The person said no."""


@dataclass(frozen=True)
class Cancel:
    """The person made no choice."""


ElicitationAnswer: TypeAlias = Accept | Decline | Cancel


def read_elicitation(request: ElicitationRequest, value: Any) -> JSONObject:
    """Return the reply for the result of `on_elicitation`, which may be a dict in MCP form. None cancels.

    Raises ValueError if the value is not an answer, or does not match the form.
    """
    if isinstance(value, Mapping):
        value = _read_mcp(value)
    if value is None or isinstance(value, Cancel):
        return build_cancellation()
    if isinstance(value, Decline):
        return dump(ElicitationReply(action="decline"))
    if not isinstance(value, Accept):
        raise ValueError(f"the answer must be Accept(...), Decline() or Cancel(), not {describe(value)}")
    if request.mode != "form":
        return dump(ElicitationReply(action="accept"))
    content = json_object("content", {} if value.content is None else value.content)
    return dump(ElicitationReply(action="accept", content=request.form.check(content)))


def _read_mcp(value: Mapping[str, Any]) -> ElicitationAnswer:
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


def build_cancellation() -> JSONObject:
    """Return the reply that cancels an elicitation."""
    return dump(ElicitationReply(action="cancel"))
