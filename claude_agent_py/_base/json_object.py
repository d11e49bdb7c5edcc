"""The type of JSON objects, apart from the models of the wire, whose import takes time."""

from typing import Any, TypeAlias

JSONObject: TypeAlias = dict[str, Any]
"""A JSON object."""
