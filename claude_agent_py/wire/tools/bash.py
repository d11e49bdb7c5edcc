"""Tools that run shell commands: Bash and PowerShell.

A command in the background is a task; its id is `BashOutput.background_task_id`. The tools that watch and stop tasks
are in `background`.
"""

from typing import Any, Literal

from msgspec import field

from claude_agent_py.wire.base import FrameModel, Number, Open, WireModel


class BashInput(FrameModel):
    """Run a shell command."""

    command: str
    timeout: Number | None = None
    """In milliseconds; at most 600 000 in the foreground. In the background: how long it may live, by default
    1 800 000 and at most 7 200 000."""
    description: str | None = None
    run_in_background: bool | None = None
    dangerously_disable_sandbox: bool | None = field(default=None, name="dangerouslyDisableSandbox")


class GitCommit(WireModel):
    """A commit that a command made."""

    sha: str
    kind: Open[Literal["committed", "amended", "cherry-picked"]]
    branch: str | None = None


class GitPush(WireModel):
    """A branch that a command pushed."""

    branch: str


class GitBranchChange(WireModel):
    """A merge or a rebase that a command did."""

    ref: str
    action: Open[Literal["merged", "rebased"]]


class GitPullRequest(WireModel):
    """A pull request that a command touched."""

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


class GitOperation(WireModel):
    """What a command did with git, as far as the CLI recognised it."""

    commit: GitCommit | None = None
    push: GitPush | None = None
    branch: GitBranchChange | None = None
    pr: GitPullRequest | None = None


class BashOutput(FrameModel, rename="camel"):
    """What a command printed, or where it runs now."""

    stdout: str
    stderr: str
    interrupted: bool
    is_image: bool | None = None
    background_task_id: str | None = None
    """The task of a command in the background."""
    backgrounded_by_user: bool | None = None
    """It was moved there by the user or by the host."""
    timed_out_after_ms: Number | None = None
    """It was moved there because it ran into its timeout."""
    background_cwd_hint: str | None = None
    background_ends_with_final_response: bool | None = None
    """It is killed when its caller gives the final response, so no notification will come."""
    background_wakes_owner: bool | None = None
    dangerously_disable_sandbox: bool | None = None
    raw_output_path: str | None = None
    return_code_interpretation: str | None = None
    no_output_expected: bool | None = None
    structured_content: list[Any] | None = None
    persisted_output_path: str | None = None
    """Where the whole output is, when it was too long."""
    persisted_output_size: int | None = None
    """In bytes."""
    stale_read_file_state_hint: str | None = None
    gh_rate_limit_hint: str | None = None
    git_operation: GitOperation | None = None


class PowerShellInput(BashInput):
    """Run a PowerShell command (Windows)."""


class PowerShellOutput(BashOutput):
    """What a PowerShell command printed, or where it runs now."""
