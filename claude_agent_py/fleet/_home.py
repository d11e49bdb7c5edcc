"""`Home`: what sessions and workers need of their fleet."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from claude_agent_py.fleet._database import Database
    from claude_agent_py.fleet._inbox import FleetInteraction
    from claude_agent_py.fleet.agents import FleetAgent
    from claude_agent_py.sessions.stores.protocol import SessionStore


class Home(Protocol):
    """A `Fleet`."""

    database: "Database"
    lease: float
    poll: float
    tenant_limit: int | None
    max_crashes: int
    retention: float | None
    agents: "dict[tuple[str, str], FleetAgent]"
    schedules: dict[str, dict[str, Any]]

    @property
    def store(self) -> "SessionStore":
        """Where the conversations are."""
        ...

    async def start(self, agent: str, prompt: Any, *, id: str, tenant: str, priority: int, timeout: Any) -> Any:  # noqa: A002
        """Start a session."""
        ...

    async def interactions(self, session_id: str) -> "Sequence[FleetInteraction]":
        """Return the questions that wait."""
        ...

    def worker_began(self, worker: Any) -> None:
        """Note the worker of this process."""
        ...

    def worker_ended(self, worker: Any) -> None:
        """Forget it."""
        ...

    def wake(self) -> None:
        """Let the worker of this process look for work at once."""
        ...

    async def pause(self) -> None:
        """Wait until the next look for work."""
        ...

    def checked_prompt(self, prompt: Any) -> Any:
        """Return a prompt as JSON."""
        ...
