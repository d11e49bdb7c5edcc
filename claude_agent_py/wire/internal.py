"""Messages of type `system` that the CLI marks as internal, and what they carry.

Owns those that a program may see on the pipe and make use of. They are no part of the documented interface: a CLI may
drop or change any of them, and what has no model here arrives as `UnknownMessage`. The twin of `system`.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field

from claude_agent_py.wire.base import JSONObject, MessageModel, Number, WireModel


class ModelFallbackMessage(MessageModel):
    """Another model answers from here on."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "system", "subtype": "model_fallback"}

    type: Literal["system"] = "system"
    subtype: Literal["model_fallback"] = "model_fallback"
    trigger: (
        Literal["model_not_found", "permission_denied", "overloaded", "server_error", "last_resort", "model_blocked"]
        | str
    )
    original_model: str = ""
    fallback_model: str = ""
    content: str = ""


class ModelConsentFallbackMessage(MessageModel):
    """The user was asked whether another model may answer."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "system", "subtype": "model_consent_fallback"}

    type: Literal["system"] = "system"
    subtype: Literal["model_consent_fallback"] = "model_consent_fallback"
    choice: Literal["consent", "switch_default", "cancelled"] | str
    original_model: str = ""
    fallback_model: str = ""
    persisted_as_default: bool = False
    content: str = ""


class SessionTitleChangedMessage(MessageModel):
    """The session has a new title."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "system", "subtype": "session_title_changed"}

    type: Literal["system"] = "system"
    subtype: Literal["session_title_changed"] = "session_title_changed"
    title: str


class SessionMetadataMessage(MessageModel):
    """Facts about the session changed."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "system", "subtype": "session_metadata"}

    type: Literal["system"] = "system"
    subtype: Literal["session_metadata"] = "session_metadata"
    metadata: JSONObject


class PostTurnSummaryMessage(MessageModel):
    """A summary of a turn, for a list of sessions."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "system", "subtype": "post_turn_summary"}

    type: Literal["system"] = "system"
    subtype: Literal["post_turn_summary"] = "post_turn_summary"
    summarizes_uuid: str = ""
    status_category: str = ""
    status_detail: str = ""
    needs_action: str = ""


class TaskSummaryMessage(MessageModel):
    """What the session works on, in a few words."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "system", "subtype": "task_summary"}

    type: Literal["system"] = "system"
    subtype: Literal["task_summary"] = "task_summary"
    detail: str | None = None


class TurnDurationMessage(MessageModel):
    """How long a turn took."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "system", "subtype": "turn_duration"}

    type: Literal["system"] = "system"
    subtype: Literal["turn_duration"] = "turn_duration"
    duration_ms: Number
    message_count: Number | None = None
    pending_background_agent_count: Number | None = None
    pending_workflow_count: Number | None = None


class TurnPreemptedMessage(MessageModel):
    """A newer prompt took the place of a turn."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "system", "subtype": "turn_preempted"}

    type: Literal["system"] = "system"
    subtype: Literal["turn_preempted"] = "turn_preempted"
    reason: str = ""
    preempted_by_uuid: str
    preempted_message_uuids: list[str] = Field(default_factory=list)


class AgentsKilledMessage(MessageModel):
    """All background agents were stopped."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "system", "subtype": "agents_killed"}

    type: Literal["system"] = "system"
    subtype: Literal["agents_killed"] = "agents_killed"


class ScheduledTaskFireMessage(MessageModel):
    """A scheduled prompt is due."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "system", "subtype": "scheduled_task_fire"}

    type: Literal["system"] = "system"
    subtype: Literal["scheduled_task_fire"] = "scheduled_task_fire"
    content: str = ""


class TaskListStatus(WireModel):
    """An item of the to-do list and how far it is."""

    id: str
    status: Literal["pending", "in_progress", "completed"] | str


class TaskListStatusesMessage(MessageModel):
    """The to-do list changed. Its items are not background tasks."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "system", "subtype": "task_list_statuses"}

    type: Literal["system"] = "system"
    subtype: Literal["task_list_statuses"] = "task_list_statuses"
    statuses: list[TaskListStatus]


class PermissionCheckStatusMessage(MessageModel):
    """Whether a tool call may run is being checked."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "system", "subtype": "permission_check_status"}

    type: Literal["system"] = "system"
    subtype: Literal["permission_check_status"] = "permission_check_status"
    tool_use_id: str
    agent_id: str | None = None
    status: Literal["checking", "done"] | str


class PermissionRetryMessage(MessageModel):
    """Commands that were refused may be tried again."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "system", "subtype": "permission_retry"}

    type: Literal["system"] = "system"
    subtype: Literal["permission_retry"] = "permission_retry"
    content: str = ""
    commands: list[str] = Field(default_factory=list)


class StopHookInfo(WireModel):
    """A hook that ran at the end of a turn."""

    command: str
    prompt_text: str | None = None
    duration_ms: Number | None = None


class StopHookSummaryMessage(MessageModel):
    """What the hooks at the end of a turn did."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "system", "subtype": "stop_hook_summary"}

    type: Literal["system"] = "system"
    subtype: Literal["stop_hook_summary"] = "stop_hook_summary"
    hook_count: Number = 0
    hook_infos: list[StopHookInfo] = Field(default_factory=list)
    hook_errors: list[str] = Field(default_factory=list)
    hook_additional_context: list[str] | None = None
    prevented_continuation: bool = False
    stop_reason: str | None = None
    has_output: bool = False
    level: Literal["info", "notice", "suggestion", "warning"] | str = "info"
    tool_use_id: str | None = None
    hook_label: str | None = None
    total_duration_ms: Number | None = None


class MemorySavedMessage(MessageModel):
    """Memories were written."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "system", "subtype": "memory_saved"}

    type: Literal["system"] = "system"
    subtype: Literal["memory_saved"] = "memory_saved"
    written_paths: list[str] = Field(default_factory=list)
    team_count: Number | None = None
    verb: str | None = None


class InstructionSizeWarningMessage(MessageModel):
    """The instruction files are large."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "system", "subtype": "instruction_size_warning"}

    type: Literal["system"] = "system"
    subtype: Literal["instruction_size_warning"] = "instruction_size_warning"
    total_chars: Number = 0
    total_limit_chars: Number = 0
    file_count: Number = 0
    largest_chars: Number | None = None


class AwaySummaryMessage(MessageModel):
    """What happened while the user was away."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "system", "subtype": "away_summary"}

    type: Literal["system"] = "system"
    subtype: Literal["away_summary"] = "away_summary"
    content: str


class ThinkingMessage(MessageModel):
    """A thought, as text. The model's thinking stands in `ThinkingBlock`."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "system", "subtype": "thinking"}

    type: Literal["system"] = "system"
    subtype: Literal["thinking"] = "thinking"
    content: str


class APIErrorMessage(MessageModel):
    """A request to the API failed; the details."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "system", "subtype": "api_error"}

    type: Literal["system"] = "system"
    subtype: Literal["api_error"] = "api_error"
    error: JSONObject
    retry_in_ms: Number = 0
    retry_attempt: Number = 0
    max_retries: Number = 0


class FileSnapshotMessage(MessageModel):
    """The text of files at some point."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "system", "subtype": "file_snapshot"}

    type: Literal["system"] = "system"
    subtype: Literal["file_snapshot"] = "file_snapshot"
    content: str = ""
    snapshot_files: list[JSONObject] = Field(default_factory=list)


class MissingAttachment(WireModel):
    """A file that did not arrive."""

    file_uuid: str
    reason: str = ""


class FileAttachmentsMissingMessage(MessageModel):
    """Files of a prompt did not arrive."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "system", "subtype": "file_attachments_missing"}

    type: Literal["system"] = "system"
    subtype: Literal["file_attachments_missing"] = "file_attachments_missing"
    message_uuid: str
    sent_count: Number = 0
    missing: list[MissingAttachment] = Field(default_factory=list)


class ShellCwdMessage(MessageModel):
    """The shell's working folder changed."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "system", "subtype": "shell_cwd"}

    type: Literal["system"] = "system"
    subtype: Literal["shell_cwd"] = "shell_cwd"
    cwd: str


class VCSStateChangedMessage(MessageModel):
    """The agent changed the repository."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "system", "subtype": "vcs_state_changed"}

    type: Literal["system"] = "system"
    subtype: Literal["vcs_state_changed"] = "vcs_state_changed"
    kind: Literal["commit", "push", "merge", "rebase"] | str
    cwd: str = ""
    branch: str | None = None


class CodeChangePublishedMessage(MessageModel):
    """The agent touched a pull request or the like."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "system", "subtype": "code_change_published"}

    type: Literal["system"] = "system"
    subtype: Literal["code_change_published"] = "code_change_published"
    provider: str = ""
    url: str = ""
    repo: str = ""
    identifier: str = ""
    action: str | None = None
    branch: str | None = None


class PerTurnEffortChangedMessage(MessageModel):
    """Whether the effort is set per turn changed."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "system", "subtype": "per_turn_effort_changed"}

    type: Literal["system"] = "system"
    subtype: Literal["per_turn_effort_changed"] = "per_turn_effort_changed"
    per_turn_effort_active: bool


class PeerMessageHoldMessage(MessageModel):
    """A message of another session is held back, let through or dropped."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "system", "subtype": "peer_message_hold"}

    type: Literal["system"] = "system"
    subtype: Literal["peer_message_hold"] = "peer_message_hold"
    state: Literal["held", "released", "dropped"] | str
    message_uuid: str | None = None
    lane: Literal["bridge", "stdin", "socket"] | str | None = None
    from_: str = Field(default="", alias="from")
    from_name: str | None = None
    cause: str | None = None
    outcome: str | None = None
    reason: str | None = None


class InheritedAsksSettledMessage(MessageModel):
    """Open permission prompts of an earlier process were sorted out."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "system", "subtype": "inherited_asks_settled"}

    type: Literal["system"] = "system"
    subtype: Literal["inherited_asks_settled"] = "inherited_asks_settled"
    kept_request_ids: list[str] = Field(default_factory=list)


class LateAllowNotRunMessage(MessageModel):
    """A permission came too late: the tool did not run."""

    TAGS: ClassVar[Mapping[str, Any]] = {"type": "system", "subtype": "late_allow_not_run"}

    type: Literal["system"] = "system"
    subtype: Literal["late_allow_not_run"] = "late_allow_not_run"
    request_id: str
    tool_use_id: str = ""
    reason: str = ""
