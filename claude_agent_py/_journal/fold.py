"""`Journal`: the pure fold from the frames of a session to its facts.

It keeps only what is open: the turn, the API message that arrives, calls, tasks and requests. A `Ledger` folds the
messages about tasks, and the journal numbers its events; in a running session, it is the ledger of the `TaskManager`.
A fact has the time of its own message (messages of the user and the model have one), otherwise the time of arrival
passed to `feed`.

Sources differ, and the journal makes nothing up. These are the rules for what a source lacks:

* **Requests** (hooks, permissions, questions) are only in the pipe and in recordings.
* **A turn without an answer** leaves nothing in a transcript. If a task caused it, it does not count: the first one
  after turn 2 of a run is `2+1`. So a turn that a task causes starts with its first message.
* **The result of a turn** is not in a transcript. There, the turn ends with the next prompt, or with the end of the
  session if the stop reason of its last message is final or something went wrong.
* **A resumed subagent** has a run for each time. A run without a prompt of its own has the prompt of the run before it.
* **The end of a task that nobody reported** is inferred in a running session and from its files on disk, not in a
  recording. A task that goes on after all is reopened, with the same id. A late report corrects the outcome.
* **A task of an earlier process** starts and ends when the CLI reports its end.
* **The usage of a task** never decreases, even if the CLI reports less than before.
* **A shell in the foreground** is a part of its call. If it moves to the background, it starts and moves at once.
* **How a turn was stopped** is in the result, and in the transcript a note of the CLI.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeVar, cast

import msgspec
from msgspec.structs import replace

from claude_agent_py._base.log import Drops
from claude_agent_py._journal.fact_base import check_time
from claude_agent_py._journal.facts import (
    MAIN,
    AnyFact,
    CallEnded,
    CallProgressed,
    CallRunning,
    CallStarted,
    Fact,
    Fault,
    InputAdded,
    MessageAdded,
    PromptSent,
    RequestRetried,
    Spent,
    StateChanged,
    Tokens,
    ToolCallStatus,
    TurnEnded,
    TurnStarted,
    TurnStatus,
)
from claude_agent_py._journal.open_requests import OpenRequests
from claude_agent_py._journal.requests import PROGRESS, HookRun
from claude_agent_py._journal.task_facts import TaskFacts
from claude_agent_py._journal.tasks import signals
from claude_agent_py._journal.tasks.ledger import Ledger
from claude_agent_py._journal.tasks.spending import read_count
from claude_agent_py._journal.turns import Turn, Turns
from claude_agent_py.wire.base import INTERRUPTED, REJECTED, SYNTHETIC_MODEL
from claude_agent_py.wire.control.asks import MCPMessageRequest
from claude_agent_py.wire.control.frames import ControlCancelRequest, ControlRequest, ControlResponse
from claude_agent_py.wire.messages.content import TextBlock, ToolResultBlock, ToolUseBlock
from claude_agent_py.wire.messages.conversation import (
    AssistantMessage,
    CommandLifecycleMessage,
    PermissionDecision,
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
from claude_agent_py.wire.messages.tasks import (
    BackgroundTasksChangedMessage,
    TaskMessage,
    TaskNotificationMessage,
    TaskProgressMessage,
    TaskStartedMessage,
    TaskUpdatedMessage,
)
from claude_agent_py.wire.messages.usage import ModelUsage, Usage
from claude_agent_py.wire.timestamps import seconds
from claude_agent_py.wire.unknown import MalformedFrame

_CANCELLED_KINDS: Final = frozenset({"interrupted", "cancelled"})
"""Values of `non_execution_kind` for a call that was not refused."""
_CANCELLED: Final = (INTERRUPTED, "Tool permission request failed: AbortError")
"""The start of the result of a call that was stopped, or whose permission could not be asked for in time."""
_UNFINISHED_REASONS: Final = frozenset({None, "tool_use"})

Kind = TypeVar("Kind", bound=AnyFact)
TimedFrame: TypeAlias = tuple[Any, float | None, bool]
"""A frame, when it passed in seconds since the epoch, and whether it was sent to the CLI."""


def fold(frames: Iterable[TimedFrame]) -> Iterator[Fact]:
    """Yield the facts of the frames of a whole session."""
    return (fact for _, facts in fold_frames(lambda ledger: frames) for fact in facts)


def fold_frames(read: Callable[[Ledger], Iterable[TimedFrame]]) -> Iterator[tuple[TimedFrame | None, list[Fact]]]:
    """Yield each frame of a whole session with its facts, and None with those that only the end shows.

    `read` returns the frames. It gets the tasks, and may add what only files show of them as lists of their events.
    """
    journal = Journal()
    for timed in read(journal.ledger):
        frame, at, is_sent = timed
        yield timed, journal.feed(frame, at, sent=is_sent)
    yield None, journal.finish()


class Journal:
    """Folds a session into facts.

    Args:
        ledger: The tasks of a running session, which feeds its ledger itself: `feed` gets the ledger's events. By
            default, the journal has a ledger of its own, which it feeds.
        turns: The turns of a running session, which feeds them itself, before the journal. By default, the journal has
            its own.
    """

    def __init__(self, ledger: Ledger | None = None, turns: Turns | None = None) -> None:
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
        self._tools: frozenset[str] = frozenset()
        """The names of the session's tools; empty before the first turn."""
        self._turn: TurnStarted | None = None
        self._announced_at: float | None = None
        """When the CLI announced a turn that a task caused, which has not started."""
        self._problem: TurnStatus | None = None
        """The status of the turn according to its messages, if something went wrong."""
        self._stop_reason: str | None = None
        """The stop reason of the main agent's latest message."""
        self._message: MessageAdded | None = None
        """The main agent's latest message."""
        self._worked_at: float | None = None
        """When the turn got its latest message."""
        self._calls: dict[str, CallStarted] = {}
        self._left: set[str] = set()
        """The calls that were open when their task ended. Only until the next turn may their results still arrive."""
        self._running: set[str] = set()
        self._denials: dict[str, PermissionDecision] = {}
        self._follows = ledger is not None
        """Whether a session feeds the ledger."""
        self._tokens: dict[tuple[str, str | int], str] = {}
        """The open calls that may report progress, by server and token."""
        self._requests = OpenRequests(self._add)
        self._drops = Drops("the journal of a session")
        self._owns_turns = turns is None
        """Whether it feeds its turns itself."""
        self._turns = turns or Turns()
        self._ledger = ledger or Ledger()
        self._tasks = TaskFacts(self._ledger, self._number, self._leave)
        if ledger is not None:
            self._tasks.add_running()
        if self._turns.current is not None and self._turns.current.id:
            self._begin_turn(self._turns.current)
        self._turns.take_news()  # which are from before

    @property
    def open(self) -> Sequence[Fact]:
        """The facts that started what has not ended, in order."""
        turn = () if self._turn is None else (self._turn,)
        tables: tuple[Mapping[str, Fact], ...] = (self._sent, self._calls, self._tasks.open, self._requests.facts)
        return sorted((*turn, *(fact for table in tables for fact in table.values())), key=lambda fact: fact.number)

    @property
    def ledger(self) -> Ledger:
        """The tasks. Internal."""
        return self._ledger

    def feed(self, frame: object, at: float | None = None, *, sent: bool = False, agent: str = MAIN) -> list[Fact]:
        """Fold a frame and return its facts. A frame that cannot be folded is logged and dropped.

        Args:
            frame: A message, a control frame or a `HookRun`. Others are ignored.
            at: When it passed, in seconds since the epoch; None if unknown.
            sent: Whether it was sent to the CLI. Otherwise the CLI sent it.
            agent: The child agent whose CLI sent it.
        """
        handler = (SENT if sent else RECEIVED).get(type(frame))
        if handler is None:
            return []
        self._at = self._arrived_at = check_time(at)
        self._child = agent
        self._facts = []
        try:
            handler(self, frame)
            if not self._follows and (type(frame), sent) in _ABOUT_TASKS:
                self._feed_ledger(signals.HANDLERS[type(frame)], frame)
        except Exception:
            self._drops.note(frame)
        return self._facts

    def finish(self) -> list[Fact]:
        """Return the facts that only the end of the session shows. What is still open then has no end."""
        self._facts = []
        turn = self._turns.current
        if turn is not None and turn.id and (self._problem or self._stop_reason not in _UNFINISHED_REASONS):
            self._end_turn(turn, self._worked_at, "ok")
            self._turns.current = None
        return self._facts

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

    def _leave(self, task_id: str) -> None:
        """Note that a task has ended, and with it the conversation that its calls are from."""
        self._left |= {call.id for call in self._calls.values() if call.agent == task_id}

    # Prompts and turns

    def _on_prompt(self, prompt: UserMessage) -> None:
        self._unnamed += not prompt.uuid
        key = prompt.uuid or f"#{self._unnamed}"
        self._sent[key] = self._add(PromptSent, _read_time(prompt, self._at), id=key, content=prompt.content)
        if self._owns_turns:
            self._turns.note_sent(key)

    def _on_command_lifecycle(self, message: CommandLifecycleMessage) -> None:
        self._follow_turns(message)
        if message.state in ("completed", "cancelled", "discarded", "refused"):  # maybe without a turn of its own
            self._sent.pop(message.command_uuid, None)

    def _on_init(self, message: InitMessage) -> None:
        self._tools = frozenset({*message.tools, "Agent"}) if message.tools else self._tools
        self._follow_turns(message)
        if self._turn is None:
            self._announced_at = self._at

    def _follow_turns(
        self, message: object, at: float | None = None, status: TurnStatus = "ok", **ends: object
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
        for prompt in turn.answers:
            self._sent.pop(prompt, None)
        for call in [call for call in self._calls.values() if call.agent == MAIN or call.id in self._left]:
            del self._calls[call.id]  # its process or its task ended before it
            self._running.discard(call.id)
            self._denials.pop(call.id, None)
        self._left.clear()
        self._problem = self._stop_reason = None
        at, self._announced_at = self._at if self._announced_at is None else self._announced_at, None
        self._worked_at = at
        self._turn = self._add(
            TurnStarted,
            at,
            id=turn.id,
            run=turn.run,
            prompts=turn.answers,
            causes=tuple(map(self._tasks.find_run, turn.causes)),
            session_id=self._turns.session_id,
        )

    def _end_turn(self, turn: Turn, at: float | None, status: TurnStatus, **fields: object) -> None:
        self._turn = self._message = None
        status = self._problem or status
        is_silent = not turn.is_answered and (turn.is_uncounted or status == "ok")
        self._add(TurnEnded, at, id=turn.id, run=turn.run, status=status, is_silent=is_silent, **fields)

    def _on_result(self, message: ResultMessage) -> None:
        status: TurnStatus = "error" if message.is_error else "ok"
        if message.was_interrupted:
            status = "cancelled"
        models = {
            model: Spent(tokens=read_tokens(usage) or Tokens(), cost_usd=float(usage.cost_usd))
            for model, usage in (message.model_usage_since_last_result or {}).items()
        }
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
        if self._turns.current is None:
            self._announced_at = None
        self._add(StateChanged, self._at, state=message.state)

    def _on_malformed(self, frame: MalformedFrame) -> None:
        self._add(Fault, self._at, error=frame.error)
        self._follow_turns(frame, self._at, "error", error=frame.error)

    # Messages and calls

    def _on_assistant(self, message: AssistantMessage) -> None:
        at = self._at = _read_time(message, self._at)
        agent = self._find_agent(message)
        content = message.message
        error = (message.error or "unknown") if message.error is not None or message.is_api_error_message else None
        self._mark_running(message.parent_tool_use_id)
        if agent == MAIN:
            self._follow_turns(message)
            self._problem = self._problem or ("error" if error else None)
            self._stop_reason = "error" if message.is_api_error_message else content.stop_reason
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
            error=error,
            is_synthetic=content.model == SYNTHETIC_MODEL,
        )
        if agent == MAIN:
            self._message = None if added.is_synthetic else added
            self._worked_at = at
        names = {meta.id: meta.display_name for meta in message.tool_use_meta or ()}
        for block in message.tool_uses:
            if block.id not in self._calls:  # a replay repeats messages
                self._calls[block.id] = self._add(
                    CallStarted,
                    at,
                    id=block.id,
                    agent=agent,
                    call=block,
                    message=added.id,
                    parent_call=message.parent_tool_use_id,
                    subagent_type=message.subagent_type,
                    display_name=names.get(block.id, ""),
                    is_unlisted=bool(self._tools) and block.name not in self._tools,
                )

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

    def _mark_running(self, call: str | None) -> None:
        if call in self._calls and call not in self._running:
            self._running.add(call)
            self._add(CallRunning, self._at, id=call, agent=self._calls[call].agent)

    def _on_tool_progress(self, message: ToolProgressMessage) -> None:
        self._mark_running(message.tool_use_id)

    def _on_permission_denied(self, message: PermissionDeniedMessage) -> None:
        if message.tool_use_id in self._calls:
            reason = message.decision_reason_type
            self._denials[message.tool_use_id] = PermissionDecision(decision="reject", reason_type=reason)

    def _on_user(self, message: UserMessage) -> None:
        at = self._at = _read_time(message, self._at)
        agent = self._find_agent(message)
        if agent == MAIN:
            self._follow_turns(message)
            self._worked_at = at
        results = message.tool_results
        for block in results:
            call = self._calls.pop(block.tool_use_id, None)
            if call is not None:
                self._end_call(call, block, message, at)
        content = message.content
        if not isinstance(content, str):
            content = [block for block in content if type(block) is not ToolResultBlock]
        if content and not message.is_replay:
            self._add(InputAdded, at, id=message.uuid, agent=agent, content=content)
            if agent == MAIN and message.text.startswith(INTERRUPTED):
                self._problem = "cancelled"

    def _end_call(self, call: CallStarted, result: ToolResultBlock, message: UserMessage, at: float | None) -> None:
        meta = next((meta for meta in message.tool_result_meta or () if meta.id == call.id), None)
        permission = meta.permission_decision if meta is not None else None
        permission = permission or self._denials.pop(call.id, None)
        if result.is_error and permission is None:
            permission = _read_stored_decision(message)
        kind = meta.non_execution_kind if meta is not None else None
        self._running.discard(call.id)
        self._add(
            CallEnded,
            at,
            **{name: getattr(call, name) for name in _OF_CALLS},
            result=result,
            structured=_read_structured(message, result),
            status=get_call_status(result, permission, kind),
            permission=permission,
            non_execution_kind=kind,
            started_at=call.at,
        )

    # Tasks

    def _on_task(self, message: TaskMessage | BackgroundTasksChangedMessage) -> None:
        """Fold a message about a task. The ledger knows what it changes."""
        if isinstance(message, TaskStartedMessage):
            self._mark_running(message.tool_use_id)
        if self._follows:
            if isinstance(message, TaskNotificationMessage):
                self._tasks.add_late_report(message, self._at)
            return
        self._feed_ledger(signals.HANDLERS[type(message)], message)

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
            token, call = frame.request.progress_token, frame.request.tool_use_id
            if token is not None and call is not None:
                self._tokens = {key: known for key, known in self._tokens.items() if known in self._calls}
                self._tokens[frame.request.server_name, token] = call

    def _on_sent_request(self, frame: ControlRequest) -> None:
        """Add the progress that a server in this process reports for a call."""
        request = frame.request
        if isinstance(request, MCPMessageRequest) and request.message.get("method") == PROGRESS:
            given = request.message["params"]
            call = self._calls.get(self._tokens.get((request.server_name, given["progressToken"]), ""))
            if call is not None:
                about = {"progress": given["progress"], "total": given.get("total"), "text": given.get("message") or ""}
                self._add(CallProgressed, self._at, id=call.id, agent=call.agent, **about)


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
    ToolProgressMessage: Journal._on_tool_progress,
    PermissionDeniedMessage: Journal._on_permission_denied,
    TaskStartedMessage: Journal._on_task,
    TaskProgressMessage: Journal._on_task,
    TaskUpdatedMessage: Journal._on_task,
    TaskNotificationMessage: Journal._on_task,
    BackgroundTasksChangedMessage: Journal._on_task,
    list: lambda self, events: self._tasks.add(events, self._at),  # of a ledger
    ControlRequest: Journal._on_request,
    ControlCancelRequest: lambda self, frame: self._requests.settle(frame.request_id, None, self._at, "cancelled"),
    HookRun: lambda self, run: self._requests.add_run(run, self._at),
    HookStartedMessage: lambda self, message: self._requests.open_hook(message, self._at),
    HookResponseMessage: lambda self, message: self._requests.end_hook(message, self._at),
}
"""What the journal does with what the CLI sent."""
SENT: Final[Mapping[type, Callable[[Journal, Any], None]]] = {
    UserMessage: Journal._on_prompt,
    ControlResponse: lambda self, frame: self._requests.on_reply(frame, self._at),
    ControlRequest: Journal._on_sent_request,
}
"""What it does with what was sent to the CLI."""
_ABOUT_TASKS: Final = frozenset(
    {(kind, False) for kind in signals.HANDLERS if RECEIVED.get(kind) is not Journal._on_task}
    | {(ControlResponse, True)}
)
"""What the ledger needs although it is about more than tasks, and whether it was sent."""
_TOO_LARGE: Final = ("<persisted-output>", "Error: result (")
"""How the CLI's notes begin that stand for a result in a file."""
_OF_CALLS: Final = ("id", "agent", "call", "message", "parent_call", "subagent_type", "display_name", "is_unlisted")


def _read_time(message: AssistantMessage | UserMessage, at: float | None) -> float | None:
    return check_time(seconds(message.timestamp)) or at


def _read_structured(message: UserMessage, result: ToolResultBlock) -> object:
    """Return the result for programs. A hook that replaces an MCP tool's result replaces its structured content, too.

    The CLI replaces only the text that the model is shown, which is the structured content unless it is too large.
    """
    found = message.tool_use_result
    if len(message.tool_results) > 1:
        return None  # it could belong to any of them
    if not isinstance(found, Mapping) or "structuredContent" not in found:
        return found
    content = result.content or ()
    texts = [content] if isinstance(content, str) else [each.text for each in content if isinstance(each, TextBlock)]
    is_shown = any(text.startswith(_TOO_LARGE) or _is_json_of(text, found["structuredContent"]) for text in texts)
    return found if is_shown else found.get("content")


def _is_json_of(text: str, value: object) -> bool:
    try:
        return bool(msgspec.json.decode(text) == value)
    except (msgspec.DecodeError, RecursionError):
        return False


def _read_stored_decision(message: UserMessage) -> PermissionDecision | None:
    """Return the permission decision in an entry of a transcript."""
    decision = message.raw.get("permissionDecision")
    try:
        return None if decision is None else msgspec.convert(decision, PermissionDecision)
    except msgspec.ValidationError:
        return None


def get_call_status(
    result: ToolResultBlock | None, permission: PermissionDecision | None, non_execution_kind: str | None
) -> ToolCallStatus:
    """Return the status of a call with a result."""
    decision = permission.decision if permission is not None else ""
    text = result.text if result is not None and result.is_error else ""
    if non_execution_kind in _CANCELLED_KINDS or decision == "cancelled" or text.startswith(_CANCELLED):
        return ToolCallStatus.CANCELLED
    # A call that was refused has a decision as well.
    if permission is None and (non_execution_kind == "user-rejected" or text.startswith(REJECTED)):
        return ToolCallStatus.CANCELLED
    if non_execution_kind is not None or decision == "reject":
        return ToolCallStatus.DENIED
    return ToolCallStatus.FAILED if result is not None and result.is_error else ToolCallStatus.SUCCEEDED


def read_tokens(usage: Usage | ModelUsage | None) -> Tokens | None:
    """Convert the usage of a message or a model."""
    if usage is None:
        return None
    return Tokens(
        input=read_count(usage.input_tokens),
        output=read_count(usage.output_tokens),
        cache_read=read_count(usage.cache_read_input_tokens),
        cache_write=read_count(usage.cache_creation_input_tokens),
    )
