"""Fold subagents, child agents and other background tasks."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from claude_agent_py.observe.drafts import Draft, note_usage, status_of_task
from claude_agent_py.observe.folding.state import State
from claude_agent_py.observe.spans import SpanStatus
from claude_agent_py.tasks.ledger.record import AGENT_TYPES
from claude_agent_py.wire.messages.tasks import (
    CHILD_AGENT,
    TaskNotificationMessage,
    TaskStartedMessage,
    TaskUpdatedMessage,
    TaskUsage,
)


def _started(state: State, message: TaskStartedMessage, at: float | None) -> None:
    when = state.time(at)
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
    at = state.time(at)
    times = state.times_of_task[task_id] = state.times_of_task.get(task_id, 0) + 1
    is_agent = task_type in AGENT_TYPES
    draft = Draft(
        task_id if times == 1 else f"{task_id}#{times}",
        "child" if task_type == CHILD_AGENT else "subagent" if is_agent else "task",
        name or task_type or "task",
        at,
        agent=task_id,
    )
    _hang(draft, call, is_background=is_background)
    launcher = state.calls.get(call or "")
    draft.attributes = {
        "type": task_type,
        "tool_use_id": call,
        "launched_by": launched_by or (launcher.agent if launcher is not None else None),
        "description": state.texts.line(description),
        "prompt": state.texts.of(prompt),
    }
    state.tasks[task_id] = draft
    if is_agent:
        state.talk(task_id).asked_at = at


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
    state.talks.pop(task_id, None)
    draft = state.tasks.pop(task_id, None)
    if draft is not None:
        note_usage(draft, usage)
        draft.end = draft.end if draft.end is not None and draft.status != "running" else state.time(at)
        draft.status = draft.status if status == "running" else status
        draft.attributes["output"] = state.texts.of(report)
        state.finish(draft)


def _updated(state: State, message: TaskUpdatedMessage, at: float | None) -> None:
    state.time(at)
    patch = message.patch
    shell = state.foreground.get(message.task_id)
    if patch.is_backgrounded and shell is not None:
        _started(state, shell.replace(is_backgrounded=True), at)
    draft = state.tasks.get(message.task_id)
    if draft is None:
        return
    if patch.is_backgrounded:
        _hang(draft, draft.attributes.get("tool_use_id"), is_background=True)
    status = status_of_task(patch.task_status)
    if status != "running":
        draft.status = status
        draft.end = state.time(patch.end_time / 1000 if patch.end_time else at)
        draft.attributes["error"] = state.texts.of(patch.error)


def _notified(state: State, message: TaskNotificationMessage, at: float | None) -> None:
    when = state.time(at)
    state.foreground.pop(message.task_id, None)
    draft = state.tasks.get(message.task_id)
    if draft is not None:
        draft.attributes["notified_at"] = when
        status = status_of_task(message.task_status)
        end_task(state, message.task_id, at, status, message.summary, usage=message.usage)


def _hang(draft: Draft, call: str | None, *, is_background: bool) -> None:
    """Make a task a part of the call that waits for it, or link it to the call that launched it."""
    draft.parent = None if is_background else call
    draft.links = (call,) if is_background and call else ()


HANDLERS: Final[Mapping[type, Callable[[State, Any, float | None], None]]] = {
    TaskStartedMessage: _started,
    TaskUpdatedMessage: _updated,
    TaskNotificationMessage: _notified,
}
