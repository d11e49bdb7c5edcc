"""Shapes of answers: a schema whose root is an object, and the way back."""

import datetime
import json
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter

from claude_agent_py.options.output_shape import OutputShape, check_output_format


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
def test_an_answer_becomes_the_type(output_type: Any, answer: Any, value: Any) -> None:
    shape = OutputShape(output_type)
    assert shape.schema["type"] == "object"
    assert shape.adapter.validate_json(json.dumps(answer)) == value


def test_a_recursive_type_keeps_its_definitions() -> None:
    schema = OutputShape(Node).schema
    assert "$ref" not in schema
    assert schema["properties"]["children"]["items"] == {"$ref": "#/$defs/Node"}
    assert "Node" in schema["$defs"]


def test_an_object_is_left_as_it_is() -> None:
    assert OutputShape(Meeting).schema == TypeAdapter(Meeting).json_schema()


def test_a_type_without_a_schema_is_refused() -> None:
    class Opaque:
        pass

    with pytest.raises(ValueError, match="must be a type that pydantic can validate: Unable to generate"):
        OutputShape(Opaque)


def test_a_plain_schema_may_leave_its_type_open() -> None:
    assert check_output_format({"properties": {}}) == {"properties": {}}
