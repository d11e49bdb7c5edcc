"""Parse the results of the tools that launch, resume, stop or wait for tasks.

Each result is paired with its call, so that other tools, such as the tools of an MCP server, cannot make claims about
tasks.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Literal, NamedTuple, TypeAlias

from msgspec import Struct

from claude_agent_py.wire.base import JSONObject
from claude_agent_py.wire.messages.content import ToolUseBlock
from claude_agent_py.wire.messages.conversation import AssistantMessage, UserMessage
from claude_agent_py.wire.messages.system import PermissionDeniedMessage
from claude_agent_py.wire.messages.tasks import TaskUsage

TASK_TOOLS: Final = frozenset({"Agent", "Task", "Bash", "PowerShell", "Monitor", "Workflow", "SendMessage", "TaskStop"})
_MAX_OPEN_CALLS: Final = 8192
_SHELL_TOOLS: Final = frozenset({"Bash", "PowerShell"})
_LAUNCHED: Final = re.compile(r"Command running in background with ID: (?P<id>[\w-]+)\.")
_WRITING_TO: Final = ". Output is being written to: "
_OUTPUT_PATH: Final = rf"with ID: (?P<id>[\w-]+){re.escape(_WRITING_TO)}(?P<path>\S[^\n]*?\.output)\b"

Word: TypeAlias = Literal["launched", "resumed", "completed", "stopped", "writes"]
"""`writes` is parsed from text, so it never creates a task; it only sets the output path of a known task."""


class Announcement(NamedTuple):
    """A statement about a task in a tool result."""

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
    caller: str | None = None
    """The subagent that made the call; None for the main agent, or if unknown."""


class Call(Struct, gc=False):
    """A tool call without a result yet."""

    block: ToolUseBlock
    message: AssistantMessage
    """The message that it is in."""
    at: float = 0.0
    """When it was made, in seconds since the epoch."""
    running_at: float | None = None
    """When the CLI first showed that its tool runs, in seconds since the epoch."""
    denial: PermissionDeniedMessage | None = None
    """What the CLI reported if it denied the call."""

    @property
    def agent_id(self) -> str | None:
        """The subagent that made the call; None for the main agent."""
        return self.message.agent_id

    @property
    def description(self) -> str:
        """The description of the task, or the command of the shell, that the call launches."""
        return _get_text(self.block.input, "description") or _get_text(self.block.input, "command")

    @property
    def prompt(self) -> str | None:
        """The prompt of the subagent that the call launches or resumes."""
        return _get_text(self.block.input, "prompt") or _get_text(self.block.input, "message") or None


class OpenCalls:
    """The tool calls without a result, by id, also in sessions without a journal: for one that begins later, too.

    Bounded: the oldest calls are dropped first.
    """

    def __init__(self) -> None:
        self._calls: dict[str, Call] = {}

    def __iter__(self) -> Iterator[Call]:
        return iter(self._calls.values())

    def add(self, message: AssistantMessage, now: float) -> None:
        """Add the calls in a message."""
        for block in message.tool_uses:
            self._calls.setdefault(block.id, Call(block, message, now))  # a replay repeats messages
        while len(self._calls) > _MAX_OPEN_CALLS:
            self.close(next(iter(self._calls)))

    def mark_running(self, tool_use_id: str | None, now: float) -> None:
        """Note that the tool of a call runs, if the call is open."""
        call = self.get(tool_use_id)
        if call is not None and call.running_at is None:
            call.running_at = now

    def deny(self, message: PermissionDeniedMessage) -> None:
        """Note that a call was denied, before its result."""
        call = self.get(message.tool_use_id)
        if call is not None:
            call.denial = message

    def get(self, tool_use_id: str | None) -> Call | None:
        """Return an open call, or None."""
        return self._calls.get(tool_use_id or "")

    def are_stopping(self, task_id: str) -> bool:
        """Return whether an open call of TaskStop is stopping this task."""
        stops = (call.block.input for call in self if call.block.name == "TaskStop")
        return any(_get_text(given, "task_id") == task_id for given in stops)

    def drop_left(self, is_live: Callable[[str], bool]) -> None:
        """Remove the calls of the main agent, whose turn has ended, and those of subagents that are not live."""
        left = [call.block.id for call in self if call.agent_id is None or not is_live(call.agent_id)]
        for tool_use_id in left:
            self.close(tool_use_id)

    def close(self, tool_use_id: str) -> Call | None:
        """Remove a call whose result arrived, and return it."""
        return self._calls.pop(tool_use_id, None)


def find_announcements(message: UserMessage, calls: OpenCalls) -> Iterable[Announcement]:
    """Yield the statements about tasks in the tool results of a message. Results of unrelated tools are ignored."""
    for block in message.tool_results:
        call = calls.close(block.tool_use_id)
        if call is not None and call.block.name not in TASK_TOOLS:
            continue
        if isinstance(message.tool_use_result, dict):
            yield from _read_structured(message.tool_use_result, block.tool_use_id, call)
        text = block.text
        path = re.search(_OUTPUT_PATH, text) if _WRITING_TO in text else None
        if path is not None:
            yield Announcement("writes", path["id"], block.tool_use_id, output_file=path["path"])


def find_launched_shell(call: ToolUseBlock, text: str) -> str | None:
    """Return the id of the shell that a call launched, from the text of its result; None if it launched none.

    In the transcript of a subagent, results have only a text. That of another call could be the output of any program.
    """
    is_launch = call.name in _SHELL_TOOLS and call.input.get("run_in_background") is True
    found = _LAUNCHED.match(text) if is_launch else None
    return None if found is None else found["id"]


def _read_structured(result: JSONObject, tool_use_id: str, call: Call | None) -> Iterable[Announcement]:
    for key, reader in _READERS:
        if key in result and isinstance(result[key], str):
            found = reader(result, tool_use_id)
            if found is not None and call is not None:
                found = found._replace(
                    description=found.description or call.description,
                    prompt=found.prompt or call.prompt,
                    caller=call.agent_id,
                )
            return [] if found is None else [found]
    return []


def _read_agent(result: JSONObject, tool_use_id: str) -> Announcement | None:
    if result.get("status") == "async_launched":
        return Announcement(
            "launched",
            result["agentId"],
            tool_use_id,
            type="local_agent",
            description=_get_text(result, "description"),
            prompt=_get_text(result, "prompt") or None,
            output_file=_get_text(result, "outputFile"),
        )
    if result.get("status") != "completed":
        return None
    return Announcement(
        "completed",
        result["agentId"],
        tool_use_id,
        type="local_agent",
        prompt=_get_text(result, "prompt") or None,
        report=_get_last_text(result.get("content")),
        usage=_read_usage(result),
    )


def _read_launch(result: JSONObject, tool_use_id: str) -> Announcement | None:
    """Read the results of Monitor, Workflow and cloud agents. Results of the to-do list also have a `taskId`."""
    if "timeoutMs" in result:
        return Announcement("launched", result["taskId"], tool_use_id, type="local_bash")
    if result.get("status") not in ("async_launched", "remote_launched"):
        return None
    default = "remote_agent" if "sessionUrl" in result else "local_workflow"
    return Announcement(
        "launched",
        result["taskId"],
        tool_use_id,
        type=_get_text(result, "taskType") or default,
        description=_get_text(result, "description") or _get_text(result, "summary"),
        output_file=_get_text(result, "outputFile"),
    )


def _read_shell(result: JSONObject, tool_use_id: str) -> Announcement:
    return Announcement("launched", result["backgroundTaskId"], tool_use_id, type="local_bash")


def _read_resumed(result: JSONObject, tool_use_id: str) -> Announcement:
    return Announcement("resumed", result["resumedAgentId"], tool_use_id, type="local_agent")


def _read_stopped(result: JSONObject, tool_use_id: str) -> Announcement | None:
    if "task_type" not in result:
        return None
    return Announcement("stopped", result["task_id"], type=_get_text(result, "task_type") or None)


_READERS: Final = (
    ("backgroundTaskId", _read_shell),
    ("resumedAgentId", _read_resumed),
    ("agentId", _read_agent),
    ("taskId", _read_launch),
    ("task_id", _read_stopped),
)
"""Readers by the key that contains the task id."""


def _get_text(result: JSONObject, key: str) -> str:
    value = result.get(key)
    return value if isinstance(value, str) else ""


def _get_last_text(content: object) -> str:
    """Return the last text block, because the blocks before it may be notes of the CLI."""
    blocks = content if isinstance(content, list) else []
    return next(
        (_get_text(block, "text") for block in reversed(blocks) if isinstance(block, dict) and "text" in block), ""
    )


def _read_usage(result: JSONObject) -> TaskUsage | None:
    names = {"total_tokens": "totalTokens", "tool_uses": "totalToolUseCount", "duration_ms": "totalDurationMs"}
    found = {name: result[key] for name, key in names.items() if type(result.get(key)) in (int, float)}
    return TaskUsage(**found) if found else None
