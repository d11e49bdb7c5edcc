"""Making a model of a JSON value that does not quite fit.

Three things may be wrong with what another version of the CLI, or a gateway, sends: a tag that no model has (a new
content block), a wrong field that is only reported (token counts), and a wrong field that matters. `fit` makes a value
of the first, leaves out the second, and raises for the third.
"""

import copy
import re
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar, overload

import msgspec

from claude_agent_py.wire.base import UNKNOWN, WireModel

Model = TypeVar("Model")
Place = tuple[str | int, ...]

MOST_REPAIRS: Final = 100
"""How many misfits one value may have. Each costs another conversion, so a hostile frame must not have thousands."""

MOST_SINGLE_DROPS: Final = MOST_REPAIRS // 2
"""From then on, a wrong value takes the whole field with it that it stands in."""

_WRONG: Final = re.compile(r"(?P<what>.*?)(?: - at `\$(?P<path>.*)`)?", re.DOTALL)
_STEP: Final = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|(\[\.\.\.\])")
_MISSING: Final = re.compile(r"Object missing required field `(?P<field>.*)`", re.DOTALL)
_UNKNOWN_TAG: Final = re.compile(r"Invalid value '(?P<tag>.*)'", re.DOTALL)


class Misfit(ValueError):
    """A JSON value does not fit its model.

    Attributes:
        place: The keys and indices that lead to the wrong value.
        location: The same, and where a field is missing in that value, its name.
        what: What is wrong there.
    """

    def __init__(self, place: Place, what: str) -> None:
        self.place = place
        self.what = what
        missing = _MISSING.fullmatch(what)
        self.location: Place = (*place, missing["field"]) if missing else place
        super().__init__(f"{'.'.join(map(str, place))}: {what}" if place else what)


@overload
def fit(
    model: type[Model], value: Any, *, may_drop: Callable[[Place], bool] = ...
) -> tuple[Model, Sequence[Misfit]]: ...
@overload
def fit(model: Any, value: Any, *, may_drop: Callable[[Place], bool] = ...) -> tuple[Any, Sequence[Misfit]]: ...
def fit(
    model: Any, value: Any, *, may_drop: Callable[[Place], bool] = lambda place: False
) -> tuple[Any, Sequence[Misfit]]:
    """Return the model of a JSON value, and what was left out of it.

    Args:
        model: The model, or a union of models.
        value: The JSON value.
        may_drop: Says whether a wrong value at a place may be left out.

    Raises:
        Misfit: A value is wrong or missing that may not be left out.
        RecursionError: The value is nested too deeply.
    """
    dropped: list[Misfit] = []
    wrapped: dict[Place, Misfit] = {}
    is_copy = False
    for _ in range(MOST_REPAIRS):
        try:
            return msgspec.convert(value, model), dropped
        except msgspec.ValidationError as error:
            misfit = read_error(error)
            if not is_copy:
                value, is_copy = copy.deepcopy(value), True
            if misfit.place in wrapped:
                raise wrapped[misfit.place] from None  # its union has no model for what is unknown
            if _wrap_unknown(value, misfit):
                wrapped[misfit.place] = misfit
                continue
            place = _to_drop(misfit.place, may_drop, whole=len(dropped) >= MOST_SINGLE_DROPS)
            if place and _remove(value, place):
                dropped.append(misfit)
                continue
            raise misfit from None
    raise Misfit((), f"more than {MOST_REPAIRS} values do not fit")


def check(model: WireModel) -> None:
    """Check the values of a model that was made here: unlike a decoded one, nothing has looked at them.

    Raises:
        Misfit: A value has another type than its field.
    """
    fit(type(model), msgspec.to_builtins(model, enc_hook=_refuse))


def _refuse(value: Any) -> Any:
    raise Misfit((), f"a value of type {type(value).__name__} is not JSON")


def read_error(error: msgspec.ValidationError) -> Misfit:
    """Return what a validation error says, with the place as keys and indices.

    The key of a mapping is not told: the place ends at the mapping then.
    """
    found = _WRONG.fullmatch(str(error))
    assert found is not None  # noqa: S101 - it matches any text
    place: list[str | int] = []
    for name, index, key in _STEP.findall(found["path"] or ""):
        if key:
            break
        place.append(name or int(index))
    return Misfit(tuple(place), found["what"])


def _wrap_unknown(value: Any, misfit: Misfit) -> bool:
    """Put an object whose tag is unknown, and its neighbours with the same tag, into an `UnknownModel`."""
    found = _UNKNOWN_TAG.fullmatch(misfit.what)
    if not found or len(misfit.place) < 2 or found["tag"] == UNKNOWN:  # without a place it is the model's own tag
        return False
    *path, last, field = misfit.place
    around: Any = _at(value, path)
    tag = _at(around, (last, field))
    keys: Sequence[Any] = [last]
    if isinstance(around, list):
        keys = [i for i, item in enumerate(around) if _has(item, field, tag)]
    for key in keys:
        around[key] = {field: UNKNOWN, "raw": around[key]}
    return True


def _has(item: Any, field: Any, tag: Any) -> bool:
    return isinstance(item, dict) and item.get(field) == tag


def _to_drop(place: Place, may_drop: Callable[[Place], bool], *, whole: bool) -> Place:
    """Return the place to leave out for a wrong value; empty when it may not be left out."""
    if not whole:
        return place if place and may_drop(place) else ()
    return next((place[:end] for end in range(1, len(place) + 1) if may_drop(place[:end])), ())


def _remove(value: Any, place: Place) -> bool:
    try:
        del _at(value, place[:-1])[place[-1]]
    except (LookupError, TypeError):
        return False
    return True


def _at(value: Any, place: Sequence[str | int]) -> Any:
    for step in place:
        value = value[step]
    return value
