"""`EditorAgent`: sessions with the CLI, offered to an editor over the Agent Client Protocol."""

import asyncio
import sys
import warnings
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stdout, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import unquote
from uuid import uuid4

import acp
from acp import RequestError, schema
from acp.agent.connection import AgentSideConnection
from acp.interfaces import Client as Editor

from claude_agent_py import Run, RunResult, verbatim
from claude_agent_py._base.errors import (
    ClaudeAgentError,
    ControlRejectedError,
    LocalProtocolError,
    OptionsError,
    OptionsWarning,
    SessionError,
)
from claude_agent_py._base.event_loop import run_file_work, run_to_its_end
from claude_agent_py._base.log import Drops, logger
from claude_agent_py._version import __version__
from claude_agent_py.acp.editor_tools import SERVER, BoundTools
from claude_agent_py.acp.questions import Asker
from claude_agent_py.acp.transport import CANCEL_REQUEST, DELETE_SESSION, REQUEST, EditorTransport
from claude_agent_py.acp.updates import Update, Updates, list_commands, write_context
from claude_agent_py.client import Client
from claude_agent_py.errors import (
    AuthenticationError,
    CLIExitError,
    InterruptedRunError,
    MaxTurnsError,
    PromptCancelledError,
    RunError,
    SessionNotFoundError,
)
from claude_agent_py.messages import ResultMessage, TextBlock, UserMessage, check_keeps_conversation
from claude_agent_py.options import ClientOptions, MCPHTTPServer, MCPSSEServer, MCPStdioServer
from claude_agent_py.permissions import InteractionOpened, InteractionSettled
from claude_agent_py.sessions import StoredSessions
from claude_agent_py.tools import ToolServer, mcp_tool_name
from claude_agent_py.wire import JSONObject

Choice: TypeAlias = tuple[str, str, str | None]
"""A value that an editor offers, with its name and description."""
MakeOptions: TypeAlias = Callable[[str], ClientOptions]
"""Returns the options of a session in a working directory."""

PAGE: Final = 50
"""The number of sessions in an answer to `session/list`."""
CURSOR_CHARS: Final = 9
PDF: Final = "application/pdf"
CLOSE_SECONDS: Final = 1.0
"""How long an editor that has disconnected may take to read what is left."""
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
AUTH_REQUIRED: Final = -32000
NOT_FOUND: Final = -32002
"""Errors of the protocol."""
EFFORT: Final = "effortLevel"
"""The setting of the CLI."""
TODO_TOOLS: Final = "CLAUDE_CODE_ENABLE_TODO_TOOLS"
"""The variable that offers the model the tools of the to-do list, which the editor shows as the plan (CLI 2.1.332)."""
MODES: Final[Mapping[str, tuple[str, str]]] = {
    "default": ("Ask", "Ask before edits and commands"),
    "acceptEdits": ("Accept edits", "Edit files without asking"),
    "auto": ("Auto", "A model decides what to ask about"),
    "plan": ("Plan", "Read only, then propose a plan"),
    "dontAsk": ("Don't ask", "Deny what is not allowed, without asking"),
    "bypassPermissions": ("Bypass permissions", "Allow everything"),
}


class EditorAgent:
    """An ACP agent whose sessions are sessions with the CLI, with your options: tools, hooks, guards and policies.

    Pass it to `acp.run_agent`, as `serve` does, or to an `acp.AgentSideConnection`. On asyncio only.

    Args:
        options: The options of each session, or a function that returns them for a working directory. The editor's
            directory, MCP servers and files are added. Permissions and questions that your handlers do not answer
            are asked in the editor.
        editor_tools: Offer the model the files and the terminals of the editor as tools. Each may do no more than
            `Read`, `Write` or `Bash`: it is refused if a rule, the tools of the session, a hook, a permission handler
            or the mode refuses that tool, and if only the CLI can apply what restricts it, such as a rule with a path.
    """

    def __init__(self, options: ClientOptions | MakeOptions | None = None, *, editor_tools: bool = False) -> None:
        self._given = options
        self._offers_tools = editor_tools
        self._editor: Editor | None = None
        self._capabilities = schema.ClientCapabilities()
        self._sessions: dict[str, _EditorSession] = {}

    def __repr__(self) -> str:
        return f"<EditorAgent {len(self._sessions)} sessions>"

    def on_connect(self, conn: Editor) -> None:
        """Take the connection to the editor. The connection calls it."""
        self._editor = conn

    async def close(self) -> None:
        """Close all sessions, also if the caller is cancelled meanwhile."""
        await run_to_its_end(self._close_all, name="claude_agent_py editor")

    async def _close_all(self) -> None:
        while self._sessions:
            await self.close_session(next(iter(self._sessions)))

    # The protocol -------------------------------------------------------------------------------------------------

    async def initialize(
        self,
        protocol_version: int,
        client_capabilities: schema.ClientCapabilities | None = None,
        client_info: schema.Implementation | None = None,
        **_: Any,
    ) -> schema.InitializeResponse:
        """Agree on the version, and tell the editor what this agent offers."""
        self._capabilities = client_capabilities or self._capabilities
        return schema.InitializeResponse(
            protocol_version=min(protocol_version, acp.PROTOCOL_VERSION),
            agent_capabilities=schema.AgentCapabilities(
                load_session=True,
                prompt_capabilities=schema.PromptCapabilities(image=True, audio=False, embedded_context=True),
                mcp_capabilities=schema.McpCapabilities(http=True, sse=True),
                session_capabilities=schema.SessionCapabilities(
                    list=schema.SessionListCapabilities(),
                    fork=schema.SessionForkCapabilities(),
                    resume=schema.SessionResumeCapabilities(),
                    close=schema.SessionCloseCapabilities(),
                    delete=schema.SessionDeleteCapabilities(),
                    additional_directories=schema.SessionAdditionalDirectoriesCapabilities(),
                ),
            ),
            auth_methods=[],
            agent_info=schema.Implementation(name="claude-agent-py", title="Claude Code", version=__version__),
        )

    async def authenticate(self, method_id: str, **_: Any) -> None:
        """Refuse: the CLI has its own login."""
        raise refuse("log in with the `claude` program, or set ANTHROPIC_API_KEY")

    async def new_session(
        self,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: list[Any] | None = None,
        **_: Any,
    ) -> schema.NewSessionResponse:
        """Start a session."""
        session_id = str(uuid4())
        session = await self._open(session_id, cwd, additional_directories, mcp_servers, session_id=session_id)
        return schema.NewSessionResponse(session_id=session_id, **session.describe())

    async def load_session(
        self,
        cwd: str,
        session_id: str,
        mcp_servers: list[Any] | None = None,
        additional_directories: list[str] | None = None,
        **_: Any,
    ) -> schema.LoadSessionResponse:
        """Resume a session, and send what happened in it before. One that is open goes on with its work."""
        session = self._find(session_id)
        if session is None:
            session = await self._open(session_id, cwd, additional_directories, mcp_servers, resume=session_id)
        await session.replay()
        return schema.LoadSessionResponse(**session.describe())

    async def resume_session(
        self,
        session_id: str,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: list[Any] | None = None,
        **_: Any,
    ) -> schema.ResumeSessionResponse:
        """Resume a session without sending its history. One that is open goes on with its work."""
        session = self._find(session_id)
        if session is None:
            session = await self._open(session_id, cwd, additional_directories, mcp_servers, resume=session_id)
        return schema.ResumeSessionResponse(**session.describe())

    async def fork_session(
        self,
        session_id: str,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: list[Any] | None = None,
        **_: Any,
    ) -> schema.ForkSessionResponse:
        """Continue a session as a new one. The original is not changed."""
        new = str(uuid4())
        fork = {"resume": session_id, "fork_session": True, "session_id": new}
        session = await self._open(new, cwd, additional_directories, mcp_servers, **fork)
        return schema.ForkSessionResponse(session_id=session.id, **session.describe())

    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **_: Any
    ) -> schema.ListSessionsResponse:
        """Return the sessions on disk, newest first, a page at a time."""
        options = self._make_options(cwd or str(Path.cwd()))
        offset = _read_cursor(cursor)
        stored = StoredSessions(directory=cwd, config_dir=Client(options).config_dir)
        try:
            found = await stored.list(PAGE + 1, offset)
        except ValueError as error:  # no folder has such a name
            raise refuse(f"cwd: {error}") from None
        return schema.ListSessionsResponse(
            sessions=[
                schema.SessionInfo(
                    session_id=info.id,
                    cwd=info.cwd or cwd or "",
                    title=info.summary or None,
                    updated_at=_format_time(info.last_modified),
                )
                for info in found[:PAGE]
            ],
            next_cursor=str(offset + PAGE) if len(found) > PAGE else None,
        )

    async def close_session(self, session_id: str, **_: Any) -> None:
        """Close a session and its process."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            await session.close()

    async def delete_session(self, session_id: str) -> None:
        """Close a session if it is open, and delete it from the disk. Unlike with `close_session`, it is then gone."""
        session = self._sessions.get(session_id)
        options = self._make_options(str(Path.cwd())) if session is None else session.client.options
        await self.close_session(session_id)
        await _translated(StoredSessions(config_dir=Client(options).config_dir).delete(session_id))

    async def prompt(self, session_id: str, prompt: list[Any], **meta: Any) -> schema.PromptResponse:
        """Send a prompt, and return when its turn has ended. Tasks in the background may go on."""
        return await self._get(session_id).prompt(read_prompt(prompt), meta.get(REQUEST))

    async def cancel(self, session_id: str, **_: Any) -> None:
        """Interrupt the turn. Its prompt ends with `cancelled`."""
        session = self._sessions.get(session_id)
        if session is not None:
            await session.cancel()

    async def set_session_mode(self, session_id: str, mode_id: str, **_: Any) -> schema.SetSessionModeResponse:
        """Change the permission mode."""
        await self._get(session_id).choices.set_mode(mode_id)
        return schema.SetSessionModeResponse()

    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **_: Any
    ) -> schema.SetSessionConfigOptionResponse:
        """Change the mode, the model or the effort."""
        choices = self._get(session_id).choices
        setters = {"mode": choices.set_mode, "model": choices.set_model, "effort": choices.set_effort}
        if config_id not in setters:
            raise refuse(f"unknown option {config_id!r}; there are {', '.join(setters)}")
        await setters[config_id](str(value))
        return schema.SetSessionConfigOptionResponse(config_options=choices.list_config())

    async def ext_method(self, method: str, params: JSONObject) -> JSONObject:
        """Answer what the package does not route, and refuse the rest."""
        if method != DELETE_SESSION:
            raise RequestError.method_not_found(f"_{method}")
        await self.delete_session(schema.DeleteSessionRequest.model_validate(params).session_id)
        return {}

    async def ext_notification(self, method: str, params: JSONObject) -> None:
        """Cancel a prompt by the id of its request, and ignore what is not known."""
        if method == CANCEL_REQUEST:
            request = schema.CancelRequestNotification.model_validate(params).request_id
            for session in tuple(self._sessions.values()):
                await session.cancel_prompt(request)

    # Sessions -----------------------------------------------------------------------------------------------------

    def _find(self, session_id: str) -> "_EditorSession | None":
        """Return an open session. One that could not be resumed after its CLI had died is not."""
        session = self._sessions.get(session_id)
        return None if session is None or session.client.is_closed else session

    def _get(self, session_id: str) -> "_EditorSession":
        session = self._find(session_id)
        if session is None:
            raise refuse(f"no open session {session_id!r}", NOT_FOUND)
        return session

    async def _open(
        self,
        name: str,
        cwd: str,
        directories: Sequence[str] | None,
        servers: Iterable[Any] | None,
        **conversation: Any,
    ) -> "_EditorSession":
        if self._editor is None:
            raise LocalProtocolError("connect the agent to an editor first, with serve() or acp.run_agent")
        try:
            given = self._make_options(cwd)
            bound = BoundTools(self._editor, name, self._capabilities)
            tools = list(bound.make()) if self._offers_tools else []
            own = {SERVER: ToolServer(SERVER, tools)} if tools else {}
            with warnings.catch_warnings():
                # The given options have warned already, and the tools ask on their own, as `Read`, `Write` and `Bash`.
                warnings.simplefilter("ignore", OptionsWarning)
                options = given.replace(
                    allowed_tools=[*given.allowed_tools, *(mcp_tool_name(SERVER, tool.name) for tool in tools)],
                    cwd=cwd,
                    env={TODO_TOOLS: "1", **given.env},
                    additional_directories=[*given.additional_directories, *(directories or ())],
                    mcp_servers={**_list_servers(given), **dict(map(_read_server, servers or ())), **own},
                    include_partial_messages=True,
                    interactions=given.interactions or True,
                    **conversation,
                )
        except (OptionsError, ValueError) as error:
            raise refuse(str(error)) from error
        session = _EditorSession(name, Client(options), self._editor, self._capabilities)
        bound.client = session.client
        await self.close_session(name)
        await _translated(session.open())
        # Another request may have opened it meanwhile. The last one counts.
        replaced, self._sessions[name] = self._sessions.get(name), session
        if replaced is not None:
            await replaced.close()
        return session

    def _make_options(self, cwd: str) -> ClientOptions:
        try:
            given = self._given(cwd) if callable(self._given) else self._given or ClientOptions()
        except Exception as error:
            logger.exception("the function that makes the options failed")
            reason = f"the function that makes the options failed: {type(error).__name__}: {error}"
            raise refuse(reason, INTERNAL_ERROR) from error
        if not isinstance(given, ClientOptions):
            raise refuse(f"the function must return ClientOptions, not {type(given).__name__}", INTERNAL_ERROR)
        return given


class _Prompt:
    """A prompt of the editor that has no answer yet."""

    def __init__(self, message: UserMessage) -> None:
        self.message = message
        self.run: Run | None = None
        self.is_cancelled = False


class _Choices:
    """The mode, the model and the effort of a session, which the user chooses in the editor or with a command.

    Attributes:
        model: The chosen model.
        mode: The permission mode.
        effort: The chosen effort; `default` if none was chosen.
    """

    def __init__(self, client: Client, show: Callable[[Update], Awaitable[None]]) -> None:
        self.model = ""
        self.mode = "default"
        self.effort = "default"
        self._client = client
        self._show = show

    def begin(self) -> None:
        """Take what the client has connected with."""
        info, options = self._client.info, self._client.options
        self.model = self.model or info.current_model or options.model or "default"
        self.mode = str(info.current_permission_mode or options.permission_mode or "default")
        self.effort = str(options.effort or "default")

    def describe(self) -> JSONObject:
        """Return the modes and options for the editor."""
        modes = [schema.SessionMode(id=mode, name=title, description=text) for mode, title, text in self._list_modes()]
        return {
            "modes": schema.SessionModeState(current_mode_id=self.mode, available_modes=modes),
            "config_options": self.list_config(),
        }

    def _list_modes(self) -> list[Choice]:
        can_bypass = self._client.options.allow_dangerously_skip_permissions
        model = self._find_model()
        can_be_auto = model is not None and model.supports_auto_mode
        hidden = {"bypassPermissions": not can_bypass, "auto": not can_be_auto}
        shown: list[Choice] = [
            (mode, name, text) for mode, (name, text) in MODES.items() if not hidden.get(mode) or mode == self.mode
        ]
        return shown if self.mode in MODES else [*shown, (self.mode, self.mode, None)]

    def _find_model(self) -> Any:
        """Return what the CLI knows of the model, or None."""
        return next((model for model in self._client.info.models if model.value == self.model), None)

    def list_config(self) -> list[Any]:
        """Return the options that the editor can change: the mode, the model, and the effort if the model has levels.

        Editors show them instead of the modes.
        """
        models = {model.value: model for model in self._client.info.models}
        names = [(value, model.display_name or value, model.description or None) for value, model in models.items()]
        if self.model not in models:
            names.append((self.model, self.model, None))
        options = [
            _select("mode", "Mode", "mode", self.mode, self._list_modes()),
            _select("model", "Model", "model", self.model, names),
        ]
        if efforts := self._list_efforts():
            levels = [(effort, effort.capitalize(), None) for effort in efforts]
            options.append(_select("effort", "Effort", "thought_level", self.effort, levels))
        return options

    def _list_efforts(self) -> list[str]:
        """Return the levels of the model, and the default, which the CLI chooses."""
        model = self._find_model()
        levels = [] if model is None else list(map(str, model.supported_effort_levels or ()))
        return ["default", *levels] if levels else []

    async def set_mode(self, mode: str) -> None:
        """Change the permission mode."""
        if mode not in MODES:
            raise refuse(f"unknown mode {mode!r}; use one of {', '.join(MODES)}")
        await _translated(self._client.set_permission_mode(mode))
        await self.note_mode(mode)

    async def set_model(self, model: str) -> None:
        """Change the model."""
        await _translated(self._client.set_model(model))
        self.model = model

    async def set_effort(self, effort: str) -> None:
        """Change the effort."""
        if effort not in self._list_efforts():
            raise refuse(f"the model {self.model!r} has no effort {effort!r}")
        await _translated(self._client.settings.apply({EFFORT: None if effort == "default" else effort}))
        self.effort = effort

    async def note_mode(self, mode: str) -> None:
        """Send the options if the mode has changed."""
        if mode != self.mode:
            self.mode = mode
            await self._send_config()

    async def note_command(self, message: UserMessage) -> None:
        """Choose what the user has chosen with a command. The editor shows it then, and the next process keeps it."""
        command, given = _read_command(message)
        if message.client_composed or self._client.options.verbatim_prompts or command not in ("/model", "/effort"):
            return
        with suppress(ClaudeAgentError, RequestError):
            applied = (await self._client.settings.get()).applied
            if applied is not None and command == "/effort" and given in ("auto", applied.effort):
                await self.set_effort("default" if given == "auto" else given)
            elif applied is not None and command == "/model" and self._has_chosen(given, applied.model):
                await self.set_model(given)
            else:
                return
            await self._send_config()

    def _has_chosen(self, model: str, applied: str) -> bool:
        """Return whether the user has chosen a model, by the one that applies now."""
        resolved = {each.value: each.resolved_model for each in self._client.info.models}
        return applied in (model, resolved.get(model)) or applied not in (self.model, resolved.get(self.model))

    async def _send_config(self) -> None:
        options = self.list_config()
        await self._show(schema.ConfigOptionUpdate(session_update="config_option_update", config_options=options))


class _EditorSession:
    """A session that an editor has open.

    Attributes:
        id: The id by which the editor knows it.
        client: The client.
        choices: What the user has chosen.
    """

    def __init__(self, name: str, client: Client, editor: Editor, capabilities: schema.ClientCapabilities) -> None:
        self.id = name
        self.client = client
        self.choices = _Choices(client, self._show)
        self._editor = editor
        self._asker = Asker(editor, name, capabilities, client.options.cwd)
        self._updates = Updates(client.options.cwd)
        self._drops = Drops("an editor's view of a session")
        self._follower: asyncio.Task[None] | None = None
        self._greeting: asyncio.Task[None] | None = None
        self._questions: dict[str, asyncio.Task[None]] = {}
        """The questions that the editor shows, by id."""
        self._shown: set[str] = set()
        """The uuids of the results whose turn the editor has seen whole. Prompts that the CLI merges have one."""
        self._progress = asyncio.Condition()
        self._showing = asyncio.Lock()
        """Held while an event, or the stored session, is shown."""
        self._reopening = asyncio.Lock()
        self._prompts: dict[object, _Prompt] = {}
        """The prompts without an answer, by the ids of their requests."""

    async def open(self) -> None:
        """Connect, and follow the session."""
        await self.client.connect()
        self._follow()
        self.choices.begin()

    def _follow(self) -> None:
        # `events` begins at once, so that nothing is missed.
        self._updates.task_list = self.client.task_list
        self._follower = asyncio.create_task(self._show_events(self.client.events(facts=True)))

    def describe(self) -> JSONObject:
        """Return the modes and options for the editor, and send the slash commands after that answer."""
        self._greeting = asyncio.create_task(self._send_commands())
        return self.choices.describe()

    async def replay(self) -> None:
        """Send the stored session, and what it does not have yet of the turn that goes on."""
        async with self._showing:
            history = Updates(self.client.options.cwd)
            for update in history.replay(await self._read_history()):
                await self._show(update)
            sent = [prompt.message for prompt in self._prompts.values() if prompt.run is not None]
            for update in self._updates.catch_up(history, sent):
                await self._show(update)

    async def _read_history(self) -> Sequence[object]:
        """Return the events of the stored session. Before its first prompt, a fork has those of the original."""
        try:
            for session_id in filter(None, (self.id, self.client.options.resume)):
                with suppress(SessionNotFoundError):
                    stored = await self._stored.get(session_id)
                    return await run_file_work(list, stored.events())
        except SessionError as error:
            raise refuse(str(error), INTERNAL_ERROR) from error
        return ()

    @property
    def _stored(self) -> StoredSessions:
        return StoredSessions(config_dir=self.client.config_dir)

    async def prompt(self, message: UserMessage, request: object = None) -> schema.PromptResponse:
        """Send a prompt, and return when its turn has ended and the editor has seen it.

        `request` is the id of the editor's request, by which `cancel_prompt` finds it.
        """
        prompt = _Prompt(message)
        key = prompt if request is None else request
        self._prompts[key] = prompt
        try:
            return await self._prompt(prompt)
        finally:
            self._prompts.pop(key, None)

    async def _prompt(self, prompt: _Prompt) -> schema.PromptResponse:
        try:
            result = await self._run(prompt)
        except RunError as error:
            if error.result is not None:
                await self._wait_shown(error.result)
            return schema.PromptResponse(stop_reason=_find_reason(error, prompt))
        except OptionsError as error:
            raise refuse(str(error)) from error
        except ClaudeAgentError as error:
            if prompt.is_cancelled:
                return schema.PromptResponse(stop_reason="cancelled")
            raise refuse(str(error), INTERNAL_ERROR) from error
        await self._wait_shown(result)
        reason: schema.StopReason = "end_turn"
        if result.stop_reason in ("refusal", "max_tokens"):
            reason = result.stop_reason  # type: ignore[assignment]
        await self.choices.note_command(prompt.message)
        await self._send_usage(result)
        await self._send_info()
        return schema.PromptResponse(stop_reason=reason, usage=_read_usage(result))

    async def _run(self, prompt: _Prompt) -> RunResult:
        """Send a prompt, and wait for its end."""
        await self._reopen()
        if prompt.is_cancelled:
            raise PromptCancelledError("the prompt was cancelled before it was sent")
        verbatim = self.client.options.verbatim_prompts
        check_keeps_conversation(prompt.message, self.client.info.commands, verbatim=verbatim)
        prompt.run = self.client.query(prompt.message)
        try:
            return await prompt.run
        except CLIExitError as error:
            if error.result is None or error.result.messages:
                raise
        await self._reopen()  # it was dead before it read the prompt, which is sent again
        return await prompt.run

    async def _reopen(self) -> None:
        """Resume the session in a new process, if the CLI has died."""
        async with self._reopening:
            if not self.client.is_open:
                await self._take_back()  # so that the new process does not get them
                await self.client.reopen()
                self._follow()
                await self._take_back()

    async def _take_back(self) -> None:
        """Interrupt the prompts that were cancelled without a process."""
        for prompt in tuple(self._prompts.values()):
            if prompt.is_cancelled and prompt.run is not None:
                with suppress(ClaudeAgentError):
                    await prompt.run.interrupt()

    async def _wait_shown(self, result: RunResult) -> None:
        """Wait until the editor has all updates of a run. They end if the process does."""
        uuid = result.message.uuid if result.message is not None else None
        async with self._progress:
            await self._progress.wait_for(lambda: uuid is None or uuid in self._shown or self._has_ended)

    @property
    def _has_ended(self) -> bool:
        return self._follower is None or self._follower.done()

    async def cancel(self) -> None:
        """Interrupt the turn and take back the prompts behind it."""
        for prompt in self._prompts.values():
            prompt.is_cancelled = True
        with suppress(ClaudeAgentError):
            await self.client.interrupt(cancel_queued=True)

    async def cancel_prompt(self, request: object) -> None:
        """Interrupt the turn of a prompt, or take the prompt back if it waits. Does nothing if it has its answer."""
        prompt = self._prompts.get(request)
        if prompt is not None:
            prompt.is_cancelled = True
            if prompt.run is not None:
                with suppress(ClaudeAgentError):
                    await prompt.run.interrupt()

    async def close(self) -> None:
        """Cancel the prompts, close the client, and stop following it."""
        for prompt in self._prompts.values():
            prompt.is_cancelled = True
        await self.client.close()
        for task in (*self._questions.values(), *filter(None, [self._follower, self._greeting])):
            task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await task

    # To the editor ------------------------------------------------------------------------------------------------

    async def _show_events(self, events: Any) -> None:
        try:
            async for event in events:
                if isinstance(event, InteractionOpened):
                    self._ask(event.interaction)
                elif isinstance(event, InteractionSettled):
                    question = self._questions.pop(event.interaction.id, None)
                    # It was answered elsewhere, or withdrawn.
                    if question is not None:
                        question.cancel()
                async with self._showing:
                    for update in self._updates.feed(event):
                        await self._show(update)
                if isinstance(event, ResultMessage):
                    async with self._progress:
                        self._shown.add(event.uuid)
                        self._progress.notify_all()
        except ClaudeAgentError as error:
            logger.warning("the session %s has ended: %s", self.id, error)
        except ConnectionError:
            logger.debug("the editor has gone")
        finally:
            asyncio.get_running_loop().call_soon(lambda: asyncio.ensure_future(self._wake()))

    async def _wake(self) -> None:
        async with self._progress:
            self._progress.notify_all()

    def _ask(self, interaction: Any) -> None:
        async def ask() -> None:
            try:
                await self._asker.ask(interaction)
            except Exception as error:
                logger.warning("a question was refused, because the editor could not answer it: %s", error)
                interaction.refuse(f"The editor could not answer: {error}")

        self._questions[interaction.id] = asyncio.create_task(ask())

    async def _show(self, update: Update) -> None:
        """Send an update. One that cannot be sent is logged and dropped.

        Raises:
            ConnectionError: The editor has gone.
        """
        try:
            await self._send(update)
            if isinstance(update, schema.CurrentModeUpdate):  # perhaps because of a plan
                await self.choices.note_mode(update.current_mode_id)
        except ConnectionError:
            raise
        except Exception:
            self._drops.note(update)

    async def _send(self, update: Update) -> None:
        await self._editor.session_update(session_id=self.id, update=update)

    async def _send_commands(self) -> None:
        await asyncio.sleep(0)  # the editor does not know the session before the answer
        with suppress(ConnectionError):
            await self._send(list_commands(self.client.info.commands))

    async def _send_usage(self, result: RunResult) -> None:
        """Send how full the context is. The session has no answer if it has just ended."""
        with suppress(ClaudeAgentError):
            context = await self.client.usage.context("summary")
            cost = schema.Cost(amount=result.total_cost_usd, currency="USD")
            used, size = int(context.total_tokens), int(context.max_tokens)
            await self._send(schema.UsageUpdate(session_update="usage_update", used=used, size=size, cost=cost))

    async def _send_info(self) -> None:
        """Send the title of the session. A session that is not stored has none."""
        with suppress(ClaudeAgentError):
            info = await self._stored.get_info(self.id)
            title, at = info.summary or None, _format_time(info.last_modified)
            await self._send(schema.SessionInfoUpdate(session_update="session_info_update", title=title, updated_at=at))


async def serve(options: ClientOptions | MakeOptions | None = None, *, editor_tools: bool = False) -> None:
    """Serve an editor over stdin and stdout until it disconnects. The arguments are those of `EditorAgent`.

    What is printed meanwhile goes to stderr. `claude-agent-py acp` also redirects what child processes print.
    """
    agent = EditorAgent(options, editor_tools=editor_tools)
    transport = EditorTransport(*await acp.stdio_streams())
    connection = AgentSideConnection(agent, transport, listening=False, use_unstable_protocol=True)
    try:
        with redirect_stdout(sys.stderr):
            await connection.listen()
    finally:
        await run_to_its_end(partial(_close, connection, agent), name="claude_agent_py editor")


async def _close(connection: AgentSideConnection, agent: EditorAgent) -> None:
    """Close both. `acp.run_agent` would wait forever for an editor that has ended without reading everything."""
    try:
        async with asyncio.timeout(CLOSE_SECONDS):
            await connection.close()
    except (TimeoutError, ConnectionError):
        logger.debug("the editor has gone without reading everything")
    finally:
        await agent.close()


def _find_reason(error: RunError, prompt: _Prompt) -> schema.StopReason:
    """Return why a failed turn stopped.

    Raises:
        RequestError: The protocol has no word for it.
    """
    if prompt.is_cancelled or isinstance(error, InterruptedRunError | PromptCancelledError):
        return "cancelled"
    if isinstance(error, MaxTurnsError):
        return "max_turn_requests"
    if isinstance(error, AuthenticationError):
        raise refuse(str(error), AUTH_REQUIRED) from error
    raise refuse(str(error), INTERNAL_ERROR) from error


def _format_time(milliseconds: float) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat()


def refuse(reason: str, code: int = INVALID_PARAMS) -> RequestError:
    """Return the error for a request. Editors show its message."""
    return RequestError(code, reason, {"details": reason})


async def _translated(call: Awaitable[object]) -> None:
    """Await a call, and raise its error as the protocol does."""
    try:
        await call
    except SessionNotFoundError as error:
        raise refuse(str(error), NOT_FOUND) from error
    except (OptionsError, ControlRejectedError, SessionError) as error:
        raise refuse(str(error)) from error
    except ClaudeAgentError as error:
        raise refuse(str(error), INTERNAL_ERROR) from error


# From the editor ------------------------------------------------------------------------------------------------------


def read_prompt(blocks: Iterable[Any]) -> UserMessage:
    """Return the prompt for the CLI, which expands `@files` and `/commands` in the last block only.

    So the user's text is last, and what is attached behind it goes before it. Without such text, nothing is expanded.

    Raises:
        RequestError: A block has a form that the CLI does not take, such as audio, or there is no block.
    """
    given = list(blocks)
    typed = [index for index, block in enumerate(given) if isinstance(block, schema.TextContentBlock)]
    if typed:
        given.append(given.pop(typed[-1]))
    content = _read_blocks(given)
    try:
        message = verbatim(content)
    except OptionsError as error:
        raise refuse(str(error)) from error
    return message.replace(client_composed=not typed)


def _read_command(message: UserMessage) -> tuple[str, str]:
    """Return the command that the user typed, with its slash, and what follows it. Both may be empty."""
    last: object = message.content[-1]
    typed = last.text.split(maxsplit=1) if isinstance(last, TextBlock) and last.text.startswith("/") else []
    command, given = [*typed, "", ""][:2]
    return command, given.strip()


def _read_blocks(blocks: Iterable[Any]) -> list[JSONObject]:
    read: list[JSONObject] = []
    for block in blocks:
        if isinstance(block, schema.TextContentBlock):
            read.append({"type": "text", "text": block.text})
        elif isinstance(block, schema.ImageContentBlock):
            source = {"type": "base64", "media_type": block.mime_type, "data": block.data}
            read.append({"type": "image", "source": source})
        elif isinstance(block, schema.ResourceContentBlock):
            read.append({"type": "text", "text": f"[{block.title or block.name}]({_name_file(block.uri)})"})
        elif isinstance(block, schema.EmbeddedResourceContentBlock):
            read.append(_read_resource(block.resource))
        else:
            raise refuse(f"a prompt cannot have a block of {block.type!r}")
    return read


def _read_resource(resource: Any) -> JSONObject:
    if isinstance(resource, schema.TextResourceContents):
        return {"type": "text", "text": write_context(_name_file(resource.uri), resource.text)}
    kind = "document" if resource.mime_type == PDF else "image"
    if kind == "document" or (resource.mime_type and resource.mime_type.startswith("image/")):
        source = {"type": "base64", "media_type": resource.mime_type, "data": resource.blob}
        return {"type": kind, "source": source}
    raise refuse(f"a prompt cannot have a resource of {resource.mime_type!r}")


def _name_file(uri: str) -> str:
    """Return a resource as the model knows it: the path of a file, or the URI."""
    return unquote(uri.removeprefix("file://")) if uri.startswith("file:///") else uri


def _select(name: str, title: str, category: Any, value: str, choices: Iterable[Choice]) -> Any:
    options = [
        schema.SessionConfigSelectOption(value=each, name=text, description=more) for each, text, more in choices
    ]
    return schema.SessionConfigOptionSelect(
        id=name, name=title, category=category, type="select", current_value=value, options=options
    )


def _read_cursor(cursor: str | None) -> int:
    """Return the number of sessions on the pages before."""
    if not cursor:
        return 0
    if not cursor.isdecimal() or len(cursor) > CURSOR_CHARS:
        raise refuse(f"unknown cursor {cursor!r}")
    return int(cursor)


def _read_server(server: Any) -> tuple[str, Any]:
    if isinstance(server, schema.McpServerStdio):
        env = {variable.name: variable.value for variable in server.env}
        return server.name, MCPStdioServer(command=server.command, args=server.args, env=env)
    headers = {header.name: header.value for header in getattr(server, "headers", ())}
    if isinstance(server, schema.HttpMcpServer):
        return server.name, MCPHTTPServer(url=server.url, headers=headers)
    if isinstance(server, schema.SseMcpServer):
        return server.name, MCPSSEServer(url=server.url, headers=headers)
    raise ValueError(f"the MCP server {server.name!r} has a transport that this agent does not offer")


def _list_servers(options: ClientOptions) -> Mapping[str, Any]:
    """Return the servers of the options by name.

    Raises:
        OptionsError: They are in a file, to which none can be added.
    """
    servers = options.mcp_servers
    if isinstance(servers, Mapping):
        return servers
    raise OptionsError("give the servers by name, not as a file, so that the editor can add its own")


def _read_usage(result: RunResult) -> schema.Usage | None:
    usage = result.usage
    if usage is None:
        return None
    return schema.Usage(
        total_tokens=int(usage.total_tokens),
        input_tokens=int(usage.input_tokens or 0),
        output_tokens=int(usage.output_tokens or 0),
        cached_read_tokens=int(usage.cache_read_input_tokens or 0),
        cached_write_tokens=int(usage.cache_creation_input_tokens or 0),
    )
