"""`OutputShape`: the JSON Schema of an output type, and the validation of structured output.

Types that are not a JSON object are wrapped in one, because the CLI asks the model for an object.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import Annotated, Any, Final

from pydantic import AfterValidator, PydanticUserError, TypeAdapter, create_model
from pydantic.errors import PydanticSchemaGenerationError
from typing_extensions import TypeVar

from claude_agent_py._base.json_object import JSONObject, inline_root
from claude_agent_py.options.output_schema import fit_schema

Output = TypeVar("Output", default=Any)
"""The type of `RunResult.output`, set by the option `output_type`."""

REFUSAL: Final = "The output is not valid."
"""How the refusal of an output that `output_type` does not accept begins."""


class OutputShape:
    """The schema and the validator of an output type.

    Raises:
        ValueError: The type has no JSON Schema.
    """

    def __init__(self, output_type: Any) -> None:
        from claude_agent_py.tools.schema import convert_typed_dicts

        output_type = convert_typed_dicts(output_type, {})
        adapter = _build_adapter(output_type)
        schema = inline_root(_build_schema(adapter))
        if schema.get("type") != "object":
            wrapper = create_model("Answer", value=(output_type, ...))
            unwrapping: Any = Annotated[wrapper, AfterValidator(attrgetter("value"))]
            adapter = TypeAdapter(unwrapping)
            schema = _build_schema(adapter)
        self.schema: JSONObject = fit_schema(schema, is_validated=True)
        """The JSON Schema, as the CLI can compile it. Its root is an object."""
        self.adapter: TypeAdapter[Any] = adapter
        """Validates the structured output of the CLI and converts it to the Python value."""


def check_output_format(value: object) -> JSONObject:
    """Return the JSON Schema of `output_format`: a plain schema, or an official SDK's `{type: json_schema, schema}`.

    Raises ValueError if it does not describe an object (the CLI would exit), or if the CLI cannot compile it.
    """
    if isinstance(value, Mapping) and value.get("type") == "json_schema":
        value = value.get("schema")
    if not isinstance(value, Mapping):
        raise ValueError(f"must be a JSON Schema (a dict), not {type(value).__name__}")
    if value.get("type", "object") != "object":
        raise ValueError(
            f"must describe an object, not {value['type']!r}: wrap it in a property, or use output_type, which wraps it"
        )
    return fit_schema(value, is_validated=False)


def _build_adapter(output_type: Any) -> TypeAdapter[Any]:
    try:
        return TypeAdapter(output_type)
    except (PydanticSchemaGenerationError, PydanticUserError, TypeError, NameError) as error:
        raise ValueError(f"must be a type that pydantic can validate: {_first_sentence(error)}") from None


def _first_sentence(error: Exception) -> str:
    return str(error).splitlines()[0].split(". ")[0]


def _build_schema(adapter: TypeAdapter[Any]) -> JSONObject:
    try:
        return adapter.json_schema()
    except PydanticUserError as error:
        raise ValueError(f"must be a type that has a JSON Schema: {_first_sentence(error)}") from None
