"""`client.mcp`: the MCP servers of a session, those that the CLI connects to and those in this process."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from time import monotonic
from typing import Final, Literal

import anyio

from claude_agent_py import control  # loads its models on first use, to keep the import of the client fast
from claude_agent_py._base.errors import ControlRejectedError, MCPNotReadyError, OptionsError
from claude_agent_py._base.streams import pauses
from claude_agent_py._connection import answering
from claude_agent_py._connection.connection import CurrentConnection
from claude_agent_py._connection.controls.base import Controls, omit_unset
from claude_agent_py.options.readers import check_server_names
from claude_agent_py.tasks.task import check_timeout
from claude_agent_py.tools.host import MCPHost
from claude_agent_py.wire.base import JSONObject
from claude_agent_py.wire.messages.catalog import MCPServerStatus
from claude_agent_py.wire.settings.mcp_servers import MCPHTTPServer, MCPSSEServer, MCPStdioServer, mcp_server_from_wire

FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 0.5
"""Seconds between polls of the servers: the CLI does not announce that one is connected."""

LISTED_WITHIN: Final = 5.0
"""After how many seconds a server of this process that is not listed counts as refused by the CLI."""
MILLISECONDS: Final = 1000
CALL_TIMEOUT: Final = 120.0
"""The CLI's default time limit of a tool call, in seconds."""
REPLY_SLACK: Final = 5.0
"""How many seconds longer than the call its reply may take."""


def _rfc3339(time: datetime | str | None) -> str | None:
    if not isinstance(time, datetime):
        return time
    if time.tzinfo is None:
        raise OptionsError("needs a time zone: datetime.now(UTC) + ...", option="expires_at")
    return time.isoformat()


class MCPControls(Controls):
    """The MCP servers of a running session. The methods raise the same errors as `Client`."""

    def __init__(self, port: CurrentConnection) -> None:
        super().__init__(port)
        self._current = port

    @property
    def _host(self) -> MCPHost:
        """The host of the servers in this process."""
        return self._current.connection.handlers.mcp

    async def status(self) -> list[MCPServerStatus]:
        """Return the status of every server: whether it is connected, its error, and its tools."""
        return (await self._ask(control.MCPStatusRequest, control.MCPStatusReply)).mcp_servers

    async def ready(self, timeout: float | None = None) -> list[MCPServerStatus]:
        """Wait until no server is connecting, and return them all.

        A server that failed, is disabled or needs a login does not count as connecting: check `status` and `error`.
        Without this call, the first turn waits for connecting servers, up to 30 s, and then lacks the tools of those
        that have not connected (measured with CLI 2.1.332).

        Args:
            timeout: Seconds; None waits as long as the CLI tries to connect (`MCP_TIMEOUT`, 30 s for each server).

        Raises:
            MCPNotReadyError: Some servers, listed in `servers`, are still connecting. The CLI keeps trying.
            OptionsError: The timeout is invalid.
        """
        check_timeout(timeout)
        pending: list[str] = []
        listed_by = monotonic() + LISTED_WITHIN
        with anyio.move_on_after(timeout):
            for pause in pauses(FIRST_PAUSE, LONGEST_PAUSE):
                servers = await self.status()
                pending = [server.name for server in servers if server.status == "pending"]
                if monotonic() < listed_by:  # the CLI lists servers in this process with a delay
                    pending += sorted(set(self._host.servers) - {server.name for server in servers})
                if not pending:
                    return servers
                await anyio.sleep(pause)
        raise MCPNotReadyError(pending, timeout or 0.0)

    async def reconnect(self, name: str, *, timeout: float | None = None) -> None:
        """Reconnect a server and wait until it is connected.

        Args:
            name: Its name in the configuration.
            timeout: Seconds to wait; None means `Timeouts.control`. The CLI gives a server `MCP_TIMEOUT`, 30 s.

        Raises:
            ControlRejectedError: The server does not connect, is disabled, is unknown, or runs in this process.
        """
        await self._tell(control.MCPReconnectRequest, timeout=timeout, server_name=name)

    async def toggle(self, name: str, enabled: bool, *, timeout: float | None = None) -> None:
        """Enable or disable a server. Waits until an enabled server is connected or has failed to connect.

        Args:
            name: Its name in the configuration.
            enabled: Whether to enable it.
            timeout: Seconds to wait; None means `Timeouts.control`.

        Raises:
            ControlRejectedError: The server is unknown.
        """
        await self._tell(control.MCPToggleRequest, timeout=timeout, server_name=name, enabled=enabled)

    async def set_servers(
        self, servers: Mapping[str, object], *, timeout: float | None = None
    ) -> control.MCPSetServersReply:
        """Replace the servers of earlier calls, and all servers in this process, with these.

        Servers of settings, plugins and CLI flags are kept. External servers are connected when this returns, except
        those in `errors` of the reply. Servers in this process may still be `pending`.

        Args:
            servers: By name: `MCPStdioServer`, `MCPHTTPServer`, `MCPSSEServer`, a mapping as in `.mcp.json`, or a
                server in this process. An unchanged server stays connected.
            timeout: Seconds to wait; None means `Timeouts.control`.

        Raises:
            OptionsError: A configuration is invalid; nothing was sent.
        """
        if not isinstance(servers, Mapping):
            raise OptionsError("pass servers by name: {name: server}", option="mcp_servers")
        options = self._current.connection.session.options
        given, hosted = options.mcp_servers, options.hosted_mcp_servers
        kept = [name for name in given if name not in hosted] if isinstance(given, Mapping) else []
        try:
            check_server_names(dict.fromkeys([*kept, *servers]))
        except ValueError as error:
            raise OptionsError(str(error), option="mcp_servers") from None
        configs = {name: self._server_config(name, server) for name, server in servers.items()}
        fresh = self._not_hosted_yet(servers)
        replaced = {name: server for name, server in self._host.servers.items() if name in fresh}
        old = {name: config for name, config in configs.items() if name not in fresh}
        # The CLI does not notice a new server in this process under an old name, so remove the old one first.
        removed = (await self._send_servers(old, timeout)).removed if replaced else []
        try:
            self._host_all(fresh)  # before the request: the CLI initializes them before it replies
            reply = await self._send_servers(configs, timeout)
        except (OptionsError, ControlRejectedError):
            self._drop(fresh)
            self._host_all(replaced)
            raise
        removed = [*removed, *reply.removed]
        self._drop(set(removed) - servers.keys())
        return reply.replace(removed=removed)

    async def _send_servers(
        self, configs: Mapping[str, JSONObject], timeout: float | None
    ) -> control.MCPSetServersReply:
        return await self._ask(
            control.MCPSetServersRequest, control.MCPSetServersReply, timeout=timeout, servers=configs
        )

    async def call(
        self,
        tool: str,
        arguments: Mapping[str, object] | None = None,
        *,
        timeout: float | None = None,
        check_permissions: bool = False,
        result_not_for_model: bool = False,
        soft_error_result: bool = False,
        expires_at: datetime | str | None = None,
        input_files: Sequence[Mapping[str, object]] = (),
        output_files: Sequence[Mapping[str, object]] = (),
    ) -> control.MCPCallReply:
        """Call a tool of an external server without the model. The call does not become part of the conversation.

        Args:
            tool: The full name, `mcp__server__tool`; `mcp_tool_name` makes it.
            arguments: The arguments of the tool.
            timeout: Seconds that the call may take, 1 to 600; None means the CLI's default, 120.
            check_permissions: Check the permission rules first, and call `can_use_tool` if they ask, without a time
                limit. Otherwise the tool is called regardless of the rules.
            result_not_for_model: Return the server's own content blocks, without what the CLI does for a model, such as
                cutting long results.
            soft_error_result: Return the tool's own error as a reply whose `is_error` is set, instead of raising. CLIs
                without the capability `mcp_call_soft_error_result_v1` (2.1.332 has it) ignore this.
            expires_at: Do not call the tool after this time, with a time zone; text is sent unchanged (RFC 3339).
                Required with `output_files`.
            input_files: For cloud sessions: files to fetch for the call, as `{"name": ..., "lane_path": ...}`. The
                argument `"{{in:name}}"` becomes the path.
            output_files: For cloud sessions: files to keep after the call, as `{"name": ..., "lane_path": ...,
                "if_match": ...}`. The argument `"{{out:name}}"` becomes the path. See `staging` of the reply.

        Raises:
            OptionsError: An argument is invalid, for example `expires_at` has no time zone.
            ControlRejectedError: The tool failed (`error` is its message), or the server is not connected or runs in
                this process.
        """
        check_timeout(timeout)
        if timeout == math.inf:
            raise OptionsError("must be finite", option="timeout")
        limit = CALL_TIMEOUT if timeout is None else timeout
        return await self._ask(
            control.MCPCallRequest,
            control.MCPCallReply,
            timeout=math.inf if check_permissions else limit + REPLY_SLACK,
            tool=tool,
            **omit_unset(
                arguments=arguments,
                timeout_ms=None if timeout is None else round(timeout * MILLISECONDS),
                check_permissions=check_permissions,
                result_not_for_model=result_not_for_model,
                soft_error_result=soft_error_result or None,
                expires_at=_rfc3339(expires_at),
                input_files=input_files or None,
                output_files=output_files or None,
            ),
        )

    # Signing in --------------------------------------------------------------------------------------------------

    async def authenticate(
        self,
        name: str,
        *,
        redirect_uri: str | None = None,
        redirect_uri_only: bool = False,
        timeout: float | None = None,
    ) -> control.MCPAuthenticateReply:
        """Begin the OAuth sign-in to an external server, and return the URL that the user has to open.

        With `callback_expected`, the browser is redirected to a port of the CLI's machine (`callback_port`), which
        completes the sign-in and connects the server. If the browser cannot reach that port, call
        `submit_oauth_callback` with the URL that it was redirected to.

        Args:
            name: Its name in the configuration.
            redirect_uri: Where the provider should redirect to, instead of a port of the CLI's machine. If it is
                refused, the CLI uses the port (`redirect_scheme` is `localhost`).
            redirect_uri_only: Fail if `redirect_uri` is refused.
            timeout: Seconds to wait for the URL; None means `Timeouts.control`.

        Raises:
            ControlRejectedError: The server is unknown, or has no OAuth.
        """
        return await self._ask(
            control.MCPAuthenticateRequest,
            control.MCPAuthenticateReply,
            timeout=timeout,
            server_name=name,
            **omit_unset(redirect_uri=redirect_uri, redirect_uri_only=redirect_uri_only),
        )

    async def submit_oauth_callback(self, name: str, callback_url: str, *, timeout: float | None = None) -> None:
        """Complete a sign-in with the URL that the browser was redirected to. Returns once the tokens are there.

        The CLI (2.1.328) does not then connect the server on its own: call `reconnect`.

        Args:
            name: The server that `authenticate` was called for.
            callback_url: The whole URL, with `code` and `state`.
            timeout: Seconds to wait; None means `Timeouts.control`.

        Raises:
            ControlRejectedError: No sign-in to this server is in progress, or the URL does not belong to it.
        """
        await self._tell(
            control.MCPOAuthCallbackURLRequest, timeout=timeout, server_name=name, callback_url=callback_url
        )

    async def clear_auth(self, name: str, *, timeout: float | None = None) -> None:
        """Sign out of an external server: revoke and delete its tokens.

        Raises:
            ControlRejectedError: The server is unknown, or connects without HTTP.
        """
        await self._tell(control.MCPClearAuthRequest, timeout=timeout, server_name=name)

    async def read_resource(self, name: str, uri: str) -> control.MCPReadResourceReply:
        """Read a resource of an external server. The CLI only serves URIs that begin with `ui://`."""
        return await self._ask(control.MCPReadResourceRequest, control.MCPReadResourceReply, server_name=name, uri=uri)

    async def set_permission_mode(
        self,
        name: str,
        mode: Literal["default", "auto"] | None,
        *,
        ask_for_tools: Sequence[Mapping[str, object]] | None = None,
    ) -> str | None:
        """Set a stricter permission mode for the tools of one server; None removes it.

        Args:
            name: Its name in the configuration.
            mode: Applies to the server when the session's own mode would allow more.
            ask_for_tools: Passed to the CLI unchanged.

        Returns:
            A warning, for example that the server is not known yet, or None.

        Raises:
            ControlRejectedError: The mode is not supported.
        """
        payload = await self._tell(
            control.SetMCPPermissionModeOverrideRequest,
            server_name=name,
            mode=mode,
            **omit_unset(ask_for_tools=ask_for_tools),
        )
        warning = payload.get("warning")
        return warning if isinstance(warning, str) else None

    # Servers in this process -------------------------------------------------------------------------------------

    def _server_config(self, name: str, server: object) -> JSONObject:
        """Return the configuration of a server for the CLI."""
        if answering.is_hosted(server):
            config = server.config() if isinstance(server, answering.ToolServer) else {}
            return {"type": "sdk", "name": name, **config}
        if isinstance(server, Mapping):
            server = mcp_server_from_wire(server, name=name)
        if isinstance(server, MCPStdioServer):
            return {"args": [], **server.to_wire()}  # without `args` the CLI cannot start it
        if isinstance(server, MCPHTTPServer | MCPSSEServer):
            return server.to_wire()
        raise OptionsError(f"server {name!r} must be an MCP server, not {type(server).__name__}", option="mcp_servers")

    def _not_hosted_yet(self, servers: Mapping[str, object]) -> JSONObject:
        """Return the new servers in this process; unchanged ones keep their connection to the CLI."""
        hosted = self._host.servers
        return {name: s for name, s in servers.items() if answering.is_hosted(s) and hosted.get(name) is not s}

    def _host_all(self, servers: Mapping[str, object]) -> None:
        for name, server in servers.items():
            self._host.add(name, server)

    def _drop(self, names: Iterable[str]) -> None:
        for name in names:
            self._host.remove(name)
