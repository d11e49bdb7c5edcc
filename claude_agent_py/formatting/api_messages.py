"""Rebuild a conversation with the CLI in the format of the Messages API.

The CLI sends one frame per content block and one per tool result, with frames of subagents in between, and adds fields.
The API requires whole messages: all blocks of an assistant message together, and all results of its calls in the user
message right after it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from claude_agent_py.formatting.xml import escape
from claude_agent_py.wire.base import CUT_OFF, SYNTHETIC_MODEL, JSONObject, dump
from claude_agent_py.wire.messages.content import (
    Block,
    ContentBlock,
    FallbackBlock,
    TextBlock,
    ThinkingBlock,
    ToolReferenceBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
)
from claude_agent_py.wire.messages.conversation import (
    AssistantMessage,
    CommandLifecycleMessage,
    ResultMessage,
    UserMessage,
)
from claude_agent_py.wire.messages.system import CompactBoundaryMessage
from claude_agent_py.wire.messages.tasks import TaskNotificationMessage, TaskStartedMessage

RESULT_BLOCK_TYPES: Final = frozenset({"text", "image", "document", "search_result", "tool_reference"})
"""The types of blocks that the API accepts in a tool result."""


def to_api_messages(messages: Iterable[object], prompts: Iterable[UserMessage] = ()) -> list[JSONObject]:
    """Return the main agent's conversation as `messages` for the Messages API.

    The blocks of an assistant message are joined, and the results of its calls come in the user message right after it,
    in the order of the calls, before anything else. Roles alternate.

    The result excludes messages of subagents, messages that the CLI replaced, error texts and command output written by
    the CLI, and anything that the API rejects: fields and blocks of the CLI, empty texts, thinking without a signature.
    A call without a result gets the error result that the CLI gives it when it resumes the session. Finished background
    tasks, which the CLI reports to the model without a message, become `<task-notification>` texts. If the CLI
    compacted the conversation, its summary replaces the earlier messages.

    The system prompt and the CLI's reminders are not part of the messages.

    Args:
        messages: The messages of a run or a session, in order. Other types are ignored.
        prompts: The prompts (`RunResult.sent`), which the CLI does not repeat. A prompt is inserted when the CLI
            reports that it started, or at the beginning if the messages do not mention it. A prompt that never started
            is left out.

    Raises:
        TypeError: A prompt is not a `UserMessage`.
    """
    conversation = _Conversation()
    sent: list[Any] = list(prompts)
    if wrong := [prompt for prompt in sent if not isinstance(prompt, UserMessage)]:
        raise TypeError(f"prompts must be UserMessages, as in RunResult.sent, not {type(wrong[0]).__name__}")
    for message in _drop_compacted(_insert_prompts(list(messages), sent)):
        conversation.add(message)
    return conversation.render()


def api_block(block: ContentBlock) -> JSONObject | None:
    """Return a content block in the format of the API, or None if the API would reject the block."""
    match block:
        case TextBlock() if not block.text.strip():
            return None
        case TextBlock():
            sent = dump(block)
            for citation in sent.get("citations") or ():
                # The API sends this field, but does not accept it.
                citation.pop("file_id", None)
            return sent
        case ThinkingBlock() if not block.signature:
            return None
        case FallbackBlock() | ToolReferenceBlock():
            return None
        case ToolResultBlock():
            return _convert_result(block)
        case _:
            return complete(block)


def complete(block: Block | UnknownBlock) -> JSONObject:
    """Return a block as JSON with the empty values that the API requires, such as the `input` of a call."""
    sent = dump(block)
    for name in block.__struct_fields__ if isinstance(block, Block) else ():
        value = getattr(block, name)
        if name not in sent and value in ("", {}, []):
            sent[name] = value
    return sent


def _convert_result(block: ToolResultBlock) -> JSONObject:
    sent = dump(block)
    if block.content is not None and not isinstance(block.content, str):
        blocks = [dump(part) if isinstance(part, ToolReferenceBlock) else api_block(part) for part in block.content]
        allowed = {"text"} if block.is_error else RESULT_BLOCK_TYPES
        sent["content"] = [part for part in blocks if part and part["type"] in allowed]
    if block.is_error and not sent.get("content"):
        # The API rejects an error without text.
        sent["content"] = "[the call failed]"
    return sent


# Selection ----------------------------------------------------------------------------------------------------


def _insert_prompts(messages: Sequence[object], prompts: Sequence[UserMessage]) -> list[object]:
    """Insert the prompts at their starts, and drop the messages that were replaced or sent twice."""
    gone = {uuid for message in messages if isinstance(message, AssistantMessage) for uuid in message.supersedes or ()}
    gone |= {
        uuid
        for message in messages
        if isinstance(message, ResultMessage) and message.local_command
        for uuid in message.prompt_uuids
    }
    by_uuid = {prompt.uuid: prompt for prompt in prompts}
    mentioned = {message.command_uuid for message in messages if isinstance(message, CommandLifecycleMessage)}
    found: list[object] = [prompt for prompt in prompts if prompt.uuid not in mentioned]
    for message in messages:
        if not isinstance(message, CommandLifecycleMessage):
            found.append(message)
        elif message.state in ("started", "completed") and message.command_uuid in by_uuid:
            found.append(by_uuid[message.command_uuid])
    return list(_drop_repeated(found, gone))


def _drop_repeated(messages: Iterable[object], gone: set[str]) -> Iterator[object]:
    seen = set(gone)
    for message in messages:
        uuid = getattr(message, "uuid", "")
        if uuid not in seen or not uuid:
            seen.add(uuid)
            yield message


def _drop_compacted(messages: list[object]) -> list[object]:
    """Return the messages that the model sees: the last summary, the messages that it preserved, and all later ones."""
    for index in range(len(messages) - 2, -1, -1):
        boundary, summary = messages[index : index + 2]
        if isinstance(boundary, CompactBoundaryMessage) and isinstance(summary, UserMessage) and summary.is_synthetic:
            preserved = boundary.compact_metadata.preserved_messages
            uuids = set(preserved.uuids) if preserved is not None else set()
            kept = [message for message in messages[:index] if getattr(message, "uuid", "") in uuids]
            return [summary, *kept, *messages[index + 2 :]]
    return messages


# The conversation ------------------------------------------------------------------------------------------------


@dataclass
class _APITurn:
    """A part of the conversation. `render` merges adjacent turns of the same role."""

    role: str
    content: list[JSONObject]
    calls: list[str] = field(default_factory=list)
    """The ids of the calls of an assistant turn."""


class _Conversation:
    def __init__(self) -> None:
        self._turns: list[_APITurn] = []
        self._turns_by_message: dict[str, _APITurn] = {}
        """Assistant turns by the id of their API message."""
        self._results: dict[str, JSONObject | None] = {}
        """The results of all calls, by id; None until they arrive."""
        self._subagent_task_ids: set[str] = set()
        """The ids of tasks that report to a subagent."""
        self._new_notifications: list[str] = []
        """Notifications of finished tasks, which the CLI sends with the next request."""
        self._due_notifications: list[str] = []
        """Notifications from before the last prompt or tool result, which are part of the next request."""

    def add(self, message: object) -> None:
        match message:
            case AssistantMessage() if not message.is_subagent:
                self._add_answer(message)
            case UserMessage() if not message.is_subagent:
                self._add_user(message)
            case TaskStartedMessage() if message.tool_use_id and message.tool_use_id not in self._results:
                self._subagent_task_ids.add(message.task_id)
            case TaskNotificationMessage() if self._is_reported_to_model(message):
                self._new_notifications.append(_build_notification(message))
            case _:
                pass

    def _add_answer(self, message: AssistantMessage) -> None:
        if message.model == SYNTHETIC_MODEL or message.failure is not None:
            return
        # A replay repeats calls that are already known.
        new = [block for block in message.content if getattr(block, "id", None) not in self._results]
        blocks = [block for block in map(api_block, new) if block is not None]
        if not blocks:
            return
        turn = self._turns_by_message.get(message.message_id)
        if turn is None:
            self._add_notifications()
            turn = _APITurn("assistant", [])
            self._turns.append(turn)
            if message.message_id:
                self._turns_by_message[message.message_id] = turn
        turn.content += blocks
        for block in new:
            if isinstance(block, ToolUseBlock):
                turn.calls.append(block.id)
                self._results[block.id] = None

    def _add_user(self, message: UserMessage) -> None:
        if message.text.startswith("<local-command-"):
            return
        content = [TextBlock(text=message.content)] if isinstance(message.content, str) else message.content
        others: list[Any] = []
        is_empty = True
        for block in content:
            sent = api_block(block)
            if sent is None:
                continue
            is_empty = False
            if not isinstance(block, ToolResultBlock):
                others.append(sent)
            elif block.tool_use_id in self._results:
                self._results[block.tool_use_id] = sent
        if others:
            self._turns.append(_APITurn("user", others))
        if not is_empty:
            self._schedule_notifications()

    # Background tasks

    def _is_reported_to_model(self, message: TaskNotificationMessage) -> bool:
        """Return whether the CLI notifies the model: the task ran in the background of the main agent."""
        if message.task_id in self._subagent_task_ids:
            return False
        call = message.tool_use_id
        return call not in self._results or self._results[call] is not None

    def _schedule_notifications(self) -> None:
        """Make the new notifications part of the next request."""
        self._due_notifications += self._new_notifications
        self._new_notifications = []

    def _add_notifications(self) -> None:
        """Add the notifications that the next answer responds to.

        After a finished assistant turn, only a new notification can have caused the next answer.
        """
        if self._turns and self._turns[-1].role == "assistant" and not self._turns[-1].calls:
            self._schedule_notifications()
        if self._due_notifications:
            self._turns.append(_APITurn("user", [{"type": "text", "text": text} for text in self._due_notifications]))
            self._due_notifications = []

    def render(self) -> list[JSONObject]:
        messages: list[JSONObject] = []
        for turn in self._turns:
            _append_content(messages, turn.role, turn.content)
            results = [self._results[call] or _build_missing_result(call) for call in turn.calls]
            if results:
                _append_content(messages, "user", results)
        return messages


def _append_content(messages: list[JSONObject], role: str, content: list[JSONObject]) -> None:
    if messages and messages[-1]["role"] == role:
        messages[-1]["content"] += content
    else:
        messages.append({"role": role, "content": list(content)})


def _build_missing_result(tool_use_id: str) -> JSONObject:
    return {"type": "tool_result", "tool_use_id": tool_use_id, "content": CUT_OFF, "is_error": True}


def _build_notification(message: TaskNotificationMessage) -> str:
    fields = {"task-id": message.task_id, "status": message.status, "summary": message.summary}
    lines = [f"<{name}>{escape(value)}</{name}>" for name, value in fields.items() if value]
    return "\n".join(["<task-notification>", *lines, "</task-notification>"])
