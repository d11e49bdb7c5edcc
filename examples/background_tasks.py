"""Background tasks: run two subagents and a shell command, await each and read its output."""

import anyio
from offline import offline

from claude_agent_py import AgentDefinition, Client, ClientOptions, TaskNotificationMessage
from claude_agent_py.testing import tool_use

PROMPT = (
    "At once and in the background: have the agent `reviewer` review auth and billing, one each, and run "
    "`for i in 1 2 3; do echo test $i ok; sleep 0.2; done`. Then sum up."
)


def tell(notification: TaskNotificationMessage) -> None:
    print(f"  notified: {notification.status}: {notification.summary}")


async def main() -> None:
    options = ClientOptions(
        agents={"reviewer": AgentDefinition(description="Reviews code", prompt="You review code. Be brief.")},
        allowed_tools=["Bash"],  # tools run without asking
        on_task_notification=tell,
    )
    async with Client(options) as client:
        result = await client.query(PROMPT, until="idle")  # ends after the tasks and their follow-up turns
        print(f"{len(result.tasks)} tasks, {len(result.results)} turns, unfinished: {result.unfinished_tasks}")

        for task in client.tasks:
            outcome = await task.wait(timeout=60)
            print(f"{task.description}: {outcome.status}")
            print("  " + (await task.read_output()).strip().replace("\n", "\n  "))

        print(result.text)


def review(part: str) -> object:
    return tool_use("Agent", {"description": f"Review {part}", "prompt": f"Review {part}", "subagent_type": "reviewer"})


TESTS = {
    "command": "for i in 1 2 3; do echo test $i ok; sleep 0.2; done",
    "description": "Run the tests",
    "run_in_background": True,
}

if __name__ == "__main__":
    with offline(
        [[review("auth"), review("billing"), tool_use("Bash", TESTS)], "All three are under way."],
        agents={"auth": "auth is sound.", "billing": "billing should use decimals."},
        on_exhausted="auth is sound, billing should use decimals, the tests pass.",
    ):
        anyio.run(main)
