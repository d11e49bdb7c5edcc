"""The files and the terminals of the editor, as tools for the model.

A file of the editor may have changes that are not saved; a command in one of its terminals is seen by the user while
it runs. The CLI's own tools stay available.
"""

from collections.abc import Iterator
from typing import Any

import anyio
from acp import schema
from acp.interfaces import Client as Editor

from claude_agent_py.tools import Tool, tool

OUTPUT_BYTES = 100_000
"""The end of a command's output that the editor keeps."""
SERVER = "editor"


def make_tools(editor: Editor, session_id: str, capabilities: schema.ClientCapabilities) -> Iterator[Tool[Any, Any]]:
    """Yield the tools for what the editor offers."""
    files = capabilities.fs or schema.FileSystemCapabilities()

    @tool(name="read_open_file", read_only=True)
    async def read_open_file(path: str, line: int | None = None, limit: int | None = None) -> str:
        """Read a text file as the user's editor has it, with changes that are not saved yet.

        Args:
            path: The absolute path.
            line: The first line to read, counted from 1.
            limit: The number of lines to read.
        """
        reply = await editor.read_text_file(session_id=session_id, path=path, line=line, limit=limit)
        return reply.content

    @tool(name="write_open_file")
    async def write_open_file(path: str, content: str) -> str:
        """Write a text file through the user's editor, which shows the change at once.

        Args:
            path: The absolute path.
            content: The whole new text.
        """
        await editor.write_text_file(session_id=session_id, path=path, content=content)
        return f"{path} was written."

    @tool(name="run_in_terminal")
    async def run_in_terminal(command: str, args: list[str] | None = None, cwd: str | None = None) -> str:
        """Run a program in a terminal of the user's editor, and return its output and its exit code.

        Args:
            command: The program.
            args: Its arguments.
            cwd: The working directory, absolute; by default the session's.
        """
        terminal = await editor.create_terminal(
            session_id=session_id, command=command, args=args or [], cwd=cwd, output_byte_limit=OUTPUT_BYTES
        )
        about = {"session_id": session_id, "terminal_id": terminal.terminal_id}
        try:
            ended = await editor.wait_for_terminal_exit(**about)
            shown = await editor.terminal_output(**about)
        finally:
            # Releasing a terminal also kills its command, if the call was cancelled.
            with anyio.CancelScope(shield=True):
                await editor.release_terminal(**about)
        cut = "(only the end)\n" if shown.truncated else ""
        code = f"signal {ended.signal}" if ended.signal else f"exit code {ended.exit_code}"
        return f"{cut}{shown.output}\n({code})"

    if files.read_text_file:
        yield read_open_file
    if files.write_text_file:
        yield write_open_file
    if capabilities.terminal:
        yield run_in_terminal
