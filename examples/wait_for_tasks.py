"""Wait for background tasks: as they complete, with a timeout, and with one that fails."""

import anyio
from offline import offline

from claude_agent_py import Client, ClientOptions, TaskTimeoutError
from claude_agent_py.testing import tool_use

PROMPT = "Run the linter, the tests and the benchmark in the background, all at once."


async def main() -> None:
    async with Client(ClientOptions(allowed_tools=["Bash"])) as client:
        await client.query(PROMPT)  # ends with the turn; the tasks continue

        benchmark = next(task for task in client.tasks if task.description == "Benchmark")
        try:
            await benchmark.wait(timeout=0.1)
        except TaskTimeoutError as error:
            print(f"after {error.timeout} s the benchmark is {benchmark.status}")  # the task continues

        async for task in client.tasks.as_completed(timeout=60):
            outcome = await task
            print(f"{task.description}: {outcome.status}, exit code {outcome.exit_code}")
            if not outcome.is_success:
                print("  " + (await task.read_output(tail_bytes=200)).strip())

        outcomes = await client.tasks.wait_all()
        print(f"{sum(outcome.is_success for outcome in outcomes)} of {len(outcomes)} completed")


def shell(description: str, command: str) -> object:
    return tool_use("Bash", {"command": command, "description": description, "run_in_background": True})


if __name__ == "__main__":
    with offline(
        [
            [
                shell("Linter", "sleep 0.4; echo clean"),
                shell("Tests", "sleep 0.8; echo 'test_login: AssertionError'; exit 1"),
                shell("Benchmark", "sleep 3; echo 41 ms"),
            ],
            "All three are running.",
        ],
        on_exhausted="Noted.",
    ):
        anyio.run(main)
