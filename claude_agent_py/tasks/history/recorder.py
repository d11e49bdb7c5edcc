"""Collects the facts about the tasks of a session, which the history stores later."""

import weakref
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable

from claude_agent_py._base.log import Drops
from claude_agent_py._journal.tasks.events import TaskEvent, TaskFinished, TaskReopened, TaskStarted
from claude_agent_py.tasks.history.table import FactRow, build_row
from claude_agent_py.tasks.manager import TaskManager


class Recorder:
    """The facts of one session. Notified in the event loop's thread; any thread may take what waits.

    Args:
        manager: The tasks of the session.
        session_id: The session's id, or a function that returns it once it is known.
        flush: Stores the waiting facts.
    """

    def __init__(
        self,
        manager: TaskManager,
        session_id: Callable[[], str | None] | str,
        flush: Callable[[], Awaitable[None]],
    ) -> None:
        # A weak reference, because the history holds the recorder and outlives the session.
        self._manager = weakref.ref(manager)
        self._session_id = session_id
        self._flush = flush
        self._stop: Callable[[], None] | None = None
        self.sessions: dict[str, str] = {}
        """The session of each task that has a stored fact."""
        self.ended_before: set[str] = set()
        """Tasks whose end was stored by an earlier process."""
        self._running: set[str] = set()
        """The runs that have not ended, by id."""
        self._steps: Counter[tuple[str, str]] = Counter()
        """How many facts there were of each run and kind."""
        self.waiting: deque[FactRow] = deque()
        """The facts to store."""
        self._drops = Drops("the history of a session")

    @property
    def is_in_use(self) -> bool:
        """Whether a task is running according to the facts, or there are facts to store."""
        return bool(self.waiting or self._running)

    @property
    def session_id(self) -> str | None:
        """The id of the session; None while it is unknown."""
        return self._session_id() if callable(self._session_id) else self._session_id

    def is_for(self, manager: TaskManager, session_id: Callable[[], str | None] | str) -> bool:
        """Return whether this object records this manager for this session."""
        return self._manager() is manager and self._session_id == session_id

    def listen(self, manager: TaskManager) -> None:
        """Start recording, with the start and the end of each run so far."""
        if self._stop is None or not manager.listens(self.keep):
            self._unwatch()
            self._stop = manager.watch(self._on_change)
            manager.on(self.keep)
            self._add(manager, [event for event in manager.so_far() if not self._steps[event.id, event.fact]])
            # Call `keep` for the past events, so that it stores their facts.
            manager.catch_up(self.keep)

    async def keep(self, event: TaskEvent) -> None:
        """Store the waiting facts. One call stores many, so most calls do nothing."""
        if self.waiting:
            await self._flush()

    def _on_change(self, touched: set[str], events: list[TaskEvent]) -> None:
        manager = self._manager()
        # `TaskManager.off` removes `keep`.
        if manager is None or not manager.listens(self.keep):
            self._unwatch()
        else:
            self._add(manager, events)

    def _unwatch(self) -> None:
        stop = self._stop
        self._stop = None
        if stop is not None:
            stop()

    def _add(self, manager: TaskManager, events: Iterable[TaskEvent]) -> None:
        for event in events:
            if isinstance(event, TaskStarted | TaskReopened):
                self._running.add(event.id)
            elif isinstance(event, TaskFinished):
                self._running.discard(event.id)
            key = event.id, event.fact
            try:
                self.waiting.append(build_row(event, self._steps[key], manager[event.task_id].subagent_type))
            except (TypeError, ValueError, RecursionError):
                self._drops.note(event)
            self._steps[key] += 1
