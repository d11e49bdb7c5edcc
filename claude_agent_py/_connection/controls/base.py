"""`Controls` builds control requests and reads replies by their models; it is the base of the groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from claude_agent_py._base.errors import OptionsError

if TYPE_CHECKING:
    from claude_agent_py._connection.reply_reading import Reply
    from claude_agent_py._journal.ports import ControlPort
    from claude_agent_py.wire.base import JSONObject, RequestModel


class Controls:
    """A group of control requests, by their models."""

    def __init__(self, port: ControlPort) -> None:
        self._sender = port

    @property
    def _port(self) -> ControlPort:
        """Sends the requests. Not the client itself: the groups refer to it and would keep the client alive."""
        return self._sender

    async def _ask(
        self, request: type[RequestModel], reply: type[Reply], /, *, timeout: float | None = None, **fields: object
    ) -> Reply:
        """Send a request and read its reply. Fields have their Python names."""
        from claude_agent_py._connection.reply_reading import read_reply

        body = _body(request, fields)
        subtype = body.pop("subtype")
        return read_reply(reply, subtype, await self._port.control(subtype, timeout=timeout, **body))

    async def _tell(
        self, request: type[RequestModel], /, *, timeout: float | None = None, **fields: object
    ) -> JSONObject:
        """Send a request whose reply has no model, and return the payload."""
        body = _body(request, fields)
        return await self._port.control(body.pop("subtype"), timeout=timeout, **body)


def omit_unset(**fields: object) -> JSONObject:
    """Return the fields that are neither None nor False, for requests in which a missing field means the same."""
    return {name: value for name, value in fields.items() if value is not None and value is not False}


def _body(request: type[RequestModel], fields: JSONObject) -> JSONObject:
    from claude_agent_py.wire.base import dump
    from claude_agent_py.wire.fitting import Misfit, check

    try:
        body = request(**{name: _plain(value) for name, value in fields.items()})
        check(body)
        return dump(body)
    except Misfit as error:
        name = ".".join(map(str, error.place))
        problem = error.what
    except UnicodeEncodeError as error:
        name = None
        problem = f"a text is not valid Unicode ({error.reason})"
    raise OptionsError(f"{problem} (control request {request.subtype!r})", option=name or None)


def _plain(value: object) -> object:
    """Return a value with its mappings as dicts and its sequences as lists. msgspec encodes no others."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray | memoryview):
        return [_plain(item) for item in value]
    return value
