"""What each signal of the CLI means for its tasks.

The signals: the five task messages, messages of subagents, results of tools and of turns, hooks, permission prompts.
No order is assumed: a signal may come early, late, twice or never, and about a task that was not announced. `registry`
does the bookkeeping, `state` moves the status, `waiting.reconcile` adds what files tell. `now` is in seconds since the
epoch. Twin: `_protocol/turns.py`, which knows the turns.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

from claude_agent_py.tasks.events import Answered, Asked, TaskAnswered, TaskAsked, TaskProgressed
from claude_agent_py.tasks.ledger.announcements import Announcement, OpenCalls, announcements
from claude_agent_py.tasks.ledger.record import Record, Run
from claude_agent_py.tasks.ledger.registry import Registry
from claude_agent_py.tasks.ledger.state import Evidence, Signal, signal_of
from claude_agent_py.tasks.outcome import EndedBy, exit_code_in
from claude_agent_py.wire.messages.conversation import AssistantMessage, ResultMessage, ToolProgressMessage, UserMessage
from claude_agent_py.wire.messages.tasks import (
    BackgroundTask,
    BackgroundTasksChangedMessage,
    TaskNotificationMessage,
    TaskProgressMessage,
    TaskStartedMessage,
    TaskStatus,
    TaskUpdatedMessage,
)

STOPPED_BY_MODEL: Final = "stopped by the model (TaskStop)"

HOOKS_ABOUT_TASKS: Final = frozenset({"SubagentStart", "SubagentStop"})
"""Hooks about a task. Other hooks may list tasks in `background_tasks`."""

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
    """Applies signals to the records of a registry, which collects the events."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._calls = OpenCalls()
        self._asked: dict[str, str] = {}
        """The asking task, by the id of its question."""

    # Task messages

    def _on_started(self, message: TaskStartedMessage, now: float) -> None:
        registry = self._registry
        record = registry.record(message.task_id, now)
        run = self._run_of_start(record, message, now)
        _describe(record, message)
        record.is_ambient |= bool(message.ambient or message.skip_transcript)
        registry.set_parent(record, message.parent_task_id or self._launching_agent(message))
        run.start_uuid = message.uuid or run.start_uuid
        run.tool_use_id = message.tool_use_id or run.tool_use_id
        run.prompt = run.prompt if message.prompt is None else message.prompt
        if run is not record.run or not run.is_live:
            return
        if message.is_backgrounded is not None:
            registry.set_backgrounded(record, message.is_backgrounded, now)
        registry.confirm(record, run)
        if not record.is_child_agent:  # pending until its process starts
            registry.signal(record, run, Signal.STARTED, now)
        registry.announce(record, run, now)
        registry.touch(record, now)

    def _run_of_start(self, record: Record, message: TaskStartedMessage, now: float) -> Run:
        """Return the run that a start begins. Without a run id, a start after an end is a new run or a repetition."""
        run = self._registry.run_of(record, message.run_id, now)
        starts_again = message.run_id is None and run.status.is_terminal and run.is_announced
        if starts_again and not _is_repetition(run, message):
            return self._registry.open_run(record, None, now)
        return run

    def _launching_agent(self, message: TaskStartedMessage) -> str | None:
        """Return the subagent whose call launched the task, for a CLI that does not name the parent."""
        call = self._calls.get(message.tool_use_id)
        return call.agent_id if call and call.agent_id != message.task_id else None

    def _on_progress(self, message: TaskProgressMessage, now: float) -> None:
        registry = self._registry
        record = registry.record(message.task_id, now)
        run = registry.run_of(record, message.run_id, now)
        record.subagent_type = record.subagent_type or message.subagent_type
        run.tool_use_id = run.tool_use_id or message.tool_use_id
        self._on_sign_of_life(record, run, now)
        if run.status.is_terminal or run is not record.run:
            run.spent.report(message.usage if run.spent.reported is None else None)
            return
        record.activity = message.description
        record.last_tool_name = message.last_tool_name or record.last_tool_name
        record.progress_summary = message.summary or record.progress_summary
        run.spent.report(message.usage)
        if registry.wants_progress():
            registry.say(
                TaskProgressed(
                    record.id,
                    now,
                    run.run_id,
                    message.description,
                    message.last_tool_name,
                    message.summary,
                    record.usage_of(run, registry.prices),
                    author=registry.author_of(record),
                )
            )

    def _on_sign_of_life(self, record: Record, run: Run, now: float) -> None:
        if run is not record.run:
            return
        if run.status is TaskStatus.RUNNING and run.is_announced and run.doubt is None:  # nearly always
            record.last_activity = now
        else:
            self._registry.signal(record, run, Signal.SIGN_OF_LIFE, now)
            self._registry.confirm(record, run)
            self._registry.announce(record, run, now)
            self._registry.touch(record, now)

    def _on_updated(self, message: TaskUpdatedMessage, now: float) -> None:
        registry, patch = self._registry, message.patch
        record = registry.record(message.task_id, now)
        run = registry.run_of(record, message.run_id, now)
        record.description = patch.description or record.description
        run.ended_at = run.ended_at if patch.end_time is None else patch.end_time / 1000
        run.failure_reason = patch.error or run.failure_reason
        if run is record.run and run.is_live:
            registry.confirm(record, run)
        if patch.is_backgrounded is not None and run is record.run:
            registry.set_backgrounded(record, patch.is_backgrounded, now)
        status = patch.task_status
        if status is None:
            return
        if status.is_terminal:
            self._note_stop(record, run)
            registry.end(record, run, status, Evidence.UPDATE, now, wait=True)
        elif run is record.run:
            registry.signal(record, run, signal_of(status), now)
            registry.touch(record, now)

    def _on_notification(self, message: TaskNotificationMessage, now: float) -> None:
        registry = self._registry
        record = registry.record(message.task_id, now)
        run = registry.run_of(record, message.run_id, now)
        record.is_ambient |= bool(message.ambient or message.skip_transcript)
        run.tool_use_id = run.tool_use_id or message.tool_use_id
        registry.set_output(record, run, message.output_file, now)
        _report(record, run, message)
        self._note_stop(record, run)
        registry.end(record, run, message.task_status or TaskStatus.STOPPED, Evidence.NOTIFICATION, now)

    def _note_stop(self, record: Record, run: Run) -> None:
        """Record that the model stops a task, because the end arrives before the result of the call."""
        if run.stop_reason is None and self._calls.are_stopping(record.id):
            run.stop_reason, run.ended_by = STOPPED_BY_MODEL, EndedBy.MODEL

    # The list of live tasks

    def _on_level(self, message: BackgroundTasksChangedMessage, now: float) -> None:
        registry = self._registry
        registry.knows_level = True
        listed = {item.task_id for item in message.tasks}
        for item in message.tasks:
            if not self._is_as_known(item):
                self._on_listed(item, now)
        for task_id in registry.background - listed:
            registry.doubt(registry.records[task_id], Evidence.LEVEL, now)

    def _is_as_known(self, item: BackgroundTask) -> bool:
        """Return whether the list says nothing new about a task, which is almost always so."""
        if item.task_id not in self._registry.background:
            return False
        run = self._registry.records[item.task_id].run
        return run.run_id == item.run_id and run.doubt is None and run.status is not TaskStatus.PENDING

    def _on_listed(self, item: BackgroundTask, now: float) -> None:
        registry = self._registry
        record = registry.record(item.task_id, now)
        run = registry.run_of(record, item.run_id, now)
        _describe(record, item)
        record.is_ambient |= bool(item.ambient)
        registry.set_parent(record, item.parent_task_id)
        if run is not record.run:
            return
        registry.signal(record, run, Signal.SIGN_OF_LIFE, now)
        if run.is_live:
            registry.trust(record)
            registry.confirm(record, run)
            registry.set_backgrounded(record, True, now)

    # The conversation

    def _on_assistant(self, message: AssistantMessage, now: float) -> None:
        self._calls.note(message)
        self._on_conversation(message, now)

    def _on_user(self, message: UserMessage, now: float) -> None:
        self._on_conversation(message, now)
        if not isinstance(message.message.content, str):
            for said in announcements(message, self._calls):
                self._on_announcement(said, now)

    def _on_conversation(self, message: AssistantMessage | UserMessage, now: float) -> None:
        """Count a subagent's message as a sign of life. A late message, after the end, does not reopen the task."""
        if message.agent_id is None:
            return
        record = self._registry.record(message.agent_id, now)
        if not record.runs:
            self._registry.open_run(record, None, now).tool_use_id = message.parent_tool_use_id
            record.type = "local_agent"
        record.subagent_type = record.subagent_type or message.subagent_type
        record.description = record.description or message.task_description or ""
        if isinstance(message, AssistantMessage) and not record.is_child_agent:
            record.run.spent.note(message)
        if not record.is_over:
            if isinstance(message, AssistantMessage):
                record.last_text = message.text or record.last_text
            self._on_sign_of_life(record, record.run, now)

    def _on_tool_progress(self, message: ToolProgressMessage, now: float) -> None:
        record = self._registry.records.get(message.task_id or "")
        if record is not None and record.is_live:
            self._registry.touch(record, now)

    def _on_result(self, message: ResultMessage, now: float) -> None:
        """Doubt the main agent's foreground tasks, because the turn that waited for them is over."""
        registry = self._registry
        if registry.prices.learn(message.model_usage):
            registry.price_again()
        for record in [registry.records[task_id] for task_id in registry.foreground]:
            if record.parent_id is None:
                registry.doubt(record, Evidence.RESULT, now)

    # Results of tools

    def _on_announcement(self, said: Announcement, now: float) -> None:
        known = self._registry.records.get(said.task_id)
        if said.word == "stopped":
            if known is not None and known.is_live:
                known.run.stop_reason = known.run.stop_reason or STOPPED_BY_MODEL
                known.run.ended_by = known.run.ended_by or EndedBy.MODEL
                self._registry.end(known, known.run, TaskStatus.STOPPED, Evidence.TOOL_RESULT, now)
        elif said.word == "writes":
            launched = known.find_run(said.tool_use_id) if known else None
            if known is not None and launched is not None:
                self._registry.set_output(known, launched, said.output_file, now)
        else:
            self._on_launch(said, now)

    def _on_launch(self, said: Announcement, now: float) -> None:
        record = self._registry.record(said.task_id, now)
        record.type = record.type or said.type
        record.description = record.description or said.description
        run = self._launched_run(record, said, now)
        run.prompt = run.prompt or said.prompt
        if said.word == "completed":
            run.summary = run.summary or said.report
            run.spent.report(said.usage)
            self._registry.end(record, run, TaskStatus.COMPLETED, Evidence.TOOL_RESULT, now)
            return
        self._registry.set_output(record, run, said.output_file, now)
        if run is record.run and run.is_live and not run.status.is_terminal:
            self._registry.set_backgrounded(record, True, now)
            self._on_sign_of_life(record, run, now)

    def _launched_run(self, record: Record, said: Announcement, now: float) -> Run:
        """Return the run that a tool call launched: the one with its id, otherwise the current one."""
        run = record.find_run(said.tool_use_id)
        if run is not None:
            return run
        if not record.runs or (said.word == "resumed" and record.is_over):
            run = self._registry.open_run(record, None, now)
        else:
            run = record.run
        run.tool_use_id = run.tool_use_id or said.tool_use_id
        return run

    # Hooks

    def fold_hook(self, event: str, data: Mapping[str, Any], now: float) -> None:
        """Apply a hook's input. Hooks about subagents and the end of turns mention tasks."""
        if event == "SubagentStart":
            self._on_subagent_start(data, now)
        elif event == "SubagentStop":
            self._on_subagent_stop(data, now)
        listed = data.get("background_tasks")
        for item in listed if isinstance(listed, list) else []:
            if isinstance(item, Mapping) and isinstance(item.get("id"), str):
                self._on_hook_item(item, now)

    def _on_subagent_start(self, data: Mapping[str, Any], now: float) -> None:
        """Record a subagent that is about to start. It counts as live once the CLI itself mentions it."""
        agent_id, agent_type = data.get("agent_id"), data.get("agent_type")
        if not isinstance(agent_id, str) or not agent_type:
            return  # a fork of the CLI's own, for example for compaction, has no type
        record = self._registry.record(agent_id, now)
        record.type = record.type or "local_agent"
        record.subagent_type = record.subagent_type or str(agent_type)
        if not record.runs:
            self._registry.open_run(record, None, now)

    def _on_subagent_stop(self, data: Mapping[str, Any], now: float) -> None:
        """Doubt a subagent that is about to stop; a hook may still make it continue."""
        record = self._registry.records.get(str(data.get("agent_id")))
        if record is None or not record.runs:
            return
        path, words = data.get("agent_transcript_path"), data.get("last_assistant_message")
        record.transcript_path = path if isinstance(path, str) and path else record.transcript_path
        record.last_text = words if isinstance(words, str) and words else record.last_text
        self._registry.doubt(record, Evidence.HOOK, now)

    def _on_hook_item(self, item: Mapping[str, Any], now: float) -> None:
        record = self._registry.record(item["id"], now)
        record.type = record.type or _TYPE_OF_LABEL.get(str(item.get("type")))
        record.description = record.description or str(item.get("description") or "")
        record.subagent_type = record.subagent_type or item.get("agent_type")
        run = record.runs[-1] if record.runs else self._registry.open_run(record, None, now)
        status = TaskStatus.read(str(item.get("status")))
        if run.status.is_terminal or status is None or status.is_terminal:
            return
        record.is_backgrounded = True if record.is_backgrounded is None else record.is_backgrounded
        self._registry.confirm(record, run)
        self._registry.signal(record, run, Signal.SIGN_OF_LIFE, now)

    # Prompts for the user, and the end

    def asked(self, request_id: str, task_id: str, asked: Asked, now: float) -> None:
        """Record that a task asks the user."""
        record = self._registry.records.get(task_id)
        if record is not None and record.runs and record.is_live:
            self._asked[request_id] = task_id
            record.prompts.add(request_id)
            self._registry.signal(record, record.run, Signal.ASKED, now)
            self._registry.touch(record, now)
            author = self._registry.author_of(record)
            self._registry.say(TaskAsked(task_id, now, record.run.run_id, asked, author=author))

    def told_answer(self, task_id: str, answered: Answered, now: float) -> None:
        """Record the answer to a task's question."""
        record = self._registry.records.get(task_id)
        if record is not None and record.runs:
            author = self._registry.author_of(record)
            self._registry.say(TaskAnswered(record.id, now, record.run.run_id, answered, author=author))

    def answered(self, request_id: str, now: float) -> None:
        """Record that a question was answered or withdrawn."""
        record = self._registry.records.get(self._asked.pop(request_id, ""))
        if record is not None:
            record.prompts.discard(request_id)
            if not record.prompts:
                self._registry.signal(record, record.run, Signal.ANSWERED, now)

    def process_exited(self, reason: str, now: float) -> None:
        """End everything that the CLI ran, because its process ended."""
        self._registry.lose_all(reason, now)
        self._asked.clear()

    FOLDS: ClassVar[Mapping[type, Callable[[Any, Any, float], None]]] = {
        TaskStartedMessage: _on_started,
        TaskProgressMessage: _on_progress,
        TaskUpdatedMessage: _on_updated,
        TaskNotificationMessage: _on_notification,
        BackgroundTasksChangedMessage: _on_level,
        AssistantMessage: _on_assistant,
        UserMessage: _on_user,
        ToolProgressMessage: _on_tool_progress,
        ResultMessage: _on_result,
    }
    """Handlers by message type. Other messages are not about tasks."""


def _describe(record: Record, message: TaskStartedMessage | BackgroundTask) -> None:
    record.type = message.task_type or record.type
    record.description = message.description or record.description
    record.subagent_type = message.subagent_type or record.subagent_type
    if isinstance(message, TaskStartedMessage):
        record.workflow_name = message.workflow_name or record.workflow_name
        record.spawn_depth = record.spawn_depth if message.spawn_depth is None else int(message.spawn_depth)


def _report(record: Record, run: Run, message: TaskNotificationMessage) -> None:
    """Add a notification's details about the end."""
    run.notification = message
    # A plain stop repeats the description, which is neither a report nor a reason.
    said = message.summary if message.is_success or message.summary != record.description else ""
    if message.handback_report:
        run.summary = message.handback_report.text
    else:
        run.summary = said if said or not record.is_agent else record.last_text
    run.is_report = bool(message.summary_is_report or message.handback_report)
    run.spent.report(message.usage)
    code = None if record.is_agent else exit_code_in(message.summary)
    run.exit_code = run.exit_code if code is None else code
    if not message.is_success:
        run.failure_reason = run.failure_reason or said or message.reason


def _is_repetition(run: Run, message: TaskStartedMessage) -> bool:
    if message.uuid or run.start_uuid:
        return message.uuid == run.start_uuid
    return (message.tool_use_id, message.prompt) == (run.tool_use_id, run.prompt)
