"""Snapshots of options: a copy that later changes to a nested dict or list do not reach, and keys for comparison.

Text, numbers, paths and their containers are compared by value, everything else (handlers, tools, servers, inboxes,
stores) by identity: equal handlers of two tenants may decide differently.
"""

from collections.abc import Mapping
from enum import Enum
from pathlib import PurePath
from types import MethodType
from typing import Any, Final
from uuid import UUID

from claude_agent_py._base.configuration import ConfigModel
from claude_agent_py.hooks import Hooks
from claude_agent_py.options import ClientOptions

OBJECTS: Final = ("hooks", "interactions", "session_store", "telemetry")
"""Options whose value is one object, even if it is also a container."""

VALUES: Final = (str, bytes, int, float, Enum, PurePath, UUID, type(None))
"""The types that are compared by value."""


def copy_options(options: ClientOptions) -> ClientOptions:
    """Return a copy in depth, with the same objects in it."""
    copy: ClientOptions = _copy(options)
    vars(copy).update({name: getattr(options, name) for name in OBJECTS})
    return copy


def build_key(options: ClientOptions, name: str) -> object:
    """Return the current value of an option for comparison with `==`."""
    value = getattr(options, name)
    if name == "hooks":
        # A `Hooks` and its matchers can change.
        return _Same(value), [
            (
                event,
                _Same(matcher),
                _build_key([matcher.pattern, matcher.handlers, matcher.timeout, matcher.on_failure]),
            )
            for event, matcher in Hooks.of(value)
        ]
    return _Same(value) if name in OBJECTS else _build_key(value)


class _Same:
    """Equals only a `_Same` of the same object."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.value is self.value

    __hash__ = None  # type: ignore[assignment]


def _copy(value: object) -> Any:
    if isinstance(value, VALUES) or callable(value):
        return value
    if isinstance(value, ConfigModel):
        copy = value.model_copy()
        vars(copy).update({name: _copy(part) for name, part in vars(value).items()})
        return copy
    if isinstance(value, Mapping):
        return {name: _copy(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_copy(part) for part in value]
    return tuple(_copy(part) for part in value) if type(value) is tuple else value


def _build_key(value: Any) -> object:
    if type(value) in (str, bool, type(None)):
        return value
    if isinstance(value, MethodType):
        return _Same(value.__self__), _Same(value.__func__)
    if callable(value):
        return _Same(value)
    if isinstance(value, ConfigModel):
        return type(value), sorted(value.model_fields_set), _build_key(value.__dict__)
    if isinstance(value, Mapping):
        return Mapping, [(name, _build_key(part)) for name, part in value.items()]
    if type(value) in (list, tuple):
        return type(value), [_build_key(part) for part in value]
    return (type(value), value) if isinstance(value, VALUES) else _Same(value)
