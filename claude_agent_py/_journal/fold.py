"""`Journal`: the pure fold from the frames of a session to its facts.

It keeps only what is open: the turn, the API message that arrives, calls, tasks and requests. A `Ledger` folds the
messages about tasks, and the journal numbers its events; in a running session, it is the ledger of the `TaskManager`.
A fact has the time of its own message (messages of the user and the model have one), otherwise the time of arrival
passed to `feed`.

Sources differ, and the journal makes nothing up. These are the rules for what a source lacks:

* **Requests** (hooks, permissions, questions) are only in the pipe and in recordings.
* **A turn without an answer** leaves nothing in a transcript. If a task caused it, it does not count: the first one
  after turn 2 of a run is `2+1`. So a turn that a task causes starts with its first message.
* **Prompts that the CLI merged** share a turn. A transcript tells the text of all of them as that of the last one.
* **The result of a turn** is not in a transcript. There, the turn ends with the next prompt, or with the end of the
  session if the stop reason of its last message is final or something went wrong.
* **A resumed subagent** has a run for each time. A run without a prompt of its own has the prompt of the run before it.
* **The end of a task that nobody reported** is inferred in a running session and from its files on disk, not in a
  recording. A task that goes on after all is reopened, with the same id. A late report corrects the outcome.
* **A task of an earlier process** starts and ends when the CLI reports its end.
* **The usage of a task** never decreases, even if the CLI reports less than before.
* **A shell in the foreground** is a part of its call. If it moves to the background, it starts and moves at once.
* **How a turn was stopped** is in the result, and in the transcript a note of the CLI.
* **A call without a result** ends as one that was cut off: with its turn, or else with the process.
* **The end of the process** ends everything that is open: of a running session, of a stored one that no process has
  open, and of a recording that notes it. Otherwise, what is open has no end.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

import msgspec
from msgspec.structs import replace

from claude_agent_py._base.log import Drops
from claude_agent_py._journal.call_facts import CallFacts
from claude_agent_py._journal.fact_base import Kind, check_time
from claude_agent_py._journal.facts import (
    MAIN,
    Fact,
    Fault,
    InputAdded,
    MessageAdded,
    PromptSent,
    RequestRetried,
    StateChanged,
    TurnEnded,
    TurnStarted,
    TurnStatus,
)
from claude_agent_py._journal.open_requests import OpenRequests
from claude_agent_py._journal.requests import HookRun
from claude_agent_py._journal.task_facts import TaskFacts
from claude_agent_py._journal.tasks import signals
from claude_agent_py._journal.tasks.announcements import Call
from claude_agent_py._journal.tasks.ledger import Ledger
from claude_agent_py._journal.tasks.outcome import EndedBy
from claude_agent_py._journal.tasks.spending import read_spent, read_tokens
from claude_agent_py._journal.turns import Turn, Turns
from claude_agent_py.wire.base import SYNTHETIC_MODEL
from claude_agent_py.wire.control.asks import MCPMessageRequest
from claude_agent_py.wire.control.frames import ControlCancelRequest, ControlRequest, ControlResponse
from claude_agent_py.wire.messages.content import TextBlock, ToolResultBlock, ToolUseBlock, text_of
from claude_agent_py.wire.messages.conversation import (
    AssistantMessage,
    CommandLifecycleMessage,
    ResultMessage,
    ToolProgressMessage,
    UserMessage,
)
from claude_agent_py.wire.messages.occasional import HookResponseMessage, HookStartedMessage
from claude_agent_py.wire.messages.stream import MessageDeltaEvent, StreamEventMessage
from claude_agent_py.wire.messages.system import (
    APIRetryMessage,
    InitMessage,
    PermissionDeniedMessage,
    SessionStateChangedMessage,
)
from claude_agent_py.wire.messages.tasks import TaskNotificationMessage, TaskStartedMessage
from claude_agent_py.wire.timestamps import seconds
from claude_agent_py.wire.unknown import MalformedFrame

LEFT_BEHIND: Final = "the CLI process ended before the task"
"""Why a task failed that has no end in the source."""
_ENDED: Final = "the CLI process ended before the turn"
_COMMAND: Final = "<command-name>"
"""The start of a prompt in a transcript that is a command, which may have no answer."""
_UNFINISHED_REASONS: Final = frozenset({None, "tool_use"})

TimedFrame: TypeAlias = tuple[Any, float | None, bool]
"""A frame, when it passed in seconds since the epoch, and whether it was sent to the CLI."""


def fold(frames: Iterable[TimedFrame]) -> Iterator[Fact]:
    """Yield the facts of the frames of a whole session."""
    return (fact for _, facts in fold_frames(lambda journal: frames) for fact in facts)


def fold_frames(read: Callable[["Journal"], Iterable[TimedFrame]]) -> Iterator[tuple[TimedFrame | None, list[Fact]]]:
    """Yield each frame of a whole session with its facts, and None with those that only the end shows.

    `read` returns the frames. It gets the journal, and may add what only files show of the tasks as lists of their
    events.
    """
    journal = Journal()
    for timed in read(journal):
        yield timed, journal.feed(timed[0], timed[1], sent=timed[2])
    yield None, journal.finish()


class ProcessEnd(msgspec.Struct, frozen=True):
    """A frame that no process sends: the CLI's process has ended."""

    error: str | None = _ENDED
    """Why its turn failed; None if the client ended the session."""
    has_successor: bool = False
    """Whether another process follows. It reports the background tasks that did not end."""


class TurnStopped(msgspec.Struct, frozen=True):
    """A frame that no process sends: the CLI asks the model no more in the turn, as it notes in the transcript."""

    error: str = ""
    """Why the turn failed, if it did."""


class Journal:
    """Folds a session into facts.

    Args:
        ledger: The tasks of a running session, which feeds its ledger itself: `feed` gets the ledger's events. By
            default, the journal has a ledger of its own, which it feeds.
        turns: The turns of a running session, which feeds them itself, before the journal. By default, the journal has
            its own.
        tools: The names of the session's tools, if they are known.
    """

    def __init__(
        self, ledger: Ledger | None = None, turns: Turns | None = None, tools: Iterable[str] | None = None
    ) -> None:
        self.number: int = 0
        """The number of the latest fact."""
        self._at: float | None = None
        """The time of the frame that is fed."""
        self._arrived_at: float | None = None
        """When it arrived, which a session takes for the time of what happens to tasks."""
        self._child = MAIN
        """The child agent whose CLI sent it."""
        self._facts: list[Fact] = []
        """Its facts."""
        self._sent: dict[str, PromptSent] = {}
        self._unnamed = 0
        """The number of prompts without a uuid."""
        self._tools = _name_tools(tools or ())
        """The names of the session's tools; empty before the first turn."""
        self._turn: TurnStarted | None = None
        self._message: MessageAdded | None = None
        """The main agent's latest message."""
        self._worked_at: float | None = None
        """When the turn got its latest message."""
        self._calls = CallFacts(self._add)
        self._owns_ledger = ledger is None
        """Whether it feeds its ledger itself."""
        self._requests = OpenRequests(self._add)
        self._drops = Drops("the journal of a session")
        self._owns_turns = turns is None
        """Whether it feeds its turns itself."""
        self._turns = turns or Turns(lambda: self._at)
        self._ledger = ledger or Ledger()
        self._tasks = TaskFacts(self._ledger, self._number, self._calls.leave)
        if ledger is not None:
            self._tasks.add_running()
        if self._turns.current is not None and self._turns.current.id:
            self._begin_turn(self._turns.current)
        for call in self._ledger.calls:
            self._add_open_call(call)
        self._turns.take_news()  # which are from before

    @property
    def open(self) -> Sequence[Fact]:
        """The facts that started what has not ended, in order. A task is in its present state."""
        turn = () if self._turn is None else (self._turn,)
        calls = (*self._calls.open.values(), *self._calls.running.values())
        facts = (*turn, *self._sent.values(), *calls, *self._tasks.describe_open(), *self._requests.facts.values())
        return sorted(facts, key=lambda fact: fact.number)

    @property
    def ledger(self) -> Ledger:
        """The tasks. Internal."""
        return self._ledger

    @property
    def turns(self) -> Turns:
        """The turns. Internal."""
        return self._turns

    def feed(self, frame: object, at: float | None = None, *, sent: bool = False, agent: str = MAIN) -> list[Fact]:
        """Fold a frame and return its facts. A frame that cannot be folded is logged and dropped.

        Args:
            frame: A message, a control frame or a `HookRun`. Others are ignored.
            at: When it passed, in seconds since the epoch; None if unknown.
            sent: Whether it was sent to the CLI. Otherwise the CLI sent it.
            agent: The child agent whose CLI sent it.
        """
        handler = (SENT if sent else RECEIVED).get(type(frame))
        feeds_ledger = self._owns_ledger and (type(frame), sent) in _ABOUT_TASKS
        if handler is None and not feeds_ledger:
            return []
        self._at = self._arrived_at = check_time(at)
        self._child = agent
        self._facts = []
        try:
            if handler is not None:
                handler(self, frame)
            if feeds_ledger:
                self._feed_ledger(signals.HANDLERS[type(frame)], frame)
        except Exception:
            self._drops.note(frame)
        return self._facts

    def finish(self) -> list[Fact]:
        """Return the facts that only the end of the source shows. What is still open then has no end."""
        self._facts = []
        self._leave_finished_turn()
        return self._facts

    def end(self, at: float | None = None, error: str | None = _ENDED) -> list[Fact]:
        """Return the facts of the end of the process, which ends everything that is open.

        Args:
            at: When it ended, in seconds since the epoch; None if unknown.
            error: Why the turn failed; None if the client ended the session.
        """
        return self.feed(ProcessEnd(error), at)

    def _add(self, kind: type[Kind], at: float | None, /, **fields: Any) -> Kind:
        self.number += 1
        fact = kind(number=self.number, at=at, **fields)
        self._facts.append(cast("Fact", fact))
        return fact

    def _number(self, fact: Kind) -> Kind:
        """Add a fact that was made before, and return it with its number."""
        self.number += 1
        numbered = replace(fact, number=self.number)
        self._facts.append(cast("Fact", numbered))
        return numbered

    # Prompts and turns

    def _on_prompt(self, prompt: UserMessage) -> None:
        self._unnamed += not prompt.uuid
        key = prompt.uuid or f"#{self._unnamed}"
        self._sent[key] = self._add(PromptSent, _read_time(prompt, self._at), id=key, content=prompt.content)
        if self._owns_turns:
            self._turns.note_sent(key)

    def _on_command_lifecycle(self, message: CommandLifecycleMessage) -> None:
        self._follow_turns(message)
        if message.is_settled:
            self._sent.pop(message.command_uuid, None)

    def _on_init(self, message: InitMessage) -> None:
        self._tools = _name_tools(message.tools) or self._tools
        self._follow_turns(message)

    def _follow_turns(
        self, message: object, at: float | None = None, status: TurnStatus | None = None, **ends: object
    ) -> None:
        """Add what a message does to the turns. The rest is how it ends one, if it does."""
        if self._owns_turns:
            self._turns.feed(message)
        for turn, is_over in self._turns.take_news():
            if is_over:
                self._end_turn(turn, self._worked_at if at is None else at, status, **ends)
            else:
                self._begin_turn(turn)

    def _begin_turn(self, turn: Turn) -> None:
        sent = [self._sent.pop(prompt, None) for prompt in turn.answers]
        is_command = any(prompt is not None and text_of(prompt.content).startswith(_COMMAND) for prompt in sent)
        self._calls.cut_off_left(self._worked_at)
        if is_command and not turn.is_answered:
            turn.stop_reason = "command"
        self._worked_at = turn.began_at
        self._turn = self._add(
            TurnStarted,
            turn.began_at,
            id=turn.id,
            run=turn.run,
            prompts=turn.answers,
            causes=tuple(map(self._tasks.find_run, turn.causes)),
            session_id=self._turns.session_id,
        )

    def _end_turn(self, turn: Turn, at: float | None, status: TurnStatus | None, **fields: object) -> None:
        """End a turn and the main agent's calls. Without a result, these show how it ended."""
        were_open = self._calls.cut_off_all(at, of=MAIN)
        self._turn = self._message = None
        is_cut_off = were_open and turn.stop_reason in _UNFINISHED_REASONS
        status = turn.problem or status or ("error" if is_cut_off else "ok")
        is_silent = not turn.is_answered and (turn.is_uncounted or status == "ok")
        told = {"error": turn.error, **fields}
        self._add(TurnEnded, at, id=turn.id, run=turn.run, status=status, is_silent=is_silent, **told)

    def _leave_turn(self, at: float | None, status: TurnStatus | None = None, **fields: object) -> None:
        """End the turn, if there is one, because nothing more follows."""
        turn, self._turns.current = self._turns.current, None
        if turn is not None and turn.id:
            self._end_turn(turn, at, status, **fields)

    def _leave_finished_turn(self) -> None:
        turn = self._turns.current
        if turn is not None and (turn.problem or turn.stop_reason not in _UNFINISHED_REASONS):
            self._leave_turn(self._worked_at)

    def _on_process_end(self, end: ProcessEnd) -> None:
        if self._owns_ledger and not end.has_successor:
            self._feed_ledger(Ledger.end_all, LEFT_BEHIND, EndedBy.PROCESS)
        # With its last message, and not with the process: a transcript tells no more of the end of a turn.
        self._leave_finished_turn()
        self._requests.cancel(self._at)
        self._calls.cut_off_all(self._at)
        status: TurnStatus = "cancelled" if end.error is None else "error"
        self._leave_turn(self._worked_at if self._at is None else self._at, status, error=end.error or "")
        self._turns.resumes = True

    def _on_result(self, message: ResultMessage) -> None:
        status: TurnStatus = "error" if message.is_error else "ok"
        if message.was_interrupted:
            status = "cancelled"
        models = read_spent(message.model_usage_since_last_result)
        cause = None if message.origin is None else self._tasks.find_named_run(message.origin.run_id)
        self._follow_turns(
            message,
            self._at,
            status,
            text=message.text,
            error=message.error_text,
            stop_reason=message.stop_reason,
            terminal_reason=message.terminal_reason,
            duration=message.duration_ms / 1000,
            tokens=read_tokens(message.usage),
            cost_usd=sum(spent.cost_usd for spent in models.values()),
            models=models,
            causes=() if cause is None else (cause,),
        )

    def _on_api_retry(self, message: APIRetryMessage) -> None:
        names = ("attempt", "max_retries", "error", "error_status")
        fields = {name: getattr(message, name) for name in names}
        self._add(RequestRetried, self._at, delay=message.retry_delay_ms / 1000, **fields)

    def _on_state(self, message: SessionStateChangedMessage) -> None:
        self._follow_turns(message)
        self._add(StateChanged, self._at, state=message.state)

    def _on_malformed(self, frame: MalformedFrame) -> None:
        self._add(Fault, self._at, error=frame.error)
        self._follow_turns(frame, self._at, "error", error=frame.error)

    # Messages and calls

    def _on_assistant(self, message: AssistantMessage) -> None:
        at = self._at = _read_time(message, self._at)
        agent = self._find_agent(message)
        content = message.message
        self._calls.mark_running(message.parent_tool_use_id, self._at)
        if agent == MAIN:
            self._follow_turns(message)
        added = self._add(
            MessageAdded,
            at,
            id=content.id or message.uuid,
            agent=agent,
            content=[block for block in content.content if type(block) is not ToolUseBlock],
            model=content.model,
            tokens=read_tokens(content.usage),
            is_complete=content.stop_reason is not None,
            stop_reason=content.stop_reason,
            error=message.failure,
            is_synthetic=content.model == SYNTHETIC_MODEL,
        )
        if agent == MAIN:
            self._message = None if added.is_synthetic else added
            self._worked_at = at
        self._calls.start(message, at, agent, self._tools)

    def _add_open_call(self, call: Call) -> None:
        """Add a call from before the journal began, unless its turn has ended."""
        agent = self._find_agent(call.message)
        is_open = agent in self._ledger.records if agent != MAIN else self._turn is not None
        if not is_open:
            return
        self._calls.add(call.block, call.message, check_time(call.at), agent, self._tools)
        if call.running_at is not None:
            self._calls.mark_running(call.block.id, check_time(call.running_at))
        if call.denial is not None:
            self._calls.deny(call.denial)
        if agent != MAIN and agent not in self._tasks.open:
            self._calls.leave(agent)

    def _find_agent(self, message: AssistantMessage | UserMessage) -> str:
        """Return the agent of a message. Early versions of the CLI name only the call that launched it."""
        call = message.parent_tool_use_id
        if message.agent_id is not None or call is None:
            return message.agent_id or MAIN
        return self._tasks.find_launched(call) or call

    def _on_stream_event(self, message: StreamEventMessage) -> None:
        """Report the output tokens, which an assistant message does not contain yet."""
        self._follow_turns(message)
        event, known = message.event, self._message
        if type(event) is not MessageDeltaEvent or event.usage is None or message.parent_tool_use_id is not None:
            return
        output = int(event.usage.output_tokens or 0)
        if known is not None and known.tokens is not None and output >= known.tokens.output:
            tokens = replace(known.tokens, output=output)
            self._add(MessageAdded, self._at, id=known.id, model=known.model, tokens=tokens, is_complete=True)

    def _on_user(self, message: UserMessage) -> None:
        at = self._at = _read_time(message, self._at)
        agent = self._find_agent(message)
        if agent == MAIN:
            self._follow_turns(message)
            self._worked_at = at
        self._calls.end(message, at)
        content = message.content
        if not isinstance(content, str):
            content = [block for block in content if type(block) is not ToolResultBlock]
            if len(content) == 1 and type(content[0]) is TextBlock:
                content = content[0].text  # as in a transcript
        if content and not message.is_replay:
            self._add(InputAdded, at, id=message.uuid, agent=agent, content=content)

    # Tasks

    # Of their messages, only what does not follow from the events of the ledger.

    def _on_notification(self, message: TaskNotificationMessage) -> None:
        if not self._owns_ledger:
            self._tasks.add_late_report(message, self._at)

    def _feed_ledger(self, apply: Callable[..., None], *signal: object) -> None:
        now = self._arrived_at or self._at or 0.0
        apply(self._ledger, *signal, now)
        if not self._ledger.touched:
            return  # most messages
        _, changes = self._ledger.take_changes(now)
        self._tasks.add(changes, self._at)
        for task_id in {event.task_id for event in changes}:
            record = self._ledger.records[task_id]
            if record.is_part_of_its_call and not record.is_live:
                del self._ledger.records[task_id]  # every command of the model is one

    # Requests

    def _on_request(self, frame: ControlRequest) -> None:
        self._requests.open(frame, self._at, self._child)
        if isinstance(frame.request, MCPMessageRequest):
            self._calls.expect_progress(frame.request)


RECEIVED: Final[Mapping[type, Callable[[Journal, Any], None]]] = {
    InitMessage: Journal._on_init,
    CommandLifecycleMessage: Journal._on_command_lifecycle,
    ResultMessage: Journal._on_result,
    APIRetryMessage: Journal._on_api_retry,
    SessionStateChangedMessage: Journal._on_state,
    MalformedFrame: Journal._on_malformed,
    AssistantMessage: Journal._on_assistant,
    UserMessage: Journal._on_user,
    StreamEventMessage: Journal._on_stream_event,
    ToolProgressMessage: lambda self, message: self._calls.mark_running(message.call_id, self._at),
    PermissionDeniedMessage: lambda self, message: self._calls.deny(message),
    TaskStartedMessage: lambda self, message: self._calls.mark_running(message.tool_use_id, self._at),
    TaskNotificationMessage: Journal._on_notification,
    list: lambda self, events: self._tasks.add(events, self._at),  # of a ledger
    ControlRequest: Journal._on_request,
    ControlCancelRequest: lambda self, frame: self._requests.settle(frame.request_id, None, self._at, "cancelled"),
    ProcessEnd: Journal._on_process_end,
    TurnStopped: lambda self, stop: self._turns.note_stop(stop.error),
    HookRun: lambda self, run: self._requests.add_run(run, self._at),
    HookStartedMessage: lambda self, message: self._requests.open_hook(message, self._at),
    HookResponseMessage: lambda self, message: self._requests.end_hook(message, self._at),
}
"""What the journal does with what the CLI sent. What else is about tasks follows from the events of the ledger."""
SENT: Final[Mapping[type, Callable[[Journal, Any], None]]] = {
    UserMessage: Journal._on_prompt,
    ControlResponse: lambda self, frame: self._requests.on_reply(frame, self._at),
    ControlRequest: lambda self, frame: self._calls.add_progress(frame.request, self._at),
}
"""What it does with what was sent to the CLI."""
_ABOUT_TASKS: Final = frozenset({*((kind, False) for kind in signals.HANDLERS), (ControlResponse, True)})
"""What a ledger of its own is fed with, and whether it was sent."""


def _name_tools(listed: Iterable[str]) -> frozenset[str]:
    """Return the names by which the model calls these tools: `init` lists Agent as Task (CLI 2.1.328)."""
    return frozenset({*names, "Agent"}) if (names := frozenset(listed)) else names


def _read_time(message: AssistantMessage | UserMessage, at: float | None) -> float | None:
    return check_time(seconds(message.timestamp)) or at
