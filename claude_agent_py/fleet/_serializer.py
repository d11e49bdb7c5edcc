"""`JSONSerializer`: DBOS stores JSON instead of pickles, which can run code when they are loaded."""

import json
from datetime import datetime
from typing import Any, Final

from dbos import Serializer

from claude_agent_py._errors import FleetError

ERROR: Final = "__error__"
TIME: Final = "__time__"


class JSONSerializer(Serializer):
    """Serializes the data of workflows as JSON, because loading a pickle can run code."""

    def name(self) -> str:
        """Return the name of the format, which DBOS stores with the data."""
        return "claude_agent_py_json"

    def serialize(self, data: Any) -> str:
        """Return JSON; an exception becomes its text."""
        if isinstance(data, BaseException):
            return json.dumps({ERROR: f"{type(data).__name__}: {data}"})
        return json.dumps(data, default=_encode_time)

    def deserialize(self, serialized_data: str) -> Any:
        """Return the data; the text of an exception becomes a FleetError."""
        data = json.loads(serialized_data, object_hook=_decode_time)
        if isinstance(data, dict) and ERROR in data:
            return FleetError(data[ERROR])
        return data


def _encode_time(value: Any) -> Any:
    """Return the time of a schedule as JSON."""
    if isinstance(value, datetime):
        return {TIME: value.isoformat()}
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def _decode_time(value: dict[str, Any]) -> Any:
    if value.keys() == {TIME}:
        return datetime.fromisoformat(value[TIME])
    return value
