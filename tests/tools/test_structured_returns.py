"""Tools whose annotation says that they return JSON objects send them as structured content, with its schema."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import msgspec
import pytest
from one_call import result_of
from pydantic import BaseModel, Field, RootModel, computed_field

from claude_agent_py import ToolResult, tool
from claude_agent_py.formatting import Image, JSONEncoder, YAMLEncoder

pytestmark = pytest.mark.anyio

PNG = b"\x89PNG\r\n\x1a\nrest"


class City(BaseModel):
    name: str
    people: int = Field(serialization_alias="inhabitants")

    @computed_field  # type: ignore[prop-decorator]
    @property
    def is_large(self) -> bool:
        return self.people > 100_000


@dataclass
class Place:
    name: str
    parent: "Place | None" = None


class Row(TypedDict):
    name: str


class Point(msgspec.Struct, rename="camel"):
    x_place: int
    near: "Point | None" = None


class Node(BaseModel):
    children: "list[Node]" = []


class Opaque:
    """A type without a schema."""


async def call(function: Callable[..., object], **settings: Any) -> dict[str, Any]:
    """Call a tool made from a function; return its result in the form of MCP."""
    made = tool(**settings)(function)
    return await result_of(made)


def returning(value: object, annotation: object = None) -> Callable[[], object]:
    def get() -> object:
        return value

    get.__annotations__["return"] = type(value) if annotation is None else annotation
    return get


@pytest.mark.parametrize(
    ("function", "data", "fields"),
    [
        (returning(City(name="Köln", people=1)), {"name": "Köln", "inhabitants": 1, "is_large": False}, ["is_large"]),
        (returning(Place("a")), {"name": "a", "parent": None}, ["name"]),
        (returning({"name": "a"}, Row), {"name": "a"}, ["name"]),
        (returning({"a": 1.5}, dict[str, float]), {"a": 1.5}, []),
        (returning({"a": [None, "ä"]}, "dict[str, Any]"), {"a": [None, "ä"]}, []),
        (returning(Point(1)), {"xPlace": 1, "near": None}, ["xPlace"]),
        (returning(Node()), {"children": []}, ["children"]),
        (returning(Node(), Annotated[Node, "a note"]), {"children": []}, ["children"]),
    ],
)
async def test_an_object_is_sent_as_text_and_structure_that_are_the_same(
    function: Callable[[], object], data: dict[str, Any], fields: list[str]
) -> None:
    definition = tool(function).definition()

    assert definition["outputSchema"]["type"] == "object"
    assert set(fields) <= set(definition["outputSchema"].get("properties", {}))
    result = await call(function)
    assert result["structuredContent"] == data
    assert JSONEncoder().decode(result["content"][0]["text"]) == data


def unannotated():  # type: ignore[no-untyped-def]
    return {"a": 1}


def unknown() -> "NoSuchType":  # type: ignore[name-defined]  # noqa: F821
    return {"a": 1}


@pytest.mark.parametrize(
    "function",
    [
        unannotated,
        unknown,
        returning("text"),
        returning(1),
        returning([City(name="a", people=1)], list[City]),
        returning(None, City | None),
        returning({"a": 1}, City | dict[str, int]),
        returning(RootModel[list[int]]([1])),
        returning({"a": 1}, Opaque),
        returning({"a": 1}, dict[str, Opaque]),
        returning(ToolResult(text={"a": 1})),
        returning(Image(PNG)),
        returning({"a": 1}, Any),
    ],
)
async def test_a_return_type_that_allows_more_than_objects_has_no_structured_content(
    function: Callable[[], object],
) -> None:
    assert "outputSchema" not in tool(function).definition()
    assert "structuredContent" not in await call(function)


@pytest.mark.parametrize(
    "settings", [{"structured": False}, {"encoder": YAMLEncoder()}, {"encoder": JSONEncoder(indent=2)}]
)
async def test_structured_content_can_be_turned_off_and_another_encoder_turns_it_off(settings: dict[str, Any]) -> None:
    function = returning(Place("a"))

    assert "outputSchema" not in tool(**settings)(function).definition()
    result = await call(function, **settings)
    assert "structuredContent" not in result
    assert "name" in result["content"][0]["text"]


async def test_structured_content_can_be_asked_for_with_any_value_and_encoder() -> None:
    assert (await call(returning([1], list[int]), structured=True))["structuredContent"] == {"result": [1]}
    assert "structuredContent" not in await call(returning(None), structured=True)
    yaml = await call(returning(Place("a")), structured=True, encoder=YAMLEncoder())
    assert yaml["structuredContent"] == {"name": "a", "parent": None}
    assert yaml["content"][0]["text"] == "name: a\nparent: null"


@pytest.mark.parametrize(
    "value",
    [
        {"id": 2**53},
        {"deep": [{"id": -(2**63)}]},
        {"10": "first", "2": "second"},
        {10: "first", 2: "second"},
        {"__proto__": {"a": 1}},
    ],
)
async def test_data_that_javascript_would_change_stays_text(value: dict[str, Any]) -> None:
    result = await call(returning(value, dict))
    assert "structuredContent" not in result
    assert result["content"][0]["text"] == JSONEncoder().encode(value)


async def test_integers_that_javascript_reads_exactly_are_structured() -> None:
    assert (await call(returning({"id": 2**53 - 1, "ok": True}, dict)))["structuredContent"] == {
        "id": 2**53 - 1,
        "ok": True,
    }


async def test_results_in_another_form_than_announced_are_sent_as_they_are() -> None:
    mcp = {"content": [{"type": "text", "text": "no"}], "is_error": True}
    assert await call(returning(mcp, dict[str, Any])) == {"content": [{"type": "text", "text": "no"}], "isError": True}
    nearly = await call(returning({"content": "no", "isError": True}, dict[str, Any]))
    assert nearly["isError"]
    assert "structuredContent" not in nearly
    assert "structuredContent" not in await call(returning("none", dict[str, Any]))
    assert "structuredContent" not in await call(returning(ToolResult(text={"a": 1}), dict[str, Any]))
    own = {"content": [{"type": "text", "text": "a"}], "structuredContent": {"a": 1}}
    assert (await call(returning(own, dict), structured=True))["structuredContent"] == {"a": 1}


async def test_an_object_that_is_too_large_is_cut_as_text() -> None:
    result = await call(returning({"a": "x" * 1000}, dict[str, str]), max_result_chars=200)
    assert "structuredContent" not in result
    assert len(result["content"][0]["text"]) <= 200


async def test_objects_that_are_nested_too_deep_fail_as_without_structure() -> None:
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"a": deep}
    result = await call(returning(deep, dict))
    assert "nested too deeply" in result["content"][0]["text"]


async def test_methods_and_partial_functions_are_described_too() -> None:
    class Shop:
        async def find(self) -> Place:
            return Place("here")

    assert tool(Shop().find).definition()["outputSchema"]["required"] == ["name"]
    assert (await call(Shop().find))["structuredContent"] == {"name": "here", "parent": None}
