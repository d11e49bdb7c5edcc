"""The form of an elicitation: its fields and the validation of answers.

MCP allows flat forms of strings, numbers, booleans and choices. The CLI does not validate answers, so this is the only
check before the server's own. Unknown schema keywords are ignored.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

FieldValue: TypeAlias = str | int | float | bool | list[str]

_YES: Final = frozenset({"yes", "y", "true", "1", "on"})
_NO: Final = frozenset({"no", "n", "false", "0", "off"})
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

    def __reduce__(self) -> tuple[Any, ...]:
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
    schema: Mapping[str, Any]
    """The field's part of the server's schema."""

    def problem(self, value: Any) -> str | None:
        """Return what is wrong with a value, or None if it is valid."""
        match self.type:
            case "string":
                return self._problem_of_text(value)
            case "integer" | "number":
                return self._problem_of_number(value)
            case "boolean":
                return None if isinstance(value, bool) else "must be true or false"
            case "array":
                return self._problem_of_several(value)
            case _:
                return None

    def _problem_of_text(self, value: Any) -> str | None:
        if not isinstance(value, str):
            return "must be a string"
        if self.choices and value not in self.choices:
            return f"must be one of {', '.join(self.choices)}"
        known = _FORMATS.get(str(self.schema.get("format")))
        is_wrong = known is not None and not known.fullmatch(value)
        wrong = f"must be a {self.schema['format']}" if is_wrong else None
        return _limits(len(value), self.schema, "minLength", "maxLength", "characters") or wrong

    def _problem_of_number(self, value: Any) -> str | None:
        if not isinstance(value, int | float) or isinstance(value, bool):
            return "must be a number"
        if self.type == "integer" and not float(value).is_integer():
            return "must be a whole number"
        return _limits(value, self.schema, "minimum", "maximum", "")

    def _problem_of_several(self, value: Any) -> str | None:
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            return "must be a list of strings"
        if self.choices and not set(value) <= set(self.choices):
            return f"must be some of {', '.join(self.choices)}"
        return _limits(len(value), self.schema, "minItems", "maxItems", "choices")

    def convert(self, text: str) -> FieldValue:
        """Parse what a person typed. Multiple choices are separated by commas.

        Raises:
            ValueError: The text is not a number, or neither yes nor no.
        """
        match self.type:
            case "integer" | "number":
                return _number(text.strip())
            case "boolean":
                return _yes_or_no(text.strip().lower())
            case "array":
                return [part.strip() for part in text.split(",") if part.strip()]
            case _:
                return text.strip()


@dataclass(frozen=True)
class Form:
    """The form of an elicitation."""

    fields: Mapping[str, FormField]
    """By name, in the order in which the server lists them."""

    @classmethod
    def of(cls, schema: Mapping[str, Any] | None, order: Sequence[str] | None = None) -> "Form":
        """Read a server's schema. None gives a form without fields."""
        properties = (schema or {}).get("properties")
        properties = properties if isinstance(properties, Mapping) else {}
        required = (schema or {}).get("required")
        names = [name for name in order or () if name in properties]
        names += [name for name in properties if name not in names]
        return cls({name: _field(name, properties[name], name in (required or ())) for name in names})

    def problems(self, content: Mapping[str, Any]) -> dict[str, str]:
        """Return the problems of an answer by field name."""
        found = {name: "is not a field of the form" for name in content if name not in self.fields}
        for name, field in self.fields.items():
            missing = "is missing" if field.required else None
            problem = field.problem(content[name]) if name in content else missing
            if problem is not None:
                found[name] = problem
        return found

    def check(self, content: Mapping[str, Any]) -> dict[str, Any]:
        """Validate an answer and return it as a dict.

        Raises:
            FormError: The answer does not match the form.
        """
        problems = self.problems(content)
        if problems:
            raise FormError(problems)
        return dict(content)

    def convert(self, texts: Mapping[str, str]) -> dict[str, Any]:
        """Parse an answer that a person typed, by field name. Empty texts are omitted.

        Raises:
            FormError: A text cannot be parsed, or the answer does not match the form.
        """
        content: dict[str, Any] = {}
        problems: dict[str, str] = {}
        for name, text in texts.items():
            try:
                if text.strip():
                    content[name] = self.fields[name].convert(text) if name in self.fields else text
            except ValueError as error:
                problems[name] = str(error)
        if problems:
            raise FormError(problems)
        return self.check(content)


# Reading the schema ----------------------------------------------------------------------------------------------


def _field(name: str, schema: Any, required: bool) -> FormField:
    schema = schema if isinstance(schema, Mapping) else {}
    items = schema.get("items")
    return FormField(
        name=name,
        type=str(schema.get("type", "string")),
        title=str(schema.get("title", name)),
        description=str(schema.get("description", "")),
        required=required,
        default=schema.get("default"),
        choices=_choices(items if isinstance(items, Mapping) else schema),
        schema=schema,
    )


def _choices(schema: Mapping[str, Any]) -> dict[str, str]:
    for key in ("oneOf", "anyOf"):
        if isinstance(schema.get(key), list):
            return {str(one["const"]): str(one.get("title", one["const"])) for one in schema[key] if "const" in one}
    values, names = schema.get("enum"), schema.get("enumNames")
    if not isinstance(values, list):
        return {}
    titles = names if isinstance(names, list) and len(names) == len(values) else values
    return {str(value): str(title) for value, title in zip(values, titles, strict=True)}


def _limits(amount: float, schema: Mapping[str, Any], lowest: str, highest: str, unit: str) -> str | None:
    low, high = schema.get(lowest), schema.get(highest)
    if isinstance(low, int | float) and amount < low:
        return f"must be at least {low} {unit}".rstrip()
    if isinstance(high, int | float) and amount > high:
        return f"must be at most {high} {unit}".rstrip()
    return None


# Reading what a person typed -------------------------------------------------------------------------------------


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise ValueError("must be a number") from None


def _yes_or_no(text: str) -> bool:
    if text not in _YES | _NO:
        raise ValueError("must be yes or no")
    return text in _YES
