"""`FleetSessions`: the sessions of a fleet, served to any number of readers.

The prompts, the questions and all events are in the fleet, so nothing ends with the process of the server: another one
goes on where it was, and a question is answered long after the process that asked it has ended. What a worker sends is
whole messages; there are no deltas.
"""

import json
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Self
from uuid import uuid4

import anyio

from claude_agent_py._base.event_loop import spawn_detached
from claude_agent_py.errors import FleetError, OptionsError, SessionNotFoundError
from claude_agent_py.fleet import Fleet, FleetSessionInfo
from claude_agent_py.journal import decode_fact
from claude_agent_py.permissions import Interaction
from claude_agent_py.serve.session import MAX_STORED, ServedSession, wrap
from claude_agent_py.serve.sessions import ListedSession

POLL_SECONDS: Final = 0.2
"""Seconds between two queries for events, while a worker is at work."""
LOOK_SECONDS: Final = 1.0
"""Seconds between two looks at what is no event: questions, and the ends of prompts that no worker ran."""
UNUSED_SECONDS: Final = 60.0
"""After how many seconds without readers a session is no longer followed."""
MAX_LISTED: Final = 500
_AT_WORK: Final = ("queued", "running")
_ENDED: Final = ("done", "failed", "cancelled")


class FleetSessions:
    """The sessions of one agent of a fleet. A user has the sessions of the tenant of the same name.

    Use it as an async context manager, or call `close`. The fleet stays open, and so does its work.

    Args:
        fleet: The fleet. Workers may run in this process or elsewhere.
        agent: The name of the agent.
    """

    def __init__(self, fleet: Fleet, agent: str) -> None:
        self._fleet = fleet
        self._agent = agent
        self._sessions: dict[str, FleetServedSession] = {}
        self._is_over = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End the streams of all readers. The sessions go on."""
        self._is_over = True
        for session in self._sessions.values():
            await session.end()

    async def create(self, *, user: str = "", session_id: str | None = None) -> "FleetServedSession":
        """Return a new session. It is in the fleet with its first prompt.

        Raises:
            OptionsError: The id is not valid, or is taken.
            FleetError: The fleet does not answer.
        """
        name = session_id or str(uuid4())
        if name in self._sessions or await self._find(name) is not None:
            raise OptionsError(f"must be a new id, not {name!r}", option="session_id")
        return self._keep(name, user, None)

    async def get(self, session_id: str, *, user: str = "") -> "FleetServedSession":
        """Return a session.

        Raises:
            SessionNotFoundError: There is no such session, or it belongs to another user.
            FleetError: The fleet does not answer.
        """
        session = self._sessions.get(session_id)
        if session is None and (info := await self._find(session_id)) is not None and info.tenant == user:
            session = self._sessions.get(session_id) or self._keep(session_id, user, info)
        if session is None or session.owner != user:
            raise SessionNotFoundError(f"there is no session {session_id!r}")
        return session

    async def list(self, *, user: str = "") -> Sequence[ListedSession]:
        """Return the latest sessions of a user."""
        found = await self._fleet.list(agent=self._agent, tenant=user, limit=MAX_LISTED)
        return [
            ListedSession(id=info.id, state=info.state, title=f"{info.agent} {info.id[:8]}", changed_at=info.updated_at)
            for info in found
        ]

    async def _find(self, session_id: str) -> FleetSessionInfo | None:
        try:
            info = await self._fleet.session(session_id).info()
        except FleetError as error:
            if error.is_retryable:
                raise
            return None
        return info if info.agent == self._agent else None

    def _keep(self, session_id: str, user: str, info: FleetSessionInfo | None) -> "FleetServedSession":
        session = FleetServedSession(self._fleet, self._agent, session_id, user, info, forget=self._forget)
        self._sessions[session_id] = session
        return session

    def _forget(self, session: "FleetServedSession") -> None:
        if not self._is_over and self._sessions.get(session.id) is session:
            del self._sessions[session.id]


class FleetServedSession(ServedSession):
    """A session of `FleetSessions`."""

    def __init__(
        self,
        fleet: Fleet,
        agent: str,
        session_id: str,
        owner: str,
        info: FleetSessionInfo | None,
        *,
        forget: Callable[["FleetServedSession"], object],
    ) -> None:
        """Create a session. Without `info`, it begins with the first prompt."""
        super().__init__(session_id, owner, 0.0)
        self._fleet = fleet
        self._agent = agent
        self._handle = fleet.session(session_id)
        self._exists = info is not None
        self._state: str = "idle" if info is None else info.state
        self._base = 0 if info is None else info.events
        """The number of the last event of the fleet before the log."""
        self._read = self._base
        self._forget = forget
        self._is_followed = False
        self._runs: dict[int, str] = {}
        """The prompts whose end the log lacks, by number."""
        self._ended: set[int] = set()
        """Those of them that have ended."""
        self._has_looked = False
        self._used = anyio.Event()
        """Set when there may be news: somebody has sent or answered something."""
        self._due: set[int] = set()
        """Those that had ended when they were last looked at."""
        self._starting = anyio.Lock()
        self._answered: set[str] = set()
        """The questions that were answered here."""

    @property
    def state(self) -> str:
        """The state in the fleet, such as `queued`, `running`, `waiting` or `idle`."""
        return self._state

    @property
    def is_blocked(self) -> bool:
        """Whether it waits for an answer."""
        return bool(self.questions)

    def list_waited_agents(self) -> Sequence[tuple[str, str, str, str | None]]:
        """Return nothing: they are in the process of a worker."""
        return ()

    async def send(self, prompt: str, *, prompt_id: str | None = None) -> str:
        """Send a prompt. Its id is that of the fleet; `prompt_id` only keeps it from being sent twice."""
        self._note_use()
        key = prompt_id or str(uuid4())
        async with self._starting:
            if self._exists:
                number = await self._handle.send(prompt, key=key, actor=self.owner)
            else:
                await self._fleet.start(self._agent, prompt, id=self.id, tenant=self.owner, actor=self.owner)
                if (await self._handle.info()).tenant != self.owner:  # somebody else has just taken the id
                    raise SessionNotFoundError(f"there is no session {self.id!r}")
                self._exists, number = True, 1
        outcome = await self._handle.outcome(number)
        if outcome.state not in _ENDED:
            self._runs[number] = outcome.prompt_uuid
            self._open_prompts[outcome.prompt_uuid] = None
            self._state = outcome.state
        self._follow_fleet()
        self._used.set()
        return outcome.prompt_uuid

    async def answer(self, question_id: str, answer: Mapping[str, Any], *, by: str = "") -> bool:
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

    async def _load_stored(self, until: float) -> Sequence[bytes]:
        self._follow_fleet()
        if not self._exists:
            return ()
        found: deque[bytes] = deque(maxlen=MAX_STORED)
        async for event in self._handle.events():
            if event.number > self._base and event.at >= until:
                break
            if event.kind == "fact":
                found.append(wrap(decode_fact(json.dumps(event.data))))
            if event.number >= self._read:
                break
        return found

    # Following ----------------------------------------------------------------------------------------------------

    def _follow_fleet(self) -> None:
        if self._exists and not self._is_followed and not self._is_over:
            self._is_followed = True
            spawn_detached(self._listen, name="claude_agent_py served session")

    async def _listen(self) -> None:
        """Turn what the fleet knows into events, until nobody has read or sent for a while."""
        looked_at = -LOOK_SECONDS
        try:
            while not self._is_over and (self._positions or time.monotonic() - self.used_at < UNUSED_SECONDS):
                try:
                    is_due = time.monotonic() - looked_at >= LOOK_SECONDS
                    asked = await self._handle.interactions() if is_due else None
                    has_news = await self._read_events()
                    if asked is not None:  # all that came before a question has been read
                        self._tell_questions(asked)
                        await self._look()
                        looked_at = time.monotonic()
                except FleetError as error:
                    if not error.is_retryable:
                        raise
                    has_news = False  # the fleet is away for a moment
                if has_news:
                    looked_at = -LOOK_SECONDS
                with anyio.move_on_after(POLL_SECONDS if self._state in _AT_WORK else LOOK_SECONDS):
                    await self._used.wait()
                self._used = anyio.Event()
        finally:
            self._is_followed = False
            self._forget(self)

    async def _read_events(self) -> bool:
        """Read the new events of the fleet. Return whether there were any."""
        events = await self._handle.read_events(self._read)
        for event in events:
            self.used_at: float = time.monotonic()
            if event.kind == "fact":
                self._take_fact(decode_fact(json.dumps(event.data)))
            elif event.kind == "run" and event.data.get("state") in _ENDED:
                await self._end_run(event.run, event.data["state"])
            self._read = event.number
        return bool(events)

    def _tell_questions(self, asked: Sequence[Interaction]) -> None:
        open_ids = {question.id for question in asked}
        for question_id in self.questions.keys() - open_ids:
            self._settle_question(question_id, was_answered=True if question_id in self._answered else None)
        for question in asked:
            if question.id not in self.questions:
                self._open_question(question)

    async def _look(self) -> None:
        """Look at the state, and at the ends of prompts that had no event."""
        info = await self._handle.info()
        self._state = info.state
        if info.state in ("idle", "failed", "cancelled"):
            if self._base and not self._has_looked:
                self._ended.add(info.runs)  # before anybody followed
            await self._find_ends(info.runs)
        self._has_looked = True

    async def _find_ends(self, last: int) -> None:
        """End the prompts that ended without an event, because no worker ran them then."""
        for number in {*self._runs, last} - self._ended:
            outcome = await self._handle.outcome(number)
            if outcome.state not in _ENDED:
                continue
            if number in self._due:
                await self._end_run(number, outcome.state)
            self._due.add(number)  # its events come first, if it has any

    async def _end_run(self, number: int, state: str) -> None:
        if number in self._ended:
            return
        outcome = await self._handle.outcome(number)
        while outcome.state not in _ENDED:  # a worker tells of the end before the engine has noted it
            await anyio.sleep(POLL_SECONDS)
            outcome = await self._handle.outcome(number)
        self._ended.add(number)
        prompt_id = self._runs.pop(number, outcome.prompt_uuid)
        status = {"done": "ok", "cancelled": "cancelled"}.get(state, "error")
        self._end_prompt(prompt_id, status, outcome.text, outcome.reason or outcome.error)
