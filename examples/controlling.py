"""Inspect a running session, change its settings, and interrupt it."""

import anyio
from offline import offline

from claude_agent_py import Client, ClientOptions, InitMessage, InterruptedRunError
from claude_agent_py.testing import Reply


async def main() -> None:
    async with Client(ClientOptions(model="sonnet")) as client:
        print("models:", ", ".join(model.value for model in client.info.models))

        run = client.query("Count to a million, one number a line.")
        async for message in run:
            if isinstance(message, InitMessage):  # the turn has begun
                break  # the run continues; iterate it again or await it
        usage = await client.usage.context("summary")  # while the turn runs
        print(f"context: {usage.percentage} % full")

        receipt = await run.interrupt()
        print("interrupt:", receipt.outcome)
        try:
            await run
        except InterruptedRunError as error:
            print("the run ended:", error.result.terminal_reason)

        await client.set_model("haiku")
        result = await client.query("Which model are you?")
        print(result.text)


if __name__ == "__main__":
    with offline(lambda request: Reply(f"I am {request.model}.", delay=0 if "Which" in request.last_user_text else 60)):
        anyio.run(main)
