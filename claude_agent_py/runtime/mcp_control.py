"""`client.mcp`: the MCP servers of a running session under short names, and waiting until they are up.

Owns the waiting. The requests themselves, and their documentation, are in `controls_mcp`.
"""

from __future__ import annotations

from collections.abc import Mapping
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import anyio

from claude_agent_py.errors import MCPNotReadyError
from claude_agent_py.runtime.controls_mcp import MCPControls

if TYPE_CHECKING:
    from claude_agent_py.wire.catalog import MCPServerStatus
    from claude_agent_py.wire.replies import MCPCallReply, MCPReadResourceReply, MCPSetServersReply

FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 0.5
"""Between two looks at the servers, in seconds: the CLI does not tell when one is up."""

LISTED_WITHIN: Final = 5.0
"""How long a server of this process may be missing in the list, in seconds; then the CLI does not want it."""


class MCPControl:
    """The MCP servers of a session. The methods raise what those of `Client` raise, and may be called at once."""

    def __init__(self, controls: MCPControls) -> None:
        self._controls = controls

    async def status(self) -> list[MCPServerStatus]:
        """Give every server: whether it is connected, why not, and its tools."""
        return (await self._controls.mcp_status()).mcp_servers

    async def ready(self, timeout: float | None = None) -> list[MCPServerStatus]:
        """Wait until no server is being connected any more, and give them all.

        A server that failed, is switched off or wants a login counts as settled: look at `status` and `error`. Without
        this, a turn begins without the tools of servers that are not up yet.

        Args:
            timeout: Seconds; None waits as long as the CLI tries (`MCP_TIMEOUT`, 30 s for each server).

        Raises:
            MCPNotReadyError: Some are still being connected; `servers` names them. They go on.
        """
        pending: list[str] = []
        pause, listed_by = FIRST_PAUSE, monotonic() + LISTED_WITHIN
        with anyio.move_on_after(timeout):
            while True:
                servers = await self.status()
                pending = [server.name for server in servers if server.status == "pending"]
                if monotonic() < listed_by:  # at first the CLI does not list those in this process
                    pending += sorted(self._controls.hosted_names - {server.name for server in servers})
                if not pending:
                    return servers
                await anyio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
        raise MCPNotReadyError(pending, timeout or 0.0)

    async def reconnect(self, name: str, *, timeout: float | None = None) -> None:
        """Connect a server again. See `Client.reconnect_mcp_server`."""
        await self._controls.reconnect_mcp_server(name, timeout=timeout)

    async def toggle(self, name: str, enabled: bool, *, timeout: float | None = None) -> None:
        """Switch a server on or off. See `Client.toggle_mcp_server`."""
        await self._controls.toggle_mcp_server(name, enabled, timeout=timeout)

    async def set_servers(self, servers: Mapping[str, Any], *, timeout: float | None = None) -> MCPSetServersReply:
        """Replace the servers that were set before, and those in this process. See `Client.set_mcp_servers`."""
        return await self._controls.set_mcp_servers(servers, timeout=timeout)

    async def call(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        check_permissions: bool = False,
    ) -> MCPCallReply:
        """Call a tool, `mcp__server__tool`, without the model. See `Client.mcp_call`."""
        return await self._controls.mcp_call(tool, arguments, timeout=timeout, check_permissions=check_permissions)

    async def read_resource(self, name: str, uri: str) -> MCPReadResourceReply:
        """Read a `ui://` resource of a server. See `Client.read_mcp_resource`."""
        return await self._controls.read_mcp_resource(name, uri)
