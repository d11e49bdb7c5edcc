"""`Watch`, the spans of a running session, and `FactStream`, its facts."""

from collections.abc import Sequence
from typing import Any, Protocol, Self

from claude_agent_py._base.checks import check_count
from claude_agent_py._base.errors import OptionsError
from claude_agent_py._base.streams import Stream
from claude_agent_py._journal.facts import Fact
from claude_agent_py._journal.live import NOT_RETAINED
from claude_agent_py._journal.views import View
from claude_agent_py.observe.fold import MAX_CHARS, SpanFold
from claude_agent_py.observe.spans import MAX_SPANS, Span, SpanLog
from claude_agent_py.observe.timeline import Timeline
from claude_agent_py.tasks.listeners import has_room


class Watchable(Protocol):
    """The client interface that `watch` uses."""

    @property
    def session(self) -> Any:
        """Its session. The type is Any because pyright cannot infer the type of a `cached_property`."""
        ...


class Watch:
    """The spans of a running session, from now on. Created by `watch`; ended by `close` or with the session."""

    def __init__(self, session: Any, *, max_spans: int = MAX_SPANS, max_chars: int = MAX_CHARS) -> None:
        self._session = session
        secrets = session.find_secrets()
        self._log = SpanLog(max_spans)
        self._fold = SpanFold(self._log.add, max_chars=max_chars, on_correction=self._log.revise, secrets=secrets)
        session.observe(self._fold)

    @property
    def spans(self) -> list[Span]:
        """The spans that have ended, ordered by start time."""
        return self._log.spans

    def timeline(self, title: str = "session") -> Timeline:
        """Return the timeline so far. Unfinished work is included only after `close`."""
        return Timeline(self._log, title=title, source="live")

    def close(self) -> None:
        """Stop watching. Unfinished work is reported as spans without an end."""
        self._session.release(self._fold)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class FactStream(Stream[Fact], View):
    """The facts of a running session. Created by `Client.journal`; ended by `close` or with the session."""

    def __init__(self, session: Any, *, after: int | None = None, retain: int | None = None) -> None:
        super().__init__()
        self._session = session
        for value, option in ((after, "after"), (retain, "retain")):
            if value is not None:
                check_count(value, option, 0)
        if session.stream_over.is_set():
            if after is not None:
                if session.journal is None:
                    raise OptionsError(NOT_RETAINED, option="after")
                self.add(session.journal.facts_after(after))
            super().close()
            return
        if retain is not None:
            session.open_journal().retain(retain)
        try:
            session.observe(self, after)
        except OptionsError:
            self.close()
            raise

    def add(self, facts: Sequence[Fact]) -> None:
        """Add facts."""
        for fact in facts:
            self.put(fact)

    def finish(self, at: float | None = None) -> None:
        """End the stream."""
        super().close()

    def close(self) -> None:
        """Stop observing, and end the stream after the facts that wait."""
        self._session.release(self)


class _FactsAmongMessages(View):
    """Puts the facts of a session into the mailbox of a reader, each after the message that it is from."""

    def __init__(self, session: Any, mailbox: Any) -> None:
        self._session = session
        self._mailbox = mailbox

    def add(self, facts: Sequence[Fact]) -> None:
        """Put facts into the mailbox, until its reader is gone."""
        if self._mailbox.is_closed:
            self._session.release(self)
        for fact in facts:
            self._mailbox.latest_fact = fact.number
            if has_room(fact, len(self._mailbox)):
                self._mailbox.put(fact)


def put_facts(session: Any, mailbox: Any) -> None:
    """Put the facts of a session into the mailbox of a reader from now on, among its messages."""
    if not session.stream_over.is_set():
        session.observe(_FactsAmongMessages(session, mailbox))


def watch(client: Watchable, *, max_spans: int = MAX_SPANS, max_chars: int = MAX_CHARS) -> Watch:
    """Record spans of a connected client from now on, including hooks, requests to the user and exact times.

    Args:
        client: The client. After `Client.reopen`, watch it again.
        max_spans: The maximum number of spans. The shortest are left out first, but counted in the summary.
        max_chars: The limit for each text of a span, in characters.
    """
    return Watch(client.session, max_spans=max_spans, max_chars=max_chars)
