"""Pair tool calls with their results in a stream of messages.

Results arrive in the order of completion, each in a separate user message. A subagent's messages name the subagent.
Calls of nested subagents appear only with `forward_nested_subagent_tool_calls`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from claude_agent_py._configuration import MAX_REPR_CHARS
from claude_agent_py.tools.names import split_tool_name
from claude_agent_py.wire.base import JSONObject, WireModel
from claude_agent_py.wire.messages.content import ContentBlock, TextBlock, ToolResultBlock, ToolUseBlock, text_of
from claude_agent_py.wire.messages.conversation import (
    AssistantMessage,
    PermissionDecision,
    ToolProgressMessage,
    UserMessage,
)
from claude_agent_py.wire.messages.system import PermissionDeniedMessage
from claude_agent_py.wire.messages.tasks import TaskStartedMessage
from claude_agent_py.wire.timestamps import seconds

CANCELLED_KINDS: Final = frozenset({"interrupted", "cancelled"})
"""Values of `non_execution_kind` for a call that was not refused."""


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


@dataclass(frozen=True, kw_only=True, repr=False)
class ToolCallRecord:
    """A tool call and, once available, its result. Immutable: a record without a result stays that way."""

    call: ToolUseBlock = field(repr=False)
    id: str
    name: str
    """The full name: `Bash`, `mcp__server__tool`."""
    result: ToolResultBlock | None = field(default=None, repr=False)
    """The result as the model sees it; None while the call runs or if the run ended first."""
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

    def __repr__(self) -> str:
        caller = "" if self.agent_id is None else f" by {self.agent_id}"
        result = f" -> {_shorten(self.text)}" if self.done else ""
        return f"<ToolCallRecord {self.id} {self.name}({_shorten(str(self.input))}){caller} {self.status}{result}>"

    @property
    def status(self) -> ToolCallStatus:
        """The state of the call. Without a result it stays `pending` or `running`, even after the session's end."""
        if self.result is None:
            return ToolCallStatus.RUNNING if self.is_running else ToolCallStatus.PENDING
        decision = self.permission.decision if self.permission is not None else ""
        if self.non_execution_kind in CANCELLED_KINDS or decision == "cancelled":
            return ToolCallStatus.CANCELLED
        if self.non_execution_kind is not None or decision == "reject":
            return ToolCallStatus.DENIED
        return ToolCallStatus.FAILED if self.is_error else ToolCallStatus.SUCCEEDED

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
        # Imported here because the registry imports hundreds of models.
        from claude_agent_py.wire.tools.registry import typed_output

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
    """Pairs the calls and results in a stream of messages."""

    def __init__(self) -> None:
        self._records: dict[str, ToolCallRecord] = {}
        self._clock: dict[str, float] = {}
        self._denials: dict[str, PermissionDecision] = {}

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

    def fold(self, message: Any, now: float | None = None) -> list[ToolCallRecord]:
        """Process a message of any kind and return the calls that it completes.

        `now`, in seconds of any clock, gives durations when messages have no timestamps.
        """
        match message:
            case AssistantMessage():
                self._mark_running(message.parent_tool_use_id)
                self._add_calls(message, now)
            case UserMessage():
                return list(self._add_results(message, now))
            case TaskStartedMessage() | ToolProgressMessage():
                self._mark_running(message.tool_use_id)
            case PermissionDeniedMessage():
                reason = message.decision_reason_type
                self._denials[message.tool_use_id] = PermissionDecision(decision="reject", reason_type=reason)
            case _:
                pass
        return []

    def _mark_running(self, tool_use_id: str | None) -> None:
        record = self._records.get(tool_use_id or "")
        if record is not None and not record.done and not record.is_running:
            self._records[record.id] = replace(record, is_running=True)

    def _add_calls(self, message: AssistantMessage, now: float | None) -> None:
        metas = {meta.id: meta for meta in message.tool_use_meta or ()}
        for block in message.tool_uses:
            # A replay repeats messages.
            if block.id in self._records:
                continue
            meta = metas.get(block.id)
            self._records[block.id] = ToolCallRecord(
                call=block,
                id=block.id,
                name=block.name,
                agent_id=message.agent_id,
                subagent_type=message.subagent_type,
                parent_tool_use_id=message.parent_tool_use_id,
                display_name=meta.display_name if meta is not None else "",
                started_at=seconds(message.timestamp),
            )
            if now is not None:
                self._clock[block.id] = now

    def _add_results(self, message: UserMessage, now: float | None) -> Iterator[ToolCallRecord]:
        results = message.tool_results
        ended_at = seconds(message.timestamp)
        # In a message with several results, it could belong to any of them.
        tool_use_result = message.tool_use_result if len(results) == 1 else None
        metas = {meta.id: meta for meta in message.tool_result_meta or ()}
        for block in results:
            record = self._records.get(block.tool_use_id)
            if record is None or record.done:
                continue
            meta = metas.get(record.id)
            decision = meta.permission_decision if meta is not None else None
            done = self._records[record.id] = replace(
                record,
                result=block,
                tool_use_result=tool_use_result,
                is_running=False,
                permission=decision or self._denials.pop(record.id, None),
                non_execution_kind=meta.non_execution_kind if meta is not None else None,
                ended_at=ended_at,
                duration=self._compute_duration(record, ended_at, now),
            )
            yield done

    def _compute_duration(self, record: ToolCallRecord, ended_at: float | None, now: float | None) -> float | None:
        begun = self._clock.pop(record.id, None)
        if record.started_at is not None and ended_at is not None:
            return max(0.0, ended_at - record.started_at)
        return None if now is None or begun is None else now - begun
