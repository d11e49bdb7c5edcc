"""A session as the router sees it: what we ask, what the CLI says, and how much time passes.

`Scene` plays it and notes what each run received and how it ended. The functions below it make what the CLI says.
"""

import json
from collections.abc import Iterable
from typing import Any, TypeAlias

from claude_agent_py import AssistantMessage, MalformedFrame, ResultMessage
from claude_agent_py._journal.open_runs import (
    FIRST_NOTICE as FIRST_NOTICE,
    NO_LIMITS,
    OpenRun as OpenRun,
    RunEnded as RunEnded,
    RunLimits as RunLimits,
    RunWaits as RunWaits,
    TimeoutKind as TimeoutKind,
    TurnResumed as TurnResumed,
    Until as Until,
    Verdict,
)
from claude_agent_py._journal.router import FOLLOW_UP_GRACE as FOLLOW_UP_GRACE, TurnRouter as TurnRouter
from claude_agent_py._journal.routes import route as route
from claude_agent_py.tasks import TaskIntake
from claude_agent_py.testing import frames
from claude_agent_py.wire import decode

Frame: TypeAlias = dict[str, Any]


class Scene:
    """The router with a real ledger of tasks, and a clock that moves when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0
        self.intake = TaskIntake(clock=lambda: self.now)
        self.router = TurnRouter(self.intake.ledger.live_ids, self.intake.ledger.causes_follow_up)
        self.received: dict[OpenRun, list[Any]] = {}
        self.ends: dict[OpenRun, RunEnded] = {}
        self.ended_at: dict[OpenRun, float] = {}
        self.waits: list[RunWaits] = []
        self.last_runs: tuple[OpenRun, ...] = ()
        """Who received the last message."""

    def ask(
        self, *prompts: str, until: Until = "result", limits: RunLimits = NO_LIMITS, is_sealed: bool = True
    ) -> OpenRun:
        """Begin a run with these prompts."""
        run = OpenRun(until, limits)
        self.received[run] = []
        self.router.open_run(run, self.now)
        for prompt in prompts:
            self.router.add_prompt(run, prompt, self.now)
        if is_sealed:
            self.seal(run)
        return run

    def seal(self, run: OpenRun) -> None:
        self._note(self.router.seal_run(run, self.now))

    def cli(self, *said: Frame | list[Frame]) -> None:
        """Let the CLI say this."""
        for frame in said:
            for one in frame if isinstance(frame, list) else [frame]:
                self.hear(decode(json.dumps(one).encode()))

    def hear(self, message: Any) -> None:
        assert not isinstance(message, MalformedFrame), message
        self.last_runs = route(self.router, message, self.now)
        for run in self.last_runs:
            assert run not in self.ends, "a run that is over received a message"
            self.received[run].append(message)
        self.intake.track(message)
        self._note(self.router.settle(self.now))

    def wait(self, seconds: float) -> None:
        """Let time pass, as a driver does: it ticks whenever there is something to do."""
        target = self.now + seconds
        while (deadline := self.router.next_deadline()) <= target:
            self.now = max(self.now, deadline)
            self._note(self.router.tick(self.now))
            assert self.router.next_deadline() > self.now, "the driver would spin"
        self.now = target

    def _note(self, events: Iterable[Verdict]) -> None:
        for event in events:
            if isinstance(event, RunWaits):
                self.waits.append(event)
            elif isinstance(event, RunEnded):
                assert event.run not in self.ends, "a run ended twice"
                self.ends[event.run] = event
                self.ended_at[event.run] = self.now

    def end_of(self, run: OpenRun) -> str | None:
        """Return how a run ended; None while it is open."""
        end = self.ends.get(run)
        return None if end is None else end.kind or end.reason

    def results(self, run: OpenRun) -> list[str | None]:
        """Return the texts of the results that a run received."""
        return [message.result for message in self.received[run] if isinstance(message, ResultMessage)]

    def texts(self, run: OpenRun) -> list[str]:
        """Return what a run heard the model and its subagents say."""
        return [message.text for message in self.received[run] if isinstance(message, AssistantMessage)]


# Turns of ours


def naming(*prompts: str) -> Frame:
    """Return the fields with which a frame names prompts."""
    return {"user_message_uuid": prompts[-1], "user_message_uuids": list(prompts)} if prompts else {}


def queued(prompt: str) -> Frame:
    return frames.lifecycle("queued", prompt)


def started(prompt: str) -> Frame:
    return frames.lifecycle("started", prompt)


def completed(prompt: str) -> Frame:
    return frames.lifecycle("completed", prompt)


def cancelled(prompt: str) -> Frame:
    return frames.lifecycle("cancelled", prompt)


def init(*prompts: str) -> Frame:
    return frames.init(**naming(*prompts))


def says(text: str, *prompts: str, **fields: Any) -> Frame:
    return frames.assistant(text, **naming(*prompts), **fields)


def result(text: str, *prompts: str, **fields: Any) -> Frame:
    frame = frames.result(text, **fields)
    for field in ("user_message_uuid", "user_message_uuids"):
        del frame[field]
    return frame | naming(*prompts)


def turn(text: str, *prompts: str) -> list[Frame]:
    """A whole turn on these prompts, as the CLI (2.1.328) tells it."""
    return [
        *(started(prompt) for prompt in prompts),
        init(*prompts),
        says(text, *prompts),
        result(text, *prompts),
        *(completed(prompt) for prompt in prompts),
    ]


# Turns that the CLI begins itself


def follow_up_result(text: str, task: str, *prompts: str) -> Frame:
    return frames.result(text, origin=frames.task_origin(task)) | naming(*prompts)


def follow_up(text: str, task: str) -> list[Frame]:
    """A whole turn that a finished task causes."""
    return [frames.init(), frames.assistant(text), follow_up_result(text, task)]


def coalesced(task: str) -> list[Frame]:
    """What remains of a follow-up turn when its notification was taken along by another one."""
    return [frames.init(), follow_up_result("", task)]


def peer_turn(text: str) -> list[Frame]:
    """A turn that another agent causes."""
    return [frames.init(), frames.assistant(text), frames.result(text, origin={"kind": "peer", "from": "worker"})]


# Tasks


def agent(task: str, **fields: Any) -> Frame:
    return frames.task_started(task, **fields)


def shell(task: str, **fields: Any) -> Frame:
    frame = frames.task_started(task, task_type="local_bash", **fields)
    if "prompt" not in fields:
        del frame["prompt"]
    return frame


def ends(task: str, status: str = "completed", **fields: Any) -> list[Frame]:
    updated = frames.task_updated(task, "killed" if status == "stopped" else status)
    return [updated, frames.task_notification(task, status, **fields)]


def agent_says(text: str, task: str, **fields: Any) -> Frame:
    return frames.assistant(text, **({"parent_tool_use_id": f"toolu_{task}", "agent_id": task} | fields))


def idle() -> Frame:
    return frames.session_state("idle")


def running() -> Frame:
    return frames.session_state("running")
