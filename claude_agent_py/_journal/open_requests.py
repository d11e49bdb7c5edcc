"""`OpenRequests`: the part of the journal that pairs the requests of the CLI with their replies."""

from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from claude_agent_py._journal.fact_base import Add
from claude_agent_py._journal.facts import MAIN, RequestOpened, RequestSettled, RequestStatus
from claude_agent_py._journal.requests import HOOKS_ABOUT_CALLS, HookRun, describe, read_reply
from claude_agent_py.wire.control.frames import ControlRequest, ControlResponse, ControlSuccess
from claude_agent_py.wire.messages.occasional import HookResponseMessage, HookStartedMessage

_KEPT: Final = ("id", "agent", "kind", "name", "handler")
"""The fields of a request that the fact about its end has, too."""
_ENDS: Final[Mapping[str, RequestStatus]] = {"success": "ok", "cancelled": "cancelled"}
"""The status of a hook that the CLI ran itself, by the outcome that it reports; otherwise `error`."""


class OpenRequests:
    """The requests of the CLI that wait for a reply, and the hooks that it runs itself."""

    def __init__(self, add: Add) -> None:
        self._add = add
        self.facts: dict[str, RequestOpened] = {}
        """The facts of their beginning, by id."""

    def open(self, frame: ControlRequest, at: float | None, agent: str) -> None:
        """Add a request, unless a tool call covers it. A child agent sent it unless `agent` is the main one."""
        fields = describe(frame.request)
        if fields is not None:
            fields["agent"] = fields.get("agent") or agent
            self._open(at, id=frame.request_id, **fields)

    def _open(self, at: float | None, *, id: str, **fields: Any) -> None:  # noqa: A002 - the name of the field
        if id not in self.facts:  # the CLI may repeat a request
            self.facts[id] = self._add(RequestOpened, at, id=id, **fields)

    def on_reply(self, frame: ControlResponse, at: float | None) -> None:
        """Settle the request that a reply answers."""
        response = frame.response
        if isinstance(response, ControlSuccess):
            self.settle(frame.request_id, response.response or {}, at)
        else:
            self.settle(frame.request_id, None, at, "error")

    def settle(self, request_id: str, reply: object, at: float | None, status: RequestStatus | None = None) -> None:
        """Settle a request, with the status that the reply shows unless one is given."""
        request = self.facts.pop(request_id, None)
        if request is not None:
            self._add_settled(request, status or read_reply(reply), reply if isinstance(reply, dict) else None, at)

    def cancel(self, at: float | None) -> None:
        """Settle all requests, because the process has ended."""
        for request_id in list(self.facts):
            self.settle(request_id, None, at, "cancelled")

    def _add_settled(self, request: RequestOpened, status: RequestStatus, reply: object, at: float | None) -> None:
        kept = {name: getattr(request, name) for name in _KEPT}
        self._add(RequestSettled, at, **kept, status=status, reply=reply)

    def add_run(self, run: HookRun, at: float | None) -> None:
        """Add the handler to the request of a hook. Without the request, the run is all that is known of it."""
        known = self.facts.get(run.request_id)
        if known is not None:
            self.facts[known.id] = replace(known, handler=run.handler)
            return
        began = None if at is None else at - run.duration
        agent = run.agent_id or MAIN
        self._open(began, id=run.request_id, agent=agent, kind="hook", name=run.event, handler=run.handler)
        self.settle(run.request_id, run.output, at, None if run.error is None else "error")

    def open_hook(self, message: HookStartedMessage, at: float | None) -> None:
        """Add a hook that the CLI runs itself."""
        event, name = message.hook_event, message.hook_name
        tool = name.removeprefix(f"{event}:") if event in HOOKS_ABOUT_CALLS and name != event else ""
        self._open(at, id=message.hook_id, kind="hook", name=event, handler=name, tool=tool)

    def end_hook(self, message: HookResponseMessage, at: float | None) -> None:
        """Settle a hook that the CLI ran itself."""
        hook = self.facts.pop(message.hook_id, None)
        if hook is not None:
            self._add_settled(hook, _ENDS.get(message.outcome, "error"), message.output or None, at)
