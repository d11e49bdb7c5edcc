"""Match messages and content blocks by type."""

import anyio
from offline import offline

from claude_agent_py import (
    AssistantMessage,
    Client,
    ClientOptions,
    InitMessage,
    MalformedFrame,
    Message,
    ResultMessage,
    TextBlock,
    ToolUseBlock,
    UnknownMessage,
    UserMessage,
)
from claude_agent_py.testing import Reply, text, tool_use
from claude_agent_py.tools import BashInput


def show(message: Message | MalformedFrame) -> None:
    match message:
        case InitMessage():
            print(f"turn begins, {len(message.tools)} tools, CLI {message.claude_code_version}")
        case AssistantMessage():
            for block in message.content:
                show_block(block)
        case UserMessage(tool_results=[result, *_]):
            print(f"  result of {result.tool_use_id}: {result.text.strip()}")
        case ResultMessage():
            print(f"turn ends: {message.subtype}, {message.num_turns} steps, {message.total_cost_usd:.4f} USD")
        case UnknownMessage() | MalformedFrame():  # sent by a newer CLI, or malformed: the frame is kept
            print("not understood:", message.raw)


def show_block(block: object) -> None:
    match block:
        case TextBlock():
            print("text:", block.text)
        case ToolUseBlock():
            arguments = block.typed_input()  # a model for a built-in tool, otherwise a dict
            shown = arguments.command if isinstance(arguments, BashInput) else arguments
            print(f"call {block.id}: {block.name}: {shown}")


async def main() -> None:
    async with Client(ClientOptions(allowed_tools=["Bash(echo *)"])) as client:
        async for message in client.query("Say hello with `echo`."):
            show(message)


if __name__ == "__main__":
    call = tool_use("Bash", {"command": "echo hello", "description": "Say hello"}, id="toolu_1")
    with offline([Reply([text("I'll say it."), call]), "Said."]):
        anyio.run(main)
