"""`typing.TypedDict` on Python 3.11, which pydantic refuses there.

Owns one rewrite: each such class in an annotation is replaced by the same one of `typing_extensions`. On newer Pythons
nothing is done. Fields of models and dataclasses are not looked into: those classes have been read by pydantic already,
or will be, and it says itself what it wants.
"""

import functools
import operator
import sys
import types
import typing
from collections.abc import Mapping
from typing import Annotated, Any, get_args, get_origin, get_type_hints, is_typeddict

import typing_extensions

NEEDED = sys.version_info < (3, 12)


def modern(annotation: Any, namespace: Mapping[str, Any]) -> Any:
    """Give an annotation that pydantic takes on every supported Python.

    `namespace` has the names that the fields of a class may use beside those of its module.
    """
    return _Rewriting(namespace).of(annotation) if NEEDED else annotation


class _Rewriting:
    """One rewrite; a class that occurs several times in it, or within itself, is made anew once."""

    def __init__(self, namespace: Mapping[str, Any]) -> None:
        self._namespace = namespace
        self._done: dict[Any, Any] = {}

    def of(self, annotation: Any) -> Any:
        if is_typeddict(annotation) and type(annotation).__module__ == "typing":
            return self._done.get(annotation) or self._converted(annotation)
        arguments = get_args(annotation)
        if not arguments or get_origin(annotation) is typing.Literal:
            return annotation
        if get_origin(annotation) is Annotated:
            return Annotated[(self.of(arguments[0]), *arguments[1:])]
        rewritten = tuple(self.of(argument) for argument in arguments)
        return annotation if rewritten == arguments else _rebuilt(annotation, rewritten)

    def _converted(self, old: Any) -> Any:
        make: Any = typing_extensions.TypedDict
        new = make(old.__name__, {}, total=old.__total__)
        self._done[old] = new  # known before its fields are looked at, for they may hold it again
        for name in ("__doc__", "__module__", "__required_keys__", "__optional_keys__"):
            setattr(new, name, getattr(old, name))
        hints = get_type_hints(old, localns={**self._namespace, old.__name__: old}, include_extras=True)
        new.__annotations__ = {name: self.of(hint) for name, hint in hints.items()}
        return new


def _rebuilt(annotation: Any, arguments: tuple[Any, ...]) -> Any:
    if isinstance(annotation, types.UnionType):
        return functools.reduce(operator.or_, arguments)
    if hasattr(annotation, "copy_with"):
        return annotation.copy_with(arguments)
    return types.GenericAlias(get_origin(annotation), arguments)
