"""The tool calls of a session with their results.

Results arrive in the order of completion, each in a separate user message. A subagent's messages name the subagent.
Calls of nested subagents appear only with `forward_nested_subagent_tool_calls`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from claude_agent_py._base.configuration import MAX_REPR_CHARS
from claude_agent_py._base.display import one_line
from claude_agent_py._journal.call_facts import CallFacts, get_call_status, make_cut_off_result
from claude_agent_py._journal.fact_base import Kind, check_time
from claude_agent_py._journal.facts import MAIN, CallEnded, CallRunning, CallStarted, ToolCallStatus as ToolCallStatus
from claude_agent_py._journal.fold import ProcessEnd
from claude_agent_py.wire.base import CUT_OFF, JSONObject, WireModel
from claude_agent_py.wire.messages.content import ContentBlock, TextBlock, ToolResultBlock, ToolUseBlock, text_of
from claude_agent_py.wire.messages.conversation import (
    AssistantMessage,
    PermissionDecision,
    ResultMessage,
    ToolProgressMessage,
    UserMessage,
)
from claude_agent_py.wire.messages.system import InitMessage, PermissionDeniedMessage
from claude_agent_py.wire.messages.tasks import TaskNotificationMessage, TaskStartedMessage
from claude_agent_py.wire.timestamps import seconds
from claude_agent_py.wire.tools.names import split_tool_name
from claude_agent_py.wire.tools.registry import typed_output


@dataclass(frozen=True, kw_only=True, repr=False)
class ToolCallRecord:
    """A tool call and, once available, its result. Immutable: a record without a result stays that way."""

    call: ToolUseBlock = field(repr=False)
    id: str
    name: str
    """The full name: `Bash`, `mcp__server__tool`."""
    result: ToolResultBlock | None = field(default=None, repr=False)
    """The result as the model sees it; None while the call runs.

    A call that was cut off has the result by which the CLI tells the model when it resumes the session.
    """
    tool_use_result: Any = field(default=None, repr=False)
    """The CLI's result for programs. Its shape depends on the tool; errors are strings."""
    agent_id: str | None = None
    """The subagent that called; None for the main agent."""
    subagent_type: str | None = None
    parent_tool_use_id: str | None = None
    """The call that launched that subagent."""
    display_name: str = ""
    """The tool's name for people, if the CLI provides one."""
    permission: PermissionDecision | None = None
    """The permission decision."""
    non_execution_kind: str | None = None
    """Why the call did not run (`user-rejected`, `permission-rule`, `interrupted`, ...); None if it ran."""
    started_at: float | None = None
    """When the model finished writing the call, in seconds since the epoch."""
    ended_at: float | None = None
    """When its result arrived, in seconds since the epoch."""
    duration: float | None = None
    """Seconds from `started_at` to `ended_at`, including waits for permission."""
    is_running: bool = field(default=False, repr=False)
    """Whether a message showed that the tool runs, and the result has not arrived."""

    @classmethod
    def of(cls, fact: CallStarted | CallEnded) -> Self:
        """Return the record of a call of the journal."""
        ended: JSONObject = {}
        if isinstance(fact, CallEnded):
            ended = {
                "result": fact.result,
                "tool_use_result": fact.structured,
                "permission": fact.permission,
                "non_execution_kind": fact.non_execution_kind,
                "ended_at": fact.at,
                "duration": fact.duration,
            }
        return cls(
            call=fact.call,
            id=fact.id,
            name=fact.call.name,
            agent_id=fact.agent or None,
            subagent_type=fact.subagent_type,
            parent_tool_use_id=fact.parent_call,
            display_name=fact.display_name,
            started_at=fact.started_at if isinstance(fact, CallEnded) else fact.at,
            **ended,
        )

    def __repr__(self) -> str:
        caller = "" if self.agent_id is None else f" by {self.agent_id}"
        result = f" -> {_shorten(self.text)}" if self.done else ""
        call = f"{self.id} {self.name}({_shorten(str(self.input))})"
        return one_line(f"<ToolCallRecord {call}{caller} {self.status}{result}>")

    @property
    def status(self) -> ToolCallStatus:
        """The state of the call. A call that was cut off is `cancelled`."""
        if self.result is None:
            return ToolCallStatus.RUNNING if self.is_running else ToolCallStatus.PENDING
        return get_call_status(self.result, self.permission, self.non_execution_kind)

    @property
    def input(self) -> JSONObject:
        """The arguments, as the model wrote them, even if `Allow(updated_input=...)` or a hook replaced them."""
        return self.call.input

    @property
    def typed_input(self) -> "WireModel | JSONObject":
        """The arguments as a built-in tool's model, otherwise as a dict."""
        return self.call.typed_input()

    @property
    def done(self) -> bool:
        """Whether there is a result."""
        return self.result is not None

    @property
    def was_cut_off(self) -> bool:
        """Whether the process, the turn or the subagent ended before the result: what the tool did is unknown."""
        return self.is_error and self.text == CUT_OFF

    def cut_off(self) -> Self:
        """Return the record of a call that gets no result any more."""
        return replace(self, result=make_cut_off_result(self.id), tool_use_result=CUT_OFF)

    @property
    def is_error(self) -> bool:
        """Whether the call failed."""
        return self.result is not None and bool(self.result.is_error)

    @property
    def blocks(self) -> Sequence[ContentBlock]:
        """The result's content as the model sees it; a string becomes one text block."""
        content = self.result.content if self.result is not None else None
        return [TextBlock(text=content)] if isinstance(content, str) else content or []

    @property
    def text(self) -> str:
        """The result's text as the model sees it."""
        return text_of(self.result.content) if self.result is not None else ""

    @property
    def structured(self) -> Any:
        """The result for programs: an MCP tool's structured content, or a built-in tool's output model.

        None if there is neither; see also `tool_use_result`.
        """
        if self.server_name is not None:
            sent = self.tool_use_result
            return sent.get("structuredContent") if isinstance(sent, Mapping) else None
        return typed_output(self.name, self.tool_use_result)

    @property
    def server_name(self) -> str | None:
        """The MCP server in the tool's name; None for a built-in tool."""
        parts = split_tool_name(self.name)
        return parts[0] if parts else None

    @property
    def tool_name(self) -> str:
        """The tool's name without the server prefix."""
        parts = split_tool_name(self.name)
        return parts[1] if parts else self.name


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_REPR_CHARS else f"{line[:MAX_REPR_CHARS]}..."


class ToolTraffic:
    """The calls and results in a stream of messages."""

    def __init__(self) -> None:
        self._calls = CallFacts(self._add)
        self._records: dict[str, ToolCallRecord] = {}
        self._done: list[ToolCallRecord] = []
        """The calls that the latest message completed."""
        self._now: float | None = None
        self._clock: dict[str, float] = {}

    def __repr__(self) -> str:
        return f"<ToolTraffic {len(self._records)} calls, {len(self.pending)} pending>"

    @property
    def calls(self) -> Sequence[ToolCallRecord]:
        """All calls, including pending ones, in the order they were made."""
        return list(self._records.values())

    @property
    def pending(self) -> Sequence[ToolCallRecord]:
        """The calls without a result, in order."""
        return [record for record in self._records.values() if not record.done]

    def get(self, tool_use_id: str) -> ToolCallRecord | None:
        """Return a call by its id, or None."""
        return self._records.get(tool_use_id)

    def forget(self, tool_use_id: str) -> None:
        """Forget a call, to save memory. A later result is ignored."""
        self._records.pop(tool_use_id, None)
        self._clock.pop(tool_use_id, None)

    def fold(self, message: object, now: float | None = None) -> list[ToolCallRecord]:
        """Process a message of any kind and return the calls that it completes.

        `now`, in seconds of any clock, gives durations when messages have no timestamps.
        """
        self._done, self._now = [], now
        calls, at = self._calls, check_time(seconds(getattr(message, "timestamp", None)))
        match message:
            case AssistantMessage():
                calls.mark_running(message.parent_tool_use_id, at)
                calls.start(message, at, message.agent_id or message.parent_tool_use_id or MAIN)
            case UserMessage():
                calls.end(message, at)
            case ToolProgressMessage():
                calls.mark_running(message.call_id, at)
            case TaskStartedMessage():
                calls.mark_running(message.tool_use_id, at)
            case PermissionDeniedMessage():
                calls.deny(message)
            case TaskNotificationMessage():
                calls.leave(message.task_id)
            case ResultMessage():
                calls.cut_off_all(at, of=MAIN)
            case InitMessage():
                calls.cut_off_all(at, of=MAIN)
                calls.cut_off_left(at)
            case ProcessEnd():
                calls.cut_off_all(at)
        return self._done

    def _add(self, kind: Callable[..., Kind], at: float | None, /, **fields: object) -> Kind:
        fact = kind(at=at, **fields)
        record = self._records.get(fact.id)
        if isinstance(fact, CallStarted) and record is None:
            self._records[fact.id] = ToolCallRecord.of(fact)
            if self._now is not None:
                self._clock[fact.id] = self._now
        elif record is None or record.done:
            pass
        elif isinstance(fact, CallRunning):
            self._records[fact.id] = replace(record, is_running=True)
        elif isinstance(fact, CallEnded):  # pragma: no branch - only a journal is told of the progress of a call
            ended = ToolCallRecord.of(fact)
            begun = self._clock.pop(fact.id, None)
            if ended.duration is None and self._now is not None and begun is not None:
                ended = replace(ended, duration=self._now - begun)
            self._records[fact.id] = ended
            self._done.append(ended)
        return fact
