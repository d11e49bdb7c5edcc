"""Handle errors, and retry with a policy."""

import anyio
from offline import offline

from claude_agent_py import Client, ClientOptions, CLINotFoundError, MaxTurnsError, OptionsError, RetryPolicy, RunResult
from claude_agent_py.errors import RunFailed
from claude_agent_py.testing import Failure, tool_use


async def ask(client: Client, prompt: str) -> RunResult:
    try:
        return await client.query(prompt)
    except RunFailed as error:  # any failure of a run, including a crash of the CLI
        print(f"  failed: {type(error).__name__}: {error}")
        raise


async def main() -> None:
    try:
        ClientOptions(max_turns=0)  # an invalid option fails immediately; the error names it
    except OptionsError as error:
        print("OptionsError:", error)

    try:
        async with Client(ClientOptions(cli_path="/nowhere/claude")):
            pass
    except CLINotFoundError as error:
        print("CLINotFoundError:", error.tried)

    policy = RetryPolicy(attempts=3, wait=0.1, budget=60)
    async with Client(ClientOptions(env={"CLAUDE_CODE_MAX_RETRIES": "0"}, allowed_tools=["Bash"])) as client:
        result = await policy.run(lambda: ask(client, "Are you there?"))  # overloaded at first
        print("answer:", result.text)

    async with Client(ClientOptions(max_turns=1, allowed_tools=["Bash"])) as client:
        try:
            await client.query("Run `date` until it is midnight.")
        except MaxTurnsError as error:
            print("MaxTurnsError:", error)
            print("tool calls until then:", [call.name for call in error.result.tool_calls])


if __name__ == "__main__":
    with offline([Failure(529), Failure(529), "I am."], on_exhausted=tool_use("Bash", {"command": "date"})):
        anyio.run(main)
