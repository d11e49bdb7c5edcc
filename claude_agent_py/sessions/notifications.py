"""What is in a transcript beside its messages.

The CLI tells the model that a task has ended, in an entry or in an attachment within a turn, or to carry on with the
turn of a prompt. A prompt that it takes into a turn under way is an attachment, and so is its note that it has stopped
a turn. What a command says that it runs itself is an entry of the system.
"""

import contextlib
import re
from array import array
from collections.abc import Iterator
from typing import Final, TypeAlias

from claude_agent_py._base.bounded_reading import read_object
from claude_agent_py._journal.fold import TurnStopped
from claude_agent_py.sessions.lines import Snapshot
from claude_agent_py.wire.base import JSONObject
from claude_agent_py.wire.fitting import Misfit, fit
from claude_agent_py.wire.messages.conversation import UserMessage
from claude_agent_py.wire.messages.occasional import LocalCommandOutputMessage
from claude_agent_py.wire.messages.system import InitMessage
from claude_agent_py.wire.messages.tasks import TaskNotificationMessage, TaskStatus, TaskUsage
from claude_agent_py.wire.timestamps import seconds

_RESUMED: Final = b'"carriesOnTurnOf"'
"""The key for the prompt of a turn that another process was cut off in (CLI 2.1.332)."""
_LIMIT: Final = "max_turns_reached"
_STOPS: Final = (_LIMIT, "hook_stopped_continuation", "structured_output")
"""The notes after which the CLI asks the model no more in the turn."""
_OTHERS: Final = ("task-notification", "queued_command", "local_command")
_MARKS: Final = (_RESUMED, *(f'"{word}"'.encode() for word in (*_OTHERS, *_STOPS)))
_SENDER: Final = "task-notification"
_NOTIFICATION: Final = re.compile(r"<task-notification>\s*(?P<body><task-id>.*?)</task-notification>", re.DOTALL)
_FIELD: Final = re.compile(
    r"<(?P<name>task-id|tool-use-id|output-file|status|summary)>(?P<value>.*?)</(?P=name)>", re.DOTALL
)
_CONTENT: Final = re.compile(r"<(?P<kind>result|event)>(?P<expiry>\[Monitor expired after )?")
"""The start of what the task itself says: the report of a subagent, or a line of a monitor. The expiry of a monitor is
such a line, too (CLI 2.1.332)."""
_REPORT: Final = re.compile(r"<result>(.*)</result>", re.DOTALL)
_SPENT: Final = re.compile(r"<(?P<name>subagent_tokens|tool_uses|duration_ms)>(?P<value>\d{1,15})</(?P=name)>")
_USAGE: Final = {"subagent_tokens": "total_tokens", "tool_uses": "tool_uses", "duration_ms": "duration_ms"}


_OUTPUT: Final = re.compile(r"<local-command-(stdout|stderr)>(?P<text>.*)</local-command-\1>", re.DOTALL)
WITHIN_TURN: Final = "next"
"""The `priority` of a prompt within a turn."""

Notice: TypeAlias = TaskNotificationMessage | InitMessage | UserMessage | LocalCommandOutputMessage | TurnStopped
"""The end of a task, the start of a turn that goes on in another process, a prompt within a turn, the output of a
command, or the end of a turn that the CLI has stopped."""


def find_notices(snapshot: Snapshot) -> "array[int]":
    """Return the offsets of the lines that may have notices; fewer if the file cannot be read to its end."""
    found: array[int] = array("Q")
    with contextlib.suppress(OSError):
        for offset, line in snapshot.forwards():
            if line is None:
                continue
            if any(mark in line for mark in _MARKS):
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
    if entry.get("type") == "system":
        output = _OUTPUT.fullmatch(str(entry.get("content")))
        if output is not None and entry.get("subtype") == "local_command":
            yield LocalCommandOutputMessage(content=output["text"]), seconds(entry.get("timestamp"))
        return
    attachment = entry.get("attachment")
    holder = attachment if isinstance(attachment, dict) else entry
    if attachment is holder and holder.get("type") in _STOPS:
        limit = f"Reached maximum number of turns ({holder.get('maxTurns')})"  # as in the result
        yield TurnStopped(limit if holder["type"] == _LIMIT else ""), seconds(entry.get("timestamp"))
    if holder.get("commandMode") == "prompt" and not holder.get("isMeta"):
        yield from _read_prompt(holder, entry)
    origin = holder.get("origin")
    if not isinstance(origin, dict) or origin.get("kind") != _SENDER:
        return  # a prompt with the same text has another origin
    bodies = [found["body"] for text in _iter_texts(holder) for found in _NOTIFICATION.finditer(text)]
    run_id = origin.get("runId") if len(bodies) == 1 else None
    for body in bodies:
        end = _parse(body, run_id if isinstance(run_id, str) else None)
        if end is not None:
            yield end, seconds(entry.get("timestamp"))


def _read_prompt(queued: JSONObject, entry: JSONObject) -> Iterator[tuple[UserMessage, float | None]]:
    """Yield the prompt in an attachment, if a person sent it."""
    message = {"role": "user", "content": queued.get("prompt")}
    origin = queued.get("origin") or {"kind": "human"}
    given = {"message": message, "uuid": queued.get("source_uuid"), "origin": origin, "priority": WITHIN_TURN}
    with contextlib.suppress(Misfit):
        prompt, _ = fit(UserMessage, given)
        if prompt.uuid and prompt.origin is not None and prompt.origin.kind == "human":
            yield prompt, seconds(entry.get("timestamp"))


def _iter_texts(holder: JSONObject) -> Iterator[str]:
    message = holder.get("message")
    content = message.get("content") if isinstance(message, dict) else holder.get("prompt")
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for block in content:
            if isinstance(block, dict) and isinstance(block.get("text"), str):
                yield block["text"]


def _parse(body: str, run_id: str | None) -> TaskNotificationMessage | None:
    """Return the end of a task, or None for what a running monitor has seen."""
    content = _CONTENT.search(body)
    kind, head = (None, body) if content is None else (content["kind"], body[: content.start()])
    fields = {found["name"]: found["value"] for found in _FIELD.finditer(head)}
    if kind == "event" and "status" not in fields:
        if content is None or content["expiry"] is None:
            return None
        fields["status"] = TaskStatus.STOPPED.value
    report = _REPORT.search(body) if kind == "result" else None
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
