"""Tools for plans, worktrees, goals and schedules."""

from typing import Literal

from claude_agent_py.wire.base import CamelModel, FrameModel, JSONObject, Number, Open


class EnterPlanModeInput(FrameModel):
    """Switch to plan mode."""


class EnterPlanModeOutput(FrameModel):
    """The output of `EnterPlanMode`."""

    message: str


class ExitPlanModeInput(FrameModel, rename="camel"):
    """Request approval of the plan. The CLI fills in the plan and its file when it asks the host."""

    plan: str | None = None
    """None if the model has not written a plan."""
    plan_file_path: str | None = None
    allowed_prompts: list[JSONObject] | None = None
    """Deprecated."""


class ExitPlanModeOutput(FrameModel, rename="camel"):
    """The output of `ExitPlanMode` if the plan was approved."""

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
    """The output of `EnterWorktree`."""

    worktree_path: str
    worktree_branch: str | None = None
    message: str = ""


class ExitWorktreeInput(FrameModel):
    """Leave the worktree."""

    action: Open[Literal["keep", "remove"]]
    discard_changes: bool | None = None


class ExitWorktreeOutput(FrameModel, rename="camel"):
    """The output of `ExitWorktree`."""

    action: Open[Literal["keep", "remove"]]
    original_cwd: str = ""
    worktree_path: str = ""
    worktree_branch: str | None = None
    tmux_session_name: str | None = None
    discarded_files: int | None = None
    discarded_commits: int | None = None
    message: str = ""


class CronCreateInput(FrameModel):
    """Schedule a prompt."""

    cron: str
    """A cron expression with five fields, in local time."""
    prompt: str
    recurring: bool | None = None
    """Whether the prompt repeats, for seven days. Default: True."""
    durable: bool | None = None
    """Whether the job outlives the session. Default: False."""


class CronCreateOutput(FrameModel, rename="camel"):
    """The output of `CronCreate`: the new job."""

    id: str
    human_schedule: str = ""
    recurring: bool = True
    durable: bool | None = None
    next_fire_at: Number | None = None
    max_age_ms: Number | None = None
    """The age at which a recurring job ends, in milliseconds; 0 means never."""
    other_one_shots: list[JSONObject] | None = None
    """The other one-shot jobs of the session that have yet to run: `id`, `humanSchedule`, `prompt`."""


class CronDeleteInput(FrameModel):
    """Remove a job."""

    id: str


class CronDeleteOutput(FrameModel, rename="camel"):
    """The output of `CronDelete`."""

    id: str
    ended_loop_wakeup: bool | None = None


class CronListInput(FrameModel):
    """List the jobs."""


class CronJob(CamelModel):
    """A scheduled prompt."""

    id: str
    cron: str
    human_schedule: str = ""
    prompt: str = ""
    recurring: bool | None = None
    durable: bool | None = None
    next_fire_at: Number | None = None


class CronListOutput(FrameModel):
    """The output of `CronList`: all jobs."""

    jobs: list[CronJob]


class ScheduleWakeupInput(FrameModel, rename="camel"):
    """Wake up this session after a delay."""

    delay_seconds: Number | None = None
    """Seconds, from 60 to 3600."""
    reason: str | None = None
    prompt: str | None = None
    stop: bool | None = None
    noop: bool | None = None


class ScheduleWakeupOutput(FrameModel, rename="camel"):
    """The output of `ScheduleWakeup`: the time of the wakeup."""

    scheduled_for: Number
    clamped_delay_seconds: Number = 0
    was_clamped: bool = False
    stopped: bool | None = None
    cancelled_wakeups: int | None = None
