"""Tools that act later or elsewhere: Cron*, ScheduleWakeup, RemoteTrigger, notifications, messages to the user."""

from typing import Any, Literal

from msgspec import field

from claude_agent_py.wire.base import CamelModel, FrameModel, Number, Open, WireModel


class CronCreateInput(FrameModel):
    """Have a prompt sent by the clock."""

    cron: str
    """Five fields, local time."""
    prompt: str
    recurring: bool | None = None
    """By default yes, for seven days."""
    durable: bool | None = None
    """Whether it outlives the session; by default no."""


class CronCreateOutput(FrameModel, rename="camel"):
    """The job was made."""

    id: str
    human_schedule: str = ""
    recurring: bool = True
    durable: bool | None = None
    next_fire_at: Number | None = None


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
    """A prompt that is sent by the clock."""

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
    """Have this session go on by itself after a while."""

    delay_seconds: Number | None = None
    """Between 60 and 3600."""
    reason: str | None = None
    prompt: str | None = None
    stop: bool | None = None
    noop: bool | None = None


class ScheduleWakeupOutput(FrameModel, rename="camel"):
    """When it goes on."""

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
    """The service's answer."""

    status: int
    """The HTTP status."""
    body: str = field(default="", name="json")
    """JSON, as text."""
    summary: str | None = None


class ReadNotificationsInput(FrameModel):
    """Read what came in for this session."""


class ReceivedNotification(WireModel):
    """Something that came in."""

    notification_id: str
    origin: str = ""
    queued_at: str = ""
    content: str = ""
    arrived_at: str | None = None


class ReadNotificationsOutput(FrameModel):
    """What came in, and how much is left."""

    notifications: list[ReceivedNotification]
    remaining: int = 0
    read_at: str | None = None


class PushNotificationInput(FrameModel):
    """Tell the user on another device."""

    message: str
    status: Open[Literal["proactive"]] | None = None


class PushNotificationOutput(FrameModel, rename="camel"):
    """Whether it was sent."""

    message: str
    push_sent: bool | None = None
    local_sent: bool | None = None
    disabled_reason: Open[Literal["config_off", "user_present", "no_transport"]] | None = None
    sent_at: str | None = None


class SendUserMessageInput(FrameModel):
    """Say something to the user outside the answer (once the tool `Brief`)."""

    message: str
    attachments: list[str | dict[str, Any]] | None = None
    status: Open[Literal["normal", "proactive"]] | None = None


class SendUserMessageOutput(FrameModel):
    """It was said."""

    message: str
    attachments: list[Any] | None = None


class SendUserFileInput(FrameModel):
    """Give files to the user. The CLI does not declare all its fields: the others are in `raw`."""

    status: Open[Literal["normal", "proactive"]] | None = None
