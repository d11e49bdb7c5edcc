"""Configuration models: errors name the field and do not show its value."""

import pickle
from typing import Annotated, ClassVar

import pytest
from pydantic import Field

from claude_agent_py._base.checks import read_size
from claude_agent_py._base.configuration import ConfigModel, inner_text, snake_case, suggest
from claude_agent_py.errors import OptionsError


class Inner(ConfigModel):
    size: Annotated[int, Field(ge=1)]
    text: str = ""


class Outer(ConfigModel):
    QUALIFIED: ClassVar[bool] = False
    RENAMED: ClassVar[dict[str, str]] = {"old_name": "use inner"}

    inner: Inner | None = None
    by_name: dict[str, Inner] = Field(default_factory=dict)


def refused(**given: object) -> OptionsError:
    with pytest.raises(OptionsError) as caught:
        Outer(**given)
    return caught.value


@pytest.mark.parametrize(
    ("given", "option", "says"),
    [
        ({"iner": 1}, "iner", "iner: is unknown; did you mean 'inner'?"),
        ({"oldName": 1}, "oldName", "oldName: is unknown; use inner"),
        ({"xyz": 1}, "xyz", "xyz: is unknown"),
        ({"inner": {}}, "inner", "inner: size is missing"),
        ({"inner": {"size": 1, "tekst": ""}}, "inner", "inner: tekst is unknown; did you mean 'text'?"),
        ({"by_name": {"a b": {"size": 0}}}, "by_name", "by_name: ['a b'].size must be greater than or equal to 1"),
        ({"inner": 5}, "inner", "inner: must be a valid dictionary or instance of Inner, not int"),
    ],
)
def test_a_mistake_says_where(given: dict[str, object], option: str, says: str) -> None:
    error = refused(**given)
    assert str(error) == says
    assert error.option == option
    assert pickle.loads(pickle.dumps(error)).option == option


def test_a_part_by_itself_names_its_class() -> None:
    with pytest.raises(OptionsError, match=r"^Inner.size: is missing$") as caught:
        Inner()  # type: ignore[call-arg]
    assert inner_text(caught.value) == "size is missing"


def test_validating_an_object_raises_the_same() -> None:
    with pytest.raises(OptionsError, match=r"^Outer: must be a valid dictionary or instance of Outer, not int"):
        Outer.model_validate(5)
    assert Outer.model_validate({"inner": {"size": 1}}).inner == Inner(size=1)


def test_no_value_is_shown_anywhere() -> None:
    error = refused(inner={"size": "SECRET"})
    assert "SECRET" not in str(error)
    assert error.__context__ is None
    assert error.__cause__ is None


def test_a_value_cannot_be_changed_but_replaced() -> None:
    inner = Inner(size=1)
    with pytest.raises(OptionsError, match="use replace"):
        inner.size = 2  # type: ignore[misc]
    with pytest.raises(ValueError, match="frozen"):
        inner.sise = 2
    assert inner.replace(size=2) == Inner(size=2)
    with pytest.raises(OptionsError, match=r"^Inner.size: must be greater"):
        inner.model_copy(update={"size": 0})


def test_a_repr_has_what_was_set_in_order() -> None:
    assert repr(Inner(text="x" * 100, size=1)) == f"Inner(size=1, text='{'x' * 60}...')"


def test_names_are_found_again() -> None:
    assert snake_case("permissionMode") == "permission_mode"
    assert snake_case("mcp-servers") == "mcp_servers"
    assert suggest("permisionMode", ["permission_mode", "model"]) == "; did you mean 'permission_mode'?"
    assert suggest("zzz", ["model"]) == ""


@pytest.mark.parametrize(
    ("text", "size"), [("4GiB", 4 << 30), ("500 MB", 500_000_000), ("1.5kib", 1536), (7, 7), ("12", 12)]
)
def test_sizes(text: str | int, size: int) -> None:
    assert read_size(text, option="memory") == size


@pytest.mark.parametrize("wrong", ["4 gallons", "", "-1GiB", 0, "0", True, 1.5, None])
def test_an_invalid_size_is_refused(wrong: object) -> None:
    with pytest.raises(OptionsError, match="memory"):
        read_size(wrong, option="memory")  # type: ignore[arg-type]
