"""Print the answer while it is generated."""

import anyio
from offline import offline

from claude_agent_py import Client, ClientOptions
from claude_agent_py.testing import Reply


async def main() -> None:
    options = ClientOptions(include_partial_messages=True)  # without it, only whole blocks arrive
    async with Client(options) as client:
        run = client.query("Write a haiku about pipes.")
        async for piece in run.text_stream():  # the main agent's text, each chunk once
            print(piece, end="", flush=True)
        result = await run  # the same run can be awaited, too
        print(f"\n-- {result.stop_reason}")


if __name__ == "__main__":
    haiku = "Bytes flow left and right,\na line ends, a model wakes:\nthe prompt has its own."
    with offline([Reply(haiku, chunk_chars=4, chunk_delay=0.01)]):
        anyio.run(main)
