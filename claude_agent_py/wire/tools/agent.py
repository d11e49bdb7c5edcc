"""Tools that start agents (Agent, formerly Task; Workflow), talk to them, and report findings.

From the tool schemas of CLI 2.1.328. Fields that only other versions have are optional.
"""

from typing import Any, ClassVar, Literal, TypeAlias

from msgspec import field

from claude_agent_py.wire.base import CamelModel, FrameModel, JSONObject, Number, Open, WireModel

Effort: TypeAlias = Open[Literal["low", "medium", "high", "xhigh", "max"]]
"""How much the model of a subagent thinks."""


class TaskInput(FrameModel):
    """Start a subagent. The tool is called `Agent` since CLI 2.1; its old name `Task` is still accepted."""

    description: str
    """The agent's purpose in three to five words."""
    prompt: str
    subagent_type: str | None = None
    model: Open[Literal["sonnet", "opus", "haiku", "fable"]] | None = None
    effort: Effort | None = None
    run_in_background: bool | None = None
    """None means True unless the agent's definition sets it; only an explicit False waits for the agent."""
    resume: str | None = None
    """Id of an agent to resume. Before CLI 2.1 only; newer versions use `SendMessage`."""
    max_turns: int | None = None
    """Before CLI 2.1 only; newer versions set it in the agent's definition."""
    name: str | None = None
    """A name by which `SendMessage` can reach the agent while it runs."""
    team_name: str | None = None
    """Deprecated, ignored."""
    mode: str | None = None
    """Deprecated, ignored: a subagent has the permission mode of its parent."""
    isolation: Open[Literal["worktree", "remote"]] | None = None


AgentInput = TaskInput
"""The input of the tool `Agent`, which older CLIs call `Task`."""


class AgentContentBlock(WireModel):
    """A text block of an agent's report."""

    type: Open[Literal["text"]] = "text"
    text: str = ""
    citations: list[Any] | None = None


class AgentUsage(WireModel):
    """The total token usage of an agent."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    server_tool_use: JSONObject | None = None
    service_tier: str | None = None
    cache_creation: JSONObject | None = None


class AgentToolStats(CamelModel):
    """Numbers of an agent's tool calls by kind, and of changed lines."""

    read_count: int = 0
    search_count: int = 0
    bash_count: int = 0
    edit_file_count: int = 0
    lines_added: int = 0
    lines_removed: int = 0
    other_tool_count: int = 0
    frame_count: int | None = None


class AgentCompletedOutput(FrameModel, rename="camel"):
    """The output of `Agent` for a foreground agent, which has completed."""

    status: ClassVar[Literal["completed"]] = "completed"
    agent_id: str
    agent_type: str | None = None
    content: list[AgentContentBlock] = field(default_factory=list)
    """The agent's report. The first block may be a note from the CLI; see `report`."""
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
        """The agent's answer: the last text block. Earlier blocks may be notes from the CLI."""
        return self.content[-1].text if self.content else ""


class AgentAsyncLaunchedOutput(FrameModel, rename="camel"):
    """The output of `Agent` for an agent that was started in the background or moved there."""

    status: ClassVar[Literal["async_launched"]] = "async_launched"
    is_async: bool | None = None
    agent_id: str
    """Id of the agent and of its task."""
    description: str = ""
    prompt: str = ""
    output_file: str = ""
    resolved_model: str | None = None
    models_used: list[str] | None = None
    can_read_output_file: bool | None = None
    can_continue_agent: bool | None = None


class AgentRemoteLaunchedOutput(FrameModel, rename="camel"):
    """The output of `Agent` for an agent in the cloud."""

    status: ClassVar[Literal["remote_launched"]] = "remote_launched"
    task_id: str
    session_url: str = ""
    description: str = ""
    prompt: str = ""
    output_file: str = ""


AgentOutput: TypeAlias = AgentCompletedOutput | AgentAsyncLaunchedOutput | AgentRemoteLaunchedOutput
"""The result of the tool `Agent`."""


class WorkflowInput(FrameModel, rename="camel"):
    """Run a script that orchestrates agents."""

    script: str | None = None
    name: str | None = None
    description: str | None = None
    """Ignored by the CLI, as is `title`."""
    title: str | None = None
    args: Any = None
    script_path: str | None = None
    """Takes precedence over `script`."""
    resume_from_run_id: str | None = None


class WorkflowOutput(FrameModel, rename="camel"):
    """The output of `Workflow`: the task that runs it."""

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
    """Send a message to an agent. A finished agent is resumed with the same id."""

    to: str
    """An agent's name or id, or `main`."""
    message: str | JSONObject
    summary: str | None = None
    notify_when_idle: bool | None = None


class AgentPin(WireModel):
    """The agent that a name refers to."""

    id: str
    name: str | None = None
    ref: str | None = None


class SendMessageOutput(FrameModel, rename="camel"):
    """The output of `SendMessage`. `success` means that the message was accepted, not that the agent has read it."""

    success: bool
    message: str = ""
    display: str | None = None
    resumed_agent_id: str | None = None
    revived_agent_id: str | None = None
    pin: AgentPin | None = None


class ListAgentsInput(FrameModel):
    """List the agents that can receive messages."""

    channel: str | None = None
    q: str | None = None
    cursor: str | None = None


class ListAgentsOutput(FrameModel):
    """The output of `ListAgents`: the agents as text and as sections."""

    listing: str
    sections: list[JSONObject] = field(default_factory=list)
    notes: list[Any] = field(default_factory=list)


class Finding(WireModel):
    """One finding of a review."""

    file: str
    summary: str
    failure_scenario: str = ""
    line: int | None = None
    """The line number, starting at 1."""
    short_summary: str | None = None
    category: str | None = None
    severity: Open[Literal["important", "pre_existing", "nit"]] | None = None
    verdict: Open[Literal["CONFIRMED", "PLAUSIBLE"]] | None = None
    outcome: Open[Literal["fixed", "skipped", "no_change_needed"]] | None = None


class ReportFindingsInput(FrameModel):
    """Report the findings of a code review, at most 32, most severe first."""

    findings: list[Finding]
    level: Effort | None = None


class ReportFindingsOutput(FrameModel):
    """The output of `ReportFindings`: the accepted findings."""

    count: int
    findings: list[Finding] = field(default_factory=list)
    level: Effort | None = None
