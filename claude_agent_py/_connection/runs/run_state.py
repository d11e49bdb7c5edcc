"""`RunState`: the session's view of a run. `run.py` is the user's view."""

from collections.abc import Callable
from typing import Any, Final

import anyio

from claude_agent_py._base.errors import StoreError
from claude_agent_py._base.streams import LazyEvent
from claude_agent_py._connection.runs.mailbox import Mailbox
from claude_agent_py._journal.open_runs import EndReason, OpenRun, RunEnded, Until
from claude_agent_py.wire.messages.conversation import ResultMessage, UserMessage

NEVER_AWAITED: Final = (
    "client.query(...) was never awaited, so its answer was lost, and so is its error if it failed: await the run, or "
    "iterate over it"
)


class RunState(OpenRun):
    """What a session knows of a run: its prompts, its messages, its results and its end.

    Args:
        mailbox_bytes: How many bytes of its messages may wait in memory.
        until: When the run ends.
        timeout: Seconds for the whole run; None means `Timeouts.run`.
    """

    def __init__(self, mailbox_bytes: int, until: Until = "result", timeout: float | None = None) -> None:
        super().__init__(until)
        self.timeout = timeout
        self.mailbox: Mailbox = Mailbox(mailbox_bytes)
        self.is_resumed = False
        """Whether it is the turn of an earlier process, which `Client.resumed_run` may ask for at any time."""
        self.was_entered = False
        """Whether the program interrupted it or entered `async with run`."""
        self.session: Any = None
        """The session that the run is in, which `reopen` replaces; None before the run has started."""
        self.sent: list[UserMessage] = []
        """The prompts, in the order sent."""
        self.joined: set[str] = set()
        """Prompts, mostly of other runs, whose turns prompts of this one joined in an earlier process. The CLI names
        only these in the result of the resumed turn."""
        self.sent_at: dict[str, float] = {}
        """When they were sent, by the clock of the event loop, and by their uuids."""
        self.ended_at: float | None = None
        """When the process ended that it was cut off with, in seconds since the epoch."""
        self.results: list[ResultMessage] = []
        self.store_errors: list[StoreError] = []
        """The errors of turns that the session store lacks a part of."""
        self.sending: anyio.CancelScope | None = None
        """The scope of the worker that sends an async iterable of prompts; cancelled when the run ends."""
        self.reason: EndReason | None = None
        """Why the run ended; None if it has not, or if the client ended it."""
        self.late_tasks: frozenset[str] = frozenset()
        """The ids of the tasks that were running when `Timeouts.idle` expired."""
        self.pending_servers: tuple[str, ...] = ()
        """The MCP servers that had not connected when a time limit expired before the first message."""
        self.failure: Callable[[], BaseException] | None = None
        """Makes the error of a run that did not complete, anew for each waiter."""
        self._over = LazyEvent()

    def finish(self, end: RunEnded | None = None, failure: Callable[[], BaseException] | None = None) -> None:
        """End the run. Only the first call has an effect."""
        if self.is_over:
            return
        self.failure = failure
        if end is not None:  # not kept: it refers to this run
            self.reason, self.late_tasks = end.reason, end.late_tasks
        self.mailbox.close()
        if self.sending is not None:
            self.sending.cancel()
        self._over.set()

    def stop_sending(self) -> None:
        """Send no more prompts of an async iterable."""
        self.is_sealed = True
        if self.sending is not None:
            self.sending.cancel()

    @property
    def is_forgotten(self) -> bool:
        """Whether it was sent, and the program has neither awaited nor iterated nor ended it."""
        return self.session is not None and self.mailbox.is_unread and not (self.was_entered or self.is_resumed)

    def reopen(self) -> None:
        """Reopen a run that was cut off, to continue it in a new process."""
        self.mailbox.reopen()
        self.failure = self.reason = None
        self._over = LazyEvent()

    @property
    def unanswered(self) -> list[UserMessage]:
        """The prompts that wait for a result: of this process, or of the last one, which has ended."""
        return [prompt for prompt in self.sent if prompt.uuid in self.waiting]

    @property
    def prompts(self) -> list[str]:
        """The uuids of the prompts, in the order sent."""
        return [prompt.uuid for prompt in self.sent]

    @property
    def is_over(self) -> bool:
        """Whether the run has ended."""
        return self._over.is_set()

    async def wait(self) -> None:
        """Wait for the end of the run, however it ends. Any number of workers may wait; cancelling is safe."""
        await self._over.wait()

    @property
    def own_result(self) -> ResultMessage | None:
        """The result that answers the last of the run's prompts, or None."""
        prompts = {*self.prompts, *self.joined}
        for result in reversed(self.results):
            if prompts.intersection(result.prompt_uuids):
                return result
        for result in self.results:
            if not result.prompt_uuids and not result.is_injected:
                return result
        return None
