"""From signatures to JSON Schema and back."""

import functools
import re
import typing
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, Union
from uuid import UUID

import pytest
import typing_extensions
from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from claude_agent_py import Tool, ToolContext, tool
from claude_agent_py.errors import OptionsError, ToolInputError


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1


class Address(BaseModel):
    """Where somebody lives."""

    street: str = Field(description="With number.")
    zip_code: int | None = Field(default=None, alias="zipCode")


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)

    when: date
    pair: tuple[int, int]


@dataclass
class Person:
    name: str
    home: Address | None = None
    friends: list["Person"] = field(default_factory=list)


class OldNode(typing.TypedDict):
    value: int
    children: list["OldNode"]


class OldPartial(typing.TypedDict, total=False):
    node: OldNode
    names: typing.Required[list[str]]


class NewNode(typing_extensions.TypedDict):
    value: int
    next: typing_extensions.NotRequired["NewNode"]


def properties(made: Tool[..., Any]) -> dict[str, Any]:
    found: dict[str, Any] = made.input_schema["properties"]
    return found


def returning(annotation: Any, **default: Any) -> Tool[..., Any]:
    """Make a tool with one parameter of a type, which gives back what it gets."""

    def echo(value: Any = ...) -> Any:
        return value

    echo.__annotations__["value"] = annotation
    echo.__defaults__ = (default["default"],) if default else None
    return tool(echo)


def bound(made: Tool[..., Any], arguments: dict[str, Any]) -> Any:
    positional, keywords = made.parameters.bind(arguments, ToolContext())
    return made.function(*positional, **keywords)


# Schemas ----------------------------------------------------------------------------------------------------------


def test_a_whole_schema() -> None:
    @tool
    def search(
        query: Annotated[str, Field(min_length=2)],
        kind: Literal["web", "files"] = "web",
        limit: int = 10,
        since: date | None = None,
    ) -> list[str]:
        """Search for things.

        Args:
            query: What to look for.
            limit: How many.
        """
        raise NotImplementedError(query, kind, limit, since)

    assert search.description == "Search for things."
    assert search.input_schema == {
        "type": "object",
        "properties": {
            "query": {"type": "string", "minLength": 2, "description": "What to look for."},
            "kind": {"type": "string", "enum": ["web", "files"], "default": "web"},
            "limit": {"type": "integer", "default": 10, "description": "How many."},
            "since": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}], "default": None},
        },
        "required": ["query"],
        "additionalProperties": False,
    }


def test_no_parameters() -> None:
    @tool
    def now() -> str:
        return ""

    assert now.input_schema == {"type": "object", "properties": {}, "additionalProperties": False}


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (str, {"type": "string"}),
        (bool, {"type": "boolean"}),
        (float, {"type": "number"}),
        (Any, {}),
        (bytes, {"type": "string", "format": "binary"}),
        (Path, {"type": "string", "format": "path"}),
        (datetime, {"type": "string", "format": "date-time"}),
        (timedelta, {"type": "string", "format": "duration"}),
        (UUID, {"type": "string", "format": "uuid"}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (set[str], {"type": "array", "items": {"type": "string"}, "uniqueItems": True}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (Optional[int], {"anyOf": [{"type": "integer"}, {"type": "null"}]}),  # noqa: UP045
        (Union[int, str], {"anyOf": [{"type": "integer"}, {"type": "string"}]}),  # noqa: UP007
        (Literal[1, "a"], {"enum": [1, "a"]}),
        (Annotated[int, Field(ge=1, description="own")], {"type": "integer", "minimum": 1, "description": "own"}),
    ],
)
def test_the_schema_of_a_type(annotation: Any, schema: dict[str, Any]) -> None:
    assert properties(returning(annotation))["value"] == schema


def test_models_dataclasses_and_enums_are_defined_once() -> None:
    schema = returning(Person).input_schema

    assert schema["properties"]["value"] == {"$ref": "#/$defs/Person"}
    assert set(schema["$defs"]) == {"Person", "Address"}
    assert schema["$defs"]["Person"]["properties"]["friends"]["items"] == {"$ref": "#/$defs/Person"}
    assert schema["$defs"]["Address"]["properties"]["street"] == {"type": "string", "description": "With number."}
    assert "zipCode" in schema["$defs"]["Address"]["properties"]
    assert returning(Colour).input_schema["$defs"]["Colour"]["enum"] == ["red", "blue"]


@pytest.mark.parametrize("node", [OldNode, NewNode])
def test_typed_dicts_of_both_modules(node: Any) -> None:
    schema = returning(node | None).input_schema

    assert schema["$defs"][node.__name__]["properties"]["value"] == {"type": "integer"}
    assert schema["$defs"][node.__name__]["required"] == (["value", "children"] if node is OldNode else ["value"])


def test_a_typed_dict_in_a_typed_dict_in_a_list() -> None:
    made = returning(Annotated[list[OldPartial], Field(max_length=2)])

    definition = made.input_schema["$defs"]["OldPartial"]
    assert definition["required"] == ["names"]
    assert definition["properties"]["node"] == {"$ref": "#/$defs/OldNode"}
    value = [{"names": ["x"], "node": {"value": 1, "children": [{"value": 2, "children": []}]}}]
    assert bound(made, {"value": value}) == value


@pytest.mark.parametrize("around", [typing.List, typing.Optional, list, typing.Dict])  # noqa: UP006
def test_a_typed_dict_in_a_generic_type(around: Any) -> None:
    made = returning(around[str, OldNode] if around is typing.Dict else around[OldNode])  # noqa: UP006
    assert made.input_schema["$defs"]["OldNode"]["properties"]["value"] == {"type": "integer"}


def test_a_default_that_json_cannot_express_is_left_out() -> None:
    marker = object()

    assert properties(returning(Any, default=marker))["value"] == {}
    assert bound(returning(Any, default=marker), {}) is marker


def test_names_that_pydantic_uses_itself_are_no_problem() -> None:
    @tool
    def f(schema: str, json: int, model_config: str, copy: bool = False, _private: int = 1) -> Any:
        return schema, json, model_config, copy, _private

    assert list(properties(f)) == ["schema", "json", "model_config", "copy", "_private"]
    assert bound(f, {"schema": "s", "json": 1, "model_config": "m", "_private": 2}) == ("s", 1, "m", False, 2)


def test_an_alias_renames_a_property() -> None:
    @tool
    def f(sender: Annotated[str, Field(alias="from")], größe: int = Field(1, alias="size", ge=1)) -> Any:
        return sender, größe

    assert list(properties(f)) == ["from", "size"]
    assert bound(f, {"from": "me", "size": 3}) == ("me", 3)
    assert bound(f, {"from": "me"}) == ("me", 1)


def test_a_field_as_default() -> None:
    @tool
    def f(count: int = Field(default=5, ge=1), items: list[int] = Field(default_factory=list)) -> Any:  # noqa: B008
        return count, items

    assert properties(f)["count"] == {"type": "integer", "default": 5, "minimum": 1}
    assert bound(f, {}) == (5, [])


def test_any_keyword() -> None:
    @tool
    def f(a: int, **more: Any) -> Any:
        return a, more

    assert f.input_schema["additionalProperties"] is True
    assert bound(f, {"a": 1, "b": 2}) == (1, {"b": 2})


def test_positional_only_parameters() -> None:
    @tool
    def f(a: int, b: int = 2, /, c: int = 3) -> Any:
        return a, b, c

    assert bound(f, {"a": 1}) == (1, 2, 3)
    assert bound(f, {"a": 1, "c": 9}) == (1, 2, 9)


def test_annotations_as_text() -> None:
    class Local(BaseModel):
        x: int

    def f(value: "Local", others: "list[Local] | None" = None) -> "NotThere":  # type: ignore[name-defined] # noqa: F821
        return value, others

    assert bound(tool(f), {"value": {"x": 1}}) == (Local(x=1), None)


def test_the_context_is_not_for_the_model() -> None:
    @tool
    def f(a: int, context: ToolContext) -> Any:
        return a, context

    @tool
    def g(info: ToolContext | None = None) -> Any:
        return info

    assert list(properties(f)) == ["a"]
    assert properties(g) == {}
    assert isinstance(bound(g, {}), ToolContext)


# Functions of all kinds -------------------------------------------------------------------------------------------


class Thing:
    """A thing."""

    def method(self, a: int) -> int:
        """Do it."""
        return a

    def __call__(self, a: int) -> int:
        """Call it."""
        return a


def test_methods_partials_and_callable_objects() -> None:
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    method = tool(Thing().method)
    partial = tool(name="add_one")(functools.partial(add, b=1))
    thing = tool(name="thing")(Thing())

    assert (method.name, method.description) == ("method", "Do it.")
    assert partial.description == "Add."
    assert bound(partial, {"a": 1}) == 2
    assert (thing.description, bound(thing, {"a": 4})) == ("Call it.", 4)


def test_wrapped_functions_are_read_through() -> None:
    def logged(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return wrapper

    @tool
    @logged
    def f(a: "int") -> int:
        """Do it."""
        return a

    assert properties(f) == {"a": {"type": "integer"}}
    assert bound(f, {"a": "3"}) == 3


# What cannot be a tool --------------------------------------------------------------------------------------------


class Opaque:
    pass


def test_a_type_without_a_schema_is_named() -> None:
    def f(good: int, thing: Opaque) -> None: ...

    with pytest.raises(OptionsError, match=r"tool 'f': the parameter 'thing' of type .*Opaque.* has no JSON Schema"):
        tool(f)


def test_further_arguments_of_a_type_without_a_schema_are_refused() -> None:
    def f(good: int, **more: Opaque) -> None: ...

    with pytest.raises(OptionsError, match=r"tool 'f': the parameters have no JSON Schema: .*Opaque"):
        tool(f)


def test_a_function_as_a_parameter_is_refused() -> None:
    def f(callback: Callable[[int], int]) -> None: ...

    with pytest.raises(OptionsError, match="the parameter 'callback'"):
        tool(f)


def test_parameters_that_have_no_schema_together_are_refused() -> None:
    class Unreadable:
        __signature__ = "unknown"

        def __call__(self, *args: object) -> None: ...

    with pytest.raises(OptionsError, match="the signature cannot be read"):
        tool(name="f")(Unreadable())


def test_an_unknown_annotation_is_named() -> None:
    def f(a: "Missing") -> None: ...  # type: ignore[name-defined] # noqa: F821

    with pytest.raises(OptionsError, match="'Missing' is not defined"):
        tool(f)


def test_other_impossible_functions() -> None:
    def star(*items: int) -> None: ...

    with pytest.raises(OptionsError, match=r"\*items is not supported; take a list"):
        tool(star)
    with pytest.raises(OptionsError, match=r"bound one: tool\(obj.method\)"):
        tool(Thing.method)
    with pytest.raises(OptionsError, match="does not allow the property name 'größe'"):
        tool(lambda größe: None)
    with pytest.raises(OptionsError, match="a name must have 1 to 128"):
        tool(lambda: None)


# Arguments --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("annotation", "given", "value"),
    [
        (int, "5", 5),
        (date, "2026-01-02", date(2026, 1, 2)),
        (timedelta, "PT1M", timedelta(minutes=1)),
        (Path, "/a", Path("/a")),
        (Decimal, "1.50", Decimal("1.50")),
        (bytes, "ä", "ä".encode()),
        (tuple[int, str], [1, "a"], (1, "a")),
        (set[int], [1, 1], {1}),
        (Colour, "red", Colour.RED),
        (Level, 1, Level.LOW),
        (Address, {"street": "A 1", "zipCode": 5}, Address(street="A 1", zipCode=5)),
        (Person, {"name": "a", "friends": [{"name": "b"}]}, Person("a", None, [Person("b")])),
        (Strict, {"when": "2026-01-02", "pair": [1, 2]}, Strict(when=date(2026, 1, 2), pair=(1, 2))),
    ],
)
def test_arguments_become_values(annotation: Any, given: Any, value: Any) -> None:
    assert bound(returning(annotation), {"value": given}) == value


@pytest.mark.parametrize(
    ("annotation", "given", "value"),
    [
        (list[int], "[1, 2]", [1, 2]),
        (dict[str, int], '{"a": 1}', {"a": 1}),
        (Address, '{"street": "A"}', Address(street="A")),
        (str, "[1, 2]", "[1, 2]"),
    ],
)
def test_json_written_as_a_text_is_read(annotation: Any, given: str, value: Any) -> None:
    assert bound(returning(annotation), {"value": given}) == value


def test_errors_name_every_field() -> None:
    @tool
    def f(home: Address, level: Level, tags: list[int], name: str) -> None: ...

    with pytest.raises(ToolInputError) as caught:
        bound(f, {"home": {"street": 5}, "level": 7, "tags": [1, "x"], "nmae": "a" * 200})

    assert dict(caught.value.problems) == {
        "home.street": "Input should be a valid string; got: 5",
        "level": "Input should be 1; got: 7",
        "tags[1]": 'Input should be a valid integer, unable to parse string as an integer; got: "x"',
        "name": "is required",
        "nmae": "is not a parameter",
    }
    assert str(caught.value).startswith("invalid arguments for f:\n- ")
    assert "\n- home.street: Input should be a valid string" in str(caught.value)


@pytest.mark.parametrize("given", ['[1, "x"]', "[" * 100_000])
def test_the_error_is_about_what_the_model_wrote(given: str) -> None:
    with pytest.raises(ToolInputError, match="valid array; got: "):
        bound(returning(list[int]), {"value": given})


def test_long_values_are_cut_in_errors() -> None:
    with pytest.raises(ToolInputError) as caught:
        bound(returning(int), {"value": "x" * 10_000})

    assert len(str(caught.value)) < 400
    with pytest.raises(ToolInputError, match="got: <object object at"):
        bound(returning(int), {"value": object()})


def test_a_function_may_refer_to_a_name_that_has_no_value_yet() -> None:
    def f(a: "int") -> "Later":
        return Later(a)

    made = tool(f)

    class Later(int):
        pass

    assert bound(made, {"a": 5}) == Later(5)


def test_values_of_python_code_are_taken_too() -> None:
    assert bound(returning(Any), {"value": "\ud800"}) == "\ud800"
    assert bound(returning(Address), {"value": Address(street="A")}) == Address(street="A")


def test_a_schema_written_by_hand() -> None:
    made = Tool.from_schema("add", "Adds.", {"type": "object", "properties": {"a": {"type": "integer"}}}, lambda a: a)

    assert made.input_schema == {"type": "object", "properties": {"a": {"type": "integer"}}}
    assert bound(made, {"a": "anything"}) == {"a": "anything"}


def test_a_schema_that_is_not_valid_is_refused_where_the_tool_is_made() -> None:
    deep: dict[str, Any] = {}
    for _ in range(10_000):
        deep = {"not": deep}
    bad: list[tuple[dict[str, Any], str]] = [
        ({"type": "array"}, 'tool \'add\': an input schema must have "type": "object"'),
        ({"properties": [1]}, "must be JSON Schema; at '/properties': Expected `object`, got `array`"),
        ({"properties": {"a": 3}}, "at '/properties/a': Expected `bool | object`, got `int`"),
        (
            {"properties": {"a": {"anyOf": [{"items": {"type": "strin"}}]}}},
            "'/properties/a/anyOf/0/items/type': Invalid",
        ),
        ({"properties": {"a b": {}}}, "does not allow the property name 'a b'"),
        ({"required": "a"}, "'/required': Expected `array`, got `str`"),
        ({"required": ["a", "a"]}, "'/required': Expected different values"),
        ({"required": [1], "$schema": "http://json-schema.org/draft-07/schema#"}, "'/required': Expected `str`"),
        ({"default": float("nan")}, "must be JSON: Out of range"),
        ({"default": {1}}, "must be JSON"),
        ({"not": deep}, "must be JSON"),
    ]
    for schema, problem in bad:
        with pytest.raises(OptionsError, match=re.escape(problem)):
            Tool.from_schema("add", "Adds.", {"type": "object", **schema}, print)
    Tool.from_schema("add", "Adds.", {"type": "object", "properties": {"a": {"enum": ("x", "y")}}}, print)

    def f(a: Annotated[int, WithJsonSchema({"type": "int"})]) -> None: ...

    with pytest.raises(
        OptionsError, match=r"tool 'f': an input schema must be JSON Schema; at '/properties/a/type': Invalid"
    ):
        tool(f)
    with pytest.raises(OptionsError, match="a function of one argument, a dict"):
        Tool.from_schema("add", "Adds.", {"type": "object"}, lambda: 1)  # type: ignore[arg-type, misc]


def test_a_tool_in_the_official_form_names_the_form_here() -> None:
    loose: Any = tool

    with pytest.raises(OptionsError, match=r"tool: takes a function .* use Tool.from_schema"):
        loose("add", "Adds.", {"a": int})
    with pytest.raises(OptionsError, match=r"tool: takes a function"):
        loose("add")
    with pytest.raises(
        OptionsError, match=r"tool: input_schema is unknown; it is derived from the function's parameters"
    ):
        loose(name="add", description="Adds.", input_schema={"a": int})
    with pytest.raises(OptionsError, match=r"tool: annotations is unknown; pass the hints as keywords"):
        loose(annotations={"readOnlyHint": True})
    with pytest.raises(OptionsError, match=r"tool: readonly is unknown; did you mean 'read_only'\?"):
        loose(readonly=True)
    with pytest.raises(OptionsError, match=r"tool: readonly is unknown"):
        Tool.from_schema("add", "Adds.", {"type": "object"}, print, readonly=True)  # type: ignore[call-arg]


def test_further_arguments_are_checked_where_they_have_a_type() -> None:
    def f(a: int, **more: int) -> Any:
        return more

    made = tool(f)
    assert made.input_schema["additionalProperties"] == {"type": "integer"}
    assert made.parameters.bind({"a": 1, "b": 2}, None) == ([], {"a": 1, "b": 2})
    with pytest.raises(ToolInputError, match="b: Input should be a valid integer"):
        made.parameters.bind({"a": 1, "b": "x"}, None)
