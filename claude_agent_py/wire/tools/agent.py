"""Tools that start agents and talk to them: Agent (once Task), Workflow, SendMessage, ListAgents, Skill.

Owns the shapes only. What becomes of an agent afterwards arrives as task messages (`wire.tasks`). Source: the tool
schemas of CLI 2.1.328; the fields that only older or newer versions have are optional.
"""

from typing import Any, ClassVar, Literal, TypeAlias

from msgspec import field

from claude_agent_py.wire.base import CamelModel, FrameModel, Number, Open, WireModel

Effort: TypeAlias = Open[Literal["low", "medium", "high", "xhigh", "max"]]


class TaskInput(FrameModel):
    """Start a subagent. The tool is called `Agent` since CLI 2.1; `Task` is its old name, and still accepted."""

    description: str
    """What the agent is for, in three to five words."""
    prompt: str
    subagent_type: str | None = None
    model: Open[Literal["sonnet", "opus", "haiku", "fable"]] | None = None
    effort: Effort | None = None
    run_in_background: bool | None = None
    """Absent means yes, unless the agent's definition says otherwise: only an explicit False waits for the agent."""
    resume: str | None = None
    """The id of an agent to go on with. Only older CLIs; since 2.1 one sends it a message instead (`SendMessage`)."""
    max_turns: int | None = None
    """Only older CLIs; since 2.1 a matter of the agent's definition."""
    name: str | None = None
    """Makes the agent reachable by `SendMessage` while it runs."""
    team_name: str | None = None
    """Deprecated, ignored."""
    mode: str | None = None
    """Deprecated, ignored: a subagent has the permission mode of its parent."""
    isolation: Open[Literal["worktree", "remote"]] | None = None


AgentInput = TaskInput


class AgentContentBlock(WireModel):
    """A piece of text that an agent handed back."""

    type: Open[Literal["text"]] = "text"
    text: str = ""
    citations: list[Any] | None = None


class AgentUsage(WireModel):
    """The tokens an agent used, summed over its requests."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    server_tool_use: dict[str, Any] | None = None
    service_tier: str | None = None
    cache_creation: dict[str, Any] | None = None


class AgentToolStats(CamelModel):
    """How often an agent used which kind of tool."""

    read_count: int = 0
    search_count: int = 0
    bash_count: int = 0
    edit_file_count: int = 0
    lines_added: int = 0
    lines_removed: int = 0
    other_tool_count: int = 0
    frame_count: int | None = None


class AgentCompletedOutput(FrameModel, rename="camel"):
    """A foreground agent is done."""

    status: ClassVar[Literal["completed"]] = "completed"
    agent_id: str
    agent_type: str | None = None
    content: list[AgentContentBlock] = field(default_factory=list)
    """What the agent handed back. The first block may be a note of the CLI: see `report`."""
    prompt: str = ""
    resolved_model: str | None = None
    models_used: list[str] | None = None
    total_tool_use_count: int = 0
    total_duration_ms: Number = 0
    total_tokens: int = 0
    usage: AgentUsage | None = None
    tools_used: list[str] | None = None
    tool_stats: AgentToolStats | None = None
    worktree_path: str | None = None
    worktree_branch: str | None = None
    can_continue_agent: bool | None = None

    @property
    def report(self) -> str:
        """The agent's own answer: the last text block (those before it may be notes of the CLI)."""
        return self.content[-1].text if self.content else ""


class AgentAsyncLaunchedOutput(FrameModel, rename="camel"):
    """An agent was started in the background, or moved there."""

    status: ClassVar[Literal["async_launched"]] = "async_launched"
    is_async: bool | None = None
    agent_id: str
    """Also the id of its task."""
    description: str = ""
    prompt: str = ""
    output_file: str = ""
    resolved_model: str | None = None
    models_used: list[str] | None = None
    can_read_output_file: bool | None = None
    can_continue_agent: bool | None = None


class AgentRemoteLaunchedOutput(FrameModel, rename="camel"):
    """An agent was started in the cloud."""

    status: ClassVar[Literal["remote_launched"]] = "remote_launched"
    task_id: str
    session_url: str = ""
    description: str = ""
    prompt: str = ""
    output_file: str = ""


AgentOutput: TypeAlias = AgentCompletedOutput | AgentAsyncLaunchedOutput | AgentRemoteLaunchedOutput


class WorkflowInput(FrameModel, rename="camel"):
    """Run a script that orchestrates agents."""

    script: str | None = None
    name: str | None = None
    description: str | None = None
    """Ignored by the CLI, as is `title`."""
    title: str | None = None
    args: Any = None
    script_path: str | None = None
    """Wins over `script`."""
    resume_from_run_id: str | None = None


class WorkflowOutput(FrameModel, rename="camel"):
    """A workflow was started; it is a task of its own."""

    status: Open[Literal["async_launched", "remote_launched"]]
    task_id: str
    task_type: Open[Literal["local_workflow", "remote_agent"]] | None = None
    workflow_name: str | None = None
    run_id: str | None = None
    summary: str | None = None
    transcript_dir: str | None = None
    script_path: str | None = None
    session_url: str | None = None
    warning: str | None = None
    error: str | None = None


class SendMessageInput(FrameModel):
    """Send a message to an agent. One that is finished is resumed by it, under the id it had."""

    to: str
    """A name, an agent id, or `main`."""
    message: str | dict[str, Any]
    summary: str | None = None
    notify_when_idle: bool | None = None


class AgentPin(WireModel):
    """Which agent a name meant."""

    id: str
    name: str | None = None
    ref: str | None = None


class SendMessageOutput(FrameModel, rename="camel"):
    """Whether the message was taken. `success` says nothing of the agent's having read it."""

    success: bool
    message: str = ""
    display: str | None = None
    resumed_agent_id: str | None = None
    revived_agent_id: str | None = None
    pin: AgentPin | None = None


class ListAgentsInput(FrameModel):
    """List who can be sent a message."""

    channel: str | None = None
    q: str | None = None
    cursor: str | None = None


class ListAgentsOutput(FrameModel):
    """The listing as text, and the same in sections."""

    listing: str
    sections: list[dict[str, Any]] = field(default_factory=list)
    notes: list[Any] = field(default_factory=list)


class SkillInput(FrameModel):
    """Load a skill."""

    skill: str
    args: str | None = None


class SubagentHandbackInput(FrameModel):
    """What a subagent hands back to its parent. The CLI does not declare its fields: all are in `raw`."""
