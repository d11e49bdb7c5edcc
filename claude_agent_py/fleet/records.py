"""Records of sessions, runs, events, workers and tenants, read from the fleet's database."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

from claude_agent_py._base.json_object import JSONMapping
from claude_agent_py.durable import DeltaKind
from claude_agent_py.wire import JSONObject

SessionState: TypeAlias = Literal["queued", "running", "waiting", "idle", "failed", "cancelled"]
"""`queued`: waits for a worker or, after an error, for `not_before`. `waiting`: a person has to answer, and no process
runs. `idle`: nothing to do until the next prompt. `failed`: a dead letter, until `retry`."""

RunState: TypeAlias = Literal["queued", "running", "done", "failed", "cancelled"]


@dataclass(frozen=True, kw_only=True)
class _Record:
    def to_dict(self) -> JSONObject:
        """Return the record as JSON."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class FleetOutcome(_Record):
    """The outcome of a prompt."""

    session_id: str
    """The id of the session in the fleet."""
    run: int
    """The number of the prompt in its session, from 1."""
    state: RunState
    text: str = ""
    """The answer."""
    output: Any = None
    """The structured output, as plain JSON."""
    error: str = ""
    """The name of the error's class, such as `MaxTurnsError`; empty on success. `WorkerDied`: too many workers died
    while running it; `EarlierPromptFailed`: it waited behind a prompt that failed."""
    reason: str = ""
    """Why the prompt failed."""
    prompt_uuid: str = ""
    """The uuid of the prompt in the conversation."""
    cli_session_id: str = ""
    """The id of the conversation, for `resume` and the session store."""
    num_turns: int = 0
    cost_usd: float = 0.0
    """The cost of the prompt, over all processes that could report theirs, as estimated by the CLI."""
    usage: JSONMapping | None = None
    """The token usage of the main agent in the prompt's turn."""
    worker: str = ""
    """The worker that got the result."""
    is_recovered: bool = False
    """Whether the answer was read from the session store because the worker that got it died."""
    attempts: int = 0
    """How many earlier attempts failed. Waiting for the reset of a rate limit is none."""
    crashes: int = 0
    """How many workers died while running it."""
    started_at: float | None = None
    """In seconds since the epoch."""
    ended_at: float | None = None


@dataclass(frozen=True, kw_only=True)
class FleetSessionInfo(_Record):
    """A session of a fleet, read from the database."""

    id: str
    agent: str
    version: str
    state: SessionState
    title: str = ""
    """The beginning of its first prompt."""
    tenant: str = ""
    priority: int = 0
    runs: int = 0
    """How many prompts it has received."""
    events: int = 0
    """The number of its last event; 0 on Temporal, where the events are in the session store."""
    worker: str | None = None
    """The worker that runs it."""
    machine: str | None = None
    """The machine that has its workspace."""
    workspace: str | None = None
    """The path of the workspace on that machine; None before it is made, and after it was removed."""
    not_before: float = 0.0
    """When it may continue, in seconds since the epoch, if it is `queued` after a rate limit or an error."""
    cli_session_id: str = ""
    """The id of the conversation, for `resume` and the session store."""
    reason: str | None = None
    """Why it is `failed` or `cancelled`, waits for `not_before`, or is `queued` although no worker can run it."""
    created_at: float = 0.0
    updated_at: float = 0.0


@dataclass(frozen=True, kw_only=True)
class FleetEvent(_Record):
    """An event of a session. The numbers start at 1 and have no gaps.

    If old events were pruned, the first one is `pruned`, with the number of the last of them.
    """

    session_id: str
    number: int
    run: int
    """The number of the current prompt; 0 before the first."""
    kind: str
    """`fact`: a fact of the session's journal; `run`: a prompt was sent, started or ended; and only on SQLite
    `interaction`: a question to a person, or its answer; `state`: the session's new state; `pruned`: this event and
    those before it were deleted, and `data` has the numbers of the `first` and the `last`."""
    at: float
    """In seconds since the epoch."""
    data: JSONMapping
    """`journal.decode_fact(json.dumps(data))` decodes a `fact`."""


@dataclass(frozen=True, kw_only=True)
class FleetDelta(_Record):
    """A piece of what the model writes. Workers delete it some seconds after an event has all of it."""

    session_id: str
    number: int
    """Numbers grow, and have gaps."""
    kind: DeltaKind
    """`text` or `reasoning` of a message, the beginning of a `call`, or a piece of its `arguments`."""
    id: str
    """The `id` of the fact that will have all of it, `message_added` or `call_started`."""
    text: str
    """The further text, or JSON of the arguments; of a `call` the name of the tool."""
    whole: int | None = None
    """Once an event has it, the number of that or a later event. None while it is written."""


@dataclass(frozen=True, kw_only=True)
class FleetAuditEntry(_Record):
    """A command that somebody gave."""

    number: int
    """Numbers grow, and may have gaps."""
    at: float
    """In seconds since the epoch."""
    actor: str
    """Who gave the command: `actor` of the call, by default the user of the process; `schedule:<name>` for a
    schedule."""
    origin: str
    """The process that gave it, and its machine."""
    action: str
    """`start`, `send`, `answer`, `interrupt`, `cancel`, `retry`, `prune_events`, or of the fleet: `tenant`, `drain`,
    `prune`, `unschedule`, `missed`."""
    session_id: str | None
    """The session; None for a command that concerns none."""
    details: JSONMapping
    """What else is known, such as the number of the prompt or the reason. Prompts and answers are not repeated."""


@dataclass(frozen=True, kw_only=True)
class FleetWorkerInfo(_Record):
    """A worker that is alive, or not yet declared dead."""

    id: str
    machine: str
    pid: int
    slots: int
    """The maximum number of sessions it runs."""
    running: int = 0
    """How many sessions it runs."""
    memory: int | None = None
    """How many bytes its sessions may use."""
    memory_used: int = 0
    """How many bytes they used at the last measurement."""
    is_draining: bool = False
    started_at: float = 0.0
    expires_at: float
    """When it counts as dead unless it sends a heartbeat before."""
    release_at: float | None = None
    """When a worker that drains releases the sessions that still run."""


@dataclass(frozen=True, kw_only=True)
class FleetTenantInfo(_Record):
    """A tenant with sessions or settings."""

    name: str
    limit: int | None = None
    """How many of its sessions may run concurrently; None means `Fleet(tenant_limit=...)`."""
    weight: float = 1.0
    """Its share of the workers among tenants with queued sessions."""
    sessions: Mapping[str, int] = field(default_factory=dict[str, int])
    """How many sessions it has in each state."""
