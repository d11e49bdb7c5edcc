"""`TurnRouter`: which run a message belongs to, and when a run ends.

The CLI works on one turn at a time, but it also starts turns on its own (for a finished task or a peer), folds several
prompts into one turn, and answers queued prompts together. So routing does not rely on order:

* A prompt is identified by its uuid. `command_lifecycle` says when the CLI starts on it, and the messages of a turn
  name its prompts (`user_message_uuids`, 64 at most).
* A turn begins with its first message and ends with a result, which answers all of its prompts. Its messages go to the
  runs of these prompts. Messages of a turn without prompts go to the runs that wait for the session to be idle, and
  messages of a turn on unknown prompts to no run.
* A task belongs to the runs in whose turn it started: see `task_owners.py`.

A run ends with its own result, or (`until="idle"`) once no task is running and no follow-up turn is expected: see
`is_idle`. An interrupted run waits for no task. Its time limits and the verdicts are in `open_runs.py`.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

from claude_agent_py._journal.open_runs import (
    NO_LIMITS,
    Deadline,
    EndReason,
    OpenRun,
    RunEnded,
    RunWaits,
    TurnResumed,
    Verdict,
)
from claude_agent_py._journal.task_owners import TaskOwners
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

FOLLOW_UP_GRACE: Final = 1.0
"""How many seconds to wait for the follow-up turn of a finished task.

Not every task causes one: a stopped task may not, and a task that ends during a turn may be folded into it. Measured:
10 to 110 ms from the notification, or from the end of the current turn, to the follow-up turn (CLI 2.1.328). It only
elapses for a task without a follow-up turn, such as a shell stopped by `stop_task`, and only with a CLI that does not
report when it is idle."""

Routing: TypeAlias = tuple[tuple[Any, ...], bool]
"""The runs that receive a message, and whether it may end a run."""


class _Turn:
    """The current turn: its prompts and the runs that receive its messages."""

    __slots__ = ("assumed", "audience", "prompts")

    def __init__(self) -> None:
        self.prompts: dict[str, None] = {}
        self.assumed: tuple[str, ...] = ()
        """The prompts that it may be working on, if the CLI has not named them."""
        self.audience: tuple[OpenRun, ...] = ()


class _Rule(NamedTuple):
    """How to route messages of one type."""

    on_message: Callable[[Any, Any, float], tuple[OpenRun, ...]]
    """Returns the runs that receive the message."""
    is_progress: bool = True
    """Whether the message counts as progress. A queued prompt, a status or a retry does not."""
    may_end: bool = False
    """Whether the message may end a run."""


class TurnRouter:
    """Routes every message of a session to its runs, and decides when they end.

    Args:
        live_task_ids: Returns the ids of the running tasks, without ambient ones, which do not count as activity.
        causes_follow_up: Returns whether the end of a task, by its id, causes a follow-up turn.
    """

    def __init__(self, live_task_ids: Callable[[], frozenset[str]], causes_follow_up: Callable[[str], bool]) -> None:
        self._live_task_ids = live_task_ids
        self._causes_follow_up = causes_follow_up
        self._runs: dict[OpenRun, None] = {}
        """The open runs, oldest first."""
        self._owner_of_prompt: dict[str, OpenRun] = {}
        """The runs of the unanswered prompts."""
        self._prompts: set[str] = set()
        """All prompts so far."""
        self._owners_of_task = TaskOwners()
        self._turn: _Turn | None = None
        self._state: str | None = None
        self._lifecycle_seen = False
        self._last_progress = 0.0
        self._follow_ups: set[str] = set()
        """The runs of tasks whose end is expected to cause a turn."""
        self._follow_ups_until = 0.0
        """When that is no longer expected, except during a turn, which may delay or replace the follow-up turns."""
        self._completed: set[str] = set()
        """Prompts that the CLI has completed without an answer so far."""
        self._heir: OpenRun | None = None
        """The run of the turn that an earlier process left unfinished, until the CLI reports whether there is one."""
        self._begun_elsewhere: tuple[str, ...] = ()
        """The prompt that the CLI last started although this process did not send it."""
        self._resumed: TurnResumed | None = None
        """The pending verdict about that turn."""

    # Runs --------------------------------------------------------------------------------------------------------

    @property
    def open_runs(self) -> tuple[Any, ...]:
        """The runs that have not ended."""
        return tuple(self._runs)

    @property
    def turn_runs(self) -> tuple[Any, ...]:
        """The runs of the prompts of the current turn; empty between turns."""
        return self._turn.audience if self._turn else ()

    def open_run(self, run: OpenRun, now: float, prompts: Iterable[str] = ()) -> None:
        """Begin a run with these prompts. Unless it is sealed, more may follow, then `seal_run`."""
        run.restart(now)
        self._runs[run] = None
        for prompt in prompts:
            self.add_prompt(run, prompt, now)

    def knows_prompt(self, prompt_uuid: str) -> bool:
        """Return whether any run has had a prompt with this uuid."""
        return prompt_uuid in self._prompts

    def expect_resumed_turn(self, run: OpenRun) -> None:
        """Have an open run without prompts adopt the prompts of the turn that an earlier process left unfinished.

        The CLI does not announce them: its first `init` of that turn names them, and `idle` says that there is none.
        """
        self._heir = run

    def expect_no_resumed_turn(self) -> tuple[Verdict, ...]:
        """Note that the CLI has no turn to resume."""
        self._note_resumed(())
        return self._take_resumed()

    def add_prompt(self, run: OpenRun, prompt_uuid: str, now: float) -> None:
        """Add a prompt of the run, unless the run has ended."""
        if run not in self._runs:
            return
        run.waiting[prompt_uuid] = None
        run.last_progress = now
        self._owner_of_prompt[prompt_uuid] = run
        self._prompts.add(prompt_uuid)

    def seal_run(self, run: OpenRun, now: float) -> tuple[Verdict, ...]:
        """Note that the run has all its prompts. Return the runs that this ends."""
        if run not in self._runs:
            return ()
        run.is_sealed = True
        run.last_progress = now
        return self.settle(now)

    def drop_run(self, run: OpenRun) -> None:
        """Drop a run. Its unanswered prompts belong to no run then."""
        if run not in self._runs:
            return
        del self._runs[run]
        if self._heir is run:
            self._heir = None
        for prompt in run.waiting:
            self._owner_of_prompt.pop(prompt, None)
        run.waiting.clear()
        self._owners_of_task.drop(run)
        if self._turn is not None:
            self._turn.audience = tuple(r for r in self._turn.audience if r is not run)

    def close(self) -> tuple[RunEnded, ...]:
        """End every run: the connection is gone."""
        ends = tuple(RunEnded(run, "closed", was_in_turn=run in self.turn_runs) for run in self._runs)
        self._runs.clear()
        self._owner_of_prompt.clear()
        self._heir = None
        return ends

    # Messages ----------------------------------------------------------------------------------------------------

    def route(self, message: object, now: float) -> Routing:
        """Return the runs that receive this message, and whether it may end a run.

        Then call `settle` once the tasks have processed it as well.
        """
        rule: _Rule = self._RULES.get(type(message), self._OTHER)
        on_message, is_progress, may_end = rule
        runs = on_message(self, message, now)
        if is_progress:
            self._last_progress = now
            for run in runs:
                run.has_begun = True
                run.last_progress = now
        return runs, may_end

    def _on_main_agent(self, message: StreamEventMessage | AssistantMessage, now: float) -> tuple[OpenRun, ...]:
        """Route a message of the main agent to the turn, which it may begin."""
        turn = self._turn or self._begin_turn(message.prompt_uuids, now)
        if message.user_message_uuid is not None:  # only on the first message of an answer
            self._join(turn, message.prompt_uuids)
        return turn.audience

    def _on_assistant(self, message: AssistantMessage, now: float) -> tuple[OpenRun, ...]:
        return self._subagent_audience(message) if message.is_subagent else self._on_main_agent(message, now)

    def _on_user(self, message: UserMessage, now: float) -> tuple[OpenRun, ...]:
        """Route a user message. It begins no turn: the CLI prints some between turns (after `set_model`, say)."""
        return self._subagent_audience(message) if message.is_subagent else self._session_audience()

    def _on_init(self, message: InitMessage, now: float) -> tuple[OpenRun, ...]:
        turn = self._turn or self._begin_turn(message.prompt_uuids, now)
        self._join(turn, message.prompt_uuids)
        return turn.audience

    def _on_lifecycle(self, message: CommandLifecycleMessage, now: float) -> tuple[OpenRun, ...]:
        self._lifecycle_seen = True
        prompt = message.command_uuid
        owner = self._owner_of_prompt.get(prompt)
        if owner is None:
            if message.state == "started":
                self._begun_elsewhere = (prompt,)
            return ()
        if message.state == "started":
            self._join(self._turn or self._begin_turn((prompt,), now), (prompt,))
        elif message.state in ("cancelled", "discarded", "refused"):
            self._withdraw(prompt)
        elif message.state == "completed":
            self._completed.add(prompt)
        return (owner,)

    def _on_result(self, message: ResultMessage, now: float) -> tuple[OpenRun, ...]:
        turn, self._turn = self._turn or _Turn(), None
        prompts = list(dict.fromkeys((*message.prompt_uuids, *turn.prompts)))
        if not prompts and not message.is_injected:
            prompts = self._assumed_prompts()
        owners = [owner for prompt in prompts if (owner := self._answer(prompt)) is not None]
        runs = tuple(dict.fromkeys([*turn.audience, *owners]))
        if message.was_interrupted:
            for run in runs:
                run.was_interrupted = True
        if message.origin is not None:
            self._follow_ups.discard(message.origin.run_id or "")
        self._follow_ups_until = now + FOLLOW_UP_GRACE  # delayed follow-up turns begin now
        return runs or (self._waiting_for_idle() if message.is_injected else ())

    def _on_malformed(self, frame: MalformedFrame, now: float) -> tuple[OpenRun, ...]:
        """Route a frame that cannot be read. A result also spoils the runs whose prompts it answers."""
        audience = self._session_audience()
        if frame.is_result:
            turn, self._turn = self._turn or _Turn(), None
            prompts = dict.fromkeys((*_read_prompts(frame.raw), *turn.prompts, *turn.assumed))
            if not prompts and not _is_injected(frame.raw):
                prompts = dict.fromkeys(self._assumed_prompts())
            for owner in map(self._answer, prompts):
                if owner is not None:
                    owner.bad_result = frame
        return audience

    def _on_state(self, message: SessionStateChangedMessage, now: float) -> tuple[OpenRun, ...]:
        audience = self._session_audience()
        self._state = message.state
        if message.state == "idle":  # only sent with an empty queue, so no follow-up turn is coming
            turn, self._turn = self._turn, None
            self._follow_ups.clear()
            self._note_resumed(())
            for prompt in (*(turn.prompts if turn else ()), *self._completed):
                self._withdraw(prompt)
            self._completed.clear()
        return audience

    def _on_other(self, message: object, now: float) -> tuple[OpenRun, ...]:
        task_id = find_task_id(message)
        return self._task_audience(task_id) if task_id else self._session_audience()

    # Tasks -------------------------------------------------------------------------------------------------------

    def _on_task_started(self, message: TaskStartedMessage, now: float) -> tuple[OpenRun, ...]:
        for owner in self._owners_of_task.start(message, self.turn_runs):
            if owner in self._runs:
                owner.tasks.add(message.task_id)
        return self._task_audience(message.task_id)

    def _on_task(self, message: TaskProgressMessage, now: float) -> tuple[OpenRun, ...]:
        return self._task_audience(message.task_id)

    def _on_task_updated(self, message: TaskUpdatedMessage, now: float) -> tuple[OpenRun, ...]:
        status = message.patch.task_status
        if status is not None and status.is_terminal:
            self._expect_follow_up(message, now)
        return self._task_audience(message.task_id)

    def _on_notification(self, message: TaskNotificationMessage, now: float) -> tuple[OpenRun, ...]:
        if message.ambient or message.skip_transcript:
            self._follow_ups.discard(message.run_id or message.task_id)
        else:
            self._expect_follow_up(message, now)
        return self._task_audience(message.task_id)

    def _expect_follow_up(self, message: TaskUpdatedMessage | TaskNotificationMessage, now: float) -> None:
        if self._causes_follow_up(message.task_id):
            self._follow_ups.add(message.run_id or message.task_id)
            self._follow_ups_until = now + FOLLOW_UP_GRACE

    def _give_up_follow_ups(self, now: float) -> None:
        """Expect no follow-up turn after the grace period. Must not be called during a turn."""
        if now >= self._follow_ups_until:
            self._follow_ups.clear()

    # Turns -------------------------------------------------------------------------------------------------------

    def _begin_turn(self, prompts: Sequence[str], now: float) -> _Turn:
        """Begin a turn on these prompts, or without any for the runs that wait for the session to be idle."""
        self._give_up_follow_ups(now)
        self._turn = turn = _Turn()
        # A turn that was cut off again after it was resumed names no prompts, but its start is announced.
        if self._heir is not None:
            prompts = prompts or self._begun_elsewhere
        if prompts:
            self._join(turn, prompts)
        elif assumed := self._assumed_prompts():
            turn.assumed = tuple(assumed)
            turn.audience = tuple(self._owner_of_prompt[p] for p in assumed)
        else:
            turn.audience = self._waiting_for_idle()
        return turn

    def _join(self, turn: _Turn, prompts: Sequence[str]) -> None:
        """Add prompts to the turn."""
        # The first turn of a resumed session may be about a task that died with the last process. It names no prompts;
        # the interrupted turn follows it.
        if prompts and self._heir is not None:
            self._note_resumed(prompts)
        new = [p for p in prompts if p not in turn.prompts and p in self._owner_of_prompt]
        if new:
            turn.prompts.update(dict.fromkeys(new))
            owners = (self._owner_of_prompt[p] for p in new)
            turn.audience = tuple(dict.fromkeys([*turn.audience, *owners]))

    def _note_resumed(self, prompts: Iterable[str]) -> None:
        """Note the prompts of the resumed turn; the heir adopts those without a run."""
        heir, self._heir = self._heir, None
        if heir is None:
            return
        named = tuple(dict.fromkeys(prompts))
        adopted = tuple(p for p in named if p not in self._owner_of_prompt)
        for prompt in adopted:
            self.add_prompt(heir, prompt, self._last_progress)
        if adopted:
            heir.is_sealed = True
        else:
            self.drop_run(heir)
        self._resumed = TurnResumed(heir, named, adopted)

    def _take_resumed(self) -> tuple[Verdict, ...]:
        resumed, self._resumed = self._resumed, None
        return (resumed,) if resumed is not None else ()

    def _assumed_prompts(self) -> list[str]:
        """Return the oldest unanswered prompt, for a CLI without `command_lifecycle`."""
        return [] if self._lifecycle_seen else list(self._owner_of_prompt)[:1]

    def _answer(self, prompt: str) -> OpenRun | None:
        """Mark the prompt as answered and return its run."""
        owner = self._owner_of_prompt.pop(prompt, None)
        if owner is not None:
            owner.waiting.pop(prompt, None)
            owner.was_answered = True
        return owner

    def _withdraw(self, prompt: str) -> None:
        """Drop a prompt that will not be answered. A prompt of the current turn gets that turn's result."""
        if self._turn and prompt in self._turn.prompts:
            return
        owner = self._owner_of_prompt.pop(prompt, None)
        if owner is not None:
            owner.waiting.pop(prompt, None)

    def waits_for_idle(self, run: OpenRun) -> bool:
        """Return whether an open run has all its answers and is waiting for the session to be idle."""
        return run in self._waiting_for_idle()

    # Audiences ---------------------------------------------------------------------------------------------------

    def _waiting_for_idle(self) -> tuple[OpenRun, ...]:
        return tuple(r for r in self._runs if r.until == "idle" and r.has_all_answers)

    def _session_audience(self) -> tuple[OpenRun, ...]:
        """Return the runs for a message without a task: the turn's runs, or all open runs between turns."""
        return self._turn.audience if self._turn else tuple(self._runs)

    def _task_audience(self, task_id: str) -> tuple[OpenRun, ...]:
        """Return the runs for a message of a task: its open runs, or the runs that wait for idle if it has none."""
        return self._owners_of_task.of(task_id) or self._waiting_for_idle()

    def _subagent_audience(self, message: AssistantMessage | UserMessage) -> tuple[OpenRun, ...]:
        """Return the runs for a message of a subagent, which never begins a turn.

        An unknown one belongs to the turn.
        """
        task_id = self._owners_of_task.find_task(message)
        return self.turn_runs if task_id is None and self._turn else self._task_audience(task_id or "")

    def queued_prompts(self, run: OpenRun) -> tuple[str, ...]:
        """Return the prompts of a run that the CLI has not reported as started."""
        begun = (*self._turn.prompts, *self._turn.assumed) if self._turn else ()
        return tuple(p for p in run.waiting if p not in begun)

    # Ends --------------------------------------------------------------------------------------------------------

    def settle(self, now: float) -> tuple[Verdict, ...]:
        """Remove the runs that have ended, perhaps because tasks ended without a message, and return the verdicts."""
        ready = [run for run in self._runs if run.has_all_answers or run.bad_result is not None]
        ends = [end for run in ready if (end := self._end_if_over(run, now)) is not None]
        return (*self._take_resumed(), *ends) if ends or self._resumed is not None else ()

    def _end_if_over(self, run: OpenRun, now: float) -> RunEnded | None:
        if run.bad_result is not None:
            return self._end(run, "unreadable")
        if not run.was_answered:
            return self._end(run, "cancelled")
        if run.until == "result" or run.was_interrupted:
            return self._end(run, "result")
        if run.waiting_since is None:
            run.waiting_since = now
        return self._end(run, "idle") if self.is_idle(now) else None

    def _end(
        self,
        run: OpenRun,
        reason: EndReason,
        *,
        expired: Deadline | None = None,
    ) -> RunEnded:
        """Drop a run and return the verdict on it."""
        is_in_turn = run in self.turn_runs
        self.drop_run(run)
        if expired is None:
            return RunEnded(run, reason, was_in_turn=is_in_turn)
        late = self._live_task_ids() & run.tasks if expired.kind == "idle" else frozenset[str]()
        return RunEnded(run, reason, expired.kind, expired.limit, is_in_turn, late)

    def is_idle(self, now: float) -> bool:
        """Return whether the session is idle: no turn, running task, open question or expected follow-up turn.

        If the CLI sends `session_state_changed`, it decides. The CLI does not report `idle` while a background agent or
        its follow-up turn is running, but it does for shells, which the ledger and a short grace period cover. Drops
        follow-up turns whose grace period has expired.
        """
        if self._turn is not None or self._state not in (None, "idle") or self._live_task_ids():
            return False
        self._give_up_follow_ups(now)
        return not self._follow_ups

    # Time --------------------------------------------------------------------------------------------------------

    def restart_silence(self, now: float) -> None:
        """Restart the silence limit of every run, because the CLI is waiting for an answer."""
        for run in self._runs:
            run.last_progress = now

    def _deadline(self, run: OpenRun) -> Deadline | None:
        """Return the run's next deadline. Progress of the turn that it is queued behind counts for it, too."""
        is_queued = run.waiting and run not in self.turn_runs
        silent_since = max(run.last_progress, self._last_progress) if is_queued else run.last_progress
        return run.deadline(silent_since, is_between_turns=self._turn is None)

    def next_deadline(self) -> float:
        """Return when to call `tick` next; infinity for never."""
        moments: list[float] = []
        for run in self._runs:
            deadline = self._deadline(run) if run.limits != NO_LIMITS else None
            if deadline is not None:
                moments.append(deadline.at)
        if self._turn is None:
            notices = [run.waiting_since + run.next_notice for run in self._runs if run.waiting_since is not None]
            moments += notices
            if notices and self._follow_ups:
                moments.append(self._follow_ups_until)
        return min(moments, default=math.inf)

    def tick(self, now: float) -> tuple[Verdict, ...]:
        """Return the runs that ended because a limit or a grace period expired, and those that have waited for long."""
        waits: list[RunWaits] = []
        if self._turn is None:
            self._give_up_follow_ups(now)
            waits = [notice for run in self._runs if (notice := run.notice(now)) is not None]
        ends: list[RunEnded] = []
        for run in self.open_runs:
            deadline = self._deadline(run)
            if deadline is not None and deadline.at <= now:
                reason: EndReason = "idle" if deadline.kind == "idle" else "timeout"
                ends.append(self._end(run, reason, expired=deadline))
        return (*ends, *self.settle(now), *waits)

    _OTHER: ClassVar[_Rule] = _Rule(_on_other, is_progress=False)
    _RULES: ClassVar[Mapping[type, _Rule]] = {
        InitMessage: _Rule(_on_init, is_progress=False, may_end=True),
        StreamEventMessage: _Rule(_on_main_agent),
        ThinkingTokensMessage: _Rule(_on_other),
        AssistantMessage: _Rule(_on_assistant),
        UserMessage: _Rule(_on_user),
        ToolProgressMessage: _Rule(_on_other),
        ResultMessage: _Rule(_on_result, may_end=True),
        MalformedFrame: _Rule(_on_malformed, is_progress=False, may_end=True),
        CommandLifecycleMessage: _Rule(_on_lifecycle, is_progress=False, may_end=True),
        SessionStateChangedMessage: _Rule(_on_state, is_progress=False, may_end=True),
        TaskStartedMessage: _Rule(_on_task_started),
        TaskProgressMessage: _Rule(_on_task),
        TaskUpdatedMessage: _Rule(_on_task_updated, may_end=True),
        TaskNotificationMessage: _Rule(_on_notification, may_end=True),
        BackgroundTasksChangedMessage: _Rule(_on_other, is_progress=False, may_end=True),
    }
    """The rules of the types that need one of their own."""


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
