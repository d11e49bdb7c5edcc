"""The envelope of MCP: JSON-RPC 2.0 messages as dicts.

Owns what such a message is made of and how one is told from another. Knows no method.
"""

from typing import Any, TypeAlias

from claude_agent_py.wire.base import JSONObject

RequestID: TypeAlias = str | int

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
RESOURCE_NOT_FOUND = -32002
CANCELLED = -32800


class RPCError(Exception):
    """A request is answered with an error. Never leaves this package."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        self.code = code
        self.data = data
        super().__init__(message)


def request(request_id: RequestID, method: str, params: JSONObject | None = None) -> JSONObject:
    """Make a request."""
    return {"jsonrpc": "2.0", "id": request_id, "method": method, **({"params": params} if params else {})}


def notification(method: str, params: JSONObject | None = None) -> JSONObject:
    """Make a notification."""
    return {"jsonrpc": "2.0", "method": method, **({"params": params} if params else {})}


def result(request_id: RequestID, value: JSONObject) -> JSONObject:
    """Answer a request."""
    return {"jsonrpc": "2.0", "id": request_id, "result": value}


def error(request_id: RequestID | None, code: int, message: str, data: Any = None) -> JSONObject:
    """Answer a request with an error. The id is None where the request had none that could be read."""
    details: JSONObject = {"code": code, "message": message, **({"data": data} if data is not None else {})}
    return {"jsonrpc": "2.0", "id": request_id, "error": details}


def is_response(message: JSONObject) -> bool:
    """Tell whether a message answers a request."""
    return "method" not in message and ("result" in message or "error" in message)


def request_id_of(message: JSONObject) -> RequestID | None:
    """Give the id of a request; None for a notification."""
    found = message.get("id")
    return found if isinstance(found, str | int) and not isinstance(found, bool) else None
