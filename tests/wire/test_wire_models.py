"""Rules that all models of the wire keep, and the names under which they are public."""

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, get_args

import pytest
from pydantic import ValidationError

from claude_agent_py import wire
from claude_agent_py.wire.base import TaggedModel, WireModel

MODULES = sorted(set(wire._HOME.values()))


def models() -> Iterator[type[WireModel]]:
    for module in MODULES:
        for value in vars(importlib.import_module(f"claude_agent_py.wire.{module}")).values():
            if isinstance(value, type) and issubclass(value, WireModel) and value.__module__.endswith(module):
                yield value


@contextmanager
def suppress_missing() -> Iterator[None]:
    """Let pass that fields are missing, and nothing else that is wrong."""
    try:
        yield
    except ValidationError as error:
        if {problem["type"] for problem in error.errors()} != {"missing"}:
            raise


def run(code: str) -> Any:
    """Run code in a fresh interpreter; it prints JSON."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize("model", list(models()), ids=lambda model: model.__name__)
def test_a_model_keeps_the_rules(model: type[WireModel]) -> None:
    assert model.model_config.get("frozen") is True
    assert model.model_config.get("extra") == "allow"
    assert model.__doc__
    with suppress_missing():
        model.model_validate({})
    if issubclass(model, TaggedModel):
        for field, tag in model.TAGS.items():
            info = model.model_fields[field]
            assert get_args(info.annotation) == (tag,)
            assert info.default == tag


@pytest.mark.parametrize("name", wire.__all__)
def test_a_public_name_is_there(name: str) -> None:
    assert getattr(wire, name) is not None
    assert name in dir(wire)


def test_every_model_is_public_but_the_bases() -> None:
    private = {model.__name__ for model in models()} - set(wire.__all__)
    assert private == {"AnswerModel", "Block", "CamelRequest", "ControlAnswer", "ServerToolResult"}


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'NoSuchModel'"):
        wire.NoSuchModel  # type: ignore[attr-defined]  # noqa: B018


def test_importing_the_codec_loads_no_models() -> None:
    loaded = run(
        "import json, sys, claude_agent_py.wire.codec;"
        "print(json.dumps([name for name in sys.modules if name.startswith('claude_agent_py.wire.')]))"
    )
    assert set(loaded) <= {f"claude_agent_py.wire.{name}" for name in ("base", "codec", "unions", "unknown")}


def test_decoding_loads_no_models_of_tools_and_hooks() -> None:
    loaded = run(
        'import json, sys; from claude_agent_py.wire import decode; decode(b\'{"type":"keep_alive"}\');'
        "print(json.dumps(list(sys.modules)))"
    )
    assert "claude_agent_py.wire.usual" in loaded
    assert not [
        name for name in loaded if name.startswith(("claude_agent_py.wire.tools", "claude_agent_py.wire.hooks"))
    ]
    assert "anyio" not in loaded
