"""Answer permission prompts, questions, plans, elicitations and dialogs of one session.

A prompt goes to the handler of its kind, then to the inbox, and is refused if neither answers. A handler that raises,
times out, or returns an invalid answer refuses.
"""

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from anyio import from_thread
from msgspec.structs import replace

from claude_agent_py._callbacks import Callback, make_handler_error
from claude_agent_py._errors import HandlerError
from claude_agent_py._handler_context import HandlerContext
from claude_agent_py.permissions.interactions import (
    AnswerSource,
    Inbox,
    InteractionSettled,
    PendingInteractions,
    summarize,
)
from claude_agent_py.permissions.prompts import KINDS, Kind, WireRequest, extract_record, get_kind
from claude_agent_py.permissions.requests import PermissionContext
from claude_agent_py.tasks.events import Answered, Asked
from claude_agent_py.wire.base import JSONObject

if TYPE_CHECKING:
    from claude_agent_py.tasks import TaskIntake

Handler = Callable[..., Any]

HANDLERS: dict[Kind, str] = {
    "permission": "can_use_tool",
    "question": "on_question",
    "plan": "on_plan",
    "elicitation": "on_elicitation",
    "dialog": "on_user_dialog",
}
"""The option with the handler of each kind."""

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
        intakes: "Callable[[], Iterable[TaskIntake]]" = tuple,
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
        self.on_interaction = on_interaction

    def close(self) -> None:
        """Close the inbox if the dispatcher created it."""
        if self._own_inbox is not None:
            self._own_inbox.close()

    async def answer(self, request: WireRequest, context: PermissionContext) -> JSONObject:
        """Return the reply to a request. A failing handler does not raise here; cancelling cancels the handler."""
        kind = get_kind(request)
        wait = _Wait(self, kind, request, context)
        own = replace(context, during_wait=wait.during, on_interaction=wait.report_interaction)
        reply = await self._ask_handler(kind, request, own, wait)
        return await self._ask_inbox(kind, request, own) if reply is None else reply

    async def _ask_inbox(self, kind: Kind, request: Any, context: PermissionContext) -> JSONObject:
        if self.interactions is None:
            return KINDS[kind].refuse("No handler is configured to allow this.")
        try:
            return await self.interactions.ask(kind, request, context)
        except BaseException as error:
            # An inbox may be a file or the user's class, so it can fail in any way.
            self._report(make_handler_error("interactions", error))
            return KINDS[kind].refuse("Denied: the inbox failed.")

    async def _ask_handler(
        self, kind: Kind, request: Any, context: PermissionContext, wait: "_Wait"
    ) -> JSONObject | None:
        """Return the reply of the kind's handler, or None if there is no handler or it has no opinion."""
        if kind not in self._handlers and kind in _FALLS_BACK and self.interactions is None:
            kind = "permission"
        handler = self._handlers.get(kind)
        if handler is None:
            return None
        subject = KINDS[kind].subject(request, context)
        # Policies decide without a person. Those that ask one enter `awaiting_user` themselves.
        is_policy = kind == "permission"
        try:
            with contextlib.nullcontext() if is_policy else context.awaiting_user():
                reply = await handler.call_and_read(
                    subject, context, read=lambda value: self._read(kind, request, value)
                )
                if reply is not None and wait.is_unanswered:
                    wait.report_answer(reply, AnswerSource(handler.name.rpartition(".")[2], HANDLERS[kind]))
                return reply
        except HandlerError as error:
            self._report(error)
            return KINDS[kind].refuse(f"Denied: {HANDLERS[kind]} failed: {error.reason}.")

    def _read(self, kind: Kind, request: Any, value: Any) -> JSONObject | None:
        if value is None and kind == "permission" and self.interactions is not None:
            # The policy has no opinion, so a person decides.
            return None
        return KINDS[kind].read(request, value)


class _Wait:
    """The waits of one prompt for a person. Tells the tasks of their start, end and answer."""

    def __init__(self, dispatcher: PermissionDispatcher, kind: Kind, request: Any, context: HandlerContext) -> None:
        self._dispatcher = dispatcher
        self._kind: Kind = kind
        self._request = request
        self._context = context
        self._home = threading.get_ident()
        self.is_unanswered = False
        """Whether a person was asked, and no answer has been reported."""

    @contextlib.contextmanager
    def during(self, interaction_id: str | None) -> Iterator[None]:
        """Record during the block that the prompt waits for a person."""
        self.is_unanswered = True
        subject = KINDS[self._kind].subject(self._request, self._context)
        asked = Asked(summarize(self._kind, subject), self._kind, interaction_id)
        agent_id = self._context.agent_id
        prompt = f"{self._context.request_id} {agent_id}"  # request ids are only unique within a session
        self._tell(lambda intake: intake.track_prompt(prompt, agent_id, asked))
        try:
            yield
        finally:
            self._tell(lambda intake: intake.track_prompt_end(prompt, agent_id))

    def report_interaction(self, event: Any) -> None:
        """Report that an interaction was opened or settled, and its answer if it has one."""
        if isinstance(event, InteractionSettled) and event.answer is not None:
            source = event.source or AnswerSource("", "")
            self.report_answer(event.answer, source, event.interaction.id)
        self._dispatcher.on_interaction(event)

    def report_answer(self, reply: JSONObject, source: AnswerSource, interaction_id: str | None = None) -> None:
        """Report the first answer to a prompt that waited for a person. Does nothing for later ones."""
        if self.is_unanswered:
            self.is_unanswered = False
            answered = Answered(extract_record(self._kind, reply), source.by, source.origin, interaction_id)
            self._tell(lambda intake: intake.track_answer(self._context.agent_id, answered))

    def _tell(self, track: "Callable[[TaskIntake], object]") -> None:
        """Call a function with each task intake, in the event loop."""
        if threading.get_ident() != self._home:  # plain handlers run in a worker thread
            from_thread.run_sync(self._tell, track)
            return
        for intake in self._dispatcher.intakes():
            track(intake)
