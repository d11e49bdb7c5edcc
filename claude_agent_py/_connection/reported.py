"""`Reported`: what the CLI has reported about a session: its id, permission mode, commands and to-do list."""

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Final

from claude_agent_py._base.checks import is_uuid
from claude_agent_py._base.log import logger
from claude_agent_py._base.streams import LazyEvent
from claude_agent_py._journal.facts import Fact
from claude_agent_py._journal.tasks.ledger import Ledger
from claude_agent_py._journal.views import View
from claude_agent_py.options import ClientOptions
from claude_agent_py.options.delegation import why_no_agent_tool
from claude_agent_py.options.variables import variable
from claude_agent_py.tasks.task_list import TaskList
from claude_agent_py.wire.base import JSONObject
from claude_agent_py.wire.control.initialize import InitializeReply
from claude_agent_py.wire.messages.catalog import AgentInfo, SlashCommand
from claude_agent_py.wire.messages.conversation import AssistantMessage, ResultMessage
from claude_agent_py.wire.messages.occasional import CommandsChangedMessage
from claude_agent_py.wire.messages.system import APIRetryMessage, InitMessage, StatusMessage
from claude_agent_py.wire.settings.rule_lists import AGENT_TOOLS

UNAUTHORIZED: Final = 401
PATIENCE: Final = 3
"""How often the API may reject the key before a run fails. After the first time the CLI renews a login."""


class Reported:
    """What the CLI has reported about a session; at first, what the options say."""

    def __init__(self, options: ClientOptions, earlier: "Reported | None" = None) -> None:
        self._options = options
        self.session_id: str | None = _find_session_id(options)
        """The id of the conversation; None before the first turn unless the options set it."""
        self.permission_mode: str | None = None
        """The permission mode that the CLI reported last; None before its reply to `initialize`."""
        self.spent_before_usd: float = 0.0
        """The cost of earlier processes of the session that the CLI does not know."""
        self.cost_usd: float = 0.0
        """The cost in the last result, which also includes what the CLI knows of earlier processes."""
        self.has_answered: bool = False
        """Whether a turn of this process has ended."""
        self.tools: list[str] | None = None
        """The names of the tools at the start of the last turn; None before the first."""
        self.info: InitializeReply | None = None if earlier is None else earlier.info
        """The CLI's reply to `initialize`; until it arrives, that to the client's last process, or None. Its commands
        are kept up to date."""
        self._has_info = LazyEvent()
        self._commands: list[SlashCommand] | None = None
        """The commands in a message that came after the reply to `initialize`; None without one."""
        self.task_list: TaskList
        """The to-do list, which is that of the client's last process."""
        if earlier is not None:
            self.task_list = earlier.task_list
        else:
            self.task_list = TaskList(is_shared=bool(variable(options, "CLAUDE_CODE_TASK_LIST_ID")))

    def take_reply(self, subtype: str, fields: Mapping[str, object], payload: JSONObject) -> None:
        """Take in the reply to a request, in its place among the messages."""
        if subtype == "initialize":
            self._commands = None
            mode = payload.get("current_permission_mode")
        elif subtype == "set_permission_mode":  # the status message that says so comes later
            mode = payload.get("mode", fields.get("mode"))
        else:
            return
        if isinstance(mode, str):
            self.permission_mode = mode

    def take_info(self, info: InitializeReply) -> None:
        """Take in the CLI's reply to `initialize`, after it was read."""
        self.info = info if self._commands is None else info.replace(commands=self._commands)
        self._has_info.set()

    @property
    def has_info(self) -> bool:
        """Whether this process has replied to `initialize`."""
        return self._has_info.is_set()

    async def find_agents(self) -> Sequence[AgentInfo]:
        """Return the agents that the CLI lists. Its reply to `initialize` may still be on its way to this object."""
        await self._has_info.wait()
        return self.info.agents if self.info is not None else ()

    def track(self, message: object) -> None:
        """Update it from a message of a type in `HANDLERS`."""
        self.HANDLERS[type(message)](self, message)

    def _on_init(self, message: InitMessage) -> None:
        if self.session_id != message.session_id or self.tools is None:  # the first of a conversation
            self._check_guide(message)
        self.session_id = message.session_id
        self.permission_mode = message.permission_mode
        self.tools = message.tools
        self.task_list.track(message)

    def _check_guide(self, message: InitMessage) -> None:
        """Warn if settings files take away the tool that the delegation guide is about."""
        is_told = bool(self._options.delegation_guide) and why_no_agent_tool(self._options) is None
        if is_told and not AGENT_TOOLS.intersection(message.tools):
            logger.warning("delegation_guide tells the model to use the tool Agent, which the settings take from it")

    def _on_result(self, message: ResultMessage) -> None:
        self.has_answered = True
        self.cost_usd = float(message.total_cost_usd)

    def _on_commands(self, message: CommandsChangedMessage) -> None:
        self._commands = message.commands
        if self.info is not None:
            self.info = self.info.replace(commands=message.commands)

    def _on_status(self, message: StatusMessage) -> None:
        self.permission_mode = message.permission_mode or self.permission_mode

    HANDLERS: ClassVar[Mapping[type, Callable[..., None]]] = {
        InitMessage: _on_init,
        ResultMessage: _on_result,
        CommandsChangedMessage: _on_commands,
        StatusMessage: _on_status,
    }


class OwnTaskList(View):
    """Keeps the to-do list of a session. A child agent has a list of its own."""

    def __init__(self, task_list: TaskList, ledger: Ledger) -> None:
        self._list = task_list
        self._records = ledger.records

    def add(self, facts: Sequence[Fact]) -> None:
        """Update the list."""
        for fact in facts:
            record = self._records.get(fact.agent)
            if record is None or not record.is_external:
                self._list.track(fact)


def find_refusal(message: APIRetryMessage | AssistantMessage) -> str | None:
    """Return why the turn fails if the message says that the API refuses the login, or None."""
    if isinstance(message, AssistantMessage):
        # If the CLI has neither key nor login, that is its answer, but the result follows up to 10 s later where name
        # servers do not answer (CLI 2.1.328).
        has_no_login = message.error == "authentication_failed" and message.api_error_status is None
        return message.text if has_no_login and not message.is_subagent else None
    # The CLI would retry ten times, for more than a minute.
    if message.error_status == UNAUTHORIZED and message.attempt >= PATIENCE:
        return f"the API refuses the key or login (HTTP {UNAUTHORIZED}) after {message.attempt} attempts"
    return None


def describe_retry(message: APIRetryMessage) -> str:
    """Return what the API did, so that the CLI sends a request again, and how often it has."""
    status = message.error_status
    did = "could not be reached" if status is None else f"answered with HTTP {status}"
    return f"{did} (retry {message.attempt} of {message.max_retries})"


def _find_session_id(options: ClientOptions) -> str | None:
    """Return the session id that the options determine, or None: a fork gets a new one, and a title is not an id."""
    if options.session_id is not None:
        return str(options.session_id)
    return None if options.fork_session else parse_session_id(options.resume)


def parse_session_id(session: str | None) -> str | None:
    """Return the session id that the option `resume` names, or None for a title."""
    return session.lower() if session is not None and is_uuid(session) else None
