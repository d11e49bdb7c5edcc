"""`CallFacts`: the part of the journal that pairs the calls of tools with their results."""

from collections.abc import Iterable, Mapping, Set
from typing import Final

import msgspec

from claude_agent_py._journal.fact_base import Add
from claude_agent_py._journal.facts import CallEnded, CallProgressed, CallRunning, CallStarted, ToolCallStatus
from claude_agent_py._journal.requests import PROGRESS
from claude_agent_py.wire.base import CUT_OFF, INTERRUPTED, REJECTED, Number, WireModel
from claude_agent_py.wire.control.asks import MCPMessageRequest
from claude_agent_py.wire.fitting import read
from claude_agent_py.wire.messages.content import TextBlock, ToolResultBlock, ToolUseBlock
from claude_agent_py.wire.messages.conversation import AssistantMessage, PermissionDecision, UserMessage
from claude_agent_py.wire.messages.system import PermissionDeniedMessage

_CANCELLED_KINDS: Final = frozenset({"interrupted", "cancelled"})
"""Values of `non_execution_kind` for a call that was not refused."""
_CANCELLED: Final = (
    INTERRUPTED,
    "Tool permission request failed: AbortError",
    "[Tool call ",
    "[Agent call interrupted",
)
"""The start of the result of a call that was stopped or cut off, or whose permission could not be asked for in time."""
_TOO_LARGE: Final = ("<persisted-output>", "Error: result (")
"""How the CLI's notes begin that stand for a result in a file."""
_OF_CALLS: Final = ("id", "agent", "call", "message", "parent_call", "subagent_type", "display_name", "is_unlisted")
"""The fields of a call that the fact about its end has, too."""


class _Progress(WireModel):
    """A server's report of the progress of a call."""

    progress: Number
    token: str | int = msgspec.field(name="progressToken")
    total: Number | None = None
    message: str | None = None


class CallFacts:
    """The calls of tools that have no result yet."""

    def __init__(self, add: Add) -> None:
        self._add = add
        self.open: dict[str, CallStarted] = {}
        """The facts of their beginning, by id."""
        self._left: set[str] = set()
        """The calls that were open when their task ended. Only until the next turn may their results still arrive."""
        self.running: dict[str, CallRunning] = {}
        """The facts about those whose tool runs, by id."""
        self._denials: dict[str, PermissionDecision] = {}
        self._tokens: dict[tuple[str, str | int], str] = {}
        """The open calls that may report progress, by server and token."""

    def start(self, message: AssistantMessage, at: float | None, agent: str, tools: Set[str] = frozenset()) -> None:
        """Add the calls in a message. Without `tools`, those of the session are not known."""
        for block in message.tool_uses:
            if block.id not in self.open:  # a replay repeats messages
                self.add(block, message, at, agent, tools)

    def add(
        self,
        block: ToolUseBlock,
        message: AssistantMessage,
        at: float | None,
        agent: str,
        tools: Set[str] = frozenset(),
    ) -> None:
        """Add a call in a message."""
        self.open[block.id] = self._add(
            CallStarted,
            at,
            id=block.id,
            agent=agent,
            call=block,
            message=message.message.id or message.uuid,
            parent_call=message.parent_tool_use_id,
            subagent_type=message.subagent_type,
            display_name=next((meta.display_name for meta in message.tool_use_meta or () if meta.id == block.id), ""),
            is_unlisted=bool(tools) and block.name not in tools,
        )

    def mark_running(self, call: str | None, at: float | None) -> None:
        """Add that a tool runs, once."""
        if call in self.open and call not in self.running:
            self.running[call] = self._add(CallRunning, at, id=call, agent=self.open[call].agent)

    def deny(self, message: PermissionDeniedMessage) -> None:
        """Note that a call was denied, before its result."""
        if message.tool_use_id in self.open:
            reason = message.decision_reason_type
            self._denials[message.tool_use_id] = PermissionDecision(decision="reject", reason_type=reason)

    def expect_progress(self, request: MCPMessageRequest) -> None:
        """Note the token with which a server in this process may report the progress of a call."""
        token, call = request.progress_token, request.tool_use_id
        if token is not None and call is not None:
            self._tokens = {key: known for key, known in self._tokens.items() if known in self.open}
            self._tokens[request.server_name, token] = call

    def add_progress(self, request: object, at: float | None) -> None:
        """Add the progress that a server in this process reports for a call."""
        if isinstance(request, MCPMessageRequest) and request.message.get("method") == PROGRESS:
            given = read(_Progress, request.message.get("params"))
            call = given and self.open.get(self._tokens.get((request.server_name, given.token), ""))
            if given and call:
                about = {"progress": given.progress, "total": given.total, "text": given.message or ""}
                self._add(CallProgressed, at, id=call.id, agent=call.agent, **about)

    # Ends

    def end(self, message: UserMessage, at: float | None) -> None:
        """End the calls whose results are in a message."""
        for result in message.tool_results:
            call = self.open.get(result.tool_use_id)
            if call is None:
                continue
            meta = next((meta for meta in message.tool_result_meta or () if meta.id == call.id), None)
            permission = meta.permission_decision if meta is not None else None
            permission = permission or self._denials.get(call.id)
            if result.is_error and permission is None:
                permission = _read_stored_decision(message)
            kind = meta.non_execution_kind if meta is not None else None
            self._end(call, at, result, _read_structured(message, result), permission, kind)

    def leave(self, agent: str) -> None:
        """Note that a task has ended, and with it the conversation that its calls are from."""
        self._left |= {call.id for call in self.open.values() if call.agent == agent}

    def cut_off_left(self, at: float | None) -> None:
        """End the calls of tasks that have ended."""
        self._cut_off([self.open[call] for call in self._left if call in self.open], at)
        self._left.clear()

    def cut_off_all(self, at: float | None, *, of: str | None = None) -> bool:
        """End all calls, or those of an agent, because no result follows. Return whether there were any."""
        calls = [call for call in self.open.values() if of is None or call.agent == of]
        self._cut_off(calls, at)
        return bool(calls)

    def _cut_off(self, calls: Iterable[CallStarted], at: float | None) -> None:
        for call in calls:
            self._end(call, at, make_cut_off_result(call.id), CUT_OFF)

    def _end(
        self,
        call: CallStarted,
        at: float | None,
        result: ToolResultBlock,
        structured: object,
        permission: PermissionDecision | None = None,
        kind: str | None = None,
    ) -> None:
        del self.open[call.id]
        self.running.pop(call.id, None)
        self._denials.pop(call.id, None)
        self._add(
            CallEnded,
            at,
            **{name: getattr(call, name) for name in _OF_CALLS},
            result=result,
            structured=structured,
            status=get_call_status(result, permission, kind),
            permission=permission,
            non_execution_kind=kind,
            started_at=call.at,
        )


def _read_structured(message: UserMessage, result: ToolResultBlock) -> object:
    """Return the result for programs. A hook that replaces an MCP tool's result replaces its structured content, too.

    The CLI replaces only the text that the model is shown, which is the structured content unless it is too large.
    """
    found = message.tool_use_result
    if len(message.tool_results) > 1:
        return None  # it could belong to any of them
    if not isinstance(found, Mapping) or "structuredContent" not in found:
        return found
    content = result.content or ()
    texts = [content] if isinstance(content, str) else [each.text for each in content if isinstance(each, TextBlock)]
    is_shown = any(text.startswith(_TOO_LARGE) or _is_json_of(text, found["structuredContent"]) for text in texts)
    return found if is_shown else found.get("content")


def _is_json_of(text: str, value: object) -> bool:
    try:
        return bool(msgspec.json.decode(text) == value)
    except (msgspec.DecodeError, RecursionError):
        return False


def _read_stored_decision(message: UserMessage) -> PermissionDecision | None:
    """Return the permission decision in an entry of a transcript."""
    decision = message.raw.get("permissionDecision")
    try:
        return None if decision is None else msgspec.convert(decision, PermissionDecision)
    except msgspec.ValidationError:
        return None


def make_cut_off_result(call_id: str) -> ToolResultBlock:
    """Return the result of a call that was cut off, as the CLI writes it when it resumes the session."""
    return ToolResultBlock(tool_use_id=call_id, content=CUT_OFF, is_error=True)


def get_call_status(
    result: ToolResultBlock | None, permission: PermissionDecision | None, non_execution_kind: str | None
) -> ToolCallStatus:
    """Return the status of a call with a result."""
    decision = permission.decision if permission is not None else ""
    text = result.text if result is not None and result.is_error else ""
    if non_execution_kind in _CANCELLED_KINDS or decision == "cancelled" or text.startswith(_CANCELLED):
        return ToolCallStatus.CANCELLED
    # A call that was refused has a decision as well.
    if permission is None and (non_execution_kind == "user-rejected" or text.startswith(REJECTED)):
        return ToolCallStatus.CANCELLED
    if non_execution_kind is not None or decision == "reject":
        return ToolCallStatus.DENIED
    return ToolCallStatus.FAILED if result is not None and result.is_error else ToolCallStatus.SUCCEEDED
