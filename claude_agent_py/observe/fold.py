"""`SpanFold`: builds spans from the messages of a session and the requests that the CLI sends to the client.

It does no I/O and has no clock. The time of a message is its own timestamp (messages of the user and the model have
one), otherwise the time of arrival passed to `feed`, otherwise the time of the message before it. The handlers are in
`reducers`. See also `sources`, which feeds it recordings, transcripts and stored sessions.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from claude_agent_py.observe.open_spans import State
from claude_agent_py.observe.reducers import calls, questions, tasks, turns
from claude_agent_py.observe.spans import MAIN, Span, SpanStatus
from claude_agent_py.wire.messages.conversation import UserMessage
from claude_agent_py.wire.messages.stream import MessageDeltaEvent, StreamEventMessage
from claude_agent_py.wire.messages.tasks import TaskUsage
from claude_agent_py.wire.timestamps import seconds

MAX_CHARS: Final = 2000
"""The default limit for each text of a span (prompts, inputs, outputs), in characters."""
_HANDLERS: Final = {**turns.HANDLERS, **calls.HANDLERS, **tasks.HANDLERS, **questions.HANDLERS}
FOLDED_TYPES: Final = frozenset({*_HANDLERS, MessageDeltaEvent}) - {StreamEventMessage}
"""The types of messages, and of the events in partial messages, that affect spans."""


class SpanFold:
    """Builds the spans of one session.

    Args:
        on_end: Called with each span as it ends. `finish` reports the spans that are still open.
        max_chars: The limit for each text of a span, in characters; 0 keeps no text.
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
        """Return a snapshot of an open span, or None."""
        state = self._state
        call = state.calls.get(span_id or "")
        others = (state.run, state.turn, *state.tasks.values())
        found = call or next((span for span in others if span is not None and span.id == span_id), None)
        return None if found is None else found.to_span()

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
        """Record a prompt that was sent. Its run begins with the turn that answers it."""
        when = self._state.advance(seconds(prompt.timestamp) or at)
        self._state.sent[prompt.uuid or f"#{len(self._state.sent)}"] = (prompt, when)

    def asked(self, request_id: str, request: Any, at: float | None = None, *, agent: str = MAIN) -> None:
        """Record a request of the CLI to the client: a hook, a permission prompt, an elicitation or a dialog."""
        questions.open_request(self._state, request_id, request, at, agent=agent)

    def answered(self, request_id: str, reply: Any = None, at: float | None = None, *, failed: bool = False) -> None:
        """Record the reply to a request. `reply` is its payload; None if the request was withdrawn or failed."""
        questions.close_request(self._state, request_id, reply, at, failed=failed)

    def begin_turn(self, prompts: Sequence[str] = (), at: float | None = None, *, causes: Sequence[str] = ()) -> None:
        """Begin a turn for these prompts, by uuid. Without prompts, the turn was caused by tasks that ended."""
        turns.begin_turn(self._state, prompts, at, causes=causes)

    def end_turn(self, at: float | None = None, status: SpanStatus = "ok") -> None:
        """End the turn, if one is open."""
        turns.end_turn(self._state, at, status)

    def begin_task(self, task_id: str, task_type: str | None, at: float, **known: Any) -> None:
        """Begin a task. See `reducers.tasks.begin_task`."""
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
        """End the session: report the open spans, with the status `running`."""
        state = self._state
        state.advance(at)
        for agent in list(state.conversations):
            state.end_model(agent)
        for span in [*state.requests.values(), *state.calls.values(), *state.tasks.values()]:
            state.finish(span)
        if state.turn is not None:
            state.finish(state.turn)
        if state.run is not None:
            turns.finish_run(state, state.run)
        state.run = state.turn = None
        for table in (state.requests, state.calls, state.tasks):
            table.clear()
