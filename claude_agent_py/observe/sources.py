"""Build spans from the messages, a recording or the transcript of a session.

`docs/see-a-session.md` lists the fields that each source lacks.
"""

import os
import re
from collections.abc import Generator, Iterable, Sequence
from contextlib import closing
from typing import Any, Final

import msgspec

from claude_agent_py._errors import OptionsError
from claude_agent_py._untrusted import LINE_BYTES, open_regular
from claude_agent_py.observe.fold import SpanFold
from claude_agent_py.observe.open_spans import INTERRUPTED, convert_task_status
from claude_agent_py.sessions.session import Session
from claude_agent_py.sessions.stored_tasks import StoredTask
from claude_agent_py.tasks.files.transcript import TranscriptMessage
from claude_agent_py.wire.codec import decode
from claude_agent_py.wire.control.frames import ControlCancelRequest, ControlRequest, ControlResponse, ControlSuccess
from claude_agent_py.wire.messages.conversation import AssistantMessage, ResultMessage, UserMessage
from claude_agent_py.wire.messages.tasks import TaskStartedMessage
from claude_agent_py.wire.timestamps import seconds

_TASK_ID: Final = re.compile(r"<task-id>([\w.-]{1,100})</task-id>")
_LOCAL_COMMAND_PREFIXES: Final = ("<local-command-", "<bash-")
"""The first characters of entries that a local command wrote."""
_LAUNCHED: Final = "Async agent launched"
_UNFINISHED_REASONS: Final = frozenset({None, "tool_use"})


def fold_messages(fold: SpanFold, messages: Iterable[Any], sent: Iterable[UserMessage] = ()) -> None:
    """Fold the messages of a run, and the prompts that were sent."""
    messages = messages if isinstance(messages, Sequence) else list(messages)
    began = _find_start(messages)
    for prompt in sent:
        fold.sent(prompt, began)
    for index, message in enumerate(messages):
        fold.feed(message, None if index else began)
    fold.finish()


def _find_start(messages: Iterable[Any]) -> float | None:
    """Return when the first turn began, in seconds since the epoch, or None if no message has a time.

    Prompts and the first messages of a turn have no time, so the duration of the turn is subtracted from its end.
    """
    first = latest = None
    took = 0.0
    for message in messages:
        latest = seconds(getattr(message, "timestamp", None)) or latest
        first = first or latest
        if isinstance(message, ResultMessage):
            took += message.duration_ms / 1000
            if latest is not None:
                return min(first or latest, latest - took)
    return first


# Recordings ------------------------------------------------------------------------------------------------------


class _Line(msgspec.Struct, gc=False):
    """A line of a recording: a frame with its time and direction."""

    t: float = 0.0
    dir: str = ""
    m: msgspec.Raw = msgspec.Raw(b"null")


_read_line: Final = msgspec.json.Decoder(_Line).decode


def fold_recording(fold: SpanFold, path: str | os.PathLike[str]) -> None:
    """Fold a recording: JSON Lines of `t` (seconds), `dir` (`in`: to the CLI, `out`: from it) and `m` (the frame).

    A file of plain frames, as printed by `claude --output-format stream-json`, is a recording without times.

    Raises:
        OptionsError: The file cannot be read, or contains no frames.
    """
    frames = 0
    try:
        origin = _find_origin(path)
        for frame, t, is_sent in _read_frames(path):
            frames += 1
            fold_frame(fold, frame, None if t is None else origin + t, is_sent=is_sent)
    except OSError as error:
        raise OptionsError(f"cannot read the recording {os.fspath(path)}: {error.strerror or error}") from error
    if not frames:
        raise OptionsError(f"{os.fspath(path)} is not a recording: none of its lines is a frame")
    fold.finish()


def fold_frame(fold: SpanFold, frame: Any, at: float | None, *, is_sent: bool = False) -> None:
    """Fold a frame of either direction."""
    match frame:
        case UserMessage() if is_sent:
            fold.sent(frame, at)
        case ControlRequest() if not is_sent:
            fold.asked(frame.request_id, frame.request, at)
        case ControlResponse() if is_sent:
            response = frame.response
            payload = None
            if isinstance(response, ControlSuccess):
                payload = response.response or {}
            fold.answered(frame.request_id, payload, at, failed=payload is None)
        case ControlCancelRequest():
            fold.answered(frame.request_id, None, at)
        case _ if not is_sent:
            fold.feed(frame, at)


def _read_frames(path: str | os.PathLike[str]) -> Generator[tuple[Any, float | None, bool], None, None]:
    """Yield each frame, its time in the recording and whether it was sent to the CLI."""
    with os.fdopen(open_regular(path), "rb") as file:
        while line := file.readline(LINE_BYTES):
            try:
                record = _read_line(line)
            except (msgspec.DecodeError, RecursionError):
                continue
            if record.dir in ("in", "out"):
                yield decode(bytes(record.m), report=False), record.t, record.dir == "in"
            elif record.dir:
                # A note of the recorder, such as the exit of the process.
                yield None, record.t, False
            elif b'"type"' in line:
                yield decode(line, report=False), None, False


def _find_origin(path: str | os.PathLike[str]) -> float:
    """Return when the recording began, in seconds since the epoch, or 0 if none of its frames has a timestamp."""
    with closing(_read_frames(path)) as frames:
        for frame, t, _ in frames:
            timestamp = seconds(getattr(frame, "timestamp", None))
            if timestamp is not None and t is not None:
                return timestamp - t
    return 0.0


# Transcripts -----------------------------------------------------------------------------------------------------


def fold_session(fold: SpanFold, session: Session) -> None:
    """Fold a session on disk, with its subagents and tasks. Blocks.

    Raises:
        SessionError: The transcript cannot be read.
    """
    transcript = _TranscriptReader(fold)
    for message in session.history:
        transcript.feed_main(message)
    transcript.end_main()
    for task in session.tasks:
        transcript.feed_task(task)
    fold.finish()


class _TranscriptReader:
    """Feeds the entries of a transcript to a fold, which has to work without the frames that are not stored."""

    def __init__(self, fold: SpanFold) -> None:
        self._fold = fold
        self._backgrounded: set[str] = set()
        """The calls that launched a background task."""
        self._stop_reason: str | None = None
        self._is_in_turn = False

    def feed_main(self, message: TranscriptMessage) -> None:
        """Feed a message of the main agent."""
        if isinstance(message, AssistantMessage):
            reason = message.message.stop_reason
            self._stop_reason = "error" if message.is_api_error_message else reason
        elif self._is_prompt(message):
            self._begin_turn(message)
            return
        self._feed(message)

    def end_main(self) -> None:
        """End the last turn, unless the model or a tool was at work when the process ended."""
        if self._is_in_turn and self._stop_reason not in _UNFINISHED_REASONS:
            self._fold.end_turn()

    def feed_task(self, task: StoredTask) -> None:
        """Feed a task, with the messages of a subagent."""
        agent, call, outcome = task.subagent, task.tool_use_id, task.outcome
        messages = () if agent is None else agent.messages
        times = [seconds(message.timestamp) for message in (*messages[:1], *messages[-1:])]
        known = [time for time in times if time is not None]
        started = TaskStartedMessage(
            task_id=task.id,
            tool_use_id=call,
            description=task.description,
            task_type=task.type,
            subagent_type=None if agent is None else agent.agent_type,
            prompt=task.prompt,
            is_backgrounded=call is None or agent is None or call in self._backgrounded,
            parent_task_id=task.parent_id,
        )
        self._fold.feed(started, known[0] if known else task.started_at)
        for message in messages:
            self._feed(message)
        if outcome is not None:
            ended = outcome.ended_at or (known[-1] if known else None)
            status = convert_task_status(outcome.status)
            self._fold.end_task(task.id, ended, status, outcome.summary, usage=outcome.usage)

    def _feed(self, message: TranscriptMessage) -> None:
        self._fold.feed(message)
        if isinstance(message, UserMessage):
            result = message.tool_use_result
            is_launch = isinstance(result, dict) and (
                result.get("status") == "async_launched" or "backgroundTaskId" in result
            )
            results = (block for block in message.tool_results if is_launch or block.text.startswith(_LAUNCHED))
            self._backgrounded.update(block.tool_use_id for block in results)

    def _is_prompt(self, message: UserMessage) -> bool:
        """Return whether a message begins a turn: a prompt, or the CLI's notification about a finished task."""
        if message.tool_results or message.is_synthetic:
            return False
        text = message.text
        return (
            not text.startswith((INTERRUPTED, *_LOCAL_COMMAND_PREFIXES))
            and message.raw.get("isCompactSummary") is not True
        )

    def _begin_turn(self, message: UserMessage) -> None:
        at = seconds(message.timestamp)
        self._is_in_turn = True
        self._stop_reason = None
        if message.origin is not None and not message.origin.is_human:
            self._fold.begin_turn((), at, causes=_TASK_ID.findall(message.text))
            return
        self._fold.end_turn()
        self._fold.sent(message, at)
        self._fold.begin_turn([message.uuid], at)
