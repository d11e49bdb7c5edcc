"""The hook events, as data: what each is for, what its matcher compares, whether the CLI sends it, and what it guards.

No models here, so that asking which events there are costs nothing. Names and order are the CLI's own; the facts were
measured on CLI 2.1.328 with callbacks registered over the control channel (hooks in settings files see more).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

Delivery: TypeAlias = Literal["always", "partly", "never", "unseen"]
"""`always`: every time it happens. `partly`: only in the cases that the note names. `never`: not to callbacks.
`unseen`: nothing that was tried made the CLI send it."""

Block: TypeAlias = Literal["decision", "permission_decision", "behavior"]
"""How an answer blocks: `decision: "block"`, `permissionDecision: "deny"`, or `decision.behavior: "deny"`."""


@dataclass(frozen=True, kw_only=True)
class HookEventFacts:
    """What is known of one event."""

    summary: str
    matches: str | None = None
    """The field that a matcher's pattern is compared with; None where the CLI ignores the pattern."""
    delivery: Delivery = "always"
    note: str = ""
    """The limits of the delivery, or what must not be forgotten."""
    sent_for: frozenset[str] = frozenset()
    """The values of the matched field that it is sent for, where it is not sent for the others."""
    block: Block | None = None
    """How an answer stops what the event guards; None where nothing can be stopped, or where stopping means going on
    (`Stop` and its like)."""


_TOOL = "tool_name"

HOOK_EVENT_FACTS: Mapping[str, HookEventFacts] = {
    "PreToolUse": HookEventFacts(
        summary="before a tool runs",
        matches=_TOOL,
        block="permission_decision",
        note="Not for a tool that does not exist, nor for an input that is invalid.",
    ),
    "PostToolUse": HookEventFacts(summary="after a tool succeeded", matches=_TOOL),
    "PostToolUseFailure": HookEventFacts(summary="after a tool failed", matches=_TOOL),
    "PostToolBatch": HookEventFacts(
        summary="after all tool calls of one message, also of a single one and of failed ones", block="decision"
    ),
    "Notification": HookEventFacts(
        summary="when the user would be notified",
        matches="notification_type",
        note="`permission_prompt` comes after a prompt has waited for 6 s.",
    ),
    "UserPromptSubmit": HookEventFacts(summary="before a prompt is sent to the model", block="decision"),
    "UserPromptExpansion": HookEventFacts(
        summary="before a slash command or an MCP prompt becomes a prompt", matches="command_name", block="decision"
    ),
    "SessionStart": HookEventFacts(
        summary="when a session begins",
        matches="source",
        delivery="partly",
        sent_for=frozenset({"clear", "compact"}),
        note="At start-up and resume no callback is registered yet.",
    ),
    "SessionEnd": HookEventFacts(
        summary="when a session ends",
        matches="reason",
        delivery="partly",
        sent_for=frozenset({"clear"}),
        note="At the end of the process the control channel is gone.",
    ),
    "Stop": HookEventFacts(
        summary="when the main agent would stop", note="Blocking makes it go on; after eight times the CLI stops it."
    ),
    "StopFailure": HookEventFacts(summary="in place of Stop when the API failed", matches="error"),
    "SubagentStart": HookEventFacts(
        summary="when a subagent begins",
        matches="agent_type",
        note="Cannot stop it: deny the tool Agent in PreToolUse instead.",
    ),
    "SubagentStop": HookEventFacts(
        summary="when a subagent would stop",
        matches="agent_type",
        note="Blocking makes it go on. Compaction sends two more, with an empty agent_type.",
    ),
    "PreCompact": HookEventFacts(summary="before the conversation is compacted", matches="trigger", block="decision"),
    "PostCompact": HookEventFacts(summary="after the conversation was compacted", matches="trigger"),
    "PreModelSwitch": HookEventFacts(
        summary="before another model is used", matches="to_model", block="permission_decision"
    ),
    "PostModelSwitch": HookEventFacts(summary="after another model is used", matches="to_model"),
    "PermissionRequest": HookEventFacts(
        summary="when a permission prompt is due",
        matches=_TOOL,
        block="behavior",
        note="Asked at the same time as can_use_tool; the first that decides wins.",
    ),
    "PermissionDenied": HookEventFacts(
        summary="when a call was denied by the classifier",
        matches=_TOOL,
        delivery="unseen",
        note="Permission mode `auto` only.",
    ),
    "Setup": HookEventFacts(
        summary="when --init or --maintenance prepares a project",
        matches="trigger",
        delivery="never",
        note="It runs before any callback is registered.",
    ),
    "TeammateIdle": HookEventFacts(
        summary="when a member of an agent team has nothing to do", delivery="unseen", note="Agent teams only."
    ),
    "TaskCreated": HookEventFacts(
        summary="before an item is added to the to-do list",
        block="decision",
        note="To-do items (TaskCreate), not background tasks.",
    ),
    "TaskCompleted": HookEventFacts(
        summary="when an item of the to-do list is done",
        note="To-do items (TaskUpdate), not background tasks: for those see SubagentStop and task notifications.",
    ),
    "Elicitation": HookEventFacts(
        summary="before an MCP server's question is asked",
        matches="mcp_server_name",
        block="decision",
        note="`action` and `content` of a callback are ignored: `decision` declines, on_elicitation answers.",
    ),
    "ElicitationResult": HookEventFacts(
        summary="before the answer goes to the MCP server",
        matches="mcp_server_name",
        block="decision",
        note="`action` and `content` of a callback are ignored: `decision` declines.",
    ),
    "ConfigChange": HookEventFacts(
        summary="when a settings file changed", matches="source", block="decision", note="About 1 s after the edit."
    ),
    "WorktreeCreate": HookEventFacts(
        summary="to create the worktree for EnterWorktree",
        note="It must answer `worktree_path`, or EnterWorktree fails: register it only to do that.",
    ),
    "WorktreeRemove": HookEventFacts(
        summary="to remove a worktree that WorktreeCreate made",
        delivery="partly",
        note="Only for a worktree that a WorktreeCreate hook made.",
    ),
    "InstructionsLoaded": HookEventFacts(
        summary="when a CLAUDE.md was read",
        matches="load_reason",
        delivery="partly",
        note="Not for those read at start-up: no callback is registered yet.",
    ),
    "CwdChanged": HookEventFacts(
        summary="when the working directory changed",
        delivery="unseen",
        note="A `cd` in a shell command does not send it.",
    ),
    "FileChanged": HookEventFacts(
        summary="when a watched file changed",
        matches="file name",
        delivery="partly",
        note="Only for the `watch_paths` that a SessionStart hook answered.",
    ),
    "DirectoryAdded": HookEventFacts(summary="when a working directory was added", matches="source"),
    "MessageDisplay": HookEventFacts(summary="when text of an answer is complete"),
}

HOOK_EVENTS: tuple[str, ...] = tuple(HOOK_EVENT_FACTS)
"""All events, in the CLI's order."""

HookEvent: TypeAlias = Literal[
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "PostToolBatch",
    "Notification",
    "UserPromptSubmit",
    "UserPromptExpansion",
    "SessionStart",
    "SessionEnd",
    "Stop",
    "StopFailure",
    "SubagentStart",
    "SubagentStop",
    "PreCompact",
    "PostCompact",
    "PreModelSwitch",
    "PostModelSwitch",
    "PermissionRequest",
    "PermissionDenied",
    "Setup",
    "TeammateIdle",
    "TaskCreated",
    "TaskCompleted",
    "Elicitation",
    "ElicitationResult",
    "ConfigChange",
    "WorktreeCreate",
    "WorktreeRemove",
    "InstructionsLoaded",
    "CwdChanged",
    "FileChanged",
    "DirectoryAdded",
    "MessageDisplay",
]
