"""Encode values as JSON or YAML, including models, dataclasses, `msgspec` structs, enums, dates, paths and sets."""

import json
import re
from collections import deque
from collections.abc import Iterable
from math import isfinite
from pathlib import PurePath
from types import ModuleType
from typing import Any, Final, Protocol

import msgspec
from pydantic_core import PydanticSerializationError, to_jsonable_python

from claude_agent_py.wire.base import WireModel, dump


class EncodingError(ValueError):
    """A value cannot be encoded."""


class Encoder(Protocol):
    """Protocol of objects that encode values as text and decode it."""

    def encode(self, value: object) -> str:
        """Encode a value as text.

        Raises:
            EncodingError: The value cannot be encoded.
        """
        ...

    def decode(self, text: str) -> Any:
        """Decode text to dicts, lists, strings, numbers, booleans and None.

        Raises:
            ValueError: The text is invalid.
        """
        ...


class JSONEncoder:
    """Encodes values as JSON.

    Args:
        indent: Spaces per level; None writes a single line.
    """

    def __init__(self, *, indent: int | None = None) -> None:
        self.indent = indent

    def __repr__(self) -> str:
        return f"JSONEncoder(indent={self.indent})"

    def encode(self, value: object) -> str:
        """Encode a value as JSON. NaN and infinities become strings; non-ASCII characters are not escaped.

        Raises:
            EncodingError: The value cannot be encoded.
        """
        return json.dumps(plain(value), ensure_ascii=False, indent=self.indent, allow_nan=False)

    def decode(self, text: str) -> Any:
        """Decode JSON.

        Raises:
            ValueError: The text is not JSON, or is nested too deeply.
        """
        try:
            return json.loads(text)
        except RecursionError:
            raise ValueError("the JSON is nested too deeply") from None


_RARE_BREAKS: Final = re.compile("[\x85\u2028\u2029]")


class YAMLEncoder:
    """Encodes values as YAML in block style. Requires PyYAML (extra `tools`).

    Raises:
        ImportError: PyYAML is not installed.
    """

    def __init__(self) -> None:
        yaml = self._yaml = import_yaml()

        class Loader(yaml.SafeLoader):  # type: ignore[misc, name-defined]
            """Rejects aliases: with them, a short text can expand to a value of any size."""

            def compose_node(self, parent: object, index: object) -> Any:
                events: Any = self
                if events.check_event(yaml.AliasEvent):
                    mark = events.peek_event().start_mark
                    raise yaml.composer.ComposerError(None, None, "aliases are rejected", mark)
                return super().compose_node(parent, index)

        class Dumper(yaml.SafeDumper):  # type: ignore[misc, name-defined]
            """Quotes text with rare line breaks as JSON does: PyYAML (6.0.4) would read other spaces in their place."""

            def represent_str(self, data: str) -> object:
                style = '"' if _RARE_BREAKS.search(data) else None
                return self.represent_scalar("tag:yaml.org,2002:str", data, style=style)

        Dumper.add_representer(str, Dumper.represent_str)
        self._loader, self._dumper = Loader, Dumper

    def __repr__(self) -> str:
        return "YAMLEncoder()"

    def encode(self, value: object) -> str:
        """Encode a value as YAML. Keys keep their order.

        Raises:
            EncodingError: The value cannot be encoded.
        """
        text: str = self._yaml.dump(plain(value), Dumper=self._dumper, allow_unicode=True, sort_keys=False)
        return text.removesuffix("\n").removesuffix("\n...")

    def decode(self, text: str) -> Any:
        """Decode YAML. Aliases and tags that create Python objects are rejected.

        Raises:
            ValueError: The text is invalid, uses aliases or such tags, or is nested too deeply.
        """
        try:
            return self._yaml.load(text, Loader=self._loader)
        except RecursionError:
            raise ValueError("the YAML is nested too deeply") from None
        except (self._yaml.YAMLError, LookupError, AttributeError, TypeError, ArithmeticError) as error:
            # PyYAML raises all of these for a value that does not match its tag, such as `!!int ""`.
            raise ValueError(f"not YAML: {error}") from error


def import_yaml() -> ModuleType:
    """Return the package `yaml`. Raises ImportError if PyYAML is not installed."""
    try:
        import yaml
    except ImportError as error:
        raise ImportError("YAML needs PyYAML: pip install pyyaml") from error
    return yaml


def plain(value: object) -> Any:
    """Convert a value to dicts, lists, strings, numbers, booleans and None.

    Raises:
        EncodingError: The value cannot be converted, or contains an iterator. The message names its type.
    """
    try:
        return _convert(value)
    except EncodingError:
        raise
    except RecursionError:  # its traceback has thousands of lines, and says no more
        problem = "it is nested too deeply, or contains itself"
    except (PydanticSerializationError, ValueError) as error:
        raise EncodingError(f"cannot encode a value of type {type(value).__qualname__} as JSON: {error}") from error
    raise EncodingError(f"cannot encode a value of type {type(value).__qualname__} as JSON: {problem}")


def _convert(value: object) -> object:
    """Convert a value. Iterators, such as generators, are refused: they may never end."""
    kind = type(value)
    if kind in _PLAIN:
        return _clean(value)
    if isinstance(value, dict):
        return {_convert_key(name): _convert(item) for name, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset | deque):
        return [_convert(item) for item in value]
    _refuse_iterators(value)
    return _clean(to_jsonable_python(value, by_alias=True, bytes_mode="base64", fallback=_fallback))


_PLAIN: Final = frozenset({str, int, float, bool, type(None)})


def _convert_key(key: object) -> str:
    if type(key) is str:
        return clean_text(key)
    [converted] = _clean(to_jsonable_python({key: None}, by_alias=True, bytes_mode="base64", fallback=_fallback))
    return str(converted)


def _refuse_iterators(value: Any) -> None:
    """Raise EncodingError if a value is an iterator, or a model or dataclass that contains one."""
    kind = type(value)
    if hasattr(kind, "__next__"):
        raise EncodingError(f"cannot encode an iterator of type {kind.__qualname__}; use a list")
    parts: Iterable[object] = ()
    if isinstance(value, dict):
        parts = value.values()
    elif isinstance(value, list | tuple | set | frozenset | deque):
        parts = value
    elif hasattr(kind, "__pydantic_fields__"):
        parts = [*vars(value).values(), *(getattr(value, "__pydantic_extra__", None) or {}).values()]
    elif hasattr(kind, "__dataclass_fields__"):
        parts = [getattr(value, name, None) for name in kind.__dataclass_fields__]
    for part in parts:
        if type(part) not in _PLAIN:
            _refuse_iterators(part)


def _fallback(value: object) -> object:
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, WireModel):
        return dump(value)
    if isinstance(value, msgspec.Struct):
        return msgspec.to_builtins(value, builtin_types=(bytes,), enc_hook=_convert)
    raise PydanticSerializationError(f"unsupported type {type(value).__qualname__}")


def clean_text(text: str) -> str:
    """Replace lone surrogates, which Python uses in undecodable file names and UTF-8 cannot represent."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _clean(value: object) -> Any:
    match value:
        case dict():
            return {clean_text(name): _clean(item) for name, item in value.items()}
        case list():
            return [_clean(item) for item in value]
        case str():
            return clean_text(value)
        case float() if not isfinite(value):
            return str(value)
        case _:
            return value
