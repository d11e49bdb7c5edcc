"""Tools for schedules, cloud sessions, notifications and messages to the user."""

from typing import Any, Literal

from msgspec import field

from claude_agent_py.wire.base import CamelModel, FrameModel, JSONObject, Number, Open, WireModel


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
    """The job was created."""

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
    """The job was removed."""

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
    """All jobs."""

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
    """The time of the wakeup."""

    scheduled_for: Number
    clamped_delay_seconds: Number = 0
    was_clamped: bool = False
    stopped: bool | None = None
    cancelled_wakeups: int | None = None


class RemoteTriggerInput(FrameModel):
    """Manage sessions that start in the cloud."""

    action: Open[
        Literal["list", "get", "create", "update", "run", "create_webhook_trigger", "list_runs", "get_run_log"]
    ]
    trigger_id: str | None = None
    session_id: str | None = None
    cursor: str | None = None
    body: dict[str, Any] | None = None


class RemoteTriggerOutput(FrameModel):
    """The response of the service."""

    status: int
    """The HTTP status."""
    body: str = field(default="", name="json")
    """The response's body as JSON text."""
    summary: str | None = None


class ReadNotificationsInput(FrameModel):
    """Read the session's notifications."""


class ReceivedNotification(WireModel):
    """A notification for the session."""

    notification_id: str
    origin: str = ""
    queued_at: str = ""
    content: str = ""
    arrived_at: str | None = None


class ReadNotificationsOutput(FrameModel):
    """The notifications, and the number of those that remain."""

    notifications: list[ReceivedNotification]
    remaining: int = 0
    read_at: str | None = None


class PushNotificationInput(FrameModel):
    """Notify the user on another device."""

    message: str
    status: Open[Literal["proactive"]] | None = None


class PushNotificationOutput(FrameModel, rename="camel"):
    """Whether the notification was sent."""

    message: str
    push_sent: bool | None = None
    local_sent: bool | None = None
    disabled_reason: Open[Literal["config_off", "user_present", "no_transport"]] | None = None
    sent_at: str | None = None


class SendUserMessageInput(FrameModel):
    """Send the user a message apart from the answer (formerly the tool `Brief`)."""

    message: str
    attachments: list[str | dict[str, Any]] | None = None
    status: Open[Literal["normal", "proactive"]] | None = None


class SendUserMessageOutput(FrameModel):
    """The message that was sent."""

    message: str
    attachments: list[Any] | None = None


class SendUserFileInput(FrameModel):
    """Send files to the user. Fields that the CLI does not document are in `raw`."""

    status: Open[Literal["normal", "proactive"]] | None = None
