"""`Answers`: answers the requests of the CLI, by a table of hooks, permissions, elicitations, dialogs and MCP messages.

It also receives every message before its readers do (`track`), to follow tasks, the session id and the permission mode.

Features load when the options need them or on their first request. Without a handler the safe answer is sent.
"""

import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, TypeAlias
from uuid import UUID

from anyio.abc import TaskGroup

from claude_agent_py._cancellation import Cancellation
from claude_agent_py._errors import OptionsError
from claude_agent_py._handler_context import HandlerContext
from claude_agent_py._listeners import ListenerQueue
from claude_agent_py._protocol.events import RequestReceived
from claude_agent_py._runtime.answering.parts import needs_hooks, needs_permissions, needs_servers
from claude_agent_py.options import ClientOptions
from claude_agent_py.options.delegation import AGENT_TOOL, CUSTOM_TOOLS_SERVER, why_no_agent_tool
from claude_agent_py.tools.jsonrpc import tool_use_id_of
from claude_agent_py.wire.control.asks import (
    CanUseToolRequest,
    ElicitationRequest,
    HookCallbackRequest,
    MCPMessageRequest,
    UserDialogRequest,
)
from claude_agent_py.wire.messages.conversation import AssistantMessage, UserMessage
from claude_agent_py.wire.messages.occasional import CommandsChangedMessage
from claude_agent_py.wire.messages.system import APIRetryMessage, InitMessage, StatusMessage

if TYPE_CHECKING:
    from claude_agent_py._runtime.answering.failures import FailureLog
    from claude_agent_py._runtime.answering.parent import ParentSession, PermissionAnswers
    from claude_agent_py._runtime.runs.readers import Readers
    from claude_agent_py.hooks import HookRun
    from claude_agent_py.hooks.dispatcher import HookDispatcher
    from claude_agent_py.permissions.dispatcher import PermissionDispatcher
    from claude_agent_py.tasks import TaskIntake, TaskManager
    from claude_agent_py.tasks.events import Answered, Asked, TaskEvent
    from claude_agent_py.todo import TaskList
    from claude_agent_py.tools.host import MCPHost
    from claude_agent_py.wire.control.initialize import InitializeReply

Payload: TypeAlias = dict[str, Any]

logger: logging.Logger = logging.getLogger("claude_agent_py")

CALLS_KEPT: Final = 10_000
"""How many tool calls of subagents to remember."""

UNAUTHORIZED: Final = 401
PATIENCE: Final = 3
"""How often the API may reject the key before a run fails. After the first time the CLI renews a login."""


class SessionPort(Protocol):
    """The session, as its answers use it."""

    options: ClientOptions
    info: "InitializeReply | None"
    """The CLI's reply to `initialize`; None before it."""
    failures: "FailureLog"
    intake: "TaskIntake"
    tasks: "TaskManager"
    task_list: "TaskList"
    readers: "Readers"

    @property
    def is_open(self) -> bool:
        """Whether prompts and requests can be sent."""
        ...

    def post(self, subtype: str, /, **fields: Any) -> None:
        """Send a request without waiting for its reply."""
        ...

    def start_soon(self, function: Callable[..., Awaitable[None]], *args: Any) -> None:
        """Run an async function as a worker of the session."""
        ...

    def fail_login(self, why: str) -> None:
        """End the runs of the current turn with an `AuthenticationError`, and stop the turn."""
        ...

    def note_task_events(self, events: "Sequence[TaskEvent]") -> None:
        """Deliver the events of tasks to the readers of events."""
        ...


class Answers:
    """The handlers of one session.

    Args:
        session: The session.
        parent: The parent's session, for a child agent; otherwise None.

    Raises:
        OptionsError: A handler, hook or server is wrong.
    """

    def __init__(self, session: SessionPort, parent: "ParentSession | None") -> None:
        options = session.options
        self._session = session
        self._options = options
        self._parent = parent
        self._report = session.failures.report
        self.session_id = _find_session_id(options)
        """The id of the conversation; None before the first turn unless the options set it."""
        self.permission_mode: str | None = None
        """The permission mode that the CLI reported last; None before the first turn."""
        self.has_ended: bool = False
        """Whether the output of the CLI has ended."""
        self._callers: dict[str, str] = {}
        """The subagent of each tool call, by the call's id, which is all that a call over MCP has."""
        self._workers: TaskGroup | None = None
        self._stderr = None if options.on_stderr is None else ListenerQueue(options.on_stderr, self._report)
        self._load()
        tasks = session.tasks
        if options.on_task_notification is not None:
            tasks.on("notification", options.on_task_notification)
        if options.on_task_event is not None:
            tasks.on(options.on_task_event)

    # Questions ---------------------------------------------------------------------------------------------------

    def can_answer(self, request: Any) -> bool:
        """Return whether requests of this type are supported."""
        return type(request) in self._METHODS

    async def answer(self, asked: RequestReceived, cancellation: Cancellation) -> Payload:
        """Return the answer to a request. Its handler runs until `cancellation` is set."""
        request = asked.request
        if type(request) is HookCallbackRequest:
            event = request.input.get("hook_event_name")
            if isinstance(event, str):  # tracked first: it may be the first sign of a subagent
                self._session.intake.track_hook(event, request.input)
            agent_id = request.input.get("agent_id")
        elif type(request) is MCPMessageRequest:
            agent_id = self._callers.get(tool_use_id_of(request.message) or "")
        else:
            agent_id = getattr(request, "agent_id", None)
        return await self._METHODS[type(request)](
            self, request, self._context(asked.request_id, agent_id, cancellation)
        )

    def _context(self, request_id: str, agent_id: Any, cancellation: Cancellation) -> HandlerContext:
        if not isinstance(agent_id, str):
            agent_id = self._parent.agent_id if self._parent is not None else None
        return HandlerContext(
            request_id=request_id,
            agent_id=agent_id,
            task=self._find_task(agent_id) if agent_id else None,
            session_id=self.session_id,
            cancellation=cancellation,
        )

    _METHODS: ClassVar[Mapping[type, Callable[[Any, Any, HandlerContext], Awaitable[Payload]]]] = {
        HookCallbackRequest: lambda self, asked, context: self.hooks.answer(
            asked.callback_id, asked.input, asked.tool_use_id, context
        ),
        MCPMessageRequest: lambda self, asked, context: self.mcp.answer(asked.server_name, asked.message, context),
        **dict.fromkeys(
            (CanUseToolRequest, ElicitationRequest, UserDialogRequest),
            lambda self, asked, context: self.person.answer(asked, context),
        ),
    }
    """The method that answers each type of request."""

    def _find_task(self, agent_id: str) -> Any:
        """Return the task of an agent, as the parent tracks it, otherwise as this session does."""
        known = self._parent.find_task(agent_id) if self._parent is not None else None
        return known or self._session.tasks.get(agent_id)

    @cached_property
    def hooks(self) -> "HookDispatcher":
        """Answers hook callbacks."""
        from claude_agent_py._runtime.answering.delegating import DelegationHooks
        from claude_agent_py.hooks.dispatcher import HookDispatcher

        def get_agents() -> Sequence[Any]:
            return self._session.info.agents if self._session.info is not None else ()

        delegation = DelegationHooks(self._options, get_agents)
        return HookDispatcher(
            self._options.hooks,
            report=self._report,
            on_run=self._note_hook_run if self._options.include_hook_events else None,
            builtin=delegation.matchers(),
            final_filter=delegation.last_word,
        )

    @cached_property
    def permissions(self) -> "PermissionDispatcher":
        """Answers permission prompts, questions, elicitations and dialogs with the handlers of this session."""
        from claude_agent_py.permissions.dispatcher import HANDLERS, PermissionDispatcher

        options = self._options
        return PermissionDispatcher(
            {name: getattr(options, name) for name in HANDLERS.values()},
            report=self._report,
            interactions=options.interactions,
            cwd=str(options.cwd) if options.cwd is not None else None,
            on_waiting=self._note_waiting,
            on_answered=self._note_answer,
            on_interaction=self._session.readers.announce_interaction,
        )

    @property
    def person(self) -> "PermissionAnswers":
        """The parent's handlers if this is a child's session that shares them, otherwise `permissions`."""
        return (self._parent.permissions if self._parent is not None else None) or self.permissions

    @cached_property
    def mcp(self) -> "MCPHost":
        """Answers for the MCP servers in this process."""
        from claude_agent_py.tools.host import MCPHost

        def send(server_name: str, message: Payload) -> None:
            self._session.post("mcp_message", server_name=server_name, message=message)

        cwd = os.path.abspath(self._options.cwd or os.curdir)
        host = MCPHost(collect_hosted_servers(self._options), send, report=self._report, cwd=cwd)
        host.workers = self._workers
        return host

    # Lifecycle --------------------------------------------------------------------------------------------------------

    def _load(self) -> None:
        """Load the features that the options use, and raise their errors early."""
        options = self._options
        if needs_hooks(options):
            _ = self.hooks
        if needs_permissions(options):
            _ = self.permissions
        if needs_servers(options):
            _ = self.mcp

    def _get_if_loaded(self, part: str) -> Any:
        """Return a feature if it is loaded, otherwise None."""
        return vars(self).get(part)

    @property
    def has_hooks(self) -> bool:
        """Whether the session has hooks, from the options or added later."""
        hooks = self._get_if_loaded("hooks")
        return hooks is not None and bool(hooks)

    @property
    def has_servers(self) -> bool:
        """Whether MCP servers run in this process."""
        return self._get_if_loaded("mcp") is not None

    def initialize_fields(self) -> Payload:
        """Return the fields of `initialize` that come from hooks and from the servers in this process."""
        hooks = self.hooks.initialize_field() if self._get_if_loaded("hooks") is not None else {}
        servers = self.mcp.initialize_fields() if self._get_if_loaded("mcp") is not None else {}
        return {**({"hooks": hooks} if hooks else {}), **servers}

    def prepare(self) -> None:
        """Build the models of hooks, which the first hook would otherwise wait for."""
        if self._get_if_loaded("hooks") is not None:
            self.hooks.prepare()

    def attach(self, workers: TaskGroup) -> None:
        """Start using the workers of the session."""
        self._workers = workers
        if self._get_if_loaded("mcp") is not None:
            self.mcp.workers = workers
        readers = self._session.readers
        self._session.intake.observe(self._session.note_task_events, wants_progress=lambda: readers.has_event_readers)

    def deliver_with(self, start: Callable[[], object]) -> None:
        """Call `start`, which runs `deliveries`, as soon as there is a listener."""
        self._session.intake.listeners.deliver_with(start)
        if self._stderr is not None:
            start()

    @property
    def deliveries(self) -> Sequence[Callable[[], Awaitable[None]]]:
        """Async functions that each serve some listeners. They return after `end`, once their queues are empty."""
        stderr = () if self._stderr is None else (self._stderr.deliver,)
        return (self._deliver_task_events, *stderr)

    async def _deliver_task_events(self) -> None:
        await self._session.intake.listeners.deliver_forever(self._report)

    def end(self) -> None:
        """Cancel tools and close the queues; listeners still receive queued items."""
        self.has_ended = True
        self._workers = None
        for part in (self._get_if_loaded("mcp"), self._get_if_loaded("permissions")):
            if part is not None:
                part.close()
        self._session.task_list.close()
        if self._stderr is not None:
            self._stderr.end()

    # Messages -------------------------------------------------------------------------------------------

    def track(self, message: Any, line: bytes = b"", /) -> None:
        """Process a message before it is routed and read. `line` is its line if decoding it reproduces the message."""
        kind = type(message)
        if kind is not AssistantMessage or _is_telling(message):  # most messages are plain text
            self._session.intake.track(message, line)
            note = self._NOTES.get(kind)
            if note is not None:
                note(self, message)
        if self._parent is not None:
            self._parent.take(message)

    def _note_assistant(self, message: AssistantMessage) -> None:
        if message.agent_id is not None:
            for call in message.tool_uses:
                self._callers[call.id] = message.agent_id
            while len(self._callers) > CALLS_KEPT:
                del self._callers[next(iter(self._callers))]
        elif message.error == "authentication_failed" and message.api_error_status is None and not message.is_subagent:
            # The CLI has neither key nor login. That is its answer, but the result follows up to 10 s later where name
            # servers do not answer (CLI 2.1.328).
            self._give_up(message.text)
        self._note_conversation(message)

    def _note_conversation(self, message: AssistantMessage | UserMessage) -> None:
        if message.session_id in ("", self.session_id):  # a child agent has its own list
            self._session.task_list.track(message)

    def _note_init(self, message: InitMessage) -> None:
        if self.session_id != message.session_id or self.permission_mode is None:  # the first of a conversation
            self._check_guide(message)
        self.session_id = message.session_id
        self.permission_mode = message.permission_mode
        self._session.task_list.track(message)

    def _note_commands(self, message: CommandsChangedMessage) -> None:
        if self._session.info is not None:
            self._session.info = self._session.info.replace(commands=message.commands)

    def _check_guide(self, message: InitMessage) -> None:
        """Warn if settings files take away the tool that the delegation guide is about."""
        is_told = bool(self._options.delegation_guide) and why_no_agent_tool(self._options) is None
        if is_told and not AGENT_TOOL.intersection(message.tools):
            logger.warning("delegation_guide tells the model to use the tool Agent, which the settings take from it")

    def _note_status(self, message: StatusMessage) -> None:
        self.permission_mode = message.permission_mode or self.permission_mode

    def _note_retry(self, message: APIRetryMessage) -> None:
        """Fail the turn if the API keeps rejecting the key. The CLI would retry ten times, for more than a minute."""
        if message.error_status == UNAUTHORIZED and message.attempt >= PATIENCE:
            self._give_up(f"the API refuses the key or login (HTTP {UNAUTHORIZED}), asked {message.attempt} times")

    _NOTES: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {
        AssistantMessage: _note_assistant,
        UserMessage: _note_conversation,
        InitMessage: _note_init,
        CommandsChangedMessage: _note_commands,
        StatusMessage: _note_status,
        APIRetryMessage: _note_retry,
    }

    def _give_up(self, why: str) -> None:
        """End the current turn with an `AuthenticationError`, after this message is delivered."""

        async def fail() -> None:
            self._session.fail_login(why)

        if self._session.is_open:
            self._session.start_soon(fail)

    def _note_hook_run(self, run: "HookRun") -> None:
        """Announce that a handler ran. The CLI reports only the command hooks of settings files."""
        self._session.readers.announce(run)

    def _note_waiting(self, request_id: str, agent_id: str | None, asked: "Asked | None") -> None:
        """Record the question that a task asks a person, or, with None, that the wait has ended."""
        prompt = f"{request_id} {agent_id}"  # request ids are only unique within a session
        if asked is not None:
            self._session.intake.track_prompt(prompt, agent_id, asked)
        else:
            self._session.intake.track_prompt_end(prompt)
        if self._parent is not None and agent_id is not None:
            self._parent.note_waiting(prompt, agent_id, asked)

    def _note_answer(self, agent_id: str | None, answered: "Answered") -> None:
        """Tell the tasks what a person answered."""
        self._session.intake.track_answer(agent_id, answered)
        if self._parent is not None and agent_id is not None:
            self._parent.note_answer(agent_id, answered)

    def on_stderr_line(self, line: str) -> None:
        """Queue a line of stderr for `on_stderr`."""
        if self._stderr is not None:
            self._stderr.put(line)

    @property
    def stderr_lines_dropped(self) -> int:
        """The number of stderr lines that were dropped."""
        return 0 if self._stderr is None else self._stderr.dropped


def _is_telling(message: Any) -> bool:
    """Return whether an assistant message may concern tasks: from a subagent, with a tool call, or a failure."""
    return message.agent_id is not None or bool(message.tool_uses) or message.error is not None


def _find_session_id(options: ClientOptions) -> str | None:
    """Return the session id that the options determine, or None: a fork gets a new one, and a title is not an id."""
    if options.session_id is not None:
        return str(options.session_id)
    return None if options.fork_session else parse_session_id(options.resume)


def parse_session_id(session: str | None) -> str | None:
    """Return the session id that the option `resume` names, or None for a title."""
    try:
        return None if session is None else str(UUID(session))
    except ValueError:
        return None


def collect_hosted_servers(options: ClientOptions) -> dict[str, Any]:
    """Return the servers in this process by name, including the one for `custom_tools`.

    Raises:
        OptionsError: A server has the name that `custom_tools` need.
    """
    from claude_agent_py.tools.host import is_hosted
    from claude_agent_py.tools.server import ToolServer

    hosted = {name: server for name, server in options.hosted_mcp_servers.items() if is_hosted(server)}
    if options.custom_tools:
        if isinstance(options.mcp_servers, dict) and CUSTOM_TOOLS_SERVER in options.mcp_servers:
            raise OptionsError(
                f"the name {CUSTOM_TOOLS_SERVER!r} is taken by custom_tools; choose another one", option="mcp_servers"
            )
        hosted[CUSTOM_TOOLS_SERVER] = ToolServer(CUSTOM_TOOLS_SERVER, tools=list(options.custom_tools))
    return hosted
