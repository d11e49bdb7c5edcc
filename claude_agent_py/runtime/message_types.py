"""What iterating a run or a session gives, as types for signatures.

Owns the two unions. Imported by type checkers, and by users' programs through the package's public names.
"""

from typing import TypeAlias

from claude_agent_py.hooks.dispatcher import HookRun
from claude_agent_py.permissions.interactions import InteractionOpened, InteractionSettled
from claude_agent_py.runtime.listeners import HandlerFailed
from claude_agent_py.tasks.events import TaskEvent
from claude_agent_py.wire.frames import Message
from claude_agent_py.wire.unknown import MalformedFrame

RunMessage: TypeAlias = Message | MalformedFrame
"""What iterating a `Run` gives."""

SessionMessage: TypeAlias = RunMessage | HandlerFailed | HookRun
"""What iterating `Client.messages()` gives."""
SessionEvent: TypeAlias = SessionMessage | TaskEvent | InteractionOpened | InteractionSettled
"""What `Client.events` gives: messages, task events, and questions that wait for a person."""
