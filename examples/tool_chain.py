"""Run tool calls yourself, concurrently, and format the results for the model.

Runs without a CLI and without a model: the text below stands for a model's output.
"""

import anyio

from claude_agent_py import MarkdownFormat, ToolChain, ToolError, XMLFormat, tool

FROM_A_MODEL = """
I will look up both.

<population>{"city": "Cologne"}</population>
<population>{"city": "Atlantis"}</population>
"""


@tool
async def population(city: str) -> int:
    """Return the population of a city."""
    if city != "Cologne":
        raise ToolError(f"I know no city {city!r}.")
    return 1_087_353


async def main() -> None:
    chain = ToolChain([population], text_format=XMLFormat(wrapper="observation"))
    result = await chain.execute(FROM_A_MODEL)

    print("For the model:\n" + result.text)
    print("\nFor the program:")
    for call, value, error in zip(result.raw.calls, result.raw.results, result.raw.errors, strict=True):
        print(f"  {call.name}({call.input}) = {value if error is None else repr(error)}")

    result = await chain.execute(result.raw.calls, MarkdownFormat())
    print("\nThe same in Markdown:\n" + result.text)


if __name__ == "__main__":
    anyio.run(main)
