"""Reading replies to control requests as their models, leniently.

Fields that do not match the model, as from another version of the CLI, are left out.
"""

from typing import TypeVar

from claude_agent_py._base.errors import RemoteProtocolError
from claude_agent_py._base.log import logger
from claude_agent_py.wire.base import FrameModel, JSONObject, keep_source
from claude_agent_py.wire.fitting import Misfit, fit

Reply = TypeVar("Reply", bound=FrameModel)


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
