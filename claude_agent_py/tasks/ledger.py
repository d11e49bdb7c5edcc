"""The ledger of tasks: folds every signal that there is into the state of each task.

Owns what each signal means: the five task messages, messages of subagents, results of tools, results of turns, hooks,
permission prompts, the end of the process. Each fold gives the task events that it caused. Deliberately does no I/O and
has no clock (`now` is an argument, seconds since the epoch); the bookkeeping itself is in `book`, the moves of a status
in `state`, and what files can tell is brought in by `reconcile`. Twin: `protocol/turns.py`, which knows the turns.

Nothing here relies on order: a signal may come early, late, twice or never, and about a task that nobody announced.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from claude_agent_py.tasks.announcements import Announcement, OpenCalls, announcements
from claude_agent_py.tasks.book import Book
from claude_agent_py.tasks.entry import Entry, Run
from claude_agent_py.tasks.events import TaskEvent, TaskProgressed
from claude_agent_py.tasks.outcome import Finding, exit_code_in
from claude_agent_py.tasks.spending import Counted
from claude_agent_py.tasks.state import Evidence, Signal, signal_of
from claude_agent_py.wire.messages import AssistantMessage, ResultMessage, ToolProgressMessage, UserMessage
from claude_agent_py.wire.tasks import (
    BackgroundTask,
    BackgroundTasksChangedMessage,
    TaskNotificationMessage,
    TaskProgressMessage,
    TaskStartedMessage,
    TaskStatus,
    TaskUpdatedMessage,
)

REPORT_GRACE: Final = 0.5
"""Seconds that an ended task waits for its notification. Measured: the two are at most some milliseconds apart."""
DOUBT_GRACE: Final = 1.0
"""Seconds that a task may be missing before it is taken to be over."""
STOPPED_BY_MODEL: Final = "stopped by the model (TaskStop)"

_TYPE_OF_LABEL: Final[Mapping[str, str]] = {
    "shell": "local_bash",
    "subagent": "local_agent",
    "workflow": "local_workflow",
    "cloud session": "remote_agent",
    "teammate": "in_process_teammate",
    "MCP task": "mcp_task",
}
"""Task types by the labels that hooks use for them."""


class Ledger:
    """What is known of all tasks of a session."""

    def __init__(self, *, report_grace: float = REPORT_GRACE, doubt_grace: float = DOUBT_GRACE) -> None:
        self.book: Book = Book(report_grace=report_grace, doubt_grace=doubt_grace)
        self._calls = OpenCalls()
        self._asked: dict[str, str] = {}
        self._folds: dict[type, Callable[[Any, float], None]] = {
            TaskStartedMessage: self._on_started,
            TaskProgressMessage: self._on_progress,
            TaskUpdatedMessage: self._on_updated,
            TaskNotificationMessage: self._on_notification,
            BackgroundTasksChangedMessage: self._on_level,
            AssistantMessage: self._on_assistant,
            UserMessage: self._on_user,
            ToolProgressMessage: self._on_tool_progress,
            ResultMessage: self._on_result,
        }

    @property
    def kinds(self) -> frozenset[type]:
        """The types of messages that may say something about a task; all others are none of the ledger's business."""
        return frozenset(self._folds)

    @property
    def entries(self) -> Mapping[str, Entry]:
        """Every task, in the order in which they became known."""
        return self.book.entries

    def live_ids(self) -> frozenset[str]:
        """Give the ids of the tasks that are not over; ambient ones left out."""
        return self.book.live_ids()

    def fold(self, message: Any, now: float) -> list[TaskEvent]:
        """Fold any message of the session."""
        fold = self._folds.get(type(message))
        if fold is None:
            return []
        fold(message, now)
        return self.book.take_events()

    # Task messages

    def _on_started(self, message: TaskStartedMessage, now: float) -> None:
        book = self.book
        entry = book.entry(message.task_id, now)
        run = self._run_of_start(entry, message, now)
        _describe(entry, message)
        entry.is_ambient |= bool(message.ambient or message.skip_transcript)
        book.set_parent(entry, message.parent_task_id or self._launching_agent(message))
        run.start_uuid = message.uuid or run.start_uuid
        run.tool_use_id = message.tool_use_id or run.tool_use_id
        run.prompt = run.prompt if message.prompt is None else message.prompt
        if run is not entry.run or not run.is_live:
            return
        if message.is_backgrounded is not None:
            book.set_backgrounded(entry, message.is_backgrounded, now)
        book.confirm(entry, run, now)
        book.signal(entry, run, Signal.STARTED, now)
        book.announce(entry, run, now)
        book.touch(entry, now)

    def _run_of_start(self, entry: Entry, message: TaskStartedMessage, now: float) -> Run:
        """Give the run that a start begins. Without a run id, one after an end is a new run, or a repetition."""
        run = self.book.run_of(entry, message.run_id, now)
        starts_again = message.run_id is None and run.status.is_terminal and run.is_announced
        if starts_again and not _is_repetition(run, message):
            return self.book.open_run(entry, None, now)
        return run

    def _launching_agent(self, message: TaskStartedMessage) -> str | None:
        """Give the subagent whose call launched the task, for a CLI that does not name the parent."""
        call = self._calls.get(message.tool_use_id)
        return call.agent_id if call and call.agent_id != message.task_id else None

    def _on_progress(self, message: TaskProgressMessage, now: float) -> None:
        book = self.book
        entry = book.entry(message.task_id, now)
        run = book.run_of(entry, message.run_id, now)
        entry.subagent_type = entry.subagent_type or message.subagent_type
        run.tool_use_id = run.tool_use_id or message.tool_use_id
        self._live_sign(entry, run, now)
        if run.status.is_terminal or run is not entry.run:
            run.spent.report(message.usage if run.spent.reported is None else None)
            return
        entry.activity = message.description
        entry.last_tool_name = message.last_tool_name or entry.last_tool_name
        entry.progress_summary = message.summary or entry.progress_summary
        run.spent.report(message.usage)
        book.say(
            TaskProgressed(
                entry.id,
                now,
                run.run_id,
                message.description,
                message.last_tool_name,
                message.summary,
                entry.usage_of(run, book.prices),
                author=book.author_of(entry),
            )
        )

    def _live_sign(self, entry: Entry, run: Run, now: float) -> None:
        if run is not entry.run:
            return
        if run.status is TaskStatus.RUNNING and run.is_announced and run.doubt is None:  # which it nearly always is
            entry.last_activity = now
        else:
            self.book.signal(entry, run, Signal.SIGN_OF_LIFE, now)
            self.book.confirm(entry, run, now)
            self.book.announce(entry, run, now)
            self.book.touch(entry, now)

    def _on_updated(self, message: TaskUpdatedMessage, now: float) -> None:
        book, patch = self.book, message.patch
        entry = book.entry(message.task_id, now)
        run = book.run_of(entry, message.run_id, now)
        entry.description = patch.description or entry.description
        run.ended_at = run.ended_at if patch.end_time is None else patch.end_time / 1000
        run.failure_reason = patch.error or run.failure_reason
        if run is entry.run and run.is_live:
            book.confirm(entry, run, now)
        if patch.is_backgrounded is not None and run is entry.run:
            book.set_backgrounded(entry, patch.is_backgrounded, now)
        status = patch.task_status
        if status is None:
            return
        if status.is_terminal:
            self._note_stopper(entry, run)
            book.end(entry, run, status, Evidence.UPDATE, now, wait=True)
        elif run is entry.run:
            book.signal(entry, run, signal_of(status), now)
            book.touch(entry, now)

    def _on_notification(self, message: TaskNotificationMessage, now: float) -> None:
        book = self.book
        entry = book.entry(message.task_id, now)
        run = book.run_of(entry, message.run_id, now)
        entry.is_ambient |= bool(message.ambient or message.skip_transcript)
        run.tool_use_id = run.tool_use_id or message.tool_use_id
        book.set_output(entry, run, message.output_file, now)
        _report(entry, run, message)
        self._note_stopper(entry, run)
        book.end(entry, run, message.task_status or TaskStatus.STOPPED, Evidence.NOTIFICATION, now)

    def _note_stopper(self, entry: Entry, run: Run) -> None:
        """Note that the model stops a task: the end comes before the result of its call."""
        if run.stop_reason is None and self._calls.are_stopping(entry.id):
            run.stop_reason = STOPPED_BY_MODEL

    # The level

    def _on_level(self, message: BackgroundTasksChangedMessage, now: float) -> None:
        book = self.book
        book.knows_level = True
        listed = {item.task_id for item in message.tasks}
        for item in message.tasks:
            if not self._is_as_known(item):
                self._on_listed(item, now)
        for task_id in book.background - listed:
            book.doubt(book.entries[task_id], Evidence.LEVEL, now)

    def _is_as_known(self, item: BackgroundTask) -> bool:
        """Tell whether the list repeats what is known of a task, which is true of nearly all in it."""
        if item.task_id not in self.book.background:
            return False
        run = self.book.entries[item.task_id].run
        return run.run_id == item.run_id and run.doubt is None and run.status is not TaskStatus.PENDING

    def _on_listed(self, item: BackgroundTask, now: float) -> None:
        book = self.book
        entry = book.entry(item.task_id, now)
        run = book.run_of(entry, item.run_id, now)
        _describe(entry, item)
        entry.is_ambient |= bool(item.ambient)
        book.set_parent(entry, item.parent_task_id)
        if run is not entry.run:
            return
        book.signal(entry, run, Signal.SIGN_OF_LIFE, now)
        if run.is_live:
            book.trust(entry)
            book.confirm(entry, run, now)
            book.set_backgrounded(entry, True, now)

    # The conversation

    def _on_assistant(self, message: AssistantMessage, now: float) -> None:
        self._calls.note(message)
        self._on_child(message, now)

    def _on_user(self, message: UserMessage, now: float) -> None:
        self._on_child(message, now)
        if not isinstance(message.message.content, str):
            for said in announcements(message, self._calls):
                self._on_announcement(said, now)

    def _on_child(self, message: AssistantMessage | UserMessage, now: float) -> None:
        """Take a message of a subagent as a sign of life. After its end it is a straggler, and opens nothing."""
        if message.agent_id is None:
            return
        entry = self.book.entry(message.agent_id, now)
        if not entry.runs:
            self.book.open_run(entry, None, now).tool_use_id = message.parent_tool_use_id
            entry.type = "local_agent"
        entry.subagent_type = entry.subagent_type or message.subagent_type
        entry.description = entry.description or message.task_description or ""
        if isinstance(message, AssistantMessage) and not entry.is_child_agent:
            entry.run.spent.note(message)
        if not entry.run.status.is_terminal:
            if isinstance(message, AssistantMessage):
                entry.last_text = message.text or entry.last_text
            self._live_sign(entry, entry.run, now)

    def _on_tool_progress(self, message: ToolProgressMessage, now: float) -> None:
        entry = self.book.entries.get(message.task_id or "")
        if entry is not None and entry.is_live:
            self.book.touch(entry, now)

    def _on_result(self, message: ResultMessage, now: float) -> None:
        """A turn is over: it no longer waits for anything, so no task of the main agent is in its foreground."""
        if self.book.prices.learn(message.model_usage):
            self.book.price_again()
        for entry in [self.book.entries[task_id] for task_id in self.book.foreground]:
            if entry.parent_id is None:
                self.book.doubt(entry, Evidence.RESULT, now)

    # Results of tools

    def _on_announcement(self, said: Announcement, now: float) -> None:
        known = self.book.entries.get(said.task_id)
        if said.word == "stopped":
            if known is not None and known.is_live:
                known.run.stop_reason = known.run.stop_reason or STOPPED_BY_MODEL
                self.book.end(known, known.run, TaskStatus.STOPPED, Evidence.TOOL_RESULT, now)
        elif said.word == "writes":
            launched = known.find_run(said.tool_use_id) if known else None
            if known is not None and launched is not None:
                self.book.set_output(known, launched, said.output_file, now)
        else:
            self._on_launch(said, now)

    def _on_launch(self, said: Announcement, now: float) -> None:
        entry = self.book.entry(said.task_id, now)
        entry.type = entry.type or said.type
        entry.description = entry.description or said.description
        run = self._announced_run(entry, said, now)
        run.prompt = run.prompt or said.prompt
        if said.word == "completed":
            run.summary = run.summary or said.report
            run.spent.report(said.usage)
            self.book.end(entry, run, TaskStatus.COMPLETED, Evidence.TOOL_RESULT, now)
            return
        self.book.set_output(entry, run, said.output_file, now)
        if run is entry.run and run.is_live and not run.status.is_terminal:
            self.book.set_backgrounded(entry, True, now)
            self._live_sign(entry, run, now)

    def _announced_run(self, entry: Entry, said: Announcement, now: float) -> Run:
        """Give the run that a tool call launched: the one that names the call, else the current one."""
        run = entry.find_run(said.tool_use_id)
        if run is not None:
            return run
        if not entry.runs or (said.word == "resumed" and entry.run.status.is_terminal):
            run = self.book.open_run(entry, None, now)
        else:
            run = entry.run
        run.tool_use_id = run.tool_use_id or said.tool_use_id
        return run

    # Hooks

    def fold_hook(self, event: str, data: Mapping[str, Any], now: float) -> list[TaskEvent]:
        """Fold the input of a hook. Only those about subagents and the end of turns say anything here."""
        if event == "SubagentStart":
            self._on_subagent_start(data, now)
        elif event == "SubagentStop":
            self._on_subagent_stop(data, now)
        listed = data.get("background_tasks")
        for item in listed if isinstance(listed, list) else []:
            if isinstance(item, Mapping) and isinstance(item.get("id"), str):
                self._on_hook_item(item, now)
        return self.book.take_events()

    def _on_subagent_start(self, data: Mapping[str, Any], now: float) -> None:
        """A subagent is about to start. It counts as live once the CLI itself sends something of it."""
        agent_id, agent_type = data.get("agent_id"), data.get("agent_type")
        if not isinstance(agent_id, str) or not agent_type:
            return  # a fork of the CLI's own, for example for compaction, has no type
        entry = self.book.entry(agent_id, now)
        entry.type = entry.type or "local_agent"
        entry.subagent_type = entry.subagent_type or str(agent_type)
        if not entry.runs:
            self.book.open_run(entry, None, now)

    def _on_subagent_stop(self, data: Mapping[str, Any], now: float) -> None:
        """A subagent is about to stop; a hook may still make it go on."""
        entry = self.book.entries.get(str(data.get("agent_id")))
        if entry is None or not entry.runs:
            return
        path, words = data.get("agent_transcript_path"), data.get("last_assistant_message")
        entry.transcript_path = path if isinstance(path, str) and path else entry.transcript_path
        entry.last_text = words if isinstance(words, str) and words else entry.last_text
        self.book.doubt(entry, Evidence.HOOK, now)

    def _on_hook_item(self, item: Mapping[str, Any], now: float) -> None:
        entry = self.book.entry(item["id"], now)
        entry.type = entry.type or _TYPE_OF_LABEL.get(str(item.get("type")))
        entry.description = entry.description or str(item.get("description") or "")
        entry.subagent_type = entry.subagent_type or item.get("agent_type")
        run = entry.runs[-1] if entry.runs else self.book.open_run(entry, None, now)
        status = TaskStatus.read(str(item.get("status")))
        if run.status.is_terminal or status is None or status.is_terminal:
            return
        entry.is_backgrounded = True if entry.is_backgrounded is None else entry.is_backgrounded
        self.book.confirm(entry, run, now)
        self.book.signal(entry, run, Signal.SIGN_OF_LIFE, now)

    # Prompts for the user

    def asked(self, request_id: str, task_id: str, now: float) -> list[TaskEvent]:
        """A task asks for a permission, or an answer."""
        entry = self.book.entries.get(task_id)
        if entry is not None and entry.runs and entry.is_live:
            self._asked[request_id] = task_id
            entry.prompts.add(request_id)
            self.book.signal(entry, entry.run, Signal.ASKED, now)
            self.book.touch(entry, now)
        return self.book.take_events()

    def answered(self, request_id: str, now: float) -> list[TaskEvent]:
        """A prompt was answered, or withdrawn."""
        entry = self.book.entries.get(self._asked.pop(request_id, ""))
        if entry is not None:
            entry.prompts.discard(request_id)
            if not entry.prompts:
                self.book.signal(entry, entry.run, Signal.ANSWERED, now)
        return self.book.take_events()

    # The rest

    def stop_confirmed(self, task_id: str, now: float) -> list[TaskEvent]:
        """The CLI confirmed that it was told to stop a task, which it does for any id."""
        self.book.doubt(self.book.entries[task_id], Evidence.STOP_REQUEST, now)
        return self.book.take_events()

    @property
    def has_external(self) -> bool:
        """Whether tasks are under way that are not the CLI's."""
        return any(entry.is_external and entry.is_live for entry in self.entries.values())

    def writes_to(self, entry: Entry, path: str, now: float) -> list[TaskEvent]:
        """It became known where a task writes to."""
        self.book.set_output(entry, entry.run, path, now)
        return self.book.take_events()

    def counted(self, entry: Entry, run: Run, found: Counted | None, now: float) -> list[TaskEvent]:
        """The transcript of a task whose run is over was counted; None where it cannot be read."""
        self.book.count(entry, run, found, now)
        return self.book.take_events()

    def suspect(self, task_id: str, why: Evidence, now: float) -> list[TaskEvent]:
        """The files of a task say that it is over."""
        self.book.doubt(self.book.entries[task_id], why, now)
        return self.book.take_events()

    def conclude(self, task_id: str, finding: Finding | None, now: float) -> list[TaskEvent]:
        """Decide about a task that is due (`Book.due`)."""
        self.book.conclude(self.book.entries[task_id], finding, now)
        return self.book.take_events()

    def process_exited(self, reason: str, now: float) -> list[TaskEvent]:
        """The CLI's process is gone, and with it all that it ran."""
        self.book.lose_all(reason, now)
        self._asked.clear()
        return self.book.take_events()


def _describe(entry: Entry, message: TaskStartedMessage | BackgroundTask) -> None:
    entry.type = message.task_type or entry.type
    entry.description = message.description or entry.description
    entry.subagent_type = message.subagent_type or entry.subagent_type
    if isinstance(message, TaskStartedMessage):
        entry.workflow_name = message.workflow_name or entry.workflow_name
        entry.spawn_depth = entry.spawn_depth if message.spawn_depth is None else int(message.spawn_depth)


def _report(entry: Entry, run: Run, message: TaskNotificationMessage) -> None:
    """Take over what a notification says about the end."""
    run.notification = message
    # A plain stop repeats the description, which is neither a report nor a reason.
    said = message.summary if message.is_success or message.summary != entry.description else ""
    if message.handback_report:
        run.summary = message.handback_report.text
    else:
        run.summary = said if said or not entry.is_agent else entry.last_text
    run.is_report = bool(message.summary_is_report or message.handback_report)
    run.spent.report(message.usage)
    code = None if entry.is_agent else exit_code_in(message.summary)
    run.exit_code = run.exit_code if code is None else code
    if not message.is_success:
        run.failure_reason = run.failure_reason or said or message.reason


def _is_repetition(run: Run, message: TaskStartedMessage) -> bool:
    if message.uuid or run.start_uuid:
        return message.uuid == run.start_uuid
    return (message.tool_use_id, message.prompt) == (run.tool_use_id, run.prompt)
