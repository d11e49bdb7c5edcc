"""`FleetSession`: a session of a fleet, from any process: prompts, results, events, answers."""

import secrets
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final, TypeVar

import anyio

from claude_agent_py._errors import FleetRunError, FleetTimeoutError
from claude_agent_py.fleet import _rows
from claude_agent_py.fleet._database import Database
from claude_agent_py.fleet._inbox import FleetInteraction, open_questions
from claude_agent_py.fleet.agents import check_timeout, prompt_as_json
from claude_agent_py.fleet.records import FleetEvent, FleetOutcome, FleetSessionInfo

T = TypeVar("T")

PAUSES: Final = (0.05, 1.0)
"""Seconds between looks at the database: at first, and at most."""
LOOK_SECONDS: Final = 2.0
"""How much longer than its timeout `result` waits for the database to answer."""
MOST: Final = 500
"""How many events are read at once."""


class FleetSession:
    """A session of a fleet. It holds nothing: make any number, in any process, on asyncio and trio."""

    def __init__(self, database: Database, session_id: str, wake: Callable[[], object]) -> None:
        self._database = database
        self._wake = wake
        self.id: str = session_id
        """The id, as given to `Fleet.start`."""

    def __repr__(self) -> str:
        return f"<FleetSession {self.id}>"

    async def info(self) -> FleetSessionInfo:
        """Return the session as it is now. Raises FleetError if there is none."""
        return await self._database.call(_rows.info, self.id, write=False)

    async def send(self, prompt: str | Sequence[Any], *, timeout: float | None = None, key: str | None = None) -> int:
        """Add a prompt, which is answered after those before it, and return its number.

        Args:
            prompt: Text, or content blocks.
            timeout: Seconds within which it has to be answered, waiting included; None means that of the agent.
            key: Any text. A prompt with a key that the session has already is not added; its number is returned.

        Raises:
            FleetError: The session does not exist, or was cancelled.
            OptionsError: The prompt is empty or has the wrong type, or the timeout is not positive.
        """
        content, limit = prompt_as_json(prompt), check_timeout(timeout)
        name = key or secrets.token_hex(8)  # a call is repeated if its answer is lost
        return await self._change(_rows.send, self.id, content, limit, name)

    async def outcome(self, run: int | None = None) -> FleetOutcome:
        """Return what is known of a run, by default the last one, without waiting."""
        return await self._database.call(_rows.outcome, self.id, run, write=False)

    async def result(self, run: int | None = None, *, timeout: float | None = None) -> FleetOutcome:
        """Wait until a run is over, and return what became of it. Cancelling stops the waiting only.

        Args:
            run: The number of the prompt, as `send` returns it; None means the last one.
            timeout: Seconds to wait.

        Raises:
            FleetRunError: It failed for good, or was cancelled; `outcome` says why.
            FleetTimeoutError: It is not over, or the database did not answer. It goes on.
            FleetError: There is no such session or run, or the database was away for long (`is_retryable`).
        """
        with anyio.move_on_after(None if timeout is None else timeout + LOOK_SECONDS):
            return await self._ended(run, timeout)
        told = f"session {self.id!r}: the database did not answer within {timeout:g} s, whether the run is over"
        raise FleetTimeoutError(told, session_id=self.id)

    async def _ended(self, number: int | None, timeout: float | None) -> FleetOutcome:
        """Return what became of a run, once it is over."""
        deadline = None if timeout is None else time.monotonic() + timeout
        pause = PAUSES[0]
        while True:
            found = await self.outcome(number)
            number = found.run
            if found.state == "done":
                return found
            if found.state in ("failed", "cancelled"):
                why = ": ".join(part for part in (found.error, found.reason) if part) or found.state
                told = f"run {found.run} of session {self.id!r} has {found.state}: {why}"
                raise FleetRunError(told.replace("has cancelled", "was cancelled"), session_id=self.id, outcome=found)
            if deadline is not None and time.monotonic() >= deadline:
                told = f"run {found.run} of session {self.id!r} was not over within {timeout:g} s"
                raise FleetTimeoutError(told, session_id=self.id)
            await anyio.sleep(pause)
            pause = min(pause * 1.5, PAUSES[1])

    async def events(self, *, after: int = 0, follow: bool = False) -> AsyncIterator[FleetEvent]:
        """Iterate over the events with a number above `after`, from this or an earlier process on.

        It ends when the session has nothing to do: it is idle, waits for a person, has failed or was cancelled. With
        `follow` it waits for more, until it is cancelled.

        Raises:
            FleetError: There is no such session, or the database was away for long (`is_retryable`): go on `after` the
                last number.
        """
        pause = PAUSES[0]
        while True:
            found, info = await self._database.call(_rows.read_events, self.id, after, MOST, write=False)
            for event in found:
                after = event.number
                yield event
            if found:
                pause = PAUSES[0]
            elif not follow and info.state not in ("queued", "running"):
                return
            else:
                await anyio.sleep(pause)
                pause = min(pause * 1.5, PAUSES[1])

    async def interactions(self) -> Sequence[FleetInteraction]:
        """Return the questions that wait for a person, oldest first."""
        return await open_questions(self._database, self.id)

    async def answer(self, interaction_id: str, value: Any, *, by: str = "") -> bool:
        """Answer a question. When all of the session are answered, it goes on, on any worker.

        Args:
            interaction_id: The id, of `interactions` or of an event.
            value: What a handler of this kind returns: `Allow()`, `Deny("why")`, answers to questions, `Accept(...)`.
            by: Who answers, for records; empty means the user of this process.

        Returns:
            False if it was answered or withdrawn before.

        Raises:
            ValueError: The value does not answer this question, which keeps waiting.
            FleetError: There is no such session, or it has not asked this question.
        """
        found = next((one for one in await self.interactions() if one.id == interaction_id), None)
        if found is None:
            await self._database.call(_rows.check_asked, self.id, interaction_id, write=False)
            return False
        is_first = await found.answer(value, by=by)
        self._wake()
        return is_first

    async def interrupt(self) -> bool:
        """Interrupt the run at hand, and return whether there was one. The next prompt, if any, follows."""
        return await self._change(_rows.interrupt, self.id)

    async def cancel(self, reason: str = "cancelled") -> bool:
        """Cancel the session for good, with all its prompts. Returns False if it was cancelled before."""
        return await self._change(_rows.cancel, self.id, reason)

    async def retry(self) -> int:
        """Send the prompt of a failed session again, and return its number.

        Raises:
            FleetError: The session has not failed.
        """
        return await self._change(_rows.retry, self.id)

    async def _change(self, work: Callable[..., T], *args: Any) -> T:
        result = await self._database.call(work, *args)
        self._wake()
        return result
