"""Shapes of answers: a schema whose root is an object, and the way back."""

import datetime
import re
from typing import Annotated, Any, Literal

import pytest
from asking_cli import asking
from pydantic import BaseModel, Field, TypeAdapter

from claude_agent_py import Client, ClientOptions, OptionsError
from claude_agent_py.testing import FakeCLI, steps

pytestmark = pytest.mark.anyio


class Node(BaseModel):
    name: str
    children: list["Node"] = []


class Meeting(BaseModel):
    day: datetime.date
    guests: set[str]


@pytest.mark.parametrize(
    ("output_type", "answer", "value"),
    [
        (Node, {"name": "a", "children": [{"name": "b"}]}, Node(name="a", children=[Node(name="b")])),
        (Meeting, {"day": "2026-01-02", "guests": ["a"]}, Meeting(day=datetime.date(2026, 1, 2), guests={"a"})),
        (list[Node], {"value": [{"name": "a"}]}, [Node(name="a")]),
        (datetime.date, {"value": "2026-01-02"}, datetime.date(2026, 1, 2)),
        (Node | None, {"value": None}, None),
        (dict[str, int], {"a": 1}, {"a": 1}),
    ],
)
async def test_an_answer_becomes_the_type(output_type: Any, answer: Any, value: Any) -> None:
    fake = FakeCLI(steps.turn(structured_output=answer))
    async with Client(ClientOptions(output_type=output_type), transport=fake.transport()) as client:
        result = await client.query("go")
    assert result.output == value
    assert fake.requests("initialize")[0]["jsonSchema"]["type"] == "object"


async def schema_of(output_type: Any) -> Any:
    """Return the schema that the CLI gets for a type."""
    async with asking(output_type=output_type) as cli:
        return cli.requests("initialize")[0]["jsonSchema"]


async def test_a_recursive_type_keeps_its_definitions() -> None:
    schema = await schema_of(Node)
    assert "$ref" not in schema
    assert schema["properties"]["children"]["items"] == {"$ref": "#/$defs/Node"}
    assert "Node" in schema["$defs"]


async def test_an_object_is_left_as_it_is() -> None:
    assert await schema_of(Meeting) == TypeAdapter(Meeting).json_schema()


def test_a_type_without_a_schema_is_refused() -> None:
    class Opaque:
        pass

    with pytest.raises(OptionsError, match="must be a type that pydantic can validate: Unable to generate"):
        ClientOptions(output_type=Opaque)


def test_a_plain_schema_may_leave_its_type_open() -> None:
    assert ClientOptions(output_format={"properties": {}}).output_format == {"properties": {}}


# Schemas that the CLI ignores ------------------------------------------------------------------------------------


def with_property(**schema: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": schema}}


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object"}, {"type": "object"}),
        ({"$schema": "https://json-schema.org/draft/2019-09/schema", "type": "object"}, {"type": "object"}),
        ({"$schema": "http://json-schema.org/draft-04/schema#", "id": "x", "type": "object"}, {"type": "object"}),
        (with_property(type="string", **{"x-order": 1, "$anchor": "a"}), with_property(type="string")),
        (with_property(nullable=True), with_property()),
        (with_property(enum=["a", "a", 1, True]), with_property(enum=["a", 1, True])),
        ({"type": "object", "required": ["a", "a"]}, {"type": "object", "required": ["a"]}),
        ({"type": "object", "if": {"required": ["a"]}}, {"type": "object"}),
        (
            with_property(type="array", prefixItems=[{"type": "string"}], items=False),
            with_property(type="array", items=[{"type": "string"}], additionalItems=False),
        ),
        (
            with_property(
                patternProperties={"^x": {"type": "integer", "x-order": 1}},
                dependencies={"a": ["b", "b"], "c": {"required": ["d"], "x-order": 1}},
                multipleOf=0.5,
                maximum=5,
                uniqueItems=True,
                examples=("a", "b"),
            ),
            with_property(
                patternProperties={"^x": {"type": "integer"}},
                dependencies={"a": ["b"], "c": {"required": ["d"]}},
                multipleOf=0.5,
                maximum=5,
                uniqueItems=True,
                examples=["a", "b"],
            ),
        ),
        (with_property(type="string", examples="a"), with_property(type="string")),
        (with_property(type="string", default={"type": "x"}), with_property(type="string", default={"type": "x"})),
        (
            with_property(type="string", pattern=r"^\p{L}-[\w\-]$"),
            with_property(type="string", pattern=r"^\p{L}-[\w\-]$"),
        ),
    ],
)
def test_a_schema_loses_the_keywords_that_the_cli_ignores(given: dict[str, Any], sent: dict[str, Any]) -> None:
    assert ClientOptions(output_format=given).output_format == sent


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        (with_property(type="strin"), "the schema at '/properties/a/type' must be one of string, "),
        (with_property(type=["string", "nope"]), "not 'nope'"),
        (with_property(type="array", items={"properties": {"b": {"type": "int"}}}), "/items/properties/b/type"),
        (with_property(anyOf=[{"type": "string"}, {"type": "date"}]), "/anyOf/1/type"),
        (with_property(**{"$ref": "#/$defs/None"}), "must refer to a part of the schema"),
        (with_property(pattern="("), "must be a regular expression of JavaScript"),
        (with_property(pattern=r"(?P<x>a)\Z"), "must be a regular expression of JavaScript"),
        (with_property(pattern=r"a\-b"), "must be a regular expression of JavaScript"),
        (with_property(exclusiveMinimum=True), "must be a number, not True"),
        (with_property(minLength=-1), "must be a whole number"),
        (with_property(enum=[]), "must be a list of values"),
        (with_property(anyOf=[]), "must be a list of schemas"),
        (with_property(dependencies=["a"]), "must be a dict, not"),
        (with_property(title=5), "must be text, not 5"),
        (with_property(uniqueItems="yes"), "must be true or false, not 'yes'"),
        (with_property(multipleOf=0), "must be a positive number, not 0"),
        ({"type": "object", "properties": []}, "must be a dict of schemas"),
        ({"type": "object", "properties": {"a": "string"}}, "'/properties/a' must be a schema"),
        ({"type": "object", "required": "a"}, "must be a list of names"),
        ({"type": "object", "unevaluatedProperties": False}, "draft-07 of JSON Schema, which has no 'unevaluated"),
    ],
)
def test_a_schema_that_the_cli_would_ignore_is_refused(schema: dict[str, Any], problem: str) -> None:
    with pytest.raises(OptionsError, match=f"output_format.*{re.escape(problem)}"):
        ClientOptions(output_format=schema)


async def test_the_schema_of_a_type_has_only_what_the_cli_knows() -> None:
    class Cat(BaseModel):
        kind: Literal["cat"]

    class Dog(BaseModel):
        kind: Literal["dog"]
        place: tuple[int, str]
        name: Annotated[str, Field(pattern=r"\Ax", json_schema_extra={"x-order": 1})]

    schema = await schema_of(Annotated[Cat | Dog, Field(discriminator="kind")])
    dog = schema["$defs"]["Dog"]["properties"]
    assert schema["properties"]["value"].keys() == {"oneOf", "title"}
    assert dog["place"]["items"] == [{"type": "integer"}, {"type": "string"}]
    assert dog["name"] == {"title": "Name", "type": "string"}
