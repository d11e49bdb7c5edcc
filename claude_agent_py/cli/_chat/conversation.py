"""`Conversation`: the entries of a chat, a view of `Client.events()` and of its journal. Independent of the terminal.

Text of agents, tools and tasks is stripped of control characters.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from claude_agent_py._journal.facts import MAIN, CallEnded, CallStarted
from claude_agent_py._journal.fold import Journal
from claude_agent_py._journal.tasks.events import TaskBackgrounded, TaskFinished, TaskStarted
from claude_agent_py._journal.text import TextFold
from claude_agent_py.cli.diffs import build_diff, shorten
from claude_agent_py.cli.questions import OpenQuestion
from claude_agent_py.cli.run_command import describe_call
from claude_agent_py.cli.terminal import MARKS, one_line
from claude_agent_py.permissions.interactions import InteractionOpened, InteractionSettled
from claude_agent_py.permissions.requests import displayable
from claude_agent_py.wire.base import SYNTHETIC_MODEL
from claude_agent_py.wire.messages.conversation import AssistantMessage, ResultMessage, UserMessage
from claude_agent_py.wire.messages.occasional import (
    ConversationResetMessage,
    LocalCommandOutputMessage,
    NotificationMessage,
)
from claude_agent_py.wire.messages.stream import MessageStartEvent, StreamEventMessage
from claude_agent_py.wire.messages.system import (
    APIRetryMessage,
    InformationalMessage,
    InitMessage,
    StatusMessage,
)
from claude_agent_py.wire.messages.tasks import TaskStatus
from claude_agent_py.wire.messages.usage import TOKEN_FIELDS, ModelUsage

Kind: TypeAlias = Literal["prompt", "answer", "tool", "task", "notice", "error"]

OUTPUT_LINES: Final = 4
CHANGED_LINES: Final = 12
NOTICE_CHARS: Final = 4000
LINE_CHARS: Final = 200
STDOUT: Final = ("<local-command-stdout>", "</local-command-stdout>")


@dataclass(eq=False)
class Entry:
    """One item of a chat: a prompt, an answer, a tool call, a task or a notice."""

    kind: Kind
    parts: list[str] = field(default_factory=list)
    """The text in pieces, as received. Pieces are only added, never changed."""
    is_plain: bool = False
    """Whether the answer is the output of a command, not Markdown."""
    mark: str = ""
    """The mark of a tool call: `→` while it runs, then `✓` or `✗`."""
    changes: list[str] = field(default_factory=list)
    """The file changes of a tool call, as the lines of a diff."""
    output: list[str] = field(default_factory=list)
    """The first lines of a tool call's output."""

    @property
    def text(self) -> str:
        return "".join(self.parts)


class Spent(NamedTuple):
    """What a session has spent."""

    cost_usd: float = 0.0
    tokens: int = 0
    """Read and written."""


class Conversation:
    """A chat so far.

    Attributes:
        entries: The items of the chat, in order.
        pending: The unanswered questions, oldest first.
        model: The model's name; empty if unknown.
        permission_mode: The permission mode; empty if unknown.
        spent: The cost and the tokens of the session.
        activity: What the CLI does instead of answering, such as retrying or compacting; or empty.
    """

    def __init__(self, *, model: str = "", permission_mode: str = "") -> None:
        self.entries: list[Entry] = []
        self.pending: list[OpenQuestion] = []
        self.model = model
        self.permission_mode = permission_mode
        self.spent = Spent()
        self.activity = ""
        self._journal = Journal()
        self._text = TextFold()
        self._answer: Entry | None = None
        """The answer in progress."""
        self._calls: dict[str, Entry] = {}
        self._descriptions: dict[str, str] = {}
        """The descriptions of tasks, by id."""
        self._unanswered = 0
        self._is_running = False

    @property
    def is_working(self) -> bool:
        """Whether a turn is running, or a prompt is waiting for one."""
        return self._unanswered > 0 or self._is_running

    # Actions of the user -----------------------------------------------------------------------------------------

    def prompt(self, text: str) -> Entry:
        """Add a prompt. It counts as unanswered until `finish_prompt`."""
        self._unanswered += 1
        return self._add("prompt", displayable(text, len(text)))

    def finish_prompt(self) -> None:
        """Record that the run of a prompt has ended."""
        self._unanswered -= 1

    def notice(self, text: str, *, is_error: bool = False) -> Entry:
        """Add a line about the session."""
        return self._add("error" if is_error else "notice", displayable(text, NOTICE_CHARS))

    def answered(self, question: OpenQuestion) -> None:
        """Record that the user has answered, without waiting for the session to report it."""
        self.pending = [other for other in self.pending if other is not question]

    def end_process(self) -> None:
        """Record that the CLI process has exited."""
        self._is_running = False
        self._answer = None
        self.activity = ""
        self.pending.clear()

    def replay(self, messages: Iterable[object]) -> None:
        """Add the prompts, answers and tool calls of stored messages."""
        for message in messages:
            if isinstance(message, UserMessage) and not message.is_subagent:
                # A user message starts a new answer even if it is not shown, as a notification.
                self._answer = None
                if not message.is_synthetic:
                    self._replay_prompt(message.text.strip())
            if isinstance(message, AssistantMessage | UserMessage):
                self.apply(message)
        self._answer = None

    def _replay_prompt(self, text: str) -> None:
        # Messages that begin with "<" are from the CLI, such as notifications.
        if text.startswith("[Request interrupted"):
            self.notice("interrupted")
        elif text and not text.startswith("<"):
            self._add("prompt", displayable(text, len(text)))

    # Events of the session --------------------------------------------------------------------------------------

    def apply(self, event: object) -> list[Entry]:
        """Apply an item of `Client.events()`, and return the new and changed entries."""
        changed = [self._on_text(piece) for piece in self._text.feed(event)]
        if changed and isinstance(event, AssistantMessage) and event.model == SYNTHETIC_MODEL:
            changed[0].is_plain = True
            self._answer = None
        for item in (*self._journal.feed(event), event):
            handle = _HANDLERS.get(type(item))
            if handle is not None:
                changed.extend(handle(self, item) or ())
        return list(dict.fromkeys(changed))

    def _add(self, kind: Kind, text: str, mark: str = "") -> Entry:
        entry = Entry(kind, [text] if text else [], mark=mark)
        self.entries.append(entry)
        # A task can end in the middle of an answer, which then continues.
        if kind != "task":
            self._answer = None
        return entry

    def _on_text(self, piece: str) -> Entry:
        self.activity = ""
        if self._answer is None:
            piece = piece.lstrip("\n")
            self._answer = self._add("answer", "")
        self._answer.parts.append(displayable(piece, len(piece)))
        return self._answer

    def _on_stream(self, message: StreamEventMessage) -> None:
        if isinstance(message.event, MessageStartEvent) and message.parent_tool_use_id is None:
            self._answer = None

    def _on_call(self, fact: CallStarted) -> Iterator[Entry]:
        if fact.agent != MAIN:
            return
        call = fact.call
        changes = build_diff(call.name, call.input)
        path = call.input.get("file_path") or call.input.get("notebook_path")
        line = displayable(f"{call.name} {path}", LINE_CHARS) if changes else describe_call(call)
        entry = self._add("tool", line, "→")
        self._calls[call.id] = entry
        entry.changes = shorten(changes, CHANGED_LINES)
        yield entry

    def _on_call_end(self, fact: CallEnded) -> Iterator[Entry]:
        entry = self._calls.pop(fact.id, None)
        if entry is None:
            return
        result = fact.result
        entry.mark = "✗" if result.is_error else "✓"
        if result.is_error or fact.call.name.startswith("Bash"):
            lines = [displayable(line, LINE_CHARS) for line in result.text.strip().splitlines()]
            more = [f"… {len(lines) - OUTPUT_LINES} more lines"] if len(lines) > OUTPUT_LINES else []
            entry.output = lines[:OUTPUT_LINES] + more
        yield entry

    def _on_user(self, message: UserMessage) -> Iterator[Entry]:
        # The CLI sends the output of a slash command as a user message.
        text = message.text.strip()
        if text.startswith(STDOUT[0]) and not message.is_subagent:
            yield self.notice(text.removeprefix(STDOUT[0]).removesuffix(STDOUT[1]).strip())

    def _on_turn_end(self, message: ResultMessage) -> Iterator[Entry]:
        self._answer = None
        self.activity = ""
        self._is_running = False
        # The totals of a new process may begin at 0, or continue those of the process before it.
        total = Spent(float(message.total_cost_usd), _count_tokens(message.model_usage))
        added = message.model_usage_since_last_result or {}
        cost = self.spent.cost_usd + sum(float(used.cost_usd) for used in added.values())
        self.spent = max(total, Spent(cost, self.spent.tokens + _count_tokens(added)), key=lambda spent: spent.tokens)
        if str(message.terminal_reason).startswith("aborted"):
            yield self.notice("interrupted")
        elif message.is_error:
            yield self.notice(message.error_text or str(message.subtype), is_error=True)

    def _on_init(self, message: InitMessage) -> None:
        # Each turn begins with an init message.
        self._is_running = True
        self.model = displayable(message.model, LINE_CHARS)
        self.permission_mode = message.permission_mode or self.permission_mode

    def _on_status(self, message: StatusMessage) -> Iterator[Entry]:
        self.permission_mode = message.permission_mode or self.permission_mode
        self.activity = "compacting" if message.status == "compacting" else ""
        if message.compact_error:
            yield self.notice(f"not compacted: {message.compact_error}", is_error=True)

    def _on_retry(self, message: APIRetryMessage) -> None:
        status = f" {message.error_status}" if message.error_status else ""
        self.activity = f"API error{status}, attempt {message.attempt} of {message.max_retries}"

    def _on_opened(self, event: InteractionOpened) -> None:
        self.pending.append(OpenQuestion(event.interaction))

    def _on_settled(self, event: InteractionSettled) -> None:
        self.pending = [question for question in self.pending if question.interaction is not event.interaction]

    def _on_task_started(self, event: TaskStarted) -> None:
        self._descriptions[event.task_id] = event.description

    def _on_backgrounded(self, event: TaskBackgrounded) -> Iterator[Entry]:
        description = self._descriptions.get(event.task_id) or event.task_id
        yield self._add("task", one_line(f"{description} moved to the background", LINE_CHARS), "↓")

    def _on_task_finished(self, event: TaskFinished) -> Iterator[Entry]:
        outcome = event.outcome
        description = outcome.description or self._descriptions.get(event.task_id) or event.task_id
        line = f"{description} {outcome.status}"
        if outcome.duration is not None:
            line += f" {outcome.duration:.1f}s"
        if outcome.status is TaskStatus.FAILED and outcome.failure_reason:
            line += f": {outcome.failure_reason}"
        yield self._add("task", one_line(line, LINE_CHARS), MARKS[outcome.status][0])


def _count_tokens(usage: Mapping[str, ModelUsage]) -> int:
    return int(sum(getattr(used, name) for used in usage.values() for name in TOKEN_FIELDS))


_HANDLERS: Final[dict[type, Callable[[Conversation, Any], Iterable[Entry] | None]]] = {
    StreamEventMessage: Conversation._on_stream,
    CallStarted: Conversation._on_call,
    CallEnded: Conversation._on_call_end,
    UserMessage: Conversation._on_user,
    ResultMessage: Conversation._on_turn_end,
    InitMessage: Conversation._on_init,
    StatusMessage: Conversation._on_status,
    APIRetryMessage: Conversation._on_retry,
    ConversationResetMessage: lambda chat, message: [chat.notice("a new conversation begins")],
    InteractionOpened: Conversation._on_opened,
    InteractionSettled: Conversation._on_settled,
    TaskStarted: Conversation._on_task_started,
    TaskBackgrounded: Conversation._on_backgrounded,
    TaskFinished: Conversation._on_task_finished,
    InformationalMessage: lambda chat, message: [chat.notice(message.content)],
    NotificationMessage: lambda chat, message: [chat.notice(message.text)],
    LocalCommandOutputMessage: lambda chat, message: [chat.notice(message.content)],
}
