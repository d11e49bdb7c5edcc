"""`ServedSession`: one conversation, with a stream of events that any number of readers follow.

It outlives the process that works on it, which is that of a client (`client_session.py`) or of a worker of a fleet
(`fleet_session.py`). What the log no longer has is read from the stored conversation.
"""

import json
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from math import inf
from typing import Any, Final

import anyio
import anyio.to_thread
import msgspec

from claude_agent_py._base.display import one_line
from claude_agent_py._base.json_object import JSONMapping, JSONObject
from claude_agent_py.durable import Delta
from claude_agent_py.journal import (
    CallEnded,
    CallStarted,
    Fact,
    MessageAdded,
    PromptSent,
    RequestRetried,
    TurnEnded,
    TurnStarted,
    decode_fact,
    encode_fact,
)
from claude_agent_py.observe import Timeline
from claude_agent_py.permissions import Allow, Interaction, OpenQuestion
from claude_agent_py.serve.event_log import EventLog, ServedEvent
from claude_agent_py.serve.frontend_tools import FrontendTools

MAX_BYTES: Final = 8 * 1024 * 1024
"""How much of its events a session keeps in memory."""
MAX_STORED: Final = 20_000
"""How many facts of the stored conversation a reader gets: the last ones."""
TITLE_CHARS: Final = 80
_FACT: Final = b'{"type":"fact","fact":'
encode: Final = msgspec.json.Encoder().encode


class ServedSession(ABC):
    """A conversation that is served. `Sessions` or `FleetSessions` makes it.

    Attributes:
        id: The id of the session, which it has before the CLI has started.
        owner: The user to whom it belongs.
        questions: The open questions, by id.
        frontend: The tools that its client runs, if it may have some.
    """

    def __init__(self, session_id: str, owner: str, began_at: float = inf) -> None:
        """Create a session whose log begins there, or else with its first fact."""
        self.id = session_id
        self.owner = owner
        self.questions: dict[str, Interaction] = {}
        self.frontend: FrontendTools | None = None
        self.epoch: str = secrets.token_hex(4)
        """Names this object's numbering: another process of the server numbers anew."""
        self.log: EventLog = EventLog(MAX_BYTES, began_at)
        self._changed = anyio.Event()
        self._is_over = False
        """Whether the server ends: nobody may follow or send any more."""
        self._open_prompts: dict[str, bool] = {}
        """The prompts that have not ended, oldest first, and whether each was taken back."""
        self._in_turn = False
        self._positions: dict[object, int] = {}
        """How far each reader has read."""
        self.seen_at: float = time.monotonic()
        """When somebody last sent, answered or read."""
        self.used_at: float = self.seen_at
        """When anything last happened in it."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.state}>"

    @property
    @abstractmethod
    def state(self) -> str:
        """`running`, `idle`, or another one of its kind."""

    @property
    @abstractmethod
    def is_busy(self) -> bool:
        """Whether a prompt, a turn, a question or a background task is open."""

    @property
    @abstractmethod
    def is_blocked(self) -> bool:
        """Whether the turn waits for an answer, rather than only background work."""

    @property
    def readers(self) -> int:
        """How many follow it now."""
        return len(self._positions)

    @property
    def prompts(self) -> Sequence[str]:
        """The prompts that have not been answered, oldest first."""
        return list(self._open_prompts)

    # What readers do ----------------------------------------------------------------------------------------------

    async def follow(self, after: str | None = None) -> AsyncGenerator[tuple[str, ServedEvent], None]:
        """Yield the events after the one with this id, each with its id, and go on with new ones.

        Without an id, or with one whose events are no longer there, it begins with an event `reset`, then the stored
        conversation with what is open, then all that happened since. Any number of readers may follow; a slow one loses
        nothing. It ends with `close` of the sessions.
        """
        reader, joined = object(), self.log.last
        self._positions[reader] = joined
        self._reader_came()
        try:
            position = self.find_position(after or "")
            while not self._is_over:
                if not self.log.has_all_after(position):
                    yield "", ServedEvent(0, b'{"type":"reset"}')
                    position, stored = await self._read_stored()
                    for data in stored:
                        yield "", ServedEvent(0, data)
                changed = self._changed
                events = self.log.read(position, joined)
                for event in events:
                    position = event.number
                    yield f"{self.epoch}.{position}", event
                self._positions[reader] = max(position, joined)
                if not events or position == self.log.last:
                    position = self._positions[reader] = self.log.last
                    self.log.drop_merged(min(self._positions.values()))
                    self.note_use()
                    await changed.wait()
        finally:
            del self._positions[reader]
            self.note_use()

    def find_position(self, event_id: str) -> int:
        """Return the number of the event with an id; -1 if this log has never had it."""
        epoch, _, number = event_id.partition(".")
        is_known = epoch == self.epoch and number.isdecimal() and len(number) < 20 and int(number) <= self.log.last
        return int(number) if is_known else -1

    async def read(self) -> tuple[str, Sequence[ServedEvent]]:
        """Return the id of the last event, to follow from there, and all events so far.

        These are those of the stored conversation and of what is open from then, whose number is 0, and then those of
        the log.
        """
        first, stored = await self._read_stored()
        events = self.log.read(first, self.log.last, self.log.last)
        return f"{self.epoch}.{self.log.last}", [*(ServedEvent(0, data) for data in stored), *events]

    async def read_timeline(self) -> Timeline:
        """Return the timeline of the facts that `read` returns. Its title is the first prompt."""
        _, events = await self.read()
        return await anyio.to_thread.run_sync(_make_timeline, events, self.id)

    async def _read_stored(self) -> tuple[int, Sequence[bytes]]:
        """Return the number before the first event of the log, and what was before it."""
        while True:
            first, until = self.log.start
            stored = await self._load_stored(until)
            if self.log.start == (first, until):  # it neither began meanwhile nor was cut
                return first, [*stored, *self.log.list_earlier()]

    def _reader_came(self) -> None:
        """Note that somebody reads."""
        self.note_use()

    @abstractmethod
    async def _load_stored(self, until: float) -> Sequence[bytes]:
        """Return the events for the last facts of the stored conversation before the log, which begins at `until`."""

    @abstractmethod
    async def send(self, prompt: str, *, prompt_id: str | None = None) -> str:
        """Send a prompt and return its id, a uuid.

        Args:
            prompt: The text.
            prompt_id: A uuid. A prompt with the same one is not sent again.

        Raises:
            OptionsError: The prompt is empty, or had been sent.
            TooManySessionsError: As many processes as may run are busy.
            ClaudeAgentError: The CLI cannot be started, or the fleet does not answer.
        """

    async def answer(self, question_id: str, answer: JSONMapping, *, by: str = "") -> bool:
        """Answer a question. Return False if it is not open, because it was answered or withdrawn.

        Args:
            question_id: Its id, from the event `question`.
            answer: `{"decision": "allow" | "always" | "deny", "reason": ...}` for a permission or a plan, optionally
                with other arguments of the call as `input`,
                `{"answers": [...]}` with a label, a text or a list of labels for each question of the model, or
                `{"action": "accept", "content": {...}}` for a form.
            by: Who answers, for records.

        Raises:
            ValueError: The answer does not fit the question, which stays open.
        """
        self.note_use()
        interaction = await self._find_question(question_id)
        if interaction is None:
            return False
        return await anyio.to_thread.run_sync(_answer, interaction, answer, by)

    async def _find_question(self, question_id: str) -> Interaction | None:
        return self.questions.get(question_id)

    @abstractmethod
    async def stop(self) -> None:
        """Interrupt the turn. Background tasks go on."""

    @abstractmethod
    async def read_output(self, task_id: str) -> str | None:
        """Return the end of a task's output; None if the task is not known here."""

    @abstractmethod
    async def stop_task(self, task_id: str) -> bool:
        """Stop a background task. Return False if it is not known here."""

    @abstractmethod
    def list_waited_agents(self) -> Sequence[tuple[str, str, str, str | None]]:
        """Return the subagents that the turn waits for: id, name, description, and the call that launched each."""

    @abstractmethod
    async def end(self) -> None:
        """End the streams of all readers, for good."""

    # Events -------------------------------------------------------------------------------------------------------

    def _take_fact(self, fact: Any, number: float | None = None) -> None:
        """Add a fact to the log. The log may begin with it: at its time, or its number."""
        cut_at = None
        if isinstance(fact, CallStarted) or (isinstance(fact, MessageAdded) and fact.content):
            self.log.merge(fact.id)
            if not self._positions:
                self.log.drop_merged(self.log.last)
        elif isinstance(fact, PromptSent) and not self._in_turn:
            # If it waits for another prompt, a log that began here would have only the answer of that one.
            if next(iter(self._open_prompts), fact.id) == fact.id:
                cut_at = fact.at if number is None else number
        elif isinstance(fact, TurnStarted | TurnEnded):
            self._in_turn = isinstance(fact, TurnStarted)
        elif isinstance(fact, CallEnded):
            self.log.settle(fact.id)
        elif isinstance(fact, RequestRetried):
            self.log.merge()  # the answer begins anew, as another message
        if fact.at is not None:
            self.log.begin(fact.at)
        self.log.add(wrap(fact), cut_at=cut_at)
        self._wake()

    def _open_question(self, interaction: Interaction) -> None:
        self.questions[interaction.id] = interaction
        self._add(describe(interaction), opens=interaction.id)

    def _settle_question(self, question_id: str, *, was_answered: bool | None) -> None:
        self.questions.pop(question_id, None)
        self.log.settle(question_id)
        self._add({"type": "question_settled", "question": question_id, "answered": was_answered})

    def _end_prompt(self, prompt_id: str, status: str, text: str = "", error: str = "") -> None:
        self._open_prompts.pop(prompt_id, None)
        self._add({"type": "run_ended", "prompt": prompt_id, "status": status, "error": error, "text": text})

    def _show_call(self, call: str, blocks: bool) -> None:
        """Add that a call waits for the client's result, and whether others may wait for it."""
        self._add({"type": "frontend_call", "call": call, "blocks": blocks}, opens=call)

    def _add(self, event: JSONMapping, *, part_of: str | None = None, opens: str | None = None) -> None:
        self.log.add(encode(event), part_of=part_of, opens=opens)
        self._wake()

    def note_use(self) -> None:
        """Note that somebody uses it, so that it stays ready."""
        self.seen_at = self.used_at = time.monotonic()

    def _wake(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()


def wrap(fact: Fact) -> bytes:
    """Return the event for a fact."""
    return b"%s%s}" % (_FACT, encode_fact(fact))


def unwrap(events: Iterable[ServedEvent]) -> Iterator[Fact]:
    """Yield the facts among events."""
    for event in events:
        if event.data.startswith(_FACT):
            yield decode_fact(event.data[len(_FACT) : -1])


def _make_timeline(events: Iterable[ServedEvent], untitled: str) -> Timeline:
    """Return the timeline of the facts among events. Its title is the first prompt, if there is one."""
    facts = list(unwrap(events))
    prompts = (fact.content for fact in facts if isinstance(fact, PromptSent) and isinstance(fact.content, str))
    title = next((one_line(prompt, TITLE_CHARS) for prompt in prompts if prompt.strip()), untitled)
    return Timeline.from_facts(facts, title=title)


def describe_delta(delta: Delta) -> dict[str, str]:
    """Return the event for a delta."""
    if delta.kind == "call":
        return {"type": "call", "call": delta.id, "name": delta.text}
    return {"type": delta.kind, "call" if delta.kind == "arguments" else "message": delta.id, "delta": delta.text}


def describe(interaction: Interaction) -> JSONObject:
    """Return the event for a question, with its texts."""
    question, asking = OpenQuestion(interaction), getattr(interaction.wire, "call", None)
    return {
        "type": "question",
        "question": interaction.id,
        "kind": interaction.kind,
        "agent": interaction.agent_id or "",
        "call": getattr(interaction.wire, "tool_use_id", None) or getattr(asking, "id", ""),
        "title": question.title,
        "lines": question.lines,
        "diff": question.diff,
        "markdown": question.markdown,
        "always": question.always,
        "steps": _list_steps(interaction),
        "form": _list_fields(interaction),
    }


def _list_steps(interaction: Interaction) -> list[JSONObject]:
    """Return the questions of the model with their options."""
    if interaction.kind != "question":
        return []
    subject: Any = interaction.subject
    return [
        {
            "header": question.header,
            "text": question.question,
            "many": bool(question.multi_select),
            "options": [{"label": option.label, "text": option.description} for option in question.options],
        }
        for question in subject
    ]


def _list_fields(interaction: Interaction) -> list[JSONObject]:
    """Return the fields of a form."""
    subject: Any = interaction.subject
    if interaction.kind != "elicitation" or subject.mode == "url":
        return []
    return [
        {
            "name": field.name,
            "title": field.title or field.name,
            "type": field.type,
            "required": field.required,
            "choices": list(field.choices or ()),
        }
        for field in subject.form.fields.values()
    ]


def _answer(interaction: Interaction, answer: JSONMapping, by: str) -> bool:
    """Answer a question of any kind. Blocks."""
    if interaction.kind in ("permission", "plan"):
        decision = answer.get("decision")
        question = OpenQuestion(interaction, is_compared=False)
        if decision in ("allow", "always"):
            if decision == "always" and not question.always:
                raise ValueError("this question has no `always`; decide `allow` or `deny`")
            edited = answer.get("input")
            if edited is not None and interaction.kind == "permission":
                if not isinstance(edited, dict):
                    raise ValueError("`input` must be an object with the arguments of the call")
                return interaction.resolve(Allow(updated_input=edited), by=by)
            return question.allow(always=decision == "always", by=by)
        if decision == "deny":
            return question.deny(str(answer.get("reason") or ""), by=by)
        raise ValueError(f'`decision` must be "allow", "always" or "deny", not {json.dumps(decision)}')
    if answer.get("decision") == "deny":
        return interaction.refuse(str(answer.get("reason") or ""), by=by)
    if interaction.kind == "question":
        answers = answer.get("answers")
        if not isinstance(answers, list):
            raise ValueError("`answers` must be a list with an answer for each question")
        return interaction.resolve(answers, by=by)
    return interaction.resolve(dict(answer), by=by)
