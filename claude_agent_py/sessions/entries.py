"""Read the frames of a session from its transcripts, for the journal.

An entry is the message that the CLI sent or received. The start of a turn, and the start and the end of a task, are not
entries, so they are derived: from a prompt, from a subagent's transcript, and from a notification to the model.
"""

import heapq
import math
from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

from claude_agent_py._base.errors import SessionError
from claude_agent_py._base.log import logger
from claude_agent_py._journal.fold import ProcessEnd, TimedFrame
from claude_agent_py._journal.tasks.announcements import find_launched_shell
from claude_agent_py._journal.tasks.signals import ended_with_process
from claude_agent_py.sessions.notifications import WITHIN_TURN, Notice, find_notices, read_notices
from claude_agent_py.sessions.prompt_entries import is_prompt, list_merged
from claude_agent_py.sessions.transcript import StoredSubagent, Transcript
from claude_agent_py.tasks.files.transcript import TranscriptMessage, read_status
from claude_agent_py.wire.base import CUT_OFF, NO_ANSWER, SYNTHETIC_MODEL
from claude_agent_py.wire.messages.content import ToolUseBlock
from claude_agent_py.wire.messages.conversation import AssistantMessage, CommandLifecycleMessage, UserMessage
from claude_agent_py.wire.messages.system import InitMessage
from claude_agent_py.wire.messages.tasks import TaskNotificationMessage, TaskStartedMessage
from claude_agent_py.wire.timestamps import seconds

_PAGE: Final = 64
"""The number of messages that are read at a time."""


def stored_frames(session_id: str, history: Transcript, subagents: Sequence[StoredSubagent]) -> Iterator[TimedFrame]:
    """Yield the frames of a session in the order of their times.

    A subagent begins after its call, or after all others if its call is not in the conversation.
    """
    waiting: dict[str, list[StoredSubagent]] = {}
    for agent in subagents:
        waiting.setdefault(agent.tool_use_id or "", []).append(agent)
    sources = _Sources()
    sources.add([_read_main(session_id, history)])
    sources.add(map(_read_agent, waiting.pop("", ())))
    while sources or waiting:
        if not sources:
            sources.add(map(_read_agent, waiting.pop(next(iter(waiting)))))
        timed = sources.take()
        yield timed
        if waiting and isinstance(timed[0], AssistantMessage):
            for block in timed[0].tool_uses:
                sources.add(map(_read_agent, waiting.pop(block.id, ())))


class _Sources:
    """The frames of several transcripts, in the order of their times."""

    def __init__(self) -> None:
        self._now = 0.0
        self._count = 0
        self._following: list[tuple[float, int, TimedFrame, Iterator[TimedFrame]]] = []
        """A heap of the next frame of each transcript."""

    def __bool__(self) -> bool:
        return bool(self._following)

    def add(self, sources: Iterable[Iterator[TimedFrame]]) -> None:
        """Add transcripts. Their frames come before those of earlier ones with the same time, which may report ends."""
        for source in sources:
            self._count += 1
            self._put(next(source, None), -self._count, source)

    def take(self) -> TimedFrame:
        """Return the next frame."""
        self._now, number, timed, source = heapq.heappop(self._following)
        self._put(next(source, None), number, source)
        return timed

    def _put(self, timed: TimedFrame | None, number: int, source: Iterator[TimedFrame]) -> None:
        if timed is not None:
            heapq.heappush(self._following, (max(self._now, timed[1] or 0.0), number, timed, source))


def _read_main(session_id: str, history: Transcript) -> Iterator[TimedFrame]:
    """Yield the frames of the main agent, with the starts of turns and the ends of processes that left one open."""
    is_resuming = False
    for message, at in _read(history, None):
        if _is_of_resumption(message):
            if not is_resuming:
                yield ProcessEnd(has_successor=True), None, False
            is_resuming = True
            if isinstance(message, AssistantMessage):
                continue
        if isinstance(message, UserMessage) and message.priority == WITHIN_TURN:
            yield message, at, True
            yield CommandLifecycleMessage(command_uuid=message.uuid or "", state="started"), at, False
            yield CommandLifecycleMessage(command_uuid=message.uuid or "", state="completed"), at, False
            continue
        begins = isinstance(message, UserMessage) and not message.tool_results and is_prompt(message.raw)
        is_resuming = is_resuming and not begins and not isinstance(message, AssistantMessage)
        yield message, at, begins
        if begins and isinstance(message, UserMessage):
            prompts = [*list_merged(message.raw), message.uuid]
            yield InitMessage(session_id=session_id, user_message_uuids=prompts), at, False


def _is_of_resumption(message: TranscriptMessage | Notice) -> bool:
    """Return whether the CLI added a message because an earlier process left something open (CLI 2.1.332)."""
    if isinstance(message, TaskNotificationMessage):
        return ended_with_process(message)
    if isinstance(message, AssistantMessage):
        return message.message.model == SYNTHETIC_MODEL and message.text == NO_ANSWER
    if isinstance(message, UserMessage):
        return any(result.content == CUT_OFF for result in message.tool_results)
    return isinstance(message, InitMessage)


def _read_agent(agent: StoredSubagent) -> Iterator[TimedFrame]:
    """Yield the frames of a subagent, with the starts of its runs and of its shells in the background."""
    last: TranscriptMessage | None = None
    calls: dict[str, ToolUseBlock] = {}
    try:
        for message, at in _read(agent.messages, agent.agent_id):
            if isinstance(message, UserMessage | AssistantMessage):
                prompt = message.text if isinstance(message, UserMessage) else None
                if last is None:
                    yield _describe(agent, prompt), at, False
                elif _begins_run(message, last):
                    yield TaskStartedMessage(task_id=agent.agent_id, uuid=message.uuid, prompt=prompt), at, False
                last = message
            if isinstance(message, AssistantMessage):
                calls |= {call.id: call for call in message.tool_uses}
            elif isinstance(message, UserMessage):
                for shell in _find_shells(message, calls):
                    yield shell, at, False
            yield message, at, False
    except SessionError as error:  # the transcript may have been removed since
        logger.debug("%s", error)
    if last is None:
        yield _describe(agent, None), None, False


def _find_shells(message: UserMessage, calls: dict[str, ToolUseBlock]) -> Iterator[TaskStartedMessage]:
    """Yield the starts of the shells that results of a subagent's calls tell of, and forget these calls."""
    for result in message.tool_results:
        call = calls.pop(result.tool_use_id, None)
        task_id = None if call is None else find_launched_shell(call, result.text)
        if call is not None and task_id is not None:
            yield TaskStartedMessage(
                task_id=task_id,
                tool_use_id=call.id,
                description=str(call.input.get("description") or call.input.get("command") or ""),
                task_type="local_bash",
                is_backgrounded=True,
            )


def _begins_run(message: TranscriptMessage, last: TranscriptMessage) -> bool:
    """Return whether a subagent was resumed before or by a message. `last` is the one before it."""
    if read_status(last) is None:
        return False
    if isinstance(message, UserMessage):
        return read_status(message) is None
    return isinstance(last, UserMessage) or message.message_id != last.message_id


def _describe(agent: StoredSubagent, prompt: str | None) -> TaskStartedMessage:
    return TaskStartedMessage(
        task_id=agent.agent_id,
        tool_use_id=agent.tool_use_id,
        description=agent.description,
        task_type="local_agent",
        subagent_type=agent.agent_type,
        prompt=prompt,
        is_backgrounded=agent.tool_use_id is None or agent.request_shape == "background",
        spawn_depth=agent.spawn_depth,
    )


def _read(transcript: Transcript, agent_id: str | None) -> Iterator[tuple[TranscriptMessage | Notice, float | None]]:
    """Yield the messages of an agent and what the CLI has told it, with their times."""
    notices = deque(find_notices(transcript.snapshot))
    for place, message in chain(_read_pages(transcript), [(math.inf, None)]):
        while notices and notices[0] <= place:
            for notice, at in read_notices(transcript.read_line(notices.popleft())):
                if agent_id is None or isinstance(notice, TaskNotificationMessage | InitMessage):
                    yield notice, at
        if message is not None:
            if message.agent_id != agent_id:
                message = message.replace(agent_id=agent_id)
            yield message, seconds(message.timestamp)


def _read_pages(transcript: Transcript) -> Iterator[tuple[float, TranscriptMessage]]:
    """Yield the messages with their offsets in the order in which they were written, and keep no file open."""
    places = array("Q", sorted(transcript.offsets))
    for start in range(0, len(places), _PAGE):
        page = places[start : start + _PAGE]
        yield from zip(page, list(transcript.read_at(page)), strict=True)
