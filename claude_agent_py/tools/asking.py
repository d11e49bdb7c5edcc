"""Requests of in-process servers: questions to a person, and for a model's message.

The CLI refuses requests of such a server, so this package answers them itself. Questions are answered as those of other
servers: `on_elicitation`, then the inbox.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias

from claude_agent_py._base.callbacks import Callback, Report
from claude_agent_py._base.errors import HandlerError, OptionsError
from claude_agent_py._base.json_object import JSONMapping
from claude_agent_py.tasks.handler_context import HandlerContext
from claude_agent_py.tools.context import ToolContext
from claude_agent_py.tools.sampling import (
    SAMPLING,
    SamplingMessage,
    SamplingRequest,
    read_message,
    read_sampling_request,
)
from claude_agent_py.wire.base import JSONObject
from claude_agent_py.wire.control.asks import ElicitationRequest

ServerRequest: TypeAlias = ElicitationRequest | SamplingRequest

Ask: TypeAlias = Callable[[ServerRequest, ToolContext], Awaitable[JSONObject]]
"""Asks a person or a model, and returns the answer in MCP form. Cancelling withdraws the request."""

SamplingHandler: TypeAlias = Callable[[SamplingRequest, ToolContext], SamplingMessage | Awaitable[SamplingMessage]]
"""Calls a model for a server, async or plain, and returns its message. An exception becomes an error for the server."""

ELICITATION: Final = "elicitation/create"
ASKING: Final = (ELICITATION, SAMPLING)
"""The requests of a server that `Ask` answers."""
CAPABILITIES: Final[JSONObject] = {"elicitation": {"form": {}, "url": {}}}
"""What a server is told about its client."""


def read_request(server_name: str, message: JSONObject) -> ServerRequest:
    """Return a server's request. Raises RPCError if its parameters are invalid."""
    params = message.get("params")
    given: JSONMapping = params if isinstance(params, Mapping) else {}
    if message.get("method") == SAMPLING:
        return read_sampling_request(server_name, given)
    schema = given.get("requestedSchema")
    return ElicitationRequest(
        server_name=server_name,
        message=str(given.get("message", "")),
        mode="url" if given.get("mode") == "url" else "form",
        url=None if given.get("url") is None else str(given["url"]),
        elicitation_id=None if given.get("elicitationId") is None else str(given["elicitationId"]),
        requested_schema=dict(schema) if isinstance(schema, Mapping) else None,
    )


async def sample(
    handler: SamplingHandler | None, request: SamplingRequest, context: HandlerContext, report: Report
) -> JSONObject:
    """Return the message of the handler in MCP form. It gets the context that `Ask` got.

    Raises:
        OptionsError: There is no handler.
        HandlerError: The handler failed. `report` has got the error as well.
    """
    if handler is None:
        raise OptionsError(
            f"the server {request.server_name!r} asks for a model's message, and there is no handler for it",
            option="on_sampling",
        )
    try:
        return await Callback(handler, name="on_sampling").call_and_read(request, context, read=read_message)
    except HandlerError as error:
        report(error)
        raise
