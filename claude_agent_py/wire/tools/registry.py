"""Names of the built-in tools, and the models of their inputs and outputs.

The models are imported on first use.
"""

import importlib
import re
from collections.abc import Mapping
from typing import Any

from claude_agent_py.wire.base import JSONObject, WireModel
from claude_agent_py.wire.fitting import read

_TOOLS: Mapping[str, str] = {
    "agent": "Agent ListAgents ReportFindings SendMessage Workflow",
    "bash": "Bash Monitor PowerShell TaskOutput TaskStop",
    "files": "Edit NotebookEdit Read Write",
    "planning": "CronCreate CronDelete CronList EnterPlanMode EnterWorktree ExitPlanMode ExitWorktree ScheduleWakeup",
    "questions": "AskUserQuestion",
    "search": "Glob Grep ListMcpResourcesTool ReadMcpResourceTool ToolSearch WebFetch WebSearch",
    "task_list": "TaskCreate TaskGet TaskList TaskUpdate TodoWrite",
    "": """
        Artifact ClaudeDesign EndConversation LSP OfferChromeSetup Projects propose_skills PushNotification
        ReadMcpResourceDirTool ReadNotifications RemoteTrigger SendFeedback SendUserFile SendUserMessage SetGoal
        ShareOnboardingGuide ShowOnboardingRolePicker Skill SubagentHandback WaitForMcpServers
    """,
}
"""The tools, by the module of their models. Tools that the official SDKs do not type either, and tools that only other
programs offer (claude.ai, the desktop app, cloud sessions), have no models: their inputs stay dicts."""

_MODULE_OF: Mapping[str, str] = {tool: module for module, tools in _TOOLS.items() for tool in tools.split()}

_STEMS: Mapping[str, str] = {
    "Edit": "FileEdit",
    "ListMcpResourcesTool": "ListMCPResources",
    "Read": "FileRead",
    "ReadMcpResourceTool": "ReadMCPResource",
    "Write": "FileWrite",
}
"""What the names of models begin with, where it is not the name of the tool."""

BUILTIN_TOOL_NAMES: tuple[str, ...] = tuple(
    sorted(_MODULE_OF.keys() - {"TaskOutput"}, key=str.lower)  # this one is not published
)
"""The names that CLI 2.1.328 publishes. It has more tools; `InitMessage.tools` lists the tools of a session."""

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


def canonical_name(name: str) -> str:
    """Return the current name of a tool."""
    return LEGACY_TOOL_NAME_ALIASES.get(name, name)


def is_misspelt(name: str) -> bool:
    """Return whether a name looks like that of a built-in tool, but no such tool is known."""
    is_plain = re.fullmatch(r"\w+", name) is not None and not name.startswith("mcp__")
    return is_plain and name not in (*BUILTIN_TOOL_NAMES, *LEGACY_TOOL_NAME_ALIASES, *UNLISTED_TOOLS, *_MODULE_OF)


def suggested_tool(name: str) -> str:
    """Return `; did you mean ...?` with the built-in tool closest to `name`, or an empty string."""
    import difflib  # imported lazily: only mistakes need it

    known = {name.lower(): name for name in BUILTIN_TOOL_NAMES}
    near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.7)
    return f"; did you mean {known[near[0]]!r}?" if near else ""


def has_models(name: str) -> bool:
    """Return whether the tool with this current or former name has models."""
    return bool(_MODULE_OF.get(canonical_name(name)))


def typed_input(name: str, data: JSONObject) -> WireModel | JSONObject:
    """Convert the input of a tool to its model, or return `data` if no model matches it."""
    return _fit(name, "Input", data)  # type: ignore[no-any-return]


def typed_output(name: str, data: object) -> Any:
    """Convert the output of a tool to its model, or return `data` if no model matches it.

    `data` is a `tool_use_result`, or the `tool_response` of a hook. The text of a failed call matches no model.
    """
    return _fit(name, "Output", data)


def _fit(tool: str, suffix: str, data: object) -> Any:
    """Convert the input or output of a tool to its model; return it unchanged if there is none or it does not match."""
    name = canonical_name(tool)
    if not has_models(name):
        return data
    models = importlib.import_module(f"{__package__}.{_MODULE_OF[name]}")
    model = getattr(models, _STEMS.get(name, name) + suffix, None)
    value = None if model is None else read(model, data)
    return data if value is None else value
