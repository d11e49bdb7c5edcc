"""Names of the built-in tools, and the models of their inputs and outputs.

The models are imported on first use.
"""

import contextlib
import difflib
import importlib
import re
from collections.abc import Mapping
from types import UnionType
from typing import Any, NamedTuple, get_args

import msgspec

from claude_agent_py.wire.base import FrameModel, WireModel, keep_source

BUILTIN_TOOL_NAMES: tuple[str, ...] = (
    "Agent",
    "Artifact",
    "AskUserQuestion",
    "Bash",
    "ClaudeDesign",
    "CronCreate",
    "CronDelete",
    "CronList",
    "Edit",
    "EndConversation",
    "EnterPlanMode",
    "EnterWorktree",
    "ExitPlanMode",
    "ExitWorktree",
    "Glob",
    "Grep",
    "ListAgents",
    "ListMcpResourcesTool",
    "LSP",
    "Monitor",
    "NotebookEdit",
    "OfferChromeSetup",
    "PowerShell",
    "Projects",
    "propose_skills",
    "PushNotification",
    "Read",
    "ReadMcpResourceDirTool",
    "ReadMcpResourceTool",
    "ReadNotifications",
    "RemoteTrigger",
    "ReportFindings",
    "ScheduleWakeup",
    "SendFeedback",
    "SendMessage",
    "SendUserFile",
    "SendUserMessage",
    "SetGoal",
    "ShareOnboardingGuide",
    "ShowOnboardingRolePicker",
    "Skill",
    "SubagentHandback",
    "TaskCreate",
    "TaskGet",
    "TaskList",
    "TaskStop",
    "TaskUpdate",
    "TodoWrite",
    "ToolSearch",
    "WaitForMcpServers",
    "WebFetch",
    "WebSearch",
    "Workflow",
    "Write",
)
"""The names that CLI 2.1.328 publishes. It has more tools; `InitMessage.tools` lists the tools of a session. Those that
only other programs offer (claude.ai, the desktop app, cloud sessions) have no models: their inputs stay dicts."""

STRUCTURED_OUTPUT = "StructuredOutput"
"""The tool with which the model delivers structured output. It has no other effect."""

UNLISTED_TOOLS: tuple[str, ...] = (STRUCTURED_OUTPUT,)
"""Tools that exist without being published."""

LEGACY_TOOL_NAME_ALIASES: Mapping[str, str] = {
    "Task": "Agent",
    "KillShell": "TaskStop",
    "KillBash": "TaskStop",
    "ListPeers": "ListAgents",
    "Brief": "SendUserMessage",
    "ListMcpResources": "ListMcpResourcesTool",
    "ReadMcpResource": "ReadMcpResourceTool",
    "ReadMcpResourceDir": "ReadMcpResourceDirTool",
    "ProposeGoal": "SetGoal",
}
"""Current names by former names, which rules, hook matchers and options still accept. `InitMessage.tools` uses some of
the former names (`Task`)."""


class _Models(NamedTuple):
    module: str
    input: str
    output: str | None = None


def _pair(module: str, stem: str) -> _Models:
    return _Models(module, f"{stem}Input", f"{stem}Output")


_TABLE: Mapping[str, _Models] = {
    "Agent": _Models("agent", "TaskInput", "AgentOutput"),
    "Workflow": _pair("agent", "Workflow"),
    "SendMessage": _pair("agent", "SendMessage"),
    "ListAgents": _pair("agent", "ListAgents"),
    "Skill": _Models("agent", "SkillInput"),
    "Bash": _pair("bash", "Bash"),
    "PowerShell": _pair("bash", "PowerShell"),
    "Monitor": _pair("bash", "Monitor"),
    "TaskStop": _pair("bash", "TaskStop"),
    "TaskOutput": _pair("bash", "TaskOutput"),
    "Read": _pair("files", "FileRead"),
    "Write": _pair("files", "FileWrite"),
    "Edit": _pair("files", "FileEdit"),
    "NotebookEdit": _pair("files", "NotebookEdit"),
    "Glob": _pair("search", "Glob"),
    "Grep": _pair("search", "Grep"),
    "LSP": _Models("search", "LSPInput"),
    "ToolSearch": _pair("search", "ToolSearch"),
    "WebFetch": _pair("search", "WebFetch"),
    "WebSearch": _pair("search", "WebSearch"),
    "TaskCreate": _pair("task_list", "TaskCreate"),
    "TaskGet": _pair("task_list", "TaskGet"),
    "TaskUpdate": _pair("task_list", "TaskUpdate"),
    "TaskList": _pair("task_list", "TaskList"),
    "TodoWrite": _pair("task_list", "TodoWrite"),
    "CronCreate": _pair("planning", "CronCreate"),
    "CronDelete": _pair("planning", "CronDelete"),
    "CronList": _pair("planning", "CronList"),
    "ScheduleWakeup": _pair("planning", "ScheduleWakeup"),
    "ListMcpResourcesTool": _pair("search", "ListMCPResources"),
    "ReadMcpResourceTool": _pair("search", "ReadMCPResource"),
    "EnterPlanMode": _pair("planning", "EnterPlanMode"),
    "ExitPlanMode": _pair("planning", "ExitPlanMode"),
    "EnterWorktree": _pair("planning", "EnterWorktree"),
    "ExitWorktree": _pair("planning", "ExitWorktree"),
    "AskUserQuestion": _pair("questions", "AskUserQuestion"),
    "ReportFindings": _pair("agent", "ReportFindings"),
}


def canonical_name(name: str) -> str:
    """Return the current name of a tool."""
    return LEGACY_TOOL_NAME_ALIASES.get(name, name)


def is_misspelt(name: str) -> bool:
    """Return whether a name looks like that of a built-in tool, but no such tool is known."""
    is_plain = re.fullmatch(r"\w+", name) is not None and not name.startswith("mcp__")
    return is_plain and name not in (*BUILTIN_TOOL_NAMES, *LEGACY_TOOL_NAME_ALIASES, *UNLISTED_TOOLS)


def suggested_tool(name: str) -> str:
    """Return `; did you mean ...?` with the built-in tool closest to `name`, or an empty string."""
    known = {name.lower(): name for name in BUILTIN_TOOL_NAMES}
    near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.7)
    return f"; did you mean {known[near[0]]!r}?" if near else ""


def has_models(name: str) -> bool:
    """Return whether the tool with this current or former name has models."""
    return canonical_name(name) in _TABLE


def typed_input(name: str, data: dict[str, Any]) -> WireModel | dict[str, Any]:
    """Convert the input of a tool to its model, or return `data` if no model matches it."""
    tool = _TABLE.get(canonical_name(name))
    return data if tool is None else _fit(tool.module, tool.input, data)


def typed_output(name: str, data: Any) -> Any:
    """Convert the output of a tool to its model, or return `data` if no model matches it.

    `data` is a `tool_use_result`, or the `tool_response` of a hook. The text of a failed call matches no model.
    """
    tool = _TABLE.get(canonical_name(name))
    return data if tool is None or tool.output is None else _fit(tool.module, tool.output, data)


def _fit(module: str, model: str, data: Any) -> Any:
    kind = getattr(importlib.import_module(f"{__package__}.{module}"), model)
    for member in get_args(kind) if isinstance(kind, UnionType) else (kind,):
        with contextlib.suppress(msgspec.ValidationError, RecursionError):
            value = msgspec.convert(data, member)
            if isinstance(value, FrameModel):
                keep_source(value, "_source", data)
            return value
    return data
