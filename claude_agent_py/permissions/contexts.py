"""`PermissionContext`: the context of a handler of permissions and questions, which reports that it asks a person."""

import contextlib
from collections.abc import Callable, Iterator

from anyio import from_thread

from claude_agent_py._base.event_loop import in_event_loop
from claude_agent_py._journal.requests import PersonAnswered, PersonAsked
from claude_agent_py._journal.tasks.events import Answered, Asked
from claude_agent_py.permissions.interactions import AnswerSource, InteractionOpened, InteractionSettled
from claude_agent_py.permissions.prompts import KINDS, WireRequest, extract_record, get_kind, summarize
from claude_agent_py.tasks.handler_context import HandlerContext
from claude_agent_py.wire.base import JSONObject


def _ignore(what: object) -> None:
    pass


class PermissionContext(HandlerContext, frozen=True, kw_only=True, eq=False):
    """The context of handlers for permissions, questions, plans, elicitations and dialogs."""

    tool_use_id: str | None = None
    """The tool call in question, if any."""
    cwd: str | None = None
    """The session's start directory, or for a guard the shell's current directory; None if unknown."""
    _request: WireRequest | None = None
    _tell: Callable[[PersonAsked | PersonAnswered], object] = _ignore
    """Tells the session that a person is asked or has answered."""
    _announce: Callable[[InteractionOpened | InteractionSettled], object] = _ignore
    """Delivers the events of an inbox."""

    @property
    def request(self) -> WireRequest | None:
        """The request as received, with all fields; None for a guard."""
        return self._request

    @contextlib.contextmanager
    def awaiting_user(self, interaction_id: str | None = None) -> Iterator[None]:
        """Set the task's status to `awaiting_user`, until the handler returns. Use it in a `with` statement.

        Without it, the status is set when a handler has not decided after half a second. Inboxes pass the id of the
        interaction.
        """
        if self._request is None or in_event_loop():
            note_asked(self, interaction_id)
        else:  # plain handlers run in a worker thread
            from_thread.run_sync(note_asked, self, interaction_id)
        yield

    def on_interaction(self, event: InteractionOpened | InteractionSettled) -> None:
        """For inboxes: call it with `InteractionOpened` and `InteractionSettled` in the event loop. Does not raise."""
        if isinstance(event, InteractionSettled) and event.answer is not None:
            note_answer(self, event.answer, event.source or AnswerSource("", ""), event.interaction.id)
        self._announce(event)


def note_asked(context: PermissionContext, interaction_id: str | None = None) -> None:
    """Report that a person is asked, if a subagent asks. It counts once, and once for each entry of an inbox."""
    request = context.request
    if request is not None and context.agent_id is not None:
        kind = get_kind(request)
        asked = Asked(summarize(kind, KINDS[kind].subject(request, context)), kind, interaction_id)
        context._tell(PersonAsked(context.request_id, context.agent_id, asked))


def note_answer(
    context: PermissionContext, reply: JSONObject, source: AnswerSource, interaction_id: str | None = None
) -> None:
    """Report the answer, which counts only if a person is asked."""
    request = context.request
    if request is not None and context.agent_id is not None:
        answered = Answered(extract_record(get_kind(request), reply), source.by, source.origin, interaction_id)
        context._tell(PersonAnswered(context.request_id, answered))
