"""What the CLI tells the model in a transcript: that a task has ended, or to carry on with the turn of a prompt.

A notification about a task is an entry, or an attachment within a turn.
"""

import contextlib
import re
from array import array
from collections.abc import Iterator
from typing import Final, TypeAlias

from claude_agent_py._base.bounded_reading import read_object
from claude_agent_py.sessions.lines import Snapshot
from claude_agent_py.wire.base import JSONObject
from claude_agent_py.wire.messages.system import InitMessage
from claude_agent_py.wire.messages.tasks import TaskNotificationMessage, TaskStatus, TaskUsage
from claude_agent_py.wire.timestamps import seconds

_RESUMED: Final = b'"carriesOnTurnOf"'
"""The key for the prompt of a turn that another process was cut off in (CLI 2.1.332)."""
_SENDER: Final = "task-notification"
_NOTIFICATION: Final = re.compile(r"<task-notification>\s*(?P<body><task-id>.*?)</task-notification>", re.DOTALL)
_FIELD: Final = re.compile(
    r"<(?P<name>task-id|tool-use-id|output-file|status|summary)>(?P<value>.*?)</(?P=name)>", re.DOTALL
)
_REPORT: Final = re.compile(r"<result>(.*)</result>", re.DOTALL)
_SPENT: Final = re.compile(r"<(?P<name>subagent_tokens|tool_uses|duration_ms)>(?P<value>\d{1,15})</(?P=name)>")
_USAGE: Final = {"subagent_tokens": "total_tokens", "tool_uses": "tool_uses", "duration_ms": "duration_ms"}


Notice: TypeAlias = TaskNotificationMessage | InitMessage
"""The end of a task, or the start of a turn that goes on in another process."""


def find_notices(snapshot: Snapshot) -> "array[int]":
    """Return the offsets of the lines that may have notices; fewer if the file cannot be read to its end."""
    found: array[int] = array("Q")
    with contextlib.suppress(OSError):
        for offset, line in snapshot.forwards():
            if line is None:
                continue
            if _RESUMED in line or (b"<task-notification>" in line and b'"task-notification"' in line):
                found.append(offset)
    return found


def read_notices(line: bytes) -> Iterator[tuple[Notice, float | None]]:
    """Yield the notices in a line, with their times."""
    entry = read_object(line)
    if entry is None:
        return
    prompt = entry.get("carriesOnTurnOf")
    if isinstance(prompt, str):
        yield InitMessage(user_message_uuids=[prompt]), seconds(entry.get("timestamp"))
    attachment = entry.get("attachment")
    holder = attachment if isinstance(attachment, dict) else entry
    origin = holder.get("origin")
    if not isinstance(origin, dict) or origin.get("kind") != _SENDER:
        return  # a prompt with the same text has another origin
    bodies = [found["body"] for text in _iter_texts(holder) for found in _NOTIFICATION.finditer(text)]
    run_id = origin.get("runId") if len(bodies) == 1 else None
    for body in bodies:
        yield _parse(body, run_id if isinstance(run_id, str) else None), seconds(entry.get("timestamp"))


def _iter_texts(holder: JSONObject) -> Iterator[str]:
    message = holder.get("message")
    content = message.get("content") if isinstance(message, dict) else holder.get("prompt")
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for block in content:
            if isinstance(block, dict) and isinstance(block.get("text"), str):
                yield block["text"]


def _parse(body: str, run_id: str | None) -> TaskNotificationMessage:
    head, mark, _ = body.partition("<result>")
    fields = {found["name"]: found["value"] for found in _FIELD.finditer(head)}
    report = _REPORT.search(body) if mark else None
    counts = _SPENT.finditer(body.rpartition("</result>")[2])
    spent: JSONObject = {_USAGE[found["name"]]: int(found["value"]) for found in counts}
    return TaskNotificationMessage(
        task_id=fields.get("task-id", ""),
        run_id=run_id,
        tool_use_id=fields.get("tool-use-id"),
        output_file=fields.get("output-file", ""),
        status=fields.get("status") or TaskStatus.COMPLETED.value,
        summary=report[1] if report else fields.get("summary", ""),
        summary_is_report=report is not None,
        usage=TaskUsage(**spent) if spent else None,
    )
