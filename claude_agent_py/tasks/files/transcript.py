"""Read the messages of the CLI's transcripts, and detect the end of a subagent from its files.

A transcript contains one entry per line; only entries of the types `user` and `assistant` are messages. The file
`agent-<id>.meta.json` next to a subagent's transcript records whether the agent is finished or was stopped, until it is
resumed. All calls block.

Measured with CLI 2.1.328: the final entry of a finished agent has the stop reason `end_turn`, the final entry of a
failed agent is an API error message, and each entry has one content block.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from claude_agent_py._base.bounded_reading import is_too_deep, read_json
from claude_agent_py._journal.tasks.outcome import TaskFinding
from claude_agent_py._journal.tasks.spending import Counted
from claude_agent_py._journal.tasks.state import Evidence
from claude_agent_py.tasks.files.task_file import TaskFile
from claude_agent_py.wire.base import INTERRUPTED
from claude_agent_py.wire.fitting import Misfit, fit
from claude_agent_py.wire.messages.content import UnknownBlock
from claude_agent_py.wire.messages.conversation import AssistantContent, AssistantMessage, UserContent, UserMessage
from claude_agent_py.wire.messages.origin import MessageOrigin
from claude_agent_py.wire.messages.tasks import TaskStatus
from claude_agent_py.wire.timestamps import seconds

MOST_NOTES_BYTES: Final = 1024 * 1024
_TAIL_BYTES: Final = 256 * 1024
_FINAL_STOP_REASONS: Final = frozenset({"end_turn", "stop_sequence", "max_tokens", "refusal"})

TranscriptMessage: TypeAlias = UserMessage | AssistantMessage
"""A message of a transcript."""


# Messages --------------------------------------------------------------------------------------------------------


class _UserEntry(msgspec.Struct, rename="camel", tag_field="type", tag="user", gc=False):
    message: UserContent
    uuid: str = ""
    session_id: str = ""
    timestamp: str | None = None
    tool_use_result: Any = None
    agent_id: str | None = None
    is_synthetic: bool | None = msgspec.field(default=None, name="isMeta")
    origin: MessageOrigin | None = None


class _AssistantEntry(msgspec.Struct, rename="camel", tag_field="type", tag="assistant", gc=False):
    message: AssistantContent
    uuid: str = ""
    session_id: str = ""
    timestamp: str | None = None
    request_id: str | None = None
    error: str | None = None
    is_api_error_message: bool | None = None
    agent_id: str | None = None


class _Head(msgspec.Struct, gc=False):
    """The part of an entry that can be read even if the rest is nested too deeply."""

    type: str = ""
    uuid: str | None = None


_Entry: TypeAlias = _UserEntry | _AssistantEntry
_decode: Final = msgspec.json.Decoder(_Entry).decode
_decode_head: Final = msgspec.json.Decoder(_Head).decode


def read_message(line: bytes, parent_tool_use_id: str | None = None) -> tuple[TranscriptMessage, str | None]:
    """Return the message in a `user` or `assistant` line, and the problem with it, if any.

    Blocks that do not match their model become `UnknownBlock`s.

    Raises:
        ValueError: The line is not such an entry.
    """
    problem = None
    try:
        entry = _decode(line)
    except (ValueError, RecursionError):
        # A crash of the machine can leave a hole of zeros in the file.
        entry, problem = _read_misfit(line.lstrip(b"\0"))
    return _build_message(entry, parent_tool_use_id), problem


def _build_message(entry: _Entry, call: str | None) -> TranscriptMessage:
    message = UserMessage if isinstance(entry, _UserEntry) else AssistantMessage
    return message(**msgspec.structs.asdict(entry), parent_tool_use_id=call)


def _read_misfit(line: bytes) -> tuple[_Entry, str | None]:
    """Read as much as possible of a message that its decoder rejects."""
    try:
        text = line.decode()
        garbled = None
    except UnicodeDecodeError:
        text = line.decode("utf-8", "replace")
        garbled = "not UTF-8"
    try:
        value = read_json(text)
    except ValueError as error:
        try:
            head = _decode_head(line)
        except RecursionError:
            raise error from None
        return _fit({"type": head.type, "uuid": head.uuid})[0], str(error)
    entry, problem = _fit(value)
    return entry, problem or garbled


def _fit(value: Any) -> tuple[_Entry, str | None]:
    """Read an entry without the fields that do not match its model."""
    kind = value.get("type") if isinstance(value, dict) else None
    if kind not in ("user", "assistant"):
        raise ValueError("not a message")
    model: Any = _UserEntry if kind == "user" else _AssistantEntry
    content, problem = _fit_content(UserContent if kind == "user" else AssistantContent, value.get("message"))
    fields = {"message": content}
    for field in msgspec.structs.fields(model)[1:]:
        if value.get(field.encode_name) is not None:
            try:
                fields[field.name], _ = fit(field.type, value[field.encode_name])
            except Misfit:
                problem = problem or f"{field.encode_name} does not fit its model"
    return model(**fields), problem


def _fit_content(model: type[UserContent] | type[AssistantContent], given: object) -> tuple[object, str | None]:
    """Return a message. Blocks that do not match their model become `UnknownBlock`s."""
    try:
        return fit(model, given)[0], None
    except Misfit as error:
        content = given.get("content") if isinstance(given, dict) else given
        blocks = content if isinstance(content, list) else [content]
        if content is None:
            blocks = []
        unknown: list[Any] = [
            UnknownBlock(raw=block if isinstance(block, dict) else {"value": block}) for block in blocks
        ]
        role: Any = "user" if model is UserContent else "assistant"
        return model(role=role, content=unknown), f"message.{error}"


def parse_entry(line: bytes, parent_tool_use_id: str | None = None) -> TranscriptMessage | None:
    """Return the message in a line, or None if it has none that matches its model."""
    if b'"message"' not in line:
        return None
    try:
        if is_too_deep(line):
            return None
        message, problem = read_message(line, parent_tool_use_id)
    except ValueError:
        return None
    return message if problem is None else None


def read_transcript(file: TaskFile, *, parent_tool_use_id: str | None = None) -> Iterator[TranscriptMessage]:
    """Yield the messages of a transcript. Raises OSError if it cannot be read."""
    for line in file.lines():
        message = parse_entry(line, parent_tool_use_id)
        if message is not None:
            yield message


# The files of a subagent -----------------------------------------------------------------------------------------


class Notes(msgspec.Struct, rename="camel", gc=False):
    """The CLI's metadata file next to the transcript of a subagent."""

    agent_type: str | None = None
    description: str = ""
    tool_use_id: str | None = None
    parent_agent_id: str | None = None
    model: str | None = None
    spawn_depth: int | None = None
    request_shape: str | None = None
    is_finished: bool = msgspec.field(default=False, name="finished")
    was_stopped: bool = msgspec.field(default=False, name="stoppedByUser")

    @property
    def is_of_skill(self) -> bool:
        """Whether a skill runs in the subagent, whose end the CLI does not note (2.1.332)."""
        return self.request_shape == "foreground" and self.tool_use_id is None


def notes_path(transcript: str) -> str:
    """Return the path of the metadata file of a subagent."""
    return transcript.removesuffix(".jsonl") + ".meta.json"


def read_notes(transcript: TaskFile) -> Notes | None:
    """Return the metadata of a subagent without invalid values, or None if it cannot be read."""
    try:
        notes = TaskFile(notes_path(transcript.resolve()), transcript.uid)
        data, _ = notes.read(most_bytes=MOST_NOTES_BYTES)
        return fit(Notes, read_json(data), may_drop=lambda place: True)[0]
    except (OSError, ValueError):
        return None


def count_transcript(file: TaskFile, begins: Sequence[float] = ()) -> Counted:
    """Add up a transcript. Raises OSError if it cannot be read.

    Args:
        file: The transcript.
        begins: The starts of the latest runs of the task, by the CLI's clock, in order.
    """
    counted = Counted(by_run=[Counted() for _ in begins])
    for line in file.lines():
        message = parse_entry(line) if b'"usage"' in line else None
        if isinstance(message, AssistantMessage) and message.usage is not None:
            counted.add(message, bisect_right(begins, seconds(message.timestamp) or 0.0) - 1)
    return counted


def last_messages(file: TaskFile) -> list[TranscriptMessage]:
    """Return the messages at the end of a transcript, without reading all of it."""
    data, size = file.read(tail_bytes=_TAIL_BYTES)
    lines = data.split(b"\n")[0 if size <= _TAIL_BYTES else 1 :]
    return [message for message in map(parse_entry, lines) if message is not None]


def last_report(messages: list[TranscriptMessage]) -> str:
    """Return the last text of the agent."""
    texts = (message.text for message in reversed(messages) if isinstance(message, AssistantMessage))
    return next((text for text in texts if text), "")


def inspect_transcript(file: TaskFile) -> TaskFinding | None:
    """Return the end of a subagent according to its files, or None if they cannot be read."""
    notes = read_notes(file)
    if notes is not None and not (notes.is_finished or notes.was_stopped or notes.is_of_skill):
        return TaskFinding(Evidence.TRANSCRIPT)
    try:
        messages = last_messages(file)
    except OSError:
        messages = []
    if notes is None and not messages:
        return None
    report = last_report(messages)
    status = _find_status(notes, messages)
    failed = status is TaskStatus.FAILED
    return TaskFinding(Evidence.TRANSCRIPT, status, summary=report, failure_reason=report if failed else None)


def inspect_interruption(file: TaskFile) -> TaskFinding | None:
    """Return the end of a subagent that was interrupted, which the CLI does not note (2.1.332); otherwise None."""
    try:
        messages = last_messages(file)
    except OSError:
        return None
    if not messages or read_status(messages[-1]) is not TaskStatus.STOPPED:
        return None
    return TaskFinding(Evidence.TRANSCRIPT, TaskStatus.STOPPED, summary=last_report(messages))


def _find_status(notes: Notes | None, messages: list[TranscriptMessage]) -> TaskStatus | None:
    """Return how the agent ended, from the metadata file or, failing that, the last message."""
    if notes is not None and notes.was_stopped:
        return TaskStatus.STOPPED
    status = read_status(messages[-1]) if messages else None
    if notes is None or not notes.is_finished or status is TaskStatus.FAILED:
        return status
    return TaskStatus.COMPLETED


def read_status(last: TranscriptMessage) -> TaskStatus | None:
    """Return how the agent ended according to its last message, or None if this is not a final message."""
    if isinstance(last, UserMessage):
        return TaskStatus.STOPPED if last.text.startswith(INTERRUPTED) else None
    if last.is_api_error_message:
        return TaskStatus.FAILED
    is_final = last.message.stop_reason in _FINAL_STOP_REASONS and not last.tool_uses
    return TaskStatus.COMPLETED if is_final else None
