"""What can go wrong, and a retry that knows when it helps."""

import time

import anyio
from offline import offline

from claude_agent_py import (
    Client,
    ClientOptions,
    CLINotFoundError,
    MaxTurnsError,
    OptionsError,
    RateLimitedError,
    RunError,
    RunResult,
)
from claude_agent_py.testing import Failure, tool_use


async def ask_again_if_it_may_help(client: Client, prompt: str, *, attempts: int = 3) -> RunResult:
    for attempt in range(1, attempts + 1):
        try:
            return await client.query(prompt)
        except RunError as error:
            print(f"  attempt {attempt}: {type(error).__name__}: {error}")
            if not error.is_retryable or attempt == attempts:
                raise
            pause = 0.1 * 2**attempt
            if isinstance(error, RateLimitedError) and error.resets_at is not None:
                pause = max(pause, error.resets_at - time.time())
            await anyio.sleep(pause)
    raise AssertionError("unreachable")


async def main() -> None:
    try:
        ClientOptions(max_turns=0)  # a mistake is told at once, and by name
    except OptionsError as error:
        print("OptionsError:", error)

    try:
        async with Client(ClientOptions(cli_path="/nowhere/claude")):
            pass
    except CLINotFoundError as error:
        print("CLINotFoundError:", error.tried)

    async with Client(ClientOptions(env={"CLAUDE_CODE_MAX_RETRIES": "0"}, allowed_tools=["Bash"])) as client:
        result = await ask_again_if_it_may_help(client, "Are you there?")  # overloaded at first
        print("answer:", result.text)

    async with Client(ClientOptions(max_turns=1, allowed_tools=["Bash"])) as client:
        try:
            await client.query("Run `date` until it is midnight.")
        except MaxTurnsError as error:
            print("MaxTurnsError:", error)
            print("what it did until then:", [call.name for call in error.result.tool_calls])


if __name__ == "__main__":
    with offline([Failure(529), Failure(529), "I am."], on_exhausted=tool_use("Bash", {"command": "date"})):
        anyio.run(main)
