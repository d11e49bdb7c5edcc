"""Apply each signal of the CLI to the tasks in a `Ledger`. `HANDLERS` has the function for each type of message.

Signals are the five task messages, messages of subagents, results of tools and of turns, and requests of the CLI:
hooks, and questions to a person. They may arrive early, late, twice or never, in any order, and concern unannounced
tasks. `ledger` does the bookkeeping, `state` moves the status, and `reconcile` adds evidence from files. `now` is in
seconds since the epoch. `_journal/routes.py` does the same for turns.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from claude_agent_py._base.json_object import JSONMapping
from claude_agent_py._journal.fact_base import check_time
from claude_agent_py._journal.requests import QUESTIONS, PersonAnswered, PersonAsked
from claude_agent_py._journal.tasks.announcements import Announcement, find_announcements
from claude_agent_py._journal.tasks.events import TaskAnswered, TaskAsked, TaskProgressed
from claude_agent_py._journal.tasks.ledger import Ledger, QuestionState
from claude_agent_py._journal.tasks.outcome import EndedBy, parse_exit_code
from claude_agent_py._journal.tasks.record import Record, TaskRun
from claude_agent_py._journal.tasks.state import Evidence, Signal, signal_for
from claude_agent_py.wire.control.asks import HookCallbackRequest
from claude_agent_py.wire.control.frames import ControlCancelRequest, ControlRequest, ControlResponse
from claude_agent_py.wire.messages.conversation import AssistantMessage, ResultMessage, ToolProgressMessage, UserMessage
from claude_agent_py.wire.messages.system import InitMessage, PermissionDeniedMessage
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
_WITH_PROCESS: Final = ("the previous session ended", "a previous Claude Code process exit")
"""The CLI's (2.1.328) texts for a task that was running when its process ended, alone and among others."""

_TYPE_OF_LABEL: Final[Mapping[str, str]] = {
    "shell": "local_bash",
    "subagent": "local_agent",
    "workflow": "local_workflow",
    "cloud session": "remote_agent",
    "teammate": "in_process_teammate",
    "MCP task": "mcp_task",
}
"""Task types by the labels that hooks use for them."""


# Task messages


def _on_started(ledger: Ledger, message: TaskStartedMessage, now: float) -> None:
    record, run = ledger.ensure_run(message.task_id, message.run_id, now)
    # Without a run id, a start after an end is a new run or a repetition.
    starts_again = message.run_id is None and run.status.is_terminal and run.is_announced
    if starts_again and not _is_repetition(run, message):
        run = ledger.open_run(record, None, now)
    _update_description(record, message)
    ledger.set_ambient(record, bool(message.ambient or message.skip_transcript))
    ledger.set_parent(record, message.parent_task_id or _find_launching_agent(ledger, message))
    ledger.calls.mark_running(message.tool_use_id, now)
    run.start_uuid = message.uuid or run.start_uuid
    run.tool_use_id = message.tool_use_id or run.tool_use_id
    if message.prompt is not None:
        run.prompt = message.prompt
    # A late start only describes the run: what follows would show it as running.
    if run is not record.run or not run.is_live:
        return
    if message.is_backgrounded is not None:
        ledger.set_backgrounded(record, message.is_backgrounded, now)
    if message.is_backgrounded is False and record.is_shell:  # the CLI announces it only after seconds, or at its end
        call = ledger.calls.get(run.tool_use_id)
        run.started_at = min(run.started_at, call.at if call is not None and call.at else now)
    ledger.confirm(record, run)
    # A child agent is pending until its process starts.
    if not record.is_child_agent:
        ledger.signal(record, run, Signal.STARTED, now)
    ledger.announce(record, run, now)
    ledger.record_activity(record, now)


def _find_launching_agent(ledger: Ledger, message: TaskStartedMessage) -> str | None:
    """Return the subagent whose call launched the task, for a CLI that does not name the parent."""
    call = ledger.calls.get(message.tool_use_id)
    return call.agent_id if call is not None and call.agent_id != message.task_id else None


def _on_progress(ledger: Ledger, message: TaskProgressMessage, now: float) -> None:
    record, run = ledger.ensure_run(message.task_id, message.run_id, now)
    record.subagent_type = record.subagent_type or message.subagent_type
    run.tool_use_id = run.tool_use_id or message.tool_use_id
    _on_activity(ledger, record, run, now)
    if run is not record.run or run.status.is_terminal:
        if run.spent.reported is None:
            run.spent.add_report(message.usage)
        return
    record.activity = message.description
    record.last_tool_name = message.last_tool_name or record.last_tool_name
    record.progress_summary = message.summary or record.progress_summary
    run.spent.add_report(message.usage)
    if ledger.wants(TaskProgressed):
        ledger.emit(
            TaskProgressed,
            record,
            run,
            now,
            activity=message.description,
            last_tool_name=message.last_tool_name,
            summary=message.summary,
            usage=record.compute_usage(run, ledger.prices),
        )


def _on_activity(ledger: Ledger, record: Record, run: TaskRun, now: float) -> None:
    if run is not record.run:
        return
    if run.status is TaskStatus.RUNNING and run.is_announced and run.suspicion is None:
        # The shortcut for almost every message.
        record.last_activity = now
    else:
        has_resumed = run.status is TaskStatus.AWAITING_USER and not record.prompts
        ledger.signal(record, run, Signal.ANSWERED if has_resumed else Signal.ACTIVITY, now)
        ledger.confirm(record, run)
        ledger.announce(record, run, now)
        ledger.record_activity(record, now)


def _on_updated(ledger: Ledger, message: TaskUpdatedMessage, now: float) -> None:
    patch = message.patch
    record, run = ledger.ensure_run(message.task_id, message.run_id, now)
    record.description = patch.description or record.description
    if patch.end_time is not None:
        run.ended_at = check_time(patch.end_time / 1000)
    run.failure_reason = patch.error or run.failure_reason
    if run is record.run and run.is_live:
        ledger.confirm(record, run)
    if patch.is_backgrounded is not None and run is record.run:
        ledger.set_backgrounded(record, patch.is_backgrounded, now)
    status = patch.task_status
    if status is None:
        return
    if status.is_terminal:
        _record_model_stop(ledger, record, run)
        # The notification with the report follows. It comes first only if a signal ends the CLI (2.1.328).
        ledger.end(record, run, status, Evidence.UPDATE, now, wait=True)
    elif run is record.run:
        ledger.signal(record, run, signal_for(status), now)
        ledger.record_activity(record, now)


def _on_notification(ledger: Ledger, message: TaskNotificationMessage, now: float) -> None:
    record, run = ledger.ensure_run(message.task_id, message.run_id, now)
    if run.evidence is Evidence.PROCESS_EXIT and message.task_status is TaskStatus.STOPPED:
        return  # the next process reports it again
    ledger.set_ambient(record, bool(message.ambient or message.skip_transcript))
    run.tool_use_id = run.tool_use_id or message.tool_use_id
    ledger.set_output(record, run, message.output_file, now)
    _apply_report(record, run, message)
    _record_model_stop(ledger, record, run)
    # This package announces ends that a child agent's session inferred, without a uuid.
    evidence = Evidence.NOTIFICATION if message.uuid else run.inferred_by or Evidence.NOTIFICATION
    ledger.end(record, run, read_end(run, message), evidence, now)


def read_end(run: TaskRun, message: TaskNotificationMessage) -> TaskStatus:
    """Return the status with which a run ended. The CLI calls stopped what failed with an earlier process."""
    if run.is_announced and ended_with_process(message):
        return EndedBy.PROCESS.status
    return message.task_status or TaskStatus.STOPPED


def ended_with_process(message: TaskNotificationMessage) -> bool:
    """Return whether a task ended with an earlier process."""
    return not message.is_success and any(text in message.summary for text in _WITH_PROCESS)


def _record_model_stop(ledger: Ledger, record: Record, run: TaskRun) -> None:
    """Record that the model stops a task: the end arrives before the result of the TaskStop call."""
    if run.stop_reason is None and ledger.calls.are_stopping(record.id):
        run.stop_reason = STOPPED_BY_MODEL
        run.ended_by = EndedBy.MODEL


# The list of live tasks


def _on_live_list(ledger: Ledger, message: BackgroundTasksChangedMessage, now: float) -> None:
    ledger.has_live_list = True
    listed = set()
    for item in message.tasks:
        listed.add(item.task_id)
        if not _is_unchanged(ledger, item):
            _on_listed(ledger, item, now)
    # The list never has tasks in the foreground.
    for task_id in ledger.background - listed:
        ledger.suspect(ledger.records[task_id], Evidence.LEVEL, now)


def _is_unchanged(ledger: Ledger, item: BackgroundTask) -> bool:
    """Return whether an item of the list contains no news, which is the common case."""
    if item.task_id not in ledger.background:
        return False
    run = ledger.records[item.task_id].run
    is_same = run.run_id == item.run_id and not item.ambient
    return is_same and run.suspicion is None and run.status is not TaskStatus.PENDING


def _on_listed(ledger: Ledger, item: BackgroundTask, now: float) -> None:
    # The list comes before the start of a task that it has (CLI 2.1.328), so it opens the run.
    record, run = ledger.ensure_run(item.task_id, item.run_id, now)
    _update_description(record, item)
    ledger.set_ambient(record, bool(item.ambient))
    ledger.set_parent(record, item.parent_task_id)
    if run is not record.run:
        return
    ledger.signal(record, run, Signal.ACTIVITY, now)
    if run.is_live:
        ledger.clear_suspicion(record)
        ledger.confirm(record, run)
        ledger.set_backgrounded(record, True, now)


# The conversation


def _on_init(ledger: Ledger, message: InitMessage, now: float) -> None:
    """Forget the calls of the last turn, and of agents that ended in it: those without a result were cut off."""
    ledger.calls.drop_left(lambda agent: agent in ledger.records and ledger.records[agent].is_live)


def _on_assistant(ledger: Ledger, message: AssistantMessage, now: float) -> None:
    ledger.calls.mark_running(message.parent_tool_use_id, now)
    ledger.calls.add(message, now)
    _on_conversation(ledger, message, now)


def _on_user(ledger: Ledger, message: UserMessage, now: float) -> None:
    _on_conversation(ledger, message, now)
    if not isinstance(message.message.content, str):
        for announcement in find_announcements(message, ledger.calls):
            _on_announcement(ledger, announcement, now)


def _on_conversation(ledger: Ledger, message: AssistantMessage | UserMessage, now: float) -> None:
    """Count a subagent's message as activity. A late message, after the end, does not reopen the task.

    The CLI (2.1.328) writes `[Request interrupted by user]` into the conversation of a subagent that was stopped.
    """
    if message.agent_id is None:
        return
    record = ledger.ensure_record(message.agent_id, now)
    if not record.runs:
        ledger.open_run(record, None, now).tool_use_id = message.parent_tool_use_id
        record.type = "local_agent"
    run = record.run
    record.subagent_type = record.subagent_type or message.subagent_type
    record.description = record.description or message.task_description or ""
    if isinstance(message, AssistantMessage):
        run.spent.add_message(message)
        if not run.status.is_terminal:
            record.last_text = message.text or record.last_text
    if not run.status.is_terminal:
        _on_activity(ledger, record, run, now)


def _on_tool_progress(ledger: Ledger, message: ToolProgressMessage, now: float) -> None:
    ledger.calls.mark_running(message.call_id, now)
    record = ledger.records.get(message.task_id or "")
    if record is not None and record.is_live:
        ledger.record_activity(record, now)


def _on_result(ledger: Ledger, message: ResultMessage, now: float) -> None:
    """Suspect that the main agent's foreground tasks have ended, because the turn that waited for them has."""
    if ledger.prices.derive(message.model_usage):
        ledger.reprice(now)
    for record in [ledger.records[task_id] for task_id in ledger.foreground]:
        if record.parent_id is None:
            ledger.suspect(record, Evidence.RESULT, now)


# Results of tools


def _on_announcement(ledger: Ledger, announcement: Announcement, now: float) -> None:
    known = ledger.records.get(announcement.task_id)
    if announcement.word == "stopped":
        if known is not None and known.is_live:
            known.run.stop_reason = known.run.stop_reason or STOPPED_BY_MODEL
            known.run.ended_by = known.run.ended_by or EndedBy.MODEL
            ledger.end(known, known.run, TaskStatus.STOPPED, Evidence.TOOL_RESULT, now)
    elif announcement.word == "writes":
        launched = known.find_run(announcement.tool_use_id) if known else None
        if known is not None and launched is not None:
            ledger.set_output(known, launched, announcement.output_file, now)
    else:
        _on_launch(ledger, announcement, now)


def _on_launch(ledger: Ledger, announcement: Announcement, now: float) -> None:
    record = ledger.ensure_record(announcement.task_id, now)
    record.type = record.type or announcement.type
    record.description = record.description or announcement.description
    # Any agent may resume a task, by a message to it.
    if announcement.word != "resumed":
        ledger.set_parent(record, announcement.caller)
    run = _find_launched_run(ledger, record, announcement, now)
    run.prompt = run.prompt or announcement.prompt
    if announcement.word == "completed":
        if record.is_backgrounded is None:
            ledger.set_backgrounded(record, False, now)
        run.summary = run.summary or announcement.report
        run.spent.add_report(announcement.usage)
        ledger.end(record, run, TaskStatus.COMPLETED, Evidence.TOOL_RESULT, now)
        return
    ledger.set_output(record, run, announcement.output_file, now)
    if run is record.run and run.is_live and not run.status.is_terminal:
        ledger.set_backgrounded(record, True, now)
        _on_activity(ledger, record, run, now)


def _find_launched_run(ledger: Ledger, record: Record, announcement: Announcement, now: float) -> TaskRun:
    """Return the run that a tool call launched: the one with its id, otherwise the current one."""
    run = record.find_run(announcement.tool_use_id)
    if run is not None:
        return run
    if not record.runs or (announcement.word == "resumed" and record.is_done):
        run = ledger.open_run(record, None, now)
        run.prompt = announcement.prompt or run.prompt
    else:
        run = record.run
    run.tool_use_id = run.tool_use_id or announcement.tool_use_id
    return run


# Requests


def _on_request(ledger: Ledger, frame: ControlRequest, now: float) -> None:
    request = frame.request
    if isinstance(request, HookCallbackRequest):
        _on_hook(ledger, request.input, now)
    elif isinstance(request, QUESTIONS):
        ledger.questions[frame.request_id] = QuestionState()


def _on_hook(ledger: Ledger, data: Mapping[str, object], now: float) -> None:
    """Apply a hook's input. Hooks about subagents and the end of turns mention tasks."""
    event = data.get("hook_event_name")
    if event == "SubagentStart":
        _on_subagent_start(ledger, data, now)
    elif event == "SubagentStop":
        _on_subagent_stop(ledger, data, now)
    listed = data.get("background_tasks")
    for item in listed if isinstance(listed, list) else []:
        if isinstance(item, Mapping) and isinstance(item.get("id"), str):
            _on_hook_item(ledger, item, now)


def _on_subagent_start(ledger: Ledger, data: Mapping[str, object], now: float) -> None:
    """Record a subagent that is about to start. It counts as live once the CLI itself mentions it."""
    agent_id = data.get("agent_id")
    agent_type = data.get("agent_type")
    if not isinstance(agent_id, str) or not agent_type:
        # An internal fork of the CLI, for example for compaction, has no type.
        return
    record = ledger.ensure_record(agent_id, now)
    record.type = record.type or "local_agent"
    record.subagent_type = record.subagent_type or str(agent_type)
    if not record.runs:
        ledger.open_run(record, None, now)


def _on_subagent_stop(ledger: Ledger, data: Mapping[str, object], now: float) -> None:
    """Suspect that a subagent has ended, because it is about to stop. A hook may still make it continue."""
    record = ledger.records.get(str(data.get("agent_id")))
    if record is None or not record.runs:
        return
    path = data.get("agent_transcript_path")
    if isinstance(path, str) and path:
        record.transcript_path = path
    text = data.get("last_assistant_message")
    if isinstance(text, str) and text:
        record.last_text = text
    ledger.suspect(record, Evidence.HOOK, now)


def _on_hook_item(ledger: Ledger, item: JSONMapping, now: float) -> None:
    record = ledger.ensure_record(item["id"], now)
    record.type = record.type or _TYPE_OF_LABEL.get(str(item.get("type")))
    record.description = record.description or str(item.get("description") or "")
    agent_type = item.get("agent_type")
    record.subagent_type = record.subagent_type or (agent_type if isinstance(agent_type, str) else None)
    run = record.run if record.runs else ledger.open_run(record, None, now)
    status = TaskStatus.read(str(item.get("status")))
    if run.status.is_terminal or status is None or status.is_terminal:
        return
    if record.is_backgrounded is None:
        ledger.set_backgrounded(record, True, now)
    ledger.confirm(record, run)
    ledger.signal(record, run, Signal.ACTIVITY, now)


# Questions to the user


def _on_asked(ledger: Ledger, question: PersonAsked, now: float) -> None:
    """Record that a task asks the user: once for its request, and once for each entry of an inbox."""
    known, record = ledger.questions.get(question.request_id), ledger.records.get(question.agent_id)
    if known is None or record is None or not record.runs or not record.is_live:
        return
    if known.task_id is None or question.asked.interaction_id is not None:
        known.task_id, known.is_waiting = record.id, True
        record.prompts |= {question.request_id}
        ledger.signal(record, record.run, Signal.ASKED, now)
        ledger.record_activity(record, now)
        ledger.emit(TaskAsked, record, record.run, now, asked=question.asked)


def _on_answered(ledger: Ledger, answer: PersonAnswered, now: float) -> None:
    """Record the first answer to what a task asks."""
    known = ledger.questions.get(answer.request_id)
    if known is not None and known.task_id is not None and known.is_waiting:
        known.is_waiting = False
        record = ledger.records[known.task_id]
        ledger.emit(TaskAnswered, record, record.run, now, answered=answer.answered)


def _on_settled(ledger: Ledger, frame: ControlResponse | ControlCancelRequest, now: float) -> None:
    """Record that a request was answered or withdrawn. The next activity shows that a task continues without it."""
    known = ledger.questions.pop(frame.request_id, None)
    record = None if known is None else ledger.records.get(known.task_id or "")
    if record is not None and frame.request_id in record.prompts:
        record.prompts -= {frame.request_id}
        if isinstance(frame, ControlResponse) and not record.prompts:
            ledger.signal(record, record.run, Signal.ANSWERED, now)


HANDLERS: Final[Mapping[type, Callable[[Ledger, Any, float], None]]] = {
    TaskStartedMessage: _on_started,
    TaskProgressMessage: _on_progress,
    TaskUpdatedMessage: _on_updated,
    TaskNotificationMessage: _on_notification,
    BackgroundTasksChangedMessage: _on_live_list,
    AssistantMessage: _on_assistant,
    InitMessage: _on_init,
    UserMessage: _on_user,
    ToolProgressMessage: _on_tool_progress,
    PermissionDeniedMessage: lambda ledger, message, now: ledger.calls.deny(message),
    ResultMessage: _on_result,
    ControlRequest: _on_request,
    PersonAsked: _on_asked,
    PersonAnswered: _on_answered,
    ControlResponse: _on_settled,
    ControlCancelRequest: _on_settled,
}
"""Handlers by type: of messages, of the CLI's requests and what settles them, and of what happens in between. Others do
not concern tasks."""


def _update_description(record: Record, message: TaskStartedMessage | BackgroundTask) -> None:
    # The latest message wins, but a missing field does not erase a known value.
    record.type = message.task_type or record.type
    record.description = message.description or record.description
    record.subagent_type = message.subagent_type or record.subagent_type
    if isinstance(message, TaskStartedMessage):
        record.workflow_name = message.workflow_name or record.workflow_name
        if message.spawn_depth is not None:
            record.spawn_depth = int(message.spawn_depth)


def _apply_report(record: Record, run: TaskRun, message: TaskNotificationMessage) -> None:
    """Add a notification's details about the end."""
    run.notification = message
    # A plain stop repeats the description, which is neither a report nor a reason.
    summary = message.summary if message.is_success or message.summary != record.description else ""
    if message.handback_report:
        run.summary = message.handback_report.text
    else:
        run.summary = summary if summary or not record.is_agent else record.last_text
    run.is_report = bool(message.summary_is_report or message.handback_report)
    run.spent.add_report(message.usage)
    code = None if record.is_agent else parse_exit_code(message.summary)
    if code is not None:
        run.exit_code = code
    if not message.is_success:
        run.failure_reason = run.failure_reason or summary or message.reason
        if ended_with_process(message):
            run.ended_by = run.ended_by or EndedBy.PROCESS


def _is_repetition(run: TaskRun, message: TaskStartedMessage) -> bool:
    if message.uuid or run.start_uuid:
        return message.uuid == run.start_uuid
    return (message.tool_use_id, message.prompt) == (run.tool_use_id, run.prompt)
