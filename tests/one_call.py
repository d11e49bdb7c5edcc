"""One call of a tool, without a session and in one."""

from collections.abc import Callable
from typing import Any

from asking_cli import asking
from mcp_client import ServerClient

from claude_agent_py import ToolServer
from claude_agent_py.tools import ToolChain


async def outcome_of(
    function: Callable[..., object], arguments: dict[str, Any] | None = None, *, timeout: float | None = None
) -> Any:
    """Return what the model is told about a call, and the value or error."""
    chain = ToolChain([function], timeout=timeout)
    [result] = (await chain.execute([{"name": chain.tools[0].name, "input": arguments or {}}])).raw
    return result.told


async def result_of(function: Callable[..., object]) -> dict[str, Any]:
    """Return the result of a call as the CLI gets it."""
    server = ToolServer("tools", [function])
    async with asking(mcp_servers={"tools": server}) as cli:
        return await ServerClient(cli, "tools").call(server.tools[0].name)
