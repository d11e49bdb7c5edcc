"""`FleetSessions`: the sessions of a fleet, served to any number of readers.

The prompts, the questions and all events are in the fleet, so nothing ends with the process of the server: another one
goes on where it was, and a question is answered long after the process that asked it has ended.
"""

import json
import time
from collections import deque
from collections.abc import Collection, Mapping, MutableMapping, Sequence
from math import inf
from typing import Final, Self
from uuid import uuid4

import anyio

from claude_agent_py._base.event_loop import run_to_its_end, spawn_detached
from claude_agent_py._base.json_object import JSONMapping
from claude_agent_py._base.log import logger
from claude_agent_py.durable import PROMPT_TOOLS, CallResult, Delta
from claude_agent_py.errors import FleetError, OptionsError, SessionNotFoundError
from claude_agent_py.fleet import Fleet, FleetDelta, FleetEvent, FleetOutcome, FleetSession, FleetSessionInfo
from claude_agent_py.journal import CallStarted, Fact, MessageAdded, TurnEnded, TurnStarted, decode_fact
from claude_agent_py.permissions import Accept, ElicitationRequest, Interaction
from claude_agent_py.serve.frontend_tools import MOMENT, FrontendTools
from claude_agent_py.serve.session import MAX_STORED, ServedSession, describe_delta, wrap
from claude_agent_py.serve.sessions import MAX_LISTED, ListedSession

POLL_SECONDS: Final = 0.2
"""Seconds between two queries for events, while a worker is at work."""
LOOK_SECONDS: Final = 1.0
"""Seconds between two looks at what is no event: questions, and the ends of prompts that no worker ran."""
PAGE: Final = 500
"""How many events are read at once. All are read before the deltas, which come after them."""
UNUSED_SECONDS: Final = 60.0
"""After how many seconds without readers a session is no longer followed."""
UNSENT_SECONDS: Final = 300.0
"""After how many seconds without readers a session without a prompt is forgotten."""
_AT_WORK: Final = ("queued", "running")
_AT_REST: Final = ("idle", "failed", "cancelled")
_KINDS: Final = {"text": "text", "thinking": "reasoning"}
"""The deltas of the blocks of a message."""
_ENDED: Final = ("done", "failed", "cancelled")
_CLOSED: Final = b'{"type":"closed","error":""}'
"""Said of a turn that ends without a process."""


class FleetSessions:
    """The sessions of one agent of a fleet. A user has the sessions of the tenant of the same name.

    Use it as an async context manager, or call `close`. The fleet stays open, and so does its work.

    Args:
        fleet: The fleet. Workers may run in this process or elsewhere.
        agent: The name of the agent.
        frontend_tools: The names of the tools that an AG-UI client may bring, as in `Sessions`. A call waits as long as
            its prompt may take.
    """

    def __init__(self, fleet: Fleet, agent: str, *, frontend_tools: bool | Collection[str] = False) -> None:
        self._fleet = fleet
        self._agent = agent
        self._frontend_tools = frontend_tools
        self._sessions: dict[tuple[str, str], FleetServedSession] = {}
        """The sessions in use, by user and id: an id that a user has only reserved keeps nobody from a session."""
        self._is_over = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End the streams of all readers. The sessions go on."""
        self._is_over = True
        await run_to_its_end(self._end_all, name="claude_agent_py sessions")

    async def _end_all(self) -> None:
        for session in tuple(self._sessions.values()):
            await session.end()

    async def create(self, *, user: str = "", session_id: str | None = None) -> "FleetServedSession":
        """Return a new session. It is in the fleet with its first prompt; until then, only this server knows it.

        Raises:
            OptionsError: The id is not valid, or is taken.
            FleetError: The fleet does not answer.
        """
        name = session_id or str(uuid4())
        if (user, name) in self._sessions or await self._find(name) is not None:
            raise OptionsError(f"must be a new id, not {name!r}", option="session_id")
        return await self._open(name, user, None)

    async def get(self, session_id: str, *, user: str = "") -> "FleetServedSession":
        """Return a session.

        Raises:
            SessionNotFoundError: There is no such session, or it belongs to another user.
            FleetError: The fleet does not answer.
        """
        session = self._sessions.get((user, session_id))
        if session is None:
            info = await self._find(session_id)
            if info is None or info.agent != self._agent or info.tenant != user:
                raise SessionNotFoundError(f"there is no session {session_id!r}")
            return await self._open(session_id, user, info)
        session.keep()
        return session

    async def list(self, *, user: str = "") -> Sequence[ListedSession]:
        """Return the latest sessions of a user."""
        found = await self._fleet.list(agent=self._agent, tenant=user, limit=MAX_LISTED)
        return [
            ListedSession(id=info.id, state=info.state, title=info.title or info.id[:8], changed_at=info.updated_at)
            for info in found
        ]

    async def _find(self, session_id: str) -> FleetSessionInfo | None:
        try:
            return await self._fleet.session(session_id).info()
        except FleetError as error:
            if error.is_retryable:
                raise
            return None

    async def _open(self, session_id: str, user: str, info: FleetSessionInfo | None) -> "FleetServedSession":
        tools = (
            FleetTools(self._frontend_tools, self._fleet.session(session_id), user) if self._frontend_tools else None
        )
        session = FleetServedSession(self._fleet, self._agent, session_id, user, info, tools, known=self._sessions)
        if info is not None:
            await session.begin(info)
        if self._is_over:
            await session.end()
        session = self._sessions.setdefault((user, session_id), session)  # another request may have been faster
        session.keep()
        return session


class FleetTools(FrontendTools):
    """The tools of the client of a session, whose calls are questions of the session.

    Args:
        allowed: The names that a client may use; True allows any.
        handle: The session in the fleet.
        owner: Who answers.
    """

    def __init__(self, allowed: bool | Collection[str], handle: FleetSession, owner: str) -> None:
        super().__init__(allowed)
        self._handle = handle
        self._owner = owner
        self._waiting: dict[str, float] = {}
        """Since when calls wait; infinity once that was told twice."""

    async def answer(self, results: Mapping[str, CallResult]) -> None:
        """Answer calls; also after their process has ended, and then a worker goes on."""
        self.results.update(results)
        await self._answer(await self._handle.interactions())

    async def _answer(self, asked: Sequence[Interaction]) -> set[str]:
        """Give the results of the calls among questions, and return those that have none."""
        calls = {question.wire.call.id: question for question in asked if is_call(question)}
        for call in calls.keys() & self.results.keys():
            result = self.results[call]
            await calls[call].answer(Accept(result._asdict()), by=self._owner)
        return calls.keys() - self.results.keys()

    async def take(self, asked: Sequence[Interaction]) -> Mapping[str, bool]:
        """Take the calls among questions, and return those of which is to be told that they wait, and if others may.

        They tell it again after a moment, because the CLI may hold back calls of the same message.
        """
        now, found = time.monotonic(), dict[str, bool]()
        waiting = {call: self._waiting.get(call, 0.0) for call in await self._answer(asked)}
        for call, since in waiting.items():
            if now - since > MOMENT:
                waiting[call] = inf if since else now
                found[call] = since > 0
        self._waiting = waiting
        return found


def is_call(question: Interaction) -> bool:
    """Return whether a question asks for the result of a call of a client's tool."""
    wire = question.wire
    return isinstance(wire, ElicitationRequest) and wire.server_name == PROMPT_TOOLS and wire.call is not None


class FleetServedSession(ServedSession):
    """A session of `FleetSessions`."""

    def __init__(
        self,
        fleet: Fleet,
        agent: str,
        session_id: str,
        owner: str,
        info: FleetSessionInfo | None,
        tools: FleetTools | None,
        *,
        known: MutableMapping[tuple[str, str], "FleetServedSession"],
    ) -> None:
        """Create a session. Without `info`, it begins with the first prompt."""
        self._read = 0 if info is None else info.events
        """The number of the last event of the fleet that was read."""
        self._read_deltas = 0
        """The number of the last delta that was read."""
        # A log begins with a number of the fleet instead of a time: the clocks of workers differ.
        super().__init__(session_id, owner, self._read + 1.0)
        self._fleet = fleet
        self._agent = agent
        self._handle = fleet.session(session_id)
        self._exists = info is not None
        self._state: str = "idle" if info is None else info.state
        self._known = known
        self._listening: anyio.CancelScope | None = None
        self._stopped = anyio.Event()
        self._runs: dict[int, str] = {}
        """The prompts whose end the log lacks, by number."""
        self._ends: dict[int, float | None] = {}
        """When prompts ended whose end needs no event any more."""
        self._told: set[int] = set()
        """The prompts whose end a worker has told, which the engine may not have noted yet."""
        self._due: set[int] = set()
        """The prompts that had ended when they were last looked at: their events come first, if they have any."""
        self._used = anyio.Event()
        """Set when there may be news: somebody has sent or answered something."""
        self._starting = anyio.Lock()
        self._answered: set[str] = set()
        """The questions that were answered here."""
        self.frontend: FrontendTools | None = tools
        self._tools = tools

    @property
    def state(self) -> str:
        """The state in the fleet, such as `queued`, `running`, `waiting` or `idle`."""
        return self._state

    @property
    def is_busy(self) -> bool:
        """Whether a prompt has not been answered."""
        return bool(self._open_prompts) or self._state not in _AT_REST

    @property
    def is_blocked(self) -> bool:
        """Whether it waits for an answer."""
        return bool(self.questions)

    def list_waited_agents(self) -> Sequence[tuple[str, str, str, str | None]]:
        """Return nothing: they are in the process of a worker."""
        return ()

    async def send(self, prompt: str, *, prompt_id: str | None = None) -> str:
        """Send a prompt. Its id is that of the fleet; `prompt_id` only keeps it from being sent twice."""
        self.keep()
        tools = [] if self.frontend is None else [each.define() for each in self.frontend.offered]
        key, owner = prompt_id or str(uuid4()), self.owner
        async with self._starting:
            if not self._exists:
                await self._fleet.start(
                    self._agent, prompt, id=self.id, tenant=owner, key=key, tools=tools, actor=owner
                )
                if (await self._handle.info()).tenant != self.owner:  # somebody else has just taken the id
                    raise SessionNotFoundError(f"there is no session {self.id!r}")
                self._exists = True
            # Whoever started the session sent its first prompt, which has the key; here, or at another server.
            number = await self._handle.send(prompt, key=key, tools=tools, actor=owner)
        outcome = await self._handle.outcome(number)
        if outcome.state not in _ENDED:
            self._expect(number, outcome.prompt_uuid)
            self._state = outcome.state
        self._used.set()
        return outcome.prompt_uuid

    async def answer(self, question_id: str, answer: JSONMapping, *, by: str = "") -> bool:
        """Answer a question; also after its process has ended, and then a worker goes on."""
        is_first = await super().answer(question_id, answer, by=by)
        if is_first:
            self._answered.add(question_id)
            self._state = "queued"
            self._used.set()
        return is_first

    async def stop(self) -> None:
        """Interrupt the turn."""
        if self._exists:
            await self._handle.interrupt(actor=self.owner)

    async def read_output(self, task_id: str) -> str | None:
        """Return None: the files of tasks are on the machine of the worker."""
        return None

    async def stop_task(self, task_id: str) -> bool:
        """Return False: tasks are in the process of a worker."""
        return False

    async def end(self) -> None:
        """End the streams of all readers."""
        self._is_over = True
        self._wake()
        if self._listening is not None:
            self._listening.cancel()
            with anyio.CancelScope(shield=True):
                await self._stopped.wait()

    async def _find_question(self, question_id: str) -> Interaction | None:
        found = self.questions.get(question_id)
        if found is None and self._exists:  # asked since the last look
            found = next((each for each in await self._handle.interactions() if each.id == question_id), None)
        return found

    async def _load_stored(self, until: float) -> Sequence[bytes]:
        found: deque[bytes] = deque(maxlen=MAX_STORED)
        position, is_in_turn = 0, False
        while position < until - 1 and (events := await self._handle.read_events(position)):
            for event in events:
                position = event.number
                if position < until and (fact := _read_fact(event)) is not None:
                    found.append(wrap(fact))
                    if isinstance(fact, TurnStarted | TurnEnded):
                        is_in_turn = isinstance(fact, TurnStarted)
        return [*found, _CLOSED] if is_in_turn and not self.is_busy else found

    # Following ----------------------------------------------------------------------------------------------------

    def keep(self) -> None:
        """Follow the fleet, for some time also without readers."""
        self.note_use()
        if self._listening is None and not self._is_over:
            self._known.setdefault((self.owner, self.id), self)
            self._listening, self._stopped = anyio.CancelScope(), anyio.Event()
            spawn_detached(self._listen, name="claude_agent_py served session")

    def _reader_came(self) -> None:
        self.keep()

    @property
    def _is_used(self) -> bool:
        unused = time.monotonic() - self.used_at
        return bool(self._positions) or unused < (UNUSED_SECONDS if self._exists else UNSENT_SECONDS)

    async def _listen(self) -> None:
        """Turn what the fleet knows into events, until nobody has read or sent for a while."""
        assert self._listening is not None  # noqa: S101 - `keep` sets it
        looked_at = -LOOK_SECONDS
        try:
            with self._listening:
                while self._is_used:
                    is_due = bool(self._told) or time.monotonic() - looked_at >= LOOK_SECONDS
                    try:
                        has_news = self._exists and await self.catch_up(is_due=is_due)
                    except FleetError as error:
                        if not error.is_retryable:
                            return  # it was deleted
                        has_news = False  # the fleet is away for a moment
                    if has_news:
                        looked_at = -LOOK_SECONDS
                    elif is_due:
                        looked_at = time.monotonic()
                    with anyio.move_on_after(POLL_SECONDS if self._state in _AT_WORK else LOOK_SECONDS):
                        await self._used.wait()
                    self._used = anyio.Event()
        finally:
            if self._positions:  # they come back, to what there is then
                self._is_over = True
                self._wake()
            self._listening = None
            self._stopped.set()
            if self._known.get((self.owner, self.id)) is self:
                del self._known[self.owner, self.id]

    async def catch_up(self, *, is_due: bool = True) -> bool:
        """Take the new events of the fleet; if it is due, also what is no event. Return whether there were any."""
        asked = await self._handle.interactions() if is_due else None
        events = list(await self._handle.read_events(self._read, PAGE))
        while len(events) % PAGE == 0 and events and (more := await self._handle.read_events(events[-1].number, PAGE)):
            events += more
        deltas = await self._read_new_deltas() if events or self._state in _AT_WORK else []
        last = events[-1].number if events else self._read
        if (newest := max((delta.whole or 0 for delta in deltas), default=0)) > last:
            # A fact was written since the events were read: it comes before the deltas of what follows it.
            events += await self._handle.read_events(last, newest - last)
        for event in events:
            if (fact := _read_fact(event)) is not None:
                self._tell_deltas(deltas, _count_until(deltas, fact))
                self._take_fact(fact, event.number)
            elif event.kind == "run" and event.data.get("state") in _ENDED:
                self._told.add(event.run)
            elif event.kind in ("run", "state") and (event.kind == "run") == (event.data.get("state") == "running"):
                self.log.merge()  # another process begins, or none is at work: what is not whole stays so
            self._read = event.number
            deltas = self._leave_out_whole(deltas)
        self._tell_deltas(deltas, len(deltas))
        if asked is not None:  # all that came before a question has been read
            if self._tools is not None:
                for call, blocks in (await self._tools.take(asked)).items():
                    self._show_call(call, blocks)
                asked = [each for each in asked if not is_call(each)]
            self._tell_questions(asked)
            await self._look()
        return bool(events)

    async def _read_new_deltas(self) -> list[FleetDelta]:
        """Return the deltas since the last call. Whoever tells a fact reads them first, and so tells none after it."""
        found = await self._handle.read_deltas(self._read_deltas)
        if found:
            self._read_deltas = found[-1].number
        return self._leave_out_whole(found)

    def _leave_out_whole(self, deltas: Sequence[FleetDelta]) -> list[FleetDelta]:
        """Return the deltas without those of what is told, or was cut off before the last event that was read."""
        return [delta for delta in deltas if delta.whole is None or delta.whole > self._read]

    def _tell_deltas(self, deltas: list[FleetDelta], count: int) -> None:
        """Tell the first deltas, and remove them."""
        for delta in deltas[:count]:
            self._add(describe_delta(Delta(delta.kind, delta.id, delta.text)), part_of=delta.id)
        del deltas[:count]

    def _tell_questions(self, asked: Sequence[Interaction]) -> None:
        open_ids = {question.id for question in asked}
        for question_id in self.questions.keys() - open_ids:
            self._settle_question(question_id, was_answered=True if question_id in self._answered else None)
        for question in asked:
            if question.id not in self.questions:
                self._open_question(question)

    def _expect(self, number: int, prompt_id: str) -> None:
        self._runs[number] = prompt_id
        self._open_prompts[prompt_id] = False

    async def begin(self, info: FleetSessionInfo) -> None:
        """Take what is in the fleet already: the open questions, and the last prompt unless it had ended."""
        outcome = await self._handle.outcome(info.runs)
        if info.state in _AT_REST:
            self._ends[info.runs] = outcome.ended_at
        else:
            self._expect(info.runs, outcome.prompt_uuid)
        await self.catch_up()
        if info.state in _AT_REST:
            self._leave_turn()

    async def _look(self) -> None:
        """Look at the state, and at the ends of prompts. Those that no worker ran may have had no event."""
        info = await self._handle.info()
        self._state = info.state
        numbers = {*self._runs, info.runs} - self._ends.keys() if info.state in _AT_REST else set[int]()
        for number in sorted(numbers | self._told):
            outcome = await self._handle.outcome(number)
            if outcome.state not in _ENDED:
                continue
            if self._ends.get(number, -1.0) == outcome.ended_at:
                self._told.discard(number)
            elif number in self._told or number in self._due:
                self._end_run(number, outcome)
            else:
                self._due.add(number)

    def _leave_turn(self) -> None:
        """End a turn whose process had ended before it, if nothing runs and all events were read."""
        if self._in_turn and self._state in _AT_REST:
            self._in_turn = False
            self._add(json.loads(_CLOSED))

    def _end_run(self, number: int, outcome: FleetOutcome) -> None:
        if self.frontend is not None:
            self.frontend.forget()
        self._ends[number] = outcome.ended_at  # it has another one if it is sent again
        self._told.discard(number)
        self._due.discard(number)
        prompt_id = self._runs.pop(number, "") or outcome.prompt_uuid
        self._leave_turn()
        status = {"done": "ok", "cancelled": "cancelled"}.get(outcome.state, "error")
        self._end_prompt(prompt_id, status, outcome.text, outcome.reason or outcome.error)


def _count_until(deltas: Sequence[FleetDelta], fact: Fact) -> int:
    """Return how many deltas there are up to the last one of what a fact has; 0 if it has none of them."""
    if isinstance(fact, CallStarted):
        kinds = {"call", "arguments"}
    elif isinstance(fact, MessageAdded):
        kinds = {_KINDS.get(block.type, "") for block in fact.content}
    else:
        return 0
    matches = [delta.id == fact.id and delta.kind in kinds for delta in deltas]
    if True not in matches:
        return 0
    first = matches.index(True)
    return matches.index(False, first) if False in matches[first:] else len(matches)


def _read_fact(event: FleetEvent) -> Fact | None:
    """Return the fact of an event; None if it has none that this version knows."""
    if event.kind != "fact":
        return None
    try:
        return decode_fact(json.dumps(event.data))
    except ValueError as error:
        logger.warning("event %d of session %r is no fact: %s", event.number, event.session_id, error)
        return None
