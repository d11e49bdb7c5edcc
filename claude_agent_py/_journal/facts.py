"""The facts of a session: what happened, in order. `fold` makes them, views read them.

The facts about tasks are in `tasks.events`: they are the events of the ledger.

A field that the source does not know is absent. The twin of this module is `docs/the-journal.md`.
"""

from enum import StrEnum
from typing import Any, ClassVar, Final, Literal, TypeAlias

from msgspec import field

from claude_agent_py._journal.fact_base import MAIN as MAIN, AnyFact as AnyFact, Spent as Spent, Tokens as Tokens
from claude_agent_py._journal.requests import RequestKind as RequestKind, RequestStatus as RequestStatus
from claude_agent_py._journal.tasks.events import (
    TaskAnswered as TaskAnswered,
    TaskAsked as TaskAsked,
    TaskBackgrounded as TaskBackgrounded,
    TaskChanged as TaskChanged,
    TaskFact,
    TaskFinished as TaskFinished,
    TaskOutputAvailable as TaskOutputAvailable,
    TaskProgressed as TaskProgressed,
    TaskReopened as TaskReopened,
    TaskRevised as TaskRevised,
    TaskStarted as TaskStarted,
    TaskStatusChanged as TaskStatusChanged,
)
from claude_agent_py.wire.base import JSONObject, Number
from claude_agent_py.wire.messages.content import ContentBlock, ToolResultBlock, ToolUseBlock
from claude_agent_py.wire.messages.conversation import PermissionDecision

VERSION: Final = 1
"""The version of the JSON form. It changes if a field changes its meaning; new fields and facts do not."""

TurnStatus: TypeAlias = Literal["ok", "error", "cancelled"]
"""How a turn ended."""


class ToolCallStatus(StrEnum):
    """The state of a tool call, as seen in the messages."""

    PENDING = "pending"
    """No message shows yet that the tool runs. The call may wait for permission or for another call."""
    RUNNING = "running"
    """The CLI reported progress of the call, a task or a subagent's message."""
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    """The tool ran, or its arguments were checked, and the result is an error."""
    DENIED = "denied"
    """A person, a rule, a hook or a permission handler refused the call."""
    CANCELLED = "cancelled"
    """The call was interrupted or cancelled."""

    @property
    def is_terminal(self) -> bool:
        """Whether the call has its result."""
        return self not in (ToolCallStatus.PENDING, ToolCallStatus.RUNNING)


# Prompts, turns and messages -------------------------------------------------------------------------------------


class PromptSent(AnyFact):
    """A prompt was sent. `id` is its uuid, or `#1`, `#2`, ... if it has none."""

    fact: ClassVar[Literal["prompt_sent"]] = "prompt_sent"
    content: str | list[ContentBlock]


class TurnStarted(AnyFact):
    """A turn started. `id` is the id of the run, a slash and the number of the turn in the run.

    A turn that leaves nothing in the conversation does not count: `2+1` is the first one after turn 2.
    """

    fact: ClassVar[Literal["turn_started"]] = "turn_started"
    run: str
    """The first prompt of the run: a prompt, and all turns up to the next one."""
    prompts: tuple[str, ...] = ()
    """The prompts that the turn answers; none if finished tasks caused it."""
    causes: tuple[str, ...] = ()
    """The tasks that caused it, if known."""
    session_id: str = ""


class TurnEnded(AnyFact):
    """A turn ended. Its usage includes the subagents since the turn before it."""

    fact: ClassVar[Literal["turn_ended"]] = "turn_ended"
    run: str
    status: TurnStatus = "ok"
    is_silent: bool = False
    """Whether it leaves nothing in the conversation, because no model answered."""
    causes: tuple[str, ...] = ()
    """The tasks whose end caused it."""
    text: str = ""
    error: str = ""
    stop_reason: str | None = None
    terminal_reason: str | None = None
    duration: float | None = None
    """Seconds, as reported by the CLI."""
    tokens: Tokens | None = None
    """Tokens of the main agent."""
    cost_usd: float | None = None
    """US dollars, as estimated by the CLI; None without a result."""
    models: dict[str, Spent] = field(default_factory=dict)


class MessageAdded(AnyFact):
    """The model wrote a part of an answer. `id` is the id of the API message, the same for all of its parts.

    A part without content reports more of the tokens. Calls of tools are facts of their own.
    """

    fact: ClassVar[Literal["message_added"]] = "message_added"
    content: list[ContentBlock] = field(default_factory=list)
    model: str = ""
    tokens: Tokens | None = None
    """Tokens of the API message so far."""
    is_complete: bool = False
    """Whether `tokens` has all output tokens. Parts of a running message have only those of its start."""
    stop_reason: str | None = None
    error: str | None = None
    """Why the API request failed; then the content is a text of the CLI."""
    is_synthetic: bool = False
    """Whether the CLI wrote it without a model."""


class InputAdded(AnyFact):
    """The CLI added a text to a conversation: the prompt of a subagent, a note, a reminder. `id` is its uuid."""

    fact: ClassVar[Literal["input_added"]] = "input_added"
    content: str | list[ContentBlock]


# Calls of tools --------------------------------------------------------------------------------------------------


class _Call(AnyFact):
    call: ToolUseBlock
    message: str = ""
    """The id of the API message that contains the call."""
    parent_call: str | None = None
    """The call that launched the subagent that made this one."""
    subagent_type: str | None = None
    display_name: str = ""
    """The tool's name for people, if the CLI provides one."""
    is_unlisted: bool = False
    """Whether the CLI's list of tools lacks the name, which the model may have invented."""


class CallStarted(_Call):
    """The model called a tool."""

    fact: ClassVar[Literal["call_started"]] = "call_started"


class CallRunning(AnyFact):
    """The CLI showed that a tool runs."""

    fact: ClassVar[Literal["call_running"]] = "call_running"


class CallProgressed(AnyFact):
    """A tool in this process reported its progress. `id` is the id of the call."""

    fact: ClassVar[Literal["call_progressed"]] = "call_progressed"
    progress: Number
    total: Number | None = None
    """What `progress` is when it is done, if known."""
    text: str = ""


class CallEnded(_Call):
    """A tool returned its result."""

    fact: ClassVar[Literal["call_ended"]] = "call_ended"
    result: ToolResultBlock
    structured: Any = None
    """The CLI's result for programs."""
    status: ToolCallStatus
    permission: PermissionDecision | None = None
    non_execution_kind: str | None = None
    """Why the tool did not run."""
    started_at: float | None = None
    """When the call started, in seconds since the epoch."""

    @property
    def duration(self) -> float | None:
        """Seconds from `started_at` to `at`, including waits for permission."""
        return None if self.started_at is None or self.at is None else max(0.0, self.at - self.started_at)


# Requests --------------------------------------------------------------------------------------------------------


class RequestOpened(AnyFact):
    """The CLI asked a handler or a person, or called a hook."""

    fact: ClassVar[Literal["request_opened"]] = "request_opened"
    kind: RequestKind
    name: str = ""
    """The tool, the event of a hook, the server of an elicitation, or the kind of a dialog."""
    call: str | None = None
    """The tool call that it is about."""
    tool: str = ""
    """The tool of a hook's event."""
    input: str | JSONObject = ""
    """The input of the tool, or the text of the question."""
    handler: str = ""
    """The hook that is called, if known."""


class RequestSettled(AnyFact):
    """A request was answered, withdrawn, or ended with the session."""

    fact: ClassVar[Literal["request_settled"]] = "request_settled"
    kind: RequestKind
    name: str = ""
    status: RequestStatus
    handler: str = ""
    """The hook that answered, if known."""
    reply: str | JSONObject | None = None


# The session -----------------------------------------------------------------------------------------------------


class RequestRetried(AnyFact):
    """A request to the API failed and is sent again."""

    fact: ClassVar[Literal["request_retried"]] = "request_retried"
    attempt: Number
    max_retries: Number = 0
    delay: float = 0.0
    """Seconds until the next attempt."""
    error: str = ""
    error_status: Number | None = None
    """The HTTP status."""


class StateChanged(AnyFact):
    """The session is `idle`, `running`, or waits for an action of a person (`requires_action`)."""

    fact: ClassVar[Literal["state_changed"]] = "state_changed"
    state: str


class Fault(AnyFact):
    """The CLI wrote a line that cannot be read."""

    fact: ClassVar[Literal["fault"]] = "fault"
    error: str


Fact: TypeAlias = (
    PromptSent
    | TurnStarted
    | TurnEnded
    | MessageAdded
    | InputAdded
    | CallStarted
    | CallRunning
    | CallProgressed
    | CallEnded
    | TaskFact
    | RequestOpened
    | RequestSettled
    | RequestRetried
    | StateChanged
    | Fault
)
"""Any fact. The key `fact` of the JSON form names it: `prompt_sent`, `turn_started`, ..."""
