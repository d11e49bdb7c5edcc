"""`Worker`: runs sessions of a fleet on this machine. Each engine has its own kind, which gives it the prompts."""

import contextlib
import errno
import json
import os
import platform
import secrets
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

import anyio
from anyio.abc import TaskGroup

from claude_agent_py._base.checks import read_size
from claude_agent_py._base.errors import first_error
from claude_agent_py._base.event_loop import Wakeup, run_file_work, run_to_its_end
from claude_agent_py._base.json_object import JSONMapping
from claude_agent_py._base.log import logger
from claude_agent_py._base.redaction import hide_values, redact
from claude_agent_py.durable import Delta, Desk, Failed, Later, TurnOutcome, TurnStop, run_turn
from claude_agent_py.errors import ConnectionClosedError, FleetError, OptionsError
from claude_agent_py.fleet._events import PROJECT, NewDeltas, NewEvent
from claude_agent_py.fleet._folders import SessionFolder, open_folder
from claude_agent_py.fleet._health import Address, HealthServer, parse_address
from claude_agent_py.fleet._settings import FleetSettings
from claude_agent_py.fleet.agents import FleetAgent, read_prompt
from claude_agent_py.fleet.metrics import FleetMetrics
from claude_agent_py.fleet.workspaces import Copy, safe_name
from claude_agent_py.journal import CallStarted, Fact, MessageAdded, RequestRetried, encode_fact
from claude_agent_py.messages import PromptContent
from claude_agent_py.options import ClientOptions, find_secrets
from claude_agent_py.transport import can_measure, tree_memory

FLUSH_SECONDS: Final = 0.2
"""Seconds during which events are collected for one write."""
MAX_BATCH: Final = 200
"""How many events are written together."""
PRUNE_SECONDS: Final = 3600.0
"""The longest pause in seconds between deletions of what is old."""
SESSION_BYTES = 300 * 1024 * 1024
"""The expected memory of a session before the first measurement."""


class Execution(ABC):
    """A prompt that runs in a worker: the arguments of `run_turn`.

    Args:
        session: The id of the session in the fleet.
        conversation: The id of its conversation.
        uuid: The id of the prompt.
        prompt: The prompt, perhaps with tools.
        attempt: The number of the attempt, from 1.
    """

    desk: Desk
    keeps_deltas: bool = False
    """Whether deltas are written, too."""

    def __init__(self, session: str, conversation: str, uuid: str, prompt: Any, attempt: int) -> None:
        self.session = session
        self.conversation = conversation
        self.uuid = uuid
        content, tools = read_prompt(prompt)
        self.prompt: PromptContent = content
        self.tools: Sequence[JSONMapping] = tools
        self.attempt = attempt
        self.stop: TurnStop = TurnStop()
        self._events: list[NewEvent] = []
        """Those that are not written yet."""
        self._deltas = NewDeltas([], [], set())
        self._parts: set[str] = set()
        """The ids of what had deltas and is not whole."""
        self._writing = anyio.Lock()

    @abstractmethod
    async def begin(self, where: dict[str, str]) -> None:
        """Note that the prompt is about to run: its `workspace`, and the `machine` and the `folder` that have it."""

    @abstractmethod
    async def write(self, events: Sequence[NewEvent], deltas: NewDeltas) -> None:
        """Write events and deltas, all at once. May be called again with the same ones if it fails."""

    def add_event(self, kind: str, data: JSONMapping, at: float | None = None) -> None:
        """Add an event, which `flush` writes."""
        self._events.append((kind, at or time.time(), data))

    def add_fact(self, fact: Fact) -> None:
        """Add an event for a fact."""
        self.add_event("fact", json.loads(encode_fact(fact)), fact.at)
        has_content = isinstance(fact, CallStarted) or (isinstance(fact, MessageAdded) and bool(fact.content))
        # After a request that failed, the answer begins anew, as another message.
        over = [*self._parts] if isinstance(fact, RequestRetried) else [fact.id] if has_content else []
        for part in self._parts.intersection(over):
            self._deltas.note_whole(part)
            self._parts.remove(part)

    def add_delta(self, delta: Delta) -> None:
        """Add a delta, which `flush` writes with those before it that it continues."""
        self._parts.add(delta.id)
        open_deltas = self._deltas.open
        last = open_deltas[-1] if open_deltas else None
        if last is not None and (last.kind, last.id) == (delta.kind, delta.id):
            open_deltas[-1] = last._replace(text=last.text + delta.text)
        else:
            open_deltas.append(delta)

    async def write_events(self) -> None:
        """Write the events and deltas so far. Errors propagate, and they are kept."""
        async with self._writing:
            due = len(self._events) or min(1, len(self._deltas.open))  # what comes meanwhile is collected
            while due > 0:
                batch = self._events[:MAX_BATCH]
                deltas, self._deltas = self._deltas, NewDeltas([], [], set())
                if due > MAX_BATCH:  # what is open comes after all these events
                    deltas, self._deltas = deltas._replace(open=[]), deltas._replace(last=[], whole=set())
                try:
                    await self.write(batch, deltas)
                except BaseException:
                    self._deltas = deltas.followed_by(self._deltas)
                    raise
                del self._events[: len(batch)]
                due -= MAX_BATCH

    async def flush(self) -> None:
        """Write the events so far. What cannot be written yet is kept."""
        try:
            await self.write_events()
        except Exception as error:
            logger.warning("events of session %s cannot be written yet: %s", self.session, error)


class Worker(ABC):
    """A worker of a fleet, created by `Fleet.worker`. Use it with `async with`.

    Leaving the block returns running sessions to the fleet, where another worker continues their turns.
    """

    def __init__(
        self,
        settings: FleetSettings,
        load_metrics: Callable[[Mapping[str, int]], Awaitable[FleetMetrics]],
        *,
        sessions: int = 16,
        memory: int | str | None = None,
        machine: str | None = None,
        folder: str | os.PathLike[str] | None = None,
        health: str | int | None = None,
    ) -> None:
        if sessions < 1:
            raise OptionsError("must be a positive number", option="sessions")
        self._fleet = settings
        self._load_metrics = partial(load_metrics, settings.agent_limits)
        self._store = settings.store
        self._slots = sessions
        self._memory = None if memory is None else read_size(memory, option="memory")
        self._memory_used = 0
        self.machine: str = machine or platform.node()
        """The name of the machine, for workspaces."""
        self.id: str = f"{self.machine}-{os.getpid()}-{secrets.token_hex(3)}"
        """The worker's name in the fleet."""
        self._given_folder = None if folder is None else Path(folder).absolute()
        self._folder = Path()
        """The folder for the workspaces of this fleet."""
        self._executions: dict[str, Execution] = {}
        """What runs in this worker, by the id of the session."""
        self.is_open: bool = False
        """Whether it runs sessions. Internal."""
        self._is_draining = self._is_releasing = False
        self.health: Address | None = None if health is None else parse_address(health)
        """The address of its HTTP server for probes and metrics."""
        self._group: TaskGroup
        self._wakeup: Wakeup | None = None
        self._drained = anyio.Event()
        """Set when the worker drains and no session runs any more."""

    def __repr__(self) -> str:
        draining = ", draining" if self._is_draining else ""
        return f"<Worker {self.id}, {len(self._executions)} of {self._slots} sessions{draining}>"

    # Lifecycle --------------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        """Open the worker, once."""
        if self._is_draining:
            raise FleetError("this worker has ended: open another one, of fleet.worker()")
        if not self._fleet.agents:
            raise OptionsError("register an agent first: fleet.agent(...)", option="agents")
        with _ungrouped():
            async with AsyncExitStack() as stack:
                await self._connect(stack)
                await self._apply_schedules()
                if self.health is not None:
                    server = HealthServer(self._check_ready, self._load_metrics)
                    self.health = await stack.enter_async_context(server.serve(self.health))
                if not all(agent.workspace.is_shared for agent in self._fleet.agents.values()):
                    self._folder = await run_file_work(open_folder, self._given_folder, self._identity)
                self._group = await stack.enter_async_context(anyio.create_task_group())
                stack.push_async_callback(self._leave)
                await self._begin()
                self._start_pruning()
                self._exit_stack = stack.pop_all()
        self.is_open = True
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Return running sessions to the fleet."""
        self.is_open = False
        with _ungrouped():
            await self._exit_stack.aclose()

    @property
    @abstractmethod
    def _identity(self) -> str:
        """The random name of the fleet."""

    @abstractmethod
    async def _connect(self, stack: AsyncExitStack) -> None:
        """Connect to the engine. The stack ends after the worker's tasks."""

    @abstractmethod
    async def _apply_schedules(self) -> None:
        """Create or change the schedules of this process (`FleetSettings.schedules`). Raises OptionsError."""

    @abstractmethod
    async def _begin(self) -> None:
        """Start to take sessions, in the group of tasks."""

    @abstractmethod
    async def _finish(self) -> None:
        """Take no more sessions, and wait until the running ones have ended."""

    @abstractmethod
    async def _find_problem(self) -> str:
        """Return why the engine gives it no sessions, or an empty text. Raises FleetError."""

    async def _leave(self) -> None:
        """Release what runs, and end the background tasks."""
        self._is_draining = True
        self._release()
        await run_to_its_end(self._finish, name="claude_agent_py worker")
        self._drained.set()
        self._group.cancel_scope.cancel()

    async def _check_ready(self) -> str:
        """Return why it takes no sessions, or an empty text if it does. Raises FleetError if it cannot say."""
        if self._is_draining:
            return "the worker drains"
        return await self._find_problem() if self.is_open else "the worker starts"

    async def drain(self, grace: float | None = None) -> None:
        """Take no more sessions, and wait until the running ones have ended.

        Those that still run after `grace` seconds are released, and go on in other workers.
        """
        self._is_draining = True
        if grace is not None:
            self._group.start_soon(self._release_after, grace)
        await self._finish()
        self._drained.set()

    async def _release_after(self, seconds: float) -> None:
        await anyio.sleep(seconds)
        self._release()

    def _release(self) -> None:
        """Return the sessions that run, and those that begin from now on."""
        self._is_releasing = True
        for execution in self._executions.values():
            execution.stop.release()

    async def wait_drained(self) -> None:
        """Wait until the worker was asked to drain and its sessions have ended."""
        await self._drained.wait()

    def wake(self) -> None:
        """Look for work immediately. Thread-safe. Internal."""
        if self._wakeup is not None:
            self._wakeup.set()

    async def _measure_memory(self) -> None:
        """Measure this process and those below it."""
        if self._memory is not None:
            self._memory_used = sum((await tree_memory([os.getpid()])).values())

    def _count_free_slots(self, taken: int) -> int:
        """Return how many more sessions this worker can run."""
        free = self._slots - taken
        if self._memory is None:
            return free
        expected = taken * SESSION_BYTES
        used = max(self._memory_used, expected) if can_measure() else expected
        return min(free, max(int((self._memory - used) // SESSION_BYTES), 0 if taken else 1))

    # Running a prompt -------------------------------------------------------------------------------------------------

    async def _run_prompt(self, agent: FleetAgent, execution: Execution, folder: SessionFolder) -> TurnOutcome:
        """Prepare the workspace and run a prompt, while its events are written."""
        if self._is_releasing:
            execution.stop.release()
        outcome: TurnOutcome
        async with _flushing(execution):
            try:
                where = dict[str, str]()
                if not agent.workspace.is_shared:
                    await run_file_work(folder.take, agent.workspace, execution.session)
                    where = {"machine": self.machine, "folder": str(folder.path.parent)}
                path = await run_file_work(agent.workspace.prepare, folder.path, execution.session)
                await execution.begin({**where, "workspace": str(path)})
                outcome = await run_turn(
                    agent.options.replace(cwd=path),
                    store=self._store,
                    session_id=execution.conversation,
                    prompt_id=execution.uuid,
                    prompt=execution.prompt,
                    desk=execution.desk,
                    patience=agent.patience,
                    attempt=execution.attempt,
                    retry=agent.retry,
                    stop=execution.stop,
                    on_fact=execution.add_fact,
                    on_delta=execution.add_delta if execution.keeps_deltas else None,
                    until=agent.until,
                    tools=execution.tools,
                    project=PROJECT,
                )
            except Exception as error:  # of the workspace
                outcome = _explain(error, agent, execution)
            if isinstance(outcome, Later | Failed):
                outcome = replace(outcome, reason=without_secrets(outcome.reason, agent.options))
            return outcome

    def _get_folder(self, session: str, conversation: str, parent: str | None = None) -> SessionFolder:
        """Return the folder of a session: in the one where it was before, unless that is gone."""
        there = Path(parent) if parent is not None and Path(parent).is_dir() else self._folder
        return SessionFolder(there / safe_name(session), f"{self._identity} {conversation}")

    async def _remove_workspace(self, folder: SessionFolder, agent: str, version: str, session: str) -> None:
        found = self._fleet.agents.get((agent, version))
        workspace = Copy() if found is None else found.workspace  # of an agent that this worker does not run
        if workspace.is_shared:
            return
        try:
            await run_file_work(folder.free, workspace, session)
        except Exception as error:  # also RecursionError, if an agent nests a thousand folders
            logger.warning("the workspace of session %s could not be removed: %r", session, error)

    @abstractmethod
    async def _prune(self, seconds: float) -> None:
        """Delete old sessions and their workspaces on this machine."""

    @abstractmethod
    async def _prune_events(self, seconds: float) -> None:
        """Delete old events."""

    def _start_pruning(self) -> None:
        for seconds, prune in (
            (self._fleet.event_retention, self._prune_events),
            (self._fleet.retention, self._prune),
        ):
            if seconds is not None:
                self._group.start_soon(self._run_pruning, seconds, prune)

    async def _run_pruning(self, seconds: float, prune: Callable[[float], Awaitable[None]]) -> None:
        """Delete what is old, periodically, until cancelled."""
        while True:
            try:
                await prune(seconds)
            except Exception as error:
                logger.warning("worker %s could not delete what is old: %s", self.id, error, exc_info=error)
            await anyio.sleep(min(max(seconds / 10, 1.0), PRUNE_SECONDS))


@contextlib.contextmanager
def _ungrouped() -> Iterator[None]:
    """Raise the first error of groups of tasks itself."""
    first: BaseException | None = None
    try:
        yield
    except BaseExceptionGroup as errors:
        first = first_error(errors)
    if first is not None:
        raise first


def _explain(error: Exception, agent: FleetAgent, execution: Execution) -> TurnOutcome:
    """Return the outcome for an error before the turn."""
    is_outage = _is_of_full_disk(error) or (isinstance(error, FleetError) and error.is_retryable)
    if is_outage or (isinstance(error, FleetError) and execution.attempt < agent.retry.attempts):
        pause = agent.retry.pause_after(ConnectionClosedError(str(error)), execution.attempt)
        return Later(pause=pause, is_attempt=not is_outage, reason=f"{type(error).__name__}: {error}")
    told = without_secrets("".join(traceback.format_exception(error)), agent.options)
    logger.error("session %s of the fleet failed: %s", execution.session, told)
    return Failed(error=type(error).__name__, reason=str(error))


def _is_of_full_disk(error: Exception) -> bool:
    """Return whether a disk or a quota is full. Programs such as git say so in words."""
    return any(os.strerror(number) in str(error) for number in (errno.ENOSPC, errno.EDQUOT))


def without_secrets(text: str, options: ClientOptions) -> str:
    """Return the text of an error without secrets of the environment and the options: all of the fleet can read it."""
    return redact(hide_values(text, find_secrets(options).items()))


@contextlib.asynccontextmanager
async def _flushing(execution: Execution) -> AsyncIterator[None]:
    """Write events while the block runs, and the last ones after it."""

    async def run() -> None:
        while True:
            await anyio.sleep(FLUSH_SECONDS)
            await execution.flush()

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        yield
        group.cancel_scope.cancel()
    await execution.flush()
