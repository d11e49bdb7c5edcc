"""`Follower`: the runs of a thread that a page reads while it has no run itself.

It begins with the messages so far and the turn that is running. What a run of this server tells meanwhile is left to
that run; afterwards its messages come together, so that other pages have them.
"""

import json
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Sequence
from typing import Any, Final, NamedTuple

import anyio.to_thread
from ag_ui import core
from ag_ui.core import BaseEvent

from claude_agent_py._base.json_object import JSONMapping
from claude_agent_py.serve.agui_messages import ThreadMessages
from claude_agent_py.serve.agui_run import RunEvents, replay
from claude_agent_py.serve.event_log import ServedEvent
from claude_agent_py.serve.session import ServedSession, describe

_BESIDE: Final = (core.ActivitySnapshotEvent, core.StateSnapshotEvent)
"""What begins no run: it waits for the next one."""


class Follower:
    """Follows one session for one reader.

    Args:
        session: The session.
        thread_id: Its thread.
        is_told: Returns whether a run tells the turn of these prompts.
        note: Called with a run that ended with open questions.
    """

    def __init__(
        self,
        session: ServedSession,
        thread_id: str,
        *,
        is_told: Callable[[Collection[str]], bool],
        note: Callable[[RunEvents], None],
    ) -> None:
        self._session = session
        self._thread_id = thread_id
        self._is_told = is_told
        self._note = note
        self._after = ""
        """The id of the last event of the last run."""
        self._position = ""
        """The id of the last event of the session that was read."""
        self._run = RunEvents(thread_id, prompt=None, is_new=True)
        self._is_open = False
        """Whether a run has begun and not ended."""
        self._is_muted = False
        """Whether a run of this server tells the turn that is running."""
        self._held: dict[tuple[str, str], BaseEvent] = {}
        """What the next run begins with."""

    async def follow(self, after: str = "") -> AsyncGenerator[tuple[str, Any], None]:
        """Yield events, the last one of each run with its id; see `Agent.follow`."""
        self._after = after
        is_over = False
        while not is_over:
            for each in await self._catch_up():
                yield each
            is_over = True
            stream = self._session.follow(self._position)
            try:
                async for name, data in stream:
                    event = json.loads(data.data)
                    for each in self._take(name, event):
                        yield each
                    if self._begins_anew(event):
                        is_over = False
                        break
            finally:
                await stream.aclose()
        if self._is_open:
            for each in self._end("", self._run.fail("the server ends", "ConnectionClosedError")):
                yield each

    async def _catch_up(self) -> list[tuple[str, BaseEvent]]:
        """Return a run with all messages so far; nothing if the reader has them, and nothing is going on."""
        self._position, events = await self._session.read()
        seen = self._session.find_position(self._after)
        questions: dict[str, JSONMapping] = {key: describe(asked) for key, asked in self._session.questions.items()}
        is_busy = self._session.is_busy
        run = self._run = RunEvents(self._thread_id, prompt=None, is_new=True)
        made = await anyio.to_thread.run_sync(_fold, run, events, seen, is_busy)  # a long conversation takes long
        run.questions = questions
        self._is_muted = False
        if not made.has_news and run.turn is None and not run.questions:
            return []
        self._is_open = True
        self._held.clear()
        begun = [("", each) for each in (run.begin(), *made.state, *run.reopen())]
        if run.questions:
            return [*begun, *self._ask(self._position)]
        if run.turn is None or run.pending:
            return [*begun, *self._end(self._position, run.end("ok", ""))]
        return begun

    def _take(self, name: str, event: Any) -> list[tuple[str, BaseEvent]]:
        """Return what an event of the session tells that no other run does."""
        fact = event["fact"] if event["type"] == "fact" else {}
        kind = fact.get("fact") or event["type"]
        self._mute(kind, fact)
        at_work = self._run.agents
        made = list(self._run.take(event))
        if kind == "reset" and self._is_open:
            return self._end("", self._run.end("ok", ""))
        if self._is_muted or kind == "reset" or (kind == "prompt_sent" and self._is_told([fact["id"]])):
            return []
        is_news = kind == "question" or _has_content(made) or self._is_last(kind, fact or event)
        if kind == "prompt_sent" or not (self._is_open or is_news):
            self._held.update({(each.type, getattr(each, "message_id", "")): each for each in made})
            return []
        was_open = self._is_open
        if not was_open or kind == "run_ended":
            begun = [] if was_open else [self._run.begin(), *at_work]
            made = [*begun, *self._held.values(), *made]
            self._is_open = True
            self._held.clear()
        told = [("", each) for each in made]
        if kind == "question":
            told += self._ask(name)
        elif kind == "turn_ended" or (kind == "run_ended" and not was_open):
            ended = fact or event
            told += self._end(name, self._run.end(ended.get("status", "ok"), ended.get("error", "")))
        elif kind == "closed" and (was_open or event["error"]):
            told += self._end(name, self._run.end("error", event["error"] or "the process ended"))
        elif (kind in ("closed", "task_finished") and self._run.turn is None) or self._run.pending:
            told += self._end(name, self._run.end("ok", ""))
        elif self._run.is_torn:
            told += self._end("", self._run.end("ok", ""))
        return told

    def _is_last(self, kind: str, fact: JSONMapping) -> bool:
        """Return whether no turn may follow that would tell this and what is held, so that it is a run of its own."""
        if kind == "task_finished":  # one that was stopped causes none
            return self._run.turn is None and fact["outcome"]["status"] == "stopped"
        if kind == "run_ended":
            return (core.EventType.TEXT_MESSAGE_START, fact["prompt"]) in self._held
        has_failed = kind == "turn_ended" and fact.get("status", "ok") != "ok"
        return has_failed or (kind == "closed" and bool(self._held))

    def _mute(self, kind: str, fact: Any) -> None:
        """Leave a turn that begins, or goes on with a result of the client, to the run that tells it."""
        if kind == "turn_started":
            self._is_muted = self._is_told(fact.get("prompts", ()))
        elif kind == "call_ended" and self._run.turn is not None and not self._is_open:
            self._is_muted = self._is_told(self._run.turn)

    def _begins_anew(self, event: Any) -> bool:
        """Return whether the reader gets all messages again: after what others have told, or lost."""
        kind = event["fact"]["fact"] if event["type"] == "fact" else event["type"]
        if kind == "question_settled" and self._run.turn is not None and not self._is_open:
            self._is_muted = self._is_told(self._run.turn)
            return not self._is_muted
        has_ended = kind in ("turn_ended", "question", "closed") or bool(self._run.pending)
        return kind == "reset" or (has_ended if self._is_muted else self._run.is_torn)

    def _ask(self, name: str) -> list[tuple[str, BaseEvent]]:
        ended = self._end(name, self._run.interrupt())
        self._note(self._run)
        return ended

    def _end(self, name: str, events: Iterator[BaseEvent]) -> list[tuple[str, BaseEvent]]:
        self._is_open = False
        *before, last = events
        name = "" if self._held or self._run.is_torn else name  # a reader that comes back gets all
        self._after = name or self._after
        return [*(("", each) for each in before), (name, last)]


class _Folded(NamedTuple):
    state: Sequence[BaseEvent]
    """The messages, and the to-do list if there is one."""
    has_news: bool


def _fold(run: RunEvents, events: Sequence[ServedEvent], seen: int, is_busy: bool) -> _Folded:
    """Let a run take all events of a session, of which the reader has those up to a number, unless it is negative."""
    conversation, has_news = ThreadMessages(), seen < 0
    todo: list[BaseEvent] = []
    for number, each in replay(run, events, is_busy):
        conversation.take(each)
        has_news = has_news or number > seen
        todo = [each] if isinstance(each, core.StateSnapshotEvent) else todo
    return _Folded([core.MessagesSnapshotEvent(messages=list(conversation.list())), *todo], has_news)


def _has_content(events: Sequence[BaseEvent]) -> bool:
    return any(not isinstance(each, _BESIDE) for each in events)
