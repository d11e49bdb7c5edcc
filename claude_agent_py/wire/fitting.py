"""Convert JSON values that may not match their model exactly.

Another CLI version or a gateway may send unknown tags (a new content block), invalid informational fields (token
counts) or invalid essential fields. `fit` keeps the first as `UnknownModel`, drops the second and raises for the third;
`read` returns None for the third.
"""

import copy
import re
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar, overload

import msgspec

from claude_agent_py.wire.base import UNKNOWN, FrameModel, WireModel, keep_source

Model = TypeVar("Model")
Place = tuple[str | int, ...]

MOST_REPAIRS: Final = 100
"""The limit on repairs per value. Each one costs another conversion, and a hostile frame could need thousands."""

MOST_SINGLE_DROPS: Final = MOST_REPAIRS // 2
"""After this many drops, the whole enclosing field is dropped for an invalid value."""

_WRONG: Final = r"(?s)(?P<what>.*?)(?: - at `\$(?P<path>.*)`)?"
_STEP: Final = r"\.([^.\[\]]+)|\[(\d+)\]|(\[\.\.\.\])"
_MISSING: Final = r"(?s)Object missing required field `(?P<field>.*)`"
_UNKNOWN_TAG: Final = r"(?s)Invalid value '(?P<tag>.*)'"
"""Regular expressions for the errors of msgspec, compiled on first use."""


class Misfit(ValueError):
    """A JSON value does not match its model.

    Attributes:
        place: The keys and indices that lead to the invalid value.
        location: The same, followed by the field's name if a field is missing.
        what: A description of the problem.
    """

    def __init__(self, place: Place, what: str) -> None:
        self.place = place
        self.what = what
        missing = re.fullmatch(_MISSING, what)
        self.location: Place = (*place, missing["field"]) if missing else place
        super().__init__(f"{'.'.join(map(str, place))}: {what}" if place else what)


@overload
def fit(
    model: type[Model], value: object, *, may_drop: Callable[[Place], bool] = ...
) -> tuple[Model, Sequence[Misfit]]: ...
@overload
def fit(model: object, value: object, *, may_drop: Callable[[Place], bool] = ...) -> tuple[Any, Sequence[Misfit]]: ...
def fit(
    model: object, value: object, *, may_drop: Callable[[Place], bool] = lambda place: False
) -> tuple[Any, Sequence[Misfit]]:
    """Convert a JSON value to a model, and return it with the errors of the values that were dropped.

    Args:
        model: The model, or a union of models.
        value: The JSON value, which is not modified.
        may_drop: Returns whether an invalid value at a place may be dropped.

    Raises:
        Misfit: A value is missing, or is invalid and may not be dropped.
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
                raise wrapped[misfit.place] from None  # this union has no `UnknownModel`
            if _wrap_unknown(value, misfit):
                wrapped[misfit.place] = misfit
                continue
            place = _to_drop(misfit.place, may_drop, whole=len(dropped) >= MOST_SINGLE_DROPS)
            if not place:
                raise misfit from None
            del _at(value, place[:-1])[place[-1]]
            dropped.append(misfit)
    raise Misfit((), f"more than {MOST_REPAIRS} invalid values")


@overload
def read(model: type[Model], value: object) -> Model | None: ...
@overload
def read(model: object, value: object) -> Any: ...
def read(model: object, value: object) -> Any:
    """Convert a JSON value to a model, or return None if it does not match. A `FrameModel` keeps the value as `raw`."""
    try:
        found, _ = fit(model, value)
    except (Misfit, RecursionError):
        return None
    if isinstance(found, FrameModel):
        keep_source(found, "_source", value)
    return found


def check(model: WireModel) -> None:
    """Validate a model that was created by its constructor, which checks no types.

    Raises:
        Misfit: A field has a value of the wrong type.
    """
    fit(type(model), msgspec.to_builtins(model, enc_hook=_refuse))


def _refuse(value: object) -> object:
    raise Misfit((), f"a value of type {type(value).__name__} is not JSON")


def read_error(error: msgspec.ValidationError) -> Misfit:
    """Convert a msgspec error to a `Misfit`.

    msgspec does not report the keys of mappings, so the place ends at the mapping.
    """
    found = re.fullmatch(_WRONG, str(error))
    assert found is not None  # noqa: S101 - the pattern matches any text
    place: list[str | int] = []
    for name, index, key in re.findall(_STEP, found["path"] or ""):
        if key:
            break
        place.append(name or int(index))
    return Misfit(tuple(place), found["what"])


def _wrap_unknown(value: object, misfit: Misfit) -> bool:
    """Wrap an object with an unknown tag, and its siblings with the same tag, for `UnknownModel`."""
    found = re.fullmatch(_UNKNOWN_TAG, misfit.what)
    if not found or len(misfit.place) < 2 or found["tag"] == UNKNOWN:  # a short place means the outermost model's tag
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


def _has(item: object, field: object, tag: object) -> bool:
    return isinstance(item, dict) and item.get(field) == tag


def _to_drop(place: Place, may_drop: Callable[[Place], bool], *, whole: bool) -> Place:
    """Return the place to drop for an invalid value; empty if it may not be dropped."""
    if not whole:
        return place if place and may_drop(place) else ()
    return next((place[:end] for end in range(1, len(place) + 1) if may_drop(place[:end])), ())


def _at(value: Any, place: Sequence[str | int]) -> Any:
    for step in place:
        value = value[step]
    return value
