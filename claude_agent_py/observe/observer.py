"""`Observer` and `Watch`: build spans while a session runs.

The session notifies its observers of the messages it reads, the prompts it sends, and the requests it answers.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, Self

from claude_agent_py._log import logger
from claude_agent_py.observe.fold import FOLDED_TYPES, MAX_CHARS, SpanFold
from claude_agent_py.observe.spans import MAX_SPANS, Span, SpanLog
from claude_agent_py.observe.timeline import Timeline
from claude_agent_py.wire.messages.conversation import ResultMessage, UserMessage
from claude_agent_py.wire.messages.stream import StreamEventMessage


class Watchable(Protocol):
    """The client interface that `watch` uses."""

    @property
    def session(self) -> Any:
        """Its session. The type is Any because pyright cannot infer the type of a `cached_property`."""
        ...


class Observer:
    """Feeds the events of a running session to a fold. Events are queued with their times and processed by `catch_up`.

    The queue keeps folding out of the way of readers that wait for messages. Never raises: a failure is logged, and
    later events are ignored.
    """

    def __init__(self, fold: SpanFold, clock: Callable[[], float] = time.time) -> None:
        self._fold = fold
        self._clock = clock
        self._is_closed = False
        self.limit: int = 1000
        """The length of the queue at which it is processed immediately."""
        self._pending: list[tuple[Callable[[float], object], float]] = []

    def message(self, message: Any) -> None:
        """Record a message. The queue is processed when the result of a turn arrives."""
        kind = type(message)
        folded_type = type(message.event) if kind is StreamEventMessage else kind
        if folded_type in FOLDED_TYPES:
            self._enqueue(partial(self._fold.feed, message))
            if kind is ResultMessage:
                self.catch_up()

    def sent(self, prompt: UserMessage) -> None:
        """Record a prompt that is sent."""
        self._enqueue(partial(self._fold.sent, prompt))

    def asked(self, request_id: str, request: Any, agent: str = "") -> None:
        """Record a request of the CLI; `agent` is the child agent whose CLI sent it."""
        self._enqueue(lambda at: self._fold.asked(request_id, request, at, agent=agent))

    def answered(self, request_id: str, reply: Any, failed: bool = False) -> None:
        """Record the reply; None if the request was withdrawn or its handler failed."""
        self._enqueue(lambda at: self._fold.answered(request_id, reply, at, failed=failed))

    def ended(self) -> None:
        """Record the end of the session."""
        self._enqueue(self._fold.finish)
        self.catch_up()
        self._is_closed = True

    def _enqueue(self, step: Callable[[float], object]) -> None:
        if not self._is_closed:
            self._pending.append((step, self._clock()))
            if len(self._pending) >= self.limit:
                self.catch_up()

    @property
    def is_behind(self) -> bool:
        """Whether events are queued."""
        return bool(self._pending)

    def catch_up(self) -> None:
        """Process the queued events."""
        pending, self._pending = self._pending, []
        try:
            for step, at in pending:
                step(at)
        except Exception:
            self._is_closed = True
            logger.exception("an observer of the session failed and ignores further events")


class Watch:
    """The spans of a running session, from now on. Created by `watch`; ended by `close` or with the session."""

    def __init__(self, session: Any, *, max_spans: int = MAX_SPANS, max_chars: int = MAX_CHARS) -> None:
        self._session = session
        self._log = SpanLog(max_spans)
        self._fold = SpanFold(self._log.add, max_chars=max_chars)
        self._observer = Observer(self._fold)
        session.observers = (*session.observers, self._observer)

    @property
    def spans(self) -> list[Span]:
        """The spans that have ended, ordered by start time."""
        self._observer.catch_up()
        return self._log.spans

    def timeline(self, title: str = "session") -> Timeline:
        """Return the timeline so far. Unfinished work is included only after `close`."""
        self._observer.catch_up()
        return Timeline(self._log, title=title, source="live")

    def close(self) -> None:
        """Stop watching. Unfinished work is reported as spans without an end."""
        self._session.observers = tuple(other for other in self._session.observers if other is not self._observer)
        self._observer.ended()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def watch(client: Watchable, *, max_spans: int = MAX_SPANS, max_chars: int = MAX_CHARS) -> Watch:
    """Record spans of a connected client from now on, including hooks, requests to the user and exact times.

    Args:
        client: The client. After `Client.reopen`, watch it again.
        max_spans: The maximum number of spans. The shortest are left out first, but counted in the summary.
        max_chars: The limit for each text of a span, in characters.
    """
    return Watch(client.session, max_spans=max_spans, max_chars=max_chars)
