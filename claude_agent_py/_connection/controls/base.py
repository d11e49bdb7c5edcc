"""`Controls` builds control requests and reads replies by their models; it is the base of the groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from claude_agent_py._base.json_object import JSONObject
from claude_agent_py._connection import controls
from claude_agent_py._journal.ports import ControlPort

if TYPE_CHECKING:
    from claude_agent_py._connection.control_bodies import Reply
    from claude_agent_py.wire.base import RequestModel


class Controls:
    """A group of control requests, by their models."""

    def __init__(self, port: ControlPort) -> None:
        self._sender = port

    @property
    def _port(self) -> ControlPort:
        """Sends the requests."""
        return self._sender

    async def _ask(
        self, request: type[RequestModel], reply: type[Reply], /, *, timeout: float | None = None, **fields: object
    ) -> Reply:
        """Send a request and read its reply. Fields have their Python names."""
        body = controls.build_body(request, fields)
        subtype = body.pop("subtype")
        return controls.read_reply(reply, subtype, await self._port.control(subtype, timeout=timeout, **body))

    async def _tell(
        self, request: type[RequestModel], /, *, timeout: float | None = None, **fields: object
    ) -> JSONObject:
        """Send a request whose reply has no model, and return the payload."""
        body = controls.build_body(request, fields)
        return await self._port.control(body.pop("subtype"), timeout=timeout, **body)


def omit_unset(**fields: object) -> JSONObject:
    """Return the fields that are neither None nor False, for requests in which a missing field means the same."""
    return {name: value for name, value in fields.items() if value is not None and value is not False}
