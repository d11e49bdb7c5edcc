"""`Turns`: the turns of a session, live, in a recording and in a transcript.

The CLI works on one turn at a time, but it also starts turns on its own (for a finished task or a peer), folds several
prompts into one turn, and answers queued prompts together. A turn begins when the CLI starts on a prompt, or with its
first message. It ends with its result or, without one, when the session is idle or the next turn begins.

A turn *counts*, and has an id, once its prompts are known or the model has written a message. The router sends live
messages to runs from its beginning; the journal tells of it when it counts.
"""

import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from claude_agent_py.wire.base import INTERRUPTED
from claude_agent_py.wire.messages.content import TextBlock
from claude_agent_py.wire.messages.conversation import (
    AssistantMessage,
    CommandLifecycleMessage,
    ResultMessage,
    UserMessage,
)
from claude_agent_py.wire.messages.stream import StreamEventMessage
from claude_agent_py.wire.messages.system import InitMessage, SessionStateChangedMessage
from claude_agent_py.wire.unknown import MalformedFrame

_TASK_ID: Final = re.compile(r"<task-id>([\w.-]{1,100})</task-id>")


class SentPrompt(NamedTuple):
    """A prompt, and when it was sent, in seconds since the epoch."""

    message: UserMessage
    at: float


class TurnCount(NamedTuple):
    """What the next turn that no prompt begins is named after."""

    run: str
    runs: int
    counted: int
    uncounted: int


class Turn:
    """A turn."""

    __slots__ = (
        "answers",
        "began_at",
        "causes",
        "error",
        "id",
        "is_answered",
        "is_uncounted",
        "problem",
        "prompts",
        "run",
        "stop_reason",
    )

    def __init__(self, began_at: float | None, earlier: "Turn | None" = None) -> None:
        """Create a turn; one that began without the end of an `earlier` one also answers the prompts of that."""
        self.began_at: float | None = began_at
        """When it began, in seconds since the epoch; None if unknown."""
        self.prompts: dict[str, None] = {} if earlier is None else earlier.prompts
        """The prompts that get its result."""
        self.id: str = ""
        """Its run, a slash and its number in the run; empty before it counts."""
        self.run: str = ""
        self.answers: tuple[str, ...] = ()
        """The prompts for which it began."""
        self.causes: tuple[str, ...] = ()
        """The ids of the tasks for which it began."""
        self.is_answered: bool = False
        """Whether the main agent has written a message."""
        self.is_uncounted: bool = False
        """Whether it was known only by its result, and so leaves nothing in the conversation."""
        self.problem: Literal["error", "cancelled"] | None = None
        """Its status according to its messages, if something went wrong."""
        self.error: str = ""
        """Why it failed, if its messages tell."""
        self.stop_reason: str | None = None
        """The stop reason of the main agent's latest message."""


class Turns:
    """The turns of a session.

    Args:
        clock: Returns the time of the message that is fed, in seconds since the epoch; None if unknown.
    """

    def __init__(self, clock: Callable[[], float | None]) -> None:
        self._clock = clock
        self.current: Turn | None = None
        """The current turn; None between turns."""
        self.session_id: str = ""
        self._sent: dict[str, SentPrompt | None] = {}
        """The prompts that no turn has begun for; None for one that only its name is known of."""
        self._run = ""
        """The name of the current run: its first prompt, or a `#` and its number if that has no uuid."""
        self._runs = 0
        self._counted = 0
        """The number of turns of the run so far that are in the conversation."""
        self._uncounted = 0
        """The number of turns of the run since then, without an answer."""
        self.resumes: bool = False
        """Whether the next turn that names a prompt has the same id as an earlier process's turn for that prompt."""
        self.news: list[tuple[Turn, bool]] = []
        """The turns that began to count or ended with the latest message, and whether they ended."""
        self.names: deque[tuple[str, str]] = deque()
        """The `id` and `run` of the next turns that count, if known: a run has only some turns of the session."""

    @property
    def is_answered(self) -> bool:
        """Whether the main agent has written a message in the current turn."""
        return self.current is not None and self.current.is_answered

    def take_news(self) -> list[tuple[Turn, bool]]:
        """Return the news, once."""
        news, self.news = self.news, []
        return news

    @property
    def queued(self) -> list[SentPrompt]:
        """The known prompts that no turn has begun for, oldest first."""
        return [sent for sent in self._sent.values() if sent is not None]

    @property
    def count(self) -> TurnCount:
        """The count of its turns, on which the next process of the session goes on."""
        return TurnCount(self._run, self._runs, self._counted, self._uncounted)

    def go_on(self, count: TurnCount) -> None:
        """Count on from the turns of an earlier process, unless a turn has begun."""
        if not self._run and self.current is None:
            self._run, self._runs, self._counted, self._uncounted = count
            self.resumes = True

    def note_sent(self, prompt: str, sent: SentPrompt | None = None) -> None:
        """Note that a prompt was sent. A name that begins with `#` stands for one without a uuid."""
        self._sent[prompt] = sent or self._sent.get(prompt)

    def feed(self, message: object) -> None:
        """Take in a message of a type in `RULES`, unless it is a subagent's."""
        self.news = []
        RULES[type(message)](self, message)

    def note_answer(self, message: AssistantMessage) -> None:
        """Note what a message of the main agent says of the end of the current turn."""
        turn = self._begin()
        turn.stop_reason = "error" if message.is_api_error_message else message.message.stop_reason
        if turn.problem is None and message.failure is not None:
            turn.problem = "error"

    def note_interruption(self, message: UserMessage) -> None:
        """Note whether a message says that the current turn was interrupted."""
        turn, content = self.current, message.content
        if turn is None or not (isinstance(content, str) or TextBlock in map(type, content)):
            return  # most are results of calls
        if message.text.startswith(INTERRUPTED) and not message.is_replay:
            if turn.id:
                turn.problem = "cancelled"
            else:
                turn.causes = ()  # the next turn has others

    def note_stop(self, error: str) -> None:
        """Note that the CLI stops the turn, as a transcript says. It ends later: results of calls may follow."""
        if self.current is not None:
            self.current.stop_reason = "stopped"
            if error:
                self.current.problem, self.current.error = "error", error

    def _begin(self) -> Turn:
        """Return the current turn, which begins now unless it has begun."""
        turn = self.current
        if turn is None:
            self.current = turn = Turn(self._clock())
        return turn

    def _replace(self, turn: Turn) -> Turn:
        """Begin another turn during one that counts."""
        self.news.append((turn, True))
        self.current = Turn(self._clock(), turn)
        return self.current

    def _count(self, turn: Turn, prompts: Sequence[str], *, in_result: bool = False) -> None:
        """Give the turn its id, now that it is known what it is for."""
        named = next((prompt for prompt in prompts if not prompt.startswith("#")), "")
        is_again = named != "" and named == self._run and not self.resumes
        self.resumes = self.resumes and not named
        if (prompts or not self._run) and not is_again:
            self._runs += 1
            self._counted = self._uncounted = 0
            self._run = named or f"#{self._runs}"
        # The CLI gives an empty result to each notification but the last of those that one turn answers (2.1.328).
        elif in_result:
            turn.is_uncounted = True
        for prompt in prompts:
            self._sent.pop(prompt, None)
        if turn.is_uncounted:
            self._uncounted += 1
            number = f"{self._counted}+{self._uncounted}"
        else:
            self._counted += 1
            self._uncounted = 0
            number = str(self._counted)
        turn.id, turn.run = self.names.popleft() if self.names else (f"{self._run}/{number}", self._run)
        turn.answers = tuple(prompts)
        self.news.append((turn, False))

    def _end(self) -> None:
        turn, self.current = self.current, None
        if turn is not None and turn.id:
            self.news.append((turn, True))

    def _begun(self, turn: Turn) -> list[str]:
        """Return the prompts that the CLI has announced for the turn."""
        return [prompt for prompt in turn.prompts if prompt in self._sent]

    def _on_lifecycle(self, message: CommandLifecycleMessage) -> None:
        prompt = message.command_uuid
        if message.state == "started" and prompt in self._sent:
            self._begin().prompts[prompt] = None
        elif message.is_settled:
            self._sent.pop(prompt, None)

    def _on_init(self, message: InitMessage) -> None:
        self.session_id = message.session_id or self.session_id
        turn, named = self._begin(), message.prompt_uuids
        if turn.id:
            turn = self._replace(turn)
        turn.prompts.update(dict.fromkeys(named))
        # Of prompts without a uuid, the CLI announces none; it works on the oldest.
        prompts = named or self._begun(turn) or [prompt for prompt in self._sent if prompt.startswith("#")][:1]
        if prompts or not self._run:
            self._count(turn, prompts)

    def _on_delta(self, message: StreamEventMessage) -> None:
        if (turn := self.current) is None or message.user_message_uuid is not None:
            turn = self._begin()
            turn.prompts.update(dict.fromkeys(message.prompt_uuids))

    def _on_assistant(self, message: AssistantMessage) -> None:
        turn, named = self._begin(), message.prompt_uuids
        self.note_answer(message)
        if not turn.id:
            self._count(turn, self._begun(turn) or named)
        turn.prompts.update(dict.fromkeys(named))
        turn.is_answered = True

    def _on_user(self, message: UserMessage) -> None:
        """Begin a turn with what caused it. Other user messages begin none: some come between turns."""
        if message.is_replay:
            return
        if message.origin is not None and not message.origin.is_human:
            turn = self._begin()
            if turn.id and (turn.answers or turn.is_answered):
                turn = self._replace(turn)
            turn.causes += tuple(_TASK_ID.findall(message.text))
        else:
            self.note_interruption(message)

    def _on_result(self, message: ResultMessage) -> None:
        turn = self._begin()
        if not turn.id:
            self._count(turn, message.prompt_uuids or self._begun(turn), in_result=True)
        self._end()

    def _on_state(self, message: SessionStateChangedMessage) -> None:
        if message.state == "idle":  # only sent with an empty queue
            self._end()

    def _on_malformed(self, frame: MalformedFrame) -> None:
        if frame.is_result:
            self._end()


RULES: Final[Mapping[type, Callable[..., None]]] = {
    InitMessage: Turns._on_init,
    CommandLifecycleMessage: Turns._on_lifecycle,
    StreamEventMessage: Turns._on_delta,
    AssistantMessage: Turns._on_assistant,
    UserMessage: Turns._on_user,
    ResultMessage: Turns._on_result,
    SessionStateChangedMessage: Turns._on_state,
    MalformedFrame: Turns._on_malformed,
}
"""What each message does to the turns."""
