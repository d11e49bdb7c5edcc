"""`FleetSession`: prompts, results, events and answers of a fleet session, from any process."""

import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

import anyio

from claude_agent_py._base.errors import FleetRunError, FleetTimeoutError
from claude_agent_py._base.json_object import JSONMapping
from claude_agent_py._base.streams import Polling
from claude_agent_py.fleet._engine import FleetEngine
from claude_agent_py.fleet._interactions import FleetInteraction
from claude_agent_py.fleet.agents import check_positive, name_source, prompt_as_json
from claude_agent_py.fleet.records import FleetDelta, FleetEvent, FleetOutcome, FleetSessionInfo

T = TypeVar("T")

PAUSES: Final = (0.05, 1.0)
"""Seconds between queries of the database: the first pause and the longest."""
LOOK_SECONDS: Final = 2.0
"""Seconds beyond its timeout that `result` waits for the database to answer."""
MAX_EVENTS: Final = 500
"""How many events one query returns at most."""


class FleetSession:
    """A session of a fleet. The object has no state: create any number, in any process, on asyncio and trio."""

    def __init__(self, engine: FleetEngine, session_id: str, wake: Callable[[], object]) -> None:
        self._engine = engine
        self._wake = wake
        self.id: str = session_id
        """The id, as given to `Fleet.start`."""

    def __repr__(self) -> str:
        return f"<FleetSession {self.id}>"

    async def info(self) -> FleetSessionInfo:
        """Return the current state of the session. Raises FleetError if it does not exist."""
        return await self._engine.info(self.id)

    async def send(
        self,
        prompt: str | Sequence[object],
        *,
        timeout: float | None = None,
        key: str | None = None,
        tools: Sequence[JSONMapping] = (),
        actor: str = "",
    ) -> int:
        """Add a prompt and return its number. Prompts are answered in order.

        Args:
            prompt: Text, or content blocks.
            timeout: Seconds within which the prompt has to be answered, including waiting; None means the `timeout` of
                the agent.
            key: Any text. A prompt with a known key is not added again; the number of the first is returned.
            tools: Tools for this prompt whose calls you answer, as in `run_turn`: a call is a question of the session.
            actor: Who sends it, for the audit log; empty means the user of this process.

        Raises:
            FleetError: The session does not exist, or was cancelled.
            OptionsError: The prompt is empty or has the wrong type, a tool is not valid, or the timeout is not
                positive.
        """
        check_positive(timeout=timeout)
        # An engine repeats the call if the connection breaks. The key prevents a second prompt.
        given = prompt_as_json(prompt, tools), timeout, key or secrets.token_hex(8)
        return await self._command(self._engine.send, actor, *given)

    async def outcome(self, run: int | None = None) -> FleetOutcome:
        """Return the current outcome of a run, by default the last one, without waiting."""
        return await self._engine.outcome(self.id, run)

    async def result(self, run: int | None = None, *, timeout: float | None = None) -> FleetOutcome:
        """Wait until a run has ended, and return its outcome. Cancelling only stops the waiting.

        Args:
            run: The number of the prompt, as `send` returns it; None means the last one.
            timeout: Seconds to wait.

        Raises:
            FleetRunError: The run failed permanently, or was cancelled; `outcome` says why.
            FleetTimeoutError: The run has not ended in time, or the database did not answer. The run continues.
            FleetError: The session or run does not exist, or the database was unavailable (`is_retryable`).
        """
        with anyio.move_on_after(None if timeout is None else timeout + LOOK_SECONDS):
            return await self._poll_outcome(run, timeout)
        message = f"session {self.id!r}: the database did not answer within {timeout:g} s"
        raise FleetTimeoutError(message, session_id=self.id)

    async def _poll_outcome(self, number: int | None, timeout: float | None) -> FleetOutcome:
        """Query the database until a run has ended, and return its outcome."""
        deadline = None if timeout is None else time.monotonic() + timeout
        pause = PAUSES[0]
        while True:
            found = await self.outcome(number)
            number = found.run
            if found.state == "done":
                return found
            if found.state in ("failed", "cancelled"):
                reason = ": ".join(part for part in (found.error, found.reason) if part) or found.state
                state = "failed" if found.state == "failed" else "was cancelled"
                message = f"run {found.run} of session {self.id!r} {state}: {reason}"
                raise FleetRunError(message, session_id=self.id, outcome=found)
            if deadline is not None and time.monotonic() >= deadline:
                message = f"run {found.run} of session {self.id!r} did not end within {timeout:g} s"
                raise FleetTimeoutError(message, session_id=self.id)
            await anyio.sleep(pause)
            pause = min(pause * 1.5, PAUSES[1])

    def events(self, *, after: int = 0, follow: bool = False) -> AsyncIterator[FleetEvent]:
        """Iterate over the events with a number above `after`, including events of earlier processes.

        The iteration ends when the session is idle, waits for a person, has failed or was cancelled. With `follow` it
        never ends, and waits for new events. If events above `after` were pruned, the first one is `pruned`, and says
        which.

        Raises:
            FleetError: The session does not exist, or the database was unavailable (`is_retryable`): continue with
                `after` set to the last number.
        """

        async def read() -> Sequence[FleetEvent]:
            nonlocal after
            found, state = await self._engine.events(self.id, after, MAX_EVENTS)
            if found:
                after = found[-1].number
            elif not follow and state not in ("queued", "running"):
                raise StopAsyncIteration
            return found

        return Polling(read, PAUSES)

    async def read_events(self, after: int = 0, limit: int = MAX_EVENTS) -> Sequence[FleetEvent]:
        """Return the next events with a number above `after`, at most about `limit`, without waiting.

        Raises:
            FleetError: The session does not exist, or the database was unavailable (`is_retryable`).
        """
        found, _ = await self._engine.events(self.id, after, limit)
        return found

    async def read_deltas(self, after: int = 0) -> Sequence[FleetDelta]:
        """Return what the model has written in the last seconds, after a number, without waiting.

        Workers write it about five times a second if the options of the agent have `include_partial_messages=True`; on
        Temporal into the session store, if that can delete. Read the events first, and then the deltas, of which some
        belong before these events.

        Raises:
            FleetError: The database was unavailable (`is_retryable`).
        """
        return await self._engine.deltas(self.id, after)

    async def interactions(self) -> Sequence[FleetInteraction]:
        """Return the unanswered questions, oldest first."""
        return [FleetInteraction(self._engine, *found) for found in await self._engine.questions(self.id)]

    async def answer(self, interaction_id: str, value: Any, *, by: str = "") -> bool:
        """Answer a question. When all questions are answered, any worker continues the session.

        Args:
            interaction_id: The id, from `interactions` or an event.
            value: The return value of a handler of this kind: `Allow()`, `Deny("why")`, answers to questions,
                `Accept(...)`.
            by: The name of the person, for the records; empty means the user of this process.

        Returns:
            False if the question was answered or withdrawn before.

        Raises:
            ValueError: The value does not answer this question, which stays open.
            FleetError: The session does not exist, or has not asked this question.
        """
        interactions = {interaction.id: interaction for interaction in await self.interactions()}
        found = interactions.get(interaction_id)
        if found is None:
            await self._engine.check_question(self.id, interaction_id)
            return False
        is_first = await found.answer(value, by=by)
        self._wake()
        return is_first

    async def interrupt(self, *, actor: str = "") -> bool:
        """Interrupt the current run, and return whether there was one. The next prompt, if any, follows."""
        return await self._command(self._engine.interrupt, actor)

    async def cancel(self, reason: str = "cancelled", *, actor: str = "") -> bool:
        """Cancel the session permanently, with all its prompts. Returns False if it was cancelled before."""
        return await self._command(self._engine.cancel, actor, reason)

    async def retry(self, *, actor: str = "") -> int:
        """Send the prompt of a failed session again, with those that failed with it, and return its number.

        Raises:
            FleetError: The session has not failed.
        """
        return await self._command(self._engine.retry, actor)

    async def _command(self, command: Callable[..., Awaitable[T]], actor: str, *given: object) -> T:
        """Give a command, and let the workers of this process look at once."""
        done = await command(self.id, *given, name_source(actor))
        self._wake()
        return done
