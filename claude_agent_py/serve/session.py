"""`ServedSession`: one conversation, with a stream of events that any number of readers follow.

It outlives the CLI's process: the client is opened with the first prompt, closed when nothing happens for a while, and
opened again with the next prompt. What the log no longer has is read from the stored conversation.
"""

import json
import secrets
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final
from uuid import uuid4

import anyio
import anyio.to_thread
import msgspec

from claude_agent_py._base.event_loop import spawn_detached
from claude_agent_py.client import Client
from claude_agent_py.errors import (
    ClaudeAgentError,
    ConnectionClosedError,
    InterruptedRunError,
    PromptCancelledError,
    SessionError,
    SessionNotFoundError,
)
from claude_agent_py.journal import (
    CallEnded,
    CallStarted,
    Fact,
    MessageAdded,
    PromptSent,
    TurnEnded,
    TurnStarted,
    encode_fact,
)
from claude_agent_py.messages import ResultMessage, StreamEventMessage
from claude_agent_py.options import ClientOptions
from claude_agent_py.permissions import Allow, Interaction, InteractionOpened, InteractionSettled, OpenQuestion
from claude_agent_py.serve.event_log import EventLog, ServedEvent
from claude_agent_py.sessions import get_session

MAX_BYTES: Final = 8 * 1024 * 1024
"""How much of its events a session keeps in memory."""
MAX_STORED: Final = 20_000
"""How many facts of the stored conversation a reader gets: the last ones."""
OUTPUT_BYTES: Final = 64 * 1024
"""How much of the end of a task's output is shown."""
_encode: Final = msgspec.json.Encoder().encode
_DELTAS: Final = {"text_delta": ("text", "text"), "thinking_delta": ("reasoning", "thinking")}


class ServedSession:
    """A conversation that is served. `Sessions` makes it.

    Attributes:
        id: The id of the session, which it has before the CLI has started.
        owner: The user to whom it belongs.
        client: The client, while the CLI runs; otherwise None.
    """

    def __init__(
        self,
        session_id: str,
        options: ClientOptions,
        *,
        make_room: Callable[[], Awaitable[None]],
        owner: str = "",
        is_stored: bool = False,
    ) -> None:
        """Create a session.

        Args:
            session_id: Its id.
            options: The options of its client.
            make_room: Called before the process starts; raises an error if it may not.
            owner: The user to whom it belongs.
            is_stored: Whether the conversation exists.
        """
        self.id = session_id
        self.owner = owner
        self.client: Client | None = None
        self._options = options
        self._make_room = make_room
        self.is_opening = False
        """Whether the process starts."""
        self._is_stored = is_stored
        self._has_begun = is_stored
        """Whether the conversation may be stored: a prompt was sent, but the process can be killed before it is."""
        self.epoch: str = secrets.token_hex(4)
        """Names this object's numbering: another process of the server numbers anew."""
        self.log: EventLog = EventLog(MAX_BYTES, time.time())
        self._changed = anyio.Event()
        self._is_over = False
        """Whether the server ends: nobody may follow or send any more."""
        self._opening = anyio.Lock()
        self.questions: dict[str, Interaction] = {}
        """The open questions, by id."""
        self._open_prompts: dict[str, None] = {}
        self._in_turn = False
        self._message = ""
        """The id of the message that arrives."""
        self._blocks: dict[int, str] = {}
        """The calls of that message, by the index of their block."""
        self._shown: deque[str] = deque(maxlen=100)
        """The latest results that are in the log. Prompts that one turn answers have the same."""
        self._todo: list[dict[str, str]] = []
        """The items of the to-do list."""
        self._positions: dict[object, int] = {}
        """How far each reader has read."""
        self.seen_at: float = time.monotonic()
        """When somebody last sent, answered or read."""
        self.used_at: float = self.seen_at
        """When anything last happened in it."""

    def __repr__(self) -> str:
        return f"<ServedSession {self.id} {self.state}>"

    @property
    def state(self) -> str:
        """`closed` without a process, `running`, or `idle`."""
        if self.client is None:
            return "closed"
        return "running" if self.is_busy else "idle"

    @property
    def is_busy(self) -> bool:
        """Whether a prompt, a turn, a question or a background task is open."""
        has_tasks = self.client is not None and bool(self.client.tasks.running)
        return bool(self._open_prompts or self.questions) or self._in_turn or has_tasks

    @property
    def readers(self) -> int:
        """How many follow it now."""
        return len(self._positions)

    @property
    def prompts(self) -> Sequence[str]:
        """The prompts that have not been answered, oldest first."""
        return list(self._open_prompts)

    @property
    def is_blocked(self) -> bool:
        """Whether the turn waits for an answer, rather than only background work."""
        tasks = self.client.tasks if self.client is not None else None
        asking = [tasks.get(each.agent_id or "") if tasks else None for each in self.questions.values()]
        return self._in_turn and any(task is None or not task.is_backgrounded for task in asking)

    # What readers do ----------------------------------------------------------------------------------------------

    async def follow(self, after: str | None = None) -> AsyncGenerator[tuple[str, ServedEvent], None]:
        """Yield the events after the one with this id, each with its id, and go on with new ones.

        Without an id, or with one whose events are no longer there, it begins with an event `reset`, then the stored
        conversation, then all that happened since. Any number of readers may follow; a slow one loses nothing. It ends
        with `Sessions.close`.
        """
        reader, joined = object(), self.log.last
        self._positions[reader] = joined
        try:
            epoch, _, number = (after or "").partition(".")
            position = int(number) if epoch == self.epoch and number.isdecimal() and len(number) < 20 else -1
            while not self._is_over:
                if not self.log.has_all_after(position):
                    position, until = self.log.start
                    yield "", ServedEvent(0, b'{"type":"reset"}')
                    for data in await anyio.to_thread.run_sync(self._read_stored, until):
                        yield "", ServedEvent(0, data)
                changed = self._changed
                events = self.log.read(position, joined)
                for event in events:
                    position = event.number
                    yield f"{self.epoch}.{position}", event
                self._positions[reader] = max(position, joined)
                if not events:
                    position = self._positions[reader] = self.log.last
                    self.log.drop_merged(min(self._positions.values()))
                    self._note_use()
                    await changed.wait()
        finally:
            del self._positions[reader]
            self._note_use()

    async def end(self) -> None:
        """End the streams of all readers and the process, for good."""
        self._is_over = True
        self._wake()
        await self.close()

    def _read_stored(self, until: float) -> Sequence[bytes]:
        """Return the last facts of the stored conversation before a time. Blocks."""
        if not self._is_stored:
            return ()
        try:
            facts = get_session(self.id, config_dir=find_config_dir(self._options)).journal()
            earlier = (_wrap(fact) for fact in facts if fact.at is None or fact.at < until)
            return deque(earlier, maxlen=MAX_STORED)
        except SessionError:
            return ()

    async def send(self, prompt: str, *, prompt_id: str | None = None) -> str:
        """Send a prompt and return its id, a uuid. Opens the client first if need be.

        Raises:
            OptionsError: The prompt is empty, or had been sent.
            TooManySessionsError: The client is closed, and as many processes as may run are busy.
            ClaudeAgentError: The CLI cannot be started.
        """
        self._note_use()
        prompt_id = prompt_id or str(uuid4())
        async with self._opening:
            client = self.client or await self._open()
            run = client.query(prompt, uuid=prompt_id)
            self._open_prompts[prompt_id] = None
            self._has_begun = True
        spawn_detached(partial(self._watch, client, prompt_id, run), name="claude_agent_py served run")
        return prompt_id

    async def answer(self, question_id: str, answer: Mapping[str, Any], *, by: str = "") -> bool:
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
        self._note_use()
        interaction = self.questions.get(question_id)
        if interaction is None:
            return False
        return await anyio.to_thread.run_sync(_answer, interaction, answer, by)

    async def stop(self) -> None:
        """Interrupt the turn, and take back the prompts behind it. Background tasks go on."""
        if self.client is not None:
            await self.client.interrupt(cancel_queued=True)

    async def close(self, *, only_idle: bool = False) -> None:
        """End the process, or only if it is idle. The conversation stays; another prompt opens it again."""
        async with self._opening:
            if only_idle and self.is_busy:
                return
            client, self.client = self.client, None
            if client is not None:
                await client.close()

    # The client ---------------------------------------------------------------------------------------------------

    async def _open(self) -> Client:
        if self._is_over:
            raise ConnectionClosedError("the server of the session ends")
        await self._make_room()
        self.is_opening = True
        try:
            client = await self._connect(is_new=not self._has_begun)
        except SessionNotFoundError:
            if self._is_stored:
                raise
            client = await self._connect(is_new=True)
        finally:
            self.is_opening = False
        self.client = client
        self._add({"type": "opened"})
        events = client.events(facts=True)
        spawn_detached(partial(self._listen, client, events), name="claude_agent_py served session")
        return client

    async def _connect(self, *, is_new: bool) -> Client:
        conversation: dict[str, Any] = {"session_id": self.id} if is_new else {"resume": self.id}
        options = self._options.replace(
            include_partial_messages=True, interactions=self._options.interactions or True, **conversation
        )
        client = Client(options)
        await client.connect()
        return client

    async def _listen(self, client: Client, events: AsyncIterator[Any]) -> None:
        """Turn what happens in the session into events, until its process ends."""
        error = ""
        try:
            async for event in events:
                self.used_at = time.monotonic()
                self._take(event)
        except ClaudeAgentError as failure:
            error = str(failure)
        finally:
            if self.client is client:
                self.client = None
            self._in_turn = False
            self.questions.clear()
            self._add({"type": "closed", "error": error})
            if not client.is_closed:
                with anyio.CancelScope(shield=True):
                    await client.close()

    async def _watch(self, client: Client, prompt_id: str, run: Any) -> None:
        """Add the end of a run, after all that belongs to it."""
        event: dict[str, Any] = {"type": "run_ended", "prompt": prompt_id, "status": "ok", "error": "", "text": ""}
        result = None
        try:
            result = await run
        except ClaudeAgentError as error:
            result = getattr(error, "result", None)
            is_cancelled = isinstance(error, InterruptedRunError | PromptCancelledError)
            event.update(status="cancelled" if is_cancelled else "error", error=str(error))
        finally:
            self._open_prompts.pop(prompt_id, None)
        event["text"] = "" if result is None else result.text
        uuid = result.message.uuid if result is not None and result.message is not None else None
        while uuid is not None and uuid not in self._shown and self.client is client:
            await self._changed.wait()
        self._add(event)

    # Events -------------------------------------------------------------------------------------------------------

    def _take(self, event: Any) -> None:
        if isinstance(event, Fact) and event.number:
            self._take_fact(event)
        elif isinstance(event, StreamEventMessage):
            self._take_delta(event)
        elif isinstance(event, InteractionOpened):
            self.questions[event.interaction.id] = event.interaction
            self._add(describe(event.interaction))
        elif isinstance(event, InteractionSettled):
            self.questions.pop(event.interaction.id, None)
            self._add({"type": "question_settled", "question": event.interaction.id, "answered": event.was_answered})
        elif isinstance(event, ResultMessage):
            self._shown.append(event.uuid)
            self._wake()

    def _take_fact(self, fact: Any) -> None:
        cut_at = None
        if isinstance(fact, CallStarted) or (isinstance(fact, MessageAdded) and fact.content):
            self.log.merge(fact.id)
            if not self._positions:
                self.log.drop_merged(self.log.last)
        elif isinstance(fact, PromptSent) and not self._in_turn:
            cut_at = fact.at
        elif isinstance(fact, TurnStarted | TurnEnded):
            self._in_turn = isinstance(fact, TurnStarted)
            self._is_stored = self._is_stored or not self._in_turn
        self.log.add(_wrap(fact), cut_at=cut_at)
        self._wake()
        if isinstance(fact, CallEnded):
            self._show_todo()

    def _show_todo(self) -> None:
        """Add the to-do list, if it has changed."""
        items = _list_todo(self.client) if self.client is not None else []
        if items != self._todo:
            self._todo = items
            self._add({"type": "todo", "items": items})

    def _take_delta(self, message: StreamEventMessage) -> None:
        event: Any = message.event
        if message.parent_tool_use_id is not None:
            return
        if event.type == "message_start":
            self._message, self._blocks = event.message.id or message.uuid, {}
        elif event.type == "content_block_start" and event.content_block.type == "tool_use":
            self._blocks[event.index] = event.content_block.id
            name = event.content_block.name
            self._add({"type": "call", "call": event.content_block.id, "name": name}, part_of=event.content_block.id)
        elif event.type == "content_block_delta":
            kind = event.delta.type
            if kind in _DELTAS:
                name, field = _DELTAS[kind]
                delta = {"type": name, "message": self._message, "delta": getattr(event.delta, field)}
                self._add(delta, part_of=self._message)
            elif kind == "input_json_delta" and event.index in self._blocks:
                call = self._blocks[event.index]
                self._add({"type": "arguments", "call": call, "delta": event.delta.partial_json}, part_of=call)

    def _add(self, event: Mapping[str, Any], *, part_of: str | None = None) -> None:
        self.log.add(_encode(event), part_of=part_of)
        self._wake()

    def _note_use(self) -> None:
        self.seen_at = self.used_at = time.monotonic()

    def _wake(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()


def find_config_dir(options: ClientOptions) -> str | None:
    """Return the configuration folder that the options name; None for that of this process."""
    return options.env.get("CLAUDE_CONFIG_DIR")


def _list_todo(client: Client) -> list[dict[str, str]]:
    listed = client.task_list
    items = [{"text": item.subject, "status": item.status} for item in listed.items]
    return items or [{"text": item.content, "status": item.status} for item in listed.todos]


def _wrap(fact: Any) -> bytes:
    """Return the event for a fact."""
    return b'{"type":"fact","fact":%s}' % encode_fact(fact)


def describe(interaction: Interaction) -> dict[str, Any]:
    """Return the event for a question, with its texts."""
    question = OpenQuestion(interaction)
    return {
        "type": "question",
        "question": interaction.id,
        "kind": interaction.kind,
        "agent": interaction.agent_id or "",
        "call": getattr(interaction.wire, "tool_use_id", None) or "",
        "title": question.title,
        "lines": question.lines,
        "diff": question.diff,
        "markdown": question.markdown,
        "always": question.always,
        "steps": _list_steps(interaction),
        "form": _list_fields(interaction),
    }


def _list_steps(interaction: Interaction) -> list[dict[str, Any]]:
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


def _list_fields(interaction: Interaction) -> list[dict[str, Any]]:
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


def _answer(interaction: Interaction, answer: Mapping[str, Any], by: str) -> bool:
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
