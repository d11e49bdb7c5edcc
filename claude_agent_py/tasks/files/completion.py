"""Detects whether a transcript already contains the end of a run, and how long to wait for it. No I/O.

The CLI writes the last entries of a subagent after it reports the end of the subagent: measured, some milliseconds
later, and on a busy machine some seconds.
"""

from typing import Final

from claude_agent_py._journal.tasks.record import Record, TaskRun
from claude_agent_py.tasks.files.transcript import TranscriptMessage, read_status
from claude_agent_py.wire.messages.conversation import AssistantMessage
from claude_agent_py.wire.messages.tasks import TaskStatus
from claude_agent_py.wire.timestamps import seconds

ENTRY_DELAY: Final = 0.5
"""How long to wait for more entries after the end of a task, in seconds."""
REPORT_DELAY: Final = 10.0
"""How long to wait after the end of a task for a report that is missing, in seconds."""


class TranscriptEnd:
    """The end of a transcript, as far as its messages show it."""

    def __init__(self) -> None:
        self._last: TranscriptMessage | None = None
        self._latest_text: AssistantMessage | None = None

    def add(self, message: TranscriptMessage) -> None:
        """Process the next message."""
        self._last = message
        if isinstance(message, AssistantMessage) and message.text:
            self._latest_text = message

    def grace_period(self, record: Record) -> float:
        """Return for how many seconds after the end of its run a transcript may still grow."""
        run = record.run
        last = _drop_if_earlier(run, self._last)
        is_ended = last is not None and read_status(last) is not None
        report = run.summary.strip() if run.status is TaskStatus.COMPLETED else ""
        if report:
            text = _drop_if_earlier(run, self._latest_text)
            if not _contains_report(text, report):
                return ENTRY_DELAY if is_ended and not _is_verbatim(record) else REPORT_DELAY
            is_ended = is_ended or last is text
        return 0.0 if is_ended else ENTRY_DELAY


def _is_verbatim(record: Record) -> bool:
    """Return whether the report is the agent's last text, unlike a child agent's or one that was handed back."""
    run = record.run
    was_handed_back = run.notification is not None and run.notification.handback_report is not None
    return run.is_report and not record.is_external and not was_handed_back


def _drop_if_earlier(run: TaskRun, message: TranscriptMessage | None) -> TranscriptMessage | None:
    """Return a message, or None if it belongs to an earlier run."""
    if message is None or run.begin_time is None:
        return message
    written = seconds(message.timestamp)
    return message if written is None or written >= run.begin_time else None


def _contains_report(message: TranscriptMessage | None, report: str) -> bool:
    """Return whether a message contains the report. The CLI may add notes to a report."""
    text = message.text.strip() if message is not None else ""
    return bool(text) and (text in report or report in text)
