"""Values as text: JSON or YAML.

Owns what a value of the user's becomes: pydantic models, dataclasses, enums, dates, paths, sets and the like have a
JSON form, and YAML writes that same form. Knows nothing of sections, tools and results.
"""

import json
from math import isfinite
from pathlib import PurePath
from typing import Any, Protocol

from pydantic_core import PydanticSerializationError, to_jsonable_python


class EncodingError(ValueError):
    """A value has no form in the notation that was asked for."""


class Encoder(Protocol):
    """Writes values as text, and reads text back as plain values."""

    def encode(self, value: Any) -> str:
        """Write a value. Raises EncodingError where it has no such form."""
        ...

    def decode(self, text: str) -> Any:
        """Read a plain value. Raises ValueError where the text is none."""
        ...


class JSONEncoder:
    """JSON, on one line unless `indent` says how many spaces a level has. Non-ASCII text stays readable."""

    def __init__(self, *, indent: int | None = None) -> None:
        self.indent = indent

    def __repr__(self) -> str:
        return f"JSONEncoder(indent={self.indent})"

    def encode(self, value: Any) -> str:
        """Write a value as JSON; what JSON has no number for (NaN, infinity) becomes a string."""
        return json.dumps(plain(value), ensure_ascii=False, indent=self.indent, allow_nan=False)

    def decode(self, text: str) -> Any:
        """Read JSON."""
        return json.loads(text)


class YAMLEncoder:
    """YAML in block style, which models read well. Needs PyYAML (extra `tools`).

    Raises:
        ImportError: PyYAML is not installed.
    """

    def __init__(self) -> None:
        try:
            import yaml
        except ImportError as error:
            raise ImportError("YAML needs PyYAML: pip install pyyaml") from error
        self._yaml = yaml

    def __repr__(self) -> str:
        return "YAMLEncoder()"

    def encode(self, value: Any) -> str:
        """Write a value as YAML, keys in their order."""
        text: str = self._yaml.safe_dump(plain(value), allow_unicode=True, sort_keys=False, default_flow_style=False)
        return text.removesuffix("\n").removesuffix("\n...")

    def decode(self, text: str) -> Any:
        """Read YAML, without the tags that make objects."""
        try:
            return self._yaml.safe_load(text)
        except self._yaml.YAMLError as error:
            raise ValueError(str(error)) from error


def plain(value: Any) -> Any:
    """Give the JSON form of a value: nothing but dicts, lists, strings, numbers, booleans and None.

    Raises:
        EncodingError: It has none; the text names the type.
    """
    try:
        return _clean(to_jsonable_python(value, by_alias=True, bytes_mode="base64", fallback=_fallback))
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise EncodingError(f"a value of type {type(value).__qualname__} has no JSON form: {error}") from error


def _fallback(value: Any) -> Any:
    if isinstance(value, PurePath):
        return str(value)
    raise PydanticSerializationError(f"there is none for {type(value).__qualname__}")


def clean_text(text: str) -> str:
    """Replace lone surrogates, which Python puts into undecodable file names and no wire can carry."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _clean(value: Any) -> Any:
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
