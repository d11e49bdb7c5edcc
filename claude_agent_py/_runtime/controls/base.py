"""`Controls`, the base of the groups: it checks the arguments of control requests and reads replies by their models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from claude_agent_py._errors import OptionsError

if TYPE_CHECKING:
    from claude_agent_py._protocol.ports import ControlPort
    from claude_agent_py._runtime.session.reply_reading import Reply
    from claude_agent_py.wire.base import JSONObject


class Controls:
    """A group of control requests."""

    def __init__(self, port: ControlPort) -> None:
        self._sender = port

    @property
    def _port(self) -> ControlPort:
        """Sends the requests. Not the client itself: the groups refer to it and would keep the client alive."""
        return self._sender

    async def _ask(
        self, subtype: str, reply: type[Reply], /, *, timeout: float | None = None, **arguments: Any
    ) -> Reply:
        """Send a request and read its reply. The arguments have the names of the wire."""
        from claude_agent_py._runtime.session.reply_reading import read_reply

        return read_reply(reply, subtype, await self._tell(subtype, timeout=timeout, **arguments))

    async def _tell(self, subtype: str, /, *, timeout: float | None = None, **arguments: Any) -> JSONObject:
        """Send a request whose reply has no model, and return the payload."""
        checked = {name: _check(subtype, name, value) for name, value in arguments.items()}
        return await self._port.control(subtype, timeout=timeout, **checked)


def omit_unset(**fields: Any) -> dict[str, Any]:
    """Return the fields that are neither None nor False, for requests in which a missing field means the same."""
    return {name: value for name, value in fields.items() if value is not None and value is not False}


def _check(subtype: str, name: str, value: Any) -> Any:
    """Return an argument of a request as JSON. Raises OptionsError if it has the wrong type."""
    from claude_agent_py.wire.control.requests import ARGUMENTS
    from claude_agent_py.wire.fitting import Misfit, fit, to_json

    try:
        checked = to_json(_plain(value))
        fit(ARGUMENTS[subtype][name], checked)
        return checked
    except Misfit as error:
        option = ".".join(map(str, (name, *error.place)))
        problem = error.what
    except UnicodeEncodeError as error:
        option = name
        problem = f"a text is not valid Unicode ({error.reason})"
    # Raised outside of `except`: the context would show the value.
    raise OptionsError(f"{problem} (control request {subtype!r})", option=option)


def _plain(value: Any) -> Any:
    """Return a value with its mappings as dicts and its sequences as lists. msgspec encodes no others."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray | memoryview):
        return [_plain(item) for item in value]
    return value
