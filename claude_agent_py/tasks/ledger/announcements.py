"""What the results of tools say about tasks.

Reads `tool_use_result` of the tools that launch, resume, stop or wait for tasks, and pairs each result with its call,
so that no other tool, such as one of an MCP server, can make claims about tasks.
"""

import re
from collections.abc import Iterable
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from claude_agent_py.wire.messages.conversation import AssistantMessage, UserMessage
from claude_agent_py.wire.messages.tasks import TaskUsage

TASK_TOOLS: Final = frozenset({"Agent", "Task", "Bash", "PowerShell", "Monitor", "Workflow", "SendMessage", "TaskStop"})
_MAX_OPEN_CALLS: Final = 8192
_WRITING_TO: Final = ". Output is being written to: "
_OUTPUT_PATH: Final = re.compile(rf"with ID: (?P<id>[\w-]+){re.escape(_WRITING_TO)}(?P<path>\S[^\n]*?\.output)\b")

Word: TypeAlias = Literal["launched", "resumed", "completed", "stopped", "writes"]
"""`writes` is parsed from text, so it does not create a task; it only says where a known task writes."""


class Announcement(NamedTuple):
    """What the result of a tool says about a task."""

    word: Word
    task_id: str
    tool_use_id: str | None = None
    type: str | None = None
    description: str = ""
    prompt: str | None = None
    output_file: str = ""
    report: str = ""
    """The report of a completed agent."""
    usage: TaskUsage | None = None


class Call(NamedTuple):
    """A tool call without a result yet."""

    name: str
    agent_id: str | None
    """The subagent that made the call; None for the main agent."""


class OpenCalls:
    """The tool calls without a result, by id. Bounded: the oldest are forgotten first."""

    def __init__(self) -> None:
        self._calls: dict[str, Call] = {}
        self._stops: dict[str, str] = {}
        """The task that each call of TaskStop stops."""

    def note(self, message: AssistantMessage) -> None:
        """Add the calls in a message."""
        for block in message.tool_uses:
            if block.name == "TaskStop":
                self._stops[block.id] = _text(block.input, "task_id")
            self._calls[block.id] = Call(block.name, message.agent_id)
        while len(self._calls) > _MAX_OPEN_CALLS:
            self.close(next(iter(self._calls)))

    def get(self, tool_use_id: str | None) -> Call | None:
        """Return an open call."""
        return None if tool_use_id is None else self._calls.get(tool_use_id)

    def are_stopping(self, task_id: str) -> bool:
        """Return whether one of them stops this task."""
        return task_id in self._stops.values()

    def close(self, tool_use_id: str) -> Call | None:
        """Remove the call whose result came, and return it."""
        self._stops.pop(tool_use_id, None)
        return self._calls.pop(tool_use_id, None)


def announcements(message: UserMessage, calls: OpenCalls) -> Iterable[Announcement]:
    """Yield what the tool results in a message say about tasks. A tool is trusted only with its own tasks."""
    for block in message.tool_results:
        call = calls.close(block.tool_use_id)
        if call is not None and call.name not in TASK_TOOLS:
            continue
        if isinstance(message.tool_use_result, dict):
            yield from _structured(message.tool_use_result, block.tool_use_id)
        text = block.text
        path = _OUTPUT_PATH.search(text) if _WRITING_TO in text else None
        if path is not None:
            yield Announcement("writes", path["id"], block.tool_use_id, output_file=path["path"])


def _structured(result: dict[str, Any], tool_use_id: str) -> Iterable[Announcement]:
    reader = next((reader for key, reader in _READERS if isinstance(result.get(key), str)), None)
    said = reader(result, tool_use_id) if reader else None
    return [] if said is None else [said]


def _agent(result: dict[str, Any], tool_use_id: str) -> Announcement | None:
    if result.get("status") == "async_launched":
        return Announcement(
            "launched",
            result["agentId"],
            tool_use_id,
            type="local_agent",
            description=_text(result, "description"),
            prompt=_text(result, "prompt") or None,
            output_file=_text(result, "outputFile"),
        )
    if result.get("status") != "completed":
        return None
    return Announcement(
        "completed",
        result["agentId"],
        tool_use_id,
        type="local_agent",
        prompt=_text(result, "prompt") or None,
        report=_last_text(result.get("content")),
        usage=_usage(result),
    )


def _launched_by_id(result: dict[str, Any], tool_use_id: str) -> Announcement | None:
    """Read the results of Monitor, Workflow and cloud agents; the to-do list has a `taskId`, too."""
    if "timeoutMs" in result:
        return Announcement("launched", result["taskId"], tool_use_id, type="local_bash")
    if result.get("status") not in ("async_launched", "remote_launched"):
        return None
    default = "remote_agent" if "sessionUrl" in result else "local_workflow"
    return Announcement(
        "launched",
        result["taskId"],
        tool_use_id,
        type=_text(result, "taskType") or default,
        description=_text(result, "description") or _text(result, "summary"),
        output_file=_text(result, "outputFile"),
    )


def _shell(result: dict[str, Any], tool_use_id: str) -> Announcement:
    return Announcement("launched", result["backgroundTaskId"], tool_use_id, type="local_bash")


def _resumed(result: dict[str, Any], tool_use_id: str) -> Announcement:
    return Announcement("resumed", result["resumedAgentId"], tool_use_id, type="local_agent")


def _stopped(result: dict[str, Any], tool_use_id: str) -> Announcement | None:
    if "task_type" not in result:
        return None
    return Announcement("stopped", result["task_id"], type=_text(result, "task_type") or None)


_READERS: Final = (
    ("backgroundTaskId", _shell),
    ("resumedAgentId", _resumed),
    ("agentId", _agent),
    ("taskId", _launched_by_id),
    ("task_id", _stopped),
)
"""How to read a result, by the key that names the task."""


def _text(result: dict[str, Any], key: str) -> str:
    value = result.get(key)
    return value if isinstance(value, str) else ""


def _last_text(content: Any) -> str:
    """Return the last text block: those before it may be notes of the CLI."""
    blocks = content if isinstance(content, list) else []
    return next((_text(block, "text") for block in reversed(blocks) if isinstance(block, dict) and "text" in block), "")


def _usage(result: dict[str, Any]) -> TaskUsage | None:
    names = {"total_tokens": "totalTokens", "tool_uses": "totalToolUseCount", "duration_ms": "totalDurationMs"}
    found = {name: result[key] for name, key in names.items() if isinstance(result.get(key), int | float)}
    return TaskUsage(**found) if found else None
