"""The bodies of control requests, from their models, and replies as their models.

Requests are checked. Replies are read leniently: fields that do not match the model, as from another version of the
CLI, are left out.
"""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from claude_agent_py._base.errors import OptionsError, RemoteProtocolError
from claude_agent_py._base.log import logger
from claude_agent_py.wire.base import FrameModel, JSONObject, RequestModel, dump, keep_source
from claude_agent_py.wire.fitting import Misfit, check, fit

Reply = TypeVar("Reply", bound=FrameModel)


def build_body(request: type[RequestModel], fields: JSONObject) -> JSONObject:
    """Return the body of a request. The fields have their Python names.

    Raises:
        OptionsError: A field does not match the model.
    """
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


def read_reply(model: type[Reply], subtype: str, payload: JSONObject) -> Reply:
    """Return the payload of a successful reply as its model, without the fields that do not match.

    Raises:
        RemoteProtocolError: A required field is missing or invalid. `raw` is the payload.
    """
    try:
        reply: Reply
        reply, dropped = fit(model, payload, may_drop=lambda place: True)
    except (Misfit, RecursionError) as error:
        problem = f"the reply to {subtype!r} cannot be read: {error}; `raw` has what the CLI sent"
    else:
        if not payload or sum(len(misfit.place) == 1 for misfit in dropped) < len(payload):
            for misfit in dropped:
                logger.debug("the reply to %r does not fit %s: %s", subtype, model.__name__, misfit)
            keep_source(reply, "_source", payload)
            return reply
        problem = f"the reply to {subtype!r} cannot be read: {dropped[0]}; `raw` has what the CLI sent"
    raise RemoteProtocolError(problem, raw=payload)
