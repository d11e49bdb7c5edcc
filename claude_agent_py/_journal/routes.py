"""`route`: what each message does to the turns of a session, and which runs receive it.

`_RULES` has the function for each type of message. The functions change a `TurnRouter`, which decides when a run ends.
`tasks/signals.py` does the same for tasks.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from claude_agent_py._journal.open_runs import OpenRun, note_turns
from claude_agent_py._journal.router import FOLLOW_UP_GRACE, TurnRouter
from claude_agent_py.wire.messages.conversation import (
    AssistantMessage,
    CommandLifecycleMessage,
    ResultMessage,
    ToolProgressMessage,
    UserMessage,
)
from claude_agent_py.wire.messages.stream import StreamEventMessage
from claude_agent_py.wire.messages.system import InitMessage, SessionStateChangedMessage, ThinkingTokensMessage
from claude_agent_py.wire.messages.tasks import (
    BackgroundTasksChangedMessage,
    TaskNotificationMessage,
    TaskProgressMessage,
    TaskStartedMessage,
    TaskUpdatedMessage,
)
from claude_agent_py.wire.unknown import MalformedFrame, UnknownMessage

Audience: TypeAlias = tuple[OpenRun, ...]


class _Rule(NamedTuple):
    """How to route messages of one type."""

    on_message: Callable[..., Audience]
    """Returns the runs that receive the message."""
    is_progress: bool = True
    """Whether the message counts as progress. A queued prompt, a status or a retry does not."""


def route(router: TurnRouter, message: object, now: float) -> tuple[Any, ...]:
    """Return the runs that receive this message.

    Then call `TurnRouter.settle` once the tasks have processed it as well.
    """
    rule: _Rule = _RULES.get(type(message), _OTHER)
    on_message, is_progress = rule
    runs = on_message(router, message, now)
    if is_progress:
        router.last_progress = now
        for run in runs:
            run.has_begun = True
            run.last_progress = now
    return runs


# The conversation


def _on_main_agent(router: TurnRouter, message: StreamEventMessage | AssistantMessage, now: float) -> Audience:
    """Route a message of the main agent to the turn, which it may begin."""
    if router.turns.is_answered and message.user_message_uuid is None:
        if type(message) is AssistantMessage:
            router.turns.note_answer(message)
        return router.turn_runs  # most messages say nothing else of their turn
    begins = router.turns.current is None
    router.turns.feed(message)
    # Only the first message of an answer names its prompts.
    return router.follow(message.prompt_uuids if begins or message.user_message_uuid is not None else (), now)


def _on_assistant(router: TurnRouter, message: AssistantMessage, now: float) -> Audience:
    return _subagent_audience(router, message) if message.is_subagent else _on_main_agent(router, message, now)


def _on_user(router: TurnRouter, message: UserMessage, now: float) -> Audience:
    if message.is_subagent:
        return _subagent_audience(router, message)
    if router.turns.is_answered and message.origin is None:
        router.turns.note_interruption(message)
        return router.turn_runs
    router.turns.feed(message)
    # It may come between turns: then all open runs get it.
    router.follow((), now)
    return router.session_audience()


def _on_init(router: TurnRouter, message: InitMessage, now: float) -> Audience:
    router.turns.feed(message)
    return router.follow(message.prompt_uuids, now)


def _on_lifecycle(router: TurnRouter, message: CommandLifecycleMessage, now: float) -> Audience:
    router.lifecycle_seen = True
    router.turns.feed(message)
    prompt = message.command_uuid
    owner = router.owner_of_prompt.get(prompt)
    if owner is None:
        if message.state == "started":
            router.begun_elsewhere = (prompt,)
        return ()
    if message.state == "started":
        router.follow((prompt,), now)
    elif message.is_withdrawn:
        router.withdraw(prompt)
    elif message.state == "completed":
        router.completed.add(prompt)
    return (owner,)


def _on_result(router: TurnRouter, message: ResultMessage, now: float) -> Audience:
    # A result names 64 prompts at most. `begun` has the others.
    begun, _, audience = router.leave_turn(message)
    prompts = list(dict.fromkeys((*message.prompt_uuids, *begun)))
    if not prompts and not message.is_injected:
        prompts = router.assumed_prompts()
    owners = [owner for prompt in prompts if (owner := router.answer(prompt)) is not None]
    runs = tuple(dict.fromkeys([*audience, *owners]))
    note_turns(runs, router.turns)
    if message.was_interrupted:
        for run in runs:
            run.was_interrupted = True
    # Of notifications that one turn answers together, the CLI gives each but the last an empty result (2.1.328).
    if message.origin is not None:
        router.follow_ups.runs.discard(message.origin.run_id or "")
    router.follow_ups.until = now + FOLLOW_UP_GRACE  # delayed follow-up turns begin now
    return runs or (router.waiting_for_idle() if message.is_injected else ())


def _on_malformed(router: TurnRouter, frame: MalformedFrame, now: float) -> Audience:
    """Route a frame that cannot be read. A result also spoils the runs whose prompts it answers."""
    audience = router.session_audience()
    if frame.is_result:
        begun, assumed, _ = router.leave_turn(frame)
        prompts = dict.fromkeys((*_read_prompts(frame.raw), *begun, *assumed))
        if not prompts and not _is_injected(frame.raw):
            prompts = dict.fromkeys(router.assumed_prompts())
        for owner in map(router.answer, prompts):
            if owner is not None:
                owner.bad_result = frame
    return audience


def _on_state(router: TurnRouter, message: SessionStateChangedMessage, now: float) -> Audience:
    audience = router.session_audience()
    router.state = message.state
    if message.state == "idle":  # only sent with an empty queue, so no follow-up turn is coming
        begun, _, _ = router.leave_turn(message)
        router.follow_ups.runs.clear()
        router.note_resumed(())
        for prompt in (*begun, *router.completed):
            router.withdraw(prompt)
        router.completed.clear()
    return audience


def _on_other(router: TurnRouter, message: object, now: float) -> Audience:
    task_id = find_task_id(message)
    return router.task_audience(task_id) if task_id else router.session_audience()


# Tasks


def _on_task_started(router: TurnRouter, message: TaskStartedMessage, now: float) -> Audience:
    for owner in router.owners_of_task.start(message, router.turn_runs):
        owner.tasks.add(message.task_id)
    return router.task_audience(message.task_id)


def _on_task(router: TurnRouter, message: TaskProgressMessage, now: float) -> Audience:
    return router.task_audience(message.task_id)


def _on_task_updated(router: TurnRouter, message: TaskUpdatedMessage, now: float) -> Audience:
    status = message.patch.task_status
    if status is not None and status.is_terminal:
        _expect_follow_up(router, message, now)
    return router.task_audience(message.task_id)


def _on_notification(router: TurnRouter, message: TaskNotificationMessage, now: float) -> Audience:
    if message.ambient or message.skip_transcript:
        router.follow_ups.runs.discard(message.run_id or message.task_id)
    else:
        _expect_follow_up(router, message, now)
    return router.task_audience(message.task_id)


def _subagent_audience(router: TurnRouter, message: AssistantMessage | UserMessage) -> Audience:
    """Return the runs for a message of a subagent, which never begins a turn.

    An unknown one belongs to the turn.
    """
    task_id = router.owners_of_task.find_task(message)
    return router.turn_runs if task_id is None and router.turns.current else router.task_audience(task_id or "")


def _expect_follow_up(router: TurnRouter, message: TaskUpdatedMessage | TaskNotificationMessage, now: float) -> None:
    if router.causes_follow_up(message.task_id):
        router.follow_ups.runs.add(message.run_id or message.task_id)
        router.follow_ups.until = now + FOLLOW_UP_GRACE


def _read_prompts(raw: object) -> Iterable[str]:
    """Return the readable prompts of a malformed result."""
    if not isinstance(raw, dict):
        return []
    named = raw.get("user_message_uuids")
    prompts = [*(named if isinstance(named, list) else ()), raw.get("user_message_uuid")]
    return [prompt for prompt in prompts if isinstance(prompt, str)]


def _is_injected(raw: object) -> bool:
    """Return whether a malformed result shows that its turn was not caused by a prompt, as far as it can be read."""
    origin = raw.get("origin") if isinstance(raw, dict) else None
    return isinstance(origin, dict) and origin.get("kind") != "human"


def find_task_id(message: object) -> str | None:
    """Return the task that a message names, even in a field that its model does not have."""
    if isinstance(message, UnknownMessage):
        named = message.raw.get("task_id") or message.raw.get("agent_id")
    else:
        named = getattr(message, "task_id", None) or getattr(message, "agent_id", None)
    return named if isinstance(named, str) else None


_OTHER: Final[_Rule] = _Rule(_on_other, is_progress=False)
_RULES: Final[Mapping[type, _Rule]] = {
    InitMessage: _Rule(_on_init, is_progress=False),
    StreamEventMessage: _Rule(_on_main_agent),
    ThinkingTokensMessage: _Rule(_on_other),
    AssistantMessage: _Rule(_on_assistant),
    UserMessage: _Rule(_on_user),
    ToolProgressMessage: _Rule(_on_other),
    ResultMessage: _Rule(_on_result),
    MalformedFrame: _Rule(_on_malformed, is_progress=False),
    CommandLifecycleMessage: _Rule(_on_lifecycle, is_progress=False),
    SessionStateChangedMessage: _Rule(_on_state, is_progress=False),
    TaskStartedMessage: _Rule(_on_task_started),
    TaskProgressMessage: _Rule(_on_task),
    TaskUpdatedMessage: _Rule(_on_task_updated),
    TaskNotificationMessage: _Rule(_on_notification),
    BackgroundTasksChangedMessage: _Rule(_on_other, is_progress=False),
}
"""The rules of the types that need one of their own."""
