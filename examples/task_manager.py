"""Track tasks yourself: a `TaskManager` that is given the messages, and the typed inputs of the task tools."""

import anyio
from offline import offline

from claude_agent_py import (
    AssistantMessage,
    Client,
    ClientOptions,
    ResultMessage,
    TaskInput,
    TaskManager,
    TaskOutputInput,
    ToolUseBlock,
)
from claude_agent_py.testing import Reply, tool_use

PROMPT = "Have auth reviewed, and start the server in the background."


async def main() -> None:
    async with Client(ClientOptions(allowed_tools=["Bash"])) as client:
        manager = TaskManager(client)  # its requests to the CLI go through the client
        async for message in client.query(PROMPT, until="idle"):
            manager.track(message)
            if isinstance(message, AssistantMessage):
                show(message)
            if isinstance(message, ResultMessage):
                await stop_server(manager)

        for task in manager:
            outcome = await manager.wait(task.id, timeout=60)
            print(f"{task.description}: {outcome.status}")


def show(message: AssistantMessage) -> None:
    for block in message.content:
        if isinstance(block, ToolUseBlock) and isinstance(task := block.typed_input(), TaskInput):
            print(f"the model starts {task.subagent_type}: {task.description}")


async def stop_server(manager: TaskManager) -> None:
    for task in manager.running:
        if task.description == "Start the server":
            asked = TaskOutputInput(task_id=task.id, block=False)
            found = await manager.output(asked.task_id, block=asked.block, timeout=asked.timeout / 1000)
            print(f"output of the server: {found.retrieval_status}")
            await manager.stop(task.id)


if __name__ == "__main__":
    review = {"description": "Review auth", "prompt": "Review auth", "subagent_type": "general-purpose"}
    server = {"description": "Start the server", "command": "sleep 60", "run_in_background": True}
    with offline(
        [Reply([tool_use("Agent", review), tool_use("Bash", server)]), "Both are under way."],
        agents={"Review auth": "auth is sound"},
        on_exhausted="Noted.",
    ):
        anyio.run(main)
