"""What the tests of tasks share: frames as messages, a clock to set, a control port that answers."""

import json
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeAlias

from anyio.lowlevel import checkpoint
from recordings_loader import records

from claude_agent_py import TaskEvent, TaskManager
from claude_agent_py.tasks import Grace
from claude_agent_py.tasks.ledger import Ledger
from claude_agent_py.testing import frames
from claude_agent_py.wire.codec import decode
from claude_agent_py.wire.messages import AssistantMessage, UserMessage

Frame: TypeAlias = dict[str, Any]

HASTY = Grace(report=0.02, doubt=0.05, quiet=0.05)
"""For tests that wait for something to be inferred."""


def message(frame: Frame) -> Any:
    """Decode a frame, as the engine does."""
    return decode(json.dumps(frame).encode())


class Clock:
    """A clock that stands still until it is set."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class Desk:
    """A ledger with a clock of its own, and all events so far."""

    def __init__(self) -> None:
        self.ledger = Ledger(report_grace=0.5, doubt_grace=2.0)
        self.clock = Clock()
        self.events: list[TaskEvent] = []

    def fold(self, *frames: Frame) -> list[TaskEvent]:
        """Fold frames; give the events of these alone."""
        events = [event for frame in frames for event in self.ledger.fold(message(frame), self.clock.now)]
        self.events += events
        return events

    def hook(self, event: str, **data: Any) -> list[TaskEvent]:
        """Fold the input of a hook."""
        events = self.ledger.fold_hook(event, data, self.clock.now)
        self.events += events
        return events

    def pass_time(self, seconds: float) -> list[TaskEvent]:
        """Let time pass, and decide about what is due then, without files."""
        self.clock.now += seconds
        due = [entry.id for entry in self.ledger.book.due(self.clock.now)]
        events = [event for task_id in due for event in self.ledger.conclude(task_id, None, self.clock.now)]
        self.events += events
        return events

    def run(self, task_id: str) -> Any:
        """Give the current run of a task."""
        return self.ledger.entries[task_id].run

    def status(self, task_id: str) -> str:
        """Give the status of a task, as a plain word."""
        return str(self.run(task_id).status)


def kinds(events: Iterable[TaskEvent]) -> list[str]:
    """Give the kinds of events."""
    return [event.kind for event in events]


def tracking(manager: TaskManager, *frames: Frame) -> TaskManager:
    """Track frames."""
    for frame in frames:
        manager.track(message(frame))
    return manager


def level(*entries: Frame | str) -> Frame:
    """The list of live background tasks; an id stands for a subagent whose run is the first."""
    tasks = [
        {"task_id": entry, "run_id": f"0-{entry}", "task_type": "local_agent", "description": "a task"}
        if isinstance(entry, str)
        else entry
        for entry in entries
    ]
    return frames.system("background_tasks_changed", tasks=tasks)


def shell_started(task_id: str, **fields: Any) -> Frame:
    """A background shell began."""
    own = {"task_type": "local_bash", "subagent_type": None, "spawn_depth": None, "prompt": None}
    frame = frames.task_started(task_id, **(own | fields))
    return {key: value for key, value in frame.items() if value is not None}


def child(agent_id: str, text: str = "working", call: str | None = None, **fields: Any) -> Frame:
    """A message of a subagent."""
    return frames.assistant(text, agent_id=agent_id, parent_tool_use_id=call or f"toolu_{agent_id}", **fields)


def text_of(seen: Any) -> str:
    """Give the text of a message of a subagent."""
    assert isinstance(seen, AssistantMessage | UserMessage)
    return seen.text


def turn_over() -> Frame:
    """The result of a turn of the user's."""
    return frames.result(user_message_uuid="u1", user_message_uuids=["u1"])


class Port:
    """A control port: answers with what a function says, after it did what it wants to."""

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


def fold_recording(name: str, ledger: Ledger | None = None) -> tuple[Ledger, list[TaskEvent]]:
    """Fold a whole recording: frames, hooks, and the end of the process."""
    ledger = ledger or Ledger()
    events: list[TaskEvent] = []
    at = 0.0
    for at, direction, value in records(name):
        if direction == "exit":
            events += ledger.process_exited("the process ended", at)
        elif direction == "out" and isinstance(value, dict):
            events += _fold_frame(ledger, value, at)
    return ledger, events


def _fold_frame(ledger: Ledger, frame: Frame, at: float) -> list[TaskEvent]:
    request = frame.get("request", {})
    if request.get("subtype") == "hook_callback":
        return ledger.fold_hook(request["input"]["hook_event_name"], request["input"], at)
    return ledger.fold(message(frame), at)
