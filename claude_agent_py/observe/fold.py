"""`SpanFold`: from the messages of a session, and the questions that the CLI asks this side, to spans.

Pure: it does no I/O and has no clock. A message has the CLI's time if it carries one (those of the user and the model
do), otherwise the time of arrival that `feed` is told, otherwise that of the message before it. The parts are in
`folding`. Twin: `sources`, which feeds it what a recording, a transcript or a store holds.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from claude_agent_py.observe.folding import calls, questions, tasks, turns
from claude_agent_py.observe.folding.state import State
from claude_agent_py.observe.spans import MAIN, Span, SpanStatus
from claude_agent_py.wire.messages.conversation import UserMessage
from claude_agent_py.wire.messages.stream import MessageDeltaEvent, StreamEventMessage
from claude_agent_py.wire.messages.tasks import TaskUsage
from claude_agent_py.wire.timestamps import seconds

MAX_CHARS: Final = 2000
"""How much of each text (prompts, inputs, outputs) a span keeps, by default."""
_HANDLERS: Final = {**turns.HANDLERS, **calls.HANDLERS, **tasks.HANDLERS, **questions.HANDLERS}
FOLDED: Final = frozenset({*_HANDLERS, MessageDeltaEvent}) - {StreamEventMessage}
"""The types of messages that matter, and of events of partial messages."""


class SpanFold:
    """Folds what happens in one session into spans.

    Args:
        on_end: Called with each span when it is over, in that order; those that never end, in `finish`.
        max_chars: How much of each text the spans keep, in characters; 0 keeps none.
    """

    def __init__(self, on_end: Callable[[Span], object], *, max_chars: int = MAX_CHARS) -> None:
        self._state = State(on_end, max_chars)

    @property
    def session_id(self) -> str:
        """The id of the session; empty before the first turn."""
        return self._state.session_id

    @property
    def now(self) -> float:
        """The latest time seen, in seconds since the epoch."""
        return self._state.now

    def open(self, span_id: str | None) -> Span | None:
        """Return a span that is not over, as it is now, or None."""
        state = self._state
        call = state.calls.get(span_id or "")
        others = (state.run, state.turn, *state.tasks.values())
        found = call or next((draft for draft in others if draft is not None and draft.id == span_id), None)
        return None if found is None else found.span()

    @property
    def turn_id(self) -> str | None:
        """The id of the turn, if one is open."""
        return self._state.turn.id if self._state.turn is not None else None

    def feed(self, message: Any, at: float | None = None) -> None:
        """Fold a message of any kind.

        Args:
            message: A message of the wire, or a `HookRun`. Others are ignored.
            at: When it arrived, in seconds since the epoch; None if unknown.
        """
        handler = _HANDLERS.get(type(message))
        if handler is not None:
            handler(self._state, message, at)

    def sent(self, prompt: UserMessage, at: float | None = None) -> None:
        """Note a prompt that was sent. Its run begins with the turn that takes it up."""
        when = self._state.time(seconds(prompt.timestamp) or at)
        self._state.sent[prompt.uuid or f"#{len(self._state.sent)}"] = (prompt, when)

    def asked(self, request_id: str, request: Any, at: float | None = None, *, agent: str = MAIN) -> None:
        """Note a question of the CLI to this side: a hook, a permission prompt, an elicitation, a dialog."""
        questions.ask(self._state, request_id, request, at, agent=agent)

    def answered(self, request_id: str, reply: Any = None, at: float | None = None, *, failed: bool = False) -> None:
        """Note the answer to a question. `reply` is its payload; None if it was withdrawn, or failed."""
        questions.answer(self._state, request_id, reply, at, failed=failed)

    def begin_turn(self, prompts: Sequence[str] = (), at: float | None = None, *, causes: Sequence[str] = ()) -> None:
        """Begin a turn with these prompts, by uuid; without any, one that the ends of tasks caused."""
        turns.begin_turn(self._state, prompts, at, causes=causes)

    def end_turn(self, at: float | None = None, status: SpanStatus = "ok") -> None:
        """End the turn, if one is open."""
        turns.end_turn(self._state, at, status)

    def begin_task(self, task_id: str, task_type: str | None, at: float, **known: Any) -> None:
        """Begin a task. See `folding.tasks.begin_task`."""
        tasks.begin_task(self._state, task_id, task_type, at, **known)

    def end_task(
        self,
        task_id: str,
        at: float | None,
        status: SpanStatus,
        report: str | None = None,
        *,
        usage: TaskUsage | None = None,
    ) -> None:
        """End a task."""
        tasks.end_task(self._state, task_id, at, status, report, usage=usage)

    def finish(self, at: float | None = None) -> None:
        """End the fold: report the spans that are still open. What has no end is `running`."""
        state = self._state
        state.time(at)
        for agent in list(state.talks):
            state.end_model(agent)
        for draft in [*state.asked.values(), *state.calls.values(), *state.tasks.values()]:
            state.finish(draft)
        if state.turn is not None:
            state.finish(state.turn)
        if state.run is not None:
            turns.finish_run(state, state.run)
        state.run = state.turn = None
        for table in (state.asked, state.calls, state.tasks):
            table.clear()
