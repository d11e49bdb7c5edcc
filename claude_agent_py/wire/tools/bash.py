"""Tools that run shell commands (Bash, PowerShell) and manage background tasks (Monitor, TaskStop, TaskOutput).

A background command is a task, whose id is `BashOutput.background_task_id`.
"""

from typing import Any, Literal

from msgspec import field

from claude_agent_py.wire.base import FrameModel, JSONObject, Number, Open, WireModel


class BashInput(FrameModel):
    """Run a shell command."""

    command: str
    timeout: Number | None = None
    """Milliseconds, at most 600 000. For background commands the default is 1 800 000 and the maximum 7 200 000."""
    description: str | None = None
    run_in_background: bool | None = None
    dangerously_disable_sandbox: bool | None = field(default=None, name="dangerouslyDisableSandbox")


class GitCommit(WireModel):
    """A commit made by a command."""

    sha: str
    kind: Open[Literal["committed", "amended", "cherry-picked"]]
    branch: str | None = None


class GitPush(WireModel):
    """A push made by a command."""

    branch: str


class GitBranchChange(WireModel):
    """A merge or rebase made by a command."""

    ref: str
    action: Open[Literal["merged", "rebased"]]


class GitPullRequest(WireModel):
    """A pull request created or changed by a command."""

    number: int
    url: str | None = None
    action: Open[
        Literal[
            "created",
            "edited",
            "merged",
            "commented",
            "closed",
            "reopened",
            "ready",
            "draft",
            "auto-merge-enabled",
            "auto-merge-disabled",
        ]
    ]
    changed: bool | None = None
    """False if `gh` had nothing to do, because the pull request was in that state already. CLI 2.1.333."""


class GitOperation(WireModel):
    """The git operations of a command that the CLI recognized."""

    commit: GitCommit | None = None
    push: GitPush | None = None
    branch: GitBranchChange | None = None
    pr: GitPullRequest | None = None


class BashOutput(FrameModel, rename="camel"):
    """The output of `Bash`: that of the command, or the background task that it was turned into."""

    stdout: str
    stderr: str
    interrupted: bool
    is_image: bool | None = None
    background_task_id: str | None = None
    """Task id of a background command."""
    backgrounded_by_user: bool | None = None
    """True if the user or the host moved the command to the background."""
    timed_out_after_ms: Number | None = None
    """The timeout after which the command was moved to the background."""
    background_cwd_hint: str | None = None
    background_ends_with_final_response: bool | None = None
    """True if the command is killed at its caller's final response, so that no notification is sent."""
    background_wakes_owner: bool | None = None
    dangerously_disable_sandbox: bool | None = None
    raw_output_path: str | None = None
    return_code_interpretation: str | None = None
    no_output_expected: bool | None = None
    structured_content: list[Any] | None = None
    persisted_output_path: str | None = None
    """Path of the full output, if it was too long."""
    persisted_output_size: int | None = None
    """Bytes."""
    stale_read_file_state_hint: str | None = None
    gh_rate_limit_hint: str | None = None
    git_operation: GitOperation | None = None


class PowerShellInput(BashInput):
    """Run a PowerShell command."""


class PowerShellOutput(BashOutput):
    """The output of `PowerShell`, with the fields of `BashOutput`."""


class WebSocketSource(WireModel):
    """A WebSocket to monitor."""

    url: str
    protocols: list[str] | None = None


class MonitorInput(FrameModel):
    """Monitor either a command, whose output lines are the events, or a WebSocket."""

    description: str
    timeout_ms: Number = 300_000
    """Milliseconds, at most 1 800 000."""
    command: str | None = None
    ws: WebSocketSource | None = None


class MonitorOutput(FrameModel, rename="camel"):
    """The output of `Monitor`: its task."""

    task_id: str
    timeout_ms: Number = 0
    """Milliseconds; 0 if the monitor is persistent."""
    persistent: bool | None = None
    kept_in_sandbox_by_check: bool | None = None


class TaskStopInput(FrameModel):
    """Stop a task."""

    task_id: str | None = None
    """A task id, or the id or name of a background agent."""
    shell_id: str | None = None
    """Deprecated; use `task_id`."""


class TaskStopOutput(FrameModel):
    """The output of `TaskStop`."""

    message: str
    task_id: str
    task_type: str = ""
    command: str | None = None


class TaskOutputInput(FrameModel):
    """Read the output of a task."""

    task_id: str
    block: bool = True
    """Whether to wait for the end of the task."""
    timeout: Number = 30_000
    """The longest time to wait, in milliseconds."""


class TaskOutputOutput(FrameModel):
    """The output of `TaskOutput`: that of a task."""

    retrieval_status: Open[Literal["success", "timeout", "not_ready"]]
    task: JSONObject | None = None
