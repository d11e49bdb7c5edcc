"""What all typed control requests are made of: ask by a request model, read the answer by a reply model.

Owns the step from a method's arguments to the request's body and from the payload to the reply. Knows no single
request (the `controls_*` modules do) and not how a request travels: whoever inherits provides `control`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from claude_agent_py.errors import OptionsError
from claude_agent_py.runtime.reply_reading import Reply, read_reply
from claude_agent_py.wire.base import JSONObject, TaggedModel, dump

if TYPE_CHECKING:
    from claude_agent_py.wire.initialize import InitializeReply


class ControlsBase:
    """Asks typed requests through a `ControlPort`, which the inheriting class is."""

    async def control(self, subtype: str, /, *, timeout: float | None = None, **fields: Any) -> JSONObject:
        """Send a control request and give the payload of its reply. See `ControlPort.control`."""
        raise NotImplementedError

    @property
    def info(self) -> InitializeReply:
        """What the CLI said of itself when the session began. Raises ConnectionClosedError before that."""
        raise NotImplementedError

    async def _ask(
        self, request: type[TaggedModel], reply: type[Reply], /, *, timeout: float | None = None, **fields: Any
    ) -> Reply:
        """Send a request and read its reply. Fields go in by their Python names."""
        body = _body(request, fields)
        subtype = body.pop("subtype")
        return read_reply(reply, subtype, await self.control(subtype, timeout=timeout, **body))

    async def _tell(self, request: type[TaggedModel], /, *, timeout: float | None = None, **fields: Any) -> JSONObject:
        """Send a request whose reply says nothing, or has no model; give the payload."""
        body = _body(request, fields)
        return await self.control(body.pop("subtype"), timeout=timeout, **body)


def given(**fields: Any) -> dict[str, Any]:
    """Give the fields that say something: None and False stand for "not sent" where the wire means the same by it."""
    return {name: value for name, value in fields.items() if value is not None and value is not False}


def _body(request: type[TaggedModel], fields: dict[str, Any]) -> JSONObject:
    try:
        return dump(request(**fields))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        name, told = ".".join(map(str, first["loc"])), first["msg"]
    except PydanticSerializationError:
        name, told = "", "the arguments hold something that is no JSON"
    raise OptionsError(f"{told} (control request {request.TAGS['subtype']!r})", option=name or None)
