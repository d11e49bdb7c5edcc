"""Reading the reply to a control request as its model, as far as it goes.

Owns what happens when a CLI of another version answers in another shape: what does not fit is left out, piece by piece,
and the rest is given. Knows neither who asked nor how a reply travels. The models are in `wire/replies.py`.
"""

import copy
import logging
from collections.abc import Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from claude_agent_py.errors import RemoteProtocolError
from claude_agent_py.wire.base import JSONObject

logger = logging.getLogger("claude_agent_py")

Reply = TypeVar("Reply", bound=BaseModel)
Place = tuple[str | int, ...]


def read_reply(model: type[Reply], subtype: str, payload: JSONObject) -> Reply:
    """Give the payload of a successful reply as its model, without the pieces that do not fit.

    Raises:
        RemoteProtocolError: Nothing can be read: a piece is missing that the reply makes no sense without, or none
            fits. `raw` is the payload.
    """
    try:
        return model.model_validate(payload)
    except ValidationError as error:
        misfits = error
    reply = _read_rest(model, copy.deepcopy(payload), misfits)
    if reply is None:
        raise RemoteProtocolError(
            f"the reply to {subtype!r} cannot be read: {_told(misfits)}; `raw` has what the CLI sent", raw=payload
        )
    logger.debug("the reply to %r does not fit %s: %s", subtype, model.__name__, _told(misfits))
    return reply


def _read_rest(model: type[Reply], payload: JSONObject, misfits: ValidationError) -> Reply | None:
    """Take out what does not fit until the rest does; None when nothing is left, or nothing more can be taken out."""
    while _take_out(payload, misfits) and payload:
        try:
            return model.model_validate(payload)
        except ValidationError as error:
            misfits = error
    return None


def _take_out(payload: JSONObject, misfits: ValidationError) -> bool:
    """Delete every piece that was complained about, the last one first so that indices stay right."""
    places = dict.fromkeys(_existing(payload, detail["loc"]) for detail in misfits.errors(include_url=False))
    if () in places:  # something is missing at the top
        return False
    for place in sorted(places, key=lambda place: [str(part).zfill(9) for part in place], reverse=True):
        _delete(payload, place)
    return True


def _existing(payload: Any, where: Sequence[str | int]) -> Place:
    """Give the part of an error's place that exists in the payload: the rest names unions, or what is missing."""
    place: list[str | int] = []
    for part in where:
        try:
            payload = payload[part]
        except (LookupError, TypeError):
            break
        place.append(part)
    return tuple(place)


def _delete(payload: Any, place: Place) -> None:
    *path, last = place
    try:
        for part in path:
            payload = payload[part]
        del payload[last]
    except (LookupError, TypeError):
        return  # it went with what it stood in


def _told(misfits: ValidationError) -> str:
    """Say what is wrong and where, without the values."""
    first = misfits.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where or 'it'}: {first['msg']}"
