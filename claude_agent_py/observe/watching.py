"""`Watch`: folds a session while it runs. The session tells its observers what it reads, sends, asks and answers."""

import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, Self

from claude_agent_py.observe.collecting import MAX_SPANS, SpanLog
from claude_agent_py.observe.fold import FOLDED, MAX_CHARS, SpanFold
from claude_agent_py.observe.spans import Span
from claude_agent_py.observe.timeline import Timeline
from claude_agent_py.wire.messages.conversation import ResultMessage, UserMessage
from claude_agent_py.wire.messages.stream import StreamEventMessage

logger: logging.Logger = logging.getLogger("claude_agent_py")


class Observed(Protocol):
    """A session, as its observers use it."""

    observers: tuple[Any, ...]


class Watchable(Protocol):
    """A client, as `watch` uses it."""

    @property
    def session(self) -> Any:
        """Its session, which is `Observed`: pyright does not see what a `cached_property` returns."""
        ...


class Observer:
    """Folds one session as it runs, a little later: what happens is noted with its time, and folded by `catch_up`.

    So it delays nobody who waits for messages. Never raises: after a failure, which is logged, it sees nothing more.
    """

    def __init__(self, fold: SpanFold, clock: Callable[[], float] = time.time) -> None:
        self._fold = fold
        self._clock = clock
        self._is_over = False
        self.limit: int = 1000
        """How many events are noted before they are folded at once."""
        self._noted: list[tuple[Callable[[float], object], float]] = []

    def message(self, message: Any) -> None:
        """Take a message. What a turn did is folded when its result arrives."""
        kind = type(message)
        if (type(message.event) if kind is StreamEventMessage else kind) in FOLDED:
            self._note(partial(self._fold.feed, message))
            if kind is ResultMessage:
                self.catch_up()

    def sent(self, prompt: UserMessage) -> None:
        """Take a prompt that is sent."""
        self._note(partial(self._fold.sent, prompt))

    def asked(self, request_id: str, request: Any, agent: str = "") -> None:
        """Take a question of the CLI; `agent` is the child agent whose CLI asks."""
        self._note(lambda at: self._fold.asked(request_id, request, at, agent=agent))

    def answered(self, request_id: str, reply: Any, failed: bool = False) -> None:
        """Take the answer; None if the question was withdrawn, or its answering failed."""
        self._note(lambda at: self._fold.answered(request_id, reply, at, failed=failed))

    def ended(self) -> None:
        """Note that the session is over."""
        self._note(self._fold.finish)
        self.catch_up()
        self._is_over = True

    def _note(self, step: Callable[[float], object]) -> None:
        if not self._is_over:
            self._noted.append((step, self._clock()))
            if len(self._noted) >= self.limit:
                self.catch_up()

    @property
    def is_behind(self) -> bool:
        """Whether something is noted and not folded yet."""
        return bool(self._noted)

    def catch_up(self) -> None:
        """Fold what is noted."""
        noted, self._noted = self._noted, []
        try:
            for step, at in noted:
                step(at)
        except Exception:
            self._is_over = True
            logger.exception("an observer of the session failed and sees no more of it")


class Watch:
    """The spans of a running session, from now on. Made by `watch`; `close` ends it, as does the end of the session."""

    def __init__(self, session: Observed, *, max_spans: int = MAX_SPANS, max_chars: int = MAX_CHARS) -> None:
        self._session = session
        self._log = SpanLog(max_spans)
        self._fold = SpanFold(self._log.add, max_chars=max_chars)
        self._observer = Observer(self._fold)
        session.observers = (*session.observers, self._observer)

    @property
    def spans(self) -> list[Span]:
        """The spans that are over, by their starts."""
        self._observer.catch_up()
        return self._log.spans

    def timeline(self, title: str = "session") -> Timeline:
        """Return the timeline so far, without the work that is not over unless the watch is closed."""
        self._observer.catch_up()
        return Timeline(self._log, title=title, source="live")

    def close(self) -> None:
        """Stop watching. What is not over gets spans without an end."""
        self._session.observers = tuple(one for one in self._session.observers if one is not self._observer)
        self._observer.ended()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def watch(client: Watchable, *, max_spans: int = MAX_SPANS, max_chars: int = MAX_CHARS) -> Watch:
    """Fold what a connected client does from now on into spans: hooks, questions and all times included.

    Args:
        client: The client. After `Client.reopen`, watch it again.
        max_spans: How many spans are kept; the shortest are left out first, and counted in the summary.
        max_chars: How much of each text a span keeps, in characters.
    """
    return Watch(client.session, max_spans=max_spans, max_chars=max_chars)
