"""How DBOS writes what it keeps: as JSON, instead of pickles, which may run code when they are read."""

import json
from datetime import datetime
from typing import Any, Final

from dbos import Serializer

from claude_agent_py._errors import FleetError

ERROR: Final = "__error__"
TIME: Final = "__time__"


class JSONSerializer(Serializer):
    """Writes workflows as JSON, instead of pickles, which may run code when they are read."""

    def name(self) -> str:
        """Return what DBOS notes beside the data."""
        return "claude_agent_py_json"

    def serialize(self, data: Any) -> str:
        """Return JSON; an exception becomes its text."""
        if isinstance(data, BaseException):
            return json.dumps({ERROR: f"{type(data).__name__}: {data}"})
        return json.dumps(data, default=_time_as_json)

    def deserialize(self, serialized_data: str) -> Any:
        """Return the data; the text of an exception becomes a FleetError."""
        data = json.loads(serialized_data, object_hook=_time_of_json)
        if isinstance(data, dict) and ERROR in data:
            return FleetError(data[ERROR])
        return data


def _time_as_json(value: Any) -> Any:
    """Return a time, of a schedule, as JSON."""
    if isinstance(value, datetime):
        return {TIME: value.isoformat()}
    raise TypeError(f"{type(value).__name__} is not JSON")


def _time_of_json(value: dict[str, Any]) -> Any:
    return datetime.fromisoformat(value[TIME]) if value.keys() == {TIME} else value
