"""`State`: what is open in a session: its run, turn, answers, calls, tasks and questions; with its time and its ids."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from claude_agent_py.observe.drafts import Draft, Seen, Texts
from claude_agent_py.observe.spans import MAIN, Span, SpanStatus, Tokens
from claude_agent_py.tools.traffic import ToolTraffic
from claude_agent_py.wire.messages.conversation import UserMessage
from claude_agent_py.wire.messages.tasks import TaskStartedMessage

_END_OF_TIME: Final = 1e11
"""Seconds since the epoch. A recording may hold any number."""


@dataclass(slots=True)
class Conversation:
    """The main agent's conversation, or that of one subagent."""

    asked_at: float | None = None
    """When the model got its latest input: a prompt or a result."""
    model: Draft | None = None
    """The API message that is arriving."""


class State:
    """The state of a fold. See `SpanFold` for the arguments."""

    def __init__(self, on_end: Callable[[Span], object], max_chars: int) -> None:
        self.session_id: str = ""
        self.texts: Texts = Texts(max_chars)
        self.now: float = 0.0
        """The latest time seen, in seconds since the epoch."""
        self.is_dated: bool = False
        """Whether any message had a time yet."""
        self.run: Draft | None = None
        self.runs: int = 0
        self.turns: int = 0
        """The turns of the run that are reported."""
        self.turn: Draft | None = None
        self.flaw: SpanStatus | None = None
        """What went wrong in the turn, by its messages."""
        self.spent: dict[str, tuple[Tokens, float]] = {}
        """What turns without an answer of the model cost: subagents that ended before them. The next one has it."""
        self.sent: dict[str, tuple[UserMessage, float]] = {}
        self.started: list[str] = []
        """The prompts that the CLI has taken up since the last turn began."""
        self.talks: dict[str, Conversation] = {}
        self.traffic: ToolTraffic = ToolTraffic()
        self.calls: dict[str, Draft] = {}
        self.tasks: dict[str, Draft] = {}
        self.foreground: dict[str, TaskStartedMessage] = {}
        """Shells that their calls wait for: no spans unless they move to the background."""
        self.asked: dict[str, Draft] = {}
        self.task_of_run: dict[str, str] = {}
        self.times_of_task: dict[str, int] = {}
        self.known: Seen = Seen()
        self._on_end = on_end

    def time(self, at: float | None) -> float:
        """Return a time, or the latest one if it is unknown or cannot be a time."""
        if at is None or not 0 <= at < _END_OF_TIME:
            return self.now
        if not self.is_dated:
            self._date(at)
        self.now = max(self.now, at)
        return at

    def _date(self, at: float) -> None:
        """Let what came before the first time that is known begin then."""
        self.is_dated = True
        self.sent = {key: (prompt, at) for key, (prompt, _) in self.sent.items()}
        for draft in (self.run, self.turn, *self.asked.values(), *self.tasks.values()):
            if draft is not None:
                draft.start = at
        for talk in self.talks.values():
            talk.asked_at = at

    def finish(self, draft: Draft) -> None:
        """Report a span under an id that no other has."""
        draft.id = self.known.add(draft.id)
        self._on_end(draft.span())

    def owner(self, agent: str) -> str | None:
        """Return the span that the work of an agent is a part of."""
        if agent != MAIN:
            task = self.tasks.get(agent)
            return agent if task is None else task.id
        return self.turn.id if self.turn is not None else None

    def talk(self, agent: str) -> Conversation:
        """Return the conversation of an agent."""
        talk = self.talks.get(agent)
        if talk is None:
            talk = self.talks[agent] = Conversation()
        return talk

    def end_model(self, agent: str) -> None:
        """End the API message of an agent, if one is arriving."""
        talk = self.talks.get(agent)
        if talk is None or talk.model is None:
            return
        model, talk.model = talk.model, None
        model.attributes.pop("message_id", None)
        model.attributes["output"] = self.texts.of(model.attributes.get("output"))
        if not model.attributes["calls"]:
            del model.attributes["calls"]
        if model.attributes.get("stop_reason") is None and not model.attributes.pop("is_counted", False):
            model.attributes["output_tokens_so_far"] = True
        self.finish(model)
