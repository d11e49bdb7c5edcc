"""Derive JSON Schemas from a function's signature and docstring, and validate the model's arguments before the call.

Arguments are validated as JSON, the form that models write: dates are strings and tuples are lists. If a model writes a
list or an object as a string, it is parsed as JSON before the call is rejected.
"""

import functools
import inspect
import itertools
import json
import logging
import operator
import re
import sys
import textwrap
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace, new_class
from typing import Annotated, Any, Final, TypeAlias, get_args, get_origin, get_type_hints, is_typeddict

import msgspec
import typing_extensions
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind
from pydantic_core import to_json

from claude_agent_py._base.errors import OptionsError, ToolInputError
from claude_agent_py._base.json_object import JSONObject, inline_root
from claude_agent_py._base.log import get_logger
from claude_agent_py.formatting.media import Media
from claude_agent_py.tools.context import ToolContext
from claude_agent_py.tools.meta_schema import check_input_schema
from claude_agent_py.tools.results import ToolResult

logger: logging.Logger = get_logger("claude_agent_py.tools")


def convert_typed_dicts(annotation: object, namespace: Mapping[str, object]) -> Any:
    """Convert `typing.TypedDict` classes for pydantic, which rejects them on Python 3.11.

    Only annotations are converted; fields of models and dataclasses are not. `namespace` holds additional names for
    the annotations of fields.
    """
    return annotation if sys.version_info >= (3, 12) else _Converter(namespace).convert(annotation)


if sys.version_info < (3, 12):

    class _Converter:
        """A conversion that converts each class once, even if it is recursive."""

        def __init__(self, namespace: Mapping[str, object]) -> None:
            self._namespace = namespace
            self._done: dict[object, object] = {}

        def convert(self, annotation: object) -> Any:
            if is_typeddict(annotation) and type(annotation).__module__ == "typing":
                return self._done.get(annotation) or self._convert_class(annotation)
            arguments = get_args(annotation)
            if not arguments or get_origin(annotation) is typing.Literal:
                return annotation
            if get_origin(annotation) is Annotated:
                return Annotated[(self.convert(arguments[0]), *arguments[1:])]
            rewritten = tuple(self.convert(argument) for argument in arguments)
            return annotation if rewritten == arguments else _rebuild(annotation, rewritten)

        def _convert_class(self, old: Any) -> object:
            make: Any = typing_extensions.TypedDict
            new = make(old.__name__, {}, total=old.__total__)
            # Register the class before converting its fields, which may refer to it.
            self._done[old] = new
            for name in ("__doc__", "__module__", "__required_keys__", "__optional_keys__"):
                setattr(new, name, getattr(old, name))
            hints = get_type_hints(old, localns={**self._namespace, old.__name__: old}, include_extras=True)
            new.__annotations__ = {name: self.convert(hint) for name, hint in hints.items()}
            return new

    def _rebuild(annotation: Any, arguments: tuple[object, ...]) -> object:
        if isinstance(annotation, types.UnionType):
            return functools.reduce(operator.or_, arguments)
        if hasattr(annotation, "copy_with"):
            return annotation.copy_with(arguments)
        return types.GenericAlias(get_origin(annotation), arguments)


PARAMETERS: Final = (
    "Args",
    "Arguments",
    "Params",
    "Parameters",
    "Keyword Args",
    "Keyword Arguments",
    "Other Parameters",
)
OTHERS: Final = ("Returns", "Yields", "Raises", "Attributes", "Example", "Examples")
HEADER: Final = re.compile(rf"({'|'.join((*PARAMETERS, *OTHERS))}):")
"""The header of a section in Google style; its content is indented."""
UNDERLINE: Final = re.compile(r"-{3,}")
"""The underline of a section header in NumPy style."""
FIELD: Final = re.compile(r":(\w+)(?:\s+([^:]*))?:\s*(.*)")
"""A field in reST style: kind, argument and text."""
PARAMETER_FIELDS: Final = frozenset({"param", "parameter", "arg", "argument", "key", "keyword"})
GOOGLE_ENTRY: Final = re.compile(r"\*{0,2}(\w+)\s*(?:\(.*?\))?\s*:(?:\s+(.*)|$)")
NUMPY_ENTRY: Final = re.compile(r"(\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?()")


@dataclass(frozen=True)
class Documentation:
    """The description and parameters from a docstring."""

    description: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)


def read_docstring(docstring: str | None) -> Documentation:
    """Read a docstring. Never fails: text in no known style is part of the description."""
    lines = inspect.cleandoc(docstring or "").split("\n")
    starts = [number for number in range(len(lines)) if _begins_section(lines, number)]
    description = "\n".join(lines[: starts[0] if starts else None]).strip()
    parameters: dict[str, str] = {}
    for start, end in itertools.pairwise([*starts, len(lines)]):
        parameters |= _read_section(lines[start:end])
    return Documentation(
        description, {name: " ".join(text.split()) for name, text in parameters.items() if text.strip()}
    )


def _begins_section(lines: list[str], number: int) -> bool:
    line = lines[number].rstrip()
    below = lines[number + 1].rstrip() if number + 1 < len(lines) else ""
    if HEADER.fullmatch(line):
        return True
    return FIELD.match(line) is not None or (bool(line) and UNDERLINE.fullmatch(below) is not None)


def _read_section(section: list[str]) -> dict[str, str]:
    """Return the parameters that a section describes; other sections describe none."""
    header = section[0].rstrip()
    if found := FIELD.match(header):
        return _read_field(found, section[1:])
    if header.removesuffix(":") not in PARAMETERS:
        return {}
    if not header.endswith(":"):
        return _read_entries(section[2:], NUMPY_ENTRY)
    indented = itertools.takewhile(lambda line: not line[:1].strip(), section[1:])
    return _read_entries(textwrap.dedent("\n".join(indented)).split("\n"), GOOGLE_ENTRY)


def _read_field(found: re.Match[str], rest: list[str]) -> dict[str, str]:
    """Return the name and the text of a field such as `:param int limit: How many.`, which ends at a blank line."""
    kind, argument, text = found.groups()
    if kind not in PARAMETER_FIELDS or not argument:
        return {}
    return {argument.split()[-1].lstrip("*"): " ".join([text, *itertools.takewhile(str.strip, rest)])}


def _read_entries(lines: Iterable[str], pattern: re.Pattern[str]) -> dict[str, str]:
    """Read entries that start at the margin; other lines continue the previous entry."""
    parameters: dict[str, str] = {}
    names: list[str] = []
    for line in lines:
        if found := pattern.fullmatch(line.rstrip()):
            names = re.findall(r"\w+", found[1])
            parameters |= dict.fromkeys(names, found[2] or "")
        else:
            parameters |= {name: f"{parameters[name]} {line}" for name in names}
    return parameters


Bound: TypeAlias = tuple[list[object], dict[str, object]]
"""Positional arguments and keywords."""

SHOWN_CHARS = 80
"""Maximum length of an invalid value in an error."""


class _SchemaGenerator(GenerateJsonSchema):
    """Omits titles that repeat a name, and ignores defaults that JSON cannot express."""

    ignored_warning_kinds: set[JsonSchemaWarningKind] = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012

    def field_title_should_be_set(self, schema: object) -> bool:
        return False


@dataclass(frozen=True)
class _Parameter:
    """A parameter that the model fills."""

    spec: inspect.Parameter
    annotation: Any
    field: str
    """Its name in the pydantic model. The parameter's own name may be reserved there."""

    @property
    def keeps_default(self) -> bool:
        """Whether the function applies its default itself."""
        return self.spec.default is not inspect.Parameter.empty and not isinstance(self.spec.default, FieldInfo)


class Parameters:
    """The parameters of a function.

    Args:
        function: Any callable: a function, a bound method, a `functools.partial`, an object with `__call__`.
        tool: The tool's name, for error messages.
        descriptions: Descriptions by name; `Field(description=...)` takes precedence.
        namespace: Additional names for annotations, besides those of the function's module.

    Raises:
        OptionsError: A parameter cannot be described in JSON Schema; the message names it.
    """

    def __init__(
        self,
        function: Callable[..., object],
        *,
        tool: str,
        descriptions: Mapping[str, str] | None = None,
        namespace: Mapping[str, object] | None = None,
    ) -> None:
        self.tool = tool
        specs = _read_signature(function, tool)
        known = {**(namespace or {}), **_read_closure(_find_target(function))}
        annotated = {spec.name: spec.annotation for spec in specs if spec.annotation is not spec.empty}
        hints = _read_hints(function, annotated, known, tool)
        self.context_name: str | None = next((name for name, hint in hints.items() if _is_context(hint)), None)
        further = [spec.name for spec in specs if spec.kind is spec.VAR_KEYWORD]
        self._open = bool(further)
        self._further: object = hints.get(further[0], Any) if further else Any
        self._parameters = [
            _Parameter(spec, hints.get(spec.name, Any), f"p{index}")
            for index, spec in enumerate(specs)
            if spec.kind is not spec.VAR_KEYWORD and spec.name != self.context_name
        ]
        self._descriptions = descriptions or {}
        try:
            self._model = self._build_model(known)
            self.schema: JSONObject = self._build_schema()
        except (PydanticUserError, PydanticInvalidForJsonSchema) as error:
            raise OptionsError(f"{self._describe_culprit()}: {error.message}", option=f"tool {tool!r}") from error

    # Describing

    def _build_model(self, namespace: Mapping[str, object]) -> type[BaseModel]:
        fields: dict[str, Any] = {item.field: self._build_field(item) for item in self._parameters}
        model = create_model(f"{self.tool}_input", __base__=self._build_base(), **fields)
        model.model_rebuild(raise_errors=False, _types_namespace=namespace)
        return model

    def _build_base(self) -> type[BaseModel]:
        """Return an empty model that allows extra fields if the function takes `**name: type`."""
        body: dict[str, object] = {
            "model_config": ConfigDict(extra="allow" if self._open else "forbid", protected_namespaces=())
        }
        if self._open:
            body["__annotations__"] = {"__pydantic_extra__": dict[str, self._further]}  # type: ignore[name-defined]
        return new_class("Base", (BaseModel,), exec_body=lambda namespace: namespace.update(body))

    def _build_field(self, item: _Parameter) -> tuple[object, object]:
        own = Field(alias=item.spec.name, description=self._descriptions.get(item.spec.name))
        inner, *metadata = get_args(item.annotation) if get_origin(item.annotation) is Annotated else [item.annotation]
        default = ... if item.spec.default is inspect.Parameter.empty else item.spec.default
        return Annotated[(inner, own, *metadata)], default

    def _build_schema(self) -> JSONObject:
        schema = self._model.model_json_schema(schema_generator=_SchemaGenerator)
        schema.pop("title", None)
        schema.pop("description", None)
        schema.setdefault("properties", {})
        check_input_schema(schema, self.tool)
        return schema

    def _describe_culprit(self) -> str:
        """Describe the first parameter without a JSON Schema."""
        for item in self._parameters:
            try:
                TypeAdapter(item.annotation).json_schema(schema_generator=_SchemaGenerator)
            except (PydanticUserError, PydanticInvalidForJsonSchema):
                return f"the parameter {item.spec.name!r} of type {item.annotation!r} has no JSON Schema"
        return "the parameters have no JSON Schema"

    # Calling

    def bind(self, arguments: Mapping[str, object], context: ToolContext | None) -> Bound:
        """Validate the model's arguments and return the function's positional and keyword arguments.

        Raises ToolInputError, which lists the problem of each field.
        """
        checked = self._validate(arguments)
        positional: list[object] = []
        keywords: dict[str, object] = dict(checked.__pydantic_extra__ or {})
        for item in self._parameters:
            if item.spec.kind is inspect.Parameter.POSITIONAL_ONLY:
                positional.append(getattr(checked, item.field))
            elif item.field in checked.model_fields_set or not item.keeps_default:
                keywords[item.spec.name] = getattr(checked, item.field)
        if self.context_name is not None:
            keywords[self.context_name] = context
        return positional, keywords

    def _validate(self, arguments: Mapping[str, object]) -> BaseModel:
        try:
            return self._read(arguments)
        except ValidationError as error:
            repaired = dict(_repair(arguments, error))
            if repaired:
                try:
                    return self._read({**arguments, **repaired})
                except ValidationError:
                    # Report the errors in the model's own arguments.
                    pass
            raise ToolInputError(self.tool, list_problems(error)) from None

    def _read(self, arguments: Mapping[str, object]) -> BaseModel:
        try:
            text = to_json(arguments)
        except ValueError:
            # Only Python code can pass values without a JSON form.
            return self._model.model_validate(dict(arguments))
        return self._model.model_validate_json(text)


class AnyParameters:
    """Accepts any object, for tools with a hand-written JSON Schema.

    The function gets the object as its only argument. The schema is sent to the model but not enforced here.
    """

    def __init__(self, schema: Mapping[str, object], *, tool: str) -> None:
        check_input_schema(schema, tool)
        self.schema: JSONObject = dict(schema)

    def bind(self, arguments: Mapping[str, object], context: ToolContext | None) -> Bound:
        """Return the object as the only positional argument."""
        del context
        return [dict(arguments)], {}


def list_problems(error: ValidationError) -> list[tuple[str, str]]:
    """Return (place, problem) for each invalid field."""
    return [
        (_format_place(item["loc"]), _format_problem(item))
        for item in error.errors(include_url=False, include_context=False)
    ]


def _format_place(loc: tuple[int | str, ...]) -> str:
    place = ""
    for part in loc:
        if isinstance(part, int):
            place += f"[{part}]"
        else:
            place += f".{part}" if place else part
    return place


_PROBLEMS: Final[Mapping[str, str]] = {"missing": "is required", "extra_forbidden": "is not a parameter"}


def _format_problem(item: Any) -> str:
    return _PROBLEMS.get(item["type"]) or f"{item['msg']}; got: {_format_value(item['input'])}"


def _format_value(value: object) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return f"a too deeply nested {type(value).__name__}"
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}..."


def _repair(arguments: Mapping[str, object], error: ValidationError) -> Iterator[tuple[str, object]]:
    """Yield the invalid fields whose value is JSON in a string, with the parsed value."""
    for name in {str(item["loc"][0]) for item in error.errors() if item["loc"]}:
        given = arguments.get(name)
        if isinstance(given, str):
            try:
                yield name, json.loads(given)
            except (ValueError, RecursionError):
                continue


# Reading signatures ----------------------------------------------------------------------------------------------


def _read_signature(function: Callable[..., object], tool: str) -> list[inspect.Parameter]:
    try:
        specs = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as error:
        raise OptionsError(f"the signature cannot be read: {error}", option=f"tool {tool!r}") from error
    if specs and specs[0].name == "self" and specs[0].annotation is inspect.Parameter.empty:
        raise OptionsError(
            "the function must not be an unbound method; use a bound one: tool(obj.method)", option=f"tool {tool!r}"
        )
    for spec in specs:
        if spec.kind is spec.VAR_POSITIONAL:
            raise OptionsError(f"*{spec.name} is not supported; take a list instead", option=f"tool {tool!r}")
    return specs


def build_return_schema(function: Callable[..., object], namespace: Mapping[str, object]) -> JSONObject | None:
    """Return the JSON Schema of a function's return values if their annotation is a type of JSON objects.

    Otherwise return None, also for results that are not data, and for annotations that have no schema: what a function
    returns need not be described.
    """
    try:
        annotation = inspect.signature(function).return_annotation
        if annotation is inspect.Signature.empty:
            return None
        known = {**namespace, **_read_closure(_find_target(function))}
        hint: Any = _read_hints(function, {"return": annotation}, known, "")["return"]
        if isinstance(hint, type) and issubclass(hint, (ToolResult, Media)):
            return None
        if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
            schema = msgspec.json.schema(hint)
        else:
            schema = TypeAdapter(hint).json_schema(mode="serialization", schema_generator=_SchemaGenerator)
        schema = inline_root(schema)
    except Exception as error:
        logger.debug("no schema of what %r returns: %s", function, error)
        return None
    return schema if schema.get("type") == "object" else None


def _read_hints(
    function: Callable[..., object], annotated: Mapping[str, object], known: Mapping[str, object], tool: str
) -> dict[str, object]:
    try:
        hints = get_type_hints(
            SimpleNamespace(__annotations__=dict(annotated)),
            globalns=getattr(_find_target(function), "__globals__", {}),
            localns=dict(known),
            include_extras=True,
        )
        return {name: convert_typed_dicts(hint, known) for name, hint in hints.items()}
    except (NameError, TypeError, AttributeError) as error:
        raise OptionsError(f"the annotations cannot be read: {error}", option=f"tool {tool!r}") from error


def _find_target(function: Callable[..., object]) -> object:
    """Return the function that holds the annotations."""
    while isinstance(function, partial):
        function = function.func
    if not inspect.isroutine(function):
        function = type(function).__call__
    return inspect.unwrap(getattr(function, "__func__", function))


def _read_closure(target: object) -> dict[str, object]:
    names = getattr(getattr(target, "__code__", None), "co_freevars", ())
    cells = getattr(target, "__closure__", None) or ()
    return {name: cell.cell_contents for name, cell in zip(names, cells, strict=False) if _is_filled(cell)}


def _is_filled(cell: Any) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


def _is_context(hint: object) -> bool:
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    options = get_args(hint) if get_origin(hint) is not None else (hint,)
    return any(isinstance(option, type) and issubclass(option, ToolContext) for option in options)
