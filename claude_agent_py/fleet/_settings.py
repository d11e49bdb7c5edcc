"""`FleetSettings`: what a process knows of its fleet, for `Fleet` and `Worker`."""

from datetime import timedelta
from typing import Any

from claude_agent_py._base.errors import OptionsError
from claude_agent_py.fleet.agents import FleetAgent
from claude_agent_py.sessions import SessionStore


class FleetSettings:
    """The settings of a fleet, and the agents and schedules that this process has registered."""

    lease: float
    poll: float
    tenant_limit: int | None
    max_crashes: int
    retention: float | None
    event_retention: float | None
    agents: dict[tuple[str, str], FleetAgent]
    """The registered agents of this process, by name and version."""
    schedules: dict[str, dict[str, Any]]
    """The schedules of this process, by name."""
    _store: SessionStore | None

    @property
    def store(self) -> SessionStore:
        """The session store. Raises OptionsError if the fleet has none."""
        if self._store is None:
            raise OptionsError(
                "must be set to open a worker, and on Temporal to read events: Fleet(url, store=...)", option="store"
            )
        return self._store

    @property
    def agent_limits(self) -> dict[str, int]:
        """How many sessions of the registered agents may run concurrently, of those that have a limit."""
        return {agent.name: agent.limit for agent in self.agents.values() if agent.limit is not None}


def read_seconds(time: float | timedelta, option: str) -> float:
    """Return a time in seconds. Raises OptionsError."""
    seconds = time.total_seconds() if isinstance(time, timedelta) else time
    if not seconds >= 0:
        raise OptionsError("must not be negative", option=option)
    return seconds
