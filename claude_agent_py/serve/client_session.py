"""`ClientSession`: a served session on a client of its own, or on one that a pool lends.

The client is opened with the first prompt, closed when nothing happens for a while, and opened again with the next
prompt.
"""

import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from functools import partial
from math import inf
from typing import Any, Final
from uuid import uuid4

import anyio
import anyio.to_thread

from claude_agent_py import Run, verbatim
from claude_agent_py._base.display import one_line
from claude_agent_py._base.event_loop import spawn_detached
from claude_agent_py._base.json_object import JSONObject
from claude_agent_py.client import Client
from claude_agent_py.durable import DeltaReader, add_prompt_server
from claude_agent_py.errors import (
    ClaudeAgentError,
    CLIExitError,
    ConnectionClosedError,
    InterruptedRunError,
    OptionsError,
    PromptCancelledError,
    SessionBusyError,
    SessionError,
    SessionNotFoundError,
)
from claude_agent_py.journal import CallEnded, Fact, PromptSent, TurnEnded, TurnStarted
from claude_agent_py.messages import ResultMessage, StreamEventMessage, UserMessage, check_keeps_conversation
from claude_agent_py.options import ClientOptions
from claude_agent_py.permissions import InteractionOpened, InteractionSettled
from claude_agent_py.serve.frontend_tools import ClientTools, FrontendTools
from claude_agent_py.serve.session import MAX_STORED, TITLE_CHARS, ServedSession, describe_delta, encode, wrap
from claude_agent_py.sessions import RunningProcess, get_session, running_sessions
from claude_agent_py.todo import TaskList

OUTPUT_BYTES: Final = 64 * 1024
"""How much of the end of a task's output is shown."""
GONE_SECONDS: Final = 1.0
OVER: Final = "the server of the session ends"
_TAKEN_BACK: Final = "the prompt was taken back before it had a process"
_TAKEN_BACK_LATE: Final = "the prompt was taken back, and its process has ended"


class _Opening:
    """One wait for a process, by all who come while it lasts: they get the same client, or the same error."""

    def __init__(self) -> None:
        self.scope = anyio.CancelScope()
        self.ended = anyio.Event()
        self.client: Client | None = None
        self.error: Exception | None = None
        self.is_taken_back = False
        """Whether those who still wait get nothing, even if the client has just been opened."""
        self.callers = 0

    def take_back(self) -> None:
        """End the wait of all callers at once."""
        self.is_taken_back = True
        self.scope.cancel()
        self.ended.set()


class ClientSession(ServedSession):
    """A session of `Sessions`.

    Attributes:
        client: The client, while the CLI runs; otherwise None.
        lend: Returns what connects a client, and closes it.
    """

    def __init__(
        self,
        session_id: str,
        options: ClientOptions,
        *,
        keep: Callable[["ClientSession"], None],
        make_room: Callable[[], Awaitable[None]],
        lend: Callable[[ClientOptions], AbstractAsyncContextManager[Client]] = Client,
        owner: str = "",
        is_stored: bool = False,
        frontend_tools: bool | Collection[str] = False,
        frontend_timeout: float = 0.0,
    ) -> None:
        """Create a session.

        Args:
            session_id: Its id; an empty one if it is that of its first client.
            options: The options of its client.
            keep: Called when it is used: it may have been forgotten since. Raises an error if it may not be used.
            make_room: Called before the process starts; raises an error if it may not.
            lend: Returns what connects a client, and closes it.
            owner: The user to whom it belongs.
            is_stored: Whether the conversation exists.
            frontend_tools: The names of the tools that its client may bring; True allows any.
            frontend_timeout: For how many seconds a call of them waits.
        """
        super().__init__(session_id, owner)
        self._tools = ClientTools(frontend_tools, frontend_timeout, self._show_call) if frontend_tools else None
        self.frontend: FrontendTools | None = self._tools
        self.client: Client | None = None
        self._options = options
        self._keep = keep
        self._make_room = make_room
        self.lend: Callable[[ClientOptions], AbstractAsyncContextManager[Client]] = lend
        self._borrowed = AsyncExitStack()
        """Closes the client."""
        self._opening: _Opening | None = None
        """What prompts wait for, until the last of them goes on."""
        self._order = anyio.Lock()
        """Lets those who have waited for a process go on in the order in which they came."""
        self._process = anyio.Lock()
        """Held while the client is opened or closed."""
        self.is_opening: bool = False
        """Whether the process starts."""
        self._is_stored = is_stored
        self._is_new = not is_stored
        """Whether the log began with the conversation."""
        self._sent: set[str] = set()
        """The ids of its prompts, also of those that were taken back."""
        self._knows_stored = not is_stored
        """Whether these two have what is in the stored conversation."""
        self._has_begun = is_stored
        """Whether the conversation may be stored: a prompt was sent, but the process can be killed before it is."""
        self.title: str = ""
        """The first line of its first prompt here, which names it until it is stored."""
        self._deltas = DeltaReader()
        self._shown: deque[str] = deque(maxlen=100)
        """The latest results that are in the log. Prompts that one turn answers have the same."""
        self._todo = TaskList()
        """The to-do list, which outlives the process."""

    @property
    def state(self) -> str:
        """`closed` without a process, `running`, or `idle`."""
        if self.client is None:
            return "closed"
        return "running" if self.is_busy else "idle"

    @property
    def is_busy(self) -> bool:
        """Whether a prompt, a turn, a question or a background task is open."""
        has_tasks = self.client is not None and bool(self.client.tasks.running)
        return bool(self._open_prompts or self.questions) or self._in_turn or has_tasks

    @property
    def is_waiting(self) -> bool:
        """Whether a prompt waits for a process, or one starts."""
        return self._opening is not None or self.is_opening

    @property
    def is_blocked(self) -> bool:
        """Whether the turn waits for an answer, rather than only background work."""
        tasks = self.client.tasks if self.client is not None else None
        asking = [tasks.get(each.agent_id or "") if tasks else None for each in self.questions.values()]
        return self._in_turn and any(task is None or not task.is_backgrounded for task in asking)

    def _reader_came(self) -> None:
        if not self._is_over:
            self._keep(self)
        self.note_use()

    async def _load_stored(self, until: float) -> Sequence[bytes]:
        if not self._is_stored or (self._is_new and self.log.start[0] == 0):
            return ()
        return await anyio.to_thread.run_sync(_wrap_last, self._read_journal(until))

    def _read_journal(self, until: float = inf) -> Iterator[Fact]:
        """Yield the facts of the stored conversation, as far as it can be read. Blocks, so a thread goes through it."""
        with suppress(SessionError):
            stored = get_session(self.id, config_dir=Client(self._options).config_dir)
            stored.is_left = until < inf and self.log.start[0] == 0  # the log began with a process of its own
            yield from stored.journal(until=until)

    async def send(self, prompt: str, *, prompt_id: str | None = None) -> str:
        """Send a prompt. Opens the client first if need be.

        If all processes are busy, it waits for one. `stop` and `close` take it back: it ends as `cancelled`.
        """
        self.note_use()
        self.title = self.title or one_line(prompt, TITLE_CHARS)
        if prompt_id is not None:
            await self._learn_stored()
        prompt_id = (prompt_id or str(uuid4())).lower()
        if prompt_id in self._sent:  # the CLI of a further process takes it, and never answers it
            raise OptionsError(f"an earlier prompt had the id {prompt_id}; give each its own", option="prompt_id")
        self._sent.add(prompt_id)
        try:
            client, run = await self._query(prompt, prompt_id)
        except PromptCancelledError as error:
            self._end_prompt(prompt_id, "cancelled", error=str(error))
        except BaseException:
            self._sent.discard(prompt_id)
            raise
        else:
            self.note_use()  # the sender may follow only now
            spawn_detached(partial(self._watch, client, prompt, prompt_id, run), name="claude_agent_py served run")
        return prompt_id

    async def _learn_stored(self) -> None:
        """Read the ids of the stored prompts and the stored to-do list, once."""
        if self._knows_stored:
            return
        sent, todo = await anyio.to_thread.run_sync(_find_prompts, self._read_journal())
        if not self._knows_stored:
            self._knows_stored = True
            self._sent |= sent
            self._todo = todo

    async def _query(self, prompt: str, prompt_id: str) -> tuple[Client, Run[Any]]:
        client = await self._wait_for_client()
        if client is None:
            raise PromptCancelledError(_TAKEN_BACK)
        run = client.query(self._read_prompt(client, prompt), uuid=prompt_id)
        self._open_prompts[prompt_id] = False
        self._has_begun = True
        return client, run

    def _read_prompt(self, client: Client, prompt: str) -> str | UserMessage:
        """Return a prompt as it is sent. A user's `@file` would show any file of the server, and commands would run."""
        if self.owner and "verbatim_prompts" not in self._options.model_fields_set:
            return verbatim(prompt)
        check_keeps_conversation(prompt, client.info.commands, verbatim=client.options.verbatim_prompts)
        return prompt

    async def start(self) -> None:
        """Start the process, if none runs. A prompt does so, too. `stop` and `close` end the start.

        Raises:
            TooManySessionsError, ClaudeAgentError: As `send`.
        """
        await self._wait_for_client()

    async def stop(self) -> None:
        """Interrupt the turn, and take back the prompts behind it, or without a process. Background tasks go on."""
        self._take_back()
        if self.client is not None:
            with suppress(CLIExitError, ConnectionClosedError):  # without a process, nothing goes on
                await self.client.interrupt(cancel_queued=True)

    async def read_output(self, task_id: str) -> str | None:
        """Return the end of a task's output."""
        task = None if self.client is None else self.client.tasks.get(task_id)
        return None if task is None else await task.read_output(tail_bytes=OUTPUT_BYTES)

    async def stop_task(self, task_id: str) -> bool:
        """Stop a background task."""
        task = None if self.client is None else self.client.tasks.get(task_id)
        if task is not None:
            await task.stop()
        return task is not None

    def list_waited_agents(self) -> Sequence[tuple[str, str, str, str | None]]:
        """Return the subagents in the foreground."""
        running = () if self.client is None else self.client.tasks.running
        return [
            (task.id, task.subagent_type or "agent", task.description, task.tool_use_id)
            for task in running
            if task.is_agent and not task.is_backgrounded
        ]

    async def close(self, *, only_idle: bool = False) -> None:
        """End the process, or only if it is idle. The conversation stays; another prompt opens it again."""
        if only_idle and self.is_waiting:
            return  # it may hold the lock for long
        if not only_idle:
            self._take_back()
        async with self._process:
            if only_idle and (self.is_busy or self.is_waiting):
                return
            self.client = None
            await self._borrowed.aclose()

    async def end(self) -> None:
        """End the streams of all readers and the process, for good."""
        self._is_over = True
        self._wake()
        await self.close()

    # The client ---------------------------------------------------------------------------------------------------

    async def _wait_for_client(self) -> Client | None:
        """Return the client, which is opened if need be; None if the wait was taken back.

        Those who come while somebody waits share the wait, and so its time limit. It ends when all of them have gone.

        Raises:
            ConnectionClosedError: The server ends.
            ClaudeAgentError: There is no process.
        """
        if self._is_over:
            raise ConnectionClosedError(OVER)
        opening = self._opening
        if opening is None or opening.error is not None:
            if self.client is not None and self.client.is_open:
                return self.client
            opening = self._opening = _Opening()
            spawn_detached(partial(self._open, opening), name="claude_agent_py opening")
        opening.callers += 1
        try:
            async with self._order:
                await opening.ended.wait()
        finally:
            opening.callers -= 1
            if not opening.callers:
                opening.scope.cancel()
                if self._opening is opening:
                    self._opening = None
        if opening.is_taken_back and self._is_over:
            raise ConnectionClosedError(OVER)
        if opening.error is not None and not opening.is_taken_back:
            raise opening.error
        return None if opening.is_taken_back else opening.client

    def _take_back(self) -> None:
        """Take back all prompts: no further process gets them, whatever becomes of this one."""
        self._open_prompts = dict.fromkeys(self._open_prompts, True)
        if self._opening is not None:
            self._opening.take_back()
            self._opening = None

    async def _open(self, opening: _Opening) -> None:
        """Open the client for those who wait. It stays open if they have just gone."""
        try:
            with opening.scope:
                async with self._process:
                    while self.client is not None and not self.client.is_open:
                        await self._changed.wait()  # it has died: its last events come first
                    if self.client is None:
                        await self._connect()
                    opening.client = self.client
        except Exception as error:
            opening.error = error
        finally:
            opening.ended.set()

    async def _connect(self) -> None:
        borrowed = AsyncExitStack()
        client = await self._borrow(borrowed)
        self.id: str = self.id or client.session_id or ""
        self.client, self._borrowed = client, borrowed
        self._add({"type": "opened"})
        events = client.events(facts=True)
        spawn_detached(partial(self._listen, client, borrowed, events), name="claude_agent_py served session")

    async def _borrow(self, borrowed: AsyncExitStack) -> Client:
        """Return a connected client, which the stack closes."""
        options = self._list_options(is_new=not self._has_begun)
        if self._has_begun:
            await _check_unused(self.id, self._options)
        await self._learn_stored()
        self._keep(self)
        await self._make_room()
        self.is_opening = True
        try:
            return await borrowed.enter_async_context(self.lend(options))
        except SessionNotFoundError:
            if self._is_stored:
                raise
            return await borrowed.enter_async_context(self.lend(self._list_options(is_new=True)))
        finally:
            self.is_opening = False

    def _list_options(self, *, is_new: bool = True) -> ClientOptions:
        """Return the options of its client, which begins the conversation or resumes it."""
        conversation: dict[str, Any] = {"session_id": self.id or None} if is_new else {"resume": self.id}
        options = self._options.replace(
            include_partial_messages=True, interactions=self._options.interactions or True, **conversation
        )
        return options if self._tools is None else add_prompt_server(options, self._tools.server)

    def _keep_mode(self, client: Client) -> None:
        """Let the next process begin in the permission mode of the last one, such as after an approved plan."""
        mode = client.session.reported.permission_mode
        if mode is not None:
            with suppress(OptionsError):  # a mode of a newer CLI
                self._options = self._options.replace(permission_mode=mode)

    async def _listen(self, client: Client, borrowed: AsyncExitStack, events: AsyncIterator[Any]) -> None:
        """Turn what happens in the session into events, until its process ends."""
        error = ""
        try:
            async for event in events:
                self.used_at: float = time.monotonic()
                self._take(event)
        except ClaudeAgentError as failure:
            error = str(failure)
        finally:
            if self.client is client:
                self.client = None
            self._keep_mode(client)
            self._in_turn = False
            self.questions.clear()
            self.log.settle()
            self.log.merge()  # what has not come whole never will
            self._add({"type": "closed", "error": error})
            with anyio.CancelScope(shield=True):
                await borrowed.aclose()

    async def _watch(self, client: Client, prompt: str, prompt_id: str, run: Run[Any]) -> None:
        """Add the end of a run, after all that belongs to it."""
        status, text, error, result = "ok", "", "", None
        try:
            try:
                result = await run
            except CLIExitError as failure:
                if self._open_prompts[prompt_id] or failure.result is None or failure.result.messages:
                    raise
                client, run = await self._query(prompt, prompt_id)  # it was dead before it read the prompt
                result = await run
        except ClaudeAgentError as failure:
            result, error = getattr(failure, "result", None), str(failure)
            is_cancelled = isinstance(failure, InterruptedRunError | PromptCancelledError)
            if isinstance(failure, CLIExitError | ConnectionClosedError) and self._open_prompts[prompt_id]:
                is_cancelled, error = True, _TAKEN_BACK_LATE
            status = "cancelled" if is_cancelled else "error"
        finally:
            self._open_prompts.pop(prompt_id, None)
        text = "" if result is None else result.text
        uuid = result.message.uuid if result is not None and result.message is not None else None
        while uuid is not None and uuid not in self._shown and self.client is client:
            await self._changed.wait()
        self._end_prompt(prompt_id, status, text, error)

    # Events -------------------------------------------------------------------------------------------------------

    def _take(self, event: Any) -> None:
        if isinstance(event, Fact) and event.number:
            self._take_fact(event)
            self._is_stored = self._is_stored or (isinstance(event, TurnEnded) and event.duration is not None)
            if self.frontend is not None and isinstance(event, TurnEnded):
                self.frontend.forget()
            if isinstance(event, CallEnded) and self._todo.track(event):
                self._add(_describe_todo(self._todo))
        elif isinstance(event, StreamEventMessage):
            delta = self._deltas.read(event)
            if delta is not None:
                self._add(describe_delta(delta), part_of=delta.id)
        elif isinstance(event, InteractionOpened):
            self._open_question(event.interaction)
        elif isinstance(event, InteractionSettled):
            self._settle_question(event.interaction.id, was_answered=event.was_answered)
        elif isinstance(event, ResultMessage):
            self._shown.append(event.uuid)
            self._wake()


async def _check_unused(session_id: str, options: ClientOptions) -> None:
    """Refuse a session that another program has open: two processes would each go on from where they are.

    Raises:
        SessionBusyError: It is open. An own process that has just ended gets a moment to be gone.
    """
    deadline = anyio.current_time() + GONE_SECONDS
    while (process := await anyio.to_thread.run_sync(_find_process, session_id, options)) is not None:
        if anyio.current_time() > deadline:
            raise SessionBusyError(session_id, process.pid, process.status)
        await anyio.sleep(GONE_SECONDS / 10)


def _find_process(session_id: str, options: ClientOptions) -> RunningProcess | None:
    """Return the process that has a session open, if it can be told from a later one with its number."""
    found = running_sessions(Client(options).config_dir)
    mine = (each.process for each in found if each.session_id.lower() == session_id)
    return next((process for process in mine if process.started is not None), None)


def _wrap_last(facts: Iterable[Fact]) -> Sequence[bytes]:
    """Return the events for the last facts, and for the to-do list that all of them make."""
    todo, found = TaskList(), deque[bytes](maxlen=MAX_STORED)
    for fact in facts:
        todo.track(fact)
        found.append(wrap(fact))
    return [*found, encode(_describe_todo(todo))] if todo.items or todo.todos else found


def _find_prompts(facts: Iterable[Fact]) -> tuple[set[str], TaskList]:
    """Return the ids of the prompts, and the to-do list."""
    sent, todo = set[str](), TaskList()
    for fact in facts:
        todo.track(fact)
        if isinstance(fact, PromptSent):
            sent.add(fact.id)
        elif isinstance(fact, TurnStarted):  # also prompts that the CLI merged into another one
            sent.update(fact.prompts)
    return sent, todo


def _describe_todo(listed: TaskList) -> JSONObject:
    items = [{"text": item.subject, "status": item.status} for item in listed.items]
    items = items or [{"text": item.content, "status": item.status} for item in listed.todos]
    return {"type": "todo", "items": items}
