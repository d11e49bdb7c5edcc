"""`SessionRecord`: the state of a session, and the rules by which commands, outcomes and crashes change it.

Both engines keep it: the one on SQLite in rows, the one on Temporal in a workflow, which replays. So the rules are
pure: times and ids are arguments.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self
from uuid import UUID, uuid4, uuid5

from claude_agent_py._base.json_object import JSONMapping, JSONObject
from claude_agent_py.durable import Done, Failed, Interrupted, Later, TurnOutcome, Waiting
from claude_agent_py.fleet.agents import make_title
from claude_agent_py.fleet.records import FleetOutcome

EARLIER_FAILED: Final = "EarlierPromptFailed"
"""The error of a prompt that failed because one before it did."""
OVERDUE: Final[JSONObject] = {"error": "RunTimeoutError", "reason": "the prompt was not answered in time"}
INTERRUPTED: Final = {"error": "InterruptedRunError", "reason": "interrupted"}
ALONE_CRASHES: Final = 2
"""After so many crashes, a prompt runs with no other in its process."""
ENDED: Final = ("idle", "failed", "cancelled")
"""The states of sessions with nothing to do."""
ENDS: Final = {"done": "done", "failed": "failed", "interrupted": "cancelled"}
"""The state of a prompt after an outcome that ends it."""


@dataclass
class FleetPrompt:
    """A prompt, and what became of it."""

    number: int
    uuid: str
    content: Any = None
    """The prompt, as the engine keeps it. Temporal drops it once it cannot be sent again."""
    timeout: float | None = None
    deadline: float | None = None
    """In seconds since the epoch, by the clock of the engine."""
    state: str = "queued"
    attempts: int = 0
    crashes: int = 0
    started_at: float | None = None
    ended_at: float | None = None
    result: JSONObject = field(default_factory=JSONObject)
    """The fields of `FleetOutcome` that the turn gives; its cost so far while it has not ended."""

    @property
    def spent_usd(self) -> float:
        """The cost of the calls so far."""
        return self.result.get("cost_usd") or 0.0


@dataclass
class FleetQuestion:
    """An open question: a `QuestionRecord`, and its answer."""

    id: str
    key: str
    record: JSONObject
    created_at: float
    reply: Any = None
    """None until it is answered. The question goes once the answer is taken."""
    by: str = ""
    """Who answered it."""


@dataclass
class TurnResult:
    """What a call of `run_turn` means for its prompt."""

    kind: str
    """That of the outcome; or `busy`: the worker had no room."""
    pause: float = 0.0
    is_attempt: bool = False
    reason: str = ""
    result: JSONObject = field(default_factory=JSONObject)
    """The fields of `FleetOutcome`, if the prompt has ended."""
    cost_usd: float = 0.0
    """The cost of the call, if the prompt has not ended."""

    @staticmethod
    def of(outcome: TurnOutcome, worker: str) -> "TurnResult":
        """Return the result for an outcome in a worker."""
        if isinstance(outcome, Later):
            reason = outcome.reason if outcome.pause else ""
            return TurnResult("later", outcome.pause, outcome.is_attempt, reason, cost_usd=outcome.cost_usd)
        if isinstance(outcome, Waiting):
            return TurnResult("waiting", cost_usd=outcome.cost_usd)
        if not isinstance(outcome, Done | Failed | Interrupted):
            return TurnResult(outcome.kind, 1.0)
        result = {**outcome.to_dict(), "worker": worker}
        return TurnResult(outcome.kind, result=result | INTERRUPTED if isinstance(outcome, Interrupted) else result)


@dataclass
class SessionRecord:
    """The state of a session. On Temporal, it also begins its next workflow run."""

    id: str
    agent: str
    conversation: str
    title: str = ""
    """That of `FleetSessionInfo`."""
    tenant: str = ""
    priority: int = 0
    created_at: float = 0.0
    updated_at: float = 0.0
    state: str = "queued"
    wanted: str | None = None
    """`interrupt`, `cancel` or `overdue`, until the current prompt has heard of it."""
    reason: str | None = None
    version: str = ""
    machine: str | None = None
    workspace: str | None = None
    worker: str | None = None
    not_before: float = 0.0
    epoch: int = 0
    """The number of calls of `run_turn`."""
    runs: int = 0
    prompts: list[FleetPrompt] = field(default_factory=list[FleetPrompt])
    """Those that have not ended, and the last ones that have."""
    questions: list[FleetQuestion] = field(default_factory=list[FleetQuestion])
    keys: dict[str, int] = field(default_factory=dict[str, int])
    """The numbers of the latest prompts by key."""
    timeout: float | None = None
    """The `timeout` of the agent."""
    after_failure: str = "run"
    max_crashes: int = 5

    @classmethod
    def new(
        cls,
        id: str,  # noqa: A002
        agent: str,
        prompt: Any,
        *,
        version: str | None = None,
        tenant: str = "",
        priority: int = 0,
        timeout: float | None = None,
        key: str | None = None,
    ) -> Self:
        """Return a session with its first prompt. Without a version, its engine chooses one."""
        prompts, keys = [FleetPrompt(1, str(uuid4()), prompt, timeout)], {} if key is None else {key: 1}
        fields: JSONObject = {"version": version or "", "tenant": tenant, "priority": priority}
        fields["title"] = make_title(prompt)
        return cls(id, agent, str(uuid4()), prompts=prompts, runs=1, keys=keys, **fields)

    @property
    def current(self) -> FleetPrompt | None:
        """The first prompt that has not ended."""
        return next((prompt for prompt in self.prompts if prompt.state in ("queued", "running")), None)

    @property
    def unanswered(self) -> list[FleetQuestion]:
        """The questions without an answer."""
        return [question for question in self.questions if question.reply is None]

    # Commands --------------------------------------------------------------------------------------------------------

    def add(self, uuid: str, content: Any, timeout: float | None, key: str | None, now: float) -> FleetPrompt:
        """Add a prompt."""
        self.runs += 1
        prompt = FleetPrompt(self.runs, uuid, content, timeout)
        self.set_deadline(prompt, now)
        self.prompts.append(prompt)
        if key is not None:
            self.keys[key] = self.runs
        if self.state in ("idle", "failed"):
            self.state, self.reason = "queued", None
        return prompt

    def set_deadline(self, prompt: FleetPrompt, now: float) -> None:
        """Set the deadline of a prompt that has a timeout."""
        if prompt.timeout is None:
            prompt.timeout = self.timeout
        if prompt.timeout is not None and prompt.deadline is None:
            prompt.deadline = now + prompt.timeout

    def answer(self, question: str, reply: Any, by: str) -> bool:
        """Answer a question. Return False if it is not open."""
        found = next((each for each in self.unanswered if each.id == question), None)
        if found is None:
            return False
        found.reply, found.by = reply, by
        if self.state == "waiting" and not self.unanswered:
            self.state = "queued"
        return True

    def retry(self, now: float) -> int:
        """Queue the prompt that failed again, and those that failed with it, and return its number."""
        found = list_retried(self.prompts)
        for prompt in found:
            # The conversation may have the prompt, which gets an answer only if it is sent anew.
            prompt.uuid = str(uuid5(UUID(prompt.uuid), "retry"))
            prompt.state, prompt.attempts, prompt.crashes = "queued", 0, 0
            prompt.result = add_cost({}, prompt.spent_usd)
            prompt.ended_at = prompt.deadline = None
            self.set_deadline(prompt, now)
        self.state, self.reason = "queued", None
        return found[-1].number

    def cancel(self, now: float) -> None:
        """End all prompts, and the session."""
        reason = self.reason or "cancelled"
        while (prompt := self.current) is not None:
            self.end(prompt, "cancelled", {"error": "", "reason": reason}, now)
        self.state, self.reason, self.worker, self.wanted = "cancelled", reason, None, None

    def stop(self, prompt: FleetPrompt, now: float) -> None:
        """End the current prompt, or the session, as somebody wants."""
        if self.wanted == "cancel":
            self.cancel(now)
        elif self.wanted == "overdue":
            self.fail(prompt, OVERDUE, now)
        else:
            self.end(prompt, "cancelled", INTERRUPTED, now)

    # The turn --------------------------------------------------------------------------------------------------------

    def begin(self, worker: str, now: float) -> None:
        """Note the worker that runs the current prompt."""
        self.state, self.worker = "running", worker
        if self.wanted is None:
            self.reason = None
        if (prompt := self.current) is not None:
            prompt.state, prompt.started_at = "running", prompt.started_at or now

    def ask(self, key: str, record: JSONObject, make_id: Callable[[], str], now: float) -> Any:
        """Keep a question, unless one with its key is open, or take its answer."""
        asked = next((question for question in self.questions if question.key == key), None)
        if asked is None:
            self.questions.append(FleetQuestion(make_id(), key, record, now))
        elif asked.reply is not None:
            self.questions.remove(asked)
            return asked.reply
        return None

    def withdraw(self, key: str) -> None:
        """Close a question."""
        self.questions = [question for question in self.questions if question.key != key]

    def settle(self, prompt: FleetPrompt, result: TurnResult, now: float) -> None:
        """Note what became of the current prompt."""
        self.worker = None
        if result.kind == "failed":
            self.fail(prompt, result.result, now)
        elif result.kind in ENDS:
            self.end(prompt, ENDS[result.kind], result.result, now)
        else:
            prompt.result = add_cost({"cost_usd": result.cost_usd}, prompt.spent_usd)
            self._put_off(prompt, result, now)
        if self.wanted == "cancel":
            self.cancel(now)

    def _put_off(self, prompt: FleetPrompt, result: TurnResult, now: float) -> None:
        """Queue a prompt again, unless somebody wants something else."""
        if self.wanted is not None:
            self.stop(prompt, now)
        else:
            prompt.attempts += result.is_attempt
            # The answer may have come before the session could wait for it.
            self.state = "waiting" if result.kind == "waiting" and self.unanswered else "queued"
            self.not_before = now + result.pause if result.pause else 0.0
            self.reason = result.reason or None

    def crash(self, prompt: FleetPrompt, now: float) -> None:
        """Note that the worker of the current prompt died."""
        prompt.crashes += 1
        if self.wanted is None and prompt.crashes >= self.max_crashes:
            reason = f"{prompt.crashes} workers died while running it"
            self.fail(prompt, {"error": "WorkerDied", "reason": reason}, now)
        else:
            self.settle(prompt, TurnResult("later"), now)

    def end(self, prompt: FleetPrompt, state: str, result: JSONMapping, now: float) -> None:
        """End a prompt. If it is the current one, its questions end too, and the next prompt follows."""
        is_current = prompt is self.current
        prompt.state, prompt.result, prompt.ended_at = state, add_cost(result, prompt.spent_usd), now
        if is_current:
            self.questions = []
            self.worker, self.not_before = None, 0.0
            if self.wanted != "cancel":
                self.wanted = self.reason = None
            if self.current is not None:
                self.state = "queued"
            elif (last := self.prompts[-1]).state == "failed":  # which may have failed while it waited
                self.state, self.reason = "failed", self.reason or describe_failure(last.result)
            else:
                self.state = "idle"

    def fail(self, prompt: FleetPrompt, result: JSONMapping, now: float) -> None:
        """End a prompt that failed for good, and perhaps those behind it."""
        self.end(prompt, "failed", result, now)
        reason = describe_failure(result)
        if self.after_failure == "fail":
            failure = {"error": EARLIER_FAILED, "reason": f"prompt {prompt.number} failed: {reason}"}
            for behind in self.prompts:
                if behind.number > prompt.number and behind.ended_at is None:
                    self.end(behind, "failed", failure, now)
        if self.state == "failed" and self.wanted is None:
            self.reason = reason


def describe_failure(result: JSONMapping) -> str:
    """Return the error and the reason in a result, for people."""
    return ": ".join(part for part in (result.get("error"), result.get("reason")) if part)


def add_cost(result: JSONMapping, spent_usd: float) -> JSONObject:
    """Return the fields of a result with what earlier calls for the prompt have spent."""
    cost = spent_usd + (result.get("cost_usd") or 0.0)
    return {**result, "cost_usd": cost} if cost else dict(result)


def list_retried(prompts: Sequence[FleetPrompt]) -> list[FleetPrompt]:
    """Return the prompts of a failed session that `retry` sends again, last first."""
    found: list[FleetPrompt] = []
    for prompt in reversed(prompts):
        if prompt.state != "failed":
            break
        found.append(prompt)
        if prompt.result.get("error") != EARLIER_FAILED:
            break
    return found


def read_outcome(session: str, conversation: str, number: int, run: JSONMapping) -> FleetOutcome:
    """Return the record of a prompt, from the fields of `FleetPrompt`."""
    names = FleetOutcome.__dataclass_fields__
    result = {name: value for name, value in run["result"].items() if name in names and value is not None}
    given = {name: run[name] for name in ("state", "attempts", "crashes", "started_at", "ended_at") if name in run}
    fields = {"prompt_uuid": run.get("uuid", ""), **result, **given}
    return FleetOutcome(session_id=session, run=number, cli_session_id=conversation, **fields)
