"""`ClaudeSDKClient`: a session with the methods of the official SDK."""

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator
from contextlib import aclosing
from types import TracebackType
from typing import Self

from claude_agent_py.compat import types
from claude_agent_py.compat.errors import CLIConnectionError
from claude_agent_py.compat.messages import read_message
from claude_agent_py.compat.session import Session
from claude_agent_py.compat.transport import Transport
from claude_agent_py.wire import JSONObject


class ClaudeSDKClient:
    """A session that stays open for any number of prompts.

    All methods but `connect` and `disconnect` raise CLIConnectionError if the client is not connected.

    Args:
        options: The options; None means `ClaudeAgentOptions()`. They are read by `connect`.
        transport: A connection to a program elsewhere, to which options for the command line do not apply.
    """

    def __init__(self, options: types.ClaudeAgentOptions | None = None, transport: Transport | None = None) -> None:
        self.options: types.ClaudeAgentOptions = types.ClaudeAgentOptions() if options is None else options
        self._transport = transport
        self._session: Session | None = None

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        await self.disconnect()
        return False

    async def connect(self, prompt: str | AsyncIterable[JSONObject] | None = None) -> None:
        """Start the CLI, and send a prompt if there is one. An iterable is sent in the background.

        Raises:
            CLINotFoundError: The program was not found.
            CLIConnectionError: It did not start.
            ProcessError: It exited.
            ValueError: An option is invalid.
        """
        session = Session(self.options, self._transport)
        await session.connect()
        self._session = session
        if prompt is not None:
            session.send(prompt, "default")

    async def disconnect(self) -> None:
        """End the session and its process. Does nothing if there is none."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _connected(self) -> Session:
        if self._session is None:
            raise CLIConnectionError("Not connected. Call connect() first.")
        return self._session

    # Prompts and messages ---------------------------------------------------------------------------------------------

    async def query(self, prompt: str | AsyncIterable[JSONObject], session_id: str = "default") -> None:
        """Send a prompt, or each of an iterable. Does not wait for the answer."""
        session = self._connected()
        if isinstance(prompt, str):
            session.send(prompt, session_id)
            return
        async for message in prompt:
            session.send({"session_id": session_id, **message}, session_id)

    async def receive_messages(self) -> AsyncGenerator[types.Message, None]:
        """Iterate over the messages of the session since `connect`. Several iterators share them."""
        session = self._connected()
        while (frame := await session.next_frame()) is not None:
            message = read_message(frame)
            if message is not None:
                yield message

    async def receive_response(self) -> AsyncIterator[types.Message]:
        """Iterate over the messages up to the next `ResultMessage`, which is the last one."""
        async with aclosing(self.receive_messages()) as messages:
            async for message in messages:
                yield message
                if isinstance(message, types.ResultMessage):
                    return

    # Control ----------------------------------------------------------------------------------------------------------

    async def interrupt(self) -> None:
        """Interrupt the running turn."""
        await self._connected().control("interrupt")

    async def set_permission_mode(self, mode: types.PermissionMode) -> None:
        """Change the permission mode."""
        await self._connected().control("set_permission_mode", mode=mode)

    async def set_model(self, model: str | None = None) -> None:
        """Switch to another model; None means the default."""
        await self._connected().control("set_model", model=model)

    async def rewind_files(self, user_message_id: str) -> None:
        """Restore files to their state at a prompt. Needs `enable_file_checkpointing`."""
        await self._connected().control("rewind_files", user_message_id=user_message_id)

    async def reconnect_mcp_server(self, server_name: str) -> None:
        """Connect to an MCP server again."""
        await self._connected().control("mcp_reconnect", serverName=server_name)

    async def toggle_mcp_server(self, server_name: str, enabled: bool) -> None:
        """Enable or disable an MCP server."""
        await self._connected().control("mcp_toggle", serverName=server_name, enabled=enabled)

    async def stop_task(self, task_id: str) -> None:
        """Stop a background task. Its notification follows."""
        await self._connected().control("stop_task", task_id=task_id)

    async def get_mcp_status(self) -> types.McpStatusResponse:
        """Return the state of the MCP servers."""
        status: types.McpStatusResponse = await self._connected().control("mcp_status")
        return status

    async def get_context_usage(self) -> types.ContextUsageResponse:
        """Return what fills the context window."""
        usage: types.ContextUsageResponse = await self._connected().control("get_context_usage")
        return usage

    async def get_server_info(self) -> JSONObject | None:
        """Return the CLI's reply to `initialize`: commands, models, output styles."""
        return dict(self._connected().client.info.raw)
