"""What a run used, by model and by agent, and what is left of the budget, on the real CLI."""

import pytest

from claude_agent_py import AgentDefinition, Client
from claude_agent_py.testing import ScriptedModel, tool_use
from claude_agent_py.wire.messages.usage import ModelUsage

pytestmark = [pytest.mark.anyio, pytest.mark.real_cli]


def counts(usage: ModelUsage) -> tuple[float, float, float]:
    return usage.input_tokens, usage.output_tokens, usage.cost_usd


async def test_usage_of_a_run_is_its_own() -> None:
    scout = AgentDefinition(description="Looks", prompt="You look.", model="haiku")
    look = tool_use("Agent", {"description": "look", "prompt": "Look", "subagent_type": "scout"})
    async with ScriptedModel(["hello", look, "looked", "done"], agents={"Look": "seen"}) as model:
        async with Client(model.options(agents={"scout": scout}, max_budget_usd=1.0)) as client:
            first = await client.query("hi")
            middle = await client.usage.budget_left_usd()
            second = await client.query("look", until="idle")
            await client.tasks.wait_all()

        assert middle == pytest.approx(first.budget_left_usd)
        assert list(first.usage_by_agent) == [""]
        assert first.usage_by_agent[""].cost_usd == pytest.approx(first.cost_usd)
        assert not first.usage_by_agent[""].cost_is_derived
        assert first.usage_by_agent[""].total_tokens == first.usage.total_tokens if first.usage else False

        assert len(second.usage_by_model) == 2
        for name, total in second.model_usage.items():
            parts = [result.usage_by_model[name] for result in (first, second) if name in result.usage_by_model]
            assert [sum(part) for part in zip(*map(counts, parts), strict=True)] == pytest.approx(counts(total))
        assert sum(usage.cost_usd for usage in second.usage_by_model.values()) == pytest.approx(second.cost_usd)

        main, other = second.usage_by_agent[""], second.usage_by_agent["scout"]
        assert (main.tool_uses, main.cost_is_derived, other.cost_is_derived) == (1, True, True)
        assert main.cost_usd is not None
        assert other.cost_usd is not None
        assert 0 < other.cost_usd < main.cost_usd
        assert main.cost_usd + other.cost_usd == pytest.approx(second.cost_usd)
        assert second.budget_left_usd == pytest.approx(1.0 - first.cost_usd - second.cost_usd)
