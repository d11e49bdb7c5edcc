"""A fake answers `initialize` like the real CLI, for any options."""

from pathlib import Path
from typing import Any

import pytest

from claude_agent_py import AgentDefinition, Client, ClientOptions, HookMatcher, ToolServer, tool
from claude_agent_py.testing import FakeCLI, ScriptedModel, steps

pytestmark = pytest.mark.anyio


@tool
def look(where: str) -> str:
    """Look around."""
    return where


EVERYTHING: dict[str, Any] = {
    "agents": {
        "zebra": AgentDefinition(description="Runs", prompt="p", model="haiku"),
        "Ant": AgentDefinition(description="Works", prompt="p"),
        "general-purpose": AgentDefinition(description="Replaces one", prompt="p", model="inherit"),
    },
    "hooks": {"PreToolUse": [HookMatcher("Bash", lambda call, context: None)]},
    "custom_tools": [look],
    "mcp_servers": {"more": ToolServer("more", [look])},
}


async def build_greeting(options: ClientOptions, transport: Any = None) -> dict[str, Any]:
    async with Client(options, transport=transport) as client:
        return client.info.raw


def own_agents(said: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the agents without the built-in ones, of which the fake has only one."""
    agents = ({key: value for key, value in agent.items() if value is not None} for agent in said["agents"])
    return [agent for agent in agents if agent["description"] in {"Runs", "Works", "Replaces one"}]


@pytest.mark.real_cli
@pytest.mark.parametrize("given", [pytest.param({}, marks=pytest.mark.long), EVERYTHING], ids=["nothing", "everything"])
async def test_the_greeting_is_that_of_the_real_cli(given: dict[str, Any]) -> None:
    async with ScriptedModel() as model:
        real = await build_greeting(model.options(**given))
    said = await build_greeting(ClientOptions(**given), FakeCLI().transport())
    assert own_agents(said) == own_agents(real)
    for key in ("hooks_applied", "sdk_mcp_manifests_parked"):
        assert said.get(key) == real.get(key), key
    assert said.keys() <= real.keys()
    assert {key: type(value) for key, value in said.items()} == {key: type(real[key]) for key in said}
    assert set(said["capabilities"]) <= set(real["capabilities"])


async def test_a_program_answers_like_the_transport(tmp_path: Path) -> None:
    fake = FakeCLI(steps.turn("hello"))
    in_memory = await build_greeting(ClientOptions(**EVERYTHING), fake.transport())
    assert await build_greeting(ClientOptions(**EVERYTHING, cli_path=fake.install(tmp_path)), None) == in_memory
    assert {agent["name"] for agent in in_memory["agents"]} == {"Ant", "general-purpose", "zebra"}


async def test_a_fake_sends_exactly_its_script() -> None:
    fake = FakeCLI(initialize={"hooks_applied": True, "pid": 7})
    said = await build_greeting(ClientOptions(hooks=EVERYTHING["hooks"]), fake.transport())
    assert said == {"hooks_applied": True, "pid": 7}
