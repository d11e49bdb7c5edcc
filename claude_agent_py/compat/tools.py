"""`tool` of the official SDK, and the schemas and results of such tools."""

import types as python_types
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Generic, NotRequired, Required, TypeVar, Union, get_args, get_origin

from typing_extensions import ReadOnly, get_type_hints, is_typeddict

from claude_agent_py._base.log import get_logger
from claude_agent_py.wire import JSONObject

T = TypeVar("T")
Handler = Callable[[Any], Awaitable[JSONObject]]

_logger = get_logger("claude_agent_py.compat")

_SCALARS: Final[Mapping[object, str]] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    list: "array",
    dict: "object",
}


@dataclass
class SdkMcpTool(Generic[T]):
    """A tool: a function of one dict, with its schema."""

    name: str
    description: str
    input_schema: type[T] | JSONObject
    handler: Callable[[T], Awaitable[JSONObject]]
    annotations: Any = None


def tool(
    name: str, description: str, input_schema: type | JSONObject, annotations: object = None
) -> Callable[[Handler], SdkMcpTool[Any]]:
    """Return a decorator that makes a tool of an async function of one dict.

    Args:
        name: The name of the tool.
        description: What it does, for the model.
        input_schema: A JSON Schema, types by name, or a TypedDict.
        annotations: A `ToolAnnotations`.
    """
    return lambda handler: SdkMcpTool(name, description, input_schema, handler, annotations)


# Schemas --------------------------------------------------------------------------------------------------------------


def build_schema(given: object) -> JSONObject:
    """Return the JSON Schema of a tool's `input_schema`."""
    if is_typeddict(given):
        return _schema_of_typeddict(given)
    if not isinstance(given, dict):
        return {"type": "object", "properties": {}}
    if isinstance(given.get("type"), str) and "properties" in given:
        return given
    properties = {name: _schema_of(annotation) for name, annotation in given.items()}
    return {"type": "object", "properties": properties, "required": list(properties)}


def _schema_of_typeddict(given: Any) -> JSONObject:
    hints = get_type_hints(given, include_extras=True)
    required = {"required": sorted(given.__required_keys__)} if given.__required_keys__ else {}
    return {"type": "object", "properties": {name: _schema_of(hint) for name, hint in hints.items()}, **required}


def _schema_of(annotation: object) -> JSONObject:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        texts = [note for note in arguments[1:] if isinstance(note, str)]
        return _schema_of(arguments[0]) | ({"description": texts[0]} if texts else {})
    if origin in (Required, NotRequired, ReadOnly):
        return _schema_of(arguments[0])
    if origin in (Union, python_types.UnionType):
        kinds = [_schema_of(argument) for argument in arguments if argument is not python_types.NoneType]
        return kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
    if origin is list and arguments:
        return {"type": "array", "items": _schema_of(arguments[0])}
    if is_typeddict(annotation):
        return _schema_of_typeddict(annotation)
    return {"type": _SCALARS.get(origin or annotation, "string")}


# Results --------------------------------------------------------------------------------------------------------------


def convert_content(items: Sequence[Mapping[str, object]]) -> list[JSONObject]:
    """Return the MCP content of a result. Links and texts of resources become text; what is unknown is left out.

    Raises KeyError if a text or an image lacks a part.
    """
    content: list[JSONObject] = []
    for item in items:
        match item:
            case {"type": "text"}:
                content.append({"type": "text", "text": item["text"]})
            case {"type": "resource", "resource": {"text": text}}:
                content.append({"type": "text", "text": text})
            case {"type": "image"}:
                content.append({"type": "image", "data": item["data"], "mimeType": item["mimeType"]})
            case {"type": "resource_link"}:
                parts = [str(item[name]) for name in ("name", "uri", "description") if item.get(name)]
                content.append({"type": "text", "text": "\n".join(parts) or "Resource link"})
            case _:
                _logger.warning("a tool returned content of the type %r, which is left out", item.get("type"))
    return content
