"""The background tasks of a session on disk, from the tool results and notifications in its transcripts.

The end of a task is reported in a notification to the model; without one, it is inferred from the task's own files. All
calls block.
"""

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec

from claude_agent_py._base.bounded_reading import read_object
from claude_agent_py._base.errors import SessionError
from claude_agent_py.sessions.lines import Snapshot
from claude_agent_py.sessions.transcript import StoredSubagent, Transcript, take_snapshot
from claude_agent_py.tasks.files.transcript import TranscriptMessage, inspect_transcript
from claude_agent_py.tasks.ledger.announcements import TASK_TOOLS, Announcement, OpenCalls, find_announcements
from claude_agent_py.tasks.ledger.spending import Counts, count_transcript
from claude_agent_py.tasks.ledger.state import Evidence
from claude_agent_py.tasks.outcome import EndedBy, TaskOutcome, parse_exit_code
from claude_agent_py.tasks.reconcile import inspect_shell
from claude_agent_py.wire.messages.conversation import AssistantMessage
from claude_agent_py.wire.messages.tasks import TaskStatus, TaskUsage
from claude_agent_py.wire.timestamps import seconds

LEFT_BEHIND: Final = "the CLI process ended before the task"
_WITH_PROCESS: Final = "the previous session ended"
"""The CLI's (2.1.328) text for a task that was running when its process ended."""
_SENDER: Final = "task-notification"
_NOTIFICATION: Final = re.compile(r"<task-notification>\s*(?P<body><task-id>.*?)</task-notification>", re.DOTALL)
_FIELD: Final = re.compile(
    r"<(?P<name>task-id|tool-use-id|output-file|status|summary)>(?P<value>.*?)</(?P=name)>", re.DOTALL
)
_REPORT: Final = re.compile(r"<result>(.*)</result>", re.DOTALL)
_SPENT: Final = re.compile(r"<(?P<name>subagent_tokens|tool_uses|duration_ms)>(?P<value>\d{1,15})</(?P=name)>")
_USAGE: Final = {"subagent_tokens": "total_tokens", "tool_uses": "tool_uses", "duration_ms": "duration_ms"}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTask:
    """A background task of a session on disk."""

    id: str
    type: str | None = None
    """For example `local_agent` or `local_bash`."""
    description: str = ""
    prompt: str | None = None
    tool_use_id: str | None = None
    """The call that launched it."""
    started_at: float | None = None
    """Seconds since the epoch."""
    output_file: str | None = None
    outcome: TaskOutcome | None = None
    """The outcome; None while the task runs."""
    subagent: StoredSubagent | None = None
    """The conversation of a subagent; None for other tasks."""
    parent_id: str | None = None
    """The task id of the subagent that launched it; None for the main agent, or if unknown."""
    spent: Mapping[str, Counts] = field(default_factory=dict, repr=False)
    """The tokens counted in its transcript, by model. Internal to this package."""

    @property
    def status(self) -> TaskStatus:
        """The status."""
        return TaskStatus.RUNNING if self.outcome is None else self.outcome.status


def load_tasks(snapshot: Snapshot, session_id: str, subagents: Sequence[StoredSubagent]) -> list[StoredTask]:
    """Return the tasks of a session in launch order, tasks of subagents last."""
    found = Launches()
    found.read(snapshot, Transcript(snapshot, session_id, whole=True), None)
    for agent in subagents:
        # The transcript may have been removed since.
        with contextlib.suppress(SessionError):
            found.read(take_snapshot(agent.path, session_id, agent.owner), agent.messages, agent.agent_id)
    spent = {agent.agent_id: _count_tokens(agent.path) for agent in subagents}
    return found.build_tasks(subagents, spent)


def end_left_behind(tasks: Sequence[StoredTask]) -> list[StoredTask]:
    """Return the tasks with an outcome for those that their process left running when it ended."""
    return [_left_behind(task) if task.outcome is None else task for task in tasks]


class Launches:
    """The tasks launched and ended in the transcripts of a session."""

    def __init__(self) -> None:
        self.tasks: dict[str, StoredTask] = {}
        self.ends: dict[str, TaskOutcome] = {}
        self.writes: dict[str, str] = {}
        """The output files, by task."""
        self.callers: dict[str, str | None] = {}
        """The subagent that made each call; None for the main agent."""

    def read(self, snapshot: Snapshot, messages: Iterable[TranscriptMessage], agent_id: str | None) -> None:
        """Read the transcript of a subagent, or of the main agent (None)."""
        for _, line in snapshot.forwards():
            self.record_ends(line)
        reader = LaunchReader(self, agent_id)
        for message in messages:
            reader.read(message)

    def record_ends(self, line: bytes | None) -> None:
        """Record the task ends in a line that notifies the model."""
        for end in _parse_notifications(line):
            self.ends[end.task_id] = end

    def build_tasks(
        self, subagents: Sequence[StoredSubagent], spent: Mapping[str, Mapping[str, Counts]]
    ) -> list[StoredTask]:
        """Return the tasks in launch order, tasks of subagents last.

        `spent` contains the tokens of the subagents, by id and model.
        """
        tasks = dict(self.tasks)
        for agent in subagents:
            task = tasks.get(agent.agent_id) or StoredTask(id=agent.agent_id, type="local_agent")
            call = agent.tool_use_id or task.tool_use_id
            tasks[task.id] = replace(
                task,
                description=agent.description or task.description,
                tool_use_id=call,
                subagent=agent,
                parent_id=task.parent_id or self.callers.get(call or ""),
                spent=spent.get(agent.agent_id, {}),
            )
        written = [replace(task, output_file=task.output_file or self.writes.get(task.id)) for task in tasks.values()]
        return [_add_outcome(task, self.ends.get(task.id) or _inspect_files(task)) for task in written]

    def apply(
        self, announcement: Announcement, call_input: dict[str, Any], at: float | None, agent_id: str | None
    ) -> None:
        """Apply an announcement in a tool result of an agent."""
        word = announcement.word
        task_id = announcement.task_id
        if word == "writes":
            self.writes[task_id] = announcement.output_file
        elif word in ("launched", "completed"):
            self.tasks.setdefault(task_id, _build_task(announcement, call_input, at, agent_id))
            if word == "completed":
                end = TaskOutcome(task_id, TaskStatus.COMPLETED, Evidence.TOOL_RESULT, announcement.report)
                self.ends.setdefault(task_id, msgspec.structs.replace(end, usage=announcement.usage, ended_at=at))
        elif word == "stopped" and task_id in self.tasks:
            self.ends.setdefault(task_id, TaskOutcome(task_id, TaskStatus.STOPPED, Evidence.TOOL_RESULT))


class LaunchReader:
    """Reads the transcript of a subagent, or of the main agent (None), message by message."""

    def __init__(self, launches: Launches, agent_id: str | None) -> None:
        self._launches = launches
        self._agent_id = agent_id
        self._calls = OpenCalls()
        self._inputs: dict[str, dict[str, Any]] = {}

    def read(self, message: TranscriptMessage) -> None:
        """Process the next message."""
        if isinstance(message, AssistantMessage):
            self._calls.add(message)
            self._inputs |= {block.id: block.input for block in message.tool_uses if block.name in TASK_TOOLS}
            self._launches.callers |= dict.fromkeys((block.id for block in message.tool_uses), self._agent_id)
            return
        at = seconds(message.timestamp)
        for announcement in find_announcements(message, self._calls):
            call_input = self._inputs.get(announcement.tool_use_id or "", {})
            self._launches.apply(announcement, call_input, at, self._agent_id)
        for block in message.tool_results:
            self._inputs.pop(block.tool_use_id, None)


def _count_tokens(path: str) -> Mapping[str, Counts]:
    try:
        return count_transcript(path).by_model
    except OSError:
        return {}


def _build_task(
    announcement: Announcement, call_input: dict[str, Any], at: float | None, agent_id: str | None
) -> StoredTask:
    """Return a task, described by the result of the call that launched it or, if that is empty, by the call's input."""
    descriptions = (announcement.description, call_input.get("description"), call_input.get("command"))
    return StoredTask(
        id=announcement.task_id,
        type=announcement.type,
        description=next((text for text in descriptions if isinstance(text, str) and text), ""),
        prompt=announcement.prompt,
        tool_use_id=announcement.tool_use_id,
        started_at=at,
        output_file=announcement.output_file or None,
        parent_id=agent_id,
    )


def _add_outcome(task: StoredTask, end: TaskOutcome | None) -> StoredTask:
    if end is None:
        return task
    file = end.output_file or task.output_file
    end = msgspec.structs.replace(
        end, description=task.description, started_at=task.started_at, output_file=file, usage=_merge_usage(task, end)
    )
    return replace(task, outcome=end, output_file=file)


def _left_behind(task: StoredTask) -> StoredTask:
    end = TaskOutcome(
        task.id, TaskStatus.STOPPED, Evidence.PROCESS_EXIT, failure_reason=LEFT_BEHIND, ended_by=EndedBy.PROCESS
    )
    return _add_outcome(task, end)


def _merge_usage(task: StoredTask, end: TaskOutcome) -> TaskUsage | None:
    """Return the reported usage with the tokens of the whole transcript: the CLI reports the tokens of one request."""
    written = sum(map(sum, task.spent.values()))
    if not written or (end.usage is not None and end.usage.total_tokens >= written):
        return end.usage
    return (end.usage or TaskUsage()).replace(total_tokens=written)


def _inspect_files(task: StoredTask) -> TaskOutcome | None:
    """Return the end of a task according to its own files, or None if they do not have it."""
    finding = None
    if task.subagent is not None:
        finding = inspect_transcript(task.subagent.path)
    elif task.output_file and task.type == "local_bash":
        finding = inspect_shell(task.output_file)
    if finding is None or finding.status is None:
        return None
    return TaskOutcome(
        task.id,
        finding.status,
        finding.evidence,
        finding.summary,
        failure_reason=finding.failure_reason,
        exit_code=finding.exit_code,
    )


# Notifications ---------------------------------------------------------------------------------------------------


def _parse_notifications(line: bytes | None) -> Iterator[TaskOutcome]:
    """Yield the task ends in a notification to the model, delivered in its own turn or within another."""
    if line is None or b"<task-notification>" not in line or b'"task-notification"' not in line:
        return
    entry = read_object(line)
    if entry is not None:
        for text in _iter_notification_texts(entry):
            yield from (_parse_outcome(found["body"], entry) for found in _NOTIFICATION.finditer(text))


def _iter_notification_texts(entry: dict[str, Any]) -> Iterator[str]:
    """Yield the texts of a task notification from the CLI. A prompt with the same text has another origin."""
    attachment = entry.get("attachment")
    holder = attachment if isinstance(attachment, dict) else entry
    origin = holder.get("origin")
    if not isinstance(origin, dict) or origin.get("kind") != _SENDER:
        return
    message = holder.get("message")
    content = message.get("content") if isinstance(message, dict) else holder.get("prompt")
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for block in content:
            if isinstance(block, dict) and isinstance(block.get("text"), str):
                yield block["text"]


def _parse_outcome(body: str, entry: dict[str, Any]) -> TaskOutcome:
    head, mark, _ = body.partition("<result>")
    fields = {found["name"]: found["value"] for found in _FIELD.finditer(head)}
    report = _REPORT.search(body) if mark else None
    counts = _SPENT.finditer(body.rpartition("</result>")[2])
    spent: dict[str, Any] = {_USAGE[found["name"]]: int(found["value"]) for found in counts}
    summary = report[1] if report else fields.get("summary", "")
    status = TaskStatus.read(fields.get("status")) or TaskStatus.COMPLETED
    reason = {TaskStatus.FAILED: summary, TaskStatus.STOPPED: fields.get("summary")}.get(status)
    return TaskOutcome(
        fields.get("task-id", ""),
        status,
        Evidence.NOTIFICATION,
        summary,
        failure_reason=reason or None,
        output_file=fields.get("output-file"),
        usage=TaskUsage(**spent) if spent else None,
        exit_code=parse_exit_code(fields.get("summary", "")),
        is_report=report is not None,
        ended_by=EndedBy.PROCESS if status is TaskStatus.STOPPED and _WITH_PROCESS in head else None,
        ended_at=seconds(entry.get("timestamp")),
    )
