"""`Controls`: the base of typed control requests, which builds requests and reads replies by their models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from claude_agent_py._errors import OptionsError
from claude_agent_py._runtime.session.reply_reading import Reply, read_reply
from claude_agent_py.wire.base import JSONObject, WireModel, dump
from claude_agent_py.wire.fitting import Misfit, check

if TYPE_CHECKING:
    from claude_agent_py._protocol.ports import ControlPort


class Controls:
    """Control requests that are sent through a `ControlPort`."""

    def __init__(self, port: ControlPort) -> None:
        self._port = port

    async def _ask(
        self, request: type[WireModel], reply: type[Reply], /, *, timeout: float | None = None, **fields: Any
    ) -> Reply:
        return await ask(self._port, request, reply, timeout=timeout, **fields)

    async def _tell(self, request: type[WireModel], /, *, timeout: float | None = None, **fields: Any) -> JSONObject:
        return await tell(self._port, request, timeout=timeout, **fields)


async def ask(
    port: ControlPort,
    request: type[WireModel],
    reply: type[Reply],
    /,
    *,
    timeout: float | None = None,
    **fields: Any,
) -> Reply:
    """Send a request and read its reply. Fields go in by their Python names."""
    body = _body(request, fields)
    subtype = body.pop("subtype")
    return read_reply(reply, subtype, await port.control(subtype, timeout=timeout, **body))


async def tell(
    port: ControlPort, request: type[WireModel], /, *, timeout: float | None = None, **fields: Any
) -> JSONObject:
    """Send a request whose reply has no model; return the payload."""
    body = _body(request, fields)
    return await port.control(body.pop("subtype"), timeout=timeout, **body)


def given(**fields: Any) -> dict[str, Any]:
    """Return the fields without None and False, for requests in which leaving a field out means the same."""
    return {name: value for name, value in fields.items() if value is not None and value is not False}


def _body(request: type[WireModel], fields: dict[str, Any]) -> JSONObject:
    try:
        body = request(**fields)
        check(body)
        return dump(body)
    except Misfit as error:
        name, told = ".".join(map(str, error.place)), error.what
    subtype = request.subtype  # type: ignore[attr-defined]  # every request has one
    raise OptionsError(f"{told} (control request {subtype!r})", option=name or None)
