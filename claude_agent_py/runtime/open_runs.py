"""The runs of a session that are not over: the way from a prompt to the engine, and from the engine to the run's feed.

Owns the feeds, by the numbers under which the router knows the runs. What a run means to its user is `prompting.py`'s
business.
"""

import itertools
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import anyio

from claude_agent_py.errors import ClaudeAgentError, OptionsError, RunTimeoutError
from claude_agent_py.protocol.engine import Engine
from claude_agent_py.protocol.events import Event, MessageReceived, RunEnded, RunWaits
from claude_agent_py.protocol.turns import RunLimits, Until
from claude_agent_py.runtime.feed import RunFeed
from claude_agent_py.wire.messages import UserMessage


class Driver(Protocol):
    """What drives the engine: the connection."""

    @property
    def is_open(self) -> bool:
        """Whether frames can be sent."""
        ...

    def check_open(self) -> None:
        """Raise where nothing can be sent."""
        ...

    def end_reason(self) -> ClaudeAgentError:
        """Say what ended that which was open, whatever became of the session after that."""
        ...

    def act(self, events: Iterable[Event]) -> None:
        """Act on what the engine reports, and have written what it wants to send."""
        ...

    def post(self, subtype: str, /, **fields: Any) -> None:
        """Send a control request whose reply nobody waits for; does nothing once the session is closed."""
        ...


class OpenRuns:
    """The open runs of one session."""

    def __init__(self, engine: Engine, driver: Driver, mailbox_bytes: int) -> None:
        self._engine = engine
        self._driver = driver
        self._mailbox_bytes = mailbox_bytes
        self._feeds: dict[int, RunFeed] = {}
        self._numbers = itertools.count(1)

    # From the prompt to the engine -------------------------------------------------------------------------------

    def open(self, until: Until, limits: RunLimits) -> RunFeed:
        """Begin a run; `send_prompt` and `seal` follow.

        Raises:
            ConnectionClosedError: The session is not open.
            CLIExitError: The CLI has ended.
        """
        self._driver.check_open()
        run_id = next(self._numbers)
        feed = self._feeds[run_id] = RunFeed(run_id, self._mailbox_bytes)
        self._engine.open_run(run_id, until, limits, anyio.current_time())
        return feed

    def send_prompt(self, feed: RunFeed, prompt: UserMessage) -> None:
        """Send a prompt of a run; returns before it is written.

        Raises:
            OptionsError: The prompt is no JSON. The run is over then.
        """
        self._driver.check_open()
        try:
            is_sent = self._engine.send_prompt(feed.run_id, prompt, anyio.current_time())
        except (ValueError, TypeError) as error:
            failure = OptionsError(f"it is no JSON: {error}", option="prompt")
            self.fail(feed, lambda: failure)
            raise failure from error
        if is_sent:
            feed.prompts.append(prompt.uuid)
            self._driver.act(())

    def seal(self, feed: RunFeed) -> None:
        """Say that the run has all its prompts."""
        self._driver.act(self._engine.seal_run(feed.run_id, anyio.current_time()))

    def fail(self, feed: RunFeed, failure: Callable[[], BaseException]) -> None:
        """End a run from this side (its prompts could not be had, say)."""
        self._feeds.pop(feed.run_id, None)
        feed.tasks = self.tasks_of(feed)
        self._engine.drop_run(feed.run_id)
        feed.close(None, failure)

    def fail_turn(self, failure: Callable[[], BaseException]) -> None:
        """End the runs whose prompts the CLI is at work on, and stop the work: it leads nowhere."""
        for run_id in self._engine.turns.turn_runs:
            feed = self._feeds.get(run_id)
            if feed is not None:
                self.fail(feed, failure)
                self._stop_work(feed, was_in_turn=True)

    # From the engine to the feed ---------------------------------------------------------------------------------

    def put(self, event: MessageReceived) -> None:
        """Give a message to the runs that it belongs to."""
        for run_id in event.runs:
            feed = self._feeds.get(run_id)
            if feed is not None:
                feed.put(event.message, event.size, event.line)

    def on_ended(self, event: RunEnded) -> None:
        """A run is over, by what the CLI said or by the time it took."""
        end = event.end
        feed = self._feeds.pop(end.run_id, None)
        if feed is None:
            return
        feed.tasks, feed.late_tasks = end.tasks, end.late_tasks
        if end.reason == "timeout":
            kind, limit = end.kind or "run", end.limit or 0.0
            feed.close(end, lambda: RunTimeoutError(kind, limit))
            self._stop_work(feed, was_in_turn=end.was_in_turn)
        else:
            feed.close(end, self._driver.end_reason if end.reason == "closed" else None)
        if end.late_tasks:
            feed.on_late(feed)

    def on_waits(self, event: RunWaits) -> None:
        """A run has been waiting for tasks for long."""
        feed = self._feeds.get(event.run_id)
        if feed is not None:
            feed.on_wait(feed, event.seconds)

    def end_all(self) -> None:
        """Nothing more will come."""
        for feed in self._feeds.values():
            feed.close(None, self._driver.end_reason)
        self._feeds.clear()

    def _stop_work(self, feed: RunFeed, *, was_in_turn: bool) -> None:
        """Stop the work on a run that nobody waits for any more; not a turn that others have a part in.

        All of it is sent now, without waiting for replies: an interrupt names no prompt, so it must not come after the
        one that is sent next.
        """
        for prompt in feed.prompts:
            self._driver.post("cancel_async_message", message_uuid=prompt)
        if was_in_turn and not self._engine.turns.turn_runs:
            self._driver.post("interrupt")

    # Looking -----------------------------------------------------------------------------------------------------

    def tasks_of(self, feed: RunFeed) -> frozenset[str]:
        """Give the ids of the tasks that belong to a run."""
        return feed.tasks if feed.is_over else self._engine.turns.tasks_of(feed.run_id)

    def waits_for_idle(self, feed: RunFeed) -> bool:
        """Tell whether a run has all its answers and only waits for the session to be idle."""
        return self._engine.turns.waits_for_idle(feed.run_id)

    def queued_prompts(self, feed: RunFeed) -> tuple[str, ...]:
        """Give the prompts of a run that the CLI has not started on, as far as it said."""
        return self._engine.turns.queued_prompts(feed.run_id)
