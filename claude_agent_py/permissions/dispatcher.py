"""Answer permission prompts, questions, plans, elicitations and dialogs of one session.

A prompt goes to the handler of its kind, then to the inbox, and is refused if neither answers. A handler that raises,
times out, or returns an invalid answer refuses.
"""

from collections.abc import Awaitable, Callable, Mapping
from copy import deepcopy
from functools import partial
from typing import Any, Final

from claude_agent_py._base.callbacks import Callback, answer_or_refuse
from claude_agent_py._base.errors import HandlerError
from claude_agent_py._base.event_loop import call_later
from claude_agent_py.permissions.contexts import PermissionContext, note_answer, note_asked
from claude_agent_py.permissions.inbox import Inbox
from claude_agent_py.permissions.interactions import AnswerSource
from claude_agent_py.permissions.prompts import KINDS, Kind, WireRequest, find_kind, get_kind, leave_plan_mode
from claude_agent_py.wire.base import JSONObject
from claude_agent_py.wire.control.asks import CanUseToolRequest

Handler = Callable[..., Any]

HANDLERS: dict[Kind, str] = {
    "permission": "can_use_tool",
    "question": "on_question",
    "plan": "on_plan",
    "elicitation": "on_elicitation",
    "dialog": "on_user_dialog",
}
"""The option with the handler of each kind."""

MOMENT: Final = 0.5
"""The seconds after which a handler that has not decided about a permission counts as asking a person."""

_FALLS_BACK = frozenset({"question", "plan"})
"""Kinds that are also permission requests; `can_use_tool` gets those without a handler or an inbox of their own."""


class PermissionDispatcher:
    """Answers permission prompts, questions, plans, elicitations and dialogs of one session.

    Args:
        handlers: The handlers, by the names of their options (`HANDLERS`). None leaves a permission to the inbox, or
            denies it without one.
        interactions: The inbox for prompts without a handler. None refuses such prompts.
        report: Called with the error of each handler that fails. Must not raise.
        ask_parent: Answers all of them instead, for a child agent without handlers of its own.
    """

    def __init__(
        self,
        handlers: Mapping[str, Handler | None],
        *,
        report: Callable[[HandlerError], object],
        interactions: Inbox | None = None,
        ask_parent: Callable[[WireRequest, PermissionContext], Awaitable[JSONObject]] | None = None,
    ) -> None:
        self._handlers: dict[Kind, Callback] = {}
        for kind, option in HANDLERS.items():
            handler = handlers.get(option)
            if handler is not None:
                self._handlers[kind] = Callback(handler)
        self.interactions: Inbox | None = interactions
        self._report = report
        self._ask_parent = ask_parent

    async def answer(self, request: WireRequest, context: PermissionContext) -> JSONObject:
        """Return the reply to a request. A failing handler does not raise here; cancelling cancels the handler."""
        if self._ask_parent is not None:
            return await self._ask_parent(request, context)
        kind = get_kind(request)
        cancel_timer: Callable[[], object] = lambda: None  # noqa: E731
        if context.agent_id is not None:  # a policy decides in a moment, and what takes longer asks a person
            cancel_timer = call_later(MOMENT, partial(note_asked, context))
        try:
            reply = await self._ask_handler(kind, request, context)
            if reply is None:
                reply = await self._ask_inbox(kind, request, context)
            return leave_plan_mode(request, reply)
        finally:
            cancel_timer()

    def fail(self, fields: Mapping[str, object], reason: str, cause: BaseException | None = None) -> JSONObject:
        """Report the handler of a request that could not be read or answered, and return its refusal.

        `fields` are those of the request that can be read.
        """
        kind = find_kind(fields.get("subtype"), fields.get("tool_name"))
        failure = HandlerError(HANDLERS[kind], reason)
        failure.__cause__ = cause
        self._report(failure)
        return _refuse(kind, failure)

    async def _ask_inbox(self, kind: Kind, request: object, context: PermissionContext) -> JSONObject:
        if self.interactions is None:
            return KINDS[kind].refuse("No handler is configured to allow this.")
        # An inbox may be a file or the user's class, so it can fail in any way.
        asking = self.interactions.ask(kind, request, context)
        refusal = KINDS[kind].refuse("Denied: the inbox failed.")
        reply, failure = await answer_or_refuse(asking, lambda failure: refusal, self._report, name="interactions")
        if failure is not None:
            note_answer(context, reply, AnswerSource("", "interactions"))
        return reply

    async def _ask_handler(self, kind: Kind, request: object, context: PermissionContext) -> JSONObject | None:
        """Return the reply of the kind's handler, or None if there is no handler or it has no opinion."""
        if kind not in self._handlers and kind in _FALLS_BACK and self.interactions is None:
            kind = "permission"
        handler = self._handlers.get(kind)
        if handler is None:
            return None
        subject = KINDS[kind].subject(_copy(request), context)  # edits of the handler change no record
        if kind != "permission":
            note_asked(context)
        call = handler.call_and_read(subject, context, read=lambda value: self._read(kind, request, value))
        reply, _ = await answer_or_refuse(call, partial(_refuse, kind), self._report)
        if reply is not None:
            note_answer(context, reply, AnswerSource(handler.name.rpartition(".")[2], HANDLERS[kind]))
        return reply

    def _read(self, kind: Kind, request: object, value: object) -> JSONObject | None:
        if value is None and kind == "permission" and self.interactions is not None:
            # The policy has no opinion, so a person decides.
            return None
        return KINDS[kind].read(request, value)


def _refuse(kind: Kind, failure: HandlerError) -> JSONObject:
    return KINDS[kind].refuse(f"Denied: {HANDLERS[kind]} failed: {failure.reason}.")


def _copy(request: object) -> object:
    """Return a request whose JSON is a copy."""
    if isinstance(request, CanUseToolRequest):  # copying only its input is much faster
        return request.replace(input=deepcopy(request.input))
    return deepcopy(request)
