"""Run a single prompt, then hold a conversation."""

import anyio
from offline import offline

from claude_agent_py import Client, run


async def main() -> None:
    result = await run("What is the capital of France?")  # one prompt in its own process
    print(result.text)

    async with Client() as client:  # a session remembers earlier prompts
        first = await client.query("Think of a number between 1 and 10 and tell me.")
        second = await client.query("Double it.")
        print(first.text, "->", second.text)


if __name__ == "__main__":
    with offline(["Paris.", "7", "14"]):
        anyio.run(main)
