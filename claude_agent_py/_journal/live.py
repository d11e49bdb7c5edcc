"""`LiveJournal`, the journal of a running session, and the views that observe it.

The session feeds its journal with the messages it reads, the prompts it sends, the requests it answers, and the events
of its tasks. Sessions that nobody observes have no journal.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from msgspec import Struct

from claude_agent_py._base.errors import OptionsError
from claude_agent_py._base.log import Drops
from claude_agent_py._journal.facts import Fact
from claude_agent_py._journal.fold import Journal
from claude_agent_py._journal.tasks.ledger import Ledger
from claude_agent_py._journal.turns import SentPrompt, Turns
from claude_agent_py._journal.views import View
from claude_agent_py.wire.control.frames import ControlRequest
from claude_agent_py.wire.messages.conversation import UserMessage
from claude_agent_py.wire.messages.occasional import HookStartedMessage

NOT_RETAINED: Final = "the session retains no facts; call journal(retain=...) first"


class OpenRequest(Struct, frozen=True):
    """A request of the CLI that waits for an answer, or a hook that the CLI runs itself."""

    frame: ControlRequest | HookStartedMessage
    at: float
    """When it arrived, in seconds since the epoch."""
    agent: str = ""
    """The child agent whose CLI sent it."""


class LiveJournal:
    """Folds a running session, once for all views, and shows them each fact.

    Never raises: a fact with which a view fails is logged and dropped for it.

    Args:
        ledger: The tasks of the session, whose events become facts. Without it, the journal has a ledger of its own.
        turns: The turns of the session. Without them, the journal has its own.
        tools: The names of its tools, if they are known.
        clock: Returns the time in seconds since the epoch.
    """

    def __init__(
        self,
        ledger: Ledger | None = None,
        turns: Turns | None = None,
        tools: Iterable[str] | None = None,
        *,
        clock: Callable[[], float],
    ) -> None:
        self.views: tuple[View, ...] = ()
        """Replaced, never mutated."""
        self._journal = Journal(ledger, turns, tools)
        self._clock = clock
        self._retained: deque[Fact] | None = None
        self._drops = Drops("an observer of the session")
        self.is_over: bool = False
        """Whether the session has ended. What is fed afterwards makes no facts."""

    @property
    def is_needed(self) -> bool:
        """Whether it has views, or retains facts."""
        return bool(self.views) or self._retained is not None

    def take_up(self, prompts: Iterable[SentPrompt], requests: Iterable[OpenRequest]) -> None:
        """Fold what is open from before the journal began. It begins with the tasks, the turn and the calls."""
        for prompt in prompts:
            self._journal.feed(prompt.message, prompt.at, sent=True)
        for request in requests:
            self._journal.feed(request.frame, request.at, agent=request.agent)

    def observe(self, view: View, after: int | None = None) -> None:
        """Add a view, which begins with what is open, or with the retained facts after a number.

        Raises:
            OptionsError: These facts are not retained.
        """
        facts = self._journal.open if after is None else self.facts_after(after)
        self.views = (*self.views, view)
        self._show(view, facts)

    def retain(self, count: int) -> None:
        """Keep the latest facts from now on; 0 stops."""
        self._retained = deque(self._retained or (), maxlen=count) if count else None

    def facts_after(self, number: int) -> list[Fact]:
        """Return the retained facts after the one with this number.

        Raises:
            OptionsError: A fact after it is not retained, or the journal has no such number.
        """
        last = self._journal.number
        if self._retained is None:
            raise OptionsError(NOT_RETAINED, option="after")
        first = self._retained[0].number if self._retained else last + 1
        if not first - 1 <= number <= last:
            problem = f"must be from {first - 1} to {last}, because the facts {first} to {last} are retained"
            raise OptionsError(problem, option="after")
        return [fact for fact in self._retained if fact.number > number]

    def remove(self, view: View) -> None:
        """Remove a view."""
        if view in self.views:
            self.views = tuple(other for other in self.views if other is not view)
            self._call(view.finish, self._clock())

    def feed(self, frame: object, *, sent: bool = False, agent: str = "") -> None:
        """Fold a frame, or a list of events of the ledger, whose records have the state of that moment.

        A frame of the CLI comes after the ledger got it, before the events that it caused. `agent` is the child agent
        whose CLI sent it.
        """
        if self.is_over:
            return
        if sent and isinstance(frame, UserMessage):
            for view in self.views:
                self._call(view.sent, frame)
        self._tell(self._journal.feed(frame, self._clock(), sent=sent, agent=agent))

    def end(self, error: str | None) -> None:
        """Note the end of the session; `error` is None if the client ended it."""
        self._tell(self._journal.end(self._clock(), error))
        self.is_over = True
        for view in self.views:
            self.remove(view)

    def _tell(self, facts: Sequence[Fact]) -> None:
        if facts:
            if self._retained is not None:
                self._retained.extend(facts)
            for view in self.views:
                self._show(view, facts)

    def _show(self, view: View, facts: Sequence[Fact]) -> None:
        """Show each fact on its own, so that one with which the view fails costs only itself."""
        for fact in facts:
            self._call(view.add, (fact,), fact)

    def _call(self, method: Callable[[Any], object], argument: object, item: object = None) -> None:
        try:
            method(argument)
        except Exception:
            self._drops.note(argument if item is None else item)
