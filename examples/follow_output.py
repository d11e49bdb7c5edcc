"""Follow the output of a background shell while it runs."""

import anyio
from offline import offline

from claude_agent_py import Client, ClientOptions
from claude_agent_py.testing import tool_use


async def main() -> None:
    async with Client(ClientOptions(allowed_tools=["Bash"])) as client:
        await client.query("Build the project in the background.")
        build = next(iter(client.tasks))

        print(f"{build.description} is {build.status}:")
        async for chunk in build.follow():  # yields text as it is written, until the shell ends
            print(chunk, end="", flush=True)

        outcome = await build
        print(f"{build.description} {outcome.status} with exit code {outcome.exit_code}")


BUILD = {
    "command": "for part in parser engine client; do echo compiling $part; sleep 0.3; done; echo linked",
    "description": "Build",
    "run_in_background": True,
}

if __name__ == "__main__":
    with offline([tool_use("Bash", BUILD), "The build runs."], on_exhausted="The build is done."):
        anyio.run(main)
