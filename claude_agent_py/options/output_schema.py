"""Fit a JSON Schema to the CLI, which reads draft-07 strictly and silently ignores a schema that it cannot compile.

Measured on CLI 2.1.328: it then offers no tool `StructuredOutput`, and the run succeeds without an output.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from claude_agent_py._base.json_object import JSONMapping, JSONObject

TYPES: Final = ("string", "number", "integer", "boolean", "object", "array", "null")

LATER: Final = (
    "unevaluatedProperties",
    "unevaluatedItems",
    "dependentRequired",
    "dependentSchemas",
    "minContains",
    "maxContains",
    "$dynamicRef",
    "$recursiveRef",
)
"""Constraints of later drafts, which draft-07 cannot express. Other unknown keywords constrain nothing."""

_NOT_JAVASCRIPT: Final = re.compile(
    r"""\(\?(?![:=!]|<[=!A-Za-z])              # inline flags, (?P<name>...)
      | \\[^\^$\\.*+?()\[\]{}|/dDwWsSbBnrtfv0-9cxupPk-]  # escapes of other characters
      | ^(?:[^\[\\]|\\.|\[(?:[^\]\\]|\\.)*\])*\\-       # an escaped hyphen outside of brackets
      | \\[dDwWsS]-[^\]]                      # a range that begins with a class
      | [*+?}]\+                              # possessive quantifiers
    """,
    re.VERBOSE | re.DOTALL,
)
"""What a pattern of Python may contain and one of JavaScript (with the flag `u`) may not."""

_ONLY_JAVASCRIPT: Final = (
    (re.compile(r"\\[pP]\{[^}]*\}|\\u\{[0-9a-fA-F]+\}"), "a"),
    (re.compile(r"\(\?<(?![=!])"), "(?P<"),
)
"""What a pattern of JavaScript may contain and one of Python may not, and what to check in its place."""


def fit_schema(schema: Mapping[str, object], *, is_validated: bool) -> JSONObject:
    """Return a schema as the CLI can compile it, without keywords that it does not know.

    Args:
        schema: A JSON Schema of any draft.
        is_validated: Whether this program validates the output, so that constraints which the CLI does not know may be
            left out.

    Raises:
        ValueError: The schema is invalid, or has a constraint that the CLI cannot check.
    """
    fitted: JSONObject = _Fitting(schema, is_validated=is_validated).schema(schema, "")
    return fitted


class _Fitting:
    def __init__(self, root: Mapping[str, object], *, is_validated: bool) -> None:
        self._root = root
        self._is_validated = is_validated

    def schema(self, schema: object, path: str) -> Any:
        """Return a schema, or part of one, without unknown keywords."""
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, Mapping):
            raise ValueError(f"{_at(path)} must be a schema (a dict or a bool), not {schema!r}")
        fitted: JSONObject = {}
        for keyword, value in _as_draft_07(schema).items():
            check = KEYWORDS.get(keyword)
            if check is not None:
                fitted[keyword] = check(self, value, f"{path}/{keyword}")
            elif keyword in LATER and not self._is_validated:
                raise ValueError(f"{_at(path)}: the CLI reads draft-07 of JSON Schema, which has no {keyword!r}")
        ignored = {name for name, needed in NEEDS.items() if not needed(fitted)}
        return {name: value for name, value in fitted.items() if name not in ignored and value is not _LEFT_OUT}

    def schemas(self, value: object, path: str) -> list[object]:
        if not isinstance(value, list | tuple) or not value:
            raise ValueError(f"{_at(path)} must be a list of schemas, not {value!r}")
        return [self.schema(one, f"{path}/{place}") for place, one in enumerate(value)]

    def one_or_more(self, value: object, path: str) -> object:
        return self.schemas(value, path) if isinstance(value, list | tuple) else self.schema(value, path)

    def schemas_by_name(self, value: object, path: str) -> JSONObject:
        if not isinstance(value, Mapping):
            raise ValueError(f"{_at(path)} must be a dict of schemas, not {value!r}")
        return {name: self.schema(one, f"{path}/{name}") for name, one in value.items()}

    def schemas_by_pattern(self, value: object, path: str) -> JSONObject:
        by_pattern = self.schemas_by_name(value, path)
        return {one: schema for one, schema in by_pattern.items() if self.pattern(one, f"{path}/{one}") is one}

    def dependencies(self, value: object, path: str) -> JSONObject:
        if not isinstance(value, Mapping):
            raise ValueError(f"{_at(path)} must be a dict, not {value!r}")
        return {
            name: self.names(one, f"{path}/{name}") if isinstance(one, list) else self.schema(one, f"{path}/{name}")
            for name, one in value.items()
        }

    def names(self, value: object, path: str) -> list[str]:
        is_list = isinstance(value, list | tuple) and all(isinstance(name, str) for name in value)
        if not isinstance(value, list | tuple) or not is_list:
            raise ValueError(f"{_at(path)} must be a list of names, not {value!r}")
        return list(dict.fromkeys(value))

    def type(self, value: object, path: str) -> object:
        types = list(dict.fromkeys(value)) if isinstance(value, list | tuple) else [value]
        wrong = [one for one in types if one not in TYPES]
        if wrong or not types:
            raise ValueError(f"{_at(path)} must be one of {', '.join(TYPES)}, not {wrong[0] if wrong else value!r}")
        return types if isinstance(value, list | tuple) else value

    def enum(self, value: object, path: str) -> list[object]:
        if not isinstance(value, list | tuple) or not value:
            raise ValueError(f"{_at(path)} must be a list of values, not {value!r}")
        kept: list[object] = []
        for one in value:
            if not any(one == other and type(one) is type(other) for other in kept):
                kept.append(one)
        return kept

    def pattern(self, value: object, path: str) -> object:
        problem, python = "", self.text(value, path)
        for javascript, replacement in _ONLY_JAVASCRIPT:
            python = javascript.sub(replacement, python)
        try:
            re.compile(python)
        except re.error as error:
            problem = f": {error}"
        if not problem and not _NOT_JAVASCRIPT.search(str(value)):
            return value
        if self._is_validated and not problem:
            return _LEFT_OUT
        raise ValueError(f"{_at(path)} must be a regular expression of JavaScript, not {value!r}{problem}")

    def reference(self, value: object, path: str) -> str:
        text = self.text(value, path)
        found: Any = self._root
        for part in text.removeprefix("#").split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            found = found.get(name) if isinstance(found, Mapping) else None
        if found is None or not re.match(r"#(/|$)", text):
            raise ValueError(f"{_at(path)} must refer to a part of the schema, such as '#/$defs/Name', not {text!r}")
        return text

    def text(self, value: object, path: str) -> str:
        if not isinstance(value, str):
            raise ValueError(f"{_at(path)} must be text, not {value!r}")
        return value

    def flag(self, value: object, path: str) -> bool:
        if not isinstance(value, bool):
            raise ValueError(f"{_at(path)} must be true or false, not {value!r}")
        return value

    def number(self, value: object, path: str) -> object:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"{_at(path)} must be a number, not {value!r}")
        return value

    def positive(self, value: object, path: str) -> object:
        if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
            raise ValueError(f"{_at(path)} must be a positive number, not {value!r}")
        return value

    def count(self, value: object, path: str) -> object:
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise ValueError(f"{_at(path)} must be a whole number from 0, not {value!r}")
        return value

    def anything(self, value: object, path: str) -> object:
        return value

    def anything_listed(self, value: object, path: str) -> object:
        return list(value) if isinstance(value, list | tuple) else _LEFT_OUT


_LEFT_OUT: Final = object()

KEYWORDS: Final[Mapping[str, Callable[[_Fitting, object, str], object]]] = {
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _Fitting.number),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), _Fitting.count),
    **dict.fromkeys(("minProperties", "maxProperties"), _Fitting.count),
    **dict.fromkeys(("uniqueItems", "readOnly", "writeOnly", "deprecated", "nullable"), _Fitting.flag),
    **dict.fromkeys(("title", "description", "$comment", "format", "$id"), _Fitting.text),
    **dict.fromkeys(("contentEncoding", "contentMediaType"), _Fitting.text),
    **dict.fromkeys(("anyOf", "allOf", "oneOf"), _Fitting.schemas),
    **dict.fromkeys(("not", "if", "then", "else", "additionalProperties", "additionalItems"), _Fitting.schema),
    **dict.fromkeys(("contains", "propertyNames"), _Fitting.schema),
    **dict.fromkeys(("properties", "definitions", "$defs"), _Fitting.schemas_by_name),
    **dict.fromkeys(("default", "const"), _Fitting.anything),
    "$ref": _Fitting.reference,
    "dependencies": _Fitting.dependencies,
    "enum": _Fitting.enum,
    "examples": _Fitting.anything_listed,
    "items": _Fitting.one_or_more,
    "multipleOf": _Fitting.positive,
    "pattern": _Fitting.pattern,
    "patternProperties": _Fitting.schemas_by_pattern,
    "required": _Fitting.names,
    "type": _Fitting.type,
}
"""The keywords of draft-07 that the CLI knows, and what checks their values."""

NEEDS: Final[Mapping[str, Callable[[JSONObject], bool]]] = {
    "nullable": lambda schema: "type" in schema,
    "additionalItems": lambda schema: isinstance(schema.get("items"), list),
    "if": lambda schema: "then" in schema or "else" in schema,
    "then": lambda schema: "if" in schema,
    "else": lambda schema: "if" in schema,
}
"""What keywords need in order to mean something: the CLI refuses a schema that has them alone."""


def _as_draft_07(schema: Mapping[str, object]) -> JSONMapping:
    """Return a schema with the keywords of draft-07 for the arrays with fixed places of later drafts."""
    if "prefixItems" not in schema:
        return schema
    places = schema["prefixItems"]
    rest = {name: value for name, value in schema.items() if name not in ("prefixItems", "items")}
    return {**rest, "items": places, "additionalItems": schema.get("items", True)}


def _at(path: str) -> str:
    return f"the schema at {path!r}" if path else "the schema"
