"""The types of the messages and events of a run and of a session."""

from typing import TypeAlias

from claude_agent_py._connection.failures import HandlerFailed
from claude_agent_py._journal.requests import HookRun
from claude_agent_py._journal.tasks.events import TaskEvent
from claude_agent_py.permissions.interactions import InteractionOpened, InteractionSettled
from claude_agent_py.wire.frames import Message
from claude_agent_py.wire.unknown import MalformedFrame

RunMessage: TypeAlias = Message | MalformedFrame
"""The messages of a `Run`."""

SessionMessage: TypeAlias = RunMessage | HandlerFailed | HookRun
"""The messages of `Client.messages()`."""
SessionEvent: TypeAlias = SessionMessage | TaskEvent | InteractionOpened | InteractionSettled
"""The items of `Client.events()`: messages, task events, and questions that wait for a person."""
