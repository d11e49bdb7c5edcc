"""Read the frames of a session from its transcripts, for the journal.

An entry is the message that the CLI sent or received. The start of a turn, and the start and the end of a task, are not
entries, so they are derived.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from claude_agent_py._journal.fold import INTERRUPTED, TimedFrame
from claude_agent_py.sessions.stored_tasks import StoredTask
from claude_agent_py.tasks.files.transcript import TranscriptMessage
from claude_agent_py.wire.messages.conversation import UserMessage
from claude_agent_py.wire.messages.system import InitMessage
from claude_agent_py.wire.messages.tasks import TaskNotificationMessage, TaskStartedMessage
from claude_agent_py.wire.timestamps import seconds

_LOCAL_COMMAND_PREFIXES: Final = ("<local-command-", "<bash-")
"""The first characters of entries that a local command wrote."""
_LAUNCHED: Final = "Async agent launched"


def stored_frames(
    session_id: str, history: Iterable[TranscriptMessage], tasks: Iterable[StoredTask]
) -> Iterator[TimedFrame]:
    """Yield the frames of a session: those of the main agent, then those of each task."""
    backgrounded: set[str] = set()
    for message in history:
        backgrounded.update(_find_launches(message))
        at = seconds(message.timestamp)
        is_prompt = isinstance(message, UserMessage) and _is_prompt(message)
        yield message, at, is_prompt
        if is_prompt:
            yield InitMessage(session_id=session_id, user_message_uuids=[message.uuid]), at, False
    for task in tasks:
        yield from _read_task(task, backgrounded)


def _is_prompt(message: UserMessage) -> bool:
    return (
        not message.tool_results
        and not message.is_synthetic
        and (message.origin is None or message.origin.is_human)
        and not message.text.startswith((INTERRUPTED, *_LOCAL_COMMAND_PREFIXES))
        and message.raw.get("isCompactSummary") is not True
    )


def _find_launches(message: TranscriptMessage) -> Iterator[str]:
    """Yield the calls that launched a background task."""
    if isinstance(message, UserMessage):
        result: Any = message.tool_use_result
        is_launch = isinstance(result, dict) and (
            result.get("status") == "async_launched" or "backgroundTaskId" in result
        )
        for block in message.tool_results:
            if is_launch or block.text.startswith(_LAUNCHED):
                yield block.tool_use_id


def _read_task(task: StoredTask, backgrounded: set[str]) -> Iterator[TimedFrame]:
    """Yield the frames of a task, with the messages of a subagent."""
    agent, call, outcome = task.subagent, task.tool_use_id, task.outcome
    messages = () if agent is None else agent.messages
    times = [seconds(message.timestamp) for message in (*messages[:1], *messages[-1:])]
    known = [time for time in times if time is not None]
    started = TaskStartedMessage(
        task_id=task.id,
        tool_use_id=call,
        description=task.description,
        task_type=task.type,
        subagent_type=None if agent is None else agent.agent_type,
        prompt=task.prompt,
        is_backgrounded=call is None or agent is None or call in backgrounded,
        parent_task_id=task.parent_id,
    )
    yield started, known[0] if known else task.started_at, False
    for message in messages:
        backgrounded.update(_find_launches(message))
        yield message, seconds(message.timestamp), False
    if outcome is not None:
        ended = TaskNotificationMessage(
            task_id=task.id, status=outcome.status, summary=outcome.summary, usage=outcome.usage
        )
        yield ended, outcome.ended_at or (known[-1] if known else None), False
