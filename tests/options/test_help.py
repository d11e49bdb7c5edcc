"""`help()` and `inspect.signature` show options as they are written, and cost nothing until then."""

import importlib
import inspect
import pydoc
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ConfigDict, Field

from claude_agent_py import AgentDefinition, ClientOptions, Limits, MCPHTTPServer, RetryPolicy, Timeouts
from claude_agent_py._base.configuration import ConfigModel
from claude_agent_py.agents import DelegationGuide
from claude_agent_py.options import SandboxSettings
from claude_agent_py.options.fields import OptionFields

DOCS = Path(__file__).parents[2] / "docs"
NOISE = re.compile(r"Annotated|FieldInfo|Validator|typing\.|<factory>|<function| at 0x")


def models(base: type[ConfigModel] = ConfigModel) -> list[type[ConfigModel]]:
    """Return the public models of the package that have fields."""
    found = [model for one in base.__subclasses__() for model in (one, *models(one))]
    ours = [one for one in found if one.__module__.startswith("claude_agent_py.") and one.__name__.isidentifier()]
    return [one for one in ours if one.model_fields and not one.__name__.startswith("_")]


def rendered(thing: object) -> str:
    return pydoc.plain(pydoc.render_doc(thing)).replace("\n |  ", "\n")


def squeezed(text: str) -> str:
    return " ".join(text.split())


MODELS = sorted({DelegationGuide, SandboxSettings, *models()}, key=str)


def without_last_comma(text: str) -> str:
    """Return a signature as Python 3.11 to 3.13 write it alike: pydoc of 3.13 omits the comma after the last one."""
    return text.replace(",\n)", "\n)")


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_help_shows_every_field_with_its_plain_type(model: type[ConfigModel]) -> None:
    parameters = inspect.signature(model).parameters
    assert sorted(parameters) == sorted(model.model_fields)
    told, shown = rendered(model), model.__name__ + str(inspect.signature(model))
    assert without_last_comma(shown) in without_last_comma(told.replace("\n |", "\n"))
    assert NOISE.search(shown + str(model.__doc__)) is None
    for name, field in model.model_fields.items():
        ending = "" if field.is_required() else " = .+"
        assert re.fullmatch(rf"{name}: .+?{ending}", str(parameters[name]))
        assert f"\n    {parameters[name]}\n" in f"{told}\n"
        default = inspect.Parameter.empty if field.is_required() else field.default
        if field.default_factory is None and not callable(default):
            assert parameters[name].default == default
    assert not re.search(r"^(__pydantic_|__annotations__)", told, re.MULTILINE)


def test_types_are_those_of_the_source() -> None:
    shown = {name: str(one) for name, one in inspect.signature(ClientOptions).parameters.items()}
    assert {name: shown[name] for name in ("cwd", "env", "timeouts", "effort", "can_use_tool", "on_task_event")} == {
        "cwd": "cwd: str | Path | None = None",
        "env": "env: Mapping[str, str | None] = {}",
        "timeouts": "timeouts: Timeouts = Timeouts()",
        "effort": "effort: Literal['low', 'medium', 'high', 'xhigh', 'max'] | None = None",
        "can_use_tool": "can_use_tool: CanUseTool | None = None",
        "on_task_event": "on_task_event: TaskListener[TaskEvent] | None = None",
    }
    assert shown["tool_aliases"] == "tool_aliases: Mapping[str, str] = {}"
    assert shown["output_type"] == "output_type: type[Output] | None = None"
    assert str(inspect.signature(AgentDefinition).parameters["description"]) == "description: str"
    assert str(inspect.signature(RetryPolicy).parameters["clock"]) == "clock: Callable[[], float] = time"
    assert [*inspect.signature(MCPHTTPServer).parameters] == ["url", "headers", "timeout", "always_load", "tools"]
    assert str(inspect.signature(MCPHTTPServer)).startswith(
        "(\n    url: str,\n    headers: dict[str, str] = {},\n    *,\n"
    )


WRITTEN = {ClientOptions: OptionFields, Timeouts: Timeouts, Limits: Limits}
"""The class in whose source the options of a model are."""


@pytest.mark.parametrize("model", WRITTEN, ids=lambda model: model.__name__)
def test_help_has_the_text_of_every_option(model: type[ConfigModel], monkeypatch: pytest.MonkeyPatch) -> None:
    """The texts are those of the page of options."""
    monkeypatch.syspath_prepend(DOCS)
    generate_options = importlib.import_module("generate_options")
    source = WRITTEN[model]
    options = generate_options.read(sys.modules[source.__module__], source.__name__)
    assert [option.name for option in options] == list(model.model_fields)
    told = squeezed(rendered(model))
    for option in options:
        assert option.text
        assert squeezed(f"{inspect.signature(model).parameters[option.name]} {option.text}") in told


def test_a_generic_form_has_the_same_help() -> None:
    assert str(inspect.signature(ClientOptions[int])) == str(inspect.signature(ClientOptions))
    assert "The full name of a model or an alias" in rendered(ClientOptions[int])


class Teams(ClientOptions):
    """Options of a team."""

    team: str = Field(default="blue", min_length=1)
    """Which team."""


class Made(Timeouts):
    def __init__(self, minutes: float) -> None:
        super().__init__(run=minutes * 60)


def test_classes_of_users_have_help_too() -> None:
    assert str(inspect.signature(Teams).parameters["team"]) == "team: str = 'blue'"
    assert "Which team." in rendered(Teams)
    assert "The full name of a model or an alias" in rendered(Teams)
    assert str(inspect.signature(Made)) == "(minutes: float) -> None"
    assert Made(2).run == 120


def test_without_its_source_a_class_shows_its_types() -> None:
    names: dict[str, type[ConfigModel]] = {}
    exec(
        "from claude_agent_py._base.configuration import ConfigModel\nclass One(ConfigModel):\n x: int | None = 3",
        names,
    )
    names["One"].__module__ = "elsewhere"
    assert str(inspect.signature(names["One"])) == "(*, x: int | None = 3)"
    assert names["One"].__doc__ == "Args:\n    x: int | None = 3"


def test_the_description_of_a_json_schema_is_the_docstring() -> None:
    class Silent(ConfigModel):
        model_config = ConfigDict(title="Other")
        x: int = 0

    description = AgentDefinition.model_json_schema()["description"]
    assert description.startswith("A kind of subagent")
    assert "Args:" not in description
    assert Silent.model_json_schema() == {
        "additionalProperties": False,
        "properties": {"x": {"default": 0, "title": "X", "type": "integer"}},
        "title": "Other",
        "type": "object",
    }


LAZY = """
import inspect, linecache
from claude_agent_py import {0}
{0}()
print(*inspect.signature({0}).parameters)
assert not [file for file in linecache.cache if "claude_agent_py" in file], "the source is read too early"
str(inspect.signature({0}))
assert [file for file in linecache.cache if "claude_agent_py" in file]
"""


@pytest.mark.parametrize("model", [ClientOptions, Timeouts], ids=lambda model: model.__name__)
@pytest.mark.parametrize("is_made", [True, False], ids=["made before", "first of all"])
def test_the_source_is_read_for_help_alone(model: type[ConfigModel], is_made: bool) -> None:
    code = LAZY if is_made else LAZY.replace("{0}()\n", "")
    done = subprocess.run(
        [sys.executable, "-c", code.format(model.__name__)], capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert done.stdout.split() == list(model.model_fields)


@pytest.mark.parametrize("model", [ClientOptions, Limits, RetryPolicy])
def test_help_shows_no_methods_of_pydantic(model: type[ConfigModel]) -> None:
    told = rendered(model)
    assert not re.search(r"model_dump|model_json_schema|from_orm|parse_obj|copy_on_model|\bjson\(", told)
    assert "replace(self" in told
    assert "model_validate(" in told  # raises OptionsError
