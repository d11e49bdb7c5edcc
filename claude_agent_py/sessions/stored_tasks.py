"""The background tasks of a session on disk: its transcripts, folded by the ledger that also folds running sessions.

The end of a task is reported in a notification to the model; without one, it is inferred from the task's own files. All
calls block. A time of 0 is unknown.
"""

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from claude_agent_py._base.bounded_reading import read_object
from claude_agent_py._base.errors import SessionError
from claude_agent_py._journal.tasks import signals
from claude_agent_py._journal.tasks.events import TaskEvent
from claude_agent_py._journal.tasks.ledger import Ledger
from claude_agent_py._journal.tasks.outcome import EndedBy, Finding, TaskOutcome
from claude_agent_py._journal.tasks.record import Record
from claude_agent_py._journal.tasks.state import Evidence
from claude_agent_py.sessions.cost_notes import read_last_cost
from claude_agent_py.sessions.lines import Snapshot
from claude_agent_py.sessions.transcript import StoredSubagent, Transcript, take_snapshot
from claude_agent_py.tasks.files.transcript import TranscriptMessage
from claude_agent_py.tasks.reconcile import inspect_files
from claude_agent_py.wire.messages.conversation import AssistantMessage
from claude_agent_py.wire.messages.tasks import TaskNotificationMessage, TaskStatus, TaskUsage
from claude_agent_py.wire.timestamps import seconds

LEFT_BEHIND: Final = "the CLI process ended before the task"
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
    is_backgrounded: bool = True
    """Whether the call that launched it did not wait for it."""

    @property
    def status(self) -> TaskStatus:
        """The status."""
        return TaskStatus.RUNNING if self.outcome is None else self.outcome.status


class StoredLedger(Ledger):
    """The tasks in the transcripts of a session, read line by line."""

    def __init__(self) -> None:
        super().__init__()
        self.wants: Callable[[type[TaskEvent]], bool] = lambda kind: False
        self._agents: dict[str, StoredSubagent] = {}
        self._callers: dict[str, str] = {}
        """The subagent that made each call."""

    def read_notifications(self, line: bytes) -> None:
        """Apply the task ends in a line of a transcript that notifies the model."""
        for message, at in _parse_notifications(line):
            known = self.records.get(message.task_id)
            if known is not None:
                known.run.ended_at = None  # the last notification counts
            signals.HANDLERS[TaskNotificationMessage](self, message, at)

    def read(self, message: TranscriptMessage, agent_id: str | None) -> None:
        """Apply a message of a subagent, or of the main agent (None)."""
        if isinstance(message, AssistantMessage) and agent_id is not None:
            self._callers |= dict.fromkeys((block.id for block in message.tool_uses), agent_id)
        if message.agent_id != agent_id:
            message = message.replace(agent_id=agent_id)
        signals.HANDLERS[type(message)](self, message, seconds(message.timestamp) or 0.0)

    def add_agents(self, agents: Iterable[StoredSubagent]) -> None:
        """Add the subagents that have a transcript, after their calls were read."""
        for agent in agents:
            self._agents[agent.agent_id] = agent
            record = self.ensure_record(agent.agent_id, 0.0)
            run = record.run if record.runs else self.open_run(record, None, 0.0)
            run.tool_use_id = agent.tool_use_id or run.tool_use_id
            record.type = record.type or "local_agent"
            record.description = agent.description or record.description
            record.subagent_type = agent.agent_type or record.subagent_type
            record.spawn_depth = agent.spawn_depth
            record.transcript_path = agent.path
            self.set_parent(record, self._callers.get(run.tool_use_id or ""))

    def finish(self, *, is_over: bool) -> None:
        """Infer the ends that nobody reported: from the files and, if the session `is_over`, from the process's end."""
        for record in self._known():
            run = record.run
            if run.is_live:
                self.resolve(record, _inspect(record), 0.0)
            if run.is_live and is_over:
                run.failure_reason = LEFT_BEHIND
                run.ended_by = EndedBy.PROCESS
                self.end(record, run, TaskStatus.STOPPED, Evidence.PROCESS_EXIT, 0.0)
            if run.outcome is not None:
                run.ended_at = run.ended_at or None
                run.outcome = msgspec.structs.replace(
                    run.outcome,
                    description=record.description,
                    started_at=record.runs[0].started_at or None,
                    ended_at=run.ended_at,
                    output_file=run.output_file or record.output_file,
                    usage=record.compute_usage(run, self.prices),
                )

    @property
    def tasks(self) -> list[StoredTask]:
        """The tasks in launch order, tasks of subagents last."""
        return [self._build_task(record) for record in self._known()]

    @property
    def running(self) -> list[StoredTask]:
        """The tasks whose end is neither reported nor in their files. Does not change them, because they may go on."""
        live = [record for record in self._known() if record.is_live]
        found = [(record, _inspect(record)) for record in live]
        return [self._build_task(record) for record, finding in found if finding is None or finding.status is None]

    def _known(self) -> list[Record]:
        """Return the tasks with a launch or a transcript. Of others, there is only a notification."""
        return [record for record in self.records.values() if record.type is not None]

    def _build_task(self, record: Record) -> StoredTask:
        first, last = record.runs[0], record.run
        return StoredTask(
            id=record.id,
            type=record.type,
            description=record.description,
            prompt=last.prompt,
            tool_use_id=first.tool_use_id,
            started_at=first.started_at or None,
            output_file=last.output_file or record.output_file,
            outcome=last.outcome,
            subagent=self._agents.get(record.id),
            parent_id=record.parent_id,
            is_backgrounded=bool(record.is_backgrounded) or not record.is_agent or first.tool_use_id is None,
        )


def read_ledger(
    snapshot: Snapshot, session_id: str, subagents: Sequence[StoredSubagent], *, is_over: bool
) -> StoredLedger:
    """Return the tasks of a session. If it `is_over`, no task is running: those without an end were left behind."""
    ledger = StoredLedger()
    snapshots = [snapshot]
    for message in Transcript(snapshot, session_id, whole=True):
        ledger.read(message, None)
    for agent in subagents:
        # The transcript may have been removed since.
        with contextlib.suppress(SessionError):
            for message in agent.messages:
                ledger.read(message, agent.agent_id)
            snapshots.append(take_snapshot(agent.path, session_id, agent.owner))
    ledger.add_agents(subagents)
    # A notification ends the latest run, and an agent has one: it may be before the call that resumed the agent.
    for each in snapshots:
        with contextlib.suppress(OSError):
            for _, line in each.forwards():
                ledger.read_notifications(line or b"")
    with contextlib.suppress(OSError):
        ledger.prices.derive(read_last_cost(snapshot).model_usage)
    ledger.finish(is_over=is_over)
    return ledger


def _inspect(record: Record) -> Finding | None:
    path = record.transcript_path if record.is_agent else record.output_file
    return inspect_files(record, [path] if path else [])


# Notifications ---------------------------------------------------------------------------------------------------


def _parse_notifications(line: bytes) -> Iterator[tuple[TaskNotificationMessage, float]]:
    """Yield the notifications to the model in a line, in a turn of their own or within another, with their times."""
    if b"<task-notification>" not in line or b'"task-notification"' not in line:
        return
    entry = read_object(line)
    if entry is not None:
        at = seconds(entry.get("timestamp")) or 0.0
        for text in _iter_notification_texts(entry):
            yield from ((_parse_notification(found["body"]), at) for found in _NOTIFICATION.finditer(text))


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


def _parse_notification(body: str) -> TaskNotificationMessage:
    head, mark, _ = body.partition("<result>")
    fields = {found["name"]: found["value"] for found in _FIELD.finditer(head)}
    report = _REPORT.search(body) if mark else None
    counts = _SPENT.finditer(body.rpartition("</result>")[2])
    spent: dict[str, Any] = {_USAGE[found["name"]]: int(found["value"]) for found in counts}
    return TaskNotificationMessage(
        task_id=fields.get("task-id", ""),
        tool_use_id=fields.get("tool-use-id"),
        output_file=fields.get("output-file", ""),
        status=fields.get("status") or TaskStatus.COMPLETED.value,
        summary=report[1] if report else fields.get("summary", ""),
        summary_is_report=report is not None,
        usage=TaskUsage(**spent) if spent else None,
    )
