"""Helpers for tests of tasks: decoded frames, a settable clock and a fake control port."""

import json
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeAlias

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint
from recordings_loader import records

from claude_agent_py import AssistantMessage, UserMessage
from claude_agent_py._base.bounded_reading import Lines as Lines, open_regular as open_regular
from claude_agent_py._base.growing_files import PIECE_BYTES as PIECE_BYTES, Piece as Piece, Tail as Tail
from claude_agent_py._journal.requests import PersonAnswered, PersonAsked
from claude_agent_py._journal.tasks.announcements import (
    Announcement as Announcement,
    OpenCalls as OpenCalls,
    find_announcements as find_announcements,
)
from claude_agent_py._journal.tasks.events import EVENT_TYPES as EVENT_TYPES
from claude_agent_py._journal.tasks.outcome import TaskFinding as TaskFinding
from claude_agent_py._journal.tasks.record import Record as Record, TaskRun as TaskRun
from claude_agent_py._journal.tasks.spending import Counted as Counted
from claude_agent_py._journal.tasks.state import (
    TRANSITIONS as TRANSITIONS,
    Guard as Guard,
    Signal as Signal,
    move as move,
    signal_for as signal_for,
)
from claude_agent_py.control import (
    CanUseToolRequest,
    ControlCancelRequest,
    ControlRequest,
    ControlResponse,
    ControlSuccess,
    HookCallbackRequest,
)
from claude_agent_py.errors import HandlerError
from claude_agent_py.tasks import Answered, Asked, Grace, TaskEvent, TaskIntake, TaskManager
from claude_agent_py.tasks.files.follow import AgentDecoder as AgentDecoder, ShellDecoder as ShellDecoder
from claude_agent_py.testing import frames
from claude_agent_py.wire import decode

Frame: TypeAlias = dict[str, Any]

HASTY = Grace(report=0.02, transcript=0.02, doubt=0.05, quiet=0.05)
"""Short, for tests that wait for an inference."""


def message(frame: Frame) -> Any:
    """Decode a frame like the engine."""
    return decode(json.dumps(frame).encode())


class Clock:
    """A clock that only changes when set."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class Desk:
    """An intake with a settable clock, and all events so far."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.intake = TaskIntake(grace=Grace(report=0.5, transcript=0.5, doubt=2.0), clock=self.clock)
        self.tasks = TaskManager(intake=self.intake)
        self.ledger = self.intake.ledger
        self.events: list[TaskEvent] = []
        self.tasks.watch(lambda _, events: self.events.extend(events))

    def caused_by(self, call: Callable[..., object], *args: Any) -> list[TaskEvent]:
        """Call a function; return the events that it caused."""
        before = len(self.events)
        call(*args)
        return self.events[before:]

    def fold(self, *frames: Frame) -> list[TaskEvent]:
        """Track frames; return the events of these alone."""
        return [event for frame in frames for event in self.caused_by(self.intake.track, message(frame))]

    def hook(self, event: str, **data: Any) -> list[TaskEvent]:
        """Track the input of a hook."""
        return self.caused_by(track_hook, self.intake, event, data)

    def pass_time(self, seconds: float) -> list[TaskEvent]:
        """Advance the clock and decide about due tasks, without reading files."""
        self.clock.now += seconds
        now = self.clock.now
        for record in [record for record, until in self.ledger.unresolved.values() if until <= now]:
            self.ledger.resolve(record, None, now)
        return self.caused_by(self.intake.publish)

    def run(self, task_id: str) -> Any:
        """Return the current run of a task."""
        return self.ledger.records[task_id].run

    def status(self, task_id: str) -> str:
        """Return the status of a task, as a plain string."""
        return str(self.run(task_id).status)


def kinds(events: Iterable[TaskEvent]) -> list[str]:
    """Return the kinds of events."""
    return [event.kind for event in events]


def track_hook(intake: TaskIntake, event: str, data: Frame) -> None:
    """Track the request of a hook with this input."""
    hook = HookCallbackRequest(callback_id="hook_0", input={"hook_event_name": event, **data})
    intake.track(ControlRequest(request_id="h1", request=hook))


def open_question(intake: TaskIntake, request_id: str, agent_id: str, asked: Asked | None = None) -> None:
    """Track a permission request of an agent, and that a person is asked."""
    request = CanUseToolRequest(tool_name="Bash", input={}, tool_use_id="t1", agent_id=agent_id)
    intake.track(ControlRequest(request_id=request_id, request=request))
    intake.track(PersonAsked(request_id, agent_id, asked or Asked()))


def answer_question(intake: TaskIntake, request_id: str, answered: Answered) -> None:
    """Track the answer of a person."""
    intake.track(PersonAnswered(request_id, answered))


def close_question(intake: TaskIntake, request_id: str, was_answered: bool = True) -> None:
    """Track the reply to a request, or that it was withdrawn."""
    reply = ControlResponse(response=ControlSuccess(request_id=request_id, response={}))
    intake.track(reply if was_answered else ControlCancelRequest(request_id=request_id))


def intake_of(manager: TaskManager) -> TaskIntake:
    """Return the intake of a manager."""
    return manager._intake


async def deliver(manager: TaskManager, *report: Callable[[HandlerError], object]) -> None:
    """Call the listeners until their queues are empty. The session must have ended. `report` is told what fails."""
    with anyio.fail_after(60):
        async with anyio.create_task_group() as workers:
            deliver_in(workers, manager, *report)


def deliver_in(workers: TaskGroup, manager: TaskManager, *report: Callable[[HandlerError], object]) -> None:
    """Call the listeners from now on, in these workers."""
    intake_of(manager).listeners.deliver_with(lambda queue: workers.start_soon(queue.deliver), *report)


def tracking(manager: TaskManager, *frames: Frame) -> TaskManager:
    """Track frames."""
    for frame in frames:
        manager.track(message(frame))
    return manager


def level(*entries: Frame | str) -> Frame:
    """Return the list of live background tasks; an id stands for a subagent in its first run."""
    tasks = [
        {"task_id": entry, "run_id": f"0-{entry}", "task_type": "local_agent", "description": "a task"}
        if isinstance(entry, str)
        else entry
        for entry in entries
    ]
    return frames.system("background_tasks_changed", tasks=tasks)


def shell_started(task_id: str, description: str = "a task", **fields: Any) -> Frame:
    """Return the start of a background shell."""
    own = {"task_type": "local_bash", "subagent_type": None, "spawn_depth": None, "prompt": None}
    frame = frames.task_started(task_id, description, **(own | fields))
    return {key: value for key, value in frame.items() if value is not None}


def child(agent_id: str, text: str = "working", call: str | None = None, **fields: Any) -> Frame:
    """Return a message of a subagent."""
    return frames.assistant(text, agent_id=agent_id, parent_tool_use_id=call or f"toolu_{agent_id}", **fields)


def text_of(seen: Any) -> str:
    """Return the text of a message of a subagent."""
    assert isinstance(seen, AssistantMessage | UserMessage)
    return seen.text


def turn_over() -> Frame:
    """Return the result of a turn that the user started."""
    return frames.result(user_message_uuid="u1", user_message_uuids=["u1"])


class Port:
    """A control port that answers with the return value of a function."""

    def __init__(self, answer: Callable[[str, Frame], Frame | Awaitable[Frame]] | None = None) -> None:
        self.sent: list[tuple[str, Frame]] = []
        self._answer = answer

    async def control(self, subtype: str, /, *, timeout: float | None = None, **fields: Any) -> Frame:
        await checkpoint()
        self.sent.append((subtype, fields))
        if self._answer is None:
            return {}
        reply = self._answer(subtype, fields)
        return reply if isinstance(reply, dict) else await reply


def fold_recording(name: str, desk: Desk | None = None) -> Desk:
    """Track a whole recording: frames, hooks, and the end of the process."""
    desk = desk or Desk()
    for desk.clock.now, direction, value in records(name):
        if direction == "exit":
            desk.intake.process_exited("the process ended")
        elif direction == "out" and isinstance(value, dict):
            request = value.get("request", {})
            if request.get("subtype") == "hook_callback":
                track_hook(desk.intake, request["input"]["hook_event_name"], request["input"])
            else:
                desk.intake.track(message(value))
    return desk
