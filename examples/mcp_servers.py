"""An in-process MCP server: a tool, a resource, and a tool that is added later.

Runs offline: a scripted model uses all three.
"""

import anyio

from claude_agent_py import Client, ToolServer
from claude_agent_py.testing import Reply, ScriptedModel, tool_use
from claude_agent_py.tools import Resource, mcp_tool_name

NOTES = ["buy milk"]


def add_note(text: str) -> str:
    """Save a note."""
    NOTES.append(text)
    return f"That makes {len(NOTES)} notes."


def count_notes() -> int:
    """Count the notes."""
    return len(NOTES)


SERVER = ToolServer(
    "notes",
    tools=[add_note],
    resources=[Resource("notes://all", lambda: "\n".join(NOTES), "all notes")],
    instructions="The user's notes.",
)

SCRIPT = [
    Reply(tool_use(mcp_tool_name("notes", "add_note"), {"text": "call Ada"})),
    Reply(tool_use("ReadMcpResourceTool", {"server": "notes", "uri": "notes://all"})),
    Reply("Noted."),
    Reply(tool_use(mcp_tool_name("notes", "count_notes"))),
    Reply("There are two."),
]


async def main() -> None:
    async with ScriptedModel(SCRIPT) as model, Client(model.options(mcp_servers=[SERVER])) as client:
        for server in await client.mcp.ready(timeout=10):
            print(f"{server.name}: {server.status}")
        await ask(client, "Note that I must call Ada, and read me all notes.")
        SERVER.add(count_notes)
        await ask(client, "How many are there?")


async def ask(client: Client, prompt: str) -> None:
    print(f"\n> {prompt}")
    result = await client.query(prompt)
    for call in result.tool_calls:
        print(f"{call.name} -> {call.text}")
    print(result.text)


if __name__ == "__main__":
    anyio.run(main)
