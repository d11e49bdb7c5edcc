"""Bringing MCP servers of this process to the CLI: one `mcp_message` after the other.

Owns which server a message is for, the form of the reply, and what `initialize` says about the servers. A server is a
`ToolServer`, or an object of the `mcp` package, which `mcp_package` serves.

The CLI sends every message, notifications included, as a control request that must be answered, and it shakes hands
with servers **before** it answers `initialize`: whoever waits for that answer must have messages answered meanwhile.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias

from anyio.abc import TaskGroup

from claude_agent_py.callbacks import Report
from claude_agent_py.errors import OptionsError
from claude_agent_py.handler_context import HandlerContext
from claude_agent_py.tools import jsonrpc
from claude_agent_py.tools.failures import failure_text
from claude_agent_py.tools.mcp_package import PackageSession, check_server, low_level
from claude_agent_py.tools.server import ToolServer
from claude_agent_py.tools.session import TOOL_USE_ID
from claude_agent_py.wire.base import JSONObject

logger: logging.Logger = logging.getLogger("claude_agent_py.tools")

ACK: JSONObject = {"jsonrpc": "2.0", "result": {}}
"""What a message that wants no answer is acknowledged with."""

SendToCLI: TypeAlias = Callable[[str, JSONObject], None]
"""Sends a message of a server (its name, the message) as a control request `mcp_message`. Called in the event loop's
thread; must not block, and need not wait for the reply."""


@dataclass(frozen=True, kw_only=True)
class Caller:
    """Who called a tool."""

    agent_id: str | None = None
    """The subagent; None for the main agent."""
    task: Any = None


FindCaller: TypeAlias = Callable[[str], Caller | None]
"""Finds out, by its tool use id, who made a call: the CLI does not say it along with the call."""


class Session(Protocol):
    """A conversation with one server."""

    async def handle(self, message: JSONObject, context: HandlerContext | None = None) -> JSONObject | None:
        """Take a message and give the answer to it; None where it wants none."""
        ...

    def close(self) -> None:
        """Cancel everything that is under way."""
        ...


def is_hosted(server: object) -> bool:
    """Tell whether an object is a server that runs in this process. Imports nothing."""
    return isinstance(server, ToolServer) or low_level(server) is not None


class MCPHost:
    """Answers the CLI for the servers of one client.

    Args:
        servers: The servers by the names that the CLI calls them by; or `ToolServer`s, which have names.
        manifests: Tell the CLI along with `initialize` what the handshakes would, which saves them.
        report: Is told of every tool that fails and did not mean to. Must not raise. Without it they are logged.
        cwd: The directory that the session is started in, for the tools' `ToolContext`.
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
        """Say how servers reach the CLI. To be called before the first message.

        `workers` is where servers of the `mcp` package run; without it, they answer with an error.
        """
        self._send = send
        self._workers = workers
        self._find_caller = find_caller or self._find_caller
        for name in self._servers:
            self._listen(name)

    async def answer(self, server_name: str, message: JSONObject, context: HandlerContext) -> JSONObject:
        """Take a message for a server and give the payload of the reply. Never raises; always gives one.

        Messages may be answered at once by any number of workers. Cancelling a worker cancels the tool that it runs.
        """
        request_id = jsonrpc.request_id_of(message)
        reply: JSONObject | None
        if server_name not in self._servers:
            told = f"there is no server {server_name!r} in this process"
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
            return server.session(send, self._report, cwd=self._cwd)
        if self._workers is None:
            raise OptionsError("it needs a running session", option=f"server {name!r}")
        return PackageSession(server, send, self._workers)

    def _with_caller(self, message: JSONObject, context: HandlerContext) -> HandlerContext:
        params = message.get("params")
        meta = params.get("_meta") if isinstance(params, dict) else None
        tool_use_id = meta.get(TOOL_USE_ID) if isinstance(meta, dict) else None
        caller = self._find_caller(tool_use_id) if isinstance(tool_use_id, str) else None
        return replace(context, agent_id=caller.agent_id, task=caller.task) if caller else context

    def close(self) -> None:
        """Cancel what is under way for all servers. Call it in the event loop; `attach` makes the host usable again."""
        sessions, self._sessions = self._sessions, {}
        for session in sessions.values():
            session.close()
        self._workers = None
        self._send = lambda name, message: None

    # The servers

    def add(self, name: str, server: Any) -> None:
        """Host one more server. The CLI hears of it only by `initialize` or `mcp_set_servers`.

        Raises:
            OptionsError: It is no server that can run in this process.
        """
        if not isinstance(server, ToolServer):
            check_server(name, server)
        self.remove(name)
        self._servers[name] = server
        self._listen(name)

    def _listen(self, name: str) -> None:
        """Open the session of a `ToolServer`, so that it can announce changes: with a manifest no message opens it."""
        if isinstance(self._servers[name], ToolServer):
            self._session(name)

    def remove(self, name: str) -> None:
        """Host a server no more, and cancel what is under way for it."""
        self._servers.pop(name, None)
        session = self._sessions.pop(name, None)
        if session is not None:
            session.close()

    def initialize_fields(self) -> JSONObject:
        """Give the fields of `initialize` about the servers, by their names on the wire; `{}` where there are none."""
        if not self._servers:
            return {}
        own = {name: server for name, server in self._servers.items() if isinstance(server, ToolServer)}
        fields: JSONObject = {"sdkMcpServers": list(self._servers)}
        if configs := {name: config for name, server in own.items() if (config := server.config())}:
            fields["sdkMcpServerConfigs"] = configs
        if self._manifests and own:
            fields["sdkMcpServerManifests"] = {name: server.manifest() for name, server in own.items()}
        return fields


def as_mapping(servers: Mapping[str, Any] | Iterable[ToolServer]) -> dict[str, Any]:
    """Give servers by name.

    Raises:
        OptionsError: Two have the same name.
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
