"""The pytest plugin: fixtures and the marker `cassette`. pytest finds it by the entry point of the package.

pytest imports this module in every run, so it imports nothing of the package; the fixtures do, when a test asks for one.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from claude_agent_py.testing.stage import MakeClient, MakeFakeCLI, MakeOptions, MakeScriptedModel, Stage


@pytest.fixture(name="_claude_stage")
def claude_stage(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Stage]":
    """The stand-ins of this test."""
    from claude_agent_py.testing.stage import Stage

    with Stage(lambda: tmp_path_factory.mktemp("fake_cli")) as stage:
        yield stage


@pytest.fixture
def scripted_model(_claude_stage: "Stage") -> "MakeScriptedModel":
    """Start a scripted model for the real CLI: `model = scripted_model(["Hello."])`."""
    return _claude_stage.scripted_model


@pytest.fixture
def fake_cli(_claude_stage: "Stage") -> "MakeFakeCLI":
    """Make a scripted CLI: `fake = fake_cli(steps.turn("Hello."))`."""
    return _claude_stage.fake_cli


@pytest.fixture
def claude_options(_claude_stage: "Stage") -> "MakeOptions":
    """Make options for what stands in for the model: `await run("Hi", claude_options(max_turns=3))`."""
    return _claude_stage.options


@pytest.fixture
def claude_client(_claude_stage: "Stage") -> "MakeClient":
    """Make a client of what stands in for the model: `async with claude_client(max_turns=3) as client:`."""
    return _claude_stage.client
