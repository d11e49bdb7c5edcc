"""The outcomes of `run_turn`, to match on and to store as JSON."""

from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias

from claude_agent_py._base.json_object import JSONMapping, JSONObject
from claude_agent_py.permissions import QuestionRecord

OutcomeKind: TypeAlias = Literal["done", "failed", "interrupted", "waiting", "later", "lost"]


@dataclass(frozen=True, kw_only=True)
class TurnOutcome:
    """The outcome of one call of `run_turn`: `Done`, `Failed`, `Interrupted`, `Waiting`, `Later` or `Lost`."""

    kind: ClassVar[OutcomeKind]

    def to_dict(self) -> JSONObject:
        """Return the outcome as JSON, with its `kind`."""
        return {"kind": self.kind, **asdict(self)}

    @staticmethod
    def from_dict(data: JSONMapping) -> "TurnOutcome":
        """Return the outcome in a result of `to_dict`. Raises KeyError for an unknown kind."""
        fields = dict(data)
        made = _BY_KIND[fields.pop("kind")]
        if made is Waiting:
            fields["questions"] = tuple(map(QuestionRecord.from_dict, fields["questions"]))
        outcome: TurnOutcome = made(**fields)
        return outcome


@dataclass(frozen=True, kw_only=True)
class _Ended(TurnOutcome):
    """The turn has ended, and the store has all of it."""

    text: str = ""
    """The last answer that is not empty."""
    output: Any = None
    """The structured output as JSON."""
    num_turns: int | None = None
    """The number of turns as the CLI counts them; None if unknown."""
    cost_usd: float | None = None
    """The cost of this call in US dollars; None if unknown. Earlier calls have returned that of theirs."""
    usage: JSONObject | None = None
    """The token usage of the main agent; None if unknown."""
    prompt_uuid: str = ""
    """The uuid under which the prompt is in the conversation."""


@dataclass(frozen=True, kw_only=True)
class Done(_Ended):
    """The prompt is answered."""

    kind: ClassVar[OutcomeKind] = "done"
    is_recovered: bool = False
    """Whether an earlier call ran the turn, and its answer was read from the store. Cost and usage are then unknown."""


@dataclass(frozen=True, kw_only=True)
class Failed(_Ended):
    """The prompt failed for good."""

    kind: ClassVar[OutcomeKind] = "failed"
    error: str
    """The name of the error's class."""
    reason: str
    """The text of the error."""


@dataclass(frozen=True, kw_only=True)
class Interrupted(_Ended):
    """The turn was interrupted, by the engine or by a person."""

    kind: ClassVar[OutcomeKind] = "interrupted"


@dataclass(frozen=True, kw_only=True)
class Waiting(TurnOutcome):
    """Questions wait for a person, and no process runs. Call `run_turn` again once they are answered."""

    kind: ClassVar[OutcomeKind] = "waiting"
    questions: tuple[QuestionRecord, ...]
    """The questions that were not answered."""
    cost_usd: float = field(default=0.0, compare=False)
    """The cost of this call in US dollars."""


@dataclass(frozen=True, kw_only=True)
class Later(TurnOutcome):
    """The turn has not ended. Call `run_turn` again."""

    kind: ClassVar[OutcomeKind] = "later"
    pause: float
    """Seconds to wait first."""
    is_attempt: bool
    """Whether this was an attempt that failed: pass a higher `attempt` next time. An outage, a rate limit, a lease of
    another process and a release are none."""
    reason: str
    cost_usd: float = 0.0
    """The cost of this call in US dollars."""


@dataclass(frozen=True, kw_only=True)
class Lost(TurnOutcome):
    """A later call runs the turn, or the engine abandoned this one. Record nothing."""

    kind: ClassVar[OutcomeKind] = "lost"
    reason: str


_BY_KIND: dict[str, type[Any]] = {made.kind: made for made in (Done, Failed, Interrupted, Waiting, Later, Lost)}
