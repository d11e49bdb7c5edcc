"""Change a tool's output after all hooks of the session have answered.

The CLI runs the hooks of a call concurrently and uses the replacement that arrives last. So a hook that shortens the
original could undo a redaction by another hook. Here the change is made to the result of all hooks, and the hook that
answers last returns it.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from claude_agent_py.wire.base import JSONObject

EVENT: Final = "PostToolUse"

REPLACEMENT: Final = "updatedToolOutput"


class FinalFilter:
    """A change to the output of a tool.

    Args:
        names: The names of the tool.
        change: Called with the output and whether it is the original. Returns the new output, or None to keep the
            output. Must not raise.
    """

    def __init__(self, names: Collection[str], change: Callable[[Any, bool], object]) -> None:
        self.names = names
        self._change = change
        self._calls: dict[str, _PendingCall] = {}

    def concerns(self, event: str, data: Mapping[str, object]) -> bool:
        """Return whether a hook's call is about the tool's output."""
        return event == EVENT and data.get("tool_name") in self.names

    def begin(self, call_id: str, hooks: int) -> None:
        """Register a call with the number of its hooks. Repeated calls do nothing."""
        self._calls.setdefault(call_id, _PendingCall(hooks))

    def end(self, call_id: str, data: Mapping[str, object], output: JSONObject) -> JSONObject:
        """Return the answer of a hook, with the change if it is the last hook of its call."""
        call = self._calls.get(call_id)
        if call is None:
            return output
        specific = output.get("hookSpecificOutput")
        if isinstance(specific, Mapping) and REPLACEMENT in specific:
            call.replacement = specific[REPLACEMENT]
        call.left -= 1
        if call.left > 0:
            return output
        del self._calls[call_id]
        is_original = call.replacement is None
        changed = self._change(data.get("tool_response") if is_original else call.replacement, is_original)
        if changed is None:
            return output
        # An asynchronous answer is replaced entirely.
        answer = {} if output.get("async") else output
        fields = specific if isinstance(specific, Mapping) else {}
        return {**answer, "hookSpecificOutput": {"hookEventName": EVENT, **fields, REPLACEMENT: changed}}

    def forget(self, call_id: str) -> None:
        """Drop a call after the CLI has withdrawn its hooks."""
        self._calls.pop(call_id, None)


@dataclass(slots=True)
class _PendingCall:
    """The hooks of a call that have not answered yet, and the newest replacement."""

    left: int
    replacement: Any = None
