"""Convert `typing.TypedDict` classes for pydantic, which rejects them on Python 3.11.

Only annotations are converted, to classes of `typing_extensions`; fields of models and dataclasses are not.
"""

import functools
import operator
import sys
import types
import typing
from collections.abc import Mapping
from typing import Annotated, Any, get_args, get_origin, get_type_hints, is_typeddict

import typing_extensions


def convert_typed_dicts(annotation: Any, namespace: Mapping[str, Any]) -> Any:
    """Return an annotation that pydantic accepts on every supported Python version.

    `namespace` holds additional names for the annotations of fields.
    """
    return annotation if sys.version_info >= (3, 12) else _Converter(namespace).convert(annotation)


class _Converter:
    """A conversion that converts each class once, even if it is recursive."""

    def __init__(self, namespace: Mapping[str, Any]) -> None:
        self._namespace = namespace
        self._done: dict[Any, Any] = {}

    def convert(self, annotation: Any) -> Any:
        if is_typeddict(annotation) and type(annotation).__module__ == "typing":
            return self._done.get(annotation) or self._convert_class(annotation)
        arguments = get_args(annotation)
        if not arguments or get_origin(annotation) is typing.Literal:
            return annotation
        if get_origin(annotation) is Annotated:
            return Annotated[(self.convert(arguments[0]), *arguments[1:])]
        rewritten = tuple(self.convert(argument) for argument in arguments)
        return annotation if rewritten == arguments else _rebuild(annotation, rewritten)

    def _convert_class(self, old: Any) -> Any:
        make: Any = typing_extensions.TypedDict
        new = make(old.__name__, {}, total=old.__total__)
        # Register the class before converting its fields, which may refer to it.
        self._done[old] = new
        for name in ("__doc__", "__module__", "__required_keys__", "__optional_keys__"):
            setattr(new, name, getattr(old, name))
        hints = get_type_hints(old, localns={**self._namespace, old.__name__: old}, include_extras=True)
        new.__annotations__ = {name: self.convert(hint) for name, hint in hints.items()}
        return new


def _rebuild(annotation: Any, arguments: tuple[Any, ...]) -> Any:
    if isinstance(annotation, types.UnionType):
        return functools.reduce(operator.or_, arguments)
    if hasattr(annotation, "copy_with"):
        return annotation.copy_with(arguments)
    return types.GenericAlias(get_origin(annotation), arguments)
