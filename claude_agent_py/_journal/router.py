"""`TurnRouter`: which runs receive the messages of the current turn, and when a run ends.

`routes.py` applies the messages to it; `turns.py` has the turns. Routing does not rely on order:

* A prompt is identified by its uuid. `command_lifecycle` says when the CLI starts on it, and the messages of a turn
  name its prompts (`user_message_uuids`, 64 at most).
* A result answers all prompts of its turn. The messages of a turn go to the runs of its prompts. Those of a turn
  without prompts go to the runs that wait for the session to be idle, and those of a turn on unknown prompts to no run.
* A task belongs to the runs in whose turn it started: see `task_owners.py`.

A run ends with its own result, or (`until="idle"`) once no task is running and no follow-up turn is expected: see
`is_idle`. An interrupted run waits for no task. Its time limits and the verdicts are in `open_runs.py`.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from claude_agent_py._journal.open_runs import (
    NO_LIMITS,
    Deadline,
    EndReason,
    OpenRun,
    RunEnded,
    RunWaits,
    TurnResumed,
    Verdict,
    note_turns,
)
from claude_agent_py._journal.task_owners import TaskOwners
from claude_agent_py._journal.turns import Turns

FOLLOW_UP_GRACE: Final = 1.0
"""How many seconds to wait for the follow-up turn of a finished task.

Not every task causes one: a stopped task may not, and a task that ends during a turn may be folded into it. Measured:
10 to 110 ms from the notification, or from the end of the current turn, to the follow-up turn (CLI 2.1.328). It only
elapses for a task without a follow-up turn, such as a shell stopped by `stop_task`, and only with a CLI that does not
report when it is idle."""


class FollowUps:
    """The turns that the CLI is expected to begin for tasks that have ended."""

    def __init__(self) -> None:
        self.runs: set[str] = set()
        """The runs of these tasks."""
        self.until: float = 0.0
        """When no turn is expected any more, except during a turn, which may delay or replace them."""

    def give_up(self, now: float) -> None:
        """Expect none after the grace period. Must not be called during a turn."""
        if now >= self.until:
            self.runs.clear()


class TurnRouter:
    """The runs that get the messages of each turn; decides when a run ends.

    `routes.route` takes in each message.

    Args:
        live_task_ids: Returns the ids of the running tasks, without ambient ones, which do not count as activity.
        causes_follow_up: Returns whether the end of a task, by its id, causes a follow-up turn.
        clock: Returns the time at which turns begin, in seconds since the epoch; None if unknown.
    """

    def __init__(
        self,
        live_task_ids: Callable[[], frozenset[str]],
        causes_follow_up: Callable[[str], bool],
        clock: Callable[[], float | None] = lambda: None,
    ) -> None:
        self._live_task_ids = live_task_ids
        self.causes_follow_up = causes_follow_up
        self._runs: dict[OpenRun, None] = {}
        """The open runs, oldest first."""
        self.owner_of_prompt: dict[str, OpenRun] = {}
        """The runs of the unanswered prompts."""
        self.prompts: set[str] = set()
        """All prompts so far."""
        self.owners_of_task: TaskOwners = TaskOwners()
        self.turns: Turns = Turns(clock)
        self._audience: tuple[OpenRun, ...] | None = None
        """The runs that receive the messages of the current turn; None before it is known. Empty: nobody wants them."""
        self._assumed: tuple[str, ...] = ()
        """The prompts that it may be working on, if the CLI has not named them."""
        self.state: str | None = None
        """The state that the CLI last reported; None if it reports none."""
        self.lifecycle_seen: bool = False
        """Whether the CLI reports when it starts on a prompt."""
        self.last_progress: float = 0.0
        """When the CLI last made progress."""
        self.follow_ups: FollowUps = FollowUps()
        self.completed: set[str] = set()
        """Prompts that the CLI has completed without an answer so far. It says so of a prompt that it folded into a
        turn before the result of the turn, so none is dropped before the session is idle."""
        self._heir: OpenRun | None = None
        """The run of the turn that an earlier process left unfinished, until the CLI reports whether there is one."""
        self._joined: Mapping[str, Sequence[str]] = {}
        """Prompts that joined the turn of another in an earlier process, by that one, which the CLI names."""
        self.begun_elsewhere: tuple[str, ...] = ()
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
        return self._audience or ()

    def open_run(self, run: OpenRun, now: float, prompts: Iterable[str] = ()) -> None:
        """Begin a run with these prompts. Unless it is sealed, more may follow, then `seal_run`."""
        run.restart(now)
        self._runs[run] = None
        for prompt in prompts:
            self.add_prompt(run, prompt, now)

    def expect_resumed_turn(self, run: OpenRun, joined: Mapping[str, Sequence[str]]) -> None:
        """Have an open run without prompts adopt the prompts of the turn that an earlier process left unfinished.

        The CLI does not announce them: its first `init` of that turn names them, and `idle` says that there is none.

        Args:
            run: The run.
            joined: The prompts that joined the turn of another, by that one, which alone the CLI names.
        """
        self._heir, self._joined = run, joined

    def expect_no_resumed_turn(self) -> tuple[Verdict, ...]:
        """Note that the CLI has no turn to resume."""
        self.note_resumed(())
        return self._take_resumed()

    def add_prompt(self, run: OpenRun, prompt_uuid: str, now: float) -> None:
        """Add a prompt of the run, unless the run has ended."""
        if run in self._runs:
            self._own(run, prompt_uuid, now)
            self.turns.note_sent(prompt_uuid)  # for one of an earlier process; `Runs.write` notes what it writes

    def _own(self, run: OpenRun, prompt_uuid: str, now: float) -> None:
        run.waiting[prompt_uuid] = None
        run.last_progress = now
        self.owner_of_prompt[prompt_uuid] = run
        self.prompts.add(prompt_uuid)

    def seal_run(self, run: OpenRun, now: float) -> tuple[Verdict, ...]:
        """Note that the run has all its prompts. Return the runs that this ends."""
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
            self.owner_of_prompt.pop(prompt, None)
        run.waiting.clear()
        self.owners_of_task.drop(run)
        if self._audience:
            self._audience = tuple(r for r in self._audience if r is not run)

    def close(self) -> tuple[RunEnded, ...]:
        """End every run: the connection is gone."""
        ends = tuple(RunEnded(run, "closed", was_in_turn=run in self.turn_runs) for run in self._runs)
        self._runs.clear()
        self.owner_of_prompt.clear()
        self._heir = None
        return ends

    # Turns -------------------------------------------------------------------------------------------------------

    def follow(self, named: Sequence[str], now: float) -> tuple[OpenRun, ...]:
        """Return the runs that receive a message of the current turn, which names these prompts; none between turns.

        A turn without prompts is for the runs that wait for the session to be idle.
        """
        turn = self.turns.current
        if turn is None:
            return ()
        if self._audience is None:
            self.follow_ups.give_up(now)
            # A turn that was cut off again after it was resumed names no prompts, but its start is announced.
            named = named or (() if self._heir is None else self.begun_elsewhere)
            self._assumed = () if named else tuple(self.assumed_prompts())
            self._audience = tuple(self.owner_of_prompt[prompt] for prompt in self._assumed)
            if not named and not self._audience:
                self._audience = self.waiting_for_idle()
        if self._joined:
            named = [each for prompt in named for each in (*self._joined.get(prompt, ()), prompt)]
        # The first turn of a resumed session may be about a task that died with the last process. It names no prompts;
        # the interrupted turn follows it.
        if named and self._heir is not None:
            self.note_resumed(named)
        known = [prompt for prompt in named if prompt in self.owner_of_prompt]
        if known:
            turn.prompts.update(dict.fromkeys(known))
            owners = (self.owner_of_prompt[prompt] for prompt in known)
            self._audience = tuple(dict.fromkeys([*self._audience, *owners]))
        note_turns(self._audience, self.turns)
        return self._audience

    def leave_turn(self, message: object) -> tuple[list[str], list[str], tuple[OpenRun, ...]]:
        """Return the prompts of the turn that a message ends, those that it assumed, and the runs that received it."""
        turn = self.turns.current
        self.turns.feed(message)
        left = [] if turn is None else list(turn.prompts), list(self._assumed), self.turn_runs
        self._audience, self._assumed = None, ()
        return left

    def note_resumed(self, prompts: Iterable[str]) -> None:
        """Note the prompts of the resumed turn; the heir adopts those without a run."""
        heir, self._heir = self._heir, None
        if heir is None:
            return
        named = tuple(dict.fromkeys(prompts))
        adopted = tuple(p for p in named if p not in self.owner_of_prompt)
        for prompt in adopted:
            self._own(heir, prompt, self.last_progress)
        if adopted:
            heir.is_sealed = True
        else:
            self.drop_run(heir)
        self._resumed = TurnResumed(heir, named, adopted)

    def _take_resumed(self) -> tuple[Verdict, ...]:
        resumed, self._resumed = self._resumed, None
        return (resumed,) if resumed is not None else ()

    def assumed_prompts(self) -> list[str]:
        """Return the oldest unanswered prompt, for a CLI without `command_lifecycle`."""
        return [] if self.lifecycle_seen else list(self.owner_of_prompt)[:1]

    def answer(self, prompt: str) -> OpenRun | None:
        """Mark the prompt as answered and return its run."""
        owner = self.owner_of_prompt.pop(prompt, None)
        if owner is not None:
            owner.waiting.pop(prompt, None)
            owner.was_answered = True
        return owner

    def withdraw(self, prompt: str) -> None:
        """Drop a prompt that will not be answered. A prompt of the current turn gets that turn's result."""
        if self.turns.current is not None and prompt in self.turns.current.prompts:
            return
        owner = self.owner_of_prompt.pop(prompt, None)
        if owner is not None:
            owner.waiting.pop(prompt, None)

    # Audiences ---------------------------------------------------------------------------------------------------

    def waiting_for_idle(self) -> tuple[OpenRun, ...]:
        """Return the runs that have all their answers and wait for the session to be idle."""
        return tuple(r for r in self._runs if r.until == "idle" and r.has_all_answers)

    def session_audience(self) -> tuple[OpenRun, ...]:
        """Return the runs for a message without a task: the turn's runs, or all open runs between turns."""
        return tuple(self._runs) if self.turns.current is None else self.turn_runs

    def task_audience(self, task_id: str) -> tuple[OpenRun, ...]:
        """Return the runs for a message of a task: its open runs, or the runs that wait for idle if it has none."""
        return self.owners_of_task.of(task_id) or self.waiting_for_idle()

    def queued_prompts(self, run: OpenRun) -> tuple[str, ...]:
        """Return the prompts of a run that the CLI has not reported as started."""
        turn = self.turns.current
        begun = () if turn is None else (*turn.prompts, *self._assumed)
        return tuple(p for p in run.waiting if p not in begun)

    # Ends --------------------------------------------------------------------------------------------------------

    def settle(self, now: float) -> tuple[Verdict, ...]:
        """Remove the runs that have ended, perhaps because tasks ended without a message, and return the verdicts."""
        ready = [run for run in self._runs if not run.waiting or run.bad_result is not None]
        if not ready and self._resumed is None:
            return ()  # most messages
        ends = [end for run in ready if (end := self._end_if_over(run, now)) is not None]
        return (*self._take_resumed(), *ends)

    def _end_if_over(self, run: OpenRun, now: float) -> RunEnded | None:
        if run.bad_result is not None:
            return self._end(run, "unreadable")
        if not run.has_all_answers:
            return None
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
            return RunEnded(run, reason)
        late = self._live_task_ids() & run.tasks if expired.kind == "idle" else frozenset[str]()
        return RunEnded(run, reason, expired.kind, expired.limit, is_in_turn, late)

    def is_idle(self, now: float) -> bool:
        """Return whether the session is idle: no turn, running task, open question or expected follow-up turn.

        If the CLI sends `session_state_changed`, it decides. The CLI does not report `idle` while a background agent or
        its follow-up turn is running, but it does for shells, which the ledger and a short grace period cover. Drops
        follow-up turns whose grace period has expired.
        """
        if self.turns.current is not None or self.state not in (None, "idle") or self._live_task_ids():
            return False
        self.follow_ups.give_up(now)
        return not self.follow_ups.runs

    # Time --------------------------------------------------------------------------------------------------------

    def restart_silence(self, now: float) -> None:
        """Restart the silence limit of every run, because the CLI is waiting for an answer."""
        for run in self._runs:
            run.last_progress = now

    def _deadline(self, run: OpenRun) -> Deadline | None:
        """Return the run's next deadline. Progress of the turn that it is queued behind counts for it, too."""
        is_queued = run.waiting and run not in self.turn_runs
        silent_since = max(run.last_progress, self.last_progress) if is_queued else run.last_progress
        return run.deadline(silent_since, is_between_turns=self.turns.current is None)

    def next_deadline(self) -> float:
        """Return when to call `tick` next; infinity for never."""
        moments: list[float] = []
        for run in self._runs:
            deadline = self._deadline(run) if run.limits != NO_LIMITS else None
            if deadline is not None:
                moments.append(deadline.at)
        if self.turns.current is None:
            notices = [run.waiting_since + run.next_notice for run in self._runs if run.waiting_since is not None]
            moments += notices
            # When no follow-up turn is expected any more, a run that waits can end.
            if notices and self.follow_ups.runs:
                moments.append(self.follow_ups.until)
        return min(moments, default=math.inf)

    def tick(self, now: float) -> tuple[Verdict, ...]:
        """Return the runs that ended because a limit or a grace period expired, and those that have waited for long."""
        waits: list[RunWaits] = []
        if self.turns.current is None:
            self.follow_ups.give_up(now)
            waits = [notice for run in self._runs if (notice := run.notice(now)) is not None]
        ends: list[RunEnded] = []
        for run in self.open_runs:
            deadline = self._deadline(run)
            if deadline is not None and deadline.at <= now:
                reason: EndReason = "idle" if deadline.kind == "idle" else "timeout"
                ends.append(self._end(run, reason, expired=deadline))
        return (*ends, *self.settle(now), *waits)
