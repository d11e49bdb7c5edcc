"""`FleetSettings`: what a process knows of its fleet, for `Fleet` and `Worker`."""

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from claude_agent_py._base.errors import OptionsError
from claude_agent_py.fleet.agents import FleetAgent

if TYPE_CHECKING:
    from claude_agent_py.sessions import SessionStore


class FleetSettings:
    """The settings of a fleet, and the agents and schedules that this process has registered."""

    def __init__(
        self,
        *,
        store: "SessionStore | None" = None,
        lease: float = 30.0,
        poll: float = 0.5,
        tenant_limit: int | None = None,
        max_crashes: int = 5,
        retention: float | timedelta | None = None,
        event_retention: float | timedelta | None = None,
    ) -> None:
        for option, value in (("lease", lease), ("poll", poll), ("tenant_limit", tenant_limit)):
            if value is not None and value <= 0:
                raise OptionsError("must be more than 0", option=option)
        self._store = store
        self.lease = lease
        self.poll = poll
        self.tenant_limit = tenant_limit
        self.max_crashes = max_crashes
        self.retention: float | None = None if retention is None else read_seconds(retention, "retention")
        self.event_retention: float | None = (
            None if event_retention is None else read_seconds(event_retention, "event_retention")
        )
        self.agents: dict[tuple[str, str], FleetAgent] = {}
        """The registered agents of this process, by name and version."""
        self.schedules: dict[str, dict[str, Any]] = {}
        """The schedules of this process, by name."""

    @property
    def store(self) -> "SessionStore":
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
