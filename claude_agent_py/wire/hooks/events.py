"""Facts about the hook events: what they are for, what their matchers compare, when the CLI sends them.

Measured on CLI 2.1.328 (PreSkillShellCommand on 2.1.332) with callbacks registered over the control channel; hooks in
settings files receive more events.
`inputs`, `outputs` and, in `claude_agent_py.hooks`, `by_event` and `shorthands` have the same events, which tests
check.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

Delivery: TypeAlias = Literal["always", "partly", "never", "unseen"]
"""`always`: each time the event happens. `partly`: only in the cases given in the note. `never`: not to callbacks.
`unseen`: documented, but never observed."""

Block: TypeAlias = Literal["decision", "permission_decision", "behavior"]
"""How an output blocks: `decision: "block"`, `permissionDecision: "deny"`, or `decision.behavior: "deny"`."""


@dataclass(frozen=True, kw_only=True)
class HookEventFacts:
    """Facts about a hook event."""

    summary: str
    matches: str | None = None
    """The field that a matcher's pattern is compared with; None if the CLI ignores the pattern."""
    delivery: Delivery = "always"
    note: str = ""
    """Limits of the delivery, or a caveat."""
    sent_for: frozenset[str] = frozenset()
    """The values of the matched field for which the event is sent; empty if it is sent for all of them."""
    block: Block | None = None
    """How an output blocks the operation; None if it cannot be blocked, or if blocking makes the agent continue
    (`Stop`, `SubagentStop`)."""


_TOOL = "tool_name"

HOOK_EVENT_FACTS: Mapping[str, HookEventFacts] = {
    "PreToolUse": HookEventFacts(
        summary="before a tool runs",
        matches=_TOOL,
        block="permission_decision",
        note="Not sent for unknown tools or invalid inputs.",
    ),
    "PostToolUse": HookEventFacts(summary="after a tool succeeded", matches=_TOOL),
    "PostToolUseFailure": HookEventFacts(summary="after a tool failed", matches=_TOOL),
    "PostToolBatch": HookEventFacts(
        summary="after all tool calls of a message, even a single or failed one", block="decision"
    ),
    "Notification": HookEventFacts(
        summary="when the user would be notified",
        matches="notification_type",
        note="`permission_prompt` is sent after a prompt has waited for 6 s.",
    ),
    "UserPromptSubmit": HookEventFacts(summary="before a prompt is sent to the model", block="decision"),
    "UserPromptExpansion": HookEventFacts(
        summary="before a slash command or an MCP prompt becomes a prompt", matches="command_name", block="decision"
    ),
    "SessionStart": HookEventFacts(
        summary="when a session starts",
        matches="source",
        delivery="partly",
        sent_for=frozenset({"clear", "compact"}),
        note="At startup and resume, callbacks are not registered yet.",
    ),
    "SessionEnd": HookEventFacts(
        summary="when a session ends",
        matches="reason",
        delivery="partly",
        sent_for=frozenset({"clear"}),
        note="When the process exits, the control channel is closed already.",
    ),
    "Stop": HookEventFacts(
        summary="when the main agent would stop",
        note="Blocking makes it continue; the CLI stops it after eight times.",
    ),
    "StopFailure": HookEventFacts(summary="instead of Stop when the API failed", matches="error"),
    "SubagentStart": HookEventFacts(
        summary="when a subagent starts",
        matches="agent_type",
        note="Cannot be blocked: deny the tool Agent in PreToolUse instead.",
    ),
    "SubagentStop": HookEventFacts(
        summary="when a subagent would stop",
        matches="agent_type",
        note="Blocking makes it continue. Compaction sends two of these with an empty agent_type.",
    ),
    "PreCompact": HookEventFacts(summary="before the conversation is compacted", matches="trigger", block="decision"),
    "PostCompact": HookEventFacts(summary="after the conversation was compacted", matches="trigger"),
    "PreModelSwitch": HookEventFacts(
        summary="before the model changes", matches="to_model", block="permission_decision"
    ),
    "PostModelSwitch": HookEventFacts(summary="after the model changed", matches="to_model"),
    "PermissionRequest": HookEventFacts(
        summary="when a permission prompt would be shown",
        matches=_TOOL,
        block="behavior",
        note="Sent at the same time as can_use_tool; the first decision wins.",
    ),
    "PermissionDenied": HookEventFacts(
        summary="when the classifier denied a tool call",
        matches=_TOOL,
        delivery="unseen",
        note="Permission mode `auto` only.",
    ),
    "Setup": HookEventFacts(
        summary="when --init or --maintenance prepares a project",
        matches="trigger",
        delivery="never",
        note="Runs before callbacks are registered.",
    ),
    "TeammateIdle": HookEventFacts(
        summary="when a member of an agent team becomes idle", delivery="unseen", note="Agent teams only."
    ),
    "TaskCreated": HookEventFacts(
        summary="before an item is added to the to-do list",
        block="decision",
        note="To-do items (TaskCreate), not background tasks.",
    ),
    "TaskCompleted": HookEventFacts(
        summary="when an item of the to-do list is done",
        note="To-do items (TaskUpdate), not background tasks; for those use SubagentStop or task notifications.",
    ),
    "Elicitation": HookEventFacts(
        summary="before an MCP server's question is asked",
        matches="mcp_server_name",
        block="decision",
        note="`action` and `content` of a callback are ignored: decline with `decision`, answer with on_elicitation.",
    ),
    "ElicitationResult": HookEventFacts(
        summary="before the answer is sent to the MCP server",
        matches="mcp_server_name",
        block="decision",
        note="`action` and `content` of a callback are ignored: decline with `decision`.",
    ),
    "ConfigChange": HookEventFacts(
        summary="when a settings file changed", matches="source", block="decision", note="About 1 s after the edit."
    ),
    "WorktreeCreate": HookEventFacts(
        summary="to create the worktree for EnterWorktree",
        note="Must return `worktree_path`, or EnterWorktree fails: register it only for that purpose.",
    ),
    "WorktreeRemove": HookEventFacts(
        summary="to remove a worktree created by WorktreeCreate",
        delivery="partly",
        note="Only for worktrees created by a WorktreeCreate hook.",
    ),
    "InstructionsLoaded": HookEventFacts(
        summary="when a CLAUDE.md was read",
        matches="load_reason",
        delivery="partly",
        note="Not for files read at startup, before callbacks are registered.",
    ),
    "CwdChanged": HookEventFacts(
        summary="when the working directory changed",
        delivery="unseen",
        note="Not sent for a `cd` in a shell command.",
    ),
    "FileChanged": HookEventFacts(
        summary="when a watched file changed",
        matches="file name",
        delivery="partly",
        note="Only for the `watch_paths` returned by a SessionStart hook.",
    ),
    "DirectoryAdded": HookEventFacts(summary="when a working directory was added", matches="source"),
    "MessageDisplay": HookEventFacts(summary="when a chunk of the reply is complete"),
    "PreSkillShellCommand": HookEventFacts(
        summary="before a shell command in the text of a skill or command (`` !`cmd` ``) runs",
        matches=_TOOL,
        delivery="partly",
        block="permission_decision",
        note="CLI 2.1.332 and newer; older ones run such commands without any hook.",
    ),
}
"""When each event occurs, what its matcher matches, and what its output can change."""

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
    "PreSkillShellCommand",
]
"""The events of a session that call hooks."""
