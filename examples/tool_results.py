"""Return data, pictures, files and long texts from tools.

Runs offline, and prints the tool results that the scripted model received.
"""

import struct
import zlib
from dataclasses import dataclass
from typing import Any

import anyio

from claude_agent_py import Tool, ToolResult, run, tool
from claude_agent_py.formatting import File, Image, ResourceLink
from claude_agent_py.testing import Reply, ScriptedModel, tool_use
from claude_agent_py.tools import mcp_tool_name


@dataclass
class Reading:
    sensor: str
    celsius: float


def png(width: int, height: int) -> bytes:
    """Return a red picture."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\x00" + b"\xff\x00\x00" * width for _ in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


@tool(read_only=True)
def readings() -> list[Reading]:
    """Read all sensors."""
    return [Reading("hall", 19.5), Reading("cellar", 12.0)]


@tool(read_only=True)
def report() -> ToolResult:
    """Draw the readings, with notes and their source."""
    return ToolResult(
        text=Reading("hall", 19.5),
        media=[
            Image(png(8, 8)),
            File("All sensors work.", "notes.txt"),
            ResourceLink("https://example.com", "station"),
        ],
    )


@tool(read_only=True, max_result_chars=300, overflow="file")
def log() -> str:
    """Return the whole log."""
    return "".join(f"{hour:02}:00 all is well\n" for hour in range(24)) * 100


TOOLS: list[Tool[..., Any]] = [readings, report, log]
SCRIPT = [
    Reply([tool_use(mcp_tool_name("tools", item.name), id=f"toolu_{item.name}") for item in TOOLS]),
    Reply("The hall is at 19.5 degrees, the cellar at 12."),
]


async def main() -> None:
    async with ScriptedModel(SCRIPT) as model:
        result = await run("How warm is it?", model.options(custom_tools=TOOLS))
        for call in result.tool_calls:
            print(f"{call.tool_name}:")
            for block in call.blocks:
                print(f"  {getattr(block, 'text', f'<{block.type}>')}")
        print(f"\n{result.text}")


if __name__ == "__main__":
    anyio.run(main)
