"""Read the frames of a session from its transcripts, for the journal.

An entry is the message that the CLI sent or received. The start of a turn, and the start and the end of a task, are not
entries, so they are derived.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from claude_agent_py._journal.fold import INTERRUPTED, TimedFrame
from claude_agent_py.sessions.stored_tasks import StoredTask
from claude_agent_py.tasks.files.transcript import TranscriptMessage
from claude_agent_py.wire.messages.conversation import UserMessage
from claude_agent_py.wire.messages.system import InitMessage
from claude_agent_py.wire.messages.tasks import TaskNotificationMessage, TaskStartedMessage
from claude_agent_py.wire.timestamps import seconds

_LOCAL_COMMAND_PREFIXES: Final = ("<local-command-", "<bash-")
"""The first characters of entries that a local command wrote."""


def stored_frames(
    session_id: str, history: Iterable[TranscriptMessage], tasks: Iterable[StoredTask]
) -> Iterator[TimedFrame]:
    """Yield the frames of a session: those of the main agent, then those of each task."""
    for message in history:
        at = seconds(message.timestamp)
        is_prompt = isinstance(message, UserMessage) and _is_prompt(message)
        yield message, at, is_prompt
        if is_prompt:
            yield InitMessage(session_id=session_id, user_message_uuids=[message.uuid]), at, False
    for task in tasks:
        yield from _read_task(task)


def _is_prompt(message: UserMessage) -> bool:
    return (
        not message.tool_results
        and not message.is_synthetic
        and (message.origin is None or message.origin.is_human)
        and not message.text.startswith((INTERRUPTED, *_LOCAL_COMMAND_PREFIXES))
        and message.raw.get("isCompactSummary") is not True
    )


def _read_task(task: StoredTask) -> Iterator[TimedFrame]:
    """Yield the frames of a task, with the messages of a subagent."""
    agent, outcome = task.subagent, task.outcome
    messages = () if agent is None else agent.messages
    times = [seconds(message.timestamp) for message in (*messages[:1], *messages[-1:])]
    known = [time for time in times if time is not None]
    started = TaskStartedMessage(
        task_id=task.id,
        tool_use_id=task.tool_use_id,
        description=task.description,
        task_type=task.type,
        subagent_type=None if agent is None else agent.agent_type,
        prompt=task.prompt,
        is_backgrounded=task.is_backgrounded,
        parent_task_id=task.parent_id,
    )
    yield started, known[0] if known else task.started_at, False
    for message in messages:
        yield message, seconds(message.timestamp), False
    if outcome is not None:
        ended = TaskNotificationMessage(
            task_id=task.id, status=outcome.status, summary=outcome.summary, usage=outcome.usage
        )
        yield ended, outcome.ended_at or (known[-1] if known else None), False
