"""Run tool calls yourself, in order, and format the results for the model.

Runs without a CLI and without a model: the text below simulates a model's output.
"""

import anyio

from claude_agent_py import MarkdownFormat, ToolChain, ToolError, XMLFormat, tool

FROM_A_MODEL = """
I will look up both, and write the first one down.

<population>{"city": "Cologne"}</population>
<population>{"city": "Atlantis"}</population>
<note>{"text": "Cologne: a million"}</note>
<populatoin>{"city": "Bonn"}</populatoin>
"""

NOTES: list[str] = []


@tool(read_only=True)  # calls of it that follow one another run together
async def population(city: str) -> int:
    """Return the population of a city."""
    if city != "Cologne":
        raise ToolError(f"I know no city {city!r}.")
    return 1_087_353


@tool
def note(text: str) -> None:
    """Keep a note."""
    NOTES.append(text)


async def main() -> None:
    chain = ToolChain([population, note], text_format=XMLFormat(wrapper="observation"))
    result = await chain.execute(FROM_A_MODEL)

    print("For the model:\n" + result.text)
    print("\nFor the program:")
    for call in result.raw:
        outcome = call.output if call.error is None else repr(call.error)
        print(f"  {call.name}({call.input}) = {outcome} in {call.duration:.1f} s")

    blocks = [{"type": "tool_use", "id": "toolu_1", "name": "population", "input": {"city": "Cologne"}}]
    result = await chain.execute(blocks, MarkdownFormat())
    print("\nA block of the Messages API, in Markdown:\n" + result.text)
    print("\nThe message for the API:\n", result.to_api_message())


if __name__ == "__main__":
    anyio.run(main)
