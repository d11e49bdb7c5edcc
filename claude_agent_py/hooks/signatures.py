"""The signature of hook handlers."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from typing_extensions import TypeVar

from claude_agent_py.hooks.context import HookContext
from claude_agent_py.wire.hooks.outputs import AsyncHookOutput, HookOutput

Input = TypeVar("Input", default=Any)

HookAnswer: TypeAlias = HookOutput | AsyncHookOutput | Mapping[str, object] | None
"""The return type of handlers: the event's output model, a dict in wire form, or None."""

HookHandler: TypeAlias = Callable[[Input, HookContext], HookAnswer | Awaitable[HookAnswer]]
"""An async or plain function; plain functions run in a worker thread."""
