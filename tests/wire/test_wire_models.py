"""Rules that all models of the wire keep, and the names under which they are public."""

import importlib
import json
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from claude_agent_py import control, messages, tasks, wire

MODULES = [
    module.name
    for module in pkgutil.walk_packages(wire.__path__, f"{wire.__name__}.")
    if re.search(r"\.(control|messages)\.(?!permissions)", module.name)  # these are replies of this side
]
PUBLIC = {*dir(control), *dir(messages), *dir(tasks)}


def models() -> Iterator[type[msgspec.Struct]]:
    for module in MODULES:
        for value in vars(importlib.import_module(module)).values():
            if isinstance(value, type) and issubclass(value, msgspec.Struct) and value.__module__ == module:
                yield value


def run(code: str) -> Any:
    """Run code in a fresh interpreter; it prints JSON."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_every_model_keeps_the_rules() -> None:
    assert len(list(models())) > 200
    for model in models():
        config = model.__struct_config__
        assert config.frozen, model
        assert not config.forbid_unknown_fields, model
        assert model.__doc__, model
        msgspec.json.Decoder(model)  # every type of a field is one that msgspec knows
        if config.tag is not None and model.__name__ in PUBLIC and not model.__name__.startswith("Unknown"):
            assert getattr(model, str(config.tag_field)) == config.tag, model


def test_every_model_is_public_but_private_bases() -> None:
    assert {model.__name__ for model in models() if not model.__name__.startswith("_")} <= PUBLIC


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'NoSuchModel'"):
        wire.NoSuchModel  # type: ignore[attr-defined]  # noqa: B018


def test_decoding_loads_no_models_of_tools_and_hooks() -> None:
    loaded = run(
        'import json, sys; from claude_agent_py.wire import decode; decode(b\'{"type":"keep_alive"}\');'
        "print(json.dumps(list(sys.modules)))"
    )
    assert "claude_agent_py.wire.frames" in loaded
    assert "pydantic" not in loaded
    assert "claude_agent_py.wire.control.requests" not in loaded
    of_tools = {
        name for name in loaded if name.startswith(("claude_agent_py.wire.tools", "claude_agent_py.wire.hooks"))
    }
    tools = "claude_agent_py.wire.tools"
    assert of_tools == {tools, f"{tools}.names", f"{tools}.registry"}  # which have only names
    assert "anyio" not in loaded
