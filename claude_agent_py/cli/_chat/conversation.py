"""`Conversation`: the entries of a chat, a view of `Client.events(facts=True)`.

Text of agents, tools and tasks is stripped of control characters.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from claude_agent_py._base.display import displayable
from claude_agent_py._base.log import Drops
from claude_agent_py.cli.run_command import describe_call
from claude_agent_py.cli.terminal import MARKS, one_line
from claude_agent_py.journal import MAIN, CallEnded, CallStarted
from claude_agent_py.messages import (
    AssistantMessage,
    ConversationResetMessage,
    InformationalMessage,
    LocalCommandOutputMessage,
    MessageStartEvent,
    NotificationMessage,
    ResultMessage,
    StatusMessage,
    StreamEventMessage,
    TextFold,
    UserMessage,
)
from claude_agent_py.permissions import InteractionOpened, InteractionSettled, OpenQuestion, build_diff
from claude_agent_py.tasks import TaskBackgrounded, TaskFinished, TaskStarted, TaskStatus

Kind: TypeAlias = Literal["answer", "tool", "task", "notice"]

OUTPUT_LINES: Final = 4
CHANGED_LINES: Final = 12
NOTICE_CHARS: Final = 4000
LINE_CHARS: Final = 200
STDOUT: Final = ("<local-command-stdout>", "</local-command-stdout>")


@dataclass(eq=False)
class Entry:
    """One item of a chat: an answer, a tool call, a task or a notice."""

    kind: Kind
    parts: list[str] = field(default_factory=list)
    """The text in pieces, as received. Pieces are only added, never changed."""
    mark: str = ""
    """The mark of a tool call: `→` while it runs, then `✓` or `✗`."""
    changes: list[str] = field(default_factory=list)
    """The file changes of a tool call, as the lines of a diff."""
    output: list[str] = field(default_factory=list)
    """The first lines of a tool call's output."""

    @property
    def text(self) -> str:
        return "".join(self.parts)


def _shorten(changes: list[str]) -> list[str]:
    more = len(changes) - CHANGED_LINES
    return changes if more <= 0 else [*changes[:CHANGED_LINES], f"@@ {more} more lines @@"]


class Conversation:
    """A chat so far.

    Attributes:
        pending: The unanswered questions, oldest first.
    """

    def __init__(self) -> None:
        self.pending: list[OpenQuestion] = []
        self._text = TextFold()
        self._drops = Drops("the chat")
        self._answer: Entry | None = None
        """The answer in progress."""
        self._calls: dict[str, Entry] = {}
        self._descriptions: dict[str, str] = {}
        """The descriptions of tasks, by id."""

    def answered(self, question: OpenQuestion) -> None:
        """Record that the user has answered, without waiting for the session to report it."""
        self.pending = [other for other in self.pending if other is not question]

    def apply(self, event: object) -> list[Entry]:
        """Apply an item of `Client.events(facts=True)`, and return the new and changed entries."""
        changed = [self._on_text(piece) for piece in self._text.feed(event)]
        if changed and isinstance(event, AssistantMessage) and event.is_synthetic:
            self._answer = None
        handle = _HANDLERS.get(type(event))
        try:
            changed.extend((handle and handle(self, event)) or ())
        except Exception:
            self._drops.note(event)
            changed.append(self._notice(f"a {type(event).__name__} cannot be shown"))
        return list(dict.fromkeys(changed))

    def _notice(self, text: str) -> Entry:
        """Add a line about the session."""
        return self._add("notice", displayable(text, NOTICE_CHARS))

    def _add(self, kind: Kind, text: str, mark: str = "") -> Entry:
        entry = Entry(kind, [text] if text else [], mark=mark)
        # A task can end in the middle of an answer, which then continues.
        if kind != "task":
            self._answer = None
        return entry

    def _on_text(self, piece: str) -> Entry:
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
        entry.changes = _shorten(changes)
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
            yield self._notice(text.removeprefix(STDOUT[0]).removesuffix(STDOUT[1]).strip())

    def _on_turn_end(self, message: ResultMessage) -> Iterator[Entry]:
        self._answer = None
        if message.was_interrupted:
            yield self._notice("interrupted")
        elif message.is_error:
            yield self._notice(message.error_text or str(message.subtype))

    def _on_status(self, message: StatusMessage) -> Iterator[Entry]:
        if message.compact_error:
            yield self._notice(f"not compacted: {message.compact_error}")

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


_HANDLERS: Final[dict[type, Callable[..., Iterable[Entry] | None]]] = {
    StreamEventMessage: Conversation._on_stream,
    CallStarted: Conversation._on_call,
    CallEnded: Conversation._on_call_end,
    UserMessage: Conversation._on_user,
    ResultMessage: Conversation._on_turn_end,
    StatusMessage: Conversation._on_status,
    ConversationResetMessage: lambda chat, message: [chat._notice("a new conversation begins")],
    InteractionOpened: Conversation._on_opened,
    InteractionSettled: Conversation._on_settled,
    TaskStarted: Conversation._on_task_started,
    TaskBackgrounded: Conversation._on_backgrounded,
    TaskFinished: Conversation._on_task_finished,
    InformationalMessage: lambda chat, message: [chat._notice(message.content)],
    NotificationMessage: lambda chat, message: [chat._notice(message.text)],
    LocalCommandOutputMessage: lambda chat, message: [chat._notice(message.content)],
}
