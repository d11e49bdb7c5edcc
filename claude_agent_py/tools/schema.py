"""From a function's signature to a JSON Schema, and from a model's arguments to a call.

Owns which parameters a model sees, what is said about them, and how arguments are checked before the function runs. The
types are pydantic's business: whatever it can validate and describe may stand in a signature.

Arguments are validated as JSON, for that is what a model writes: a date is a text, a tuple is a list. Where a model
writes a list or an object as a text (some do), the text is read as JSON before the call is refused.
"""

import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace, new_class
from typing import Annotated, Any, TypeAlias, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind
from pydantic_core import to_json

from claude_agent_py.errors import OptionsError, ToolInputError
from claude_agent_py.tools.context import ToolContext
from claude_agent_py.tools.typed_dicts import modern
from claude_agent_py.wire.base import JSONObject

PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
"""What the Messages API allows as the name of a property."""

Bound: TypeAlias = tuple[list[Any], dict[str, Any]]
"""Positional arguments and keywords."""

SHOWN_CHARS = 80
"""How much of a wrong value an error repeats."""


class _SchemaGenerator(GenerateJsonSchema):
    """Leaves out titles that only repeat a name, and is silent about defaults that JSON cannot express."""

    ignored_warning_kinds: set[JsonSchemaWarningKind] = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


@dataclass(frozen=True)
class _Parameter:
    """A parameter that a model fills."""

    spec: inspect.Parameter
    annotation: Any
    field: str
    """Its name in the pydantic model, where the parameter's own might mean something else."""

    @property
    def keeps_default(self) -> bool:
        """Whether the function knows its default by itself."""
        return self.spec.default is not inspect.Parameter.empty and not isinstance(self.spec.default, FieldInfo)


class Parameters:
    """What a function takes.

    Args:
        function: Any callable: a function, a bound method, a `functools.partial`, an object with `__call__`.
        tool: The tool's name, for errors.
        descriptions: What is known of the parameters; a `Field(description=...)` wins over it.
        namespace: Names that annotations may use beside those of the function's module.

    Raises:
        OptionsError: A parameter cannot be described to a model; the text names it.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        tool: str,
        descriptions: Mapping[str, str] | None = None,
        namespace: Mapping[str, Any] | None = None,
    ) -> None:
        self.tool = tool
        specs = _signature(function, tool)
        known = {**(namespace or {}), **_closure(_target(function))}
        hints = _hints(function, specs, known, tool)
        self.context_name: str | None = next((name for name, hint in hints.items() if _is_context(hint)), None)
        further = [spec.name for spec in specs if spec.kind is spec.VAR_KEYWORD]
        self._open = bool(further)
        self._further: Any = hints.get(further[0], Any) if further else Any
        self._parameters = [
            _Parameter(spec, hints.get(spec.name, Any), f"p{index}")
            for index, spec in enumerate(specs)
            if spec.kind is not spec.VAR_KEYWORD and spec.name != self.context_name
        ]
        self._descriptions = descriptions or {}
        self._model = self._built(known)
        self.schema: JSONObject = self._described()

    # Describing

    def _built(self, namespace: Mapping[str, Any]) -> type[BaseModel]:
        fields: dict[str, Any] = {item.field: self._definition(item) for item in self._parameters}
        try:
            model = create_model(f"{self.tool}_input", __base__=self._base(), **fields)
            model.model_rebuild(raise_errors=False, _types_namespace=namespace)
        except PydanticUserError as error:
            raise OptionsError(f"{self._culprit()}: {error.message}", option=f"tool {self.tool!r}") from error
        return model

    def _base(self) -> type[BaseModel]:
        """Give an empty model that says what fields there may be beside the parameters: those of `**name: type`."""
        body: dict[str, Any] = {
            "model_config": ConfigDict(extra="allow" if self._open else "forbid", protected_namespaces=())
        }
        if self._open:
            body["__annotations__"] = {"__pydantic_extra__": dict[str, self._further]}  # type: ignore[name-defined]
        return new_class("Base", (BaseModel,), exec_body=lambda namespace: namespace.update(body))

    def _definition(self, item: _Parameter) -> tuple[Any, Any]:
        own = Field(alias=item.spec.name, description=self._descriptions.get(item.spec.name))
        inner, *metadata = get_args(item.annotation) if get_origin(item.annotation) is Annotated else [item.annotation]
        default = ... if item.spec.default is inspect.Parameter.empty else item.spec.default
        return Annotated[(inner, own, *metadata)], default

    def _described(self) -> JSONObject:
        try:
            schema = self._model.model_json_schema(schema_generator=_SchemaGenerator)
        except (PydanticUserError, PydanticInvalidForJsonSchema) as error:
            raise OptionsError(f"{self._culprit()}: {error.message}", option=f"tool {self.tool!r}") from error
        schema.pop("title", None)
        schema.pop("description", None)
        properties: JSONObject = schema.setdefault("properties", {})
        for name in properties:
            if not PROPERTY.fullmatch(name):
                raise OptionsError(
                    f"the API allows no property {name!r}; name it with Annotated[..., Field(alias=...)]",
                    option=f"tool {self.tool!r}",
                )
        return schema

    def _culprit(self) -> str:
        """Name the first parameter that has no JSON Schema."""
        for item in self._parameters:
            try:
                TypeAdapter(item.annotation).json_schema(schema_generator=_SchemaGenerator)
            except (PydanticUserError, PydanticInvalidForJsonSchema):
                return f"the parameter {item.spec.name!r} of type {item.annotation!r} cannot be described to a model"
        return "its parameters cannot be described to a model"

    # Calling

    def bind(self, arguments: Mapping[str, Any], context: ToolContext | None) -> Bound:
        """Check the arguments of a model, and give those for the function: positional ones and keywords.

        Raises:
            ToolInputError: They do not fit; the text says field by field what to mend.
        """
        checked = self._validate(arguments)
        positional: list[Any] = []
        keywords: dict[str, Any] = dict(checked.__pydantic_extra__ or {})
        for item in self._parameters:
            if item.spec.kind is inspect.Parameter.POSITIONAL_ONLY:
                positional.append(getattr(checked, item.field))
            elif item.field in checked.model_fields_set or not item.keeps_default:
                keywords[item.spec.name] = getattr(checked, item.field)
        if self.context_name is not None:
            keywords[self.context_name] = context
        return positional, keywords

    def _validate(self, arguments: Mapping[str, Any]) -> BaseModel:
        try:
            return self._read(arguments)
        except ValidationError as error:
            repaired = dict(_repaired(arguments, error))
            if repaired:
                try:
                    return self._read({**arguments, **repaired})
                except ValidationError:
                    pass  # the first error is about what the model wrote
            raise ToolInputError(self.tool, problems(error)) from None

    def _read(self, arguments: Mapping[str, Any]) -> BaseModel:
        try:
            text = to_json(arguments)
        except ValueError:  # values that are no JSON can only come from Python code
            return self._model.model_validate(dict(arguments))
        return self._model.model_validate_json(text)


class AnyParameters:
    """Takes whatever object a model writes: for a tool whose JSON Schema was written by hand.

    The function gets the object as its one argument; the schema is told to the model and not checked here.
    """

    def __init__(self, schema: Mapping[str, Any], *, tool: str) -> None:
        if schema.get("type") != "object":
            raise OptionsError('an input schema has "type": "object"', option=f"tool {tool!r}")
        self.schema: JSONObject = dict(schema)

    def bind(self, arguments: Mapping[str, Any], context: ToolContext | None) -> Bound:
        """Give the object as the one positional argument."""
        del context
        return [dict(arguments)], {}


def problems(error: ValidationError) -> list[tuple[str, str]]:
    """Give what is wrong, field by field: where, and what."""
    return [(_place(item["loc"]), _told(item)) for item in error.errors(include_url=False, include_context=False)]


def _place(loc: tuple[int | str, ...]) -> str:
    place = ""
    for part in loc:
        place += f"[{part}]" if isinstance(part, int) else f".{part}" if place else part
    return place


def _told(item: Any) -> str:
    if item["type"] in ("missing", "extra_forbidden"):
        return {"missing": "is required", "extra_forbidden": "there is no such field"}[item["type"]]
    given = _shown(item["input"])
    return f"{item['msg']}; given: {given}"


def _shown(value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}..."


def _repaired(arguments: Mapping[str, Any], error: ValidationError) -> Iterator[tuple[str, Any]]:
    """Give the values of wrong fields that are JSON written as a text."""
    for name in {str(item["loc"][0]) for item in error.errors() if item["loc"]}:
        given = arguments.get(name)
        if isinstance(given, str):
            try:
                yield name, json.loads(given)
            except ValueError:
                continue


# Reading signatures ----------------------------------------------------------------------------------------------


def _signature(function: Callable[..., Any], tool: str) -> list[inspect.Parameter]:
    try:
        specs = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as error:
        raise OptionsError(f"its signature cannot be read: {error}", option=f"tool {tool!r}") from error
    if specs and specs[0].name == "self" and specs[0].annotation is inspect.Parameter.empty:
        raise OptionsError("it is a method; make the tool of a bound one: tool(thing.method)", option=f"tool {tool!r}")
    for spec in specs:
        if spec.kind is spec.VAR_POSITIONAL:
            raise OptionsError(f"a model cannot fill *{spec.name}; take a list", option=f"tool {tool!r}")
    return specs


def _hints(
    function: Callable[..., Any], specs: list[inspect.Parameter], known: Mapping[str, Any], tool: str
) -> dict[str, Any]:
    annotated = {spec.name: spec.annotation for spec in specs if spec.annotation is not spec.empty}
    try:
        hints = get_type_hints(
            SimpleNamespace(__annotations__=annotated),
            globalns=getattr(_target(function), "__globals__", {}),
            localns=dict(known),
            include_extras=True,
        )
        return {name: modern(hint, known) for name, hint in hints.items()}
    except (NameError, TypeError, AttributeError) as error:
        raise OptionsError(f"its annotations cannot be read: {error}", option=f"tool {tool!r}") from error


def _target(function: Callable[..., Any]) -> Any:
    """Give the function in which the annotations were written."""
    while isinstance(function, partial):
        function = function.func
    if not inspect.isroutine(function):
        function = type(function).__call__
    return inspect.unwrap(getattr(function, "__func__", function))


def _closure(target: Any) -> dict[str, Any]:
    names = getattr(getattr(target, "__code__", None), "co_freevars", ())
    cells = getattr(target, "__closure__", None) or ()
    return {name: cell.cell_contents for name, cell in zip(names, cells, strict=False) if _is_filled(cell)}


def _is_filled(cell: Any) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


def _is_context(hint: Any) -> bool:
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    options = get_args(hint) if get_origin(hint) is not None else (hint,)
    return any(isinstance(option, type) and issubclass(option, ToolContext) for option in options)
