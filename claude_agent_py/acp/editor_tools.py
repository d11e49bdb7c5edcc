"""The files and the terminals of the editor, as tools for the model.

A file of the editor may have changes that are not saved; a command in one of its terminals is seen by the user while
it runs. The CLI's own tools stay available, and each of these tools may do no more than one of them: `BoundTools` asks
about a call as if it were a call of `Read`, `Write` or `Bash`.
"""

import asyncio
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from acp import schema
from acp.interfaces import Client as Editor

from claude_agent_py._base.errors import ToolError
from claude_agent_py._base.event_loop import spawn_detached
from claude_agent_py.client import Client
from claude_agent_py.control import CanUseToolRequest, HookCallbackRequest
from claude_agent_py.hooks import HookContext
from claude_agent_py.tools import Tool, ToolContext, mcp_tool_name, tool
from claude_agent_py.wire import JSONObject

OUTPUT_BYTES = 100_000
"""The end of a command's output that the editor keeps."""
SERVER = "editor"

RULES_FOR: Final[Mapping[str, frozenset[str]]] = {
    "Read": frozenset({"Read", "*"}),
    "Write": frozenset({"Write", "Edit", "NotebookEdit", "*"}),
    "Bash": frozenset({"Bash", "*"}),
}
"""The tools whose deny and ask rules concern a tool of the editor."""
_GUARDED: Final = re.compile(
    r"\.|.*(~\d|[. ]\Z)|(bunfig\.toml|lefthook\.ya?ml|(gradle|maven)-wrapper\.properties|pyrightconfig\.json)\Z",
    re.IGNORECASE | re.DOTALL,
).match
"""Names of files and folders, such as `.git`, to which the CLI (2.1.332) writes only after asking, also in the mode
`acceptEdits`. Of those that begin with a dot it asks about many, and the tools of the editor about all."""
WATCHING: Final = frozenset({"PreToolUse", "PermissionRequest", "PostToolUse"})
"""Hooks that decide about a call or change its output."""


class BoundTools:
    """The tools for what an editor offers, and the checks of their calls.

    A call is refused unless the session offers `Read`, `Write` or `Bash` and no rule concerns that tool: the CLI alone
    can apply a rule to a path or a command. Hooks are asked about the call under that tool's name, and then the
    permission handler or the editor, as the permission mode says.

    Attributes:
        client: The client of the session.
    """

    def __init__(self, editor: Editor, session_id: str, capabilities: schema.ClientCapabilities) -> None:
        self.client: Client | None = None
        self._editor = editor
        self._session_id = session_id
        self._capabilities = capabilities
        self._approved: set[str] = set()
        """The commands that the user has allowed for the session."""

    def make(self) -> Iterator[Tool[Any, Any]]:
        """Yield the tools."""
        files = self._capabilities.fs or schema.FileSystemCapabilities()
        if files.read_text_file:
            yield self._make_reader()
        if files.write_text_file:
            yield self._make_writer()
        if self._capabilities.terminal:
            yield self._make_terminal()

    def _make_reader(self) -> Tool[Any, Any]:
        editor, session_id = self._editor, self._session_id

        @tool(name="read_open_file", read_only=True)
        async def read_open_file(  # noqa: D417
            path: str, context: ToolContext, line: int | None = None, limit: int | None = None
        ) -> str:
            """Read a text file as the user's editor has it, with changes that are not saved yet.

            Args:
                path: The absolute path.
                line: The first line to read, counted from 1.
                limit: The number of lines to read.
            """
            await self._check("Read", {"file_path": path}, context)
            reply = await editor.read_text_file(session_id=session_id, path=path, line=line, limit=limit)
            return reply.content

        return read_open_file

    def _make_writer(self) -> Tool[Any, Any]:
        editor, session_id = self._editor, self._session_id

        @tool(name="write_open_file")
        async def write_open_file(path: str, content: str, context: ToolContext) -> str:  # noqa: D417
            """Write a text file through the user's editor, which shows the change at once.

            Args:
                path: The absolute path.
                content: The whole new text.
            """
            await self._check("Write", {"file_path": path, "content": content}, context)
            await editor.write_text_file(session_id=session_id, path=path, content=content)
            return f"{path} was written."

        return write_open_file

    def _make_terminal(self) -> Tool[Any, Any]:
        editor, session_id = self._editor, self._session_id

        @tool(name="run_in_terminal")
        async def run_in_terminal(  # noqa: D417
            command: str, context: ToolContext, args: list[str] | None = None, cwd: str | None = None
        ) -> str:
            """Run a program in a terminal of the user's editor, and return its output and its exit code.

            Args:
                command: The program.
                args: Its arguments.
                cwd: The working directory, absolute; by default the session's.
            """
            # Some editors run it in a shell, so the program is not quoted.
            text = f"{command} {shlex.join(args)}" if args else command
            await self._check("Bash", {"command": f"cd {shlex.quote(cwd)} && {text}" if cwd else text}, context)
            making = asyncio.ensure_future(
                editor.create_terminal(
                    session_id=session_id, command=command, args=args or [], cwd=cwd, output_byte_limit=OUTPUT_BYTES
                )
            )

            async def release() -> None:
                await asyncio.wait([making])  # if it fails, so does the call
                if not making.cancelled() and making.exception() is None:
                    await editor.release_terminal(session_id=session_id, terminal_id=making.result().terminal_id)

            try:
                about = {"session_id": session_id, "terminal_id": (await asyncio.shield(making)).terminal_id}
                ended = await editor.wait_for_terminal_exit(**about)
                shown = await editor.terminal_output(**about)
            finally:
                # Also kills the command if the call was cancelled, even while the editor was making the terminal.
                spawn_detached(release, name="claude_agent_py terminal")
            cut = "(only the end)\n" if shown.truncated else ""
            code = f"signal {ended.signal}" if ended.signal else f"exit code {ended.exit_code}"
            return f"{cut}{shown.output}\n({code})"

        return run_in_terminal

    async def _check(self, name: str, data: JSONObject, context: ToolContext) -> None:
        """Raise ToolError unless the session would let the built-in tool `name` run with this input."""
        if self.client is None or context.agent_id is not None:
            raise ToolError("Only the main agent may use the tools of the editor.")
        facts = self.client.session.reported
        if name not in (facts.tools or ()):
            raise ToolError(f"This is not allowed: the session has no tool {name}.")
        problem = await self._find_restriction(self.client, name)
        if problem is not None:
            raise ToolError(f"This is not allowed: {problem}. Use the tool {name}.")
        if facts.permission_mode == "plan" and name != "Read":
            raise ToolError("This is not allowed in plan mode.")
        must_ask = await self._ask_hooks(self.client, name, data, context)
        if must_ask or not self._is_allowed_by_mode(self.client, name, data):
            await self._ask_person(self.client, name, data, context)

    async def _find_restriction(self, client: Client, name: str) -> str | None:
        """Return what restricts a tool in a way that only the CLI can apply, or None."""
        for entry in (await client.settings.permission_rules()).state.rules:
            if entry.behavior != "allow" and entry.rule.partition("(")[0] in RULES_FOR[name]:
                return f"the rule {entry.rule} concerns the tool {name}"
        settings = (await client.settings.get()).effective
        hooks = settings.get("hooks")
        if isinstance(hooks, Mapping) and WATCHING & hooks.keys():
            return "the settings have hooks for tools"
        sandbox = settings.get("sandbox")
        if name == "Bash" and isinstance(sandbox, Mapping) and sandbox.get("enabled"):
            return "commands run in a sandbox"
        return None

    async def _ask_hooks(self, client: Client, name: str, data: JSONObject, context: ToolContext) -> bool:
        """Call the hooks of the built-in tool, and return whether one of them wants to ask a person."""
        session = client.session
        hooks = client.connection.handlers.hooks
        own = mcp_tool_name(SERVER, context.tool_name)
        for watched, does in (("PostToolUse", "reads the output of"), ("PermissionRequest", "answers for")):
            if hooks.find(watched, name).keys() - hooks.find(watched, own).keys():
                raise ToolError(f"This is not allowed: a hook {does} the tool {name}. Use that tool.")
        asked = False
        for callback_id in hooks.find("PreToolUse", name):
            event = {
                "hook_event_name": "PreToolUse",
                "session_id": session.reported.session_id or "",
                "cwd": context.cwd or "",
                "permission_mode": session.reported.permission_mode,
                "tool_name": name,
                "tool_input": data,
                "tool_use_id": context.tool_use_id or "",
            }
            hook_context = HookContext(
                request_id=context.request_id,
                session_id=context.session_id,
                cancellation=context.cancellation,
                event="PreToolUse",
            )
            request = HookCallbackRequest(callback_id=callback_id, input=event, tool_use_id=context.tool_use_id)
            reply = await hooks.answer(request, hook_context)
            specific = reply.get("hookSpecificOutput") or {}
            decision = specific.get("permissionDecision")
            if decision in ("deny", "defer") or reply.get("decision") == "block" or reply.get("continue") is False:
                reason = specific.get("permissionDecisionReason") or reply.get("reason") or reply.get("stopReason")
                raise ToolError(str(reason or "A hook denied this."))
            if specific.get("updatedInput", data) != data:
                raise ToolError(f"This is not allowed: a hook changes the input of the tool {name}. Use that tool.")
            asked = asked or decision == "ask"
        return asked

    def _is_allowed_by_mode(self, client: Client, name: str, data: JSONObject) -> bool:
        """Return whether the permission mode, or an earlier "always", allows a call without asking."""
        mode = client.session.reported.permission_mode
        if mode == "bypassPermissions" or (name == "Bash" and data["command"] in self._approved):
            return True
        if name == "Bash" or (name == "Write" and mode != "acceptEdits"):
            return False
        path = Path(data["file_path"])
        roots = [os.path.realpath(root) for root in (client.options.cwd or "", *client.options.additional_directories)]
        resolved = Path(os.path.realpath(path))
        inside = [resolved.relative_to(root) for root in roots if resolved.is_relative_to(root)]
        is_guarded = name == "Write" and any(_GUARDED(part) for each in inside for part in each.parts)
        return path.is_absolute() and bool(inside) and not is_guarded

    async def _ask_person(self, client: Client, name: str, data: JSONObject, context: ToolContext) -> None:
        """Ask the permission handler or the editor about a call of the built-in tool. Raises ToolError if denied."""
        mode = client.session.reported.permission_mode
        options = client.options
        if mode == "dontAsk" or options.permission_prompts == "none" or options.permission_prompt_tool_name:
            raise ToolError("This is not allowed without asking, and the session does not ask.")
        rule = {"toolName": name, "ruleContent": data.get("command")}
        only_this = {"type": "addRules", "rules": [rule], "behavior": "allow", "destination": "session"}
        request = CanUseToolRequest(
            tool_name=name,
            tool_use_id=context.tool_use_id or "",
            input=data,
            permission_suggestions=[only_this] if name == "Bash" else None,
        )
        reply = await client.connection.handlers.ask(request, context)
        if reply.get("behavior") != "allow":
            raise ToolError(str(reply.get("message") or "The user denied this."))
        if reply.get("updatedInput", data) != data:
            raise ToolError(f"This is not allowed: the answer changes the input of the tool {name}. Use that tool.")
        if only_this in (reply.get("updatedPermissions") or ()):
            self._approved.add(data["command"])
