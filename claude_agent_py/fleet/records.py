"""What a fleet tells of its sessions: values, read from its database."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

SessionState: TypeAlias = Literal["queued", "running", "waiting", "idle", "failed", "cancelled"]
"""`queued`: a worker takes it when it can, or, after a rate limit, when it may. `waiting`: a person has to answer, and
no process runs. `idle`: nothing to do until the next prompt. `failed`: a dead letter, until `retry`."""

RunState: TypeAlias = Literal["queued", "running", "done", "failed", "cancelled"]


@dataclass(frozen=True, kw_only=True)
class _Record:
    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class FleetOutcome(_Record):
    """What became of a prompt."""

    session_id: str
    """The session of the fleet."""
    run: int
    """The number of the prompt in its session, from 1."""
    state: RunState
    text: str = ""
    """The answer."""
    output: Any = None
    """The structured output, as plain JSON."""
    error: str = ""
    """The name of the error's class, such as `MaxTurnsError`; empty on success."""
    reason: str = ""
    """Why it failed."""
    prompt_uuid: str = ""
    """The uuid of the prompt that was answered."""
    cli_session_id: str = ""
    """The conversation, for `resume` and the session store."""
    num_turns: int = 0
    cost_usd: float = 0.0
    """Of the process that brought the result, as estimated by the CLI."""
    usage: Mapping[str, Any] | None = None
    """The token usage of the main agent in the prompt's turn."""
    worker: str = ""
    """The worker that brought the result."""
    is_recovered: bool = False
    """Whether the answer was read from the session store, because the worker that got it died."""
    attempts: int = 0
    """How many attempts failed before."""
    crashes: int = 0
    """How many workers died at it."""
    started_at: float | None = None
    """In seconds since the epoch."""
    ended_at: float | None = None


@dataclass(frozen=True, kw_only=True)
class FleetSessionInfo(_Record):
    """A session of a fleet, as it is in the database."""

    id: str
    agent: str
    version: str
    state: SessionState
    tenant: str = ""
    priority: int = 0
    runs: int = 0
    """How many prompts it has got."""
    events: int = 0
    """The number of its last event."""
    worker: str | None = None
    """The worker that runs it."""
    machine: str | None = None
    """The machine that has its workspace."""
    not_before: float = 0.0
    """When it may go on, in seconds since the epoch, if it is `queued` after a rate limit or an error."""
    cli_session_id: str = ""
    """The conversation, for `resume` and the session store."""
    reason: str | None = None
    """Why it is `failed` or `cancelled`, or waits for `not_before`."""
    created_at: float = 0.0
    updated_at: float = 0.0


@dataclass(frozen=True, kw_only=True)
class FleetEvent(_Record):
    """Something that happened in a session. Their numbers have no gaps, and begin with 1."""

    session_id: str
    number: int
    run: int
    """The prompt that was being answered; 0 before the first."""
    kind: str
    """`message`: a message of the CLI; `task`: an event of a background task; `interaction`: a question to a person, or
    its answer; `state`: the session's new state; `run`: a prompt was sent, begun, or is over."""
    at: float
    """In seconds since the epoch."""
    data: Mapping[str, Any]
    """A `message` is as the CLI sent it; `wire.decode(json.dumps(data))` makes an object of it."""


@dataclass(frozen=True, kw_only=True)
class FleetWorkerInfo(_Record):
    """A worker that lives, or was not yet found dead."""

    id: str
    machine: str
    pid: int
    slots: int
    """How many sessions it runs at most."""
    running: int
    """How many it runs."""
    memory: int | None
    """How many bytes its sessions may use."""
    memory_used: int
    """How many they used a moment ago."""
    is_draining: bool
    started_at: float
    expires_at: float
    """When it counts as dead unless it is heard of."""


@dataclass(frozen=True, kw_only=True)
class FleetTenantInfo(_Record):
    """A tenant that has sessions, or limits of its own."""

    name: str
    limit: int | None = None
    """How many of its sessions may run at once; None means `Fleet(tenant_limit=...)`."""
    weight: float = 1.0
    """Its share of the workers among tenants whose sessions wait."""
    sessions: Mapping[str, int] = field(default_factory=dict[str, int])
    """How many sessions it has in each state."""
