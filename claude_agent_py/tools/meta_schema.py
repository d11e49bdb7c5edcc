"""`check_input_schema`: refuse a schema of a tool that the CLI does not accept, and say where.

The CLI compares each schema with the meta-schema of JSON Schema, draft 2020-12, unless the schema names another draft.
It leaves out a tool whose schema does not fit, without a word.

`options.output_schema` does the same for structured output, which the CLI compares with draft-07.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta

from claude_agent_py._base.errors import OptionsError
from claude_agent_py._base.json_object import JSONMapping, JSONObject

_DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
_PROPERTY: Final = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
"""Names of arguments that the Messages API allows."""

_Type: TypeAlias = Literal["array", "boolean", "integer", "null", "number", "object", "string"]
_Count: TypeAlias = Annotated[int, Meta(ge=0)]
_Name: TypeAlias = Annotated[str, Meta(pattern="^[A-Za-z_][-A-Za-z0-9._]*$")]

_SCHEMA: Final = frozenset(
    {"items", "contains", "additionalProperties", "propertyNames", "unevaluatedItems", "unevaluatedProperties"}
    | {"contentSchema", "not", "if", "then", "else"}
)
"""Keywords whose value is a schema."""
_SCHEMAS: Final = frozenset({"prefixItems", "allOf", "anyOf", "oneOf"})
"""Keywords whose value is a list of schemas."""
_NAMED_SCHEMAS: Final = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"})
"""Keywords whose value is an object of schemas."""
_FORMS: Final[Mapping[str, object]] = {
    "type": _Type | Annotated[set[_Type], Meta(min_length=1)],
    "required": set[str],
    "dependentRequired": dict[str, list[str]],
    "multipleOf": Annotated[float, Meta(gt=0)],
    "$id": Annotated[str, Meta(pattern="^[^#]*#?$")],
    "$vocabulary": dict[str, bool],
    **dict.fromkeys(_SCHEMA, dict[str, object] | bool),
    **dict.fromkeys(_SCHEMAS, Annotated[list[object], Meta(min_length=1)]),
    **dict.fromkeys((*_NAMED_SCHEMAS, "dependencies"), dict[str, object]),
    **dict.fromkeys(("enum", "examples"), list[object]),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum"), float),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), _Count),
    **dict.fromkeys(("minContains", "maxContains", "minProperties", "maxProperties"), _Count),
    **dict.fromkeys(("uniqueItems", "deprecated", "readOnly", "writeOnly"), bool),
    **dict.fromkeys(("$anchor", "$dynamicAnchor", "$recursiveAnchor"), _Name),
    **dict.fromkeys(("$schema", "$ref", "$dynamicRef", "$recursiveRef", "$comment"), str),
    **dict.fromkeys(("title", "description", "pattern", "format", "contentEncoding", "contentMediaType"), str),
}
"""What the value of a keyword must be."""


def check_input_schema(schema: JSONMapping, tool: str) -> None:
    """Raise OptionsError unless this describes the arguments of a tool."""
    try:
        text = json.dumps(schema, allow_nan=False)
        problem = _find_problem(json.loads(text, parse_float=_read_number))
    except (TypeError, ValueError, RecursionError) as error:
        problem = f"an input schema must be JSON: {error}"
    if problem:
        raise OptionsError(problem, option=f"tool {tool!r}")


def _read_number(text: str) -> float:
    """Return a number as JavaScript reads it: 1.0 is 1."""
    number = float(text)
    return int(number) if number.is_integer() else number


def _find_problem(schema: JSONObject) -> str:
    if schema.get("type") != "object":
        return 'an input schema must have "type": "object"'
    is_of_draft = schema.get("$schema", _DRAFT) in (_DRAFT, f"{_DRAFT}#")
    for place, problem in _compare_schema(schema, "") if is_of_draft else _compare_tool(schema):
        return f"an input schema must be JSON Schema; at {place!r}: {problem}"
    for name in schema.get("properties", ()):
        if _PROPERTY.fullmatch(name) is None:
            return (
                f"the API does not allow the property name {name!r}, only up to 64 letters, digits, `_`, `.` and `-`; "
                "Annotated[..., Field(alias=...)] sets the name of a parameter"
            )
    return ""


def _compare_tool(schema: JSONObject) -> Iterator[tuple[str, str]]:
    """Yield (place, problem) for what MCP does not allow, whatever the draft: the CLI drops all tools of the server."""
    for keyword in schema.keys() & {"properties", "required"}:
        if problem := _compare(schema[keyword], _FORMS[keyword]):
            yield f"/{keyword}", problem


def _compare_schema(schema: JSONObject, place: str) -> Iterator[tuple[str, str]]:
    """Yield (place, problem) for what the meta-schema does not allow in a schema and in those that it contains."""
    for keyword, value in schema.items():
        here = f"{place}/{keyword}"
        if problem := _compare(value, _FORMS.get(keyword, object)):
            yield here, problem
        else:
            for name, inner in _list_schemas(keyword, value):
                if problem := _compare(inner, dict[str, object] | bool):
                    yield f"{here}{name}", problem
                elif isinstance(inner, dict):
                    yield from _compare_schema(inner, f"{here}{name}")


def _list_schemas(keyword: str, value: Any) -> Iterator[tuple[str, object]]:
    """Yield the (place, schema) of each schema in the value of a keyword."""
    if keyword in _SCHEMA:
        yield "", value
    elif keyword in _SCHEMAS:
        yield from ((f"/{index}", each) for index, each in enumerate(value))
    elif keyword in _NAMED_SCHEMAS:
        yield from ((f"/{name}", each) for name, each in value.items())


def _compare(value: object, form: Any) -> str:
    """Return why a value is not of a form, or nothing."""
    try:
        read = msgspec.convert(value, form)
    except msgspec.ValidationError as error:
        return str(error)
    is_repeated = isinstance(read, set) and isinstance(value, list) and len(read) < len(value)
    return "Expected different values" if is_repeated else ""
