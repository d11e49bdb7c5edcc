"""The features of a session, put together from its options: what answers the CLI, and who is told.

Owns which option reaches which feature. Does not know the pipe: it gives an `Answering` to the connection and takes
its workers from there. Twin: `launch/table.py`, for what an option means to the CLI.

What answers hooks, questions and tools is loaded with the session where the options give it something to do, and when
it is first asked for otherwise: most sessions need little of it, and loading it would make each start slower.
"""

import os
from collections.abc import Awaitable, Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from anyio.abc import TaskGroup

from claude_agent_py.errors import AuthenticationError, HandlerError, OptionsError
from claude_agent_py.options.client_options import ClientOptions
from claude_agent_py.runtime.above import Above
from claude_agent_py.runtime.answering import Answering, PermissionAnswers
from claude_agent_py.runtime.connection import Connection
from claude_agent_py.runtime.listeners import ListenerQueue
from claude_agent_py.tasks.manager import TaskManager
from claude_agent_py.tasks.task_list import TaskList
from claude_agent_py.wire.messages import AssistantMessage, UserMessage
from claude_agent_py.wire.stream import StreamEventMessage
from claude_agent_py.wire.system import APIRetryMessage, InitMessage, StatusMessage

if TYPE_CHECKING:
    from claude_agent_py.hooks.dispatcher import HookDispatcher, HookRun
    from claude_agent_py.permissions.dispatcher import PermissionDispatcher
    from claude_agent_py.tools.host import Caller, MCPHost

CUSTOM_TOOLS_SERVER: Final = "tools"
"""The name of the server that `custom_tools` are offered under: the model sees `mcp__tools__<tool>`."""

CALLERS_KEPT: Final = 10_000

UNAUTHORIZED: Final = 401
PATIENCE: Final = 3
"""How often the API may refuse the key before a run fails: the CLI renews a login after the first time."""


class Callers:
    """Which subagent made which tool call: a tool call over MCP names only its id."""

    def __init__(self, tasks: TaskManager) -> None:
        self._tasks = tasks
        self._agents: dict[str, str] = {}

    def note(self, message: AssistantMessage) -> None:
        """Remember the tool calls of a subagent's message."""
        if message.agent_id is not None:
            for call in message.tool_uses:
                self._agents[call.id] = message.agent_id
            while len(self._agents) > CALLERS_KEPT:
                del self._agents[next(iter(self._agents))]

    def find(self, tool_use_id: str) -> "Caller | None":
        """Give who made the call; None for the main agent."""
        from claude_agent_py.tools.host import Caller

        agent_id = self._agents.get(tool_use_id)
        return None if agent_id is None else Caller(agent_id=agent_id, task=self._tasks.get(agent_id))


class Features:
    """Everything of a session that is neither the pipe nor the protocol."""

    def __init__(
        self,
        options: ClientOptions,
        tasks: TaskManager,
        task_list: TaskList,
        report: Callable[[HandlerError], None],
        above: Above | None = None,
    ) -> None:
        self._tasks = tasks
        self._above = above
        self._task_list = task_list
        self._report = report
        self.session_id: str | None = _given_session_id(options)
        """The id of the conversation; None before the first turn where the options do not give it."""
        self.permission_mode: str | None = None
        """The permission mode as the CLI said last; None before the first turn."""
        self._callers = Callers(tasks)
        self._tracked: Any = None
        """The message that the tasks are taking in."""
        self._announce_interaction: Callable[[Any], None] = lambda event: None
        self._announce: Callable[[Any], None] | None = None
        """Shows something to who reads all messages of the session."""
        self._give_up: Callable[[str], None] | None = None
        """Ends the turn under way with an `AuthenticationError`."""
        self.has_ended: bool = False
        """Whether nothing more comes from the CLI."""
        self._options = options
        self._attach_host: Callable[[MCPHost], None] = lambda host: None
        """Brings servers of this process to the running session."""
        self.answering: Answering = Answering(
            hooks=lambda: self.hooks,
            permissions=lambda: self.answering_permissions,
            mcp=lambda: self.mcp,
            find_task=self._find_task,
            on_hook=tasks.track_hook,
            main_agent_id=above.agent_id if above else None,
        )
        self._check()
        self._stderr = None if options.on_stderr is None else ListenerQueue(options.on_stderr, report)
        if options.on_task_notification is not None:
            tasks.on("notification", options.on_task_notification)
        if options.on_task_event is not None:
            tasks.on(options.on_task_event)
        self.background: Sequence[Callable[[], Awaitable[None]]] = (tasks.reconcile_forever,)
        self.deliveries: Sequence[Callable[[], Awaitable[None]]] = (
            self._deliver_task_events,
            *(() if self._stderr is None else (self._stderr.deliver,)),
        )

    # What answers ------------------------------------------------------------------------------------------------

    @cached_property
    def hooks(self) -> "HookDispatcher":
        """What answers hooks."""
        from claude_agent_py.hooks.dispatcher import HookDispatcher

        on_run = self._note_hook_run if self._options.include_hook_events else None
        return HookDispatcher(self._options.hooks, report=self._report, on_run=on_run)

    @cached_property
    def permissions(self) -> "PermissionDispatcher":
        """What answers for a person in this session."""
        from claude_agent_py.permissions.dispatcher import PermissionDispatcher

        options = self._options
        return PermissionDispatcher(
            report=self._report,
            can_use_tool=options.can_use_tool,
            on_question=options.on_question,
            on_plan=options.on_plan,
            on_elicitation=options.on_elicitation,
            on_user_dialog=options.on_user_dialog,
            interactions=options.interactions,
            cwd=str(options.cwd) if options.cwd is not None else None,
            on_waiting=self._note_waiting,
            on_interaction=lambda event: self._announce_interaction(event),
        )

    @property
    def answering_permissions(self) -> PermissionAnswers:
        """What answers for a person: this session's handlers, or its parent's."""
        return (self._above.permissions if self._above else None) or self.permissions

    @cached_property
    def mcp(self) -> "MCPHost":
        """What answers for the servers in this process."""
        from claude_agent_py.tools.host import MCPHost

        host = MCPHost(
            hosted_servers(self._options),
            report=self._report,
            cwd=os.path.abspath(self._options.cwd or os.curdir),
        )
        self._attach_host(host)
        return host

    @property
    def has_hooks(self) -> bool:
        """Whether the session has hooks of its own, from the options or added since."""
        dispatcher = self._loaded("hooks")
        return dispatcher is not None and bool(dispatcher.initialize_field())

    def _loaded(self, part: str) -> Any:
        """Give one of these where it is there; None where nobody has needed it yet."""
        return vars(self).get(part)

    def _check(self) -> None:
        """Load what the options give something to do; what is wrong with it is an error now.

        Raises:
            OptionsError: A handler, hook or server is wrong.
        """
        options = self._options
        persons = (options.can_use_tool, options.on_question, options.on_plan, options.on_elicitation)
        if options.hooks is not None:
            _ = self.hooks
        if any(handler is not None for handler in (*persons, options.on_user_dialog, options.interactions)):
            _ = self.permissions
        if options.custom_tools or options.hosted_mcp_servers:
            _ = self.mcp

    def prepare(self) -> None:
        """Build what the first hook would have to wait for."""
        if self._loaded("hooks") is not None:
            self.hooks.prepare()

    def _find_task(self, agent_id: str) -> Any:
        """Give the task of an agent, as it is known above where it is."""
        known = self._above.find_task(agent_id) if self._above is not None else None
        return known or self._tasks.get(agent_id)

    def _note_hook_run(self, run: "HookRun") -> None:
        """Show that a handler ran: the CLI's own hook events say so of settings' command hooks only."""
        if self._announce is not None:
            self._announce(run)

    def _note_waiting(self, request_id: str, agent_id: str | None, waiting: bool) -> None:
        """Let the tasks know that one of them waits for a person, or no longer."""
        prompt = f"{request_id} {agent_id}"  # child agents have request ids of their own
        if waiting:
            self._tasks.track_prompt(prompt, agent_id)
        else:
            self._tasks.track_prompt_end(prompt)
        if self._above is not None and agent_id is not None:
            self._above.note_waiting(prompt, agent_id, waiting)

    async def _deliver_task_events(self) -> None:
        await self._tasks.deliver_forever(self._report)

    # For the connection ------------------------------------------------------------------------------------------

    def track(self, message: Any, line: bytes = b"", /) -> None:
        """Take a message before anybody else does: the pump's way to the tasks and to listeners."""
        if type(message) is not StreamEventMessage and not _is_mere_text(message):  # which most messages are
            self._note(message, line)
        if self._above is not None:
            self._above.take(message)

    def _note(self, message: Any, line: bytes) -> None:
        self._tracked = message
        self._tasks.track(message, line)
        self._tracked = None
        kind = type(message)
        if kind is AssistantMessage:
            self._callers.note(message)
            self._note_missing_login(message)
        if kind is AssistantMessage or kind is UserMessage:
            if message.session_id in ("", self.session_id):  # a child agent has a list of its own
                self._task_list.track(message)
        elif kind is InitMessage:
            self.session_id = message.session_id
            self.permission_mode = message.permission_mode
            self._task_list.track(message)
        elif kind is StatusMessage:
            self.permission_mode = message.permission_mode or self.permission_mode
        elif kind is APIRetryMessage:
            self._note_retry(message)

    def _note_missing_login(self, message: AssistantMessage) -> None:
        """End the run as soon as the CLI says that it has neither key nor login, without having asked the API.

        That is its answer, but the result follows up to 10 s later where name servers do not answer (CLI 2.1.328).
        """
        is_missing = message.error == "authentication_failed" and message.api_error_status is None
        if is_missing and not message.is_subagent and self._give_up is not None:
            self._give_up(message.text)

    def _note_retry(self, message: APIRetryMessage) -> None:
        """Give up on a key that the API refuses: the CLI asks ten times, for more than a minute."""
        if message.error_status == UNAUTHORIZED and message.attempt >= PATIENCE and self._give_up is not None:
            self._give_up(f"the API refuses the key or login (HTTP {UNAUTHORIZED}), asked {message.attempt} times")

    def live_ids(self) -> frozenset[str]:
        """Give the ids of the live tasks."""
        return self._tasks.live_ids()

    def on_stderr_line(self, line: str) -> None:
        """Take a line of stderr."""
        if self._stderr is not None:
            self._stderr.put(line)

    @property
    def stderr_lines_dropped(self) -> int:
        """How many lines of stderr `on_stderr` was not told."""
        return 0 if self._stderr is None else self._stderr.dropped

    def initialize_fields(self) -> dict[str, Any]:
        """Give the fields of `initialize` that come from hooks and in-process servers."""
        hooks = self.hooks.initialize_field() if self._loaded("hooks") else {}
        servers = self.mcp.initialize_fields() if self._loaded("mcp") else {}
        return {**({"hooks": hooks} if hooks else {}), **servers}

    def attach(self, connection: Connection, workers: TaskGroup) -> None:
        """Say how the features reach the running session."""

        def send(server_name: str, message: dict[str, Any]) -> None:
            connection.post("mcp_message", server_name=server_name, message=message)

        self._attach_host = lambda host: host.attach(send, workers, find_caller=self._callers.find)
        if self._loaded("mcp") is not None:
            self._attach_host(self.mcp)
        self._announce = connection.readers.announce
        self._give_up = lambda why: connection.start_soon(_fail_turn, connection, why)
        self._announce_interaction = connection.readers.announce_interaction

        def observe(events: Sequence[Any]) -> None:
            connection.readers.announce_events(events, self._tracked)
            if self._tracked is None:
                connection.settle_soon()

        self._tasks.observe(observe)

    def end(self) -> None:
        """Nothing more will come: listeners hear what is left, tools are cancelled."""
        self.has_ended = True
        self._attach_host = lambda host: None
        for part in (self._loaded("mcp"), self._loaded("permissions")):
            if part is not None:
                part.close()
        self._task_list.close()
        if self._stderr is not None:
            self._stderr.end()


def _given_session_id(options: ClientOptions) -> str | None:
    """Return the id that the session is told to have, or None: that of a copy is new, and a title says nothing."""
    if options.session_id is not None:
        return str(options.session_id)
    if options.resume is None or options.fork_session:
        return None
    try:
        return str(UUID(options.resume))
    except ValueError:
        return None


def _is_mere_text(message: Any) -> bool:
    """Whether it is something that the main agent says, no call and no failure: nothing in it is about tasks."""
    is_said = type(message) is AssistantMessage and message.agent_id is None
    return is_said and not message.tool_uses and message.error is None


async def _fail_turn(connection: Connection, why: str) -> None:
    connection.runs.fail_turn(lambda: AuthenticationError(why))


def hosted_servers(options: ClientOptions) -> dict[str, Any]:
    """Give the servers that run in this process, by name, `custom_tools` among them.

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
