"""The origin of a prompt: a person, the CLI, a task or another session."""

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
"""Who or what sent a user message."""


class MessageOrigin(CamelModel):
    """Who started a turn or wrote a message. `kind` determines which other fields are set."""

    kind: OriginKind
    server: str | None = None
    """For `channel`: the MCP server."""
    from_: str | None = field(default=None, name="from")
    """For `peer` and `observer`: the sender's address or name."""
    from_mode: Open[Literal["bypass", "prompting"]] | None = None
    name: str | None = None
    from_session: str | None = None
    sender_task_id: str | None = None
    """For `peer` and `observer`: the task of the subagent that sent it."""
    body: str | None = None
    verified_peer_pid: Number | None = None
    subkind: (
        Open[Literal["scheduled-trigger", "peer-send-message", "projects-relay", "session-inbox", "external-event"]]
        | None
    ) = None
    """For `task-notification`: the kind of sender, if it was not a task."""
    fire_reason: str | None = None
    producer: Open[Literal["session-task"]] | None = None
    run_id: str | None = None
    """For `task-notification`: the run that ended; None for a monitor's output."""

    @property
    def is_human(self) -> bool:
        """Whether a person, or a program through this library, wrote it."""
        return self.kind == "human"
