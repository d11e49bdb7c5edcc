"""Whether a transcript already contains the end of a run, and how long to wait for it. No I/O.

The CLI writes the last entries of a subagent some time after it says that the subagent is over: measured, some
milliseconds, and on a busy machine more than half a second.
"""

from typing import Final

from claude_agent_py.tasks.files.transcript import TranscriptMessage, status_by
from claude_agent_py.tasks.ledger.record import Record, Run
from claude_agent_py.wire.messages.conversation import AssistantMessage
from claude_agent_py.wire.messages.tasks import TaskStatus
from claude_agent_py.wire.timestamps import seconds

LAST_WORDS: Final = 0.5
"""How long to wait for more entries after the end of a task, in seconds."""
LAST_REPORT: Final = 10.0
"""How long to wait after the end of a task for a report that is missing, in seconds."""


class Ending:
    """What the messages of a transcript so far say about its end."""

    def __init__(self) -> None:
        self._last: TranscriptMessage | None = None
        self._latest_text: AssistantMessage | None = None

    def note(self, message: TranscriptMessage) -> None:
        """Process the next message."""
        self._last = message
        if isinstance(message, AssistantMessage) and message.text:
            self._latest_text = message

    def patience(self, record: Record) -> float:
        """Return how long after the end of its run the transcript may still get entries, in seconds."""
        run = record.run
        last = _in_run(run, self._last)
        is_ended = last is not None and status_by(last) is not None
        report = run.summary.strip()
        if run.status is not TaskStatus.COMPLETED or not report:
            return 0.0 if is_ended else LAST_WORDS
        if _has(_in_run(run, self._latest_text), report):
            return 0.0 if is_ended or last is self._latest_text else LAST_WORDS
        # A report may differ from the last text: a child's structured report, or one that was handed back.
        was_handed_back = run.notification is not None and run.notification.handback_report is not None
        is_verbatim = run.is_report and not record.is_external and not was_handed_back
        return LAST_WORDS if is_ended and not is_verbatim else LAST_REPORT


def _in_run(run: Run, message: TranscriptMessage | None) -> TranscriptMessage | None:
    """Return a message unless it belongs to an earlier run."""
    if message is None or run.begun is None:
        return message
    written = seconds(message.timestamp)
    return message if written is None or written >= run.begun else None


def _has(message: TranscriptMessage | None, report: str) -> bool:
    """Return whether a message is the report. The CLI may add notes to a report."""
    text = message.text.strip() if message is not None else ""
    return bool(text) and (text in report or report in text)
