"""Serve an editor over the Agent Client Protocol, with a tool of your own. The editor here is a few lines of Python.

An editor starts `claude-agent-py acp in_an_editor:options` instead.
"""

import asyncio
import socket
from typing import Any, cast

import acp
import anyio
from acp import schema
from offline import offline

from claude_agent_py import ClientOptions, tool
from claude_agent_py.acp import EditorAgent
from claude_agent_py.testing import Reply, tool_use


@tool
def deploy(version: str) -> str:
    """Deploy a version.

    Args:
        version: Its number.
    """
    return f"{version} is live"


options = ClientOptions(custom_tools=[deploy])


class Editor:
    """Prints what the agent shows, and allows what it asks."""

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        match update:
            case schema.AgentMessageChunk(content=schema.TextContentBlock(text=text)):
                print("agent:", text)
            case schema.ToolCallStart(title=title):
                print("calls:", title)

    async def request_permission(self, session_id: str, tool_call: Any, options: Any, **_: Any) -> Any:
        print("asks: ", [option.name for option in options[:2]])
        outcome = schema.AllowedOutcome(outcome="selected", option_id=options[0].option_id)
        return schema.RequestPermissionResponse(outcome=outcome)

    def on_connect(self, conn: Any) -> None:
        """The connection is kept by `main`."""


async def main() -> None:
    here, there = socket.socketpair()
    agent, editor = EditorAgent(options), Editor()
    from_editor, to_editor = await asyncio.open_connection(sock=there)
    from_agent, to_agent = await asyncio.open_connection(sock=here)
    serving = asyncio.create_task(acp.run_agent(agent, to_editor, from_editor, use_unstable_protocol=True))

    async with acp.connect_to_agent(
        cast("acp.Client", editor), to_agent, from_agent, use_unstable_protocol=True
    ) as connection:
        await connection.initialize(protocol_version=acp.PROTOCOL_VERSION)
        session = await connection.new_session(cwd=".")
        reply = await connection.prompt(session_id=session.session_id, prompt=[acp.text_block("Deploy 1.2")])
        print("ended:", reply.stop_reason)
    to_agent.close()  # the editor disconnects
    await serving
    await agent.close()
    to_editor.close()


if __name__ == "__main__":
    with offline([Reply([tool_use("mcp__tools__deploy", {"version": "1.2"})]), Reply("Version 1.2 is live.")]):
        anyio.run(main)
