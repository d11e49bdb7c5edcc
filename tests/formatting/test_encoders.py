"""Values as JSON and YAML."""

import itertools
import sys
import traceback
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import example, given, strategies as st
from pydantic import BaseModel, Field

from claude_agent_py import TextBlock
from claude_agent_py.formatting import Encoder, EncodingError, JSONEncoder, YAMLEncoder
from claude_agent_py.messages import Citation
from claude_agent_py.wire import decode


class Colour(Enum):
    RED = "red"


class Model(BaseModel):
    when: date = Field(alias="on")


@dataclass
class Record:
    colour: Colour
    path: PurePosixPath


class Struct(msgspec.Struct, rename="camel"):
    a_model: Model
    data: bytes = b"hi"
    more: Any = None


USER = {"type": "user", "message": {"role": "user", "content": "x"}, "new": 1}
CITING = {"type": "text", "text": "x", "citations": [{"type": "c", "cited_text": "\ufffd"}]}
ENCODERS = [JSONEncoder(), JSONEncoder(indent=2), YAMLEncoder()]

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Model(on=date(2026, 1, 2)), {"on": "2026-01-02"}),
        (Record(Colour.RED, PurePosixPath("/a")), {"colour": "red", "path": "/a"}),
        ([Struct(Model(on=date(2026, 1, 2)))], [{"aModel": {"on": "2026-01-02"}, "data": "aGk=", "more": None}]),
        ({"block": TextBlock(text="ä")}, {"block": {"type": "text", "text": "ä"}}),
        (decode('{"type": "user", "message": {"role": "user", "content": "x"}, "new": 1}'), USER),
        ({"n": Decimal("1.5"), "id": UUID(int=0)}, {"n": "1.5", "id": "00000000-0000-0000-0000-000000000000"}),
        ({1: (1, 2)}, {"1": [1, 2]}),
        ({3}, [3]),
        (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        ([float("nan"), float("-inf")], ["nan", "-inf"]),
        (b"hi", "aGk="),
        ({"name": "\udcff"}, {"name": "\ufffd"}),
        ("ä", "ä"),
        (None, None),
        (TextBlock(text="x", citations=[Citation(type="c", cited_text="\udcff")]), CITING),
    ],
)
@pytest.mark.parametrize("encoder", ENCODERS, ids=repr)
def test_values_have_a_json_form(encoder: Encoder, value: Any, expected: Any) -> None:
    assert encoder.decode(encoder.encode(value)) == expected


@pytest.mark.parametrize("encoder", ENCODERS, ids=repr)
@given(value=json_values)
@example("a\x85b")
@example({"\u2028": ["\u2029 "]})
def test_a_value_reads_back(encoder: Encoder, value: Any) -> None:
    assert encoder.decode(encoder.encode(value)) == value


def test_text_stays_readable() -> None:
    assert JSONEncoder().encode({"b": "ä\n", "a": 1}) == '{"b": "ä\\n", "a": 1}'
    assert YAMLEncoder().encode({"b": "ä", "a": [1]}) == "b: ä\na:\n- 1"
    assert YAMLEncoder().encode(5) == "5"


@pytest.mark.parametrize("encoder", ENCODERS, ids=repr)
def test_a_value_without_a_json_form_is_named(encoder: Encoder) -> None:
    circle: list[Any] = []
    circle.append(circle)

    with pytest.raises(EncodingError, match="type object as JSON"):
        encoder.encode(object())
    with pytest.raises(EncodingError, match="type list as JSON"):
        encoder.encode(circle)


@dataclass
class Row:
    cells: Any


class Table(BaseModel):
    rows: Iterable[int] = ()
    more: Any = None


@pytest.mark.parametrize(
    "value",
    [
        itertools.count(),
        (number for number in itertools.count()),
        {"rows": [itertools.count()]},
        Row(itertools.count()),
        [Row([Row((itertools.count(),))])],
        Table(rows=itertools.count()),
        Table(more={"a": Row(map(str, itertools.count()))}),
        Struct(Model(on=date(2026, 1, 2)), more=[itertools.count()]),
    ],
    ids=["count", "generator", "in a dict", "in a dataclass", "deeper", "in a field", "in a model", "in a struct"],
)
@pytest.mark.parametrize("encoder", ENCODERS, ids=repr)
def test_an_iterator_is_refused_because_it_may_never_end(encoder: Encoder, value: Any) -> None:
    with pytest.raises(EncodingError, match=r"cannot encode an iterator of type \w+; use a list"):
        encoder.encode(value)


def test_unreadable_text_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="Expecting"):
        JSONEncoder().decode("{")
    with pytest.raises(ValueError, match="expected"):
        YAMLEncoder().decode("a: [")


@pytest.mark.parametrize("encoder", [JSONEncoder(), YAMLEncoder()])
def test_text_that_is_nested_too_deep_is_a_value_error(encoder: JSONEncoder | YAMLEncoder) -> None:
    with pytest.raises(ValueError, match="nested too deep"):
        encoder.decode("[" * 100_000)


@pytest.mark.parametrize("text", ["!!int ''", "!!bool maybe", "!!timestamp soon", "a: &a [*a]", "? [a]\n: b"])
def test_yaml_that_is_not_plain_data_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"not YAML|aliases are rejected|unhashable"):
        YAMLEncoder().decode(text)


def test_yaml_makes_no_objects() -> None:
    with pytest.raises(ValueError, match="could not determine a constructor"):
        YAMLEncoder().decode("!!python/object/apply:os.getcwd []")


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)

    with pytest.raises(ImportError, match="pip install pyyaml"):
        YAMLEncoder()


@given(st.text(st.characters()))
def test_text_that_utf_8_cannot_represent_is_replaced_and_nothing_else_is(text: str) -> None:
    encoded = JSONEncoder().encode({text: text})

    encoded.encode()
    [(name, value)] = JSONEncoder().decode(encoded).items()
    assert name == value
    assert value == text or "\ufffd" in value


@pytest.mark.parametrize("make", [dict, list])
def test_a_value_that_contains_itself_has_a_short_error(make: Any) -> None:
    value = make()
    if isinstance(value, dict):
        value["a"] = value
    else:
        value.append(value)
    with pytest.raises(EncodingError, match="is nested too deeply, or contains itself") as caught:
        JSONEncoder().encode(value)
    assert len(traceback.format_exception(caught.value)) < 20
