"""Where a prompt came from: typed by a person, or put in by the CLI, a task or another session.

Owns `MessageOrigin`. A turn whose result carries an origin other than `human` is not the answer to a prompt of yours.
"""

from typing import Literal, TypeAlias

from msgspec import field

from claude_agent_py.wire.base import CamelModel, Number, Open

OriginKind: TypeAlias = Open[
    Literal[
        "human",
        "channel",
        "peer",
        "task-notification",
        "coordinator",
        "unclassified",
        "observer",
        "auto-continuation",
        "observer-activity",
        "voice-call",
    ]
]


class MessageOrigin(CamelModel):
    """Who caused a turn or wrote a message. `kind` says which of the other fields are there."""

    kind: OriginKind
    server: str | None = None
    """`channel`: the MCP server."""
    from_: str | None = field(default=None, name="from")
    """`peer`, `observer`: the sender's address or name."""
    from_mode: Open[Literal["bypass", "prompting"]] | None = None
    name: str | None = None
    from_session: str | None = None
    sender_task_id: str | None = None
    """`peer`, `observer`: the task of the subagent that sent it."""
    body: str | None = None
    verified_peer_pid: Number | None = None
    subkind: Open[Literal["scheduled-trigger", "peer-send-message", "projects-relay", "session-inbox"]] | None = None
    """`task-notification`: what else than a task."""
    fire_reason: str | None = None
    producer: Open[Literal["session-task"]] | None = None
    run_id: str | None = None
    """`task-notification`: the run of the task that ended; absent for a monitor's output."""

    @property
    def is_human(self) -> bool:
        """Whether a person (or you, through this library) wrote it."""
        return self.kind == "human"
