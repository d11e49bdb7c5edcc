"""What a run has brought so far: the pump's end of a run.

The pump puts messages in and ends it; `Run` (the user's end, in `runs.py`) reads them out. Knows nothing of the
protocol: which message belongs here was decided by the router.
"""

from collections.abc import Callable
from typing import Any

import anyio

from claude_agent_py.protocol.turns import RunEnd
from claude_agent_py.runtime.mailbox import Mailbox
from claude_agent_py.runtime.record import Record
from claude_agent_py.wire.messages import ResultMessage
from claude_agent_py.wire.stream import StreamEventMessage


class RunFeed:
    """The messages of one run, and its end.

    Every complete message is kept for the result. Deltas of partial messages are not: they are only for who iterates.
    """

    def __init__(self, run_id: int, max_bytes: int) -> None:
        self.run_id = run_id
        self.prompts: list[str] = []
        """The uuids of the prompts, in the order in which they were sent."""
        self.messages: Record = Record(max_bytes)
        self.results: list[ResultMessage] = []
        self.tasks: frozenset[str] = frozenset()
        """The ids of the tasks that belong to the run; set when it ends."""
        self.late_tasks: frozenset[str] = frozenset()
        """The ids of those that were not waited for to their end, because `Timeouts.idle` ran out."""
        self.on_wait: Callable[[RunFeed, float], object] = lambda feed, seconds: None
        """Is told when the run has been waiting for tasks for so many seconds. Must not raise or wait; so `on_late`."""
        self.on_late: Callable[[RunFeed], object] = lambda feed: None
        """Is told when the run is over with `late_tasks`."""
        self.end: RunEnd | None = None
        self.failure: Callable[[], BaseException] | None = None
        """What became of the run, where it is not over by the CLI's word: called for each who is to be told."""
        self.was_interrupted = False
        self.sending: anyio.CancelScope = anyio.CancelScope()
        """Where the prompts are sent that come one by one; cancelled when the run is over, which wants no more."""
        self.mailbox: Mailbox = Mailbox(max_bytes)
        self._over = anyio.Event()

    def put(self, message: Any, size: int, line: bytes = b"") -> None:
        """Take a message from the pump; its line, where decoding that gives the message again."""
        kind = type(message)
        if kind is ResultMessage:
            self.results.append(message)
            self.messages.append(message, size)
        elif kind is not StreamEventMessage:
            self.messages.append(message, size, line)
        self.mailbox.put(message, size, line)

    def close(self, end: RunEnd | None, failure: Callable[[], BaseException] | None = None) -> None:
        """Say that the run is over; idempotent."""
        if not self.is_over:
            self.end = end
            self.failure = failure
            self.mailbox.end()
            self.sending.cancel()
            self._over.set()

    @property
    def is_over(self) -> bool:
        """Whether no more messages will come."""
        return self._over.is_set()

    async def wait(self) -> None:
        """Wait until the run is over, by whatever end. Any number of workers may wait; cancelling is safe."""
        await self._over.wait()

    @property
    def own_result(self) -> ResultMessage | None:
        """The result that answers the last of the run's prompts; None while there is none."""
        mine = set(self.prompts)
        named = (r for r in reversed(self.results) if mine.intersection(r.prompt_uuids))
        unnamed = (r for r in self.results if not r.prompt_uuids and not r.is_injected)
        return next(named, None) or next(unnamed, None)
