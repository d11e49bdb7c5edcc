"""Build spans for subagents, child agents and other background tasks."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from claude_agent_py.observe.open_spans import OpenSpan, State, add_usage, convert_task_status
from claude_agent_py.observe.spans import SpanKind, SpanStatus
from claude_agent_py.tasks.ledger.record import AGENT_TYPES
from claude_agent_py.wire.messages.tasks import (
    CHILD_AGENT,
    TaskNotificationMessage,
    TaskStartedMessage,
    TaskUpdatedMessage,
    TaskUsage,
)


def _on_started(state: State, message: TaskStartedMessage, at: float | None) -> None:
    when = state.advance(at)
    state.traffic.fold(message)
    if message.ambient or message.task_id in state.tasks:
        return
    if message.task_type not in AGENT_TYPES and message.is_backgrounded is False:
        state.foreground[message.task_id] = message
        return
    begin_task(
        state,
        message.task_id,
        message.task_type,
        when,
        name=message.subagent_type or message.workflow_name,
        call=message.tool_use_id,
        is_background=message.is_backgrounded is not False,
        launched_by=message.parent_task_id,
        description=message.description,
        prompt=message.prompt,
    )
    if message.run_id is not None:
        state.task_of_run[message.run_id] = state.tasks[message.task_id].id


def begin_task(
    state: State,
    task_id: str,
    task_type: str | None,
    at: float,
    *,
    name: str | None = None,
    call: str | None = None,
    is_background: bool = True,
    launched_by: str | None = None,
    description: str = "",
    prompt: str | None = None,
) -> None:
    """Begin a task: a subagent, a child agent, or any other background task."""
    at = state.advance(at)
    run_number = state.run_numbers.get(task_id, 0) + 1
    state.run_numbers[task_id] = run_number
    is_agent = task_type in AGENT_TYPES
    kind: SpanKind = "task"
    if task_type == CHILD_AGENT:
        kind = "child"
    elif is_agent:
        kind = "subagent"
    span = OpenSpan(
        task_id if run_number == 1 else f"{task_id}#{run_number}",
        kind,
        name or task_type or "task",
        at,
        agent=task_id,
    )
    _attach(span, call, is_background=is_background)
    launcher = state.calls.get(call or "")
    span.attributes = {
        "type": task_type,
        "tool_use_id": call,
        "launched_by": launched_by or (launcher.agent if launcher is not None else None),
        "description": state.texts.to_line(description),
        "prompt": state.texts.shorten(prompt),
    }
    state.tasks[task_id] = span
    if is_agent:
        state.conversation(task_id).asked_at = at


def end_task(
    state: State,
    task_id: str,
    at: float | None,
    status: SpanStatus,
    report: str | None = None,
    *,
    usage: TaskUsage | None = None,
) -> None:
    """End a task."""
    state.end_model(task_id)
    state.conversations.pop(task_id, None)
    span = state.tasks.pop(task_id, None)
    if span is not None:
        add_usage(span, usage)
        # An earlier update may have set the exact end.
        if span.end is None or span.status == "running":
            span.end = state.advance(at)
        if status != "running":
            span.status = status
        span.attributes["output"] = state.texts.shorten(report)
        state.finish(span)


def _on_updated(state: State, message: TaskUpdatedMessage, at: float | None) -> None:
    state.advance(at)
    patch = message.patch
    shell = state.foreground.get(message.task_id)
    if patch.is_backgrounded and shell is not None:
        _on_started(state, shell.replace(is_backgrounded=True), at)
    span = state.tasks.get(message.task_id)
    if span is None:
        return
    if patch.is_backgrounded:
        _attach(span, span.attributes.get("tool_use_id"), is_background=True)
    status = convert_task_status(patch.task_status)
    if status != "running":
        span.status = status
        span.end = state.advance(patch.end_time / 1000 if patch.end_time else at)
        span.attributes["error"] = state.texts.shorten(patch.error)


def _on_notification(state: State, message: TaskNotificationMessage, at: float | None) -> None:
    when = state.advance(at)
    state.foreground.pop(message.task_id, None)
    span = state.tasks.get(message.task_id)
    if span is not None:
        span.attributes["notified_at"] = when
        status = convert_task_status(message.task_status)
        end_task(state, message.task_id, at, status, message.summary, usage=message.usage)


def _attach(span: OpenSpan, call: str | None, *, is_background: bool) -> None:
    """Make a foreground task a child of its tool call, or link a background task to the call that launched it."""
    span.parent = None if is_background else call
    span.links = (call,) if is_background and call else ()


HANDLERS: Final[Mapping[type, Callable[[State, Any, float | None], None]]] = {
    TaskStartedMessage: _on_started,
    TaskUpdatedMessage: _on_updated,
    TaskNotificationMessage: _on_notification,
}
