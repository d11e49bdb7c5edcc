"""A small terminal interface: print one stream of events, and answer permission requests."""

import anyio
from offline import offline

from claude_agent_py import AgentDefinition, Allow, AssistantMessage, Client, ClientOptions
from claude_agent_py.permissions import InteractionOpened, InteractionSettled
from claude_agent_py.tasks import TaskFinished, TaskStarted
from claude_agent_py.testing import Reply, text, tool_use


async def show(client: Client) -> None:
    """Print the events in order until the session ends."""
    async for event in client.events():
        match event:
            case AssistantMessage(is_subagent=False) if event.text:
                print(f"claude: {event.text}")
            case TaskStarted():
                print(f"[{event.description}] started")
            case TaskFinished():
                print(f"[{client.tasks[event.task_id].description}] {event.outcome.status}: {event.outcome.summary}")
            case InteractionOpened(interaction):
                print(f"? {interaction.summary}")
                interaction.resolve(Allow())  # a real interface would ask the user and answer later, from any task
            case InteractionSettled():
                print("  allowed" if event.was_answered else "  too late")
            case _:
                pass  # other events: tool calls, hooks, retries, ...


async def main() -> None:
    writer = AgentDefinition(description="Writes", prompt="You write.")
    options = ClientOptions(agents={"writer": writer}, interactions=True, permission_mode="default")
    async with anyio.create_task_group() as workers, Client(options) as client:
        workers.start_soon(show, client)
        await client.query("Have the report written", until="idle")


SCRIPT = [
    Reply(tool_use("Agent", {"description": "Write the report", "prompt": "Write it", "subagent_type": "writer"})),
    text("It is being written."),
    text("The report is there."),
]
WRITER = [Reply(tool_use("Bash", {"command": "touch report.txt"})), text("The report is written.")]

if __name__ == "__main__":
    with offline(SCRIPT, agents={"Write it": WRITER}):
        anyio.run(main)
