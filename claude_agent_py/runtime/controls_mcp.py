"""`client.mcp`: the MCP servers of a session, those that the CLI runs or reaches and those in this process.

Owns one method for each request, what the CLI is told of servers that are set while the session runs, and waiting until
servers are up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Literal

import anyio

from claude_agent_py import control  # its models load on first use, which keeps the import of the client quick
from claude_agent_py.errors import ControlRejectedError, MCPNotReadyError, OptionsError
from claude_agent_py.runtime.controls_base import Controls, given
from claude_agent_py.wire.base import JSONObject
from claude_agent_py.wire.mcp import MCPHTTPServer, MCPSSEServer, MCPStdioServer, mcp_server_from_wire

if TYPE_CHECKING:
    from claude_agent_py.protocol.ports import ControlPort
    from claude_agent_py.tools.host import MCPHost
    from claude_agent_py.wire.catalog import MCPServerStatus

FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 0.5
"""Between two looks at the servers, in seconds: the CLI does not tell when one is up."""

LISTED_WITHIN: Final = 5.0
"""How long a server of this process may be missing in the list, in seconds; then the CLI does not want it."""
MILLISECONDS: Final = 1000
CALL_TIMEOUT: Final = 120.0
"""How long a call may take in the CLI where nobody says, in seconds."""
REPLY_SLACK: Final = 5.0
"""How much longer than the call itself its reply is waited for, in seconds."""


class MCPControls(Controls):
    """The MCP servers of a running session. The methods raise what those of `Client` raise."""

    def __init__(self, port: ControlPort, host: MCPHost | None = None) -> None:
        super().__init__(port)
        self._mcp_host = host
        """What answers for the servers in this process; None where there can be none."""

    async def status(self) -> list[MCPServerStatus]:
        """Give every server: whether it is connected, why not, and its tools."""
        return (await self._ask(control.MCPStatusRequest, control.MCPStatusReply)).mcp_servers

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
                    pending += sorted(set(self._hosted) - {server.name for server in servers})
                if not pending:
                    return servers
                await anyio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
        raise MCPNotReadyError(pending, timeout or 0.0)

    async def reconnect(self, name: str, *, timeout: float | None = None) -> None:
        """Connect a server again; returns when it is connected.

        Args:
            name: Its name in the configuration.
            timeout: Seconds to wait; None means `Timeouts.control`. The CLI gives a server `MCP_TIMEOUT`, 30 s.

        Raises:
            ControlRejectedError: It cannot be connected, is switched off, is unknown, or runs in this process.
        """
        await self._tell(control.MCPReconnectRequest, timeout=timeout, server_name=name)

    async def toggle(self, name: str, enabled: bool, *, timeout: float | None = None) -> None:
        """Switch a server on or off; returns when a server that was switched on is connected, or has failed to.

        Args:
            name: Its name in the configuration.
            enabled: On or off.
            timeout: Seconds to wait; None means `Timeouts.control`.

        Raises:
            ControlRejectedError: There is no such server.
        """
        await self._tell(control.MCPToggleRequest, timeout=timeout, server_name=name, enabled=enabled)

    async def set_servers(
        self, servers: Mapping[str, Any], *, timeout: float | None = None
    ) -> control.MCPSetServersReply:
        """Replace the servers that an earlier call set, and all those in this process, by these.

        Servers of settings, plugins and the CLI's flags stay. External servers are connected when this returns;
        `errors` of the reply names those that could not be. Those in this process may still be `pending`.

        Args:
            servers: By name: `MCPStdioServer`, `MCPHTTPServer`, `MCPSSEServer`, a mapping as `.mcp.json` has it, or a
                server in this process. An unchanged server stays connected.
            timeout: Seconds to wait; None means `Timeouts.control`.

        Raises:
            OptionsError: A configuration is wrong; nothing was sent.
        """
        if not isinstance(servers, Mapping):
            raise OptionsError("give servers by name: {name: server}", option="mcp_servers")
        configs = {name: self._server_config(name, server) for name, server in servers.items()}
        fresh = self._not_hosted_yet(servers)
        replaced = {name: server for name, server in self._hosted.items() if name in fresh}
        old = {name: config for name, config in configs.items() if name not in fresh}
        # The CLI does not notice another server in this process under the same name, so it has to let go of it first.
        removed = (await self._send_servers(old, timeout)).removed if replaced else []
        try:
            self._host(fresh)  # before the request: the CLI greets them before it replies
            reply = await self._send_servers(configs, timeout)
        except (OptionsError, ControlRejectedError):
            self._drop(fresh)
            self._host(replaced)
            raise
        removed = [*removed, *reply.removed]
        self._drop(set(removed) - servers.keys())
        return reply.replace(removed=removed)

    async def _send_servers(
        self, configs: Mapping[str, JSONObject], timeout: float | None
    ) -> control.MCPSetServersReply:
        return await self._ask(
            control.MCPSetServersRequest, control.MCPSetServersReply, timeout=timeout, servers=dict(configs)
        )

    async def call(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        check_permissions: bool = False,
    ) -> control.MCPCallReply:
        """Call a tool of an external server without the model. Nothing of it goes into the conversation.

        Args:
            tool: The full name, `mcp__server__tool`; `mcp_tool_name` makes it.
            arguments: What the tool takes.
            timeout: Seconds that the call may take; None leaves it to the CLI, 120. The CLI takes 1 to 600.
            check_permissions: Ask the permission rules first, and `can_use_tool` where they say so; the answer is
                waited for without a limit. Else the tool is called whatever the rules say.

        Raises:
            ControlRejectedError: The tool failed (`error` is what it says), the server is not connected, or it runs
                in this process.
        """
        limit = CALL_TIMEOUT if timeout is None else timeout
        return await self._ask(
            control.MCPCallRequest,
            control.MCPCallReply,
            timeout=math.inf if check_permissions else limit + REPLY_SLACK,
            tool=tool,
            **given(
                arguments=None if arguments is None else dict(arguments),
                timeout_ms=None if timeout is None else round(timeout * MILLISECONDS),
                check_permissions=check_permissions,
            ),
        )

    async def read_resource(self, name: str, uri: str) -> control.MCPReadResourceReply:
        """Read a resource of an external server. The CLI gives those whose URI begins with `ui://`, and no others."""
        return await self._ask(control.MCPReadResourceRequest, control.MCPReadResourceReply, server_name=name, uri=uri)

    async def set_permission_mode(
        self,
        name: str,
        mode: Literal["default", "auto"] | None,
        *,
        ask_for_tools: Sequence[Mapping[str, Any]] | None = None,
    ) -> str | None:
        """Use a stricter permission mode for the tools of one server; None takes that back.

        Args:
            name: Its name in the configuration.
            mode: What applies to the server where the session's own mode would allow more.
            ask_for_tools: As the CLI takes it.

        Returns:
            A warning, for example that no such server is known yet; else None.

        Raises:
            ControlRejectedError: The mode is another one.
        """
        payload = await self._tell(
            control.SetMCPPermissionModeOverrideRequest,
            server_name=name,
            mode=mode,
            **given(ask_for_tools=None if ask_for_tools is None else [dict(tool) for tool in ask_for_tools]),
        )
        warning = payload.get("warning")
        return warning if isinstance(warning, str) else None

    async def send_message(self, name: str, message: Mapping[str, Any]) -> None:
        """Send a JSON-RPC message to the CLI as a server in this process, such as a progress notification.

        An answer comes as a message to the server. The CLI ignores messages of servers that it does not know.
        """
        await self._tell(control.MCPMessageRequest, server_name=name, message=dict(message))

    # Servers in this process -------------------------------------------------------------------------------------

    def _server_config(self, name: str, server: Any) -> JSONObject:
        """Return what the CLI is told of a server."""
        from claude_agent_py.tools.host import is_hosted  # not needed before somebody sets servers
        from claude_agent_py.tools.server import ToolServer  # not needed before somebody sets servers

        if is_hosted(server) and self._mcp_host is not None:
            return {"type": "sdk", "name": name, **(server.config() if isinstance(server, ToolServer) else {})}
        if isinstance(server, Mapping):
            server = mcp_server_from_wire(server, name=name)
        if isinstance(server, MCPStdioServer):
            return {"args": [], **server.to_wire()}  # without `args` the CLI cannot start it
        if isinstance(server, MCPHTTPServer | MCPSSEServer):
            return server.to_wire()
        raise OptionsError(f"server {name!r}: {type(server).__name__} is no MCP server", option="mcp_servers")

    @property
    def _hosted(self) -> Mapping[str, Any]:
        return {} if self._mcp_host is None else self._mcp_host.servers

    def _not_hosted_yet(self, servers: Mapping[str, Any]) -> dict[str, Any]:
        """Return the servers in this process that are new; one that stays keeps its conversation with the CLI."""
        from claude_agent_py.tools.host import is_hosted

        hosted = self._hosted
        return {name: s for name, s in servers.items() if is_hosted(s) and hosted.get(name) is not s}

    def _host(self, servers: Mapping[str, Any]) -> None:
        if self._mcp_host is not None:
            for name, server in servers.items():
                self._mcp_host.add(name, server)

    def _drop(self, names: Iterable[str]) -> None:
        if self._mcp_host is not None:
            for name in names:
                self._mcp_host.remove(name)
