"""Read the transcript of a subagent, a JSON Lines file of the CLI, and the metadata file next to it.

`agent-<id>.jsonl` has the CLI's own entries, of which only `user` and `assistant` are messages; others are skipped.
`agent-<id>.meta.json` says whether the agent is finished or was stopped, until it is resumed. All calls block.

Measured with CLI 2.1.328: the final entry of a finished agent has the stop reason `end_turn`, that of a failed one is
an API error message, and one entry holds one content block.
"""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeGuard

from claude_agent_py._untrusted import read_bytes, read_json, read_lines
from claude_agent_py.tasks.ledger.state import Evidence
from claude_agent_py.tasks.outcome import Finding
from claude_agent_py.wire.fitting import Misfit, fit
from claude_agent_py.wire.messages.conversation import AssistantMessage, UserMessage
from claude_agent_py.wire.messages.tasks import TaskStatus

_MAX_NOTES_BYTES: Final = 1024 * 1024
_TAIL_BYTES: Final = 256 * 1024
_FINAL_STOP_REASONS: Final = frozenset({"end_turn", "stop_sequence", "max_tokens", "refusal"})
_INTERRUPTED: Final = re.compile(r"\[Request interrupted by user")
_MODELS: Final[Mapping[str, type[UserMessage] | type[AssistantMessage]]] = {
    "user": UserMessage,
    "assistant": AssistantMessage,
}
_FIELDS: Final[Mapping[str, str]] = {
    "uuid": "uuid",
    "sessionId": "session_id",
    "agentId": "agent_id",
    "timestamp": "timestamp",
    "toolUseResult": "tool_use_result",
    "requestId": "request_id",
    "error": "error",
    "isApiErrorMessage": "is_api_error_message",
    "origin": "origin",
    "isMeta": "isSynthetic",
}
"""Names in the file -> names on the wire."""

TranscriptMessage: TypeAlias = UserMessage | AssistantMessage


@dataclass(frozen=True, slots=True)
class Notes:
    """The CLI's metadata file next to a transcript."""

    is_finished: bool = False
    is_stopped: bool = False


def read_transcript(path: str, *, parent_tool_use_id: str | None = None) -> Iterator[TranscriptMessage]:
    """Yield the messages of a transcript. Raises OSError if the file cannot be read."""
    for line in read_lines(path):
        message = parse_entry(line, parent_tool_use_id)
        if message is not None:
            yield message


def parse_entry(line: bytes, parent_tool_use_id: str | None = None) -> TranscriptMessage | None:
    """Return the message in a line, or None if it has no known message."""
    if b'"message"' not in line:
        return None
    try:
        entry = read_json(line)
    except ValueError:
        return None
    model = _MODELS.get(str(entry.get("type"))) if _is_object(entry) else None
    if model is None:
        return None
    fields = {name: entry[key] for key, name in _FIELDS.items() if entry.get(key) is not None}
    try:
        message: TranscriptMessage
        message, _ = fit(model, {"message": entry.get("message"), "parent_tool_use_id": parent_tool_use_id, **fields})
    except Misfit:
        return None
    return message


def read_notes(transcript_path: str) -> Notes | None:
    """Return the metadata of a transcript, or None if it cannot be read."""
    try:
        path = re.sub(r"\.jsonl\Z", ".meta.json", os.path.realpath(transcript_path))
        notes = read_json(read_bytes(path, most_bytes=_MAX_NOTES_BYTES)[0])
    except (OSError, ValueError):
        return None
    if not _is_object(notes):
        return None
    return Notes(
        is_finished=notes.get("finished") is True,
        is_stopped=notes.get("stoppedByUser") is True,
    )


def last_messages(path: str) -> list[TranscriptMessage]:
    """Return the messages at the end of a transcript, without reading all of it."""
    data, size = read_bytes(path, tail_bytes=_TAIL_BYTES)
    lines = data.split(b"\n")[0 if size <= _TAIL_BYTES else 1 :]
    return [message for message in map(parse_entry, lines) if message is not None]


def last_report(messages: list[TranscriptMessage]) -> str:
    """Return the last text of the agent."""
    texts = (message.text for message in reversed(messages) if isinstance(message, AssistantMessage))
    return next((text for text in texts if text), "")


def look_at_transcript(path: str) -> Finding | None:
    """Return what a subagent's files say about its end, or None if they cannot be read."""
    notes = read_notes(path)
    if notes is not None and not (notes.is_finished or notes.is_stopped):
        return Finding(Evidence.TRANSCRIPT)
    try:
        messages = last_messages(path)
    except OSError:
        messages = []
    if notes is None and not messages:
        return None
    report = last_report(messages)
    status = _status(notes, messages)
    failed = status is TaskStatus.FAILED
    return Finding(Evidence.TRANSCRIPT, status, summary=report, failure_reason=report if failed else None)


def _status(notes: Notes | None, messages: list[TranscriptMessage]) -> TaskStatus | None:
    """Return how the agent ended, from the metadata file or else from the last message."""
    if notes is not None and notes.is_stopped:
        return TaskStatus.STOPPED
    status = status_by(messages[-1]) if messages else None
    return status if notes is None or status is TaskStatus.FAILED else TaskStatus.COMPLETED


def status_by(last: TranscriptMessage) -> TaskStatus | None:
    """Return how the agent ended according to its last message, or None if that is not an end."""
    if isinstance(last, UserMessage):
        return TaskStatus.STOPPED if _INTERRUPTED.match(last.text) else None
    if last.is_api_error_message:
        return TaskStatus.FAILED
    return TaskStatus.COMPLETED if _is_final(last) else None


def _is_final(message: AssistantMessage) -> bool:
    return message.message.stop_reason in _FINAL_STOP_REASONS and not message.tool_uses


def _is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)
