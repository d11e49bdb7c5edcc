"""JSON-RPC 2.0 messages as dicts."""

from typing import TypeAlias

from claude_agent_py.wire.base import JSONObject

PROTOCOL_VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Supported versions, newest first."""

RequestID: TypeAlias = str | int

INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
RESOURCE_NOT_FOUND = -32002
CANCELLED = -32800


class RPCError(Exception):
    """An error that becomes the response to a request. Not raised to users."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        self.code = code
        self.data = data
        super().__init__(message)

    def to_response(self, request_id: RequestID | None) -> JSONObject:
        """Return the response. The id is None if the request's id could not be read."""
        error: JSONObject = {"code": self.code, "message": str(self)}
        if self.data is not None:
            error["data"] = self.data
        return {"jsonrpc": "2.0", "id": request_id, "error": error}


def is_response(message: JSONObject) -> bool:
    """Return whether a message answers a request."""
    return "method" not in message and ("result" in message or "error" in message)


def get_request_id(message: JSONObject) -> RequestID | None:
    """Return the id of a request, or None for a notification or an invalid id."""
    found = message.get("id")
    return found if isinstance(found, str | int) and not isinstance(found, bool) else None


def check_request_id(message: JSONObject) -> RequestID | None:
    """Return the id of a request, or None for a notification. Raises RPCError for an invalid id."""
    found = get_request_id(message)
    if found is None and "id" in message:
        raise RPCError(INVALID_REQUEST, "an id must be a string or an integer")
    return found
