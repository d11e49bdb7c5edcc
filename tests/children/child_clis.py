"""Child agents of scripted CLIs: a parent in memory, children that are programs."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from claude_agent_py import AgentDefinition, ClientOptions
from claude_agent_py.children import ChildAgent
from claude_agent_py.testing import FakeCLI, frames

MakeAgent: TypeAlias = Callable[..., ChildAgent]

WORKER = AgentDefinition(description="Works", prompt="You work.")


def child_cli(*script: Any, name: str = "worker", **fields: Any) -> FakeCLI:
    """Make a CLI for a child, which offers the agent that the child is."""
    offered = frames.initialize_response(agents=[{"name": name, "description": "Works"}])
    return FakeCLI(*script, initialize=offered, **fields)


@pytest.fixture
def agent_of(tmp_path: Path) -> MakeAgent:
    """Make agents whose process is a scripted CLI."""
    if sys.platform == "win32":
        pytest.skip("an installed fake is a shell script")
    made = 0

    def make(
        fake: FakeCLI,
        *,
        name: str = "worker",
        definition: AgentDefinition = WORKER,
        options: dict[str, Any] | None = None,
        **given: Any,
    ) -> ChildAgent:
        nonlocal made
        made += 1
        program = fake.install(tmp_path / str(made))
        own = ClientOptions(**({"cli_path": program, "persist_session": False} | (options or {})))
        return ChildAgent(definition, id=name, options=own, **given)

    return make
