"""`FormType`: the form of a question to a person, made from a type."""

import json
from collections.abc import Mapping
from typing import Any, Final, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticUserError

from claude_agent_py._base.errors import OptionsError
from claude_agent_py.wire.base import JSONObject

_PRIMITIVE: Final = frozenset({"string", "integer", "number", "boolean"})
_Form = TypeVar("_Form")


class FormType:
    """A type whose fields a person fills in: a pydantic model, a dataclass or a `TypedDict`.

    MCP allows texts, numbers, booleans, one of several texts (`Literal`, an enum), and lists of such choices.

    Raises:
        OptionsError: A field has another type, or the type has no fields.
    """

    def __init__(self, form: type[_Form]) -> None:
        try:
            self._adapter: TypeAdapter[Any] = TypeAdapter(form)
            schema = self._adapter.json_schema()
        except (PydanticUserError, PydanticInvalidForJsonSchema) as error:
            raise OptionsError(f"{form!r} has no JSON Schema: {error}", option="form") from None
        definitions = schema.get("$defs", {})
        if "$ref" in schema:
            schema = definitions[schema["$ref"].rpartition("/")[2]]
        fields = schema.get("properties")
        if not fields:
            raise OptionsError(f"must be a type with fields, not {form!r}", option="form")
        self.schema: JSONObject = {
            "type": "object",
            "properties": {name: _flatten(name, field, definitions) for name, field in fields.items()},
            "required": schema.get("required", []),
        }

    def read(self, content: object) -> Any:
        """Return an answer as a value of the type. Raises ValueError if its own validators refuse it."""
        try:
            return self._adapter.validate_json(
                json.dumps(content)
            )  # strict types accept dates and enums from JSON only
        except ValidationError as error:
            problems = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
            raise ValueError(f"the answer is not valid: {problems}") from None


def _flatten(name: str, field: JSONObject, definitions: JSONObject) -> JSONObject:
    """Return the schema of a field without references and null, which forms do not have."""
    field = dict(field)
    choices = [each for each in field.pop("anyOf", ()) if each != {"type": "null"}]
    if len(choices) == 1:
        field |= choices[0]
    reference = field.pop("$ref", None)
    if reference is not None:
        field = {**definitions[reference.rpartition("/")[2]], **field}
    if "const" in field:
        field["enum"] = [field.pop("const")]
    if not all(isinstance(choice, str) for choice in field.get("enum", ())):
        raise OptionsError(f"the choices of the field {name!r} must be texts", option="form")
    if field.get("default", 0) is None:
        del field["default"]
    items = field.get("items")
    if field.get("type") == "array" and isinstance(items, Mapping):
        items = field["items"] = _flatten(name, dict(items), definitions)
        is_allowed = "enum" in items
    else:
        is_allowed = field.get("type") in _PRIMITIVE
    if not is_allowed or len(choices) > 1:
        raise OptionsError(
            f"the field {name!r} must be a text, a number, a boolean, a choice or a list of choices", option="form"
        )
    return field
