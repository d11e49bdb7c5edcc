"""`FleetEngine`: what a fleet asks of the system that keeps its sessions and runs them.

`Fleet` and `FleetSession` check arguments, and call an engine, which `Fleet` chooses by the address. Any process may
call it, and may repeat calls that take an id or a key. They raise FleetError if the engine does not answer, with
`is_retryable`.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from claude_agent_py.fleet._settings import FleetSettings
from claude_agent_py.fleet._state import FleetQuestion, SessionRecord
from claude_agent_py.fleet.agents import FleetAgent
from claude_agent_py.fleet.metrics import FleetMetrics
from claude_agent_py.fleet.records import (
    FleetAuditEntry,
    FleetDelta,
    FleetEvent,
    FleetOutcome,
    FleetSessionInfo,
    FleetTenantInfo,
    FleetWorkerInfo,
    SessionState,
)
from claude_agent_py.permissions import AnswerSource
from claude_agent_py.sessions import SessionStore
from claude_agent_py.wire import JSONObject

if TYPE_CHECKING:
    from claude_agent_py.fleet.worker import Worker


class FleetEngine(Protocol):
    """Keeps sessions, and runs them in workers.

    Whoever changes something is named by an `AnswerSource`, for the audit log. A change and its entry are one
    transaction, and a change that did nothing has no entry.
    """

    name: str
    """For people, such as `SQLite`."""

    def close(self) -> None:
        """Close the connections. The next call opens new ones."""
        ...

    # Commands to a session -------------------------------------------------------------------------------------------

    async def start(self, new: SessionRecord, known: Sequence[FleetAgent], by: AnswerSource) -> None:
        """Register the agents that this process knows, and start a session unless one with this id exists.

        Raises:
            OptionsError: Nobody has registered the agent, or the session belongs to another one.
        """
        ...

    async def send(self, session: str, prompt: Any, timeout: float | None, key: str, by: AnswerSource) -> int:
        """Add a prompt and return its number, or that of the prompt with this key.

        Raises:
            FleetError: The session does not exist, or was cancelled.
        """
        ...

    async def answer(self, session: str, interaction: str, reply: JSONObject, by: AnswerSource) -> bool:
        """Answer a question. Return False if it was answered or withdrawn before."""
        ...

    async def interrupt(self, session: str, by: AnswerSource) -> bool:
        """Interrupt the current prompt, and return whether there was one."""
        ...

    async def cancel(self, session: str, reason: str, by: AnswerSource) -> bool:
        """Cancel a session for good. Return False if it was cancelled before."""
        ...

    async def retry(self, session: str, by: AnswerSource) -> int:
        """Queue the prompt that failed again, and those that failed with it, and return its number.

        Raises:
            FleetError: The session has not failed.
        """
        ...

    # Queries about a session -----------------------------------------------------------------------------------------

    async def info(self, session: str) -> FleetSessionInfo:
        """Return a session, and why it cannot run. Raises FleetError if it does not exist."""
        ...

    async def outcome(self, session: str, run: int | None) -> FleetOutcome:
        """Return the current outcome of a run, by default the last one. Raises FleetError if it does not exist."""
        ...

    async def events(self, session: str, after: int, limit: int) -> tuple[Sequence[FleetEvent], SessionState]:
        """Return the events after a number, and the state of the session at that moment."""
        ...

    async def deltas(self, session: str, after: int) -> Sequence[FleetDelta]:
        """Return the latest deltas after a number; none if the engine keeps none."""
        ...

    async def questions(self, session: str | None) -> Sequence[tuple[str, FleetQuestion]]:
        """Return the unanswered questions of one session or of all, each with its session, oldest first."""
        ...

    async def check_question(self, session: str, interaction: str) -> None:
        """Raise FleetError unless the session has asked this question."""
        ...

    # The fleet -------------------------------------------------------------------------------------------------------

    async def list_sessions(
        self, state: SessionState | None, agent: str | None, tenant: str | None, limit: int
    ) -> Sequence[FleetSessionInfo]:
        """Return sessions, newest first."""
        ...

    async def count_open_sessions(self) -> int:
        """Return how many sessions are queued or running."""
        ...

    async def list_workers(self) -> Sequence[FleetWorkerInfo]:
        """Return the workers, oldest first."""
        ...

    async def drain_workers(self, worker: str | None, grace: float | None, by: AnswerSource) -> int:
        """Ask one worker or all to finish their prompts within `grace` seconds and exit. Return how many."""
        ...

    async def list_tenants(self) -> Sequence[FleetTenantInfo]:
        """Return the tenants that have sessions or settings, sorted by name."""
        ...

    async def set_tenant(self, name: str, limit: int | None, weight: float, by: AnswerSource) -> None:
        """Set the limit and the weight of a tenant."""
        ...

    async def unschedule(self, name: str, by: AnswerSource) -> bool:
        """Delete a schedule, and return whether it existed."""
        ...

    async def prune(self, store: SessionStore | None, seconds: float, by: AnswerSource) -> int:
        """Delete sessions that ended long ago, and their conversations if a store is given. Return how many."""
        ...

    async def prune_events(self, seconds: float, session: str | None, by: AnswerSource) -> int:
        """Delete old events of one session or of all, and return how many."""
        ...

    async def load_audit(self, after: int, session: str | None, actor: str | None) -> Sequence[FleetAuditEntry]:
        """Return some entries of the audit log after a number, oldest first; none at the end."""
        ...

    async def load_metrics(self, agent_limits: Mapping[str, int]) -> FleetMetrics:
        """Return the figures of the fleet. Raises FleetError if that takes more than some seconds."""
        ...

    # Workers ---------------------------------------------------------------------------------------------------------

    def make_worker(self, settings: FleetSettings, **given: Any) -> "Worker":
        """Return a worker, which is not open yet. `given` are the arguments of `Worker`."""
        ...
