"""Loop around the Messages API with your own tools, without the CLI (needs `pip install anthropic`).

Runs offline, because the scripted model speaks the Messages API.
"""

import anthropic
import anyio
from offline import offline

from claude_agent_py import ToolChain, ToolError, tool
from claude_agent_py.testing import tool_use
from claude_agent_py.tools import LoopStep

SCRIPT = [
    [tool_use("population", {"city": "Cologne"}), tool_use("population", {"city": "Bon"})],
    tool_use("population", {"city": "Bonn"}),
    "Cologne is about three times as large as Bonn.",
]
RESIDENTS = {"Cologne": 1_087_353, "Bonn": 335_789}


@tool(read_only=True)
def population(city: str) -> int:
    """Return the population of a city."""
    if city not in RESIDENTS:
        raise ToolError(f"I know no city {city!r}, but {', '.join(RESIDENTS)}.")
    return RESIDENTS[city]


def show(step: LoopStep) -> None:
    for call in step.result.raw if step.result else ():
        print(f"step {step.number}: {call.name}({call.input['city']}) = {call.as_text()}")


async def main() -> None:
    chain = ToolChain([population])

    async with anthropic.AsyncAnthropic() as api:

        async def call_model(messages: list[anthropic.types.MessageParam]) -> anthropic.types.Message:
            return await api.messages.create(
                model="claude-opus-5-5", max_tokens=1000, tools=chain.definitions(), messages=messages
            )

        result = await chain.loop(call_model, "How much larger is Cologne than Bonn?", max_steps=5, on_step=show)

    tokens = sum(step.response.usage.input_tokens for step in result.steps)
    print(f"{result.ended} after {len(result.steps)} steps, {tokens} input tokens:")
    print(result.text)


if __name__ == "__main__":
    with offline(SCRIPT):
        anyio.run(main)
