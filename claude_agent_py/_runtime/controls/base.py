"""`Asking` checks control requests and reads replies by their models; `Controls` is the base of the groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from claude_agent_py._errors import OptionsError

if TYPE_CHECKING:
    from claude_agent_py._protocol.ports import ControlPort
    from claude_agent_py._runtime.session.reply_reading import Reply
    from claude_agent_py.wire.base import JSONObject


class Asking:
    """Sends control requests."""

    @property
    def _port(self) -> ControlPort:
        """Sends the requests. Not the client itself: the groups refer to it and would keep the client alive."""
        raise NotImplementedError

    async def _ask(self, subtype: str, reply: type[Reply], /, *, timeout: float | None = None, **fields: Any) -> Reply:
        """Send a request and read its reply. Fields have the names of the wire."""
        from claude_agent_py._runtime.session.reply_reading import read_reply

        return read_reply(reply, subtype, await self._tell(subtype, timeout=timeout, **fields))

    async def _tell(self, subtype: str, /, *, timeout: float | None = None, **fields: Any) -> JSONObject:
        """Send a request and return the payload of its reply."""
        return await self._port.control(subtype, timeout=timeout, **_check(subtype, fields))


class Controls(Asking):
    """A group of control requests."""

    def __init__(self, port: ControlPort) -> None:
        self._sender = port

    @property
    def _port(self) -> ControlPort:
        return self._sender


def omit_unset(**fields: Any) -> dict[str, Any]:
    """Return the fields without None and False, for requests that treat a missing field the same way."""
    return {name: value for name, value in fields.items() if value is not None and value is not False}


def _check(subtype: str, fields: dict[str, Any]) -> JSONObject:
    from claude_agent_py.wire.control.requests import request_fields
    from claude_agent_py.wire.fitting import Misfit

    try:
        return request_fields(subtype, fields)
    except Misfit as error:
        option = ".".join(map(str, error.place))
        problem = error.what
    raise OptionsError(f"{problem} (control request {subtype!r})", option=option)
