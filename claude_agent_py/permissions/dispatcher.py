"""Answer permission prompts, questions, plans, elicitations and dialogs of one session.

A prompt goes to the handler of its kind, then to the inbox, and is refused if neither answers. A handler that raises,
times out, or returns an invalid answer refuses.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from typing import Any, Final, Literal

from anyio import from_thread

from claude_agent_py._base.callbacks import Callback, make_handler_error
from claude_agent_py._base.errors import HandlerError
from claude_agent_py._base.event_loop import call_later, in_event_loop
from claude_agent_py._journal.tasks.events import Answered, Asked
from claude_agent_py.permissions.interactions import (
    AnswerSource,
    Inbox,
    InteractionSettled,
    PendingInteractions,
    summarize,
)
from claude_agent_py.permissions.prompts import (
    KINDS,
    Kind,
    WireRequest,
    extract_record,
    get_kind,
    get_kind_of_tool,
)
from claude_agent_py.permissions.requests import PermissionContext
from claude_agent_py.tasks import TaskIntake
from claude_agent_py.tasks.handler_context import extend
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

_KIND_BY_SUBTYPE: Final[Mapping[object, Kind]] = {"elicitation": "elicitation", "request_user_dialog": "dialog"}

_FALLS_BACK = frozenset({"question", "plan"})
"""Kinds that are also permission requests; `can_use_tool` gets those without their own handler."""


class PermissionDispatcher:
    """Answers permission prompts, questions, plans, elicitations and dialogs of one session.

    Args:
        handlers: The handlers, by the names of their options (`HANDLERS`). None leaves a permission to the inbox, or
            denies it without one.
        interactions: The inbox for prompts without a handler. True creates one in memory; None refuses such prompts.
        report: Called with the error of each handler that fails. Must not raise.
        intakes: Returns the task intakes that are told about waiting for a person: those of the session and, for a
            child agent, of its ancestors.
        on_interaction: Called when an inbox entry is opened and settled. Runs in the event loop. Must not raise.
    """

    def __init__(
        self,
        handlers: Mapping[str, Handler | None],
        *,
        report: Callable[[HandlerError], object],
        interactions: Inbox | bool | None = None,
        intakes: Callable[[], Iterable[TaskIntake]] = tuple,
        on_interaction: Callable[[Any], object] = lambda event: None,
    ) -> None:
        self._handlers: dict[Kind, Callback] = {}
        for kind, option in HANDLERS.items():
            handler = handlers.get(option)
            if handler is not None:
                self._handlers[kind] = Callback(handler)
        self._own_inbox = PendingInteractions() if interactions is True else None
        self.interactions: Inbox | None = interactions if isinstance(interactions, Inbox) else self._own_inbox
        self._report = report
        self.intakes = intakes
        self.states: dict[str, Literal["new", "waiting", "answered"]] = {}
        """The state of each prompt without a reply: `waiting` for a person, whose answer has not been recorded."""
        self.on_interaction = on_interaction

    def close(self) -> None:
        """Close the inbox if the dispatcher created it."""
        if self._own_inbox is not None:
            self._own_inbox.close()

    async def answer(self, request: WireRequest, context: PermissionContext) -> JSONObject:
        """Return the reply to a request. A failing handler does not raise here; cancelling cancels the handler."""
        kind = get_kind(request)
        prompt = extend(context, _Prompt, _dispatcher=self, _kind=kind, _request=request)
        self.states[prompt.id] = "new"
        cancel_timer: Callable[[], object] = lambda: None  # noqa: E731
        if context.agent_id is not None:  # a policy decides in a moment, and what takes longer asks a person
            cancel_timer = call_later(MOMENT, prompt.wait)
        was_answered = False
        try:
            reply = await self._ask_handler(kind, request, prompt)
            if reply is None:
                reply = await self._ask_inbox(kind, request, prompt)
            was_answered = True
            return reply
        finally:
            cancel_timer()
            prompt.end(was_answered)

    def fail(self, fields: Mapping[str, object], reason: str) -> JSONObject:
        """Report the handler of a request that could not be read, and return its refusal.

        Args:
            fields: The fields of the request that could be read.
            reason: The error.
        """
        kind: Kind = _KIND_BY_SUBTYPE.get(fields.get("subtype")) or get_kind_of_tool(fields.get("tool_name"))
        self._report(HandlerError(HANDLERS[kind], reason))
        return KINDS[kind].refuse(f"Denied: {HANDLERS[kind]} failed: {reason}.")

    async def _ask_inbox(self, kind: Kind, request: object, prompt: "_Prompt") -> JSONObject:
        if self.interactions is None:
            return KINDS[kind].refuse("No handler is configured to allow this.")
        try:
            return await self.interactions.ask(kind, request, prompt)
        except BaseException as error:
            # An inbox may be a file or the user's class, so it can fail in any way.
            self._report(make_handler_error("interactions", error))
            refusal = KINDS[kind].refuse("Denied: the inbox failed.")
            prompt.note_answer(refusal, AnswerSource("", "interactions"))
            return refusal

    async def _ask_handler(self, kind: Kind, request: object, prompt: "_Prompt") -> JSONObject | None:
        """Return the reply of the kind's handler, or None if there is no handler or it has no opinion."""
        if kind not in self._handlers and kind in _FALLS_BACK and self.interactions is None:
            kind = "permission"
        handler = self._handlers.get(kind)
        if handler is None:
            return None
        subject = KINDS[kind].subject(_copy(request), prompt)  # edits of the handler change no record
        if kind != "permission":
            prompt.wait()
        try:
            reply = await handler.call_and_read(subject, prompt, read=lambda value: self._read(kind, request, value))
        except HandlerError as error:
            self._report(error)
            reply = KINDS[kind].refuse(f"Denied: {HANDLERS[kind]} failed: {error.reason}.")
        if reply is not None:
            prompt.note_answer(reply, AnswerSource(handler.name.rpartition(".")[2], HANDLERS[kind]))
        return reply

    def _read(self, kind: Kind, request: object, value: object) -> JSONObject | None:
        if value is None and kind == "permission" and self.interactions is not None:
            # The policy has no opinion, so a person decides.
            return None
        return KINDS[kind].read(request, value)


class _Prompt(PermissionContext, frozen=True, kw_only=True, eq=False):
    """The context of a prompt until its reply. If it waits for a person, the tasks learn of it."""

    _dispatcher: PermissionDispatcher
    _kind: Kind
    _request: WireRequest

    @property
    def request(self) -> WireRequest:
        return self._request

    @property
    def id(self) -> str:
        """The id of the prompt. That of the request is only unique within a session."""
        return f"{self.request_id} {self.agent_id}"

    @contextlib.contextmanager
    def awaiting_user(self, interaction_id: str | None = None) -> Iterator[None]:
        if in_event_loop():
            self.wait(interaction_id)
        else:  # plain handlers run in a worker thread
            from_thread.run_sync(self.wait, interaction_id)
        yield

    def on_interaction(self, event: object) -> None:
        if isinstance(event, InteractionSettled) and event.answer is not None:
            self.note_answer(event.answer, event.source or AnswerSource("", ""), event.interaction.id)
        self._dispatcher.on_interaction(event)

    def wait(self, interaction_id: str | None = None) -> None:
        """Report that the prompt waits for a person, unless that is known or the prompt is over."""
        state = self._dispatcher.states.get(self.id)
        if state == "new" or (state is not None and interaction_id is not None):
            self._dispatcher.states[self.id] = "waiting"
            subject = KINDS[self._kind].subject(self.request, self)
            asked = Asked(summarize(self._kind, subject), self._kind, interaction_id)
            for intake in self._dispatcher.intakes():
                intake.track_prompt(self.id, self.agent_id, asked)

    def note_answer(self, reply: JSONObject, source: AnswerSource, interaction_id: str | None = None) -> None:
        """Report the first answer to a prompt that waits for a person. Does nothing for others."""
        if self._dispatcher.states.get(self.id) == "waiting":
            self._dispatcher.states[self.id] = "answered"
            answered = Answered(extract_record(self._kind, reply), source.by, source.origin, interaction_id)
            for intake in self._dispatcher.intakes():
                intake.track_answer(self.agent_id, answered)

    def end(self, was_answered: bool) -> None:
        """Report that the prompt no longer waits, if it has waited."""
        if self._dispatcher.states.pop(self.id, "new") != "new":
            for intake in self._dispatcher.intakes():
                intake.track_prompt_end(self.id, self.agent_id, was_answered)


def _copy(request: object) -> object:
    """Return a request whose JSON is a copy."""
    if isinstance(request, CanUseToolRequest):  # copying only its input is much faster
        return request.replace(input=deepcopy(request.input))
    return deepcopy(request)
