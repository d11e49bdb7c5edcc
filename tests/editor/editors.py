"""An editor: the client side of the Agent Client Protocol. It notes what an agent shows, and answers its questions."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from forks import EDITOR, forked
from installed_cli import CLI_VARIABLE, find_cli
from later import Later
from leftovers import processes_with

import claude_agent_py
from claude_agent_py.testing import ScriptedModel

if TYPE_CHECKING:
    import acp
else:
    acp = Later("acp")

DEADLINE = 60
PACKAGE = Path(claude_agent_py.__file__).parent.parent


class Editor:
    """An editor with files and forms.

    Attributes:
        process: The agent's process.
        updates: What the agent has sent, in order.
        asked: The requests for permission.
        choose: Chooses an option of a request by its kind; None cancels.
        files: The open files, with changes that are not saved.
        form: The answer to forms.
        is_asked: Set when a permission is requested.
        answers: Set unless requests for permission wait.
    """

    def __init__(self, choose: str | None = "allow_once", form: Mapping[str, Any] | None = None) -> None:
        self.process: Any = None
        self.updates: list[Any] = []
        self.asked: list[tuple[Any, list[acp.schema.PermissionOption]]] = []
        self.forms: list[Any] = []
        self.choose = choose
        self.files: dict[str, str] = {}
        self.form = form
        self.commands: list[str] = []
        self.is_asked, self.answers = asyncio.Event(), asyncio.Event()
        self.answers.set()
        self._changed = asyncio.Event()

    def begin(self, choose: str | None, form: Mapping[str, Any] | None) -> None:
        """Forget what has been shown and asked so far, and answer like this from now on."""
        self.choose, self.form = choose, form
        for seen in (self.updates, self.asked, self.forms):
            seen.clear()
        self.is_asked.clear()

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append(update)
        self._changed.set()

    async def says(self, text: str) -> None:
        """Wait until the agent has said this, and nothing else."""
        await self.wait_for(lambda _: self.text == text)

    async def wait_for(self, found: Callable[[Any], bool]) -> Any:
        """Return the first update that matches. The package may hand over an answer before the updates ahead of it."""
        async with asyncio.timeout(DEADLINE):
            while True:
                self._changed.clear()
                for update in self.updates:
                    if found(update):
                        return update
                await self._changed.wait()

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[acp.schema.PermissionOption], **_: Any
    ) -> acp.schema.RequestPermissionResponse:
        self.asked.append((tool_call, options))
        self.is_asked.set()
        await self.answers.wait()
        for option in options:
            if option.kind == self.choose:
                outcome = acp.schema.AllowedOutcome(outcome="selected", option_id=option.option_id)
                return acp.schema.RequestPermissionResponse(outcome=outcome)
        return acp.schema.RequestPermissionResponse(outcome=acp.schema.DeniedOutcome(outcome="cancelled"))

    async def create_elicitation(self, message: str, mode: Any, **_: Any) -> Any:
        self.forms.append(mode)
        if self.form is None:
            return acp.schema.DeclineElicitationResponse(action="decline")
        return acp.schema.AcceptElicitationResponse(action="accept", content=dict(self.form))

    async def read_text_file(self, session_id: str, path: str, **_: Any) -> acp.schema.ReadTextFileResponse:
        return acp.schema.ReadTextFileResponse(content=self.files[path])

    async def write_text_file(self, session_id: str, path: str, content: str, **_: Any) -> None:
        self.files[path] = content

    async def create_terminal(self, session_id: str, command: str, **_: Any) -> acp.schema.CreateTerminalResponse:
        self.commands.append(command)
        return acp.schema.CreateTerminalResponse(terminal_id="t1")

    async def wait_for_terminal_exit(self, session_id: str, terminal_id: str, **_: Any) -> Any:
        return acp.schema.WaitForTerminalExitResponse(exit_code=3)

    async def terminal_output(self, session_id: str, terminal_id: str, **_: Any) -> acp.schema.TerminalOutputResponse:
        return acp.schema.TerminalOutputResponse(output="two tests failed", truncated=False)

    async def release_terminal(self, session_id: str, terminal_id: str, **_: Any) -> None:
        self.commands.append("released")

    def on_connect(self, conn: Any) -> None:
        """Nothing to do."""

    def list_updates(self, kind: type) -> list[Any]:
        """Return the updates of a type."""
        return [update for update in self.updates if isinstance(update, kind)]

    @property
    def text(self) -> str:
        """What the agent has said."""
        return "".join(update.content.text for update in self.list_updates(acp.schema.AgentMessageChunk))


def full_capabilities() -> acp.schema.ClientCapabilities:
    """Return what an editor can do that has files, terminals and forms."""
    return acp.schema.ClientCapabilities(
        fs=acp.schema.FileSystemCapabilities(read_text_file=True, write_text_file=True),
        terminal=True,
        elicitation=acp.schema.ElicitationCapabilities(form=acp.schema.ElicitationFormCapabilities()),
    )


@asynccontextmanager
async def open_editor(
    editor: Editor,
    model: ScriptedModel,
    *arguments: str,
    capabilities: acp.schema.ClientCapabilities | None = None,
    is_forked: bool = True,
) -> AsyncIterator[Any]:
    """Start `claude-agent-py acp` as an editor does, and yield the initialized connection.

    Unless `is_forked`, in a fresh interpreter.
    """
    environment = {**model.environment(**{CLI_VARIABLE: str(find_cli())}), "PYTHONPATH": str(PACKAGE)}
    process = acp.spawn_agent_process(
        cast("acp.Client", editor), sys.executable, "-m", "claude_agent_py", "acp", *arguments,
        env=environment, cwd=model.sandbox.cwd, use_unstable_protocol=True,
        transport_kwargs={"stderr": None, "limit": 2**26, "shutdown_timeout": 20.0},
    )  # fmt: skip
    async with asyncio.timeout(DEADLINE), AsyncExitStack() as stack:
        with forked(EDITOR) if is_forked else nullcontext():
            connection, editor.process = await stack.enter_async_context(process)
        await connection.initialize(protocol_version=acp.PROTOCOL_VERSION, client_capabilities=capabilities)
        yield connection


def list_clis(model: ScriptedModel) -> list[int]:
    """Return the processes of the CLI that use a model. None where there is no `/proc`."""
    return processes_with(f"ANTHROPIC_BASE_URL={model.environment()['ANTHROPIC_BASE_URL']}", "--output-format")


class RawEditor:
    """An editor that writes lines of its own making."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self._answers: dict[Any, asyncio.Future[Any]] = {}
        self.refusals: asyncio.Queue[Any] = asyncio.Queue()
        """The errors that name no request."""

    def send(self, message: Any) -> None:
        """Write a message, or a line."""
        assert self.process.stdin is not None
        line = message if isinstance(message, bytes) else json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.process.stdin.write(line + b"\n")

    def ask(self, number: int, method: str, **params: Any) -> asyncio.Future[Any]:
        """Send a request. Its answer is an event: the result, or the error."""
        self.send({"id": number, "method": method, "params": params})
        return self._answers.setdefault(number, asyncio.get_running_loop().create_future())

    async def read(self) -> None:
        """Take answers until the agent ends."""
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            message = json.loads(line)
            if "method" in message:
                continue
            if message["id"] is None:
                self.refusals.put_nowait(message["error"]["code"])
            else:
                self._answers[message["id"]].set_result(message.get("result", message.get("error")))


@asynccontextmanager
async def open_raw_editor(model: ScriptedModel) -> AsyncIterator[RawEditor]:
    """Start `claude-agent-py acp`, and yield an editor that has been initialized."""
    environment = {**model.environment(**{CLI_VARIABLE: str(find_cli())}), "PYTHONPATH": str(PACKAGE)}
    with forked(EDITOR):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "claude_agent_py", "acp", env=environment, cwd=model.sandbox.cwd, limit=2**26,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
    editor = RawEditor(process)
    async with asyncio.timeout(DEADLINE), asyncio.TaskGroup() as group:
        group.create_task(editor.read())
        await editor.ask(0, "initialize", protocolVersion=1)
        yield editor
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()
