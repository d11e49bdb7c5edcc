"""The background tasks of a session on disk: the ledger of its journal, with the ends that nobody reported.

All calls block. A time of 0 is unknown.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from claude_agent_py._journal.fold import TimedFrame
from claude_agent_py._journal.tasks.ledger import Ledger
from claude_agent_py._journal.tasks.outcome import TaskOutcome
from claude_agent_py._journal.tasks.record import Record
from claude_agent_py.sessions.transcript import StoredSubagent
from claude_agent_py.tasks.files.task_file import TaskFile
from claude_agent_py.tasks.files.transcript import inspect_interruption
from claude_agent_py.tasks.reconcile import inspect_files
from claude_agent_py.wire.messages.tasks import TaskStatus


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


def infer_ends(ledger: Ledger, subagents: Sequence[StoredSubagent]) -> Iterator[TimedFrame]:
    """Infer the ends that nobody reported from the files of the tasks, and yield the events of each."""
    for agent in subagents:
        ledger.ensure_record(agent.agent_id, 0.0).transcript_path = agent.path
    for record in ledger.own_live():
        path = record.transcript_path if record.is_agent else record.output_file
        files = [TaskFile(path, agent_id=record.id if record.is_agent else None)] if path else []
        finding = inspect_files(record, files)
        if record.is_agent and files and (finding is None or finding.status is None):
            finding = inspect_interruption(files[0]) or finding
        now = record.last_activity if record.is_agent else 0.0
        ledger.resolve(record, finding, now)
        yield ledger.take_changes(now)[1], now or None, False


def build_task(record: Record, subagent: StoredSubagent | None) -> StoredTask:
    """Return a task of a ledger."""
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
        subagent=subagent,
        parent_id=record.parent_id,
        is_backgrounded=record.is_backgrounded is not False,
    )
