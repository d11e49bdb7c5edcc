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


def call(request_id: str, title: str = "Do it.", agent: str = "worker", **meta: Any) -> dict[str, Any]:
    """The CLI calls a child tool."""
    arguments = {"name": f"create_subtask_{agent}", "arguments": {"title": title}}
    return frames.mcp_message(
        request_id, "tools", "tools/call", **arguments, _meta={"claudecode/toolUseId": f"toolu_{request_id}"} | meta
    )


def withdrawn(request_id: str, reason: str = "AbortError: remote-cancel") -> dict[str, Any]:
    """The CLI takes a call back."""
    params = {"requestId": request_id, "reason": reason}
    message = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
    return frames.control_request(f"{request_id}-off", "mcp_message", server_name="tools", message=message)


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
