"""`RunMailbox`: the session's view of a run. The session fills and ends it, and `Run` reads from it."""

from collections.abc import Callable
from typing import Any

import anyio

from claude_agent_py._protocol.open_runs import EndReason, RunEnded, Until
from claude_agent_py._runtime.runs.mailbox import Mailbox
from claude_agent_py._runtime.runs.record import PACKED, Record
from claude_agent_py._streams import LazyEvent
from claude_agent_py.wire.messages.conversation import ResultMessage, UserMessage
from claude_agent_py.wire.messages.stream import StreamEventMessage


class RunMailbox(Mailbox):
    """The messages of one run, for iteration, and a record of all but the deltas, for its result.

    Args:
        max_bytes: How many bytes of messages (as on the wire) may wait in memory, and how many may be recorded there.
        until: When the run ends.
        timeout: Seconds for the whole run; None means `Timeouts.run`.
    """

    def __init__(self, max_bytes: int, until: Until = "result", timeout: float | None = None) -> None:
        super().__init__(max_bytes)
        self.until: Until = until
        self.timeout = timeout
        self.is_sealed = False
        """Whether it has all its prompts."""
        self.session: Any = None
        """The session that the run is in; `reopen` moves it to the next one."""
        self.sent: list[UserMessage] = []
        """The prompts, in the order sent."""
        self.messages: Record = Record(max_bytes)
        self.results: list[ResultMessage] = []
        self.was_interrupted = False
        self.sending: anyio.CancelScope = anyio.CancelScope()
        """The scope of the worker that sends an async iterable of prompts; cancelled when the run ends."""
        self.reason: EndReason | None = None
        """Why the run ended; None if it has not, or if the client ended it."""
        self.late_tasks: frozenset[str] = frozenset()
        """The ids of the tasks that were running when `Timeouts.idle` expired."""
        self.failure: Callable[[], BaseException] | None = None
        """Makes the error of a run that did not complete, anew for each waiter."""
        self.task_ids: frozenset[str] = frozenset()
        """The tasks of the run; set when it ends."""
        self._over = LazyEvent()

    def put(self, message: Any, line: bytes) -> None:
        """Add a message and its line. Never waits."""
        kind = type(message)
        if kind is ResultMessage:
            self.results.append(message)
        if kind is not StreamEventMessage:
            self.messages.append(message, line)
            if len(self._held) < PACKED:  # the reader has had the first ones
                self.messages.pack()
        super().put(message, line)

    def finish(
        self, tasks: frozenset[str], end: RunEnded | None = None, failure: Callable[[], BaseException] | None = None
    ) -> None:
        """End the run. Only the first call has an effect."""
        if not self.is_over:
            self.task_ids, self.failure = self.task_ids | tasks, failure
            if end is not None:  # not kept: it refers to this mailbox
                self.reason, self.late_tasks = end.reason, end.late_tasks
            self.close()
            self.sending.cancel()
            self._over.set()

    def reopen(self) -> None:
        """Begin again in another process: the run was cut off, and is not over."""
        super().reopen()
        self.failure = self.reason = None
        self._over = LazyEvent()

    @property
    def unanswered(self) -> list[UserMessage]:
        """The prompts that no result names."""
        answered = {prompt for result in self.results for prompt in result.prompt_uuids}
        return [prompt for prompt in self.sent if prompt.uuid not in answered]

    @property
    def prompts(self) -> list[str]:
        """The uuids of the prompts, in the order sent."""
        return [prompt.uuid for prompt in self.sent]

    @property
    def is_over(self) -> bool:
        """Whether the run has ended."""
        return self._over.is_set()

    async def wait(self) -> None:
        """Wait for the end of the run, whatever it is. Any number of workers may wait; cancelling is safe."""
        await self._over.wait()

    @property
    def own_result(self) -> ResultMessage | None:
        """The result that answers the last of the run's prompts, or None."""
        mine = set(self.prompts)
        named = (r for r in reversed(self.results) if mine.intersection(r.prompt_uuids))
        unnamed = (r for r in self.results if not r.prompt_uuids and not r.is_injected)
        return next(named, None) or next(unnamed, None)
