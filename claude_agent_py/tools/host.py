"""Connect MCP servers in this process to the CLI, which wraps each of their messages in a control request.

The CLI sends every message, including notifications, as a control request that needs a reply. It performs the MCP
handshake **before** it answers `initialize`, so messages must be answered while `initialize` is pending.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias

from anyio.abc import TaskGroup

from claude_agent_py._callbacks import Report
from claude_agent_py._errors import OptionsError
from claude_agent_py._handler_context import HandlerContext
from claude_agent_py.tools import jsonrpc
from claude_agent_py.tools.failures import failure_text
from claude_agent_py.tools.mcp_package import PackageSession, check_server, low_level
from claude_agent_py.tools.server import ToolServer
from claude_agent_py.tools.session import TOOL_USE_ID, ServerSession
from claude_agent_py.wire.base import JSONObject

logger: logging.Logger = logging.getLogger("claude_agent_py.tools")

ACK: JSONObject = {"jsonrpc": "2.0", "result": {}}
"""The reply to a message that needs no answer, such as a notification."""

SendToCLI: TypeAlias = Callable[[str, JSONObject], None]
"""Sends a server's message (server name, message) as an `mcp_message` control request. Called in the event loop's
thread; must not block and need not wait for the reply."""


@dataclass(frozen=True, kw_only=True)
class Caller:
    """The agent that called a tool."""

    agent_id: str | None = None
    """The subagent; None for the main agent."""
    task: Any = None


FindCaller: TypeAlias = Callable[[str], Caller | None]
"""Returns the caller of a tool use id, which the CLI does not send with the call."""


class Session(Protocol):
    """A conversation with one server."""

    async def handle(self, message: JSONObject, context: HandlerContext | None = None) -> JSONObject | None:
        """Handle a message and return the answer, or None if it needs none."""
        ...

    def close(self) -> None:
        """Cancel all pending work."""
        ...


def is_hosted(server: object) -> bool:
    """Return whether an object is a server that can run in this process. Does not import `mcp`."""
    return isinstance(server, ToolServer) or low_level(server) is not None


class MCPHost:
    """Answers the CLI for the in-process servers of one client.

    Args:
        servers: Servers by name, or `ToolServer`s, which have names.
        manifests: Send the handshake data with `initialize`, so that the CLI skips the handshakes.
        report: Called with each unexpected tool failure; must not raise. None logs them.
        cwd: The session's directory, for `ToolContext.cwd`.
    """

    def __init__(
        self,
        servers: Mapping[str, Any] | Iterable[ToolServer] = (),
        *,
        manifests: bool = True,
        report: Report | None = None,
        cwd: str | None = None,
    ) -> None:
        self._report = report
        self._cwd = cwd
        self._servers: dict[str, Any] = {}
        self._sessions: dict[str, Session] = {}
        self._manifests = manifests
        self._send: SendToCLI = lambda name, message: None
        self._workers: TaskGroup | None = None
        self._find_caller: FindCaller = lambda tool_use_id: None
        for name, server in as_mapping(servers).items():
            self.add(name, server)

    def __bool__(self) -> bool:
        return bool(self._servers)

    @property
    def servers(self) -> Mapping[str, Any]:
        """The servers by name."""
        return dict(self._servers)

    # The session

    def attach(
        self, send: SendToCLI, workers: TaskGroup | None = None, *, find_caller: FindCaller | None = None
    ) -> None:
        """Set how servers reach the CLI. Call it before the first message.

        Servers of the `mcp` package run in `workers`; without it, they answer with an error.
        """
        self._send = send
        self._workers = workers
        self._find_caller = find_caller or self._find_caller
        for name in self._servers:
            self._listen(name)

    async def answer(self, server_name: str, message: JSONObject, context: HandlerContext) -> JSONObject:
        """Handle a message for a server and return the payload of the reply. Never raises.

        Concurrent calls are safe. Cancelling cancels the tool that runs.
        """
        request_id = jsonrpc.request_id_of(message)
        reply: JSONObject | None
        if server_name not in self._servers:
            told = f"unknown server {server_name!r}"
            reply = jsonrpc.error(request_id, jsonrpc.METHOD_NOT_FOUND, told)
        else:
            try:
                reply = await self._session(server_name).handle(message, self._with_caller(message, context))
            except Exception as error:
                logger.exception("the server %s failed", server_name)
                reply = jsonrpc.error(request_id, jsonrpc.INTERNAL_ERROR, failure_text(server_name, error))
        return {"mcp_response": ACK if reply is None else reply}

    def _session(self, name: str) -> Session:
        if name not in self._sessions:
            self._sessions[name] = self._opened(name, self._servers[name])
        return self._sessions[name]

    def _opened(self, name: str, server: Any) -> Session:
        def send(message: JSONObject) -> None:
            self._send(name, message)

        if isinstance(server, ToolServer):
            return ServerSession(server, send, self._report, cwd=self._cwd)
        if self._workers is None:
            raise OptionsError("requires a running session", option=f"server {name!r}")
        return PackageSession(server, send, self._workers)

    def _with_caller(self, message: JSONObject, context: HandlerContext) -> HandlerContext:
        params = message.get("params")
        meta = params.get("_meta") if isinstance(params, dict) else None
        tool_use_id = meta.get(TOOL_USE_ID) if isinstance(meta, dict) else None
        caller = self._find_caller(tool_use_id) if isinstance(tool_use_id, str) else None
        return replace(context, agent_id=caller.agent_id, task=caller.task) if caller else context

    def close(self) -> None:
        """Cancel the pending work of all servers. Call it in the event loop; `attach` makes the host usable again."""
        sessions, self._sessions = self._sessions, {}
        for session in sessions.values():
            session.close()
        self._workers = None
        self._send = lambda name, message: None

    # The servers

    def add(self, name: str, server: Any) -> None:
        """Add a server. The CLI only learns of it through `initialize` or `mcp_set_servers`.

        Raises:
            OptionsError: The server cannot run in this process.
        """
        if not isinstance(server, ToolServer):
            check_server(name, server)
        self.remove(name)
        self._servers[name] = server
        self._listen(name)

    def _listen(self, name: str) -> None:
        """Open the session of a `ToolServer` so that it can announce changes; with a manifest no message opens it."""
        if isinstance(self._servers[name], ToolServer):
            self._session(name)

    def remove(self, name: str) -> None:
        """Remove a server and cancel its pending work."""
        self._servers.pop(name, None)
        session = self._sessions.pop(name, None)
        if session is not None:
            session.close()

    def initialize_fields(self) -> JSONObject:
        """Return the `initialize` fields about the servers; empty without servers."""
        if not self._servers:
            return {}
        own = {name: server for name, server in self._servers.items() if isinstance(server, ToolServer)}
        fields: JSONObject = {"sdkMcpServers": list(self._servers)}
        if own:
            fields["sdkMcpServerConfigs"] = {name: server.config() for name, server in own.items()}
        if self._manifests and own:
            fields["sdkMcpServerManifests"] = {name: server.manifest() for name, server in own.items()}
        return fields


def as_mapping(servers: Mapping[str, Any] | Iterable[ToolServer]) -> dict[str, Any]:
    """Return servers by name.

    Raises:
        OptionsError: Two servers have the same name.
    """
    if isinstance(servers, Mapping):
        by_name: Any = servers
        return dict(by_name)
    named: dict[str, Any] = {}
    for server in servers:
        if server.name in named:
            raise OptionsError(f"two servers are named {server.name!r}", option="mcp_servers")
        named[server.name] = server
    return named
