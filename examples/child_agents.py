"""Child agents: subtasks in their own processes. One writes to its own directory and asks a person first.

The history records every step, so that you can print the whole story afterwards.
"""

import anyio
from offline import offline

from claude_agent_py import AgentDefinition, Allow, Client, ClientOptions
from claude_agent_py.children import ChildAgent, child_tool
from claude_agent_py.permissions import PendingInteractions
from claude_agent_py.tasks import TaskAnswered, TaskAsked, TaskHistory
from claude_agent_py.testing import Reply, ToolCall, text, tool_use

PORTER = AgentDefinition(description="Ports code to another language.", prompt="You port code.", max_turns=50)
AUDITOR = AgentDefinition(description="Audits code for leaks.", prompt="You audit code.", tools=["Read", "Grep"])


async def person(inbox: PendingInteractions) -> None:
    """Answer the pending interactions, in place of a person."""
    async for waiting in inbox.arrivals():
        if waiting.task is not None:  # None for the main agent
            print(f"{waiting.task.description} asks: {waiting.summary}; it is {waiting.task.status}")
        await waiting.answer(Allow(), by="Ann")


async def main() -> None:
    workshop = anyio.Path("workshop")
    await workshop.mkdir()
    porter = ChildAgent(PORTER, id="porter", options=ClientOptions(cwd="workshop", permission_mode="default"))
    auditor = ChildAgent(AUDITOR, id="auditor", timeout=300)

    inbox = PendingInteractions()
    options = ClientOptions(
        custom_tools=[child_tool(porter), child_tool(auditor)],
        allowed_tools=["mcp__tools__create_subtask_porter", "mcp__tools__create_subtask_auditor"],
        interactions=inbox,  # interactions of children arrive here, too
    )
    async with TaskHistory(":memory:") as history:
        async with Client(options) as client, anyio.create_task_group() as workers:
            workers.start_soon(person, inbox)
            history.attach(client.tasks, "session")

            result = await client.query("Have the parser ported and audited, both at once.", until="idle")
            print(result.text)

            audit = await client.spawn(  # launched by your code
                auditor, "Audit the tests as well.", title="Audit the tests", artifacts=["tests/"], priority="low"
            )
            print("spawned:", (await audit).summary)

            for agent in client.agents:
                print(f"{agent.description}: {agent.status}, {agent.usage.tool_uses if agent.usage else 0} tool calls")
            workers.cancel_scope.cancel()
        print(await history.rebuild("session"))
        for record in await history.records("session"):
            if isinstance(record, TaskAsked):
                print(record.author, "asked", record.asked.question)
            elif isinstance(record, TaskAnswered):
                print(record.author, "was answered by", record.answered.by)
        (brief,) = [task.brief for task in (await history.rebuild("session")).walk() if task.id == audit.id]
        print("asked for:", brief["title"], brief["artifacts"], brief["priority"])
    print("ported:", await workshop.joinpath("parser.rs").exists())


def subtask(agent: str, title: str) -> ToolCall:
    return tool_use(f"mcp__tools__create_subtask_{agent}", {"title": title, "intent": f"{title}."})


if __name__ == "__main__":
    with offline(
        [
            Reply([subtask("porter", "Port the parser"), subtask("auditor", "Audit the parser")]),
            "It is ported, and it leaks nothing.",
        ],
        sessions={
            "Port the parser": [
                [text("I write it."), tool_use("Bash", {"command": "touch parser.rs", "description": "Write it"})],
                "parser.rs does what parser.c did.",
            ],
            "Audit the parser": "It leaks nothing.",
            "Audit the tests": "They leak nothing either.",
        },
    ):
        anyio.run(main)
