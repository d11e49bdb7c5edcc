"""JSON objects and their schemas, apart from the models of the wire, whose import takes time."""

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

JSONObject: TypeAlias = dict[str, Any]
"""A JSON object."""
JSONMapping: TypeAlias = Mapping[str, Any]
"""A JSON object that is only read."""


def inline_root(schema: JSONObject) -> JSONObject:
    """Return a JSON Schema whose root is not a reference to one of its definitions."""
    name = schema.get("$ref", "").removeprefix("#/$defs/")
    rest = {key: value for key, value in schema.items() if key != "$ref"}
    return {**schema["$defs"][name], **rest} if name else schema


def check_values(value: JSONObject) -> JSONObject:
    """Return an object of the user. Raises ValueError if it contains what JSON cannot represent."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"must hold only JSON values: {error}") from None
    return value
