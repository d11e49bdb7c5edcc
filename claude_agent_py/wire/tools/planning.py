"""Tools for plans, worktrees and goals: EnterPlanMode, ExitPlanMode, EnterWorktree, ExitWorktree, SetGoal."""

from typing import Any, Literal

from claude_agent_py.wire.base import FrameModel, Open


class EnterPlanModeInput(FrameModel):
    """Switch to plan mode."""


class EnterPlanModeOutput(FrameModel):
    """The session switched to plan mode."""

    message: str


class ExitPlanModeInput(FrameModel, rename="camel"):
    """Request approval of the plan. The CLI fills in the plan and its file when it asks the host."""

    plan: str | None = None
    """None if the model has not written a plan."""
    plan_file_path: str | None = None
    allowed_prompts: list[dict[str, Any]] | None = None
    """Deprecated."""


class ExitPlanModeOutput(FrameModel, rename="camel"):
    """The plan was approved."""

    plan: str | None = None
    is_agent: bool = False
    file_path: str | None = None
    has_task_tool: bool | None = None
    plan_was_edited: bool | None = None
    awaiting_leader_approval: bool | None = None
    request_id: str | None = None


class EnterWorktreeInput(FrameModel):
    """Switch to a git worktree: a new one called `name`, or the existing one at `path`."""

    name: str | None = None
    path: str | None = None


class EnterWorktreeOutput(FrameModel, rename="camel"):
    """The session switched to a worktree."""

    worktree_path: str
    worktree_branch: str | None = None
    message: str = ""


class ExitWorktreeInput(FrameModel):
    """Leave the worktree."""

    action: Open[Literal["keep", "remove"]]
    discard_changes: bool | None = None


class ExitWorktreeOutput(FrameModel, rename="camel"):
    """The session left the worktree."""

    action: Open[Literal["keep", "remove"]]
    original_cwd: str = ""
    worktree_path: str = ""
    worktree_branch: str | None = None
    tmux_session_name: str | None = None
    discarded_files: int | None = None
    discarded_commits: int | None = None
    message: str = ""
