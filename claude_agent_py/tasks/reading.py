"""Reading what a task brought: a shell's text, a subagent's report and its transcript.

Owns where an output is looked for, in which order, and the errors that say what was tried. Blocking reads run in worker
threads. `output_file` and `transcript` read the files; `follow` reads them live.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, TypeVar

import anyio

from claude_agent_py.errors import ControlError, TaskOutputError
from claude_agent_py.event_loop import run_file_work
from claude_agent_py.protocol.ports import ControlPort
from claude_agent_py.tasks.entry import Entry
from claude_agent_py.tasks.message_log import MessageLog
from claude_agent_py.tasks.output_file import ShellText, last_chars, read_shell, split_marker
from claude_agent_py.tasks.places import Places
from claude_agent_py.tasks.transcript import TranscriptMessage, last_messages, last_report, read_transcript
from claude_agent_py.wire.messages import AssistantMessage, UserMessage
from claude_agent_py.wire.tasks import TaskStatus

Retrieval: TypeAlias = Literal["success", "timeout", "not_ready"]
T = TypeVar("T")

UNKNOWN_PLACE: Final = "it is not known where it is written"
LAST_WORDS: Final = 0.5
"""Seconds that a file may lag behind the end of its task."""
_LOOK_AGAIN: Final = 0.02
"""Seconds between two looks at a file that lags."""


@dataclass(frozen=True, slots=True)
class TaskOutput:
    """The output of a task and how it is, as the model's `TaskOutput` tool gave it. `str()` is the text."""

    retrieval_status: Retrieval
    """`success`: the task is over. `timeout`: it was not over in time. `not_ready`: it runs, and nobody waited."""
    task_id: str
    status: TaskStatus
    text: str = ""
    """So far, for a task that runs."""
    type: str | None = None
    description: str = ""
    exit_code: int | None = None
    failure_reason: str | None = None
    total_bytes: int | None = None
    """The size of the whole output; None where it is not a text of its own (a subagent's report)."""
    is_truncated: bool = False

    @property
    def done(self) -> bool:
        """Whether the task is over, so that this is all."""
        return self.retrieval_status == "success"

    def __str__(self) -> str:
        return self.text


class OutputReader:
    """Reads the output of the tasks of one session."""

    def __init__(self, places: Places, log: MessageLog, control: ControlPort | None) -> None:
        self._places = places
        self._log = log
        self._control = control
        self._caught_up: set[tuple[str, int]] = set()
        """The runs, by task and number, whose transcripts are known to be whole, or were waited for in vain."""

    async def output(self, entry: Entry, retrieval: Retrieval, tail_bytes: int | None) -> TaskOutput:
        """Give the output with the state of the task. Raises TaskOutputError for a task that is over."""
        try:
            found = await self.read(entry, tail_bytes)
        except TaskOutputError:
            if retrieval == "success":
                raise
            found = _as_text("", None)  # it may not have written anything yet
        run = entry.run
        code = found.marker.exit_code if run.exit_code is None and found.marker else run.exit_code
        return TaskOutput(
            retrieval_status=retrieval,
            task_id=entry.id,
            status=run.status,
            text=found.text,
            type=entry.type,
            description=entry.description,
            exit_code=code,
            failure_reason=run.end_reason,
            total_bytes=None if entry.is_agent else found.total_bytes,
            is_truncated=found.is_truncated,
        )

    async def read(self, entry: Entry, tail_bytes: int | None = None) -> ShellText:
        """Read the output of a task. Raises TaskOutputError."""
        return await (self._read_report if entry.is_agent else self._read_text)(entry, tail_bytes)

    # Shells, monitors, workflows

    async def _read_text(self, entry: Entry, tail_bytes: int | None) -> ShellText:
        paths = self._places.output_of(entry)
        try:
            return await _first_readable(entry.id, paths, lambda path: read_shell(path, tail_bytes))
        except TaskOutputError:
            text = await self._ask_cli(entry, tail_bytes) if entry.is_shell else _summary(entry, tail_bytes)
            if text is None or _is_lost(entry, paths, text):
                raise
            return text

    async def _ask_cli(self, entry: Entry, tail_bytes: int | None) -> ShellText | None:
        """Ask the CLI, which gives the last 8 KiB of a shell; None where it gives nothing."""
        if self._control is None:
            return None
        try:
            reply = await self._control.control("get_task_output", task_id=entry.id)
        except ControlError:
            return None
        return _reply_text(reply, tail_bytes)

    # Subagents

    async def _read_report(self, entry: Entry, tail_bytes: int | None) -> ShellText:
        run = entry.run
        report = run.summary if run.status is TaskStatus.COMPLETED else ""
        if not report:
            report = await self._last_words(entry)
        return _as_text(report, tail_bytes)

    async def _last_words(self, entry: Entry) -> str:
        """Give the last that the subagent said: so far, or before it failed or was stopped."""
        paths = self._places.transcript_of(entry)
        try:
            messages = await _first_readable(entry.id, paths, last_messages)
        except TaskOutputError:
            messages = self._seen(entry)
            if not messages and not entry.last_text and not entry.run.summary:
                raise
        return last_report(messages) or entry.last_text or entry.run.summary

    def _seen(self, entry: Entry) -> list[TranscriptMessage]:
        """Give what was seen of a conversation, without what is not in a transcript either."""
        seen = self._log.all_of(entry.id)
        return [message for message in seen if isinstance(message, AssistantMessage | UserMessage)]

    async def transcript(self, entry: Entry, nested: Iterable[Entry] = ()) -> list[TranscriptMessage]:
        """Read the messages of a subagent and of others, in the order of their times. Raises TaskOutputError."""
        if entry.is_shell:
            raise TaskOutputError(entry.id, "", "a shell has no transcript, read_output() gives its text")
        messages = await self._own_transcript(entry)
        for other in nested:
            try:
                messages += await self._own_transcript(other)
            except TaskOutputError:
                continue  # it said nothing yet, or its file is gone: the rest is still worth having
        return sorted(messages, key=lambda message: message.timestamp or "")

    async def _own_transcript(self, entry: Entry) -> list[TranscriptMessage]:
        """Read the messages of one subagent: the CLI writes the last of them a moment after it said that it is over."""
        run = (entry.id, len(entry.runs))
        deadline = anyio.current_time() + LAST_WORDS
        messages = await self._written_so_far(entry)
        while run not in self._caught_up and _lacks_report(entry, messages) and anyio.current_time() < deadline:
            await anyio.sleep(_LOOK_AGAIN)
            messages = await self._written_so_far(entry)
        if not entry.is_live:
            self._caught_up.add(run)
        return messages

    async def _written_so_far(self, entry: Entry) -> list[TranscriptMessage]:
        call = entry.runs[0].tool_use_id
        paths = self._places.transcript_of(entry)
        try:
            messages = await _first_readable(
                entry.id, paths, lambda path: list(read_transcript(path, parent_tool_use_id=call))
            )
        except TaskOutputError:
            seen = self._seen(entry)
            if not seen:
                raise
            return seen
        return [_signed(message, entry.id) for message in messages]


def _lacks_report(entry: Entry, messages: list[TranscriptMessage]) -> bool:
    """Tell whether a run ended with a report that its transcript does not end with (yet)."""
    report, written = entry.run.summary.strip(), last_report(messages).strip()
    if entry.run.status is not TaskStatus.COMPLETED or not report:
        return False
    return not written or (written not in report and report not in written)


def _signed(message: TranscriptMessage, agent_id: str) -> TranscriptMessage:
    """Say whose a message is: the transcript of a child agent is that of a session, whose messages name nobody."""
    return message if message.agent_id is not None else message.replace(agent_id=agent_id)


async def _first_readable(task_id: str, paths: Sequence[str], read: Callable[[str], T]) -> T:
    """Read the first of several places that can be read. The error is that of the first."""
    failure: OSError | None = None
    for path in paths:
        try:
            return await run_file_work(read, path, abandon_on_cancel=True)
        except OSError as error:
            failure = failure or error
    raise output_error(task_id, paths[0] if paths else "", failure)


def output_error(task_id: str, path: str, error: OSError | None) -> TaskOutputError:
    """Make the typed error for a failed read."""
    reason = UNKNOWN_PLACE if error is None else (error.strerror or type(error).__name__)
    return TaskOutputError(task_id, path, reason)


def _is_lost(entry: Entry, paths: Sequence[str], text: ShellText) -> bool:
    """Tell a file that is gone from one that never came: of both the CLI says that they are empty."""
    return entry.run.status.is_terminal and bool(paths) and not text.total_bytes and text.marker is None


def _summary(entry: Entry, tail_bytes: int | None) -> ShellText | None:
    """Give the summary of a task that writes no file."""
    return _as_text(entry.run.summary, tail_bytes) if entry.run.summary else None


def _as_text(text: str, tail_bytes: int | None) -> ShellText:
    shown = last_chars(text, tail_bytes)
    return ShellText(shown, None, len(text.encode("utf-8", "replace")), shown != text)


def _reply_text(reply: dict[str, Any], tail_bytes: int | None) -> ShellText | None:
    output, total = reply.get("output"), reply.get("total_bytes")
    if not isinstance(output, str):
        return None
    raw = output.encode("utf-8", "replace")
    data, marker = split_marker(raw)
    text = last_chars(data.decode("utf-8", "replace"), tail_bytes)
    size = (total if isinstance(total, int) else len(raw)) - (len(raw) - len(data))
    return ShellText(text, marker, size, len(text.encode("utf-8", "replace")) < size)
