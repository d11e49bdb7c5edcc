"""`ThreadMessages`: the messages that an AG-UI client has after the events of its runs, for `MESSAGES_SNAPSHOT`.

It is the fold that clients make, so that a snapshot has the ids, the parts and the order of what is streamed.
"""

from collections.abc import Collection, Sequence
from typing import Any

from ag_ui import core
from ag_ui.core import BaseEvent


class ThreadMessages:
    """The messages of a thread."""

    def __init__(self) -> None:
        self._messages: dict[str, list[Any]] = {}
        """Each message by its id, followed by the results if it is a call: a call is a message with its own id."""

    def take(self, event: BaseEvent) -> None:
        """Apply an event of a run."""
        if isinstance(event, core.TextMessageStartEvent):
            kind = core.UserMessage if event.role == "user" else core.AssistantMessage
            self._add(kind(id=event.message_id, content="", subagent_run_id=event.subagent_run_id))
        elif isinstance(event, core.ReasoningMessageStartEvent):
            self._add(core.ReasoningMessage(id=event.message_id, content=""))
        elif isinstance(event, core.TextMessageContentEvent | core.ReasoningMessageContentEvent):
            self._messages[event.message_id][0].content += event.delta
        elif isinstance(event, core.ToolCallStartEvent):
            called = core.FunctionCall(name=event.tool_call_name, arguments="")
            call = core.ToolCall(id=event.tool_call_id, function=called)
            self._add(core.AssistantMessage(id=call.id, tool_calls=[call], subagent_run_id=event.subagent_run_id))
        elif isinstance(event, core.ToolCallArgsEvent):
            self._messages[event.tool_call_id][0].tool_calls[0].function.arguments += event.delta
        elif isinstance(event, core.ToolCallResultEvent):
            result = core.ToolMessage(
                id=event.message_id,
                tool_call_id=event.tool_call_id,
                content=event.content,
                subagent_run_id=event.subagent_run_id,
            )
            # Without its call the conversation begins within the call, whose start is no longer there.
            self._messages.setdefault(event.tool_call_id, []).append(result)
        elif isinstance(event, core.ActivitySnapshotEvent):
            kind_of_activity, content = event.activity_type, event.content
            self._add(core.ActivityMessage(id=event.message_id, activity_type=kind_of_activity, content=content))

    def _add(self, message: Any) -> None:
        self._messages[message.id] = [message]

    def list(self, without: Collection[str] = ()) -> Sequence[Any]:
        """Return the messages, without those with these ids."""
        return [each for key, group in self._messages.items() if key not in without for each in group]


def is_missing(messages: Sequence[Any], known: Sequence[Any]) -> bool:
    """Return whether a client with the messages `known` lacks an answer, a call or a result among `messages`.

    Of what is written while a question ends its run it has only the beginning.
    """
    told = {message.id: _read_written(message) for message in known}
    answered = {message.tool_call_id for message in known if isinstance(message, core.ToolMessage)}
    return any(
        (message.id not in told and getattr(message, "tool_call_id", None) not in answered)
        or (message.id in told and _is_beginning(told[message.id], _read_written(message)))
        for message in messages
        if isinstance(message, core.AssistantMessage | core.ToolMessage)
    )


def _read_written(message: object) -> str:
    """Return the text of an answer, or the arguments of its call; nothing of other messages."""
    if not isinstance(message, core.AssistantMessage):
        return ""
    calls = getattr(message, "tool_calls", None) or ()
    content = message.content if isinstance(message.content, str) else ""
    return content + "".join(call.function.arguments for call in calls)


def _is_beginning(told: str, whole: str) -> bool:
    return whole.startswith(told) and whole.strip() != told.strip()


def rename(messages: Sequence[Any], known: Sequence[Any]) -> Sequence[Any]:
    """Return the messages with the ids that the client has given to its own: prompts, and results of its tools."""
    prompts = [message for message in known if isinstance(message, core.UserMessage)]
    results = {message.tool_call_id: message.id for message in known if isinstance(message, core.ToolMessage)}
    renamed, begin = [], 0
    for message in messages:
        name = message.id
        if isinstance(message, core.UserMessage):
            same = [i for i in range(begin, len(prompts)) if prompts[i].content == message.content][:1]
            if same:
                name, begin = prompts[same[0]].id, same[0] + 1
        elif isinstance(message, core.ToolMessage):
            name = results.get(message.tool_call_id, name)
        renamed.append(message if name == message.id else message.model_copy(update={"id": name}))
    return renamed
