"""Define a tool as a function: its schema is derived from the annotations and the docstring.

Runs offline: a scripted model calls the tool, at first with an invalid argument.
"""

import anyio

from claude_agent_py import Client, ToolContext, ToolError, tool
from claude_agent_py.testing import Reply, ScriptedModel, tool_use
from claude_agent_py.tools import mcp_tool_name

PEOPLE = {"Cologne": 1_087_353, "Bonn": 335_975}


@tool(read_only=True)
async def population(city: str, context: ToolContext) -> dict[str, int]:
    """Return the population of a city.

    Args:
        city: Its English name.
    """
    context.report_progress(1, 2, f"looking up {city}")
    if city not in PEOPLE:
        raise ToolError(f"I know no city {city!r}; I know {', '.join(PEOPLE)}.")
    return {"people": PEOPLE[city]}


NAME = mcp_tool_name("tools", "population")

SCRIPT = [
    Reply([tool_use(NAME, {"town": "Cologne"}), tool_use(NAME, {"city": "Paris"})]),
    Reply([tool_use(NAME, {"city": "Cologne"}), tool_use(NAME, {"city": "Bonn"})]),
    Reply("Cologne has 1,087,353 people, Bonn 335,975."),
]


async def main() -> None:
    async with ScriptedModel(SCRIPT) as model, Client(model.options(custom_tools=[population])) as client:
        result = await client.query("Which of Cologne and Bonn is larger?")
        for call in result.tool_calls:
            print(f"{call.tool_name}({call.input}) -> {'error: ' if call.is_error else ''}{call.text}\n")
        print(result.text)


if __name__ == "__main__":
    anyio.run(main)
