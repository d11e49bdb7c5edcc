"""The form of an elicitation: its fields, and the validation of answers."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from claude_agent_py._base.json_object import JSONMapping
from claude_agent_py.wire.base import JSONObject

FieldValue: TypeAlias = str | int | float | bool | list[str]

_FORMATS: Final = {
    "email": re.compile(r"[^@\s]+@[^@\s]+"),
    "uri": re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S+"),
    "date": re.compile(r"\d{4}-\d{2}-\d{2}"),
    "date-time": re.compile(r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}.*"),
}


class FormError(ValueError):
    """The answer does not match the form."""

    def __init__(self, problems: Mapping[str, str]) -> None:
        self.problems: dict[str, str] = dict(problems)
        """Problems by field name."""
        super().__init__("; ".join(f"{name}: {problem}" for name, problem in self.problems.items()))

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.problems,)


@dataclass(frozen=True)
class FormField:
    """One field of a form."""

    name: str
    type: str
    """`string`, `integer`, `number`, `boolean`, or `array` (several of `choices`)."""
    title: str
    description: str
    required: bool
    default: Any
    choices: Mapping[str, str]
    """Allowed values and their labels; empty if any value is allowed."""
    schema: JSONMapping
    """The field's part of the server's schema."""

    def problem(self, value: object) -> str | None:
        """Return the problem of a value, or None if the value is valid."""
        match self.type:
            case "string":
                return self._check_text(value)
            case "integer" | "number":
                return self._check_number(value)
            case "boolean":
                return None if isinstance(value, bool) else "must be true or false"
            case "array":
                return self._check_list(value)
            case _:
                return None

    def _check_text(self, value: object) -> str | None:
        if not isinstance(value, str):
            return "must be a string"
        if self.choices and value not in self.choices:
            return f"must be one of {', '.join(self.choices)}"
        problem = _check_limits(len(value), self.schema, "minLength", "maxLength", "characters")
        if problem is not None:
            return problem
        pattern = _FORMATS.get(str(self.schema.get("format")))
        if pattern is not None and not pattern.fullmatch(value):
            return f"must be a {self.schema['format']}"
        return None

    def _check_number(self, value: object) -> str | None:
        if not isinstance(value, int | float) or isinstance(value, bool):
            return "must be a number"
        if isinstance(value, float) and not math.isfinite(value):
            return "must be a finite number"
        if self.type == "integer" and isinstance(value, float) and not value.is_integer():
            return "must be a whole number"
        return _check_limits(value, self.schema, "minimum", "maximum", "")

    def _check_list(self, value: object) -> str | None:
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            return "must be a list of strings"
        if self.choices and not set(value) <= set(self.choices):
            return f"must be some of {', '.join(self.choices)}"
        return _check_limits(len(value), self.schema, "minItems", "maxItems", "choices")


@dataclass(frozen=True)
class Form:
    """The form of an elicitation.

    MCP allows flat forms of strings, numbers, booleans and choices. The CLI does not validate answers, so this is the
    only check before the server's own. Unknown schema keywords are ignored.
    """

    fields: Mapping[str, FormField]
    """By name, in the server's order."""

    @classmethod
    def of(cls, schema: JSONMapping | None, order: Sequence[str] | None = None) -> "Form":
        """Read a server's schema. None gives a form without fields."""
        properties = (schema or {}).get("properties")
        properties = properties if isinstance(properties, Mapping) else {}
        required = (schema or {}).get("required")
        required = required if isinstance(required, list) else []
        names = [name for name in order or () if name in properties]
        names += [name for name in properties if name not in names]
        return cls({name: _read_field(name, properties[name], name in required) for name in names})

    def problems(self, content: Mapping[str, object]) -> dict[str, str]:
        """Return the problems of an answer by field name."""
        found = {name: "is not a field of the form" for name in content if name not in self.fields}
        for name, field in self.fields.items():
            missing = "is missing" if field.required else None
            problem = field.problem(content[name]) if name in content else missing
            if problem is not None:
                found[name] = problem
        return found

    def check(self, content: Mapping[str, object]) -> JSONObject:
        """Validate an answer and return it as a dict.

        Raises:
            FormError: The answer does not match the form.
        """
        problems = self.problems(content)
        if problems:
            raise FormError(problems)
        return dict(content)


# Reading the schema ----------------------------------------------------------------------------------------------


def _read_field(name: str, schema: object, required: bool) -> FormField:
    schema = schema if isinstance(schema, Mapping) else {}
    items = schema.get("items")
    return FormField(
        name=name,
        type=str(schema.get("type", "string")),
        title=str(schema.get("title", name)),
        description=str(schema.get("description", "")),
        required=required,
        default=schema.get("default"),
        choices=_read_choices(items if isinstance(items, Mapping) else schema),
        schema=schema,
    )


def _read_choices(schema: JSONMapping) -> dict[str, str]:
    for key in ("oneOf", "anyOf"):
        if isinstance(schema.get(key), list):
            choices = [choice for choice in schema[key] if isinstance(choice, Mapping) and "const" in choice]
            return {str(choice["const"]): str(choice.get("title", choice["const"])) for choice in choices}
    values = schema.get("enum")
    names = schema.get("enumNames")
    if not isinstance(values, list):
        return {}
    titles = names if isinstance(names, list) and len(names) == len(values) else values
    return {str(value): str(title) for value, title in zip(values, titles, strict=True)}


def _check_limits(amount: float, schema: Mapping[str, object], lowest: str, highest: str, unit: str) -> str | None:
    low = schema.get(lowest)
    high = schema.get(highest)
    if isinstance(low, int | float) and amount < low:
        return f"must be at least {low} {unit}".rstrip()
    if isinstance(high, int | float) and amount > high:
        return f"must be at most {high} {unit}".rstrip()
    return None
