"""Where a prompt came from: typed by a person, or put in by the CLI, a task or another session.

Owns `MessageOrigin`. A turn whose result carries an origin other than `human` is not the answer to a prompt of yours.
"""

from typing import Literal, TypeAlias

from pydantic import Field

from claude_agent_py.wire.base import CamelModel, Number

OriginKind: TypeAlias = (
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
    | str
)


class MessageOrigin(CamelModel):
    """Who caused a turn or wrote a message. `kind` says which of the other fields are there."""

    kind: OriginKind
    server: str | None = None
    """`channel`: the MCP server."""
    from_: str | None = Field(default=None, alias="from")
    """`peer`, `observer`: the sender's address or name."""
    from_mode: Literal["bypass", "prompting"] | str | None = None
    name: str | None = None
    from_session: str | None = None
    sender_task_id: str | None = None
    """`peer`, `observer`: the task of the subagent that sent it."""
    body: str | None = None
    verified_peer_pid: Number | None = None
    subkind: Literal["scheduled-trigger", "peer-send-message", "projects-relay", "session-inbox"] | str | None = None
    """`task-notification`: what else than a task."""
    fire_reason: str | None = None
    producer: Literal["session-task"] | str | None = None
    run_id: str | None = None
    """`task-notification`: the run of the task that ended; absent for a monitor's output."""

    @property
    def is_human(self) -> bool:
        """Whether a person (or you, through this library) wrote it."""
        return self.kind == "human"
