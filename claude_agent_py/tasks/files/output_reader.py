"""Read the output of a task: a shell's text, or a subagent's report and transcript.

It chooses the files to read and their order, and reads them in worker threads. `output_file` and `transcript` read one
file.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Literal, TypeAlias, TypeVar

import anyio
from msgspec import Struct

from claude_agent_py._base.errors import ControlError, TaskOutputError
from claude_agent_py._base.event_loop import run_file_work
from claude_agent_py._journal.ports import ControlPort
from claude_agent_py._journal.tasks.record import Record
from claude_agent_py.tasks.files.completion import TranscriptEnd
from claude_agent_py.tasks.files.output_file import ShellText, cut_text, read_shell, split_marker
from claude_agent_py.tasks.files.paths import Paths
from claude_agent_py.tasks.files.task_file import TaskFile
from claude_agent_py.tasks.files.transcript import TranscriptMessage, last_messages, last_report, read_transcript
from claude_agent_py.tasks.messages import SubagentMessages
from claude_agent_py.wire.base import JSONObject
from claude_agent_py.wire.messages.conversation import AssistantMessage, UserMessage
from claude_agent_py.wire.messages.tasks import TaskStatus

Retrieval: TypeAlias = Literal["success", "timeout", "not_ready"]
T = TypeVar("T")

UNKNOWN_LOCATION: Final = "its location is unknown"
_POLL_SECONDS: Final = 0.05
"""Seconds between two reads of a file that lags."""


class TaskOutput(Struct, frozen=True):
    """The output of a task with its state, as the model's `TaskOutput` tool returned it. `str()` is the text."""

    retrieval_status: Retrieval
    """`success`: the task has ended. `timeout`: it did not end in time. `not_ready`: it is running, and the call did
    not wait."""
    task_id: str
    status: TaskStatus
    text: str = ""
    """The output, or the output so far if the task is running."""
    type: str | None = None
    description: str = ""
    exit_code: int | None = None
    failure_reason: str | None = None
    total_bytes: int | None = None
    """The size of the whole output; None for a subagent's report."""
    is_truncated: bool = False

    @property
    def done(self) -> bool:
        """Whether the task has ended, so that the output is complete."""
        return self.retrieval_status == "success"

    def __str__(self) -> str:
        return self.text


class OutputReader:
    """Reads the output of the tasks of one session."""

    def __init__(
        self, paths: Paths, messages: SubagentMessages, find_control: Callable[[], ControlPort | None]
    ) -> None:
        self._paths = paths
        self._messages = messages
        self._find_control = find_control
        self._complete_runs: set[tuple[str, int]] = set()
        """Runs, by task and number, whose transcripts were read after their end. Reading them again does not wait."""

    async def output(self, record: Record, retrieval: Retrieval, tail_bytes: int | None) -> TaskOutput:
        """Return the output with the state of the task. Raises TaskOutputError only if the task has ended."""
        try:
            found = await self.read(record, tail_bytes)
        except TaskOutputError:
            if retrieval == "success":
                raise
            # A running task may have written nothing yet.
            found = _to_shell_text("", None)
        run = record.run
        code = run.exit_code
        if code is None and found.marker:
            code = found.marker.exit_code
        return TaskOutput(
            retrieval_status=retrieval,
            task_id=record.id,
            status=run.status,
            text=found.text,
            type=record.type,
            description=record.description,
            exit_code=code,
            failure_reason=run.end_reason,
            total_bytes=None if record.is_agent else found.total_bytes,
            is_truncated=found.is_truncated,
        )

    async def read(self, record: Record, tail_bytes: int | None = None) -> ShellText:
        """Read the output of a task. Raises TaskOutputError."""
        if record.is_agent:
            return await self._read_report(record, tail_bytes)
        return await self._read_text(record, tail_bytes)

    # Shells, monitors, workflows

    async def _read_text(self, record: Record, tail_bytes: int | None) -> ShellText:
        files = self._paths.list_candidates(record)
        try:
            return await _first_readable(record.id, files, lambda file: read_shell(file, tail_bytes))
        except TaskOutputError:
            if record.is_shell:
                text = await self._ask_cli(record, tail_bytes)
            else:
                # Other tasks, such as workflows, may write no file.
                text = _to_shell_text(record.run.summary, tail_bytes) if record.run.summary else None
            if text is None or _is_lost(record, files, text):
                raise
            return text

    async def _ask_cli(self, record: Record, tail_bytes: int | None) -> ShellText | None:
        """Request the output from the CLI, which returns the last 8 KiB of a shell. None if the request fails."""
        control = self._find_control()
        if control is None:
            return None
        try:
            reply = await control.control("get_task_output", task_id=record.id)
        except ControlError:
            return None
        return _parse_reply(reply, tail_bytes)

    # Subagents

    async def _read_report(self, record: Record, tail_bytes: int | None) -> ShellText:
        run = record.run
        report = run.summary if run.status is TaskStatus.COMPLETED else ""
        if not report:
            report = await self._read_last_text(record)
        return _to_shell_text(report, tail_bytes)

    async def _read_last_text(self, record: Record) -> str:
        """Return the last text of a subagent without a report."""
        files = self._paths.list_candidates(record)
        try:
            messages = await _first_readable(record.id, files, last_messages)
        except TaskOutputError:
            messages = self._get_received(record)
            if not messages and not record.last_text and not record.run.summary:
                raise
        return last_report(messages) or record.last_text or record.run.summary

    def _get_received(self, record: Record) -> list[TranscriptMessage]:
        """Return the received messages of the kinds that a transcript contains."""
        seen = self._messages.get(record.id)
        return [message for message in seen if isinstance(message, AssistantMessage | UserMessage)]

    async def transcript(self, record: Record, nested: Iterable[Record] = ()) -> list[TranscriptMessage]:
        """Read the messages of a subagent and of others, in the order of their times. Raises TaskOutputError."""
        if record.is_shell:
            raise TaskOutputError(record.id, "", "a shell has no transcript; use read_output() for its text")
        messages = await self._read_own_transcript(record)
        for other in nested:
            try:
                messages += await self._read_own_transcript(other)
            except TaskOutputError:
                # It has no messages yet, or its file is gone.
                continue
        return sorted(messages, key=lambda message: message.timestamp or "")

    async def _read_own_transcript(self, record: Record) -> list[TranscriptMessage]:
        """Read the messages of one subagent. The CLI writes the last ones shortly after the task ends."""
        run = (record.id, len(record.runs))
        start = anyio.current_time()
        messages = await self._read_written(record)
        while run not in self._complete_runs and anyio.current_time() < start + _compute_wait(record, messages):
            await anyio.sleep(_POLL_SECONDS)
            messages = await self._read_written(record)
        if not record.is_live:
            self._complete_runs.add(run)
        return messages

    async def _read_written(self, record: Record) -> list[TranscriptMessage]:
        call = record.runs[0].tool_use_id
        files = self._paths.list_candidates(record)
        try:
            messages = await _first_readable(
                record.id, files, lambda file: list(read_transcript(file, parent_tool_use_id=call))
            )
        except TaskOutputError:
            seen = self._get_received(record)
            if not seen:
                raise
            return seen
        # The messages of a child agent have no agent id, because its transcript is the transcript of a session.
        return [message if message.agent_id else message.replace(agent_id=record.id) for message in messages]


def _compute_wait(record: Record, messages: list[TranscriptMessage]) -> float:
    """Return how many seconds after the end to wait for more messages. Only a missing report is worth a wait."""
    if record.run.status is not TaskStatus.COMPLETED or not record.run.summary:
        return 0.0
    end = TranscriptEnd()
    for message in messages:
        end.add(message)
    return end.grace_period(record)


async def _first_readable(task_id: str, files: Sequence[TaskFile], read: Callable[[TaskFile], T]) -> T:
    """Read the first readable file. If there is none, raise the error of the first."""
    failure: OSError | None = None
    for file in files:
        try:
            return await run_file_work(read, file, abandon_on_cancel=True)
        except OSError as error:
            failure = failure or error
    raise output_error(task_id, files, failure)


def output_error(task_id: str, files: Sequence[TaskFile], error: OSError | None) -> TaskOutputError:
    """Return the typed error for a failed read. `error` is that of the first file."""
    reason = UNKNOWN_LOCATION if error is None else (error.strerror or type(error).__name__)
    return TaskOutputError(task_id, files[0].path if files else "", reason)


def _is_lost(record: Record, files: Sequence[TaskFile], text: ShellText) -> bool:
    """Return whether an empty reply of the CLI means that the file is gone."""
    return record.run.status.is_terminal and bool(files) and not text.total_bytes and text.marker is None


def _to_shell_text(text: str, tail_bytes: int | None) -> ShellText:
    data = text.encode("utf-8", "replace")
    return cut_text(data, None, len(data), tail_bytes)


def _parse_reply(reply: JSONObject, tail_bytes: int | None) -> ShellText | None:
    output = reply.get("output")
    total = reply.get("total_bytes")
    if not isinstance(output, str):
        return None
    data = output.encode("utf-8", "replace")
    text, marker = split_marker(data)
    size = total if isinstance(total, int) else len(data)
    return cut_text(text, marker, size - (len(data) - len(text)), tail_bytes)
