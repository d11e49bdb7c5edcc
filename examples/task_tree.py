"""Nested subagents: print the tree of tasks, the usage of each, and their messages."""

import anyio
from offline import offline

from claude_agent_py import Client, ClientOptions
from claude_agent_py.testing import text, tool_use

PROMPT = "Have one agent plan the release. It shall have others check the changelog and the tests."


async def main() -> None:
    async with Client(ClientOptions(allowed_tools=["Bash"])) as client:
        await client.query(PROMPT, until="idle")
        await client.tasks.wait_all()  # until the usage is counted

        tree = client.tasks.tree()
        print(tree)
        print(f"in all: {len(tree)} tasks, {tree.usage.tool_uses} tool calls")

        plan = client.tasks.roots[0]
        for message in await plan.transcript():  # includes the subagents below it, in chronological order
            if message.text:
                speaker = client.tasks[message.agent_id].description if message.agent_id else "main"
                print(f"{speaker}: {message.text}")


def agent(description: str, prompt: str) -> object:
    return tool_use(
        "Agent",
        {
            "description": description,
            "prompt": prompt,
            "subagent_type": "general-purpose",
            "run_in_background": False,
        },
    )


if __name__ == "__main__":
    with offline(
        [agent("Plan", "Plan the release"), "The release can go out."],
        agents={
            "Plan the release": [
                [text("I have two things checked."), agent("Changelog", "Check the changelog")],
                agent("Tests", "Check the tests"),
                "Ready on Friday.",
            ],
            "Check the changelog": "The changelog is complete.",
            "Check the tests": [tool_use("Bash", {"command": "echo 12 passed"}), "All tests pass."],
        },
    ):
        anyio.run(main)
